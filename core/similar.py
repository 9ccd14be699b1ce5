"""What was meant by a name that does not exist: the known names most like it, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from core.text import some_names

# The caller chooses the name, and comparing costs more than the product of both lengths.
_LONGEST = 200
_MOST_COMPARED = 2_000
_MOST_LIKE = 3
_CUTOFF = 0.6


def most_like(name: str, known: Iterable[str], most: int = _MOST_LIKE, cutoff: float = _CUTOFF) -> list[str]:
    """The known names that are like this one, the most alike first; case is ignored.

    `cutoff` is the least likeness, from 0 to 1.
    """
    if len(name) > _LONGEST:
        return []
    among = [one for one, _ in zip(known, range(_MOST_COMPARED), strict=False) if len(one) <= _LONGEST]
    folded: dict[str, str] = {}
    for one in among:
        folded.setdefault(one.casefold(), one)
    return [folded[one] for one in difflib.get_close_matches(name.casefold(), folded, most, cutoff)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`Did you mean lab-1 or lab-2?`; empty where no known name is like it."""
    near = most_like(name, known)
    return f"Did you mean {' or '.join(near)}?" if near else ""


def meant_or_known(name: str, known: Iterable[str], heading: str) -> str:
    """`Did you mean lab-1? Devices: lab-1, lab-2 and 7 more`: what was meant, and what there is."""
    names = list(known)
    return " ".join(filter(None, (did_you_mean(name, names), f"{heading}: {some_names(names)}")))

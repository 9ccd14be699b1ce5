"""Words that are longer than their place is wide: with places where a line may end."""

from __future__ import annotations

import re
import unicodedata

from core.text import without_override

BREAK = "\N{ZERO WIDTH SPACE}"
# So many of the widest letters have room everywhere.
LONGEST = 16
_LONG = re.compile(rf"\S{{{LONGEST + 1},}}")
_PARTS = re.compile(r"[^-_./:,;@\\]*[-_./:,;@\\]|[^-_./:,;@\\]+")


def breakable(text: str) -> str:
    """The text with places in its long words where a line may end: after signs, or anywhere if need be."""
    return _LONG.sub(lambda found: BREAK.join(map(_part, _PARTS.findall(found[0]))), text)


def whole(text: str) -> str:
    """What `breakable` was given, as it is copied, also of a text that a label shows."""
    return without_override(text.replace(BREAK, ""))


def _part(part: str) -> str:
    if len(part) <= LONGEST:
        return part
    return "".join(part[:1]) + "".join(sign if _clings(sign) else BREAK + sign for sign in part[1:])


def _clings(sign: str) -> bool:
    """Whether a sign belongs to the one before it."""
    return unicodedata.combining(sign) > 0 or unicodedata.category(sign) in ("Mn", "Me", "Cf")

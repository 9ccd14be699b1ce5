"""The search for controls by role and name: what fits, what is nearest, and the one that a call means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from core.controls import SHOWING, Named, fitting, folded
from core.errors import BadInput, ErrorCode

_CANDIDATES = 10
_LONGEST_NAME = 100
# Added to the likeness of two names, which is between 0 and 100.
_SAME_ROLE, _ON_SCREEN = 25.0, 10.0
_PART = 0.9
_LEAST_LIKENESS = 30.0


class Placed(Protocol):
    """A box on the screen."""

    @property
    def x(self) -> int: ...
    @property
    def y(self) -> int: ...


class Identified(Named, Protocol):
    """A control that can be listed in an error."""

    @property
    def id(self) -> str: ...
    @property
    def box(self) -> Placed | None: ...


Control = TypeVar("Control", bound=Identified)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A role, a name or both; at least one is given."""

    role: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return str(self.role) if self.name is None else f"{self.role or 'control'} {self.name!r}"

    def fitting(self, controls: Iterable[Control]) -> list[Control]:
        """See `core.controls.fitting`."""
        return fitting(controls, self.role, self.name)


@dataclass(frozen=True, slots=True)
class Found(Generic[Control]):
    """The result of a search. `nearest` has what is most like it, if nothing fits.

    `is_complete`: every control was read that could fit. `not_answering`: programs that could not be read.
    """

    wanted: Wanted
    controls: Sequence[Control]
    nearest: Sequence[Control] = ()
    is_complete: bool = True
    not_answering: Sequence[str] = field(default_factory=tuple)


def nearest(controls: Iterable[Control], wanted: Wanted, most: int = _CANDIDATES) -> list[Control]:
    """The controls that are most like a wanted one, the likest first; one for each role and name."""
    # Not needed for a search that finds its control.
    from rapidfuzz import fuzz

    name = None if wanted.name is None else folded(wanted.name)
    ranked: list[tuple[float, int, Control]] = []
    known: set[tuple[str, str]] = set()
    # Those on the screen first, so that they stand for others of the same name.
    everything = sorted(controls, key=lambda one: SHOWING not in one.states)
    for number, control in enumerate(everything):
        own = folded(control.name)
        if not own or (control.role, own) in known:
            continue
        known.add((control.role, own))
        same_role = wanted.role is not None and control.role.lower() == wanted.role.lower()
        if name is None:
            likeness = fuzz.ratio(control.role, wanted.role or "")
        else:
            likeness = max(fuzz.ratio(own, name), _PART * fuzz.partial_ratio(own, name))
        if likeness < _LEAST_LIKENESS and not same_role:
            continue
        rank = likeness + _SAME_ROLE * same_role + _ON_SCREEN * (SHOWING in control.states)
        ranked.append((-rank, number, control))
    return [control for _, _, control in sorted(ranked, key=lambda one: one[:2])[:most]]


def the_one(found: Found[Control]) -> Control:
    """The only control that fits.

    Raises:
        BadInput: none or several fit; the message lists at most ten that fit or are nearest, and the programs
            that did not answer.
    """
    if len(found.controls) == 1:
        return found.controls[0]
    if not found.controls:
        # Nothing can be said of what a program has that tells nothing.
        is_silent = bool(found.not_answering) and not found.nearest
        code = ErrorCode.PROGRAM_NOT_ANSWERING if is_silent else ErrorCode.CONTROL_NOT_FOUND
        raise BadInput(not_there(found), code)
    listed = "; ".join(listed_text(one) for one in found.controls[:_CANDIDATES])
    raise BadInput(
        f"{len(found.controls)} controls fit {found.wanted}; use control_id with one of: {listed}.",
        ErrorCode.CONTROL_AMBIGUOUS,
    )


def not_there(found: Found[Control]) -> str:
    """The sentences that say that nothing fits: what is nearest, and what was not read."""
    listed = "; ".join(listed_text(one) for one in found.nearest[:_CANDIDATES])
    programs = ", ".join(found.not_answering)
    words = f"No {found.wanted} is there"
    if listed:
        words += f". The nearest: {listed}"
    elif not programs:
        words += ". There is nothing like it"
    if programs:
        words += f". Not read, because it does not answer: {programs}"
    elif not found.is_complete:
        words += ". Not every control was read: give a window_id, or use get_ui_tree with below"
    return words


def listed_text(control: Identified) -> str:
    """A control as an error lists it: role, name, place and id."""
    place = f" at {control.box.x},{control.box.y}" if control.box else ""
    hidden = "" if SHOWING in control.states else ", not showing"
    return f"{control.role} {control.name[:_LONGEST_NAME]!r}{place}{hidden} ({control.id})"

"""Which control on a screen a call means: one rule for the device, the freshness check and the card.

A call names a control by its id, or by a program with a role, a name or both. The device reads the program's
controls within `SEARCHED` and takes the only one that fits (`fitting`). The freshness check and the card read
as far and ask the same function, so that what is compared and shown is what is pressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from core.errors import BadInput

SHOWING = "showing"
PROGRAM_NAMES = ("process_name", "app_root_name")
"""The arguments by which a call of a desktop tool names a program: ours, and the one of UFO's agents."""


class Reach(NamedTuple):
    """How far a program's controls are read: levels below the program, and controls in all."""

    depth: int
    nodes: int


SEARCHED = Reach(depth=40, nodes=5_000)
# An id means its control wherever that is: as far down as an answer may be nested (100 levels of JSON, of
# which a level of controls takes two), and as many as `get_ui_tree` gives.
FURTHEST = Reach(depth=45, nodes=10_000)


class Named(Protocol):
    """What a control is told by."""

    @property
    def role(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def states(self) -> Sequence[str]: ...


Control = TypeVar("Control", bound=Named)


def fitting(controls: Iterable[Control], role: str | None, name: str | None) -> list[Control]:
    """The controls with a role and a name; those that are not showing only where no other one fits.

    Case does not count, nor how much white space there is in a name.
    """
    fit = [
        control
        for control in controls
        if (role is None or control.role.lower() == role.lower())
        and (name is None or folded(control.name) == folded(name))
    ]
    return [control for control in fit if SHOWING in control.states] or fit


def folded(name: str) -> str:
    """A control's name as names are compared."""
    return " ".join(name.split()).casefold()


@dataclass(frozen=True, slots=True)
class Node:
    """A control in a result of `get_ui_tree`. `box` is as the device wrote it."""

    id: str
    role: str
    name: str
    states: tuple[str, ...]
    box: Any


def meant(tree: Any, parameters: Mapping[str, Any]) -> list[Node]:
    """The controls that a call can mean, in a result of `get_ui_tree` for the program that it names.

    One is the target; none or several mean that the device would refuse the call.
    """
    control_id, role, name = (parameters.get(key) for key in ("control_id", "role", "name"))
    if isinstance(control_id, str):
        return [node for node in _nodes(tree) if node.id == control_id]
    if not isinstance(name, str | None) or not isinstance(role, str | None):
        return []
    if name is None and role is None:
        return []
    return fitting(_nodes(tree), role, name)


def programs_named(parameters: Mapping[str, Any]) -> list[Any]:
    """What a call names as its program, under each of the two names; the same value once.

    More than one mean that the call contradicts itself, and that `program_of` refuses it.
    """
    named: list[Any] = []
    for key in PROGRAM_NAMES:
        if key in parameters and parameters[key] not in named:
            named.append(parameters[key])
    return named


def program_of(parameters: Mapping[str, Any]) -> str | None:
    """The program that a call names; None where it names none.

    Raises:
        BadInput: it names two different programs, or something that is no text.
    """
    named = programs_named(parameters)
    if len(named) > 1:
        raise BadInput(
            f"{' and '.join(PROGRAM_NAMES)} mean the same program; they differ here. Give one of them."
        )
    if named and not isinstance(named[0], str):
        raise BadInput(f"{' or '.join(PROGRAM_NAMES)} is the name of a program.")
    return named[0] if named else None


def search_for(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the `get_ui_tree` that shows what a call can mean.

    Raises:
        BadInput: the call names two different programs; see `program_of`.
    """
    reach = FURTHEST if "control_id" in parameters else SEARCHED
    scope = {"depth": reach.depth, "max_nodes": reach.nodes}
    program = program_of(parameters)
    return scope | ({"process_name": program} if program is not None else {})


def _nodes(tree: Any) -> Iterator[Node]:
    """Every control of a tree, whatever a device may have written there instead."""
    rest = list(_listed(tree.get("tree"))) if isinstance(tree, dict) else []
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            states = (state for state in _listed(node.get("states")) if isinstance(state, str))
            name, role = _text(node.get("name")), _text(node.get("role"))
            yield Node(_text(node.get("id")), role, name, tuple(states), node.get("box"))
            rest.extend(_listed(node.get("children")))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

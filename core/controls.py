"""Resolution of a call's target control, shared by the device, the freshness check and the approval card.

A call names a control by its id, or by a program with a role, a name or both. The device reads the program's
controls within `SEARCHED` and uses the only match (`fitting`). The freshness check and the card read to the
same limits and use the same function, so that the control that is compared and shown is the control pressed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from core.errors import BadInput

SHOWING = "showing"
_WINDOW, _BY_ID = "window_id", "control_id"
_TARGET = (_BY_ID, "role", "name")
PROGRAM_NAMES = ("process_name", "app_root_name")
"""The arguments of a desktop tool's call that name a program: Quarterdeck's, and that of UFO's agents."""


class Reach(NamedTuple):
    """Limits for reading a program's controls: levels below the program, and controls in total."""

    depth: int
    nodes: int


SEARCHED = Reach(depth=40, nodes=5_000)
# For a control named by its id, which may be anywhere: the depth that an answer may have (100 levels of JSON,
# two per level of controls), and the most controls that `get_ui_tree` returns.
FURTHEST = Reach(depth=45, nodes=10_000)


class Named(Protocol):
    """The properties by which a control is matched."""

    @property
    def role(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def states(self) -> Sequence[str]: ...


Control = TypeVar("Control", bound=Named)


# A label has the name of its field, and a cell that of the button in it.
PASSIVE = frozenset(
    "label|static|caption|heading|paragraph|section|panel|filler|table cell|table row|row header".split("|")
)


def fitting(controls: Iterable[Control], role: str | None, name: str | None) -> list[Control]:
    """The controls that match a role and a name; controls that are not showing only if no other matches.

    Case and the amount of white space in a name are ignored. Without a role, labels and cells match only if
    no other control does.
    """
    fit = [
        control
        for control in controls
        if (role is None or control.role.lower() == role.lower())
        and (name is None or folded(control.name) == folded(name))
    ]
    fit = [control for control in fit if SHOWING in control.states] or fit
    if role is None and name:
        fit = [control for control in fit if control.role not in PASSIVE] or fit
    return fit


def folded(name: str) -> str:
    """A control's name, normalised for comparison."""
    return " ".join(name.split()).casefold()


@dataclass(frozen=True, slots=True)
class Node:
    """A control in a result of `get_ui_tree`. `box` is as the device wrote it."""

    id: str
    role: str
    name: str
    states: tuple[str, ...]
    box: Any


def program_text(pid: int, windows: Iterable[str]) -> str:
    """A program by the id of its first process and the titles of its windows."""
    titles = ", ".join(f"“{title}”" for title in windows)
    return f"process {pid} with the window {titles}" if titles else f"process {pid}"


def several_programs(name: str, count: int, programs: Sequence[str]) -> str:
    """The error for a name that fits several programs, which are listed as `program_text` has them."""
    return f"{count} programs are called {name!r}: {'; '.join(programs)}. Give the pid of the one to close"


def meant(tree: Any, parameters: Mapping[str, Any]) -> list[Node]:
    """The controls that match a call's target, in a result of `get_ui_tree` for the program that it names.

    A single match is the target. Without a match, or with several, the device would refuse the call.
    """
    control_id, role, name = (parameters.get(key) for key in ("control_id", "role", "name"))
    if not all(isinstance(value, str | None) for value in (control_id, role, name)):
        return []
    if control_id is not None:
        return [node for node in _nodes(tree) if node.id == control_id]
    if name is None and role is None:
        return []
    return fitting(_nodes(tree), role, name)


def is_complete(tree: Any) -> bool:
    """Whether a result of `get_ui_tree` says that every control within its limits was read."""
    return isinstance(tree, dict) and tree.get("truncated") is False


def programs_named(parameters: Mapping[str, Any]) -> list[Any]:
    """The distinct values of a call's program arguments (`PROGRAM_NAMES`).

    With more than one value the call contradicts itself, and `program_of` refuses it.
    """
    named: list[Any] = []
    for key in PROGRAM_NAMES:
        if key in parameters and parameters[key] not in named:
            named.append(parameters[key])
    return named


def program_of(parameters: Mapping[str, Any]) -> str | None:
    """The program that a call names, or None.

    Raises:
        BadInput: the call names two different programs, or the value is not a string.
    """
    named = programs_named(parameters)
    if len(named) > 1:
        raise BadInput(
            f"{' and '.join(PROGRAM_NAMES)} mean the same program; they differ here. Give one of them."
        )
    if named and not isinstance(named[0], str):
        raise BadInput(f"{' or '.join(PROGRAM_NAMES)} is the name of a program.")
    return named[0] if named else None


def search_for(parameters: Mapping[str, Any], takes: Container[str] = ()) -> dict[str, Any]:
    """The arguments of the `get_ui_tree` call that returns all controls which can match a call's target.

    `takes`: the arguments that the device's tool takes. An earlier device client cannot search: it returns
    everything that it would search.

    Raises:
        BadInput: the call names two different programs; see `program_of`.
    """
    reach = SEARCHED if parameters.get("control_id") is None else FURTHEST
    program = program_of(parameters)
    scope = {} if program is None else {"process_name": program}
    if _WINDOW in takes and isinstance(parameters.get(_WINDOW), str):
        # A window is more exact than its program, and the device takes only one of both.
        scope = {_WINDOW: parameters[_WINDOW]}
    target = {key: parameters[key] for key in _TARGET if isinstance(parameters.get(key), str)}
    if all(key in takes for key in _TARGET) and target:
        if _BY_ID in target:
            return {_BY_ID: target[_BY_ID]}
        return scope | target
    return scope | {"depth": reach.depth, "max_nodes": reach.nodes}


def _nodes(tree: Any) -> Iterator[Node]:
    """Every control of a tree; malformed parts of a device's answer are skipped."""
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

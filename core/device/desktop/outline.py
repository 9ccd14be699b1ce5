"""The controls of programs as `get_ui_tree` returns them: short, in the order of the screen, within a size.

An outline leaves out what a reader can do without: controls that are not on the screen, containers without
a name (their children take their place), empty cells, and what nearly every control has in common. What was
left out is counted, with the argument that returns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from core.controls import SHOWING
from core.device.desktop.interface import PROTECTED, Box, Control, Tree

MOST_BYTES = 18_000
"""The size of an outline where the call names none."""
_LONGEST_VALUE = 200
_MOST_CHILDREN = 10_000
_CONTAINERS = frozenset(
    "panel|filler|section|scroll pane|viewport|layered pane|root pane|glass pane|split pane|grouping|"
    "redundant object|unknown|invalid|block quote|form|landmark|embedded|generic|paragraph|table row|"
    "table row group|article|content deletion|content insertion|internal frame|extended|html container".split(
        "|"
    )
)
_ORNAMENTS = frozenset(("separator", "redundant object", "static", "label", "image", "icon", "text leaf"))
_TEXTS = frozenset(("static", "label", "text leaf", "caption"))
_CELLS = frozenset(("table cell",))
_TELLING = frozenset(
    "active|armed|busy|checked|collapsed|editable|expanded|expandable|focused|has popup|indeterminate|"
    "invalid entry|is default|modal|multi line|pressed|protected|read only|required|selected".split("|")
)
_ENABLED = ("enabled", "sensitive")
# Of containers, these states tell that they are more than that.
_ACTIVE = frozenset(("focused", "focusable", "editable", "selected", "checked", "expandable"))


@dataclass(slots=True)
class LeftOut:
    """The omissions of an outline, by kind."""

    not_showing: int = 0
    containers: int = 0
    empty_cells: int = 0
    ornaments: int = 0
    shortened: int = 0

    def as_rows(self) -> list[dict[str, Any]]:
        """The kinds that there are, each with the arguments that return it."""
        rows = (
            (
                self.not_showing,
                "controls that are not on the screen, such as closed menus, with what is below them",
                "showing=false, or role and name",
            ),
            (self.shortened, "controls, to keep the answer short", "below with a control's id, or max_bytes"),
            (self.containers, "containers without a name; their children are listed", "detail=full"),
            (self.empty_cells, "empty cells", "detail=full, or name with the cell's name"),
            (self.ornaments, "separators, images and texts that repeat a name", "detail=full"),
        )
        return [{"count": count, "what": what, "how": how} for count, what, how in rows if count]


@dataclass(slots=True)
class _Node:
    """A control of an outline: what is written of it alone, its size in bytes, and what is below it."""

    fields: dict[str, Any]
    size: int
    process_id: int
    children: list[_Node] = field(default_factory=list)
    shortened: int = 0


def tree_as_dict(tree: Tree, *, showing: bool, brief: bool, max_bytes: int) -> dict[str, Any]:
    """The result of `get_ui_tree` for controls that were read."""
    left_out = LeftOut()
    roots = [_on_screen(root, left_out) for root in tree.roots] if showing else tree.roots
    for root in roots:
        _order(root)
    nodes = [_Outliner(left_out, brief).root(root) for root in roots]
    kept = _shortest(nodes, max_bytes)
    left_out.shortened = sum(_shorten(node, kept) for node in nodes) if kept is not None else 0
    return {
        "tree": [_written(node, None, brief) for node in nodes],
        "nodes": sum(_count(node) for node in nodes),
        "truncated": tree.truncated,
        "not_answering": list(tree.not_answering),
        "left_out": left_out.as_rows(),
    }


def in_reading_order(controls: Sequence[Control]) -> list[Control]:
    """Controls by rows from the top, each row from the left; unchanged where a place is not known."""
    placed = [(one, one.box) for one in controls if one.box is not None]
    if len(placed) < len(controls):
        return list(controls)
    rows: list[tuple[Box, list[tuple[Control, Box]]]] = []
    for control, box in sorted(placed, key=lambda one: one[1].y):
        if rows and _in_one_row(rows[-1][0], box):
            rows[-1][1].append((control, box))
        else:
            rows.append((box, [(control, box)]))
    return [control for _, row in rows for control, _ in sorted(row, key=lambda one: one[1].x)]


def _in_one_row(first: Box, box: Box) -> bool:
    shared = min(first.y + first.height, box.y + box.height) - max(first.y, box.y)
    return 2 * shared >= max(first.height, box.height)


def _order(control: Control) -> None:
    # A program lists its windows in its own order, and their places do not order them.
    if control.role != "application":
        control.children = in_reading_order(control.children)
    for child in control.children:
        _order(child)


def _on_screen(control: Control, left_out: LeftOut) -> Control:
    """The control without what is not on the screen, which is counted."""
    kept = []
    for child in control.children:
        below = _on_screen(child, left_out)
        # A control's container may lack the state.
        if SHOWING in child.states or below.children:
            kept.append(below)
        else:
            control.not_showing += 1
    control.children = kept
    left_out.not_showing += control.not_showing
    return control


class _Outliner:
    """Makes the nodes of an outline; `brief` leaves out what a reader can do without."""

    def __init__(self, left_out: LeftOut, brief: bool) -> None:
        self._left_out = left_out
        self._brief = brief

    def root(self, control: Control) -> _Node:
        """The node of a program, with all below it."""
        node = self._node(control)
        node.children = self._below(control)
        return node

    def _below(self, control: Control) -> list[_Node]:
        found: list[_Node] = []
        for child in self._children(control):
            node = self._node(child)
            node.children = self._below(child)
            found.append(node)
        return found

    def _children(self, control: Control) -> list[Control]:
        if not self._brief:
            return control.children
        found: list[Control] = []
        is_hoisted = False
        for child in control.children:
            if _is_container(child):
                self._left_out.containers += 1
                hoisted = self._children(child)
                is_hoisted = is_hoisted or bool(hoisted)
                found.extend(hoisted)
            elif _is_empty_cell(child):
                self._left_out.empty_cells += 1
            elif _is_ornament(child, control):
                self._left_out.ornaments += 1
            else:
                found.append(child)
        return in_reading_order(found) if is_hoisted and control.role != "application" else found

    def _node(self, control: Control) -> _Node:
        fields = _brief_fields(control) if self._brief else _full_fields(control)
        return _Node(fields, len(orjson.dumps(fields)) + 14, control.process_id)


def node_as_dict(control: Control) -> dict[str, Any]:
    """A control alone with everything that is known about it, as a search returns it."""
    return {**_full_fields(control), "process_id": control.process_id, "children": []}


def brief_node(control: Control) -> dict[str, Any]:
    """A control alone in short."""
    return {**_brief_fields(control), "process_id": control.process_id}


def _full_fields(control: Control) -> dict[str, Any]:
    fields = control.as_dict(deep=False)
    for key in ("children", "process_id"):
        fields.pop(key, None)
    return fields


def _brief_fields(control: Control) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": control.id, "role": control.role, "name": control.name}
    value = None if PROTECTED in control.states else control.value
    if isinstance(value, str):
        cut = value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 1] + "…"
        if cut and cut != control.name:
            fields["value"] = cut
    elif value is not None:
        fields["value"] = value
    if states := _brief_states(control):
        fields["states"] = states
    if (box := control.box) is not None:
        fields["at"] = [box.x, box.y, box.width, box.height]
    for key, told in (("truncated", control.truncated), ("not_showing", control.not_showing)):
        if told:
            fields[key] = told
    return fields


def _brief_states(control: Control) -> list[str]:
    states = [state for state in control.states if state in _TELLING]
    if control.role == "application":
        return states
    if not any(state in control.states for state in _ENABLED):
        states.append("disabled")
    if SHOWING not in control.states:
        states.append("not showing")
    return states


def _is_container(control: Control) -> bool:
    has_text = bool(control.name.strip()) or control.value not in (None, "", "\ufffc")
    return (
        control.role in _CONTAINERS
        and not has_text
        and not control.takes_text
        and _ACTIVE.isdisjoint(control.states)
        and not control.truncated
        and PROTECTED not in control.states
    )


def _is_empty_cell(control: Control) -> bool:
    return (
        control.role in _CELLS
        and control.value in (None, "")
        and not control.children
        and (control.value == "" or not control.name.strip())
        and "focused" not in control.states
    )


def _is_ornament(control: Control, parent: Control) -> bool:
    if control.role == "separator":
        return True
    if control.role not in _ORNAMENTS or control.children or not _ACTIVE.isdisjoint(control.states):
        return False
    if not control.name.strip() and control.value in (None, ""):
        return True
    return control.role in _TEXTS and control.name == parent.name


def _shortest(nodes: Sequence[_Node], max_bytes: int) -> int | None:
    """How many children of each control may stay, at least one; None for all."""
    if sum(_size(node, None) for node in nodes) <= max_bytes:
        return None
    fits, too_many = 1, _MOST_CHILDREN
    while too_many - fits > 1:
        most = (fits + too_many) // 2
        if sum(_size(node, most) for node in nodes) <= max_bytes:
            fits = most
        else:
            too_many = most
    return fits


def _size(node: _Node, most: int | None) -> int:
    return node.size + sum(_size(child, most) for child in _kept(node.children, most))


def _kept(children: list[_Node], most: int | None) -> list[_Node]:
    if most is None or len(children) <= most:
        return children
    # What is in use is worth more than its place in the list.
    in_use = [one for one in children[most:] if not _USED.isdisjoint(one.fields.get("states", ()))]
    return [*children[: max(0, most - len(in_use))], *in_use][:most]


_USED = frozenset(("focused", "selected", "active"))


def _shorten(node: _Node, most: int) -> int:
    kept = _kept(node.children, most)
    node.shortened = len(node.children) - len(kept)
    lost = sum(_count(child) for child in node.children) - sum(_count(child) for child in kept)
    node.children = kept
    return lost + sum(_shorten(child, most) for child in kept)


def _count(node: _Node) -> int:
    return 1 + sum(_count(child) for child in node.children)


def _written(node: _Node, process_id: int | None, brief: bool) -> dict[str, Any]:
    written = dict(node.fields)
    if not brief or node.process_id != process_id:
        written["process_id"] = node.process_id
    children = [_written(child, node.process_id, brief) for child in node.children]
    if children or not brief:
        written["children"] = children
    if node.shortened:
        written["left_out"] = node.shortened
    return written

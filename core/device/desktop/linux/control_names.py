"""Names controls that their programs leave without a name, as a person at the screen would name them.

In this order: the label that the program relates to the control, the placeholder or the description (the tool
tip), the name of the group that has only this control, the label to the left of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Iterable, Sequence

from core.controls import SHOWING
from core.device.desktop.interface import Control
from core.device.desktop.linux.atspi import AccessibilityBus, Gone, NotSupported, Ref
from core.device.desktop.linux.atspi_constants import ACCESSIBLE
from core.device.desktop.linux.coordinates import Extents, extents_of

FIELDS = frozenset(
    "text|entry|password text|spin button|combo box|slider|date editor|dial|autocomplete|edit bar".split("|")
)
"""Roles of controls that take a value."""
BUTTONS = frozenset("push button|toggle button|check box|radio button|menu button".split("|"))
"""Roles of controls that are pressed."""
_OTHERS = frozenset(("list", "tree", "table", "tree table", "page tab", "link", "icon", "image"))
_GROUPS = frozenset(("panel", "filler", "combo box", "tool bar", "grouping"))
_LABELS = frozenset(("label", "static", "caption"))
_LABEL_FOR, _LABELLED_BY = 1, 2
_MOST_LABELS = 100
_LONGEST = 200
# A text area is as high as several labels, and the label to its left may belong to something else.
_MOST_LABEL_HEIGHTS = 4
_TAG = re.compile(r"<[^<>]{1,200}>")
_GONE_OR_UNKNOWN = (Gone, NotSupported)


def wants_name(control: Control) -> bool:
    """Whether a control on the screen has no name, and is of a kind that people call by a name."""
    kinds = FIELDS | BUTTONS | _OTHERS
    return not control.name.strip() and control.role in kinds and SHOWING in control.states


async def own_name(bus: AccessibilityBus, ref: Ref) -> str:
    """A name for a control without one, from what the program says about this control; empty for none.

    Raises:
        Silent: its program hangs.
    """
    try:
        labels = await _related(bus, ref, _LABELLED_BY)
        names = await asyncio.gather(*(_name(bus, label) for label in labels))
        if name := _clean(" ".join(names)):
            return name
        attributes, description = await asyncio.gather(
            _attributes(bus, ref), _or_empty(bus.get(ref, ACCESSIBLE, "Description"))
        )
    except Gone:
        return ""
    return _clean(attributes.get("placeholder-text") or attributes.get("placeholder") or str(description))


async def name_by_program(bus: AccessibilityBus, controls: Sequence[Control]) -> None:
    """Name those of some controls that have no name by what their program says about each.

    Raises:
        Silent: the program hangs.
    """
    nameless = [control for control in controls if wants_name(control)]
    names = await asyncio.gather(*(own_name(bus, bus.ref_of(one.id)) for one in nameless))
    for control, name in zip(nameless, names, strict=True):
        control.name = name


async def name_by_surroundings(bus: AccessibilityBus, root: Control, coordinates: int) -> None:
    """Name the controls below `root` that have no name by the labels and groups around them.

    Raises:
        Silent: the program hangs.
    """
    everything = list(_walk([root]))
    await _name_by_labels(bus, everything)
    _name_by_group(root)
    await asyncio.gather(
        *(
            _name_by_place(bus, control, coordinates)
            for control in everything
            if any(child.role in FIELDS and wants_name(child) for child in control.children)
        )
    )


async def _name_by_labels(bus: AccessibilityBus, everything: Sequence[Control]) -> None:
    """Follow the relation from the label, which some programs state at that end only."""
    labels = [one for one in everything if one.role in _LABELS and one.name.strip()][:_MOST_LABELS]
    targets = await asyncio.gather(*(_related(bus, bus.ref_of(one.id), _LABEL_FOR) for one in labels))
    by_id = {bus.id_of(ref): label.name for label, refs in zip(labels, targets, strict=True) for ref in refs}
    for control in everything:
        if not control.name.strip() and control.id in by_id:
            control.name = _clean(by_id[control.id])


def _name_by_group(control: Control) -> tuple[list[Control], bool]:
    """Give a group's name to the only control in it.

    Returns the controls below `control` that have no name, and whether others there have one.
    """
    nameless: list[Control] = []
    others = False
    for child in control.children:
        below, has_name = _name_by_group(child)
        nameless.extend(below)
        others = others or has_name
    if control.role in FIELDS | BUTTONS and not control.children:
        return ([], True) if control.name.strip() else ([control], False)
    if control.role in _GROUPS and control.name.strip() and nameless and not others:
        fields = [one for one in nameless if one.role in FIELDS]
        # A combo box is a field and the button that opens its list.
        only = fields if len(fields) == 1 else nameless
        if len(only) == 1:
            only[0].name = control.name
        return [], True
    return nameless, others


async def _name_by_place(bus: AccessibilityBus, parent: Control, coordinates: int) -> None:
    """Give each field the text of the label to its left in the same row, with nothing between them."""
    shown = [child for child in parent.children if SHOWING in child.states]
    if any(child.box is not None for child in shown):
        places = [_extents_in(child) for child in shown]
    else:
        places = await asyncio.gather(*(_extents(bus, child, coordinates) for child in shown))
    placed = [(child, place) for child, place in zip(shown, places, strict=True) if place is not None]
    for field, place in placed:
        if field.role not in FIELDS or not wants_name(field):
            continue
        before = [(other, at) for other, at in placed if other is not field and _is_left_of(at, place)]
        if not before:
            continue
        nearest, at = max(before, key=lambda one: one[1][0] + one[1][2])
        is_label = nearest.role in _LABELS and nearest.name.strip()
        if is_label and place[3] <= _MOST_LABEL_HEIGHTS * at[3]:
            field.name = _clean(nearest.name)


def _is_left_of(one: Extents, other: Extents) -> bool:
    shared = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    return one[0] + one[2] <= other[0] + 2 and 2 * shared >= min(one[3], other[3])


def _extents_in(control: Control) -> Extents | None:
    box = control.box
    return None if box is None else (box.x, box.y, box.width, box.height)


async def _extents(bus: AccessibilityBus, control: Control, coordinates: int) -> Extents | None:
    with contextlib.suppress(*_GONE_OR_UNKNOWN):
        found = await extents_of(bus, bus.ref_of(control.id), coordinates)
        return found if min(found[2:]) > 0 else None
    return None


async def _related(bus: AccessibilityBus, ref: Ref, relation: int) -> list[Ref]:
    try:
        (told,) = await bus.call(ref, ACCESSIBLE, "GetRelationSet")
    except _GONE_OR_UNKNOWN:
        return []
    found = [target for kind, targets in told if kind == relation for target in targets[:3]]
    return list(dict.fromkeys(Ref(str(name), str(path)) for name, path in found))


async def _attributes(bus: AccessibilityBus, ref: Ref) -> dict[str, str]:
    try:
        (told,) = await bus.call(ref, ACCESSIBLE, "GetAttributes")
    except NotSupported:
        return {}
    return {str(key): str(value) for key, value in told.items()}


async def _name(bus: AccessibilityBus, ref: Ref) -> str:
    with contextlib.suppress(Gone):
        return str(await _or_empty(bus.get(ref, ACCESSIBLE, "Name")))
    return ""


async def _or_empty(asked: Awaitable[object]) -> object:
    try:
        return await asked
    except NotSupported:
        return ""


def _clean(name: str) -> str:
    # Tool tips of Qt may be HTML.
    return " ".join(_TAG.sub(" ", name).split())[:_LONGEST]


def _walk(controls: Iterable[Control]) -> Iterable[Control]:
    for control in controls:
        yield control
        yield from _walk(control.children)

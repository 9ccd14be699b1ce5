"""Which control is meant: what is compared and shown is what the device presses."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from core.controls import FURTHEST, SEARCHED, meant, search_for
from core.device.desktop.interface import Bounds, Box, Control, NoDesktop, Scope, Tree
from core.device.desktop.ui_tools import UiTools, the_one
from core.device.observations import ObservationStore
from core.device.tool import ToolCall
from core.device.tools import ui
from core.errors import BadInput

NAMES = ["Save", "save", " Save", "SAVE ", "Save  as", "save as", "Straße", "STRASSE", "", "Open"]
ROLES = ["button", "Button", "frame", "push button"]
STATES: list[tuple[str, ...]] = [(), ("showing",), ("enabled", "showing"), ("visible",)]
numbers = itertools.count()


def controls(depth: int = 3) -> some.SearchStrategy[Control]:
    children = some.lists(controls(depth - 1), max_size=3) if depth else some.just([])
    return some.builds(
        lambda role, name, states, below: Control(
            f"c{next(numbers)}", role, name, 1, states=states, box=Box(0, 0, 5, 5), children=below
        ),
        some.sampled_from(ROLES),
        some.sampled_from(NAMES),
        some.sampled_from(STATES),
        children,
    )


@given(
    some.lists(controls(), max_size=3),
    some.none() | some.sampled_from(ROLES),
    some.none() | some.sampled_from(NAMES),
)
def test_the_device_presses_exactly_what_is_compared(
    roots: list[Control], role: str | None, name: str | None
):
    named = {key: value for key, value in (("role", role), ("name", name)) if value is not None}
    fit = meant({"tree": [root.as_dict() for root in roots]}, named)
    if not named:
        assert fit == []
        return
    try:
        pressed = the_one(Tree(roots), role, name)
    except BadInput:
        assert len(fit) != 1
    else:
        assert [node.id for node in fit] == [pressed.id]


def test_an_id_is_enough_and_nothing_else_counts_beside_it():
    inner = {"id": "1/2", "role": "button", "name": "Save", "children": []}
    tree = {"tree": [{"id": "1", "role": "frame", "name": "", "children": [inner]}]}
    assert [one.name for one in meant(tree, {"control_id": "1/2", "name": "Open"})] == ["Save"]
    assert meant(tree, {"control_id": "1/9"}) == []
    assert [one.id for one in meant(tree, {"role": "Button", "name": "save"})] == ["1/2"]
    for nothing in ({}, {"process_name": "x"}, {"name": "Open"}, {"name": 7}, {"role": ["button"]}):
        assert meant(tree, nothing) == []


@pytest.mark.parametrize("wrong", [5, "tree", {"a": 1}, True, None, [5], [[{"name": "Save"}]]])
def test_a_tree_that_is_none_has_no_controls(wrong: object):
    assert meant(wrong, {"name": "Save"}) == []
    assert meant({"tree": wrong}, {"name": "Save"}) == []
    assert meant({"tree": [{"name": "x", "states": wrong, "children": wrong}]}, {"name": "Save"}) == []
    assert meant({"tree": [{"name": wrong, "role": wrong, "id": wrong}]}, {"name": "Save"}) == []


def test_the_tree_is_read_as_far_as_the_device_looks():
    def scope(**parameters: Any) -> dict[str, Any]:
        return search_for(parameters)

    assert scope(process_name="editor", name="Save") == {
        "process_name": "editor",
        "depth": SEARCHED.depth,
        "max_nodes": SEARCHED.nodes,
    }
    assert scope(control_id="7") == {"depth": FURTHEST.depth, "max_nodes": FURTHEST.nodes}
    # The device looks such a control up by its name, so to no other depth.
    assert scope(control_id=None, name="Save") == {"depth": SEARCHED.depth, "max_nodes": SEARCHED.nodes}


def test_a_call_with_an_id_that_is_no_text_means_no_control():
    """The device would not look by name either: it refuses the call."""
    tree = {"tree": [{"id": "7", "role": "button", "name": "Save", "children": []}]}
    for odd in (7, True, ["7"], {"id": "7"}):
        assert meant(tree, {"control_id": odd, "name": "Save"}) == []
    for key in ("role", "name"):
        assert meant(tree, {"control_id": "7", key: 5}) == []


async def test_what_is_compared_is_read_within_the_same_limits_as_what_is_pressed():
    read: list[tuple[Scope, Bounds]] = []

    class Desktop(NoDesktop):
        async def tree(self, scope: Scope, bounds: Bounds) -> Tree:
            read.append((scope, bounds))
            return Tree([])

    use = UiTools(Desktop("test"), ObservationStore())
    target = {"process_name": "editor", "name": "Save"}
    with pytest.raises(BadInput):
        await use.click_element(target)
    await ui._ui_tree(use).run(ToolCall(search_for(target)))
    assert read[0] == read[1]

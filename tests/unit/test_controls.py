"""Which control is meant: what is compared and shown is what the device presses."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from core.controls import FURTHEST, SEARCHED, meant, search_for
from core.device.desktop.control_search import Found, Wanted, the_one
from core.device.desktop.interface import Box, Control, NoDesktop, Scope, Tree, found_in
from core.device.desktop.ui_tools import UiTools
from core.device.observations import ObservationStore
from core.device.tool import ToolCall
from core.device.tools import ui
from core.errors import BadInput

NAMES = ["Save", "save", " Save", "SAVE ", "Save  as", "save as", "Straße", "STRASSE", "", "Open"]
ROLES = ["button", "Button", "frame", "push button", "label"]
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
        pressed = the_one(found_in(Tree(roots), Wanted(role, name)))
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


async def test_what_is_compared_is_searched_as_what_is_pressed():
    searched: list[tuple[Scope, Wanted]] = []

    class Desktop(NoDesktop):
        async def find(self, scope: Scope, wanted: Wanted, *, showing: bool = False) -> Found[Control]:
            assert not showing
            searched.append((scope, wanted))
            return Found(wanted, ())

    use = UiTools(Desktop("test"), ObservationStore())
    tool = ui._ui_tree(use)
    target = {"process_name": "editor", "name": "Save"}
    with pytest.raises(BadInput):
        await use.click_element(target)
    await tool.run(ToolCall(search_for(target, tool.input_schema["properties"])))
    assert searched[0] == searched[1]


def test_a_device_that_can_search_is_asked_for_the_target_alone():
    takes = ui._ui_tree(UiTools(NoDesktop("test"), ObservationStore())).input_schema["properties"]
    named = {"process_name": "editor", "role": "button", "name": "Save", "double_click": True}
    assert search_for(named, takes) == {"process_name": "editor", "role": "button", "name": "Save"}
    assert search_for({"control_id": "7", "process_name": "editor"}, takes) == {"control_id": "7"}
    assert search_for({**named, "window_id": "0x1"}, takes) == {
        "window_id": "0x1",
        "role": "button",
        "name": "Save",
    }
    # An earlier device client returns all that it would search.
    assert search_for(named, {"process_name": {}, "depth": {}}) == {
        "process_name": "editor",
        "depth": SEARCHED.depth,
        "max_nodes": SEARCHED.nodes,
    }


def test_a_label_is_not_taken_for_the_field_that_it_names():
    controls = [
        Control("l", "label", "User", 1, states=("showing",)),
        Control("f", "text", "User", 1, states=("showing",)),
    ]
    assert the_one(found_in(Tree(controls), Wanted(None, "user"))).id == "f"
    assert the_one(found_in(Tree(controls), Wanted("label", "user"))).id == "l"
    assert the_one(found_in(Tree(controls[:1]), Wanted(None, "user"))).id == "l"


def test_what_is_nearest_comes_first_and_what_was_not_read_is_said():
    rows = [Control(f"r{at}", "table cell", f"Row {at}", 1, states=("showing",)) for at in range(200)]
    far = [Control(f"b{at}", "push button", name, 1) for at, name in enumerate(("Minimize", "Close"))]
    found = found_in(
        Tree([*far, *rows], truncated=True, not_answering=["mousepad"]), Wanted(None, "Row 1500")
    )
    with pytest.raises(BadInput) as caught:
        the_one(found)
    assert "Row 150" in caught.value.message.split(";")[0]
    assert "Minimize" not in caught.value.message
    assert "does not answer: mousepad" in caught.value.message

"""What the desktop tools decide, with a desktop that only remembers what was done to it."""

from __future__ import annotations

from typing import Any

import pytest

from core.device.desktop.control_search import Wanted, the_one
from core.device.desktop.interface import (
    PROTECTED,
    Bounds,
    Box,
    Control,
    Hidden,
    NoDesktop,
    Scope,
    Tree,
    Unavailability,
    Window,
    found_in,
)
from core.device.desktop.ui_tools import UiTools
from core.device.observations import Observation, ObservationStore
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError

SCREEN = Box(0, 0, 800, 600)


def control(name: str = "OK", **more: Any) -> Control:
    usual: dict[str, Any] = {
        "id": f"id-{name}",
        "role": "push button",
        "process_id": 7,
        "states": ("enabled", "showing"),
        "box": Box(10, 10, 20, 20),
        "actions": (),
    }
    return Control(name=name, **{**usual, **more})


class Remembering(NoDesktop):
    """One control, one window, and a list of what was done."""

    def __init__(self, only: Control, owner: int = 7) -> None:
        super().__init__("test")
        self.only = only
        self.owner = owner
        self.done: list[Any] = []
        self.input_lack: Unavailability | None = None

    def lack(self, need: str) -> Unavailability | None:
        return self.input_lack if need == "input" else None

    async def monitors(self) -> list[Box]:
        return [SCREEN]

    async def tree(self, scope: Scope, bounds: Bounds) -> Tree:
        return Tree([self.only])

    async def control(self, control_id: str) -> Control:
        return self.only

    async def focused(self) -> Control | None:
        return None

    async def perform(self, control: Control) -> str | None:
        self.done.append("perform")
        return control.actions[0] if control.actions else None

    async def insert_text(self, control: Control, text: str) -> bool:
        return control.takes_text

    async def hidden(self) -> Hidden:
        return Hidden()

    def protect(self, control_id: str | None) -> None:
        self.done.append(("protect", control_id))

    async def windows(self) -> list[Window]:
        return [Window("0x1", "Other", 7, "other", SCREEN, True, True)]

    async def owner_at(self, x: int, y: int) -> Window | None:
        return Window("0x1", "Other", self.owner, "other", SCREEN, True, True)

    async def focus(self, control: Control) -> None:
        self.done.append("focus")

    async def click(self, x: int, y: int, button: str, count: int) -> None:
        self.done.append((x, y, button, count))

    async def type_keys(self, text: str, window: Window | None = None) -> int:
        self.done.append(("keys", len(text)))
        return len(text)


def use(only: Control, **more: Any) -> tuple[UiTools, Remembering]:
    desktop = Remembering(only, **more)
    return UiTools(desktop, ObservationStore()), desktop


async def test_the_accessibility_action_comes_before_the_pointer() -> None:
    hands, desktop = use(control(actions=("Press",)))
    assert (await hands.click_element({"control_id": "x"}))["method"] == "accessibility"
    assert desktop.done == ["perform"]
    hands, desktop = use(control())
    assert (await hands.click_element({"control_id": "x"}))["method"] == "pointer"
    assert desktop.done == ["perform", (20, 20, "left", 1)]


@pytest.mark.parametrize(
    ("wish", "clicked"), [({"double_click": True}, ("left", 2)), ({"button": "right"}, ("right", 1))]
)
async def test_what_no_action_can_do_goes_to_the_pointer_at_once(
    wish: dict[str, Any], clicked: tuple[str, int]
) -> None:
    hands, desktop = use(control(actions=("Press",)))
    await hands.click_element({"control_id": "x", **wish})
    assert desktop.done == [(20, 20, *clicked)]


@pytest.mark.parametrize(
    ("only", "owner", "said"),
    [
        (control(states=("enabled",)), 7, "is not showing"),
        (control(box=None), 7, "is not showing"),
        (control(box=Box(790, 590, 40, 40)), 7, "is not on the screen"),
        (control(), 8, "is covered by the window 'Other' of other"),
        (control(states=("showing",)), 7, "is disabled"),
    ],
)
async def test_the_pointer_clicks_nothing_that_it_would_not_meet(
    only: Control, owner: int, said: str
) -> None:
    hands, desktop = use(only, owner=owner)
    with pytest.raises(DeviceError) as caught:
        await hands.click_element({"control_id": "x"})
    assert said in caught.value.message
    assert not [one for one in desktop.done if isinstance(one, tuple)]


async def test_an_observation_is_used_up_even_by_a_click_that_is_refused() -> None:
    hands, desktop = use(control())
    ref = hands.observations.issue(Observation(1, 0, 0, 10, 10, 10, 10))
    with pytest.raises(BadInput):
        await hands.click_point(10, 0, ref, "left")
    with pytest.raises(DeviceError) as caught:
        await hands.click_point(1, 1, ref, "left")
    assert caught.value.code is ErrorCode.STALE_OBSERVATION
    assert desktop.done == []


def test_a_name_that_fits_several_lists_ten_of_them_and_a_hidden_twin_does_not_count() -> None:
    many = Tree([control("root", children=[control("Save", id=f"c{index}") for index in range(12)])])
    with pytest.raises(BadInput) as caught:
        the_one(found_in(many, Wanted(None, "save")))
    assert caught.value.message.startswith("12 controls fit control 'save'")
    assert caught.value.message.count("(c") == 10
    twins = Tree([control("Save", id="seen"), control("Save", id="unseen", states=("enabled",))])
    assert the_one(found_in(twins, Wanted("Push Button", " save "))).id == "seen"


def test_a_name_that_fits_nothing_is_not_found_and_says_what_there_is() -> None:
    with pytest.raises(QuarterdeckError) as caught:
        the_one(found_in(Tree([control("Open")], truncated=True), Wanted("push button", "Save")))
    assert caught.value.code is ErrorCode.CONTROL_NOT_FOUND
    assert "Not every control was read" in caught.value.message
    assert "push button 'Open'" in caught.value.message


def test_a_protected_value_leaves_in_no_result() -> None:
    shown = control(value="hunter2", states=("enabled", PROTECTED)).as_dict()
    assert shown["value"] is None


async def test_a_secret_protects_its_field_before_it_is_typed() -> None:
    hands, desktop = use(control(role="text", takes_text=True))
    assert await hands.type_text({"text": "hunter2", "control_id": "x", "secret": True}) == {
        "typed": 7,
        "method": "accessibility",
        "process_id": 7,
        "window": {"window_id": "0x1", "title": "Other", "process_name": "other"},
        "control": {"role": "text", "name": "OK", "control_id": "id-OK"},
        "text_there": None,
    }
    assert desktop.done == [("protect", "id-OK")]
    hands, desktop = use(control(role="text"))
    await hands.type_text({"text": "hunter2", "secret": True})
    assert desktop.done == [("protect", None), ("keys", 7)]


async def test_text_goes_by_keys_where_a_control_takes_none_and_only_with_the_focus() -> None:
    hands, desktop = use(control(role="text"))
    assert (await hands.type_text({"text": "abc", "control_id": "x"}))["method"] == "keys"
    assert desktop.done == ["focus", ("keys", 3)]
    desktop.input_lack = Unavailability("There is no display", "Start one")
    with pytest.raises(DeviceError) as caught:
        await hands.type_text({"text": "abc", "control_id": "x"})
    assert caught.value.message == "There is no display. Start one."


async def test_a_text_beyond_bounds_is_refused_without_repeating_it() -> None:
    hands, desktop = use(control(takes_text=True))
    with pytest.raises(BadInput) as caught:
        await hands.type_text({"text": "hunter2" * 10_000, "control_id": "x", "secret": True})
    assert caught.value.code is ErrorCode.TOO_LARGE
    assert "hunter2" not in caught.value.message
    assert desktop.done == []

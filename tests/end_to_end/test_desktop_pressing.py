"""Pressing controls of programs that press otherwise than their actions say, over a real bus and X server.

The program on the bus answers as toolkits were seen to; its windows are made here, and its pointer is real.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from Xlib import X
from Xlib.display import Display

from core.device.desktop import target_window
from core.device.desktop.interface import Bounds, Control, Scope, Window
from core.device.desktop.linux import actions, atspi
from core.device.desktop.linux.backend import LinuxDesktop
from core.device.desktop.ui_tools import UiTools
from core.device.observations import ObservationStore
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError
from tests.fakes.accessible_program import (
    APPLICATION,
    BUTTON,
    FRAME,
    ROOT,
    STATES,
    Program,
    Thing,
    accessible_program,
)
from tests.fakes.accessible_session import accessible_session
from tests.fakes.desktop_device import join_session, show_window
from tests.fakes.patience import PATIENCE_S

PARTS = ("Accessible", "Component", "Action")
MENU_BAR, MENU, MENU_ITEM, COMBO_BOX, CHECK_BOX = 34, 33, 35, 11, 7
ARMED, CHECKED, EXPANDABLE, SENSITIVE, ENABLED, SHOWING = 1 << 2, 1 << 4, 1 << 9, 1 << 24, 1 << 8, 1 << 25
WINDOW, TITLE, PROCESS = (40, 30, 300, 200), "Notes", "notes"
# The centres of the things below.
OK, FILE, SAVE_AS, COLOUR = (85, 50), (65, 85), (95, 125), (85, 180)


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with accessible_session("640x480") as environment:
        yield environment


@pytest.fixture
def things() -> dict[str, Thing]:
    return {
        ROOT: Thing(PROCESS, APPLICATION, ["/f"]),
        "/f": Thing(TITLE, FRAME, ["/b", "/m", "/c"], extents=WINDOW),
        "/b": Thing("OK", BUTTON, extents=(50, 40, 70, 20), interfaces=PARTS),
        "/m": Thing("", MENU_BAR, ["/file"], extents=(40, 70, 300, 30)),
        "/file": Thing("File", MENU, ["/save"], extents=(40, 70, 50, 30), interfaces=PARTS),
        "/save": Thing(
            "Save As...", MENU_ITEM, extents=(0, 0, 0, 0), interfaces=PARTS, states=STATES & ~SHOWING
        ),
        "/c": Thing(
            "Colour", COMBO_BOX, extents=(50, 170, 70, 20), interfaces=PARTS, states=STATES | EXPANDABLE
        ),
    }


@pytest.fixture
async def program(
    session: dict[str, str], things: dict[str, Thing], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Program]:
    join_session(monkeypatch, session)
    async with accessible_program(things) as running:
        running.has_cache = False
        running.toolkit = ("Qt", "5.15.8")
        yield running


@pytest.fixture
async def desktop() -> AsyncIterator[LinuxDesktop]:
    built = LinuxDesktop()
    yield built
    await built.close()


@pytest.fixture
def use(desktop: LinuxDesktop) -> UiTools:
    return UiTools(desktop, ObservationStore())


class Screen:
    """Windows of this process, which is the program's, and the clicks that they get."""

    def __init__(self) -> None:
        self.display = Display()
        self.clicks: list[tuple[int, int]] = []
        self.on_click: Callable[[tuple[int, int]], None] = lambda at: None
        asyncio.get_running_loop().add_reader(self.display.fileno(), self._read)

    def show(
        self, box: tuple[int, int, int, int] = WINDOW, title: str = TITLE, *, is_popup: bool = False
    ) -> Any:
        """A new window on top of the others."""
        events = X.ButtonPressMask
        return show_window(self.display, box, title, event_mask=events, override_redirect=is_popup)

    def focused(self) -> Any:
        """The window with the keyboard."""
        return self.display.get_input_focus().focus

    def _read(self) -> None:
        while self.display.pending_events():
            event = self.display.next_event()
            if event.type == X.ButtonPress:
                self.clicks.append((event.root_x, event.root_y))
                self.on_click(self.clicks[-1])

    def close(self) -> None:
        """Close the connection, with which the windows go."""
        asyncio.get_running_loop().remove_reader(self.display.fileno())
        self.display.close()


@pytest.fixture
async def screen(program: Program) -> AsyncIterator[Screen]:
    built = Screen()
    yield built
    built.close()


async def named(desktop: LinuxDesktop, name: str) -> Control:
    return next(one for one in (await desktop.tree(Scope(), Bounds())).all() if one.name == name)


async def clicked(use: UiTools, desktop: LinuxDesktop, name: str, **more: Any) -> dict[str, Any]:
    return await use.click_element({"control_id": (await named(desktop, name)).id, **more})


async def until(screen: Screen, true: Callable[[], object]) -> None:
    """Until the windows' events, which come over another connection, have made this true."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            screen.display.sync()
            screen._read()
            await asyncio.sleep(0)


async def refusal(awaited: Awaitable[Any]) -> QuarterdeckError:
    with pytest.raises((BadInput, DeviceError)) as caught:
        await awaited
    return caught.value


@pytest.mark.parametrize("toolkit", [("gtk", "2.24.33"), ("gail", "1.22.3"), ("gtk", "3.24.38")])
async def test_a_button_is_clicked_where_its_action_arms_it_or_makes_its_program_deaf(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen, toolkit: tuple[str, str]
) -> None:
    screen.show()
    program.toolkit = toolkit
    result = await clicked(use, desktop, "OK")
    await until(screen, lambda: screen.clicks == [OK])
    assert (result["method"], program.done) == ("pointer", [])


async def test_a_button_that_the_pointer_does_not_reach_is_pressed_by_its_action(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen
) -> None:
    program.toolkit = ("gtk", "3.24.38")
    assert (await clicked(use, desktop, "OK"))["method"] == "accessibility"
    assert program.done == [("/b", 0)]


async def test_closed_menus_are_opened_with_the_pointer_and_their_item_is_clicked(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen, things: dict[str, Thing]
) -> None:
    screen.show()
    program.toolkit = ("gtk", "3.24.38")

    def click(at: tuple[int, int]) -> None:
        if at == FILE:
            things["/save"].states, things["/save"].extents = STATES, (50, 110, 90, 30)
        elif at == SAVE_AS:
            screen.show((200, 300, 100, 100), "Save As")

    screen.on_click = click
    result = await clicked(use, desktop, "Save As...")
    assert screen.clicks == [FILE, SAVE_AS]
    assert (result["method"], program.done) == ("pointer", [])
    assert [one["title"] for one in result["seen"]["opened"]] == ["Save As"]


async def test_an_item_of_gtk_2_is_in_an_open_menu_although_it_does_not_say_that_it_is_showing(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen, things: dict[str, Thing]
) -> None:
    screen.show()
    program.toolkit = ("gail", "2.24.33")
    things["/save"].extents = (50, 110, 90, 30)

    def click(at: tuple[int, int]) -> None:
        if at == FILE:
            screen.show((45, 100, 100, 60), "menu", is_popup=True)

    screen.on_click = click
    assert (await clicked(use, desktop, "Save As..."))["method"] == "pointer"
    await until(screen, lambda: screen.clicks == [FILE, SAVE_AS])
    assert program.done == []


async def test_an_open_menu_of_qt_is_clicked_as_its_action_would_leave_it_open(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen, things: dict[str, Thing]
) -> None:
    screen.show()
    assert (await clicked(use, desktop, "Save As..."))["method"] == "accessibility"
    things["/save"].states, things["/save"].extents = STATES, (50, 110, 90, 30)
    assert (await clicked(use, desktop, "Save As..."))["method"] == "pointer"
    await until(screen, lambda: screen.clicks == [SAVE_AS])
    assert program.done == [("/save", 0)]


async def test_a_menu_that_does_not_open_leaves_its_item_to_the_action(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen
) -> None:
    screen.show()
    program.toolkit = ("gtk", "3.24.38")
    assert (await clicked(use, desktop, "Save As..."))["method"] == "accessibility"
    assert (screen.clicks, program.done) == ([FILE], [("/save", 0)])


async def test_a_button_that_stays_armed_was_not_pressed_for_certain_and_is_not_pressed_twice(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen, things: dict[str, Thing]
) -> None:
    screen.show()
    program.toolkit = ("unheard of", "1.0")

    def arm() -> None:
        things["/b"].states |= ARMED

    program.on_action["/b"] = arm
    caught = await refusal(clicked(use, desktop, "OK"))
    assert (caught.code, "armed" in caught.message) == (ErrorCode.OUTCOME_UNKNOWN, True)
    assert (screen.clicks, program.done) == ([], [("/b", 0)])


async def test_an_action_that_has_not_returned_while_its_dialog_stands_is_done(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen
) -> None:
    screen.show()
    program.on_action["/b"] = lambda: screen.show((300, 300, 100, 100), "Save as")
    program.mute.add(("/b", "DoAction"))
    result = await clicked(use, desktop, "OK")
    assert [one["title"] for one in result["seen"]["opened"]] == ["Save as"]
    assert result["seen"]["control"] == "there"
    # Its program is read as before.
    assert (await named(desktop, "OK")).name == "OK"


async def test_a_program_that_is_deaf_until_its_dialog_is_closed_has_opened_it(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen
) -> None:
    screen.show()

    def dialog() -> None:
        screen.show((300, 300, 100, 100), "Save as")
        program.deaf = True

    program.on_action["/b"] = dialog
    seen = (await clicked(use, desktop, "OK"))["seen"]
    assert ([one["title"] for one in seen["opened"]], seen["control"]) == (["Save as"], "not answering")


async def test_an_action_that_is_never_answered_and_shows_nothing_is_unknown(
    program: Program,
    desktop: LinuxDesktop,
    use: UiTools,
    screen: Screen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen.show()
    monkeypatch.setattr(actions, "_ACTION_S", 0.3)
    program.mute.add(("/b", "DoAction"))
    assert (await refusal(clicked(use, desktop, "OK"))).code is ErrorCode.OUTCOME_UNKNOWN


async def test_a_program_that_ends_by_a_press_was_pressed(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen
) -> None:
    screen.show()
    button = await named(desktop, "OK")
    program.on_action["/b"] = program.leave
    program.mute.add(("/b", "DoAction"))
    assert (await use.click_element({"control_id": button.id}))["seen"]["control"] == "gone"
    assert (await refusal(use.click_element({"control_id": button.id}))).code is ErrorCode.STALE_OBSERVATION


@pytest.mark.parametrize("action", ["check", "select", "open", "expand", "toggle"])
async def test_what_a_browser_calls_a_press_presses(
    program: Program, desktop: LinuxDesktop, use: UiTools, things: dict[str, Thing], action: str
) -> None:
    things["/b"].role, things["/b"].actions = CHECK_BOX, (action, "showContextMenu")
    # It has no names for users, and is not on the screen.
    things["/b"].lies = {"GetActions": ("a(sss)", [[["", "", ""]] * 2])}
    things["/b"].states &= ~SHOWING

    def check() -> None:
        things["/b"].states |= CHECKED

    program.on_action["/b"] = check
    assert (await named(desktop, "OK")).actions == (action, "showContextMenu")
    result = await clicked(use, desktop, "OK")
    assert (result["method"], result["seen"]["gained"]) == ("accessibility", ["checked"])


async def test_a_control_off_the_screen_is_scrolled_to_and_then_clicked(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen, things: dict[str, Thing]
) -> None:
    screen.show()
    button = things["/b"]
    button.states, button.extents, button.actions = STATES & ~SHOWING, (50, 4_000, 70, 20), ()

    def scroll() -> None:
        button.states, button.extents = STATES, (50, 40, 70, 20)

    caught = await refusal(clicked(use, desktop, "OK"))
    assert caught.code is ErrorCode.CONTROL_NOT_SHOWING
    program.on_scroll["/b"] = scroll
    assert (await clicked(use, desktop, "OK"))["box"] == {"x": 50, "y": 40, "width": 70, "height": 20}
    await until(screen, lambda: screen.clicks == [OK])


async def test_scrolling_at_a_control_off_the_screen_scrolls_to_it_first(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen, things: dict[str, Thing]
) -> None:
    screen.show()
    button = things["/b"]
    button.states, button.extents = STATES & ~SHOWING, (50, 4_000, 70, 20)

    def scroll() -> None:
        button.states, button.extents = STATES, (50, 40, 70, 20)

    program.on_scroll["/b"] = scroll
    where = {"control_id": (await named(desktop, "OK")).id, "direction": "down"}
    assert (await use.scroll(where))["scrolled"] == 0
    assert screen.clicks == []
    assert (await use.scroll({**where, "amount": 2}))["scrolled"] == 2
    await until(screen, lambda: screen.clicks == [OK] * 2)


async def test_what_opens_a_popup_is_brought_forward_first(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen
) -> None:
    window, other = screen.show(), screen.show((0, 0, 300, 300), "Other")
    other.set_input_focus(X.RevertToNone, X.CurrentTime)
    screen.display.sync()
    focused = []

    def open_popup() -> None:
        focused.append(screen.focused().id)
        screen.show((50, 190, 70, 60), "popup", is_popup=True)

    program.on_action["/c"] = open_popup
    await clicked(use, desktop, "Colour")
    assert focused == [window.id]


async def test_a_popup_that_does_not_open_is_no_success(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen
) -> None:
    screen.show()
    caught = await refusal(clicked(use, desktop, "Colour"))
    assert (caught.code, "nothing opened" in caught.message) == (ErrorCode.TOOL_FAILED, True)


async def test_a_click_with_the_pointer_brings_a_covered_window_forward(
    program: Program, desktop: LinuxDesktop, use: UiTools, screen: Screen
) -> None:
    screen.show()
    other = screen.show((0, 0, 300, 300), "Other")
    other.set_input_focus(X.RevertToNone, X.CurrentTime)
    screen.display.sync()
    await clicked(use, desktop, "OK", button="right")
    await until(screen, lambda: screen.clicks == [OK])


async def test_what_was_not_pressed_says_why_by_its_code(
    program: Program,
    desktop: LinuxDesktop,
    use: UiTools,
    screen: Screen,
    things: dict[str, Thing],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen.show()
    things["/b"].actions = ()

    async def code(**arguments: Any) -> ErrorCode:
        return (await refusal(use.click_element({"process_name": PROCESS, **arguments}))).code

    things["/b"].states &= ~(ENABLED | SENSITIVE)
    assert await code(name="OK") is ErrorCode.CONTROL_DISABLED
    things["/b"].states = STATES & ~SHOWING
    assert await code(name="OK") is ErrorCode.CONTROL_NOT_SHOWING
    things["/b"].states = STATES
    screen.show((45, 35, 90, 30), "Really?")

    async def refuses(window: Window) -> None:
        """As a window manager that keeps what it shows in front."""

    monkeypatch.setattr(desktop, "bring_forward", refuses)
    monkeypatch.setattr(target_window, "_FORWARD_S", 0.1)
    assert await code(name="OK") is ErrorCode.CONTROL_COVERED
    assert await code(name="Cancel") is ErrorCode.CONTROL_NOT_FOUND
    things["/c"].role, things["/c"].name = BUTTON, "OK"
    assert await code(name="OK") is ErrorCode.CONTROL_AMBIGUOUS
    assert (screen.clicks, program.done) == ([], [])


async def test_a_program_that_does_not_answer_is_named_and_may_be_asked_again(
    program: Program, desktop: LinuxDesktop, use: UiTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atspi, "CALL_S", 0.2)
    button = await named(desktop, "OK")
    process = button.process_name
    program.deaf = True
    caught = await refusal(use.click_element({"process_name": process, "name": "OK"}))
    assert caught.code is ErrorCode.PROGRAM_NOT_ANSWERING
    assert process in caught.message
    caught = await refusal(use.click_element({"control_id": button.id}))
    assert caught.code is ErrorCode.PROGRAM_NOT_ANSWERING
    assert program.done == []

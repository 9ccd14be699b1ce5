"""Where programs' controls are, what must be hidden and what is in the way, over a real bus and X server.

The program on the bus answers as other toolkits were seen to; its windows are made here.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from Xlib import X
from Xlib.display import Display

from core.device.desktop.interface import Bounds, Box, Control, Scope
from core.device.desktop.linux import atspi, tree_reader
from core.device.desktop.linux.atspi_constants import NULL
from core.device.desktop.linux.backend import LinuxDesktop
from core.device.desktop.ui_tools import UiTools
from core.device.observations import Observation, ObservationStore
from core.errors import DeviceError, ErrorCode
from tests.fakes.accessible_program import (
    APPLICATION,
    BUTTON,
    ENTRY,
    FRAME,
    PANEL,
    PASSWORD,
    ROOT,
    STATES,
    Program,
    Thing,
    accessible_program,
)
from tests.fakes.accessible_session import accessible_session
from tests.fakes.desktop_device import join_session, show_window

TEXT = ("Accessible", "Component", "Action", "Text", "EditableText")
FILLER, SCROLL_PANE, TABLE_CELL, LIST_ITEM, DOCUMENT_WEB = 20, 49, 56, 32, 95
ROOT_PANE = 46
SHOWING, EDITABLE = 1 << 25, 1 << 7
# Left, top, width and height of the program's window, and the title that it shares with its frame.
WINDOW, TITLE = (40, 30, 200, 100), "Log in"


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with accessible_session("640x480") as environment:
        yield environment


@pytest.fixture
def things() -> dict[str, Thing]:
    return {
        ROOT: Thing("login", APPLICATION, ["/f"]),
        "/f": Thing(TITLE, FRAME, ["/b", "/p", "/e"], extents=WINDOW),
        "/b": Thing("OK", BUTTON, extents=(50, 40, 70, 20), interfaces=("Accessible", "Component", "Action")),
        "/p": Thing("Word", PASSWORD, extents=(50, 70, 70, 20), interfaces=TEXT, text="hunter2"),
        "/e": Thing(
            "Name", ENTRY, extents=(50, 100, 70, 20), interfaces=TEXT, text="ann", actions=("activate",)
        ),
    }


@pytest.fixture
async def program(
    session: dict[str, str], things: dict[str, Thing], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Program]:
    join_session(monkeypatch, session)
    async with accessible_program(things) as running:
        running.has_cache = False
        yield running


@pytest.fixture
async def desktop() -> AsyncIterator[LinuxDesktop]:
    built = LinuxDesktop()
    yield built
    await built.close()


class Screen:
    """The display, with windows of this process, which is the program's."""

    def __init__(self) -> None:
        self.display = Display()

    def show(self, box: tuple[int, int, int, int] = WINDOW, title: str = TITLE) -> Any:
        """A new window on top of the others."""
        return show_window(self.display, box, title)


@pytest.fixture
def screen(program: Program) -> Iterator[Screen]:
    built = Screen()
    yield built
    built.display.close()


async def named(desktop: LinuxDesktop, name: str) -> Control:
    return next(one for one in (await desktop.tree(Scope(), Bounds())).all() if one.name == name)


async def test_a_toolkit_that_knows_no_screen_is_placed_by_its_window(
    program: Program, desktop: LinuxDesktop, things: dict[str, Thing], screen: Screen
) -> None:
    program.toolkit, program.knows_no_screen = ("GTK", "4.8.3"), True
    for path, box in (("/f", (0, 0, 95, 45)), ("/b", (5, 5, 20, 10)), ("/p", (5, 20, 20, 10))):
        things[path].extents = box
        things[path].states = STATES if path == "/f" else STATES & ~SHOWING
    screen.show()
    # Two pixels for each of its own, and a rim of five around.
    found = await named(desktop, "OK")
    assert (found.box, "showing" in found.states) == (Box(55, 45, 40, 20), True)
    assert (await desktop.control(found.id)).box == found.box
    assert (await desktop.hidden()).boxes == [Box(55, 75, 40, 20)]


async def test_controls_that_a_program_draws_itself_are_below_the_menu_bar_of_its_toolkit(
    program: Program, desktop: LinuxDesktop, things: dict[str, Thing], screen: Screen
) -> None:
    things["/f"].children = ["/host"]
    things["/host"] = Thing("", PANEL, ["/pane"], extents=(40, 50, 200, 80))
    things["/pane"] = Thing(TITLE, ROOT_PANE, ["/b", "/p"], extents=(40, 30, 200, 80))
    # What the pane is in is not listed, and leads to no program.
    things["/inner"] = Thing(TITLE, FRAME, extents=(40, 30, 200, 80))
    things["/pane"].lies["Parent"] = ("(so)", [[program.name, "/inner"]])
    things["/inner"].lies["Parent"] = ("(so)", [[program.name, NULL]])
    window = screen.show()
    found = await named(desktop, "OK")
    assert found.box == Box(50, 60, 70, 20)
    assert (await desktop.control(found.id)).box == found.box
    [below] = (await desktop.tree(Scope(below=found.id), Bounds())).roots[0].children
    assert below.box == found.box
    shown_in = await desktop.window_of(found)
    assert shown_in is not None
    assert int(shown_in.id, 16) == window.id
    assert Box(50, 90, 70, 20) in (await desktop.hidden()).boxes


async def test_places_on_a_dense_screen_are_where_the_window_is(
    program: Program, desktop: LinuxDesktop, things: dict[str, Thing], screen: Screen
) -> None:
    things["/f"].extents = (20, 15, 100, 50)
    things["/b"].extents, things["/p"].extents = (25, 20, 35, 10), (25, 35, 35, 10)
    screen.show()
    assert (await named(desktop, "OK")).box == Box(50, 40, 70, 20)
    assert (await desktop.hidden()).boxes == [Box(50, 70, 70, 20)]


async def test_a_password_that_is_shown_in_clear_stays_hidden(
    program: Program, desktop: LinuxDesktop, things: dict[str, Thing], screen: Screen
) -> None:
    screen.show()
    assert (await named(desktop, "Word")).value is None
    # As Qt does when the eye beside the field is pressed.
    things["/p"].role = ENTRY
    seen = await named(desktop, "Word")
    assert (seen.value, seen.states[-1]) == (None, "protected")
    assert (await desktop.hidden()).boxes == [Box(50, 70, 70, 20)]
    things["/p"].states &= ~SHOWING
    assert (await desktop.hidden()).boxes == []


async def test_a_program_that_hangs_on_a_password_has_its_window_hidden(
    program: Program, desktop: LinuxDesktop, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen.show()
    assert (await desktop.hidden()).boxes == [Box(50, 70, 70, 20)]
    monkeypatch.setattr(atspi, "CALL_S", 0.3)
    program.mute.add(("/p", "GetExtents"))
    hidden = await desktop.hidden()
    assert hidden.boxes == [Box(*WINDOW)]


async def test_a_web_page_is_read_and_its_passwords_are_hidden(
    program: Program,
    desktop: LinuxDesktop,
    things: dict[str, Thing],
    screen: Screen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(atspi, "CALL_S", 0.3)
    # What WebKit does: the page goes by a name of its own, is in no list of children, says of its scroll pane
    # that it is not showing, and does not answer to GetActions.
    things["/p"] = Thing(
        "",
        FILLER,
        states=0,
        lies={
            "ChildCount": ("i", [1]),
            "GetChildren": ("a(so)", [[]]),
            "GetChildAtIndex": ("(so)", [["org.example.Page", "/s"]]),
        },
    )
    page = {
        "/s": Thing("", SCROLL_PANE, ["/w"], states=STATES & ~SHOWING),
        "/w": Thing("Word", PASSWORD, extents=(50, 70, 70, 20), interfaces=TEXT, text="hunter2"),
    }
    screen.show()
    async with accessible_program(page, joins=False) as web:
        await web.take_name("org.example.Page")
        page["/s"].lies = {"Parent": ("(so)", [[program.name, "/p"]])}
        web.mute.add(("/w", "GetActions"))
        assert (await desktop.hidden()).boxes == [Box(50, 70, 70, 20)]
        found = await named(desktop, "Word")
        assert (found.value, found.box) == (None, Box(50, 70, 70, 20))
        assert await desktop.in_the_way(found, 60, 80) is None


async def test_a_page_too_large_to_be_walked_is_searched_by_its_own_program(
    program: Program, desktop: LinuxDesktop, things: dict[str, Thing], screen: Screen
) -> None:
    screen.show()
    things["/f"].children = ["/d"]
    things["/d"] = Thing("", DOCUMENT_WEB, lies={"ChildCount": ("i", [100_000])})
    assert (await desktop.hidden()).not_searched
    things["/d"].lies["GetMatches"] = ("a(so)", [[[program.name, "/p"]]])
    hidden = await desktop.hidden()
    assert (hidden.boxes, hidden.not_searched) == ([Box(50, 70, 70, 20)], [])


async def test_without_the_registry_nothing_counts_as_searched_and_known_passwords_stay_hidden(
    program: Program, desktop: LinuxDesktop, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen.show()
    await desktop.hidden()
    # Another bus: what was known of this one has no meaning there.
    monkeypatch.setattr(desktop._bus, "_mark", "other")
    assert Box(*WINDOW) in (await desktop.hidden()).boxes
    monkeypatch.setattr(tree_reader, "REGISTRY", "org.a11y.atspi.Nobody")
    hidden = await desktop.hidden()
    assert hidden.not_searched == ["every program: the accessibility bus cannot be reached"]
    assert hidden.boxes == [Box(*WINDOW)]
    with pytest.raises(DeviceError):
        await desktop.tree(Scope(), Bounds())


async def test_a_program_that_lies_spoils_only_its_own_controls(
    program: Program, desktop: LinuxDesktop, things: dict[str, Thing], screen: Screen
) -> None:
    screen.show()
    things["/b"].children = ["/f", "/b", ROOT]
    things["/b"].name = "x" * 20_000
    things["/b"].lies = {"GetExtents": ("s", ["here"]), "GetActions": ("as", [["click"]])}
    things["/e"].role, things["/e"].interfaces = 51, ("Accessible", "Component", "Value")
    things["/e"].lies = {"CurrentValue": ("d", [float("nan")]), "ChildCount": ("s", ["many"])}
    tree = await desktop.tree(Scope(), Bounds())
    assert [len(one.name) for one in tree.all()] == [5, len(TITLE), 500, 4, 4]
    assert (tree.all()[2].box, tree.all()[4].value) == (None, None)
    things["/e"].lies["GetRole"] = ("s", ["entry"])
    assert len((await desktop.tree(Scope(), Bounds())).all()) == 4
    assert (await desktop.hidden()).boxes == [Box(50, 70, 70, 20)]


async def test_fields_and_rows_are_pointed_at_and_nothing_is_sent_or_opened(
    program: Program, desktop: LinuxDesktop, things: dict[str, Thing], screen: Screen
) -> None:
    screen.show()
    use = UiTools(desktop, ObservationStore())
    for role, action in ((ENTRY, "activate"), (TABLE_CELL, "activate"), (LIST_ITEM, "toggle")):
        things["/e"].role, things["/e"].actions = role, (action,)
        clicked = await use.click_element({"control_id": (await named(desktop, "Name")).id})
        assert (clicked["method"], program.done) == ("pointer", [])


async def test_an_action_is_known_by_its_own_name_whatever_the_user_reads(
    program: Program, desktop: LinuxDesktop, things: dict[str, Thing]
) -> None:
    use = UiTools(desktop, ObservationStore())
    # GTK in German, and Chromium, which has no names for users.
    for told in ("Klicken", ""):
        things["/b"].lies = {"GetActions": ("a(sss)", [[[told, "", ""]]])}
        clicked = await use.click_element({"control_id": (await named(desktop, "OK")).id})
        assert clicked["method"] == "accessibility"
    assert program.done == [("/b", 0)] * 2


async def test_text_for_a_field_that_takes_none_is_refused(
    program: Program, desktop: LinuxDesktop, things: dict[str, Thing]
) -> None:
    with pytest.raises(DeviceError, match="read-only"):
        await desktop.insert_text(await named(desktop, "Name"), "bob")
    things["/e"].states |= EDITABLE
    # It has no caret to insert at, so keys would be next.
    assert not await desktop.insert_text(await named(desktop, "Name"), "bob")


async def test_what_lies_over_a_control_is_named_whoever_it_belongs_to(
    program: Program, desktop: LinuxDesktop, things: dict[str, Thing], screen: Screen
) -> None:
    button = await named(desktop, "OK")
    assert "no window is at its place" in str(await desktop.in_the_way(button, 60, 50))
    screen.show()
    assert await desktop.in_the_way(button, 60, 50) is None
    # A window of the same program, and then one of a program that does not say whose it is.
    things["/d"] = Thing("Really?", FRAME, extents=(45, 35, 90, 30))
    things[ROOT].children.append("/d")
    screen.show((45, 35, 90, 30), "Really?")
    assert "covered by the window 'Really?'" in str(await desktop.in_the_way(button, 60, 50))
    owner = await desktop.owner_at(60, 50)
    assert owner is not None
    assert owner.process_id == os.getpid()


async def test_a_click_on_a_picture_is_refused_when_its_window_moved_or_was_covered(
    program: Program, desktop: LinuxDesktop, screen: Screen
) -> None:
    window = screen.show()
    use = UiTools(desktop, ObservationStore())

    async def ref() -> str:
        seen = Observation(1, 0, 0, 640, 480, 640, 480, tuple(await desktop.layers()))
        return use.observations.issue(seen)

    assert (await use.click_point(60, 50, await ref(), "left"))["control_name"] == TITLE
    before = await ref(), await ref()
    window.configure(x=42)
    screen.display.sync()
    elsewhere = await ref()
    screen.show((0, 0, 80, 80), "Notice")
    for old in (*before, elsewhere):
        with pytest.raises(DeviceError) as caught:
            await use.click_point(60, 50, old, "left")
        assert caught.value.code is ErrorCode.STALE_OBSERVATION
    assert (await use.click_point(60, 50, await ref(), "left"))["control_name"] == "Notice"


async def test_a_secret_typed_by_keys_hides_the_window_that_got_it(
    program: Program, desktop: LinuxDesktop, screen: Screen
) -> None:
    windows = screen.show(), screen.show((300, 200, 100, 100), "Other")
    windows[0].set_input_focus(X.RevertToNone, X.CurrentTime)
    screen.display.sync()
    desktop.protect(None)
    await desktop.type_keys("s")
    windows[1].set_input_focus(X.RevertToNone, X.CurrentTime)
    screen.display.sync()
    assert Box(*WINDOW) in (await desktop.hidden()).boxes
    # Keys go to what is under the pointer where nothing has the focus.
    desktop.protect(None)
    screen.display.set_input_focus(X.PointerRoot, X.RevertToNone, X.CurrentTime)
    screen.display.sync()
    await desktop.click(350, 250, "left", 1)
    await desktop.type_keys("s")
    assert Box(300, 200, 100, 100) in (await desktop.hidden()).boxes


async def test_what_a_dead_window_manager_left_behind_is_not_believed(
    program: Program, desktop: LinuxDesktop, screen: Screen
) -> None:
    window = screen.show()
    display = screen.display
    root = display.screen().root
    names = ("_NET_SUPPORTING_WM_CHECK", "_NET_CLIENT_LIST_STACKING", "_NET_ACTIVE_WINDOW")
    for name in names:
        root.change_property(display.intern_atom(name), display.intern_atom("WINDOW"), 32, [0x7FFFFFF])
    screen.display.sync()
    try:
        assert [one.id for one in await desktop.windows()] == [f"0x{window.id:x}"]
    finally:
        for name in names:
            root.delete_property(display.intern_atom(name))
        screen.display.sync()

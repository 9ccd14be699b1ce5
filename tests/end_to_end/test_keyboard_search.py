"""The search for the control that has the keyboard: what it asks of a program, and what it finds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core.device.desktop.linux.atspi import AccessibilityBus, Ref
from core.device.desktop.linux.focus import Search, chosen, find_focus
from core.device.desktop.linux.tree_reader import Program as Listed
from core.device.desktop.linux.tree_reader import Reader
from core.device.desktop.sensitive_fields import SensitiveFields
from tests.end_to_end.test_desktop_cache import session
from tests.fakes.accessible_program import (
    APPLICATION,
    FRAME,
    MENU,
    MENU_ITEM,
    ROOT,
    SHOWING,
    STATES,
    Program,
    Thing,
    accessible_program,
)

__all__ = ["session"]
ACTIVE, FOCUSED, MENU_BAR, TEXT = 1 << 1, 1 << 12, 34, 61
ITEMS = [f"/item/{number}" for number in range(40)]


@pytest.fixture
def things() -> dict[str, Thing]:
    """A document that has the focus, with a closed menu of many items above it."""
    return {
        ROOT: Thing("office", APPLICATION, ["/f"]),
        "/f": Thing("Letter", FRAME, ["/bar", "/text"], states=STATES | ACTIVE),
        "/bar": Thing("", MENU_BAR, ["/menu"]),
        "/menu": Thing("Edit", MENU, ITEMS),
        "/text": Thing("Document", TEXT, states=STATES | FOCUSED),
        **{path: Thing(path, MENU_ITEM, states=STATES & ~SHOWING) for path in ITEMS},
    }


@pytest.fixture
async def office(
    session: dict[str, str], things: dict[str, Thing], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Program]:
    for key in ("DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(key, session[key])
    async with accessible_program(things) as running:
        running.toolkit = ("gtk", "3.24.38")
        yield running


@pytest.fixture
async def bus(office: Program) -> AsyncIterator[AccessibilityBus]:
    bus = AccessibilityBus()
    await bus.connect()
    yield bus
    bus.close()


async def searched(bus: AccessibilityBus, program: Program, *, is_menu_open: bool) -> Search:
    listed = Listed(Ref(program.name, ROOT), 0, "office")
    reader = Reader(bus, SensitiveFields())
    return await find_focus(bus, reader, [listed], is_menu_open=is_menu_open)


def focus_of(search: Search) -> str | None:
    found = chosen(search.candidates)
    return None if found is None else found.ref.path


async def test_closed_menus_are_not_searched(office: Program, bus: AccessibilityBus) -> None:
    search = await searched(bus, office, is_menu_open=False)
    assert (focus_of(search), search.is_whole) == ("/text", True)
    assert {path for path, _ in office.asked}.isdisjoint(ITEMS)


async def test_the_item_of_an_open_menu_has_the_keyboard(
    office: Program, things: dict[str, Thing], bus: AccessibilityBus
) -> None:
    for path in ITEMS:
        things[path].states = STATES
    things[ITEMS[7]].states |= FOCUSED
    assert focus_of(await searched(bus, office, is_menu_open=True)) == ITEMS[7]


@pytest.mark.parametrize("toolkit", [("Qt", "5.15.8"), ("J2SE-access-bridge", "1.0"), ("gtk", "4.8.3")])
async def test_menus_of_toolkits_that_do_not_mark_their_windows_are_searched(
    office: Program, things: dict[str, Thing], bus: AccessibilityBus, toolkit: tuple[str, str]
) -> None:
    office.toolkit = toolkit
    things[ITEMS[7]].states = STATES | FOCUSED
    assert focus_of(await searched(bus, office, is_menu_open=False)) == ITEMS[7]

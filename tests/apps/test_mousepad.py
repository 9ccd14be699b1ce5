"""Mousepad (GTK 3): text, menus and dialogs, to files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.apps.conftest import Session, Start
from tests.apps.driver import Driver, has
from tests.apps.programs import needs

PROGRAM = "mousepad"
pytestmark = [needs("mousepad"), pytest.mark.asyncio(loop_scope="session")]
TEXT = "é 漢 😀, größer\nand a second line"


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def mousepad(start: Start) -> AsyncIterator[None]:
    """The program with an empty document."""
    async with start("mousepad", "--disable-server", title="Mousepad"):
        yield


async def test_text_is_saved_by_the_menu(driver: Driver, tmp_path: Path) -> None:
    await driver.type(TEXT, then=lambda: driver.is_open("*Untitled"))
    await driver.click("Save As...", "menu item", shown=False, then=lambda: driver.is_open("Save As"))
    saved = tmp_path / "by the menu é.txt"
    await driver.press("ctrl+a")
    await driver.type(str(saved))
    await driver.click("Save", "push button", then=has(saved, TEXT))


async def test_text_is_saved_by_keys(driver: Driver, tmp_path: Path) -> None:
    await driver.type(TEXT)
    await driver.press("ctrl+shift+s", then=lambda: driver.is_open("Save As"))
    saved = tmp_path / "by-keys.txt"
    await driver.press("ctrl+a")
    await driver.type(f"{saved}\n", then=has(saved, TEXT))
    await driver.press("ctrl+End")
    await driver.type("\nmore")
    await driver.press("ctrl+s", then=has(saved, f"{TEXT}\nmore"))


async def test_what_is_typed_replaces_the_selection_and_goes_to_the_clipboard(
    driver: Driver, session: Session
) -> None:
    await driver.type("old words")
    await driver.press("ctrl+a")
    await driver.type("new 漢")
    await driver.press("ctrl+a", "ctrl+c", then=lambda: session.screen.clipboard() == "new 漢")
    await driver.press("Right", "shift+Left", "ctrl+x", then=lambda: session.screen.clipboard() == "漢")


async def test_the_command_line_acts_as_the_service_does(driver: Driver, tmp_path: Path) -> None:
    saved = tmp_path / "by-command.txt"
    await driver.act_by_command("type_text", text="é 漢 😀", process_name=PROGRAM)
    await driver.act_by_command("press_key", key="ctrl+shift+s", then=lambda: driver.is_open("Save As"))
    await driver.act_by_command("press_key", key="ctrl+a")
    await driver.act_by_command("type_text", text=str(saved))
    await driver.act_by_command(
        "click_element", process_name=PROGRAM, role="push button", name="Save", then=has(saved, "é 漢 😀")
    )


async def test_a_nested_menu_item_is_pressed(driver: Driver, session: Session) -> None:
    await driver.type("two words")
    await driver.press("ctrl+a")
    await driver.click("Edit", "menu")
    await driver.click("Convert", "menu")
    await driver.click("To Uppercase", "menu item")
    await driver.press("ctrl+a", "ctrl+c", then=lambda: session.screen.clipboard() == "TWO WORDS")


async def test_preferences_are_opened_and_closed(driver: Driver) -> None:
    await driver.click("Preferences...", "menu item", shown=False, then=lambda: driver.is_open("Preferences"))
    await driver.press("Escape", then=lambda: not driver.is_open("Preferences"))

"""FeatherPad (Qt 5): menus of the menu bar, dialogs, text to files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.apps.conftest import Session, Start
from tests.apps.driver import Driver, has
from tests.apps.programs import needs

PROGRAM = "featherpad"
pytestmark = [needs("featherpad"), pytest.mark.asyncio(loop_scope="session")]
TEXT = "é 漢 😀, größer\nand a second line"


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def featherpad(start: Start) -> AsyncIterator[None]:
    """The program with an empty document, one process for each test."""
    async with start("featherpad", "-s", title="Untitled"):
        yield


async def test_text_is_saved_by_the_menu(driver: Driver, tmp_path: Path) -> None:
    editor = await driver.control(role="text")
    await driver.type(TEXT, control_id=editor["id"], then=lambda: driver.is_open("*Untitled"))
    await driver.click("File", "menu item")
    await driver.click("Save As", "menu item", then=lambda: driver.is_open("Save"))
    saved = tmp_path / "by the menu é.txt"
    await driver.press("ctrl+a")
    await driver.type(f"{saved}\n", then=has(saved, f"{TEXT}\n"))


async def test_text_is_saved_by_keys(driver: Driver, tmp_path: Path) -> None:
    await driver.type(TEXT)
    await driver.press("ctrl+shift+s", then=lambda: driver.is_open("Save"))
    saved = tmp_path / "by-keys.txt"
    await driver.press("ctrl+a")
    await driver.type(str(saved))
    await driver.press("Enter", then=has(saved, f"{TEXT}\n"))


async def test_text_is_typed_into_no_open_menu(driver: Driver, session: Session) -> None:
    await driver.type("kept")
    await driver.click("Edit", "menu item")
    await driver.press("Escape")
    words = await driver.is_refused("type_text", text="u bez id ň")
    assert "menu" in words
    await driver.press("Escape", "ctrl+a", "ctrl+c", then=lambda: session.screen.clipboard() == "kept")


async def test_a_menu_item_undoes(driver: Driver, session: Session) -> None:
    await driver.type("one")
    await driver.click("Edit", "menu item")
    await driver.click("Select All", "menu item")
    await driver.press("ctrl+x", then=lambda: session.screen.clipboard() == "one")
    await driver.click("Edit", "menu item")
    await driver.click("Undo", "menu item")
    await driver.press("ctrl+a", "ctrl+c", then=lambda: session.screen.clipboard() == "one")

"""gnome-text-editor (GTK 4): text to files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.apps.conftest import Session, Start
from tests.apps.driver import Driver, has
from tests.apps.programs import needs

PROGRAM = "gnome-text-editor"
pytestmark = [needs("gnome-text-editor"), pytest.mark.asyncio(loop_scope="session")]
TEXT = "é 漢 😀, größer\nand a second line"


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def editor(start: Start) -> AsyncIterator[None]:
    """The program with a new document."""
    async with start("gnome-text-editor", "--standalone", title="Text Editor"):
        yield


async def test_text_is_saved_in_a_dialog(driver: Driver, tmp_path: Path) -> None:
    await driver.type(TEXT, process_name=PROGRAM)
    await driver.press("ctrl+s", then=lambda: driver.is_open("Save"))
    saved = tmp_path / "größer.txt"
    await driver.press("ctrl+a")
    await driver.type(str(saved))
    await driver.press("Enter", then=has(saved, f"{TEXT}\n"))


async def test_a_selection_is_replaced_and_copied(driver: Driver, session: Session) -> None:
    field = await driver.control(role="text")
    await driver.type("old", control_id=field["id"])
    await driver.press("ctrl+a")
    await driver.type("new 漢", process_name=PROGRAM)
    await driver.press("ctrl+a", "ctrl+c", then=lambda: session.screen.clipboard() == "new 漢")


async def test_a_tab_is_opened_by_a_button(driver: Driver, session: Session) -> None:
    await driver.type("first tab")
    await driver.click("New tab (Ctrl+T)", "push button")
    await driver.type("second tab", process_name=PROGRAM)
    await driver.press("ctrl+a", "ctrl+c", then=lambda: session.screen.clipboard() == "second tab")


async def test_preferences_are_opened_by_keys(driver: Driver) -> None:
    await driver.press("ctrl+,", then=lambda: driver.is_open("Preferences"))
    await driver.press("Escape", then=lambda: not driver.is_open("Preferences"))

"""xfce4-terminal (VTE): text and keys reach the shell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.apps.conftest import Start
from tests.apps.driver import Driver, has
from tests.apps.programs import needs

PROGRAM = "xfce4-terminal"
pytestmark = [needs("xfce4-terminal"), pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def terminal(start: Start) -> AsyncIterator[None]:
    """The program with a plain shell."""
    async with start("xfce4-terminal", "--disable-server", "--command=sh", title="Terminal", PS1="> "):
        yield


async def test_a_command_is_typed_and_entered(driver: Driver, tmp_path: Path) -> None:
    out = tmp_path / "out"
    await driver.type(f"printf 'é 漢 😀' > {out}\n", process_name=PROGRAM, then=has(out, "é 漢 😀"))
    more = tmp_path / "more"
    await driver.type(f"wc -c < {out} > {more}")
    await driver.press("Enter", then=has(more, "11\n"))


async def test_a_command_is_edited_by_keys(driver: Driver, tmp_path: Path) -> None:
    out = tmp_path / "out"
    await driver.type(f"printf wrongx > {out}")
    await driver.press("ctrl+u")
    await driver.type(f"printf righ > {out}; printf t >> {out}")
    await driver.press("Enter", then=has(out, "right"))


async def test_a_running_program_is_interrupted(driver: Driver, tmp_path: Path) -> None:
    began, ended = tmp_path / "began", tmp_path / "ended"
    await driver.type(f"trap 'printf x > {ended}' INT; touch {began}; read line\n", then=began.exists)
    await driver.press("ctrl+c", then=ended.exists)


async def test_a_tab_is_opened_by_the_menu(driver: Driver, tmp_path: Path) -> None:
    out = tmp_path / "out"
    await driver.click("File", "menu")
    await driver.click("Open Tab", "menu item")
    await driver.type(f"printf tab > {out}\n", then=has(out, "tab"))


async def test_preferences_are_opened_and_closed(driver: Driver) -> None:
    await driver.click("Edit", "menu")
    await driver.click("Preferences...", "menu item", then=lambda: driver.is_open("Preferences"))
    await driver.click("Close", "push button", then=lambda: not driver.is_open("Preferences"))

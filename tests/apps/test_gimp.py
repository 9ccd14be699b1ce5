"""GIMP (GTK 2): a dialog of a new picture, menus, and a picture that is exported."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from tests.apps.conftest import Start
from tests.apps.driver import Driver
from tests.apps.programs import needs

PROGRAM = "gimp"
pytestmark = [needs("gimp"), pytest.mark.asyncio(loop_scope="session")]
NEW, SCALE, EXPORT = "Create a New Image", "Scale Image", "Export Image"


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def gimp(start: Start) -> AsyncIterator[None]:
    """The program without a picture."""
    words = ("gimp", "--new-instance", "--no-splash", "--no-data", "--no-fonts")
    # GTK 2 tells of its controls only with these.
    modules = "gail:atk-bridge"
    async with start(*words, title="GNU Image Manipulation Program", GTK_MODULES=modules):
        yield


async def test_a_picture_is_made_and_exported(driver: Driver, tmp_path: Path) -> None:
    out = tmp_path / "größer.png"
    await driver.press("ctrl+n", then=lambda: driver.is_open(NEW))
    await driver.click("OK", "push button", then=lambda: driver.is_open("[Untitled]"))
    await driver.press("ctrl+shift+e", then=lambda: driver.is_open(EXPORT))
    await driver.press("ctrl+a")
    await driver.type(str(out))
    await driver.press("Enter", then=lambda: driver.is_open("as PNG"))
    await driver.press("Enter", then=lambda: is_picture(out))


async def test_a_menu_item_opens_its_dialog(driver: Driver) -> None:
    await driver.press("ctrl+n", then=lambda: driver.is_open(NEW))
    await driver.press("Enter", then=lambda: driver.is_open("[Untitled]"))
    await driver.click("Scale Image...", "menu item", shown=False, then=lambda: driver.is_open(SCALE))
    await driver.click("Cancel", "push button", then=lambda: not driver.is_open(SCALE))


def is_picture(path: Path) -> bool:
    """Whether a file is a whole picture."""
    try:
        with Image.open(path) as picture:
            picture.load()
    except OSError:
        return False
    return True

"""LibreOffice Calc and Writer: cells, keys and the Name Box, to files."""

from __future__ import annotations

import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from tests.apps.conftest import Start
from tests.apps.driver import Check, Driver
from tests.apps.programs import needs

PROGRAM = "soffice.bin"
pytestmark = [needs("libreoffice"), pytest.mark.asyncio(loop_scope="session")]
Office = Callable[[str, str], AbstractAsyncContextManager[object]]
OPTIONS = ("--norestore", "--nofirststartwizard", "--nologo", "--nodefault")


@pytest.fixture
def office(start: Start, tmp_path: Path) -> Office:
    """Opens a file in an office with a profile of its own."""

    @asynccontextmanager
    async def opened(kind: str, path: str) -> AsyncIterator[object]:
        profile = f"-env:UserInstallation=file://{tmp_path / 'profile'}"
        words = ("libreoffice", *OPTIONS, profile, kind, path)
        async with start(*words, title=Path(path).name, SAL_USE_VCLPLUGIN="gtk3") as running:
            yield running

    return opened


def says(path: Path, text: str) -> Check:
    """A check that a document has this text."""

    def read() -> bool:
        try:
            with zipfile.ZipFile(path) as document:
                return text in document.read("content.xml").decode()
        except (OSError, zipfile.BadZipFile, KeyError):
            return False

    return read


async def import_text(driver: Driver) -> None:
    """Answer the dialog that a text file opens, and wait for the sheet."""
    if driver.is_open("Text Import"):
        await driver.press("Enter", then=lambda: driver.is_open("LibreOffice Calc"))


async def save_as_text(driver: Driver, then: Check) -> None:
    """Save, and keep the format when the office asks."""
    await driver.press("ctrl+s", then=lambda: driver.is_open("Confirm File Format"))
    await driver.press("Enter", then=then)


async def test_cells_are_filled_by_name_and_by_keys(driver: Driver, office: Office, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("a,b\n1,2\n")
    async with office("--calc", str(sheet)):
        await import_text(driver)
        await driver.click("A3", "table cell")
        await driver.type("=A2+B2\n", process_name=PROGRAM)
        await driver.type("größer 漢")
        await driver.press("Enter")
        await save_as_text(driver, then=lambda: "3,\ngrößer 漢," in sheet.read_text("utf-8"))


async def test_the_name_box_leads_to_a_cell(driver: Driver, office: Office, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("a,b\n1,2\n")
    async with office("--calc", str(sheet)):
        await import_text(driver)
        await driver.press("ctrl+shift+t")
        await driver.type("C2\n")
        await driver.type("named")
        await driver.press("Enter")
        await save_as_text(driver, then=lambda: "1,2,named" in sheet.read_text())


async def test_paragraphs_are_typed_and_saved(driver: Driver, office: Office, tmp_path: Path) -> None:
    text = tmp_path / "text.fodt"
    text.write_text(EMPTY)
    async with office("--writer", str(text)):
        await driver.type("first é 漢\nsecond", process_name=PROGRAM)
        await driver.press("ctrl+s", then=lambda: text.read_text("utf-8").count("<text:p ") == 2)
        assert "first é 漢" in text.read_text("utf-8")


async def test_text_is_made_bold_by_its_button(driver: Driver, office: Office, tmp_path: Path) -> None:
    text = tmp_path / "text.fodt"
    text.write_text(EMPTY)
    async with office("--writer", str(text)):
        await driver.type("bold", process_name=PROGRAM)
        await driver.press("ctrl+a")
        await driver.click("Bold", "toggle button")
        await driver.press("ctrl+s", then=lambda: 'fo:font-weight="bold"' in text.read_text("utf-8"))


EMPTY = """<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" office:version="1.2"
 office:mimetype="application/vnd.oasis.opendocument.text">
<office:body><office:text><text:p/></office:text></office:body></office:document>
"""

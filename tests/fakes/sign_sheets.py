"""The sheet that signs a change, as a test's operator works it: found, looked at, signed or put away."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.main import ConsoleApplication
from app.signing.sign_dialog import SignDialog
from core.approvals.models import Operator
from core.approvals.operator_keys import create_operator_key
from core.changes import Change
from core.home import Home
from tests.fakes.window import seen

PHRASE = "correct horse battery"


def operator_of(folder: Path, name: str = "harbour", passphrase: str | None = None) -> Operator:
    """An operator whose key lies in the home of this folder, which the window of the same folder works on."""
    return create_operator_key(Home(folder).create(), name, passphrase).operator


def sign_sheets(desk: ConsoleApplication) -> list[SignDialog]:
    """Those that are open."""
    return [sheet for sheet in desk.window.findChildren(SignDialog) if sheet.isVisible()]


async def sign_sheet(desk: ConsoleApplication) -> SignDialog:
    """The open one; waits for it."""
    await seen(lambda: sign_sheets(desk))
    return sign_sheets(desk)[-1]


def press(sheet: SignDialog) -> None:
    """Press "Sign and apply" with the pointer, as an operator does."""
    QTest.mouseClick(sheet.sign, Qt.MouseButton.LeftButton)


async def sign(desk: ConsoleApplication) -> Change:
    """Sign what is shown, with a press of the button; gives what was shown."""
    sheet = await sign_sheet(desk)
    await seen(sheet.sign.isEnabled)
    shown = sheet.proposal.change
    press(sheet)
    await seen(lambda: sheet not in sign_sheets(desk))
    return shown


async def do_not_sign(desk: ConsoleApplication) -> Change:
    """Put the sheet away; gives what was shown."""
    sheet = await sign_sheet(desk)
    shown = sheet.proposal.change
    sheet.answer("cancel").click()
    await seen(lambda: not sign_sheets(desk))
    return shown

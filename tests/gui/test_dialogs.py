"""One rule for all dialogs: Ctrl+Enter and Enter answer, Esc closes, a click beside keeps what was typed."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLineEdit, QPlainTextEdit, QWidget
from shiboken6 import isValid

import app
from app.form_dialog import FormDialog
from app.forms.field_widgets import GrowingText
from app.main import ConsoleApplication
from app.screens.agents.agent_dialogs import TokenDialog
from app.screens.approvals.decision_rules import DecisionContext
from app.screens.approvals.edit_dialog import EditDialog
from app.screens.approvals.grant_dialog import GrantDialog
from app.screens.approvals.second_operator_dialog import SecondOperatorDialog
from app.screens.batch.inputs_dialog import InputsDialog
from app.screens.batch.open_dialog import OpenDialog
from app.screens.fleet.contract_review_dialog import ContractReviewDialog
from app.screens.fleet.device_dialogs import start_edit, start_forget
from app.screens.fleet.pairing_dialog import PairingDialog
from app.screens.runs.resume_dialog import ResumeDialog
from app.screens.runs.undo_dialog import UndoDialog
from app.screens.settings.rule_dialog import RuleDialog
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenSection
from app.shell.shortcuts_dialog import ShortcutsDialog
from app.signing.press_guard import PassphraseDialog
from app.signing.sign_dialog import SignDialog
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.batch.batch_file import read_batch
from core.changes import Proposal
from core.fleet.models import DeviceSettings
from core.service.pages import whole_run
from core.service.wishes import pairing_change
from tests.fakes.approvals_desk import make_approval
from tests.fakes.sign_sheets import PHRASE, operator_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.page import problem_in, visible

CTRL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
Key = Qt.Key
RUN = "r-0418"
WITH_INPUTS = """
name: Inputs
targets: name:this-computer
inputs:
  text: {type: string}
  depth: {type: integer, default: 2}
steps:
  - {id: list, tool: list_processes}
"""


async def nothing() -> None:
    """What a dialog would do; nothing here presses its own button."""


def second(desk: ConsoleApplication) -> Dialog:
    now = DecisionContext(approval=make_approval(1, approvers=2), key="harbour")
    return SecondOperatorDialog(desk.window, now, desk.keys, desk.window.by_hand)


def sign(desk: ConsoleApplication) -> Dialog:
    change = pairing_change("db-9", DeviceSettings(), None)
    proposal = Proposal(home="home", change=change, needs_signature=True, difference=["db-9 may dial in."])
    window = desk.window
    return SignDialog(window, proposal, desk.keys, desk.state, desk.link, window.by_hand)


def edit(desk: ConsoleApplication) -> Dialog:
    dialog = EditDialog(desk.window, make_approval(1), desk.window.by_hand)
    dialog.show_form({"type": "object", "properties": {"command": {"type": "string"}}})
    return dialog


async def resume(desk: ConsoleApplication) -> Dialog:
    async def read(console):  # type: ignore[no-untyped-def]
        return await whole_run(console.runs, await console.runs.get(RUN))

    run = await desk.link.perform(read)
    return ResumeDialog(desk.window, desk.link, run, lambda _run: None)


async def review(desk: ConsoleApplication) -> Dialog:
    tools = await desk.link.perform(lambda console: console.devices.tools("build-lnx-03"))
    return ContractReviewDialog(desk.window, desk.link, tools[0], nothing, lambda: None)


Make = Callable[[ConsoleApplication], Dialog | Awaitable[Dialog]]
DIALOGS: dict[str, Make] = {
    "FormDialog": lambda desk: start_edit(
        desk.window, desk.link, desk.state.devices["build-lnx-03"], desk.window
    ),
    "Forget": lambda desk: start_forget(
        desk.window, desk.link, desk.state.devices["build-lnx-03"], desk.window.toast
    ),
    "PassphraseDialog": lambda desk: PassphraseDialog(desk.window, "harbour", "sign", "A program"),
    "SignDialog": sign,
    "ShortcutsDialog": lambda desk: ShortcutsDialog(desk.window, "Fleet", []),
    "TokenDialog": lambda desk: TokenDialog(desk.window, desk.state, desk.link, desk.window, None),
    "SecondOperatorDialog": second,
    "GrantDialog": lambda desk: GrantDialog(
        desk.window, make_approval(1), "harbour", desk.state, desk.window.by_hand
    ),
    "EditDialog": edit,
    "RuleDialog": lambda desk: RuleDialog(desk.window, frozenset(), [], []),
    "UndoDialog": lambda desk: UndoDialog(desk.window, desk.link, RUN, RUN, lambda _run: None),
    "ResumeDialog": resume,
    "ContractReviewDialog": review,
    "PairingDialog": lambda desk: PairingDialog(desk.window, desk.state, desk.link, desk.window),
    "OpenDialog": lambda desk: OpenDialog(desk.window, []),
    "InputsDialog": lambda desk: InputsDialog(desk.window, read_batch(WITH_INPUTS, "inputs.yaml"), {}),
}


def below(kind: type[Dialog]) -> set[type[Dialog]]:
    return {one for sub in kind.__subclasses__() for one in (sub, *below(sub))}


def test_every_dialog_of_the_window_is_among_those_that_are_tried() -> None:
    for module in pkgutil.walk_packages(app.__path__, "app."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    known = {kind.__name__ for kind in below(Dialog) if kind.__module__.startswith("app.")}
    assert known <= DIALOGS.keys()


async def opened(desk: ConsoleApplication, name: str) -> Dialog:
    """One dialog, in front, with the keyboard in it."""
    desk.window.activateWindow()
    await seen(desk.window.isActiveWindow)
    await seen(lambda: desk.keys.is_read)
    made = DIALOGS[name](desk)
    dialog = made if isinstance(made, Dialog) else await made
    if not dialog.isVisible():
        dialog.open()
    await seen(lambda: (focus := QApplication.focusWidget()) is not None and dialog.isAncestorOf(focus))
    return dialog


def fields_of(dialog: Dialog) -> list[QWidget]:
    """The lines of text in a dialog; what has several lines keeps Enter."""
    lines = [
        one for one in visible(dialog.card, QLineEdit) if not one.isReadOnly() and one.focusProxy() is None
    ]
    growing = [one for one in visible(dialog.card, GrowingText) if not one.takes_lines]
    # The line in a list of choices belongs to the list.
    return [one for one in (*lines, *growing) if one.isEnabled() and not isinstance(one.parent(), QComboBox)]


def presses_of(dialog: Dialog) -> list[str]:
    """Presses of the primary answer from now on, which does nothing else any more."""
    primary = dialog.primary
    assert primary is not None
    assert primary.isVisible()
    presses: list[str] = []
    primary.clicked.disconnect()
    primary.clicked.connect(lambda *_: presses.append(primary.text()))
    return presses


@pytest.mark.parametrize("name", DIALOGS)
async def test_ctrl_enter_gives_the_primary_answer_and_enter_does_from_a_line_of_text(
    theme: Theme, tmp_path: Path, name: str
) -> None:
    async with open_frame(theme, tmp_path, story([operator_of(tmp_path, passphrase=PHRASE)])) as desk:
        dialog = await opened(desk, name)
        presses = presses_of(dialog)
        primary = dialog.primary
        assert primary is not None
        reached = [
            one
            for one in visible(dialog.card, QWidget)
            if one.focusPolicy() & Qt.FocusPolicy.TabFocus and one.isEnabled() and one.focusProxy() is None
        ]
        assert reached
        for place in reached:
            primary.set_off("")
            before = len(presses)
            place.setFocus()
            QTest.keyClick(QApplication.focusWidget(), Key.Key_Return, CTRL)
            QTest.keyClick(QApplication.focusWidget(), Key.Key_Enter, CTRL)
            assert len(presses) == before + 2, place
        for field in fields_of(dialog):
            primary.set_off("")
            before = len(presses)
            field.setFocus()
            QTest.keyClick(field, Key.Key_Return)
            assert len(presses) == before + primary.takes_enter, field.accessibleName()
        dialog.deleteLater()
        await seen(lambda: not isValid(dialog))


@pytest.mark.parametrize("name", DIALOGS)
async def test_an_answer_that_cannot_be_given_says_why(theme: Theme, tmp_path: Path, name: str) -> None:
    async with open_frame(theme, tmp_path, story([operator_of(tmp_path, passphrase=PHRASE)])) as desk:
        dialog = await opened(desk, name)
        presses, primary = presses_of(dialog), dialog.primary
        assert primary is not None
        primary.set_off("It is not complete.")
        QTest.keyClick(QApplication.focusWidget(), Key.Key_Return, CTRL)
        assert not presses
        assert problem_in(dialog) == "It is not complete."
        dialog.deleteLater()
        await seen(lambda: not isValid(dialog))


@pytest.mark.parametrize("name", DIALOGS)
async def test_a_click_beside_closes_only_what_nothing_was_typed_into_and_esc_closes(
    theme: Theme, tmp_path: Path, name: str
) -> None:
    async with open_frame(theme, tmp_path, story([operator_of(tmp_path, passphrase=PHRASE)])) as desk:
        dialog = await opened(desk, name)
        QTest.mouseClick(dialog, Qt.MouseButton.LeftButton, pos=QPoint(3, 3))
        await seen(lambda: not isValid(dialog) or not dialog.isVisible())
        dialog = await opened(desk, name)
        fields = [
            *fields_of(dialog),
            *(one for one in visible(dialog.card, QPlainTextEdit) if not one.isReadOnly()),
        ]
        if fields and name != "OpenDialog":
            fields[0].setFocus()
            QTest.keyClicks(fields[0], "x")
            QTest.mouseClick(dialog, Qt.MouseButton.LeftButton, pos=QPoint(3, 3))
            assert dialog.isVisible()
        QTest.keyClick(QApplication.focusWidget(), Key.Key_Escape)
        await seen(lambda: not isValid(dialog) or not dialog.isVisible())


async def test_a_dialog_without_a_primary_answer_does_not_open(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        dialog = FormDialog(desk.window, desk.link, "A question")
        dialog.add_answer("", "Cancel")
        with pytest.raises(AssertionError, match="A question"):
            dialog.open()
        dialog.deleteLater()


async def test_a_new_key_is_made_by_the_same_keys_and_what_is_missing_is_said(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story([operator_of(tmp_path)])) as desk:
        desk.window.activateWindow()
        desk.window.open("settings", OpenSection("operators"))
        screen = desk.window.current
        assert isinstance(screen, SettingsScreen)
        await seen(desk.window.isActiveWindow)
        page = screen.operators
        await seen(lambda: page.name_field.isVisible())
        presses: list[int] = []
        page.make.clicked.disconnect()
        page.make.clicked.connect(lambda *_: presses.append(1))
        page.name_field.setFocus()
        QTest.keyClicks(page.name_field, "anna")
        QTest.keyClick(page.name_field, Key.Key_Return)
        assert not presses
        for field in (page.secret_field, page.again_field):
            QTest.keyClicks(field, PHRASE)
        QTest.keyClick(page.name_field, Key.Key_Return)
        page.secret_field.setFocus()
        QTest.keyClick(page.secret_field, Key.Key_Return, CTRL)
        assert presses == [1, 1]


async def test_enter_in_an_input_of_a_run_goes_on_and_adds_no_line(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        dialog = await opened(desk, "InputsDialog")
        assert isinstance(dialog, InputsDialog)
        answers: list[str] = []
        dialog.finished.connect(answers.append)
        await seen(lambda: visible(dialog.card, GrowingText))
        field = visible(dialog.card, GrowingText)[0]
        field.setFocus()
        QTest.keyClicks(field, "page v3")
        QTest.keyClick(field, Key.Key_Return)
        await seen(lambda: answers)
        assert answers == ["given"]
        assert dialog.values["text"] == "page v3"


async def test_shift_enter_makes_lines_in_an_input_and_lines_that_were_given_keep_enter(
    theme: Theme, tmp_path: Path
) -> None:
    batch = read_batch(WITH_INPUTS, "inputs.yaml")
    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.activateWindow()
        await seen(desk.window.isActiveWindow)
        dialog = InputsDialog(desk.window, batch, {})
        dialog.ask()
        field = visible(dialog.card, GrowingText)[0]
        QTest.keyClicks(field, "one")
        QTest.keyClick(field, Key.Key_Return, SHIFT)
        QTest.keyClicks(field, "two")
        assert dialog.form.value()["text"] == "one\ntwo"
        dialog.finish("")
        dialog = InputsDialog(desk.window, batch, {"text": "one\ntwo"})
        dialog.ask()
        field = visible(dialog.card, GrowingText)[0]
        field.moveCursor(field.textCursor().MoveOperation.End)
        QTest.keyClick(field, Key.Key_Return)
        assert dialog.form.value()["text"] == "one\ntwo\n"
        dialog.finish("")

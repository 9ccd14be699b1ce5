"""The drawer of a cell: result, output, pictures, decision, entries, and what may be concluded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit

from app.images import ImageFault
from app.records.command import read_command
from app.records.run_text import look_key
from app.screens.journal.entry_text import entry_words
from app.screens.runs.cell_details import CellDetails
from app.screens.runs.screen import RunsScreen
from app.screens.targets import OpenApproval, OpenEntry
from app.theme.theme import Theme
from app.widgets.labels import Label
from core.audit.entries import Kind
from core.batch.models import CellState
from core.commands.results import Basis, Evidence, Verdict
from core.errors import ErrorCode, ErrorInfo, QuarterdeckError
from core.replay.titles import title_of
from tests.fakes.journal import FakeJournal
from tests.fakes.pictures import desktop_png
from tests.fakes.runs_screen import CLEAN, change_cell, drawer_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, opened_screens, seen
from tests.gui.page import part_of


def fact(drawer: CellDetails, label: str) -> str:
    return drawer.facts.value(label).text()


def words_in(drawer: CellDetails) -> str:
    return "\n".join(label.text() for label in drawer.decision.findChildren(Label))


async def test_a_result_is_a_tree_and_its_verdict_says_what_it_rests_on(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "disk")
        assert drawer.tab == "result"
        assert drawer.result.json.value["info_type"] == "disk"
        assert fact(drawer, "Verdict") == "confirmed"
        assert fact(drawer, "Basis") == "the device answered the question"
        assert fact(drawer, "call_id") == "c-0418-00"
        assert not drawer.banner.isVisible()


@pytest.mark.parametrize(
    ("verdict", "basis", "words"),
    [
        (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM, "the device says so"),
        (Verdict.CONFIRMED, Basis.POSTCONDITION, "observed"),
        (Verdict.UNKNOWN, Basis.NO_ANSWER, "no answer came: look before running again"),
    ],
)
async def test_the_basis_is_told_in_words(
    theme: Theme, tmp_path: Path, verdict: Verdict, basis: Basis, words: str
) -> None:
    console = story()
    change_cell(console, "lab-lnx-01", "mark", verdict=verdict, basis=basis)

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "mark")
        assert fact(drawer, "Basis") == words


async def test_an_error_says_what_happened_its_code_and_what_to_do(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        drawer = await drawer_of(desk, "build-lnx-03", "keep")
        assert drawer.result.error.isVisible()
        assert drawer.result.error.accessibleName() == (
            "rm: cannot remove 'lock': Device or resource busy tool_failed: Read what the tool said."
        )


async def test_an_answer_that_comes_too_late_is_told_and_the_outcome_stays_unknown(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "label-win-02", "start", "r-0410")
        assert drawer.cell is not None
        assert drawer.cell.call_id is not None
        late = console.write(
            Kind.LATE_ANSWER_RECEIVED,
            "device:label-win-02",
            device="label-win-02",
            call_id=drawer.cell.call_id,
            status="success",
            body={"result": "started"},
        )
        await seen(lambda: drawer.banner.fact.text().startswith("An answer came too late"))
        assert f"{late.seq:,}" in drawer.banner.detail.text().replace("\u202f", ",")
        assert drawer.badge.accessibleName() == "Outcome: unknown"
        keys = [row.key for row in drawer.entries.table.rows_model.items]
        assert str(late.seq) in keys


async def test_an_unknown_outcome_says_that_it_may_have_happened(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        drawer = await drawer_of(desk, "label-win-02", "start", "r-0410")
        assert drawer.banner.isVisible()
        assert drawer.banner.fact.text() == "This may have happened. Nothing was sent again."
        assert "The device is asked again when it is back. Look at it" in drawer.banner.detail.text()
        assert fact(drawer, "Basis") == "no answer came: look before running again"


@pytest.mark.parametrize(
    ("code", "basis", "by"),
    [
        (ErrorCode.DENIED_BY_POLICY, Basis.NOTHING_SENT, "Refused by the policy."),
        (ErrorCode.DENIED_BY_DEVICE, Basis.DEVICE_REFUSED, "Refused by the device edge-gw-11."),
        (ErrorCode.APPROVAL_EXPIRED, Basis.NOTHING_SENT, "Refused: the request expired."),
        (ErrorCode.STOPPED, Basis.NOTHING_SENT, "Refused: everything was stopped."),
    ],
)
async def test_a_refusal_says_by_whom_and_why(
    theme: Theme, tmp_path: Path, code: ErrorCode, basis: Basis, by: str
) -> None:
    console = story()
    change_cell(console, "edge-gw-11", "clean", basis=basis, error=ErrorInfo.of(code, "Because of this."))

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "edge-gw-11", "clean")
        assert drawer.banner.fact.text() == by
        assert "Because of this." in drawer.banner.detail.text()
        assert ("Nothing was sent." in drawer.banner.detail.text()) == (basis is Basis.NOTHING_SENT)


async def test_a_denial_names_the_operator_when_and_why(theme: Theme, tmp_path: Path) -> None:
    console = story()
    cell = change_cell(
        console, "edge-gw-11", "clean", error=ErrorInfo.of(ErrorCode.DENIED_BY_OPERATOR, "Not today.")
    )
    signed = {"statement": {"reason": "Not today."}, "signature": "00"}
    console.fake_journal.write(
        Kind.APPROVAL_DENIED,
        "operator:anna",
        call_id=cell.call_id,
        body={"approval": "a-1", "signed": signed},
    )

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "edge-gw-11", "clean")
        await seen(lambda: drawer.banner.fact.text() == "Refused by anna.")
        assert fact(drawer, "Decision").split(" anna ")[0].endswith("denied by")
        QTest.mouseClick(part_of(drawer.tabs, "Decision"), Qt.MouseButton.LeftButton)
        assert drawer.tab == "decision"
        assert "Not today." in words_in(drawer)


async def test_a_picture_can_be_zoomed_dragged_and_opened_over_the_window(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "shot")
        assert drawer.tab == "picture"
        view = drawer.picture.view
        await seen(lambda: not view.image().isNull())
        assert view.is_fitted()
        view.setFocus()
        QTest.keyClick(view, Qt.Key.Key_1)
        assert view.zoom() == 1.0
        assert drawer.picture.zoom.zoom.text() == "100 %"
        QTest.keyClick(view, Qt.Key.Key_Plus)
        assert view.zoom() == 1.25
        before = view.to_image(QPointF(0, 0))
        start, end = QPoint(60, 60), QPoint(20, 40)
        QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=start)
        move = QMouseEvent(
            QEvent.Type.MouseMove,
            QPointF(end),
            view.mapToGlobal(QPointF(end)),
            Qt.MouseButton.NoButton,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
        QApplication.sendEvent(view, move)
        QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=end)
        assert view.to_image(QPointF(0, 0)).x() > before.x()
        QTest.keyClick(view, Qt.Key.Key_F)
        full = drawer.picture.full
        assert full is not None
        assert full.isVisible()
        assert full.y() == 44
        assert full.view.image().size() == view.image().size()
        QTest.keyClick(full.view, Qt.Key.Key_Escape)
        assert drawer.picture.full is None
        assert drawer.isVisible()


async def test_ctrl_f_in_the_result_finds_in_the_result(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "disk")
        tree = drawer.result.json
        await seen(tree.isVisible)
        screen = desk.window.current
        assert isinstance(screen, RunsScreen)
        QTest.keyClick(desk.window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
        assert screen.list.field.hasFocus()
        tree.setFocus()
        control = Qt.KeyboardModifier.ControlModifier
        QTest.keyClick(tree, Qt.Key.Key_F, control)
        field = QApplication.focusWidget()
        assert isinstance(field, QLineEdit)
        assert tree.isAncestorOf(field)
        QTest.keyClicks(field, "mount")
        QTest.keyClick(field, Qt.Key.Key_F, control)
        assert field.hasFocus()
        assert field.selectedText() == "mount"
        QTest.keyClick(field, Qt.Key.Key_Escape)
        assert tree.hasFocus()


async def test_several_pictures_are_chosen_by_their_number(theme: Theme, tmp_path: Path) -> None:
    console = story()
    evidence = []
    for lines in (3, 12):
        data = desktop_png("lab-lnx-01", "linux", lines=lines)
        evidence.append(
            Evidence(
                blob=console.fake_journal.add_blob(data),
                media_type="image/png",
                size=len(data),
                what="picture",
            )
        )
    change_cell(console, "lab-lnx-01", "shot", evidence=evidence)

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "shot")
        chooser = drawer.picture.chooser
        assert chooser.isVisible()
        await seen(lambda: not drawer.picture.view.image().isNull())
        first = drawer.picture.view.image().copy()
        chooser.setCurrentIndex(1)
        await seen(lambda: drawer.picture.view.image() != first)
        assert chooser.currentText() == "2 of 2: picture"


async def test_bytes_that_are_no_picture_are_not_shown_as_one(theme: Theme, tmp_path: Path) -> None:
    console = story()
    blob = console.fake_journal.add_blob(b"not a picture")
    made = Evidence(blob=blob, media_type="image/png", size=13, what="picture")
    change_cell(console, "lab-lnx-01", "shot", evidence=[made])

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "shot")
        view = drawer.picture.view
        await seen(lambda: ImageFault.UNKNOWN_FORMAT in view.accessibleName())
        assert view.image().isNull()
        assert not drawer.picture.open_full.isEnabled()


async def test_the_decision_shows_answer_risk_reasons_and_who_approved(theme: Theme, tmp_path: Path) -> None:
    console = story()
    cell = next(
        one for one in console.work.find(CLEAN).cells if (one.device, one.step) == ("lab-lnx-01", "clean")
    )
    prepared = {
        "digest": "d" * 64,
        "contract": "c" * 64,
        "parameters": {"command": "rm -rf x"},
        "said": "Be <b>quick</b>",
    }
    console.fake_journal.write(Kind.COMMAND_PREPARED, "agent:night", call_id=cell.call_id, body=prepared)
    console.fake_journal.write(
        Kind.APPROVAL_GIVEN, "operator:harbour", call_id=cell.call_id, body={"approval": "a-1", "signed": {}}
    )

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        await seen(lambda: drawer.entries.table.rows_model.rowCount() == 3)
        QTest.mouseClick(part_of(drawer.tabs, "Decision"), Qt.MouseButton.LeftButton)
        words = words_in(drawer)
        assert "The policy asked an operator." in words
        assert "Profile guarded: high risk asks." in words
        assert "approved once by harbour" in words
        assert "“Be <b>quick</b>”" in words
        assert fact(drawer, "Digest") == "sha256 dddd … dddd"
        assert fact(drawer, "Contract") == "sha256 cccc … cccc"
        assert fact(drawer, "Decision").startswith("asked, approved once by harbour")


async def test_enter_on_an_entry_opens_it_in_the_journal(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "disk")
        await seen(lambda: drawer.entries.table.rows_model.rowCount() == 1)
        QTest.mouseClick(part_of(drawer.tabs, "Entries"), Qt.MouseButton.LeftButton)
        opened = opened_screens(desk)
        row = drawer.entries.table.rows_model.item(0)
        assert row is not None
        drawer.entries.table.choose(row.key)
        QTest.keyClick(drawer.entries.table, Qt.Key.Key_Return)
        assert opened == [("journal", OpenEntry(int(row.key)))]


async def test_a_waiting_cell_links_to_its_request(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        drawer = await drawer_of(desk, "lab-lnx-04", "clean")
        assert drawer.banner.fact.text() == "It waits for you."
        assert drawer.result.place.isHidden()
        opened = opened_screens(desk)
        drawer.banner.link.click()
        assert drawer.cell is not None
        assert drawer.cell.approval is not None
        assert opened == [("approvals", OpenApproval(drawer.cell.approval))]


async def test_enter_opens_the_drawer_and_escape_closes_it(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "disk")
        screen = desk.window.current
        assert isinstance(screen, RunsScreen)
        QTest.keyClick(desk.window, Qt.Key.Key_Escape)
        assert not drawer.isVisible()
        assert screen.matrix.hasFocus()
        QTest.keyClick(screen.matrix, Qt.Key.Key_Right)
        assert not drawer.isVisible()
        QTest.keyClick(screen.matrix, Qt.Key.Key_Return)
        assert drawer.isVisible()
        assert drawer.title.text() == "lab-lnx-01, keep"
        assert drawer.result.json.hasFocus()


async def test_a_journal_that_cannot_be_read_leaves_the_result_in_sight(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.fail_next["command"] = QuarterdeckError("Entry 7 does not match.", ErrorCode.JOURNAL_CORRUPT)

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "disk")
        await seen(lambda: "Entry 7 does not match." in drawer.entries.place.words)
        assert drawer.result.json.isVisible()


async def test_a_tool_that_imitates_markup_is_shown_as_text(theme: Theme, tmp_path: Path) -> None:
    console = story()
    known = console.work.find("r-0409")
    batch = known.batch.model_copy(update={"name": "<b>big</b>\u202e"})
    cells = [cell.model_copy(update={"tool": "<i>shot</i>", "note": "a\u200bb"}) for cell in known.cells]
    summary = known.summary.model_copy(update={"name": batch.name})
    console.work.add(known.model_copy(update={"cells": cells, "summary": summary, "batch": batch}))

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "call", "r-0409")
        screen = desk.window.current
        assert isinstance(screen, RunsScreen)
        assert screen.head.title.text() == "<b>big</b>[U+202E]"
        assert drawer.tool.text() == "<i>shot</i>"
        said = screen.matrix.currentIndex().data(Qt.ItemDataRole.AccessibleTextRole)
        assert "a[U+200B]b" in str(said)


def test_an_edited_request_shows_the_digest_and_arguments_that_were_sent_and_who_edited_them() -> None:
    journal = FakeJournal(1)
    first, second = {"command": "rm -rf /srv/a"}, {"command": "rm -rf /srv/b"}

    def write(kind: Kind, actor: str = "service", **body: Any) -> None:
        journal.write(kind, actor, call_id="c-1", body=body)

    write(Kind.COMMAND_PREPARED, "agent:clerk", digest="f992", contract="c0", parameters=first)
    write(Kind.APPROVAL_REQUESTED, "agent:clerk", digest="f992", approval="a-1", edited_from="")
    write(Kind.APPROVAL_EDITED, "operator:anna", approval="a-1")
    write(Kind.COMMAND_PREPARED, "agent:clerk", digest="139c", contract="c0", parameters=second)
    write(Kind.APPROVAL_REQUESTED, "agent:clerk", digest="139c", approval="a-2", edited_from="a-1")
    write(Kind.APPROVAL_GIVEN, "operator:bert")
    write(Kind.INTENT_RECORDED, digest="139c")
    write(Kind.COMMAND_SENT, digest="139c")
    known = read_command(journal.entries)
    assert known.digest == "139c"
    assert known.parameters == second
    assert known.asked_first == first
    assert known.edited is not None
    assert known.edited.sentence().startswith("edited by anna")
    assert known.answered is not None
    assert known.answered.sentence().startswith("approved once by bert")


def test_what_was_withdrawn_is_called_so_on_every_screen() -> None:
    journal = FakeJournal(1)
    for state in ("withdrawn", "expired"):
        body = {"state": state, "reason": "The run was cancelled.", "approval": "a-1"}
        entry = journal.write(Kind.APPROVAL_EXPIRED, "service", call_id="c-1", tool="write_file", body=body)
        known = read_command([entry])
        assert known.answered is not None
        assert known.answered.sentence().startswith(state)
        assert entry_words(entry) == f"approval {state}"
        assert ("withdrawn" in title_of(entry)) == (state == "withdrawn")


async def test_a_read_whose_answer_was_lost_is_unknown_in_the_matrix_as_in_the_facts(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    change_cell(console, "lab-lnx-01", "disk", verdict=Verdict.UNKNOWN, basis=Basis.NO_ANSWER)
    run = console.work.find(CLEAN)
    cells = [
        cell.model_copy(update={"state": CellState.FAILED})
        if (cell.device, cell.step) == ("lab-lnx-01", "disk")
        else cell
        for cell in run.cells
    ]
    console.work.add(run.model_copy(update={"cells": cells}))

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "disk")
        screen = desk.window.current
        assert isinstance(screen, RunsScreen)
        assert fact(drawer, "Verdict") == "unknown"
        shown = next(one for one in cells if (one.device, one.step) == ("lab-lnx-01", "disk"))
        assert look_key(shown, False) == "unknown"
        assert screen.matrix.cells.counts["unknown"] == 1

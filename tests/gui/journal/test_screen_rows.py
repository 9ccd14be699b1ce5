"""The journal's rows: a million of them, new ones above, copying, filtering by what is pointed at."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.screens.journal.entry_model import PAGES_KEPT, EntryModel
from app.screens.journal.entry_table import EntryTable
from app.screens.journal.entry_text import COLUMNS, DEVICE, KIND, TOOL, Present
from app.screens.journal.go_to_popup import place_in
from app.screens.journal.screen import JournalScreen
from app.screens.targets import OpenEntry
from app.theme.theme import Theme
from core.audit.entries import Kind
from tests.fakes.long_journal import LongConsole, made_entry
from tests.fakes.story import story
from tests.fakes.window import PATIENCE_S, open_frame, seen
from tests.fakes.work import calls_counted
from tests.gui.journal.page import open_journal

MILLION = 1_000_000
FEW = 1_000


def keys_in(screen: JournalScreen) -> list[str]:
    entries = screen.table.entries
    return [entries.key_at(row) for row in range(entries.rowCount())]


async def scroll_down(screen: JournalScreen, rows: int) -> None:
    """Scroll on page by page until these rows were seen with their entries."""
    table = screen.table
    for place in range(0, rows, 200):
        table.scrollTo(table.entries.index(place, 0), table.ScrollHint.PositionAtTop)
        await seen(lambda place=place: table.entries.entry_at(place) is not None)


def model_of(first: int, last: int) -> EntryModel:
    model = EntryModel()
    model.show([made_entry(seq) for seq in range(last, first - 1, -1)])
    return model


class PageSeen(QObject):
    """Tells when Qt has painted the first page that came after it was made."""

    def __init__(self, screen: JournalScreen) -> None:
        super().__init__()
        self.painted = asyncio.Event()
        self._screen, self._came = screen, False
        screen.feed.shown.connect(self._note)
        screen.table.viewport().installEventFilter(self)

    def _note(self) -> None:
        self._came = True

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if self._came and event.type() == QEvent.Type.Paint:
            # The filter is asked first; Qt paints before the loop's next turn.
            asyncio.get_running_loop().call_soon(self.painted.set)
        return False

    def forget(self) -> None:
        self._screen.feed.shown.disconnect(self._note)
        self._screen.table.viewport().removeEventFilter(self)


# The model


def test_the_model_keeps_qts_promises_while_it_grows_at_both_ends(qapp: QApplication) -> None:
    model = model_of(500, 600)
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    model.extend([499, 498])
    model.extend(range(499, 299, -1))
    assert model.prepend([made_entry(seq) for seq in range(603, 598, -1)]) == 3
    assert [model.seq_at(place) for place in range(model.rowCount())] == list(range(603, 299, -1))
    assert [model.row_of(str(seq)) for seq in (603, 600, 499, 300, 299, 604)] == [0, 3, 104, 303, -1, -1]
    model.show([])
    assert model.rowCount() == 0
    del tester


def test_pages_far_away_are_let_go_and_asked_for_again(qapp: QApplication) -> None:
    model = model_of(99_801, 100_000)
    model.extend(range(99_800, 0, -1))
    for page in range(1, PAGES_KEPT + 10):
        model.refill([made_entry(seq) for seq in range(100_000 - 200 * page, 99_800 - 200 * page, -1)])
    assert model.entries_in_memory() == PAGES_KEPT * 200
    wanted: list[tuple[int, int]] = []
    model.page_wanted.connect(lambda first, last: wanted.append((first, last)))
    assert model.entry_at(5) is None
    assert model.cell(5, 0) == "99,995", "its number is still known"
    model.look_at(0, 30)
    model.look_at(0, 30)
    assert wanted == [(100_000, 99_801)], "asked once"
    model.refill([made_entry(seq) for seq in range(100_000, 99_800, -1)])
    assert model.entry_at(5) == made_entry(99_995)


def test_older_entries_are_asked_for_once_until_they_came(qapp: QApplication) -> None:
    model = model_of(100, 110)
    asked: list[int] = []
    model.more_wanted.connect(lambda: asked.append(1))
    model.set_more(True)
    nowhere = model.index(-1, -1)
    model.fetchMore(nowhere)
    model.fetchMore(nowhere)
    assert asked == [1]
    model.extend([99, 98])
    model.set_more(True)
    model.fetchMore(nowhere)
    assert asked == [1, 1]


def test_the_entry_under_the_cursor_keeps_it_while_others_are_shown(theme: Theme, qtbot: QtBot) -> None:
    table = EntryTable()
    qtbot.addWidget(table)
    table.entries.show([made_entry(seq) for seq in (9, 8, 7)])
    table.choose_seq(8)
    table.entries.show([made_entry(seq) for seq in (12, 11, 8)])
    assert (table.current_key(), table.currentIndex().row()) == ("8", 2)


def test_production_rows_follow_the_devices(qapp: QApplication) -> None:
    model = model_of(1, 20)
    name = made_entry(10).device or ""
    model.show_present(Present(production=frozenset({name})))
    marked = {model.cell(row, DEVICE) for row in range(model.rowCount()) if model.style(row).production}
    assert marked == {name}


# A million


async def test_a_page_of_a_million_entries_takes_no_more_calls_than_a_page_of_a_thousand(
    theme: Theme, tmp_path: Path
) -> None:
    async def calls_of_a_page(entries: int) -> int:
        console, counts = LongConsole(entries), []
        async with open_frame(theme, tmp_path / str(entries), console) as desk:
            journal = await open_journal(desk)
            journal.screen.grab()
            # What is made once, such as entries and glyphs, is made before the last query, which counts.
            for query in ("tool:screenshot", "", "tool:screenshot"):
                page, asked = PageSeen(journal.screen), len(console.queries)
                with calls_counted() as calls:
                    journal.look_for(query)
                    async with asyncio.timeout(PATIENCE_S):
                        await page.painted.wait()
                page.forget()
                assert len(console.queries) - asked == 1
                counts.append(calls.count)
        return counts[-1]

    assert await calls_of_a_page(MILLION) < 1.3 * await calls_of_a_page(FEW)


async def test_scrolling_reads_on_and_keeps_memory_bounded(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(MILLION)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        await scroll_down(journal.screen, 12_000)
        entries = journal.screen.table.entries
        assert entries.entries_in_memory() <= PAGES_KEPT * 200
        assert [entries.seq_at(place) for place in (0, 11_999)] == [MILLION, MILLION - 11_999]
        journal.screen.table.verticalScrollBar().setValue(0)
        await seen(lambda: entries.entry_at(0) == made_entry(MILLION))


async def test_the_oldest_entry_is_one_key_away_and_the_scroll_bar_covers_the_whole_journal(
    theme: Theme, tmp_path: Path
) -> None:
    console = LongConsole(MILLION)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        entries, bar = journal.screen.table.entries, journal.screen.table.verticalScrollBar()
        await seen(lambda: entries.rowCount() == MILLION)
        asked = len(console.queries)
        journal.press(Qt.Key.Key_End)
        await seen(lambda: journal.entry == made_entry(1))
        assert bar.value() == bar.maximum()
        assert len(console.queries) - asked < 5
        bar.setValue(bar.maximum() // 2)
        top = journal.screen.table.rowAt(0)
        await seen(lambda: entries.entry_at(top) is not None)
        assert abs(top - MILLION // 2) < 100
        journal.press(Qt.Key.Key_Home)
        await seen(lambda: journal.entry == made_entry(MILLION))


def test_a_million_chosen_rows_do_not_stop_the_window_when_others_come(qtbot: QtBot, theme: Theme) -> None:
    table = EntryTable()
    qtbot.addWidget(table)
    table.entries.show([made_entry(MILLION)])
    table.entries.extend(range(MILLION - 1, 0, -1))
    table.choose_seq(MILLION - 7)
    table.selectAll()
    made: list[int] = []
    seq_at = table.entries.seq_at

    def counted(place: int) -> object:
        made.append(place)
        return seq_at(place)

    table.entries.seq_at = counted  # type: ignore[method-assign]
    table.entries.show([made_entry(seq) for seq in range(MILLION, MILLION - 50, -1)])
    assert len(made) < 1_000
    assert table.current_key() == str(MILLION - 7)


async def test_the_end_of_a_filtered_journal_is_one_key_away(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(60_000)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk, "tool:screenshot,write_file !kind:command_sent")
        asked = len(console.queries)
        journal.press(Qt.Key.Key_End)
        await seen(lambda: journal.shown == 1)
        entries = journal.screen.table.entries
        # Two tools of five, three kinds of four.
        assert entries.rowCount() == 18_000
        assert [entries.seq_at(place) for place in (17_998, 17_999)] == [3, 1]
        assert len(console.queries) - asked < 8


@pytest.mark.parametrize("query", ["", "tool:screenshot"])
async def test_any_entry_is_gone_to_by_its_number_or_by_a_time(
    theme: Theme, tmp_path: Path, query: str
) -> None:
    console = LongConsole(100_000)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk, query)
        journal.press(Qt.Key.Key_G)
        await seen(journal.screen.go_to.isVisible)
        for text in ("44,444", made_entry(31_234).time):
            journal.screen.go_to.field.setText(text)
            QTest.keyClick(journal.screen.go_to.field, Qt.Key.Key_Return)
            wanted = 44_444 if text == "44,444" else 31_234
            await seen(lambda wanted=wanted: journal.entry == made_entry(wanted))
            assert journal.chosen == str(wanted)
            journal.screen.go_to.open_at(journal.screen.table)
        journal.screen.go_to.field.setText("next week")
        QTest.keyClick(journal.screen.go_to.field, Qt.Key.Key_Return)
        assert journal.screen.go_to.isVisible()
        assert journal.screen.go_to.hint.text().startswith("This is not a number, a day or a time.")
        QTest.keyClick(journal.screen.go_to.field, Qt.Key.Key_Escape)
        assert not journal.screen.go_to.isVisible()
        assert journal.screen.table.hasFocus()


def test_what_may_be_gone_to_is_a_number_a_day_or_a_time() -> None:
    now = datetime(2026, 11, 22, 10, 30, tzinfo=UTC)
    for text, wanted in (
        ("9,412", 9412), ("17", 17), ("today", datetime(2026, 11, 22, tzinfo=UTC)),
        ("Yesterday", datetime(2026, 11, 21, tzinfo=UTC)), ("9:05", datetime(2026, 11, 22, 9, 5, tzinfo=UTC)),
        ("14:30:02", datetime(2026, 11, 22, 14, 30, 2, tzinfo=UTC)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20 14:30", datetime(2026, 11, 20, 14, 30, tzinfo=UTC)),
        ("2026-11-20T14:30:00z", datetime(2026, 11, 20, 14, 30, tzinfo=UTC)),
        ("", None), ("soon", None), ("25:00", None), ("2026-13-01", None), ("-5", None),
    ):  # fmt: skip
        assert place_in(text, now) == wanted, text


async def test_scrolling_does_not_wait_for_an_answer(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(MILLION)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        held = console.hold_back("entries")
        bar = journal.screen.table.verticalScrollBar()
        for value in range(0, bar.maximum(), bar.maximum() // 26):
            bar.setValue(value)
            journal.screen.table.viewport().grab()
        bar.setValue(bar.maximum())
        entries = journal.screen.table.entries
        assert entries.entry_at(entries.rowCount() - 1) is None
        held.set()
        await seen(lambda: entries.entry_at(entries.rowCount() - 1) == made_entry(1))


async def test_a_late_answer_to_an_earlier_query_is_dropped(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(5_000)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        held = console.hold_back("entries")
        journal.look_for("seq:1..10")
        journal.look_for("seq:21..30")
        held.set()
        await seen(lambda: journal.settled)
        assert keys_in(journal.screen) == [str(seq) for seq in range(30, 20, -1)]


# What is new


async def test_new_entries_wait_above_while_the_view_is_elsewhere(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(5_000)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        journal.screen.table.verticalScrollBar().setValue(1_000)
        journal.screen.table.choose_seq(4_955)
        top = journal.screen.table.rowAt(0)
        console.grow(12)
        await seen(lambda: journal.screen.table.above.isVisible())
        assert journal.screen.table.above.text() == "12 new above"
        assert journal.newest == 5_000
        assert (journal.screen.table.rowAt(0), journal.chosen) == (top, "4955")
        QTest.mouseClick(journal.screen.table.above, Qt.MouseButton.LeftButton)
        await seen(lambda: journal.newest == 5_012)
        assert not journal.screen.table.above.isVisible()
        assert journal.chosen == "4955"
        assert journal.screen.table.at_top()


async def test_new_entries_appear_while_the_view_is_at_the_top(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(5_000)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        journal.screen.table.choose_seq(4_990)
        console.grow(3)
        await seen(lambda: journal.newest == 5_003)
        assert journal.chosen == "4990"
        assert journal.screen.table.at_top()
        assert journal.screen.feed.total == 5_003


async def test_more_than_a_page_of_news_leaves_no_gap(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(5_000)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        journal.screen.table.choose_seq(4_990)
        await seen(lambda: journal.entry == made_entry(4_990))
        console.grow(700)
        await seen(lambda: journal.newest == 5_700)
        seqs = [journal.screen.table.entries.seq_at(place) for place in range(journal.rows)]
        assert seqs == list(range(5_700, 5_700 - len(seqs), -1))
        assert journal.entry == made_entry(4_990), "what somebody reads stays"


# Rows in words


async def test_rows_say_what_happened_in_words_and_colours(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk, "kind:command_refused")
        cell: Any = journal.screen.table.entries.cell(0, KIND)
        assert (cell.text, cell.tone) == ("command refused", "fail")
        console.write(Kind.DEVICE_LOST, "service", device="lab-mac-01")
        journal.look_for("kind:device_lost")
        await seen(lambda: journal.query == "kind:device_lost" and journal.settled)
        assert journal.screen.table.entries.cell(0, KIND).tone == "warn"


async def test_a_request_waits_for_you_only_as_long_as_it_does(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk, "call:c-0419-1 kind:approval_requested")
        assert journal.screen.table.entries.cell(0, 7).text == "waiting"
        await desk.link.ask(lambda door: door.service.stop_all())
        await seen(lambda: not desk.state.approvals)
        await seen(lambda: journal.screen.table.entries.cell(0, 7).text == "")


async def test_hidden_characters_from_a_device_are_seen(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.write(Kind.RESULT_RECORDED, "service", tool="rm\u202egnp.exe\nsecond", device="lab-lnx-01")

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        assert journal.screen.table.entries.cell(0, TOOL).text == "rm[U+202E]gnp.exe[U+000A]second"


# Copying and filtering


async def test_rows_are_copied_as_tab_separated_lines(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(5_000)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        journal.screen.table.setFocus()
        journal.screen.table.choose_seq(4_999)
        journal.press(Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
        journal.press(Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        lines = [line.split("\t") for line in QGuiApplication.clipboard().text().splitlines()]
        assert [line[0] for line in lines] == ["4,999", "4,998"]
        assert lines[0][2:6] == ["result recorded", "lab-lnx-05", "device", "read_file"]
        assert {len(line) for line in lines} == {len(COLUMNS) - 1}


async def test_rows_that_were_let_go_are_read_again_to_be_copied(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(20_000)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        await scroll_down(journal.screen, 9_000)
        assert journal.screen.table.entries.entry_at(3) is None
        journal.screen.table.selectAll()
        journal.screen.table.json_wanted.emit()
        await seen(lambda: QGuiApplication.clipboard().text().count("\n") == 4_999)
        first = json.loads(QGuiApplication.clipboard().text().splitlines()[3])
        assert first == made_entry(19_997).model_dump(mode="json")


@pytest.mark.parametrize(("word", "sign"), [("Only", ""), ("Without", "!")])
async def test_the_menu_filters_by_the_value_that_is_pointed_at(
    theme: Theme, tmp_path: Path, word: str, sign: str
) -> None:
    console = LongConsole(5_000)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        entry = journal.screen.table.entries.entry_at(2)
        menu = journal.screen.table.menu_for(2, DEVICE)
        action = next(one for one in menu.actions() if one.text() == f"{word} device {entry.device}")
        action.trigger()
        assert journal.typed == f"{sign}device:{entry.device}"
        await seen(lambda: journal.settled)
        devices = {journal.screen.table.entries.cell(row, DEVICE) for row in range(journal.rows)}
        assert (devices == {entry.device}) == (word == "Only")
        menu.deleteLater()


# Being sent here


async def test_an_entry_far_down_is_shown_among_its_neighbours(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(MILLION)

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("journal", OpenEntry(412_345, "proof"))
        screen: Any = desk.window.current
        await seen(lambda: screen.pane.entry == made_entry(412_345))
        assert screen.table.current_key() == "412345"
        assert screen.bar.field.text() == "seq:412295..412395"
        assert screen.pane.current_tab() == "proof"


async def test_an_entry_that_is_not_there_is_said_not_to_be(theme: Theme, tmp_path: Path) -> None:
    console = LongConsole(5_000)

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("journal", OpenEntry(5_020))
        screen: Any = desk.window.current
        await seen(lambda: "There is no entry 5,020." in screen.trouble.words())
        assert screen.table.entries.newest == 5_000


async def test_narrow_panes_let_actor_and_tool_share_a_column(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console, size=(1024, 640)) as desk:
        journal = await open_journal(desk)
        shown = {c.title for n, c in enumerate(COLUMNS) if not journal.screen.table.isColumnHidden(n)}
        assert "Actor, tool" in shown
        assert not shown & {"Actor", "Tool"}
        assert {"Entry", "Device", "Outcome"} <= shown
        assert not journal.screen.histogram.isVisible(), "low windows have no bars"

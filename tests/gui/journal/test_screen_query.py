"""The journal's query bar: tokens, suggestions, errors with their place, counts, earlier queries."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.screens.journal.query_terms import (
    completed,
    quoted_value,
    slot_at,
    terms_of,
    with_moments_fixed,
    with_term,
    with_time,
    without_term,
)
from app.screens.journal.screen import JournalScreen
from app.theme.theme import Theme
from core.audit.query import TextTerm, parse_query
from core.errors import ServiceError
from tests.fakes.console import FakeConsole
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.journal.page import open_journal
from tests.gui.page import button_named

# The text


async def test_a_window_that_opens_on_the_journal_reads_it_when_the_service_answers(
    theme: Theme, tmp_path: Path
) -> None:
    answers = asyncio.Event()

    async def door() -> FakeConsole:
        await answers.wait()
        return story()

    async with open_frame(theme, tmp_path, door, wait=False) as desk:
        desk.window.open("journal")
        screen = desk.window.current
        assert isinstance(screen, JournalScreen)
        await asyncio.sleep(0)
        assert not screen.trouble.isVisible(), "nothing failed yet"
        answers.set()
        await seen(lambda: screen.table.entries.rowCount() > 0)
        assert not screen.trouble.isVisible()


def test_terms_are_found_with_their_quotes_and_negation() -> None:
    text = 'tool:shell_execute !actor:"agent: a b" word  since:1h'
    spans = terms_of(text)
    assert [text[span.start : span.end] for span in spans] == [
        "tool:shell_execute",
        '!actor:"agent: a b"',
        "word",
        "since:1h",
    ]
    assert [span.field for span in spans] == ["tool", "actor", None, "since"]
    assert spans[1].negated


@given(st.text(alphabet='ab:!", *\\sincetool', max_size=40), st.integers(0, 40))
def test_any_half_typed_query_has_terms_and_a_place_to_complete(text: str, cursor: int) -> None:
    cursor = min(cursor, len(text))
    spans = terms_of(text)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    slot = slot_at(text, cursor)
    assert 0 <= slot.start <= cursor <= max(slot.end, cursor)
    filled, at = completed(text, slot, "x")
    assert 0 <= at <= len(filled)


@given(st.text(min_size=1, max_size=20).filter(lambda value: value.isprintable()))
def test_a_value_that_is_picked_means_itself(value: str) -> None:
    term = parse_query(f"actor:{quoted_value(value)}").terms[0]
    assert isinstance(term, TextTerm)
    assert [pattern.literal for pattern in term.patterns] == [value]


def test_a_value_after_a_comma_is_completed_alone() -> None:
    text = "device:lab-lnx-01,bu status:failure"
    slot = slot_at(text, len("device:lab-lnx-01,bu"))
    assert (slot.kind, slot.field, slot.prefix) == ("value", "device", "bu")
    assert completed(text, slot, "build-lnx-03")[0] == "device:lab-lnx-01,build-lnx-03 status:failure"


def test_a_quote_after_an_escaped_backslash_ends_the_value() -> None:
    text = r'device:"C:\\",bu'
    slot = slot_at(text, len(text))
    assert slot.prefix == "bu"
    assert completed(text, slot, "build-lnx-03")[0].startswith(r'device:"C:\\",build-lnx-03')
    inside = r'device:"a\",bu'
    assert slot_at(inside, len(inside)).start == len("device:")


def test_a_stretch_of_time_replaces_the_one_before() -> None:
    start, end = datetime(2026, 3, 1, 10, 0, 0, 400, UTC), datetime(2026, 3, 1, 11, 0, 0, 1, UTC)
    text = with_time("tool:x since:1h until:5m", start, end)
    assert text == "tool:x since:2026-03-01T10:00:00Z until:2026-03-01T11:00:01Z"
    query = parse_query(text)
    assert query.since == "2026-03-01T10:00:00.000000Z"
    assert query.until == "2026-03-01T11:00:01.000000Z"


def test_ages_are_fixed_so_that_all_pages_have_the_same_bounds() -> None:
    now = datetime(2026, 3, 1, 12, 0, 0, 5, UTC)
    fixed = with_moments_fixed('since:1h "since:2h" tool:x', now)
    assert fixed == 'since:2026-03-01T11:00:00.000005Z "since:2h" tool:x'


def test_terms_are_added_once_and_taken_away() -> None:
    assert with_term("tool:x", "tool:x") == "tool:x"
    assert with_term("", "!tool:x") == "!tool:x"
    assert without_term("tool:x status:failure", 0) == "status:failure"


# The bar


async def test_the_beginning_of_a_key_offers_keys_and_tab_goes_on_to_its_values(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        journal = await open_journal(desk)
        journal.type("ve")
        await seen(lambda: journal.offered)
        assert journal.offered == ["verdict"]
        journal.press_in_query(Qt.Key.Key_Tab)
        assert journal.typed == "verdict:"
        await seen(lambda: "unknown" in journal.offered)
        QTest.keyClicks(journal.screen.bar.field, "unk")
        await seen(lambda: journal.offered == ["unknown"])
        journal.press_in_query(Qt.Key.Key_Tab)
        assert journal.typed == "verdict:unknown "
        await seen(lambda: journal.query == "verdict:unknown" and journal.settled)
        entries = journal.screen.table.entries
        assert {entries.cell(row, 7).text for row in range(entries.rowCount())} == {"unknown"}


async def test_values_come_with_how_many_entries_have_them(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        journal.type("actor:ag")
        await seen(lambda: journal.offered)
        model = journal.screen.bar.field.suggestions.view.model()
        shown = {model.index(row, 0).data() for row in range(model.rowCount())}
        assert shown == {one.value for one in console.fake_journal.facets("actor", "ag", 12)}
        spoken = str(model.index(0, 0).data(Qt.ItemDataRole.AccessibleTextRole))
        assert spoken == f"agent:clerk, {console.fake_journal.facets('actor', 'ag', 1)[0].count}"


async def test_enter_after_a_plain_word_looks_for_the_word(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        journal = await open_journal(desk)
        journal.type("s")
        await seen(lambda: journal.offered)
        journal.press_in_query(Qt.Key.Key_Return)
        assert journal.query == "s"


async def test_enter_never_takes_what_was_offered_for_another_place_of_the_query(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        journal = await open_journal(desk)
        field = journal.screen.bar.field
        journal.type("tool:shell_execute actor:")
        await seen(field.list_is_open)
        for _ in "actor:":
            QTest.keyClick(field, Qt.Key.Key_Backspace)
        assert not field.list_is_open()
        # As fast as keys can come: nothing is asked for in between.
        QTest.keyClicks(field, "verdict:unknown")
        QTest.keyClick(field, Qt.Key.Key_Return)
        assert field.text() == "tool:shell_execute verdict:unknown"
        assert journal.query == "tool:shell_execute verdict:unknown"


async def test_enter_takes_what_an_arrow_chose_and_else_applies_what_is_typed(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        journal = await open_journal(desk)
        field = journal.screen.bar.field
        journal.type("verdict:un")
        await seen(field.list_is_open)
        QTest.keyClick(field, Qt.Key.Key_Return)
        assert field.text() == "verdict:un"
        field.clear()
        journal.type("verdict:un")
        await seen(field.list_is_open)
        QTest.keyClick(field, Qt.Key.Key_Down)
        chosen = field.suggestions.current()
        QTest.keyClick(field, Qt.Key.Key_Return)
        assert field.text() == f"verdict:{chosen} "


async def test_an_error_is_said_under_the_bar_with_its_column_and_the_rows_stay(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        journal = await open_journal(desk)
        before = journal.rows
        journal.type("tool:screenshot statos:failure")
        journal.press_in_query(Qt.Key.Key_Return)
        assert journal.problem.startswith("Column 17: there is no field 'statos'")
        assert "Allowed: did you mean status?" in journal.problem
        assert journal.underlined_from == 16
        assert journal.rows == before
        journal.press_in_query(Qt.Key.Key_Backspace)
        assert not journal.problem


async def test_a_term_that_is_still_being_typed_is_no_error(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        journal = await open_journal(desk)
        journal.type("kind:res")
        await journal.pause_typing()
        assert not journal.problem
        journal.screen.table.setFocus()
        assert journal.problem, "whoever goes on is told"


async def test_the_count_says_how_many_of_how_many_and_how_long_it_took(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk, "tool:screenshot")
        count = len(console.fake_journal.matching("tool:screenshot"))
        await seen(lambda: journal.count_words == f"{count} of 18,204 entries, 3 ms")


async def test_the_cross_brings_everything_back(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        journal = await open_journal(desk, "tool:screenshot")
        few = journal.rows
        QTest.mouseClick(button_named(journal.screen.bar, "Clear the query"), Qt.MouseButton.LeftButton)
        await seen(lambda: journal.query == "" and journal.settled)
        assert journal.rows > few


async def test_arrow_up_in_the_empty_field_brings_earlier_queries_back(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        journal = await open_journal(desk, "tool:screenshot")
        journal.look_for("status:failure")
        journal.look_for("")
        field = journal.screen.bar.field
        field.setFocus()
        QTest.keyClick(field, Qt.Key.Key_Up)
        assert field.text() == "status:failure"
        QTest.keyClick(field, Qt.Key.Key_Up)
        assert field.text() == "tool:screenshot"
        QTest.keyClick(field, Qt.Key.Key_Down)
        QTest.keyClick(field, Qt.Key.Key_Down)
        assert field.text() == ""


@pytest.mark.parametrize("keys", ["/", "Ctrl+F"])
async def test_keys_lead_into_the_query_and_escape_out_of_it(theme: Theme, tmp_path: Path, keys: str) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        journal = await open_journal(desk)
        if keys == "/":
            journal.press(Qt.Key.Key_Slash)
        else:
            journal.press(Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
        assert journal.screen.bar.field.hasFocus()
        QTest.keyClicks(journal.screen.bar.field, "tool:")
        assert journal.screen.escape()
        assert journal.typed in {"", "tool:"}
        while journal.screen.bar.field.hasFocus():
            assert journal.screen.escape()
        assert journal.screen.table.hasFocus()


async def test_no_match_says_what_to_change_and_does_it(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        journal = await open_journal(desk, "tool:nothing status:failure")
        assert journal.screen.no_match.isVisible()
        words = [link.text() for link in journal.screen.no_match.ways()]
        assert words == ["Without tool:nothing", "Without status:failure"]
        assert journal.screen.no_match.button.text() == "Clear the query"
        QTest.mouseClick(journal.screen.no_match.ways()[0], Qt.MouseButton.LeftButton)
        await seen(lambda: journal.screen.table.isVisible() and journal.query == "status:failure")
        assert journal.typed == "status:failure"


async def test_a_click_on_a_bar_narrows_the_query_to_its_time(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        await seen(lambda: journal.screen.histogram.buckets())
        number = next(n for n, one in enumerate(journal.screen.histogram.buckets()) if one.count)
        count = journal.screen.histogram.buckets()[number].count
        place = journal.screen.histogram.bar_rect(number).center().toPoint()
        QTest.mouseClick(journal.screen.histogram, Qt.MouseButton.LeftButton, pos=place)
        await seen(lambda: "since:" in journal.query and journal.settled)
        assert "until:" in journal.query
        assert journal.screen.feed.total >= count
        assert journal.screen.feed.total < len(console.fake_journal.entries)


async def test_a_journal_that_cannot_be_read_says_so_and_can_be_read_again(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        console.fail_next["entries"] = ServiceError("The line broke.")
        journal.look_for("tool:screenshot")
        await seen(lambda: journal.trouble)
        assert "The line broke." in journal.trouble
        journal.screen.trouble.acted.emit("again")
        await seen(lambda: not journal.trouble)

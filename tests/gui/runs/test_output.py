"""The output of a command: both streams, large ones, hostile ones, copied and saved."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog

from app.screens.runs.output_search import MOST_MARKED
from app.screens.runs.output_streams import LONGEST_LINE, MOST_SHOWN, Stream, make_readable, streams_of
from app.screens.runs.terminal_colors import MOST_COLORED, take_colors
from app.theme.theme import Theme
from tests.fakes.runs_screen import CLEAN, change_cell, drawer_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen


async def test_output_shows_both_streams_and_tints_what_was_complained_about(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    answer = {"stdout": "one\ntwo\n", "stderr": "rm: busy\n", "exit_code": 1}
    change_cell(console, "lab-lnx-01", "clean", result=answer)

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        assert drawer.tab == "output"
        box = drawer.output.box
        await seen(lambda: box.toPlainText() == "rm: busy\none\ntwo")
        (mark,) = box.extraSelections()
        assert mark.cursor.selectedText() == "rm: busy"
        assert drawer.output.sizes.text() == "stdout 8 B"
        assert drawer.output.errors.text() == "stderr 9 B"
        assert drawer.output.ended.text() == "exit code 1"
        drawer.output.wrap.click()
        assert box.lineWrapMode() == box.LineWrapMode.NoWrap
        drawer.output.copy.click()
        await seen(lambda: QApplication.clipboard().text() == "rm: busy\none\ntwo\n")


async def test_hidden_characters_in_output_are_written_out_and_never_markup(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    answer = {
        "stdout": "a\x1b[2K\x1b]8;;http://x\x07<b>\u202etxt.exe</b>\u200b\n",
        "stderr": "",
        "exit_code": 0,
    }
    change_cell(console, "lab-lnx-01", "clean", result=answer)

    words = "a[U+001B][2K[U+001B]]8;;http://x[U+0007]<b>[U+202E]txt.exe</b>[U+200B]"
    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        await seen(lambda: drawer.output.box.toPlainText() == words)


async def test_output_has_the_colors_that_a_command_wrote_and_not_their_escapes(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    text = "\U0001f600 \x1b[1;31mfailed\x1b[0m\r\nthen \x1b[38;5;2mgreen\x1b[39m \x1b[8;30;40mhidden?\x1b[m\n"
    change_cell(console, "lab-lnx-01", "clean", result={"stdout": text, "stderr": "", "exit_code": 0})

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        box = drawer.output.box
        await seen(lambda: box.toPlainText() == "\U0001f600 failed\nthen green hidden?")
        colors = [
            (block.text(), [(one.start, one.length, one.format.foreground().color()) for one in formats])
            for block in (box.document().findBlockByNumber(number) for number in range(2))
            if (formats := block.layout().formats())
        ]
        assert colors == [
            ("\U0001f600 failed", [(3, 6, theme.color("fail"))]),
            ("then green hidden?", [(5, 5, theme.color("ok"))]),
        ]
        drawer.output.copy.click()
        await seen(lambda: QApplication.clipboard().text() == text)


async def test_one_color_over_a_flood_of_lines_is_bounded_too(theme: Theme, tmp_path: Path) -> None:
    console = story()
    text = "\x1b[31m" + "a\n" * (3 * MOST_COLORED)
    change_cell(console, "lab-lnx-01", "clean", result={"stdout": text, "stderr": "", "exit_code": 0})

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        document = drawer.output.box.document()
        await seen(lambda: document.blockCount() == 3 * MOST_COLORED)
        lines = [document.findBlockByNumber(number) for number in range(document.blockCount())]
        assert sum(bool(line.layout().formats()) for line in lines) == MOST_COLORED


@pytest.mark.parametrize(
    ("text", "shown", "colored"),
    [
        ("\x1b[31mred\x1b[91mbright\x1b[39mplain", "redbrightplain", [(0, 3, "fail"), (3, 6, "fail")]),
        ("\x1b[48;5;1mon red\x1b[38;2;1;2;3mrgb\x1b[38;5;200mfar", "on redrgbfar", []),
        ("\x1b[38;5m\x1b[38ma\x1b[;;;mb\x1b[38:5:1mc", "abc", []),
        ("\x1b[31", "[U+001B][31", []),
        ("\x1b[31\u200bm", "[U+001B][31[U+200B]m", []),
        ("\x1b[32m\u202ex", "[U+202E]x", [(0, 9, "ok")]),
        ("\x1b[2J\x1b[1A\x1b[Ka\x9b31mb", "[U+001B][2J[U+001B][1A[U+001B][Ka[U+009B]31mb", []),
        ("\x1b[" + "1;" * 40 + "m", "[U+001B][" + "1;" * 40 + "m", []),
    ],
)
def test_only_colors_are_taken_out_of_a_text(
    text: str, shown: str, colored: list[tuple[int, int, str]]
) -> None:
    words, parts = take_colors(text)
    assert words == shown
    assert [(part.start, part.length, part.tone) for part in parts] == colored


def test_a_flood_of_colors_costs_the_view_a_bounded_number_of_marks() -> None:
    words, parts = take_colors("\x1b[31ma\x1b[32mb" * 50_000)
    assert words == "ab" * 50_000
    assert len(parts) == MOST_COLORED


async def test_a_large_output_is_read_from_its_blob_and_saved_whole(theme: Theme, tmp_path: Path) -> None:
    console = story()
    data = b"".join(b"line %06d\n" % number for number in range(120_000))
    blob = console.fake_journal.add_blob(data)
    place = {"blob": blob, "media_type": "text/plain", "size": len(data), "head": "line 000000"}
    change_cell(console, "lab-lnx-01", "clean", result={"stdout": place, "stderr": "", "exit_code": 0})

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        await seen(lambda: drawer.output.box.blockCount() > 80_000)
        assert drawer.output.message.text().startswith("440.0 kB more are not shown")
        drawer.output.save.click()
        [dialog] = drawer.findChildren(QFileDialog)
        assert not dialog.isModal()
        target = tmp_path / "output.txt"
        dialog.fileSelected.emit(str(target))
        dialog.reject()
        await seen(target.exists)
        assert target.read_bytes() == data


async def test_an_output_that_cannot_be_read_says_why(theme: Theme, tmp_path: Path) -> None:
    console = story()
    gone = {"blob": "ab" * 32, "media_type": "text/plain", "size": 100_000, "head": "x"}
    change_cell(console, "lab-lnx-01", "clean", result={"stdout": gone, "stderr": ""})

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        await seen(lambda: "There is no blob" in drawer.output.message.text())
        assert drawer.output.box.toPlainText() == ""


def test_output_for_the_screen_is_bounded() -> None:
    shown = make_readable(Stream("stdout", size=3 * MOST_SHOWN), b"x" * (3 * MOST_SHOWN))
    assert len(shown.text) < LONGEST_LINE + 100
    assert shown.left == 2 * MOST_SHOWN
    assert "more characters in this line" in shown.text


def test_results_without_streams_have_no_output() -> None:
    cells = story().work.find(CLEAN).cells
    assert streams_of(None) == []
    assert streams_of(cells[0].result) == []
    assert [stream.name for stream in streams_of(cells[2].result)] == ["stdout", "stderr"]


def test_what_a_failed_command_complained_about_comes_first() -> None:
    result = story().work.find(CLEAN).cells[2].result
    assert result is not None
    failed = result.model_copy(update={"result": {"stdout": "a", "stderr": "b", "exit_code": 3}})
    assert [stream.name for stream in streams_of(failed)] == ["stderr", "stdout"]


async def test_an_output_is_searched_counted_and_walked_through_by_keyboard(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    text = "\U0001f600 Error: a\nfine\nerror.b\n" + "x\n" * 400 + "ERROR\n"
    change_cell(console, "lab-lnx-01", "clean", result={"stdout": text, "stderr": "", "exit_code": 0})

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        box, search = drawer.output.box, drawer.output.search
        await seen(lambda: "Error" in box.toPlainText())
        box.setFocus()
        QTest.keyClick(desk.window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
        await seen(search.field.hasFocus)
        QTest.keyClicks(search.field, "error")
        assert search.count.text() == "1 of 3"
        assert {mark.cursor.selectedText() for mark in box.extraSelections()} == {"Error", "error", "ERROR"}
        top = box.verticalScrollBar().value()
        QTest.keyClick(search.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
        assert search.count.text() == "3 of 3"
        assert box.extraSelections()[-1].cursor.selectedText() == "ERROR"
        assert box.verticalScrollBar().value() > top
        QTest.keyClick(search.field, Qt.Key.Key_Return)
        assert search.count.text() == "1 of 3"
        search.field.setText("r.b")
        assert search.count.text() == "1 of 1"  # the sign, not any sign
        search.field.setText("nowhere")
        assert search.count.text() == "No match in this output"
        assert box.extraSelections() == []
        QTest.keyClick(desk.window, Qt.Key.Key_Escape)
        assert search.isHidden()
        assert drawer.isVisible()
        assert box.hasFocus()


async def test_an_output_with_a_flood_of_places_counts_all_and_marks_some(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    answer = {"stdout": "a\n" * (2 * MOST_MARKED), "stderr": "", "exit_code": 0}
    change_cell(console, "lab-lnx-01", "clean", result=answer)

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        box, search = drawer.output.box, drawer.output.search
        await seen(lambda: box.document().blockCount() == 2 * MOST_MARKED)
        search.field.setText("A")
        assert search.count.text() == "1 of 4,000"
        assert len(box.extraSelections()) == MOST_MARKED
        search.step(-1)
        assert search.count.text() == "4,000 of 4,000"
        assert len(box.extraSelections()) == MOST_MARKED + 1


async def test_line_numbers_count_each_stream_and_are_not_copied(theme: Theme, tmp_path: Path) -> None:
    console = story()
    answer = {"stdout": "one\ntwo\n", "stderr": "rm: busy\nrm: gone\n", "exit_code": 1}
    change_cell(console, "lab-lnx-01", "clean", result=answer)

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        output = drawer.output
        await seen(lambda: output.box.blockCount() == 4)
        margin = output.box.viewport().x()
        output.numbers.click()
        assert output.box.viewport().x() > margin
        assert [number for number, _top in output.box.numbers_in_sight()] == [1, 2, 1, 2]
        output.box.selectAll()
        output.box.copy()
        assert QApplication.clipboard().text() == "rm: busy\nrm: gone\none\ntwo"

    async with open_frame(theme, tmp_path, console) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "clean")
        assert drawer.output.numbers.isChecked()

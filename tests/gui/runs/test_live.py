"""Output while it comes: streams, times, colours, search, the end followed, and kept without a result."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.screens.runs.live_box import MOST_KEPT, LiveBox
from app.screens.runs.live_output import LiveOutput
from app.screens.runs.live_text import LivePart, LiveText
from app.screens.runs.output_streams import LONGEST_LINE
from app.screens.runs.terminal_colors import ColorReader
from app.theme.theme import Theme
from core.batch.models import OutputChunk, OutputPiece, OutputStream, RunState
from tests.fakes.window import seen
from tests.gui.page import link_in
from tests.gui.runs.page import RunsPage, open_runs

# Prints at once, then a line for each file `go-N` that appears, until `end` is there.
LINES = (
    "echo begun; printf '\\033[31mred\\033[0m plain\\n'; echo warned >&2; n=1; while [ ! -e '{0}/end' ]; do "
    "if [ -e '{0}/go-'$n ]; then echo line $n; n=$((n+1)); fi; sleep 0.02; done; exit {1}"
)


async def printing(page: RunsPage, code: int = 0) -> LiveOutput:
    """A command that prints, looked at."""
    command = LINES.format(page.work, code)
    run = await page.start(
        {"id": "call", "tool": "shell_execute", "with": {"command": command, "timeout": 300}}
    )
    await page.approve()
    await page.open(run, "this-computer", "call")
    live = page.drawer.live
    await seen(lambda: {"begun", "red plain", "warned"} <= set(text_of(live).split("\n")))
    return live


def text_of(live: LiveOutput) -> str:
    return live.box.toPlainText()


def look_at(box: LiveBox, words: str) -> tuple[str, str]:
    """The ink and the ground of the first place that says this."""
    cursor = box.document().find(words)
    assert isinstance(cursor, QTextCursor)
    look = cursor.charFormat()
    return look.foreground().color().name(), look.background().color().name()


async def test_output_comes_while_the_command_runs_and_its_end_is_followed(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        live = await printing(page)
        assert page.drawer.tab == "output"
        assert look_at(live.box, "red")[0] == theme.color("fail").name()
        assert look_at(live.box, "plain")[0] == theme.color("text").name()
        assert look_at(live.box, "warned")[1] == theme.color("warn_tint").name()
        assert all(len(words) == len("10:40:18") for words, _top in live.box.gutter_words() if words)
        assert live.about.text().endswith("until now")
        for number in range(1, 4):
            (page.work / f"go-{number}").touch()
            await seen(lambda number=number: f"line {number}\n" in text_of(live))
        (page.work / "end").touch()
        await page.until(RunState.DONE)
        # What is read stays; the streams of the result are a press away.
        assert live.isVisible()
        await seen(lambda: live.streams.isVisible())
        link_in(live, "By stream").click()
        assert page.drawer.output.isVisible()
        await seen(lambda: "line 3" in page.drawer.output.box.toPlainText())
        link_in(page.drawer.output, "As it came").click()
        assert live.isVisible()


async def test_ctrl_l_stays_where_one_reads_and_follows_again(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        live = await printing(page)
        bar = live.box.verticalScrollBar()
        live.box.add([LivePart(f"{number}\n", "") for number in range(500)])
        assert bar.value() == bar.maximum() > 0
        page.press_key(Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
        assert not live.follow.isChecked()
        at = bar.value()
        live.box.add([LivePart("more\n" * 50, "")])
        assert bar.value() == at < bar.maximum()
        page.press_key(Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
        assert bar.value() == bar.maximum()
        bar.triggerAction(bar.SliderAction.SliderToMinimum)
        await seen(lambda: not live.follow.isChecked())
        bar.triggerAction(bar.SliderAction.SliderToMaximum)
        await seen(live.follow.isChecked)


async def test_what_comes_is_searched_too_and_the_place_stays(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        live = await printing(page)
        live.box.setFocus()
        QTest.keyClick(live.box, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
        await seen(live.search.field.hasFocus)
        QTest.keyClicks(live.search.field, "line")
        assert live.search.count.text() == "No match in this output"
        (page.work / "go-1").touch()
        await seen(lambda: live.search.count.text().endswith(" of 1"))
        QTest.keyClick(live.search.field, Qt.Key.Key_Return)
        (page.work / "go-2").touch()
        await seen(lambda: live.search.count.text() == "1 of 2")


async def test_a_cancelled_cell_keeps_its_output_also_when_only_the_journal_has_it(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        live = await printing(page)
        (page.work / "go-1").touch()
        await seen(lambda: "line 1\n" in text_of(live))
        run = page.run
        page.press_key(Qt.Key.Key_C)
        page.press("Cancel this step")
        await page.until(RunState.CANCELLED)
        kept = text_of(live)
        live.copy.click()
        await seen(lambda: "line 1" in QApplication.clipboard().text())
        assert "\x1b[31mred" in QApplication.clipboard().text()
        # As after a restart: the run is read from its entries.
        other = await page.start({"id": "look", "tool": "get_system_info", "with": {"info_type": "memory"}})
        assert other != run
        await page.bay.service.journal.settle()
        page.bay.forget_run(run)
        await page.open(run, "this-computer", "call")
        await seen(lambda: page.drawer.cell is not None and page.drawer.cell.run == run)
        assert page.drawer.cell is not None
        assert page.drawer.cell.output_size == 0
        await seen(lambda: live.isVisible() and text_of(live) == kept)
        assert not live.about.text().endswith("until now")


def chunk(*pieces: tuple[int, OutputStream, str], more: bool = False) -> OutputChunk:
    found = [OutputPiece(at=at, stream=stream, text=text) for at, stream, text in pieces]
    return OutputChunk(pieces=found, next=found[-1].end, more=more)


def shown(text: LiveText, wanted: OutputChunk) -> str:
    end, told = text.next, ""
    for piece in text.take(wanted):
        told += "".join(part.text for part in text.read(piece, end))
        end = piece.end
    return told


def test_what_was_taken_is_not_taken_again_and_a_gap_is_said() -> None:
    text = LiveText()
    assert shown(text, chunk((0, "stdout", "one\ntwo"))) == "one\ntwo"
    assert shown(text, chunk((4, "stdout", "two three"))) == " three"
    assert shown(text, chunk((1_013, "stdout", "x"))) == "\n… 1,000 characters were not kept …\nx"


def test_a_line_without_an_end_is_cut_so_that_the_view_stays_quick() -> None:
    told = shown(LiveText(), chunk((0, "stdout", "x" * (3 * LONGEST_LINE))))
    assert max(map(len, told.split("\n"))) <= LONGEST_LINE + 2
    assert told.count("x") == 3 * LONGEST_LINE


def test_a_sequence_that_ends_in_the_next_piece_is_read_whole() -> None:
    reader = ColorReader()
    assert reader.read("a\x1b[3") == [("a", "")]
    assert reader.read("1mb\r") == [("b", "fail")]
    assert reader.read("\nc\x1b") == [("\nc", "fail")]
    assert reader.read("[2K") == [("[U+001B][2K", "fail")]
    assert reader.read("d\r", last=True) == [("d[U+000D]", "fail")]


def test_an_output_without_end_keeps_a_bounded_box(qapp: QApplication, theme: Theme) -> None:
    box = LiveBox()
    line = "x" * 99 + "\n"
    for number in range(30):
        box.add([LivePart(line * 1_000, f"2026-01-01T00:00:{number:02d}.000Z")])
    assert box.document().characterCount() <= MOST_KEPT + 1
    assert box.dropped + box.document().characterCount() - 1 == 30 * 100_000
    assert box.time_of(box.document().lastBlock().previous()).endswith(":29")
    box.deleteLater()

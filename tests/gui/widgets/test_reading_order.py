"""What is read is what is sent: letters of any script in the order of the bytes, each drawn or named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QRectF, QTimer
from PySide6.QtGui import QImage, QPainter, QTextCursor
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.screens.runs.output_box import OutputBox
from app.screens.runs.output_streams import take_colors
from app.theme.legible import is_drawn, legible
from app.theme.theme import Theme
from app.widgets import painting
from app.widgets.code_view import CodeView, lines_in_sight
from app.widgets.diff_layout import shown_line, wrapped
from app.widgets.diff_view import DiffView
from app.widgets.labels import ElidedLabel, Label
from app.widgets.text_diff import diff_of
from core.text import escape_hidden

# One sign of each bidirectional class that is not written out by its name (UAX #9, table 4).
CLASSES = {
    "R": "\u05d0", "AL": "\u0628", "AN": "\u0663", "L": "a", "EN": "7", "ES": "+", "ET": "%", "CS": ":",
    "NSM": "\u05bc", "WS": " ", "ON": ";", "S": "\t",
}  # fmt: skip
SWAPPED = "rsync --delete \u05de\u05e7\u05d5\u05e8 \u05d9\u05e2\u05d3; rm -rf \u05d0 /1/2/3 \u05d1"
PAID = "pay \u05d0 100 999 \u05d1"
DIGITS = "\u0661 \u0662 \u0663"
LINES = [SWAPPED, PAID, DIGITS, "\u0627\u0644\u0639 (1) \u05d0", "\u05d0/\u05d1.txt", "plain \u05d0"]


def edges(box: CodeView) -> list[list[float]]:
    """Where the cursor stands before each sign, for each drawn line."""
    return [[seen.x(at) for at in range(seen.start, seen.end + 1)] for seen in lines_in_sight(box)]


def rises(places: list[float]) -> bool:
    return all(before <= after for before, after in pairwise(places))


def in_logical_order(line: str) -> str:
    """The line as another means of Unicode keeps its order: a left-to-right mark around each sign."""
    return "\u200e".join(["", *line, ""])


@pytest.mark.parametrize("line", LINES)
def test_bytes_are_drawn_from_left_to_right_whatever_their_letters(
    line: str, theme: Theme, qtbot: QtBot
) -> None:
    box = CodeView()
    qtbot.addWidget(box)
    box.resize(900, 200)
    box.show_bytes(line.encode())
    box.show()
    assert all(rises(places) for places in edges(box))
    box.selectAll()
    assert box.createMimeDataFromSelection().text() == line


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="".join(CLASSES.values()) + "\n", min_size=1, max_size=40))
def test_no_mixture_of_bidirectional_classes_changes_the_order_of_bytes(text: str) -> None:
    box = CodeView()
    box.resize(900, 900)
    box.show_bytes(text.encode())
    box.show()
    assert all(rises(places) for places in edges(box))
    box.deleteLater()


@pytest.mark.parametrize("line", LINES)
def test_a_change_of_a_file_is_drawn_in_the_order_of_its_text(line: str, theme: Theme) -> None:
    change = diff_of("", f"{line}\n").lines[0]
    shown = shown_line(change, theme.font("mono"))
    layout = wrapped(shown.text, 2000, theme)
    laid = layout.lineAt(0)
    assert rises([float(laid.cursorToX(at)[0]) for at in range(len(shown.text) + 1)])  # type: ignore[index]


@pytest.mark.parametrize("line", [SWAPPED, PAID, DIGITS])
def test_sentences_are_painted_in_the_order_of_their_letters(line: str, theme: Theme, qtbot: QtBot) -> None:
    words = f"Deletes \u201c{line}\u201d, 2 times"
    label, expected, plain = Label(words, "mono"), QLabel(in_logical_order(words)), QLabel(words)
    for one in (label, expected, plain):
        qtbot.addWidget(one)
        one.setFont(theme.font("mono"))
        one.setMinimumHeight(0)
        one.resize(900, 24)
    assert label.text() == words
    assert pixels(label) == pixels(expected)
    assert pixels(label) != pixels(plain), "the reference must differ from what Qt does by itself"


@pytest.mark.parametrize("line", [SWAPPED, PAID, DIGITS])
def test_rows_and_cut_lines_are_painted_in_the_order_of_their_letters(line: str, theme: Theme) -> None:
    def painted(words: str, width: float) -> bytes:
        image = QImage(900, 24, QImage.Format.Format_RGB32)
        image.fill(theme.color("app"))
        painter = QPainter(image)
        painting.text(painter, QRectF(0, 0, width, 24), words, theme, "mono")
        painter.end()
        return of_image(image)

    assert painted(line, 900) == painted(in_logical_order(line), 900)
    whole = painting.text_width(line, theme, "mono")
    assert painting.text_width(in_logical_order(line), theme, "mono") == whole


def test_output_of_a_command_keeps_its_order_and_is_copied_exactly(theme: Theme, qtbot: QtBot) -> None:
    box = OutputBox()
    qtbot.addWidget(box)
    box.resize(900, 200)
    shown, _ = take_colors(f"\x1b[31m{SWAPPED}\x1b[0m /1 \u05d0 /2\nnext\n")
    box.show_streams([shown])
    box.show()
    line = box.document().firstBlock().layout().lineAt(0)
    assert rises([float(line.cursorToX(at)[0]) for at in range(line.textLength() + 1)])  # type: ignore[index]
    box.moveCursor(QTextCursor.MoveOperation.End)
    box.selectAll()
    assert box.createMimeDataFromSelection().text() == f"{SWAPPED} /1 \u05d0 /2\nnext\n"


def test_a_tooltip_and_an_elided_line_keep_the_order(theme: Theme, qtbot: QtBot) -> None:
    label = ElidedLabel(SWAPPED)
    qtbot.addWidget(label)
    label.resize(60, 20)
    label.grab()
    assert label.text() == SWAPPED
    assert label.toolTip() == f"\u202d{SWAPPED}\u202c"


# What no font draws

ALONE = """
import sys
from PySide6.QtGui import QGuiApplication
from app.theme.legible import is_drawn, legible
from app.theme.theme import Theme
app = QGuiApplication([])
font = Theme().font("mono")
sys.stdout.write(ascii([legible(sign, font) for sign in sys.argv[1]]))
"""


@pytest.fixture
def one_font(tmp_path: Path) -> dict[str, str]:
    """An environment in which JetBrains Mono is the only font."""
    found = subprocess.run(
        ["fc-match", "-f", "%{file}", "JetBrains Mono:style=Regular"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "JetBrains" in found
    folder = tmp_path / "fonts"
    folder.mkdir()
    shutil.copy(found, folder)
    config = tmp_path / "fonts.conf"
    config.write_text(
        f"<fontconfig><dir>{folder}</dir><cachedir>{tmp_path / 'cache'}</cachedir></fontconfig>"
    )
    return {**os.environ, "FONTCONFIG_FILE": str(config)}


def test_characters_that_no_installed_font_has_are_named(one_font: dict[str, str]) -> None:
    asked = "\u91cd\u8981\u00e9\u0301\u05d0\u2192 "
    run = subprocess.run(
        [sys.executable, "-c", ALONE, asked], env=one_font, capture_output=True, text=True, check=True
    )
    assert run.stdout == ascii(["[U+91CD]", "[U+8981]", "\u00e9", "\u0301", "[U+05D0]", "\u2192", " "])


def test_what_no_font_draws_is_boxed_and_counted_in_the_bytes(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    # U+10FFFD is private, U+E000 too; a letter that is assigned and in no font here has to be feigned.
    monkeypatch.setattr("app.widgets.code_view.is_drawn", lambda sign, font: sign != "\u91cd")
    box = CodeView()
    qtbot.addWidget(box)
    box.show_bytes("rm -rf /srv/\u91cd/\u200b".encode())
    assert box.toPlainText() == "rm -rf /srv/U+91CD/U+200B"
    assert [mark.name for mark in box.marks] == ["U+91CD", "U+200B"]
    assert box.shown.describe_hidden() == "1 hidden character   1 character that no font here draws"
    box.selectAll()
    assert box.createMimeDataFromSelection().text() == "rm -rf /srv/\u91cd/\u200b"


def test_marks_and_blanks_count_as_drawn(theme: Theme) -> None:
    font = theme.font("body")
    assert all(is_drawn(sign, font) for sign in "a\u0301\u00a0\u2009\u200b\u2026")
    assert legible("plain", font) == "plain"
    assert escape_hidden(legible("caf\u00e9", font)) == "caf\u00e9"


# The screen's edge


@pytest.mark.parametrize("kind", [CodeView, DiffView])
def test_the_end_counts_as_seen_only_on_the_screen(
    kind: type[CodeView | DiffView], theme: Theme, qtbot: QtBot
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    view = kind()
    view.setParent(window)
    view.resize(500, 200)
    view.move(0, 300)
    window.resize(500, 520)
    window.move(QPoint(0, window.screen().availableGeometry().bottom() - 200))
    window.show()
    with qtbot.assertNotEmitted(view.end_seen):
        if isinstance(view, CodeView):
            view.show_bytes(b"df -h")
        else:
            view.show_diff(diff_of("a\n", "b\n"))
        for _ in range(3):
            with qtbot.waitCallback() as idle:
                QTimer.singleShot(0, idle)
    with qtbot.waitSignal(view.end_seen):
        window.move(QPoint(0, 100))
    assert view.end_was_seen


def pixels(widget: QWidget) -> bytes:
    return of_image(widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32))


def of_image(image: QImage) -> bytes:
    return bytes(image.constBits())

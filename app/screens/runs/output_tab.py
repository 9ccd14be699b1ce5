"""Output: what a command wrote, monospace and plain, with what it complained about tinted."""

from __future__ import annotations

import asyncio

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QGuiApplication, QTextCursor, QTextLayout
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit, QWidget

from app.query import Query
from app.records.run_text import size_words
from app.screens.runs.output_box import OutputBox
from app.screens.runs.output_search import OutputSearch, units
from app.screens.runs.output_streams import Shown, Stream, make_readable, streams_of
from app.screens.runs.save_as import Saver
from app.screens.runs.terminal_colors import MOST_COLORED, ColoredPart
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import CheckBox
from app.widgets.labels import Label, Link
from app.widgets.layouts import STRETCH, hbox, vbox
from core.commands.results import CommandResult
from core.errors import QuarterdeckError
from core.service.console import Console


class OutputTab(QWidget):
    """The streams of one result; large ones are read through the door.

    Signals:
        numbers_chosen(shown): the operator wants line numbers, or not.
        as_it_came_wanted: the operator wants both streams in the order in which they came.
    """

    numbers_chosen = Signal(bool)
    as_it_came_wanted = Signal()

    def __init__(self, link: ConsoleLink, nav: Navigator, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._nav = nav
        self._saver = Saver(self, link, nav.toast)
        self._streams: list[Stream] = []
        self._name = "output"
        self._reading = Query(self, link, self._show_streams, self._say_not_read, "read the output")
        self._copying = Query(self, link, self._copied, self._say_problem, "copy the output")
        self._shown: list[Shown] = []
        self.box = OutputBox()
        self.place = ContentOrEmpty(self.box)
        self.search = OutputSearch(self.box)
        self.search.marks_changed.connect(self._mark_all)
        self._stream_marks: list[QTextEdit.ExtraSelection] = []
        self.sizes = Label("", "meta", "text2")
        self.errors = Label("", "meta", "warn")
        self.ended = Label("", "meta", "text2")
        self.message = Label("", "meta", "fail")
        self.wrap = CheckBox("Wrap lines")
        self.wrap.toggled.connect(self._set_wrap)
        self.wrap.setChecked(True)
        self.numbers = CheckBox("Line numbers")
        self.numbers.toggled.connect(self._set_numbers)
        self.came = Link("As it came", "meta_strong")
        self.came.clicked.connect(lambda *_: self.as_it_came_wanted.emit())
        self.came.hide()
        self.copy = Link("Copy", "meta_strong")
        self.copy.clicked.connect(lambda *_: self._copying.load(self._whole))
        self.save = Link("Save as…", "meta_strong")
        self.save.clicked.connect(lambda *_: self._save())
        foot = hbox(
            self.sizes,
            self.errors,
            self.ended,
            self.wrap,
            self.numbers,
            STRETCH,
            self.message,
            self.came,
            self.copy,
            self.save,
            spacing=SPACE.medium,
        )
        vbox(
            self.search,
            (self.place, 1),
            foot,
            parent=self,
            margins=(SPACE.pane, SPACE.medium, SPACE.pane, SPACE.small),
            spacing=SPACE.small,
        )

    def show_result(self, result: CommandResult | None) -> None:
        """Show the streams of a result; what is shown already stays where it is scrolled to."""
        streams = streams_of(result)
        if streams == self._streams:
            return
        self._streams = streams
        self._reading.cancel()
        self._name = f"{result.tool_name}-{result.call_id}" if result else "output"
        self.message.setText("")
        self._say_sizes(result)
        self._shown = []
        if not streams:
            self._say_instead("There is no output.")
        else:
            self._say_instead("Reading the output…", "It is shown as soon as the service answers.")
            self._reading.load(self._read)

    async def _read(self, console: Console) -> list[Shown]:
        shown = []
        for stream in self._streams:
            data = await console.journal.blob(stream.blob) if stream.blob else None
            shown.append(await asyncio.to_thread(make_readable, stream, data))
        return shown

    def _show_streams(self, shown: list[Shown]) -> None:
        self._shown = [one for one in shown if one.text]
        texts = [one.text.rstrip("\n") for one in self._shown]
        self.box.show_streams(texts)
        self.place.show_content()
        self._tint()
        self.search.show_text("\n".join(texts))
        left = sum(one.left for one in shown)
        if left:
            self.message.set_tone("text2")
            self.message.setText(f"{size_words(left)} more are not shown; Save as… has everything.")
        if not self._shown:
            self._say_instead("It wrote nothing.", "What it answered stands in Result.")

    def _say_not_read(self, error: QuarterdeckError) -> None:
        self._say_instead("The output could not be read.", "Save as… asks for it again.")
        self._say_problem(error)

    def _say_instead(self, heading: str, sentence: str = "") -> None:
        """Words in the place of an output."""
        self.box.show_streams([""])
        self.place.say(heading, sentence)
        self._stream_marks = []
        self.search.show_text("")

    def open_search(self) -> QWidget:
        """Open the search; the field that takes the keyboard."""
        return self.search.open_search()

    def show_numbers(self, shown: bool) -> None:
        """Show line numbers, as the operator had it before."""
        self.numbers.setChecked(shown)

    def _set_numbers(self, shown: bool) -> None:
        self.box.set_numbers(shown)
        self.numbers_chosen.emit(shown)

    def _mark_all(self) -> None:
        self.box.setExtraSelections([*self._stream_marks, *self.search.marks()])

    def _tint(self) -> None:
        """Tint what was written as errors, and color what the command colored: nothing between the bytes."""
        theme = theme_of(self)
        marks = []
        at = 0
        for shown in self._shown:
            text = shown.text.rstrip("\n")
            length = units(text)
            if shown.is_error and length:
                mark = self._mark(at, length, "warn")
                mark.format.setBackground(theme.color("warn_tint"))
                marks.append(mark)
            elif not shown.is_error:
                self._color(at, text, shown.colored)
            at += length + 1
        self._stream_marks = marks
        self._mark_all()

    def _color(self, at: int, text: str, parts: tuple[ColoredPart, ...]) -> None:
        """Color the parts of a text that begins `at` a place in the box.

        In the layouts of its lines: of selections that touch each other Qt draws some in no color.
        """
        document = self.box.document()
        ranges: dict[int, list[QTextLayout.FormatRange]] = {}
        # A single part may reach over every line of a large output.
        seen = lines = 0
        for part in parts:
            at += units(text[seen : part.start])
            seen = part.start + part.length
            end = at + units(text[part.start : seen])
            block = document.findBlock(at)
            while block.isValid() and block.position() < end and lines < MOST_COLORED:
                lines += 1
                colored = QTextLayout.FormatRange()
                colored.start = max(0, at - block.position())
                colored.length = min(end - block.position(), block.length() - 1) - colored.start
                colored.format.setForeground(theme_of(self).color(part.tone))
                ranges.setdefault(block.blockNumber(), []).append(colored)
                block = block.next()
            at = end
        for number, formats in ranges.items():
            block = document.findBlockByNumber(number)
            block.layout().setFormats(formats)
            document.markContentsDirty(block.position(), block.length())

    def _mark(self, at: int, length: int, tone: str) -> QTextEdit.ExtraSelection:
        mark = QTextEdit.ExtraSelection()
        cursor = QTextCursor(self.box.document())
        cursor.setPosition(at)
        cursor.setPosition(at + length, QTextCursor.MoveMode.KeepAnchor)
        mark.cursor = cursor
        mark.format.setForeground(theme_of(self).color(tone))
        return mark

    def changeEvent(self, event: QEvent) -> None:
        """Take the new mode's tint."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "save"):
            self._tint()

    def _say_sizes(self, result: CommandResult | None) -> None:
        plain = [one for one in self._streams if not one.is_error]
        self.sizes.setText("  ".join(f"{one.name} {size_words(one.size)}" for one in plain))
        errors = next((one for one in self._streams if one.is_error), None)
        self.errors.setText(f"stderr {size_words(errors.size)}" if errors and errors.size else "")
        self.errors.setVisible(bool(errors and errors.size))
        value = result.result if result is not None and isinstance(result.result, dict) else {}
        code = value.get("exit_code")
        words = f"exit code {code}" if isinstance(code, int) else ""
        if value.get("truncated") is True:
            words = f"{words}, the device dropped the rest".strip(", ")
        self.ended.setText(words)
        self.ended.set_tone("fail" if isinstance(code, int) and code else "text2")

    def _set_wrap(self, wrap: bool) -> None:
        mode = QPlainTextEdit.LineWrapMode
        self.box.setLineWrapMode(mode.WidgetWidth if wrap else mode.NoWrap)

    async def _whole(self, console: Console) -> bytes:
        parts = []
        for stream in self._streams:
            parts.append(
                await console.journal.blob(stream.blob)
                if stream.blob
                else stream.text.encode("utf-8", "replace")
            )
        return b"".join(parts)

    def _copied(self, data: bytes) -> None:
        QGuiApplication.clipboard().setText(data.decode("utf-8", "replace"))
        self._nav.toast("Output copied")

    def _say_problem(self, error: QuarterdeckError) -> None:
        self.message.set_tone("fail")
        self.message.setText(error.info.sentences)

    def _save(self) -> None:
        self._saver.save(f"{self._name}.txt", self._whole, self._say_problem)

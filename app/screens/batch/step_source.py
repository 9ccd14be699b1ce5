"""A step as JSON or YAML, to read and to write. Text that cannot be read changes nothing."""

from __future__ import annotations

import re
from typing import Any

from PySide6.QtCore import QRectF, QSize, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QTextCharFormat, QTextDocument
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.screens.batch.document import DraftStep
from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.widgets.buttons import Segmented
from app.widgets.json_edit import JsonEdit, _JsonHighlighter
from app.widgets.labels import ElidedLabel, Link, separator, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from core.batch.yaml_reader import DEEPEST, read_document
from core.batch.yaml_writer import write_document
from core.errors import BadInput
from core.schema_forms.json_values import UNSET, JsonProblem, NotJson

KEYS = ("id", "tool", "with", "timeout", "enabled")
_YAML_LINE = re.compile(r"^(?P<lead>\s*(?:- )*)(?P<key>[^\s#:][^:]*):(?=\s|$)(?P<value>.*)$")
_FREE = -1


class _YamlHighlighter(_JsonHighlighter):
    """Keys in accent; values of secret names as flat blocks, over several lines where they have them."""

    def highlightBlock(self, text: str) -> None:
        """Colour one line. The block's state is the indent below which a secret ends."""
        theme = theme_of(self._owner)
        before = self.previousBlockState()
        indent = len(text) - len(text.lstrip(" "))
        hide = QTextCharFormat()
        hide.setForeground(theme.color("border2"))
        hide.setBackground(theme.color("border2"))
        if before >= 0 and (indent > before or not text.strip()):
            self.setCurrentBlockState(before)
            self.setFormat(0, len(text), hide)
            return
        self.setCurrentBlockState(_FREE)
        match = _YAML_LINE.match(text)
        if match is None:
            return
        style = QTextCharFormat()
        style.setForeground(theme.color("accent"))
        self.setFormat(match.start("key"), len(match["key"]), style)
        name = match["key"].strip('"')
        if f'"{name}"' in self.masked:
            self.setFormat(match.start("value"), len(match["value"]), hide)
            self.setCurrentBlockState(len(match["lead"]))


class YamlEditor(JsonEdit):
    """YAML text, read by the rules of batch files: no aliases, no tags, no word that means two things."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.setAccessibleName("YAML")
        self._colours.setDocument(QTextDocument(self))
        self._colours = _YamlHighlighter(self.document(), self)

    def read(self, text: str) -> Any:
        """Read YAML.

        Raises:
            NotJson: with line, column and words.
        """
        node, faults = read_document(text)
        if faults or node is None:
            first = min(faults)
            raise NotJson(JsonProblem(*first.place, first.what))
        return node.plain()

    def write(self, value: Any) -> str:
        """Write YAML as batch files have it."""
        return write_document(value, DEEPEST)


class _Mark(QWidget):
    """A check while the text can be taken, an octagon while it cannot."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFixedSize(QSize(14, 20))
        self.good = True

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        name, tone = ("check", "ok") if self.good else ("cross_octagon", "fail")
        paint_glyph(painter, QRectF(0, 3, 14, 14), name, theme_of(self).color(tone))
        painter.end()


def step_value(step: DraftStep) -> dict[str, Any]:
    """A step as its file has it, complete or not; what has its default is left out."""
    value: dict[str, Any] = {"id": step.id, "tool": step.tool}
    if step.parameters:
        value["with"] = step.parameters
    if step.timeout is not None:
        value["timeout"] = step.timeout
    if not step.enabled:
        value["enabled"] = False
    return value


class StepSource(QWidget):
    """Both notations of one step.

    Signals:
        edited(value): the text was changed and is a step now; a dict with the keys of a step.
    """

    edited = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "sunken")
        self.setAccessibleName("The step as text")
        self.choice = Segmented([("json", "JSON"), ("yaml", "YAML")], "Notation", in_bar=True)
        self.choice.chosen.connect(self._show_notation)
        self.json, self.yaml = JsonEdit(), YamlEditor()
        self._value: Any = UNSET
        self._fault = ""
        self._lack = ""
        self._mark = _Mark(self)
        self._words = ElidedLabel("valid", "body", "text2")
        self._go = Link("Go there", "meta")
        self._go.clicked.connect(self._go_to_problem)
        head = QWidget()
        set_surface(head, "base")
        hbox(
            self.choice,
            STRETCH,
            self._mark,
            self._words,
            self._go,
            parent=head,
            margins=(12, 8, 12, 8),
            spacing=6,
        )
        self.stack = QStackedWidget()
        for editor in (self.json, self.yaml):
            self.stack.addWidget(editor)
            editor.value_edited.connect(self._edited)
            editor.validity_changed.connect(self._show_state)
        vbox(head, separator(), (self.stack, 1), parent=self)
        self._show_state()

    @property
    def editor(self) -> JsonEdit:
        """The editor on show."""
        return self.yaml if self.choice.current() == "yaml" else self.json

    @property
    def problem(self) -> str:
        """Why the text is not what is sent; empty when it is."""
        found = self.editor.problem
        return f"line {found.line}: {found.message}" if found else self._fault

    def show_step(self, value: Any, secrets: frozenset[str]) -> None:
        """Show a step, unless the text says just that; `UNSET` shows nothing."""
        self._value, self._fault = value, ""
        for editor in (self.json, self.yaml):
            editor.setReadOnly(value is UNSET)
            editor.mask_values(secrets)
        self._fill(self.editor)
        self._show_state()

    def say_lack(self, words: str) -> None:
        """Say what the step lacks although its text can be read; empty when nothing."""
        if words != self._lack:
            self._lack = words
            self._show_state()

    def _go_to_problem(self) -> None:
        self.editor.go_to_problem()

    def _fill(self, editor: JsonEdit) -> None:
        try:
            editor.show_value(self._value)
        except BadInput:  # half a character: YAML has no way to write it
            editor.show_value(UNSET)
            editor.setPlaceholderText("These arguments cannot be written as YAML.")

    def show_notation(self, key: str) -> None:
        """Choose JSON or YAML."""
        self.choice.choose(key)
        self._show_notation()

    def _show_notation(self, _key: str = "") -> None:
        self._fault = ""
        self.stack.setCurrentWidget(self.editor)
        self._fill(self.editor)
        self._show_state()

    def _edited(self) -> None:
        value = self.editor.value
        self._fault = _fault_in(value)
        self._show_state()
        if not self._fault:
            self._value = value
            self.edited.emit(value)

    def _show_state(self) -> None:
        problem = self.problem or self._lack
        self._mark.good = not problem
        self._mark.update()
        shown = self._value is not UNSET
        self._mark.setVisible(shown)
        self._words.setVisible(shown)
        self._words.set_text(problem or "valid")
        self._words.setAccessibleName(f"The text: {problem or 'valid'}")
        self._go.setVisible(self.editor.problem is not None)


def _fault_in(value: Any) -> str:
    """Why a value is no step, in words; ids and arguments are judged elsewhere, beside their fields."""
    if not isinstance(value, dict):
        return "a step is an object"
    for key in value:
        if key not in KEYS:
            return f"a step has no {key[:40]!r}; allowed {', '.join(KEYS)}"
    if not isinstance(value.get("id"), str) or not isinstance(value.get("tool"), str) or not value["tool"]:
        return "a step has an id and a tool, both texts"
    if not isinstance(value.get("with", {}), dict):
        return '"with" is an object'
    if not isinstance(value.get("enabled", True), bool):
        return '"enabled" is true or false'
    timeout = value.get("timeout")
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout <= 86_400
    return "" if timeout is None or number else '"timeout" is a number of seconds, above 0 and at most 86400'

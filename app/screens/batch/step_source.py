"""A step, or the batch beside its steps, as JSON or YAML. Text that cannot be read changes nothing."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

from PySide6.QtCore import QRectF, QSize, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QTextCharFormat, QTextDocument
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.widgets.buttons import Segmented
from app.widgets.json_edit import JsonEdit, _JsonHighlighter
from app.widgets.labels import ElidedLabel, Link, separator, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from core.batch.batch_schema import schema_faults
from core.batch.yaml_reader import DEEPEST, Fault, Node, read_document
from core.batch.yaml_writer import write_document
from core.errors import BadInput
from core.schema_forms.json_values import UNSET, JsonProblem, NotJson

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
        item = indent == before and text.lstrip().startswith("- ")
        if before >= 0 and (indent > before or item or not text.strip()):
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


class TextKind(StrEnum):
    """What the text on show is."""

    STEP = "step"
    RECOVERY = "recovery"
    BATCH = "batch"


class StepSource(QWidget):
    """Both notations of one step.

    Signals:
        edited(value): the text was changed and can be taken; a dict with the keys that its file has.
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
        self._kind = TextKind.STEP
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

    def show_part(self, value: Any, secrets: frozenset[str], kind: TextKind = TextKind.STEP) -> None:
        """Show a part of the batch's file, unless the text says just that; `UNSET` shows nothing."""
        self._value, self._fault, self._kind = value, "", kind
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
        self._fault = self._fault_in(self.editor.text())
        self._show_state()
        if not self._fault:
            self._value = value
            self.edited.emit(value)

    def _fault_in(self, text: str) -> str:
        """Why a text that can be read is no part of a batch file, by its schema; empty when it is one."""
        node, unread = read_document(text)
        if node is None or unread:
            return f"line {unread[0].place[0]}: {unread[0].what}" if unread else "nothing stands here"
        if not isinstance(node.value, dict):
            return "here stands a set of keys with their values"
        if "recover" in node.keys and self._kind is not TextKind.BATCH:
            return f"line {node.keys['recover'][0]}: each recovery step has a card of its own"
        if self._kind is TextKind.BATCH and (
            other := node.keys.keys() & {"format", "name", "targets", "steps"}
        ):
            first = min(other, key=lambda name: node.keys[name])
            return f"line {node.keys[first][0]}: {first} is set elsewhere on this screen"
        faults: list[Fault] = sorted(schema_faults(_around(self._kind, node)))
        return f"line {faults[0].place[0]}: {faults[0].what}" if faults else ""

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


def _around(kind: TextKind, node: Node) -> Node:
    """A batch file in which a text stands that is a part of one, so that its schema can be asked."""

    def made(value: Any) -> Node:
        return Node(value, node.place)

    step = {"id": made("step"), "tool": made("tool")}
    whole = {"name": made("batch")}
    if kind is TextKind.BATCH:
        return Node({**whole, "steps": made([made(step)]), **node.value}, node.place, node.keys)
    entry = made({**step, "recover": made([node])}) if kind is TextKind.RECOVERY else node
    return made({**whole, "steps": made([entry])})

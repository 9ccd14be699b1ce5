"""What a screen says while there is nothing to show: what is true, and what to do next."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.components.buttons import Button
from app.components.icon_mark import IconMark
from app.components.label import Label, Link
from app.components.section import Card
from app.look.tokens import SPACE

TOP = 44
WIDTH = 720


class EmptyState(QWidget):
    """One sentence, one line below it, at most one primary action and three further ways.

    Signals:
        acted: the operator pressed the action, or followed the way, with this key.
    """

    acted = Signal(str)

    def __init__(
        self,
        sentence: str,
        line: str = "",
        action: tuple[str, str] | tuple[str, str, str] | None = None,
        ways: tuple[tuple[str, str, str, str, str], ...] = (),
        parent: QWidget | None = None,
    ) -> None:
        """`action` is (key, words[, icon]); each way is (key, icon, title, line, link words)."""
        super().__init__(parent)
        self._sentence = Label("", "hero", wrap=True)
        self._line = Label("", "large", "text2", wrap=True)
        self.column = QVBoxLayout()
        self.column.setSpacing(SPACE.tight)
        self.column.addWidget(self._sentence)
        self.column.addWidget(self._line)
        if action is not None:
            self.column.addSpacing(SPACE.medium)
            self.column.addLayout(self._action(action))
        if ways:
            self.column.addSpacing(SPACE.wide)
            self.column.addWidget(Label("Then", "label", "text3"))
            self.column.addLayout(self._ways(ways[:3]))
        self.column.addStretch(1)
        inner = QWidget(self)
        inner.setMaximumWidth(WIDTH)
        inner.setLayout(self.column)
        self.column.setContentsMargins(0, 0, 0, 0)
        outer = QHBoxLayout(self)
        outer.setContentsMargins(SPACE.pane, TOP, SPACE.pane, SPACE.pane)
        outer.addStretch(1)
        outer.addWidget(inner, 1000)
        outer.addStretch(1)
        self.say(sentence, line)

    def say(self, sentence: str, line: str = "") -> None:
        """Change the words."""
        self._sentence.setText(sentence)
        self._line.setText(line)
        self._line.setVisible(bool(line))
        self.setAccessibleName(f"{sentence} {line}".strip())

    def _action(self, action: tuple[str, ...]) -> QHBoxLayout:
        row = QHBoxLayout()
        button = Button(action[1], "primary", action[2] if len(action) > 2 else "")
        button.clicked.connect(lambda *_: self.acted.emit(action[0]))
        row.addWidget(button)
        row.addStretch(1)
        return row

    def _ways(self, ways: tuple[tuple[str, str, str, str, str], ...]) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(SPACE.medium)
        for key, icon, title, line, words in ways:
            card = Card()
            head = QHBoxLayout()
            head.setSpacing(SPACE.small)
            head.addWidget(IconMark(icon))
            head.addWidget(Label(title, "head"))
            head.addStretch(1)
            card.body.addLayout(head)
            card.add(Label(line, "body", "text2", wrap=True))
            card.body.addStretch(1)
            link = Link(words)
            link.clicked.connect(lambda *_, key=key: self.acted.emit(key))
            card.body.addWidget(link, 0, Qt.AlignmentFlag.AlignLeft)
            row.addWidget(card, 1)
        return row

"""Before you decide: read-only calls that fit the request, as buttons, with what they found below."""

from __future__ import annotations

import json
from typing import Any

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QLayout, QLayoutItem, QSizePolicy, QVBoxLayout, QWidget

from app.screens.approvals.text import local_time
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.buttons import Button, IconButton
from app.widgets.code_view import CodeView
from app.widgets.image_view import ImageView
from app.widgets.labels import Label
from app.widgets.section import Card, Section, SectionHead
from core.approvals.preview_models import Helper
from core.commands.results import CommandResult
from core.errors import QuarterdeckError
from core.ids import now_utc

MOST_TEXT = 200_000
_ICONS = {
    "screenshot": "picture",
    "read_file": "read_file",
    "list_directory": "read_file",
    "shell_execute_read": "shell",
    "get_ui_tree": "element_tree",
}


class ChecksSection(Section):
    """Buttons and results; what runs is asked for, never decided here.

    Signals:
        run_asked(helper): the operator wants this call, a `Helper`.
    """

    run_asked = Signal(object)

    def __init__(self) -> None:
        super().__init__("Before you decide", "asks the device, changes nothing")
        self._buttons: dict[str, Button] = {}
        self._found: dict[str, Found] = {}
        self._place = QWidget()
        self._flow = Flow(self._place)
        self.add(self._place)
        self._results = QVBoxLayout()
        self._results.setSpacing(SPACE.small)
        self.body.addLayout(self._results)
        self.hide()

    def show_helpers(self, helpers: list[Helper]) -> None:
        """Offer another request's helpers; nothing is left of what the last one's found."""
        for button in self._buttons.values():
            self._flow.removeWidget(button)
            _drop(button)
        for found in self._found.values():
            self._results.removeWidget(found)
            _drop(found)
        self._buttons.clear()
        self._found.clear()
        for helper in helpers:
            button = Button(one_line(helper.title), "normal", _ICONS.get(helper.tool, "tool"))
            button.setToolTip(f"{helper.tool} on {one_line(helper.device)}")
            button.clicked.connect(lambda *_, wanted=helper: self._press(wanted))
            self._flow.addWidget(button)
            self._buttons[helper.id] = button
        self.setVisible(bool(helpers))

    def focus_first(self) -> bool:
        """Put the keyboard on the first button; False when there is none."""
        first = next(iter(self._buttons.values()), None)
        if first is None or self.isHidden():
            return False
        first.setFocus(Qt.FocusReason.TabFocusReason)
        return True

    @property
    def buttons(self) -> list[Button]:
        """The buttons, in order."""
        return list(self._buttons.values())

    @property
    def found(self) -> list[Found]:
        """What was found, in the order in which it was asked for."""
        return list(self._found.values())

    def _press(self, helper: Helper) -> None:
        self._buttons[helper.id].set_working("It is on its way.")
        self.run_asked.emit(helper)

    def show_result(self, helper: Helper, result: CommandResult, picture: QImage | None) -> None:
        """Show what a helper found; a second time takes the first one's place."""
        if (box := self._box_of(helper)) is not None:
            box.show_result(result, picture)

    def show_error(self, helper: Helper, error: QuarterdeckError) -> None:
        """Say why a helper found nothing."""
        if (box := self._box_of(helper)) is not None:
            box.say(one_line(error.info.sentences))

    def _box_of(self, helper: Helper) -> Found | None:
        button = self._buttons.get(helper.id)
        if button is None:
            return None
        button.set_working("")
        if helper.id not in self._found:
            box = Found(helper)
            box.closed.connect(lambda *_, gone=helper.id: self._close(gone))
            self._found[helper.id] = box
            self._results.addWidget(box)
        return self._found[helper.id]

    def _close(self, helper: str) -> None:
        if (box := self._found.pop(helper, None)) is not None:
            self._results.removeWidget(box)
            _drop(box)


class Found(Card):
    """What one helper found.

    Signals:
        closed: the operator has seen it.
    """

    closed = Signal()

    def __init__(self, helper: Helper) -> None:
        super().__init__("raised")
        title = one_line(helper.title)
        self._title = title
        self.head = SectionHead(title)
        close = IconButton("close", f"Close: {title}")
        close.clicked.connect(lambda *_: self.closed.emit())
        self.head.add(close)
        self.add(self.head)
        self.words = Label("", "body", "text2", wrap=True)
        self.add(self.words)
        self.text = CodeView(title, most_lines=10, numbers=False)
        self.add(self.text)
        self.picture = ImageView(title)
        self.picture.setMinimumHeight(260)
        self.add(self.picture)

    def say(self, words: str) -> None:
        """Show a sentence only."""
        self._show(words, "", None)
        self.words.set_tone("fail")

    def show_result(self, result: CommandResult, picture: QImage | None) -> None:
        """Show a command's result: its text, its picture, or why it failed."""
        self.head.set_hint(f"{local_time(now_utc())}, {result.duration_ms:.0f} ms")
        if result.error is not None:
            self.say(one_line(result.error.sentences))
            return
        self.words.set_tone("text2")
        text = text_of(result.result) if picture is None else ""
        self._show("" if picture is not None or text else "It found nothing.", text, picture)

    def _show(self, words: str, text: str, picture: QImage | None) -> None:
        self.words.setText(words)
        self.words.setVisible(bool(words))
        self.text.setVisible(bool(text))
        self.picture.setVisible(picture is not None)
        if text:
            self.text.show_text(text)
        if picture is not None:
            self.picture.set_image(picture)
        if picture is not None and picture.isNull():
            self.say("The picture cannot be read.")
        self.setAccessibleName(f"{self._title}: {words or text[:400] or 'a picture'}")


def text_of(value: Any) -> str:
    """A result as people read it: what a program printed, a file's text, or else JSON."""
    if isinstance(value, dict):
        for key in ("stdout", "content", "text"):
            if isinstance(value.get(key), str):
                rest = value.get("stderr")
                text = str(value[key]) + (f"\n{rest}" if isinstance(rest, str) and rest else "")
                return text[:MOST_TEXT]
    if isinstance(value, str):
        return value[:MOST_TEXT]
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)[:MOST_TEXT]


class Flow(QLayout):
    """Widgets one after the other, in as many rows as they need."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        parent.setSizePolicy(policy)

    def addItem(self, item: QLayoutItem) -> None:
        """Put one at the end."""
        self._items.append(item)

    def count(self) -> int:
        """How many there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """One of them."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Take one away."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def hasHeightForWidth(self) -> bool:
        """More rows where it is narrow."""
        return True

    def heightForWidth(self, width: int) -> int:
        """As high as the rows."""
        return self._place(QRect(0, 0, width, 0), False)

    def sizeHint(self) -> QSize:
        """One row."""
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        """The widest one."""
        sizes = [item.sizeHint() for item in self._items]
        return QSize(
            max((size.width() for size in sizes), default=0),
            max((size.height() for size in sizes), default=0),
        )

    def setGeometry(self, rect: QRect) -> None:
        """Put them in their places."""
        super().setGeometry(rect)
        self._place(rect, True)

    def _place(self, rect: QRect, now: bool) -> int:
        x, y, high = rect.x(), rect.y(), 0
        for item in self._items:
            size = item.sizeHint()
            if x > rect.x() and x + size.width() > rect.right() + 1:
                x, y, high = rect.x(), y + high + SPACE.small, 0
            if now:
                item.setGeometry(QRect(QPoint(x, y), size))
            x += size.width() + SPACE.small
            high = max(high, size.height())
        return y + high - rect.y()


def _drop(widget: QWidget) -> None:
    widget.hide()
    widget.setParent(None)
    widget.deleteLater()

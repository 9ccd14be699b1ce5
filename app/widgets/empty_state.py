"""What stands in the place of content while there is none: why, what to do, and a button that does it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.buttons import Button
from app.widgets.icon_label import IconLabel
from app.widgets.labels import Label, Link, escaped_tooltip, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.section import Card

WIDTH = 720
WORDS_WIDTH = 460
# The least height of an empty list that stands in a column of other things.
IN_COLUMN = 112

# What its button does, its words, its icon. A key is what `acted` tells.
Offer = tuple[str | Action, str] | tuple[str | Action, str, str]


class EmptyState(QWidget):
    """One heading, one sentence and at most one button, in the middle of the area that it fills.

    Where the area is too low for all of it, the sentence goes first; it stays the tooltip. `more` is the
    place below the button for what a screen adds.

    Signals:
        acted: the operator pressed the button, or followed the way, with this key.
    """

    acted = Signal(str)

    def __init__(
        self,
        heading: str = "",
        sentence: str = "",
        offer: Offer | None = None,
        ways: tuple[tuple[str, str, str, str, str], ...] = (),
        parent: QWidget | None = None,
    ) -> None:
        """`offer` is (key or action, words[, icon]); each way is (key, icon, title, line, link words)."""
        super().__init__(parent)
        self._key: str | Action = ""
        self.heading = Label("", "title", wrap=True)
        self.sentence = Label("", "body", "text2", wrap=True)
        self.button = Button("")
        self.button.clicked.connect(self._press)
        self.more = QVBoxLayout()
        self.more.setSpacing(SPACE.hair)
        self.block = QWidget(self)
        column = vbox(parent=self.block, spacing=SPACE.tight)
        for label in (self.heading, self.sentence):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            column.addWidget(label)
        self._button_row = QWidget()
        hbox(
            STRETCH,
            self.button,
            STRETCH,
            parent=self._button_row,
            margins=(0, SPACE.small, 0, 0),
            spacing=None,
        )
        column.addWidget(self._button_row)
        column.addLayout(self.more)
        self._most = WORDS_WIDTH
        self._heights: dict[tuple[bool, str, int], int] = {}
        if ways:
            self._most = WIDTH
            self.more.addSpacing(SPACE.wide)
            self.more.addWidget(Label("Then", "label", "text3"))
            self.more.addLayout(self._ways(ways[:3]))
        self.say(heading, sentence, offer)

    def say(self, heading: str, sentence: str = "", offer: Offer | None = None) -> None:
        """Change the words and the button; without an offer there is none."""
        self._heights.clear()
        self.heading.setText(heading)
        self.sentence.setText(sentence)
        self._button_row.setVisible(offer is not None)
        if offer is not None:
            self._follow(offer[0])
            self.button.set_words(offer[1], offer[2] if len(offer) > 2 else "")
        self.setAccessibleName(f"{heading} {sentence}".strip())
        self._place_anew()

    def _follow(self, key: str | Action) -> None:
        before, self._key = self._key, key
        if before is not key and isinstance(before, Action):
            before.changed.disconnect(self._show_action)
            self.button.removeAction(before)
        if before is not key and isinstance(key, Action):
            key.changed.connect(self._show_action)
            self.button.addAction(key)
        self._show_action()

    def _show_action(self) -> None:
        self.button.set_off(self._key.reason if isinstance(self._key, Action) else "")

    def _press(self) -> None:
        if isinstance(self._key, Action):
            self._key.trigger()
        else:
            self.acted.emit(self._key)

    def words(self) -> str:
        """What it says; empty while it is not shown."""
        return self.accessibleName() if not self.isHidden() else ""

    def set_wide(self, wide: bool) -> None:
        """Let the block be as wide as what a screen adds to it needs."""
        self._most = WIDTH if wide else WORDS_WIDTH
        self._place_anew()

    def needed_height(self, width: int) -> int:
        """The height that all of it needs in an area of this width, in logical px."""
        return self._height_of_block(self._width_of_block(width), True) + 2 * SPACE.medium

    def _width_of_block(self, width: int) -> int:
        return max(1, min(self._most, width - 2 * SPACE.medium))

    def _height_of_block(self, width: int, has_sentence: bool) -> int:
        # Summed up, not asked of the layout: to hide a part for asking would lay out again, without end.
        heights = [self._wrapped_height(self.heading, width)]
        if has_sentence and self.sentence.text():
            heights.append(self._wrapped_height(self.sentence, width))
        if not self._button_row.isHidden():
            heights.append(self._button_row.sizeHint().height())
        if self.more.count():
            wrapped = self.more.heightForWidth(width) if self.more.hasHeightForWidth() else 0
            heights.append(max(wrapped, self.more.sizeHint().height()))
        return sum(heights) + SPACE.tight * (len(heights) - 1)

    def _wrapped_height(self, label: Label, width: int) -> int:
        """The label's height at a width, remembered: layouts ask a dozen times before the first paint."""
        key = (label is self.heading, label.text(), width)
        if (height := self._heights.get(key)) is None:
            height = self._heights[key] = label.heightForWidth(width)
        return height

    def sizeHint(self) -> QSize:
        """All of it, at the width that it takes where there is room."""
        return QSize(self._most, self.needed_height(self._most + 2 * SPACE.medium))

    def minimumSizeHint(self) -> QSize:
        """It gives way to everything: a window is never made larger for it."""
        return QSize(0, 0)

    def _place_anew(self) -> None:
        # Without a size there is nothing to place in: before it is shown or painted, Qt sends a resize event.
        if not self.testAttribute(Qt.WidgetAttribute.WA_PendingResizeEvent):
            self._place()

    def _place(self) -> None:
        room = self.rect()
        width = self._width_of_block(room.width())
        fits = self._height_of_block(width, True) <= room.height()
        self.sentence.setVisible(fits and bool(self.sentence.text()))
        self.block.setToolTip("" if fits else escaped_tooltip(self.accessibleName()))
        height = self._height_of_block(width, fits)
        left, top = (room.width() - width) // 2, max(0, (room.height() - height) // 2)
        self.block.setGeometry(left, top, width, height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Stay in the middle."""
        super().resizeEvent(event)
        self._place()

    def event(self, event: QEvent) -> bool:
        """What is in the block is of another size now, or its fonts are others."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._place_anew()
        elif event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange, QEvent.Type.Polish):
            self._heights.clear()
        return super().event(event)

    def _ways(self, ways: tuple[tuple[str, str, str, str, str], ...]) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(SPACE.medium)
        for key, icon, title, line, words in ways:
            card = Card()
            head = hbox(IconLabel(icon), spacing=SPACE.small)
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


class ContentOrEmpty(QStackedWidget):
    """A list, table or pane; while there is nothing in it, the empty state in its place."""

    def __init__(self, content: QWidget, ground: str = "") -> None:
        """`ground` is the surface that the empty state paints, where what is behind has another."""
        super().__init__()
        self.content = content
        self.empty = EmptyState()
        if ground:
            set_surface(self.empty, ground)
        self.addWidget(content)
        self.addWidget(self.empty)

    def say(self, heading: str, sentence: str = "", offer: Offer | None = None) -> None:
        """Show the empty state with these words in place of the content."""
        self.empty.say(heading, sentence, offer)
        self.setCurrentWidget(self.empty)

    def show_content(self) -> None:
        """Show the content."""
        self.setCurrentWidget(self.content)

    @property
    def words(self) -> str:
        """What is said in place of the content; empty while the content is shown."""
        return self.empty.accessibleName() if self.currentWidget() is self.empty else ""

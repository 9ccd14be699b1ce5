"""The keys of a form's primary answer: Ctrl+Enter anywhere in the form, Enter in a line of text.

Both press the button, so that what counts as a press, and by whom, is decided in one place. While the button
is off, they have its reason said: a key must not be dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractSpinBox, QLineEdit, QPlainTextEdit, QWidget

from app.input_origin import Stroke, stroke_of
from app.widgets.buttons import Button
from app.widgets.input_origin import InputOriginShortcut

_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_PLAIN = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
_TEXT_INPUTS = (QLineEdit, QPlainTextEdit, QAbstractSpinBox)


def is_plain_enter(event: QEvent) -> bool:
    """Whether Enter is pressed, of the letters or of the number pad, and nothing with it."""
    return (
        isinstance(event, QKeyEvent)
        and event.type() == QEvent.Type.KeyPress
        and event.key() in _ENTER
        and event.modifiers() in _PLAIN
    )


class PrimaryKey(QObject):
    """Presses the primary button of a form by keys.

    A text input of several lines takes Enter itself, and so does everything else that has a use for it: a
    button, a list, a field with a question of its own. What arrives here was wanted by none of them.
    """

    def __init__(
        self, form: QWidget, button: Callable[[], Button | None], say: Callable[[str], None] | None = None
    ) -> None:
        """`button` is the primary one at this moment; `say` shows why it is off."""
        super().__init__(form)
        self._form, self._button, self._say = form, button, say
        for keys in ("Ctrl+Return", "Ctrl+Enter"):
            chord = InputOriginShortcut(keys, form)
            chord.struck.connect(self.press)
        form.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Enter that a line of text has left to its form."""
        if watched is not self._form or not isinstance(event, QKeyEvent) or not is_plain_enter(event):
            return False
        button, focus = self._button(), self._form.window().focusWidget()
        typed_into = isinstance(focus, _TEXT_INPUTS) and not focus.isReadOnly()
        if button is None or not button.takes_enter or not typed_into:
            return False
        if not event.isAutoRepeat():
            self.press((stroke_of(event),))
        return True

    def press(self, strokes: tuple[Stroke, ...]) -> None:
        """Press the button by these strokes, or say why it is off."""
        if (button := self._button()) is None:
            return
        if button.isEnabled():
            button.press_by(strokes)
        elif button.reason and self._say is not None:
            self._say(button.reason)

"""What a person sees and presses anywhere in the window, found by what it says, not by its name in code.

The pages of the screens (`tests/gui/<screen>/page.py`) stand on this.
"""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QAbstractButton, QScrollArea, QWidget

from app.widgets.buttons import Segmented
from app.widgets.dialog import Dialog
from app.widgets.labels import Label, Link

Part = TypeVar("Part", bound=QWidget)


def visible(inside: QWidget, kind: type[Part]) -> list[Part]:
    """The widgets of a kind that are on the screen, in the order in which they were made."""
    return [one for one in inside.findChildren(kind) if one.isVisible()]


def link_in(inside: QWidget, words: str) -> Link:
    """The link that says these words.

    Raises:
        AssertionError: there is none, or several.
    """
    found = [link for link in inside.findChildren(Link) if link.text() == words]
    assert len(found) == 1, [link.text() for link in inside.findChildren(Link)]
    return found[0]


def button_named(inside: QWidget, *words: str) -> QAbstractButton:
    """The first button or link that says one of these, by its text or its accessible name.

    Raises:
        AssertionError: there is none.
    """
    buttons = inside.findChildren(QAbstractButton)
    found = [one for one in buttons if one.text() in words or one.accessibleName() in words]
    assert found, [one.text() or one.accessibleName() for one in buttons]
    return found[0]


def part_of(choice: Segmented, words: str) -> QAbstractButton:
    """The part of a choice that says these words; a count may stand behind them.

    Raises:
        AssertionError: there is none, or several.
    """
    parts = choice.findChildren(QAbstractButton)
    found = [part for part in parts if part.text() == words or part.text().startswith(f"{words} ")]
    assert len(found) == 1, [part.text() for part in parts]
    return found[0]


def problem_in(dialog: Dialog) -> str:
    """What a dialog says is wrong, above its answers; empty while nothing is."""
    # What is asked scrolls inside the card; what is wrong and the answers stand on it.
    labels = [one for one in dialog.card.children() if isinstance(one, Label)]
    return "\n".join(label.text() for label in labels if not label.isHidden())


def scroller_of(dialog: Dialog) -> QScrollArea:
    """The part of a dialog that scrolls in a low window."""
    [scroller] = [one for one in dialog.card.children() if isinstance(one, QScrollArea)]
    return scroller


def is_due(part: QObject) -> bool:
    """Whether something is still to be done by a timer of this part: it has not settled yet."""
    timers = (one for one in part.children() if isinstance(one, QTimer))
    return any(timer.isSingleShot() and timer.isActive() for timer in timers)

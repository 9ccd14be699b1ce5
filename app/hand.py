"""How a press came about: by a hand, by input that a program made, or by no input at all.

What lets more run unasked, and every approval from medium risk on, asks who pressed. A widget hands the
events of one press, as `Stroke`s, to the `InputSource` of its window, which knows what the window system
tells of them. A press that assistive technology or the program itself makes has no strokes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Literal, Protocol

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QWidget

from core.fleet.models import Risk


class Hand(IntEnum):
    """By whom a press was made; of several events, the smallest counts."""

    NONE = 0
    """No input event made it: assistive technology pressed, or code of this program."""
    SYNTHETIC = 1
    """A program made the input, or the window system's word for it did not come."""
    UNKNOWN = 2
    """It is input, and the window system does not tell who made it."""
    REAL = 3
    """An input device made it."""


class Stake(Enum):
    """What a press would bring about, as far as it decides who may press."""

    LOW = "low"
    """Low risk, or what only tightens: any press does."""
    MEDIUM = "medium"
    """Medium risk: input only."""
    HIGH = "high"
    """High risk and above, and whatever loosens: a hand only; in place of it, the passphrase."""

    @classmethod
    def of_risk(cls, *risks: Risk) -> Stake:
        """What hangs on approving requests of these risks with one press."""
        most = max((risk.rank for risk in risks), default=Risk.CRITICAL.rank)
        if most >= Risk.HIGH.rank:
            return cls.HIGH
        return cls.MEDIUM if most == Risk.MEDIUM.rank else cls.LOW


StrokeKind = Literal["button down", "button up", "key down", "key up"]
_KINDS: dict[QEvent.Type, StrokeKind] = {
    QEvent.Type.MouseButtonPress: "button down",
    QEvent.Type.MouseButtonDblClick: "button down",
    QEvent.Type.MouseButtonRelease: "button up",
    QEvent.Type.KeyPress: "key down",
    QEvent.Type.ShortcutOverride: "key down",
    QEvent.Type.KeyRelease: "key up",
}


@dataclass(frozen=True, slots=True)
class Stroke:
    """One event of a pointer's button or a key, as Qt handed it over.

    `time_ms` is the window system's time in milliseconds, `keycode` its number of the key (0 for a pointer),
    `control` whether Ctrl was held. Qt's own mark for events from outside, `spontaneous`, tells nothing here:
    it is set for what another program sent, and lost on the way of a shortcut.
    """

    kind: StrokeKind
    time_ms: int
    keycode: int
    control: bool


def stroke_of(event: QMouseEvent | QKeyEvent) -> Stroke:
    """What an event tells of who made it.

    Raises:
        KeyError: it is neither press nor release.
    """
    return Stroke(
        kind=_KINDS[event.type()],
        time_ms=event.timestamp(),
        keycode=event.nativeScanCode() if isinstance(event, QKeyEvent) else 0,
        control=bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier),
    )


class InputSource(Protocol):
    """What a window system tells of the origin of input; each window is given one."""

    async def begin(self) -> None:
        """Begin to listen; needs the running loop. It raises nothing: what fails is told as synthetic."""

    async def end(self) -> None:
        """Stop listening."""

    def hand_of(self, stroke: Stroke) -> Hand:
        """By whom this event was made."""


class BlindSource:
    """For window systems that tell nothing of the origin of input (Wayland, Windows, macOS, none)."""

    async def begin(self) -> None:
        """There is nothing to listen to."""

    async def end(self) -> None:
        """There is nothing to stop."""

    def hand_of(self, stroke: Stroke) -> Hand:
        """It is input, and by whom is not known."""
        return Hand.UNKNOWN


class DeafSource(BlindSource):
    """For a window system that would tell, while nothing listens to it: no input counts as a hand."""

    def hand_of(self, stroke: Stroke) -> Hand:
        """It is input, and nothing speaks for a hand."""
        return Hand.SYNTHETIC


def platform_source() -> InputSource:
    """The source for the window system that Qt uses."""
    if QGuiApplication.platformName() != "xcb":
        return BlindSource()
    from app.x11_input import X11Source

    return X11Source()


def source_of(widget: QWidget) -> InputSource:
    """The source of the window that this widget is in; its `input_source`."""
    place: QWidget | None = widget
    while place is not None:
        source: InputSource | None = getattr(place, "input_source", None)
        if source is not None:
            return source
        place = place.parentWidget()
    return DeafSource() if QGuiApplication.platformName() == "xcb" else BlindSource()


def hand_behind(widget: QWidget, strokes: Iterable[Stroke]) -> Hand:
    """By whom the press was made that consists of these events; `NONE` without any."""
    source = source_of(widget)
    return min((source.hand_of(stroke) for stroke in strokes), default=Hand.NONE)

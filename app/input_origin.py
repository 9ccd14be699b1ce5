"""By whom a press is made: a person at an input device, a program that makes input, or no input at all.

A guarded control hands the events of one press, as `Stroke`s, to the `InputSource` of its window. The source
knows what the window system reports about the origin of input. A press by assistive technology, or by code of
this program, has no strokes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Literal, Protocol

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QWidget

from core.models.tools import Risk


class InputOrigin(IntEnum):
    """The origin of a press. A press of several events has the smallest value among them."""

    NONE = 0
    """No input event: assistive technology, or code of this program."""
    SYNTHETIC = 1
    """A program made the input, or the window system did not confirm that a device did."""
    UNKNOWN = 2
    """An input event, and the window system does not report its origin."""
    REAL = 3
    """An input device made it."""


class Stake(Enum):
    """What a press brings about, as far as it decides which presses count."""

    LOW = "low"
    """Low risk, and whatever tightens: every press counts."""
    MEDIUM = "medium"
    """Medium risk: input counts, also input that a program made."""
    HIGH = "high"
    """High risk and above, and whatever loosens: synthetic input needs the passphrase as well."""

    @classmethod
    def of_risk(cls, *risks: Risk) -> Stake:
        """The stake of approving requests of these risks with one press; without any, the highest."""
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
    """One event of a pointer button or a key, as Qt delivered it.

    `time_ms` is the window system's time in milliseconds, `keycode` its number of the key (0 for a pointer),
    `control` whether Ctrl is among the modifiers. Qt's `spontaneous()` is left out: it is set for events that
    another program sent, and lost for shortcuts.
    """

    kind: StrokeKind
    time_ms: int
    keycode: int
    control: bool


def stroke_of(event: QMouseEvent | QKeyEvent) -> Stroke:
    """The stroke of a press or release.

    Raises:
        KeyError: the event is neither.
    """
    return Stroke(
        kind=_KINDS[event.type()],
        time_ms=event.timestamp(),
        keycode=event.nativeScanCode() if isinstance(event, QKeyEvent) else 0,
        control=bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier),
    )


MADE_BY_PROGRAM = "This press came from a program, not from your hand"
NOT_TOLD_APART = "This desk cannot tell your hand from a program's"


class InputSource(Protocol):
    """What a window system reports about the origin of input. Each window is given one."""

    @property
    def about(self) -> str:
        """What an operator is told of it: which presses this desk can tell apart."""

    @property
    def doubt(self) -> str:
        """Why a press is synthetic, as the beginning of a sentence."""

    async def begin(self) -> None:
        """Begin to listen; needs the running loop. A failure is logged, and input is synthetic then."""

    async def end(self) -> None:
        """Stop listening."""

    def hand_of(self, stroke: Stroke) -> InputOrigin:
        """The origin of one event."""


class BlindSource:
    """For window systems that are not asked for the origin of input: Windows, macOS, off screen."""

    @property
    def about(self) -> str:
        """See `InputSource`."""
        return (
            "This window system is not asked whether a person or a program made a key or a click: they count "
            "as a person's."
        )

    @property
    def doubt(self) -> str:
        """See `InputSource`."""
        return MADE_BY_PROGRAM

    async def begin(self) -> None:
        """Nothing to listen to."""

    async def end(self) -> None:
        """Nothing to stop."""

    def hand_of(self, stroke: Stroke) -> InputOrigin:
        """Unknown."""
        return InputOrigin.UNKNOWN


class DeafSource(BlindSource):
    """For a window system that would report the origin, while nothing listens."""

    def hand_of(self, stroke: Stroke) -> InputOrigin:
        """Synthetic: nothing confirms a device."""
        return InputOrigin.SYNTHETIC


def source_of(widget: QWidget) -> InputSource:
    """The `input_source` of the window around this widget."""
    place: QWidget | None = widget
    while place is not None:
        source: InputSource | None = getattr(place, "input_source", None)
        if source is not None:
            return source
        place = place.parentWidget()
    return DeafSource() if QGuiApplication.platformName() == "xcb" else BlindSource()


def hand_behind(widget: QWidget, strokes: Iterable[Stroke]) -> InputOrigin:
    """The origin of a press that consists of these strokes; `NONE` without any."""
    source = source_of(widget)
    return min((source.hand_of(stroke) for stroke in strokes), default=InputOrigin.NONE)

"""The words of a desktop: boxes, controls, windows, and what a system must be able to do with them.

Coordinates are screen pixels from the top left corner of the whole desktop. Ids of controls and windows are
opaque and hold for the life of what they name.

The monitors, numbered as pictures number them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from core.errors import DeviceError, ErrorCode

if TYPE_CHECKING:
    from core.device.desktop.key_chords import Chord
import mss
import mss.exception

Button = Literal["left", "middle", "right"]
Direction = Literal["up", "down", "left", "right"]
# What a tool needs of the desktop: controls and their trees, a pointer and keys, or a list of windows.
Need = Literal["controls", "input", "windows"]
PROTECTED = "protected"
LONGEST_VALUE = 2_000


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on the screen."""

    x: int
    y: int
    width: int
    height: int

    @property
    def centre(self) -> tuple[int, int]:
        """The pixel in the middle."""
        return self.x + self.width // 2, self.y + self.height // 2

    def holds(self, x: int, y: int) -> bool:
        """Whether a pixel is inside."""
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height

    def shared_with(self, other: Box) -> Box | None:
        """The part that both cover."""
        left, top = max(self.x, other.x), max(self.y, other.y)
        right = min(self.x + self.width, other.x + other.width)
        bottom = min(self.y + self.height, other.y + other.height)
        return Box(left, top, right - left, bottom - top) if right > left and bottom > top else None

    def as_dict(self) -> dict[str, int]:
        """As a result carries it."""
        return {"x": self.x, "y": self.y, "width": self.width, "height": self.height}


@dataclass(slots=True)
class Control:
    """Something that a program shows. `value` is None where there is none, or where it is protected."""

    id: str
    role: str
    name: str
    process_id: int
    process_name: str = ""
    value: str | float | None = None
    states: tuple[str, ...] = ()
    box: Box | None = None
    actions: tuple[str, ...] = ()
    takes_text: bool = False
    children: list[Control] = field(default_factory=list)
    truncated: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As a result carries it, with everything below."""
        shown: dict[str, Any] = {
            "id": self.id,
            "role": self.role,
            "name": self.name,
            "value": None if PROTECTED in self.states else self.value,
            "states": list(self.states),
            "box": self.box.as_dict() if self.box else None,
            "actions": list(self.actions),
            "process_id": self.process_id,
            "children": [child.as_dict() for child in self.children],
        }
        if self.truncated:
            shown["truncated"] = True
        return shown


@dataclass(frozen=True, slots=True)
class Window:
    """A window at the top level."""

    id: str
    title: str
    process_id: int | None
    process_name: str
    box: Box
    active: bool
    visible: bool
    # A menu or the like, which no window manager knows.
    is_popup: bool = False
    # What its program draws around itself: how far in its content begins, and how much smaller that is.
    shadow: Box = Box(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Layer:
    """Something that covers a part of the screen; a pointer meets the topmost."""

    id: str
    box: Box


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose controls are meant: everybody's, one process', or one window's."""

    process_name: str | None = None
    window_id: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a look at the controls goes: levels, controls, and seconds."""

    depth: int = 30
    nodes: int = 1_000
    seconds: float = 8.0


@dataclass(slots=True)
class Tree:
    """Controls by program. `not_answering` names programs that hung while they were asked."""

    roots: list[Control]
    truncated: bool = False
    not_answering: list[str] = field(default_factory=list)

    def all(self) -> list[Control]:
        """Every control, parents before children."""
        found, rest = [], list(reversed(self.roots))
        while rest:
            control = rest.pop()
            found.append(control)
            rest.extend(reversed(control.children))
        return found


@dataclass(slots=True)
class Hidden:
    """What a picture must not show, and the programs that could not be asked about it."""

    boxes: list[Box] = field(default_factory=list)
    not_searched: list[str] = field(default_factory=list)
    # Windows of programs that tell nobody what they show.
    blank: list[Window] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lack:
    """Why this machine's desktop cannot do something now, and what a person can do about it."""

    reason: str
    how_to_fix: str

    def error(self) -> DeviceError:
        """The same as a tool's failure."""
        return DeviceError(f"{self.reason}. {self.how_to_fix}", ErrorCode.TOOL_FAILED)


def stale(what: str) -> DeviceError:
    """The error for an id whose control or window is gone."""
    return DeviceError(
        f"{what} is not there (any more). Read the controls again and use an id from there",
        ErrorCode.STALE_OBSERVATION,
    )


class Desktop(ABC):
    """A system's controls, pointer and keys.

    Every method ends within seconds whatever a program on the screen does. All raise `DeviceError`: with
    `stale_observation` for an id that names nothing (any more), with `tool_failed` where the system says no.
    """

    @abstractmethod
    def lack(self, need: Need) -> Lack | None:
        """Why `need` cannot be met now; None when it can. Blocks for two seconds at most."""

    @abstractmethod
    async def monitors(self) -> list[Box]:
        """The monitors; the first one is number 1 in results."""

    @abstractmethod
    async def windows(self) -> list[Window]:
        """Windows at the top level, the topmost last."""

    @abstractmethod
    async def tree(self, scope: Scope, bounds: Bounds) -> Tree:
        """The controls in `scope`; each root is a program or a window."""

    @abstractmethod
    async def control(self, control_id: str) -> Control:
        """One control as it is now, without what is below it."""

    @abstractmethod
    async def perform(self, control: Control) -> str | None:
        """Press, click, activate or toggle through accessibility; the action's name, None if it has none."""

    @abstractmethod
    async def focus(self, control: Control) -> None:
        """Have keys go to a control."""

    @abstractmethod
    async def focused(self) -> Control | None:
        """The control that keys go to, where that can be told."""

    @abstractmethod
    async def insert_text(self, control: Control, text: str) -> bool:
        """Insert at the caret, in place of what is selected; False where the control cannot do that."""

    @abstractmethod
    async def hidden(self) -> Hidden:
        """Fields on the screen whose content must not be seen, such as passwords."""

    @abstractmethod
    def protect(self, control_id: str | None) -> None:
        """Hide a field as if it held a password, because a secret is typed into it.

        None means that the field is not known: the window that keys go to is hidden instead, for a while.
        """

    @abstractmethod
    async def owner_at(self, x: int, y: int) -> Window | None:
        """The topmost window at a pixel."""

    async def layers(self) -> list[Layer]:
        """What lies on the screen, the topmost first."""
        return [Layer(one.id, one.box) for one in reversed(await self.windows()) if one.visible]

    async def layer_at(self, x: int, y: int) -> str | None:
        """The id of the layer that the pointer would meet at a pixel."""
        owner = await self.owner_at(x, y)
        return owner.id if owner else None

    async def in_the_way(self, control: Control, x: int, y: int) -> str | None:
        """What a pointer at a pixel of a control would meet instead of it, in words."""
        owner = await self.owner_at(x, y)
        if owner is None or owner.process_id in (None, control.process_id):
            return None
        return f"covered by the window {owner.title!r} of {owner.process_name}"

    @abstractmethod
    async def click(self, x: int, y: int, button: Button, count: int) -> None:
        """Move the pointer and press a button `count` times."""

    @abstractmethod
    async def type_keys(self, text: str) -> None:
        """Type text by keys into whatever has the focus; cancelling stops it and releases every key."""

    @abstractmethod
    async def press(self, chord: Chord) -> None:
        """Press one key with its modifiers and release them all."""

    @abstractmethod
    async def scroll(self, direction: Direction, amount: int, at: tuple[int, int] | None) -> None:
        """Turn the wheel by `amount` notches, at a pixel or where the pointer is."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of every connection."""


class NoDesktop(Desktop):
    """A system that this program has no hands for."""

    def __init__(self, platform: str) -> None:
        self._lack = Lack(f"There is no desktop support for {platform}", "Use Linux, Windows or macOS")

    def lack(self, need: Need) -> Lack | None:
        return self._lack

    async def monitors(self) -> list[Box]:
        return []

    async def windows(self) -> list[Window]:
        raise self._lack.error()

    async def tree(self, scope: Scope, bounds: Bounds) -> Tree:
        raise self._lack.error()

    async def control(self, control_id: str) -> Control:
        raise self._lack.error()

    async def perform(self, control: Control) -> str | None:
        raise self._lack.error()

    async def focus(self, control: Control) -> None:
        raise self._lack.error()

    async def focused(self) -> Control | None:
        return None

    async def insert_text(self, control: Control, text: str) -> bool:
        raise self._lack.error()

    async def hidden(self) -> Hidden:
        return Hidden()

    def protect(self, control_id: str | None) -> None:
        return None

    async def owner_at(self, x: int, y: int) -> Window | None:
        return None

    async def click(self, x: int, y: int, button: Button, count: int) -> None:
        raise self._lack.error()

    async def type_keys(self, text: str) -> None:
        raise self._lack.error()

    async def press(self, chord: Chord) -> None:
        raise self._lack.error()

    async def scroll(self, direction: Direction, amount: int, at: tuple[int, int] | None) -> None:
        raise self._lack.error()

    async def close(self) -> None:
        return None


def monitors_now() -> list[Box]:
    """The monitors; the first has number 1. Blocks for milliseconds.

    Raises:
        DeviceError: the screen cannot be read.
    """
    try:
        with mss.MSS() as screen:
            return [
                Box(int(one["left"]), int(one["top"]), int(one["width"]), int(one["height"]))
                for one in screen.monitors[1:]
            ]
    except (mss.exception.ScreenShotError, OSError) as error:
        raise DeviceError(f"The screen cannot be read: {error}", ErrorCode.TOOL_FAILED) from error

"""The desktop interface: boxes, controls, windows, monitors, and the operations that each system implements.

Coordinates are screen pixels from the top left corner of the whole desktop. Ids of controls and windows are
opaque and valid for the life of the control or window. Monitors are numbered from 1, as in screenshots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from core.controls import SEARCHED, SHOWING
from core.device.desktop.control_search import Found, Wanted, nearest
from core.errors import DeviceError, ErrorCode
from core.text import sentences

if TYPE_CHECKING:
    from core.device.desktop.key_chords import Chord
import mss
import mss.exception

Button = Literal["left", "middle", "right"]
Direction = Literal["up", "down", "left", "right"]
# The desktop features that a tool may need: controls and their trees, pointer and keys, or a list of windows.
Need = Literal["controls", "input", "windows"]
Detail = Literal["names", "outline", "all"]
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
        """The pixel at the centre."""
        return self.x + self.width // 2, self.y + self.height // 2

    def holds(self, x: int, y: int) -> bool:
        """Whether a pixel is inside the box."""
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height

    def shared_with(self, other: Box) -> Box | None:
        """The intersection of both boxes; None where they do not overlap."""
        left, top = max(self.x, other.x), max(self.y, other.y)
        right = min(self.x + self.width, other.x + other.width)
        bottom = min(self.y + self.height, other.y + other.height)
        return Box(left, top, right - left, bottom - top) if right > left and bottom > top else None

    def without(self, other: Box) -> list[Box]:
        """The parts of the box outside another one, which do not overlap."""
        shared = self.shared_with(other)
        if shared is None:
            return [self]
        below, beside = shared.y + shared.height, shared.x + shared.width
        parts = (
            Box(self.x, self.y, self.width, shared.y - self.y),
            Box(self.x, below, self.width, self.y + self.height - below),
            Box(self.x, shared.y, shared.x - self.x, shared.height),
            Box(beside, shared.y, self.x + self.width - beside, shared.height),
        )
        return [part for part in parts if part.width > 0 and part.height > 0]

    def as_dict(self) -> dict[str, int]:
        """The box as it appears in a result."""
        return {"x": self.x, "y": self.y, "width": self.width, "height": self.height}


@dataclass(slots=True)
class Control:
    """A control (widget) of a program. `value` is None where it has none or is protected."""

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
    # Children that were not read because they are not on the screen.
    not_showing: int = 0

    def as_dict(self, *, deep: bool = True) -> dict[str, Any]:
        """The control, if `deep` with its descendants, as it appears in a result."""
        shown: dict[str, Any] = {
            "id": self.id,
            "role": self.role,
            "name": self.name,
            "value": None if PROTECTED in self.states else self.value,
            "states": list(self.states),
            "box": self.box.as_dict() if self.box else None,
            "actions": list(self.actions),
            "process_id": self.process_id,
            "children": [child.as_dict() for child in self.children] if deep else [],
        }
        if self.truncated:
            shown["truncated"] = True
        if self.not_showing:
            shown["not_showing"] = self.not_showing
        return shown


@dataclass(frozen=True, slots=True)
class Window:
    """A top-level window."""

    id: str
    title: str
    process_id: int | None
    process_name: str
    box: Box
    active: bool
    visible: bool
    # A menu or similar window, which the window manager does not list.
    is_popup: bool = False
    # The shadow that the program draws around the window: the offset of the content, and how much smaller the
    # content is.
    shadow: Box = Box(0, 0, 0, 0)
    minimized: bool = False
    # Numbered from 1; None where the window is on every workspace, or the system has none.
    workspace: int | None = None
    on_this_workspace: bool = True
    # The window whose dialog this one is.
    dialog_of: str | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """An area of the screen that a window covers; a click reaches the topmost layer."""

    id: str
    box: Box


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a search for controls: all programs, a process, a window, or what is below a control."""

    process_name: str | None = None
    window_id: str | None = None
    below: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of reading controls: levels, number of controls, and seconds.

    `showing`: only controls on the screen. `detail`: what is read of each: its role, name and states; also
    its value and place (`outline`); or also its actions (`all`).
    """

    depth: int = 30
    nodes: int = 1_000
    seconds: float = 8.0
    showing: bool = False
    detail: Detail = "all"


SEARCHED_BOUNDS = Bounds(depth=SEARCHED.depth, nodes=SEARCHED.nodes)
"""How far a program is read to find a control by its name."""


@dataclass(slots=True)
class Tree:
    """Controls by program. `not_answering` names programs that hung while they were read."""

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


def found_in(tree: Tree, wanted: Wanted, *, showing: bool = False) -> Found[Control]:
    """The search of controls that were read; `showing`: of those on the screen only."""
    controls = [one for one in tree.all() if not showing or SHOWING in one.states]
    fit = wanted.fitting(controls)
    near = [] if fit else nearest(controls, wanted)
    return Found(wanted, fit, near, not tree.truncated, tree.not_answering)


@dataclass(frozen=True, slots=True)
class StackedWindow:
    """A window in the stacking order; several have the same `place` if they are in the same outer window.

    `hides` is the part of the screen in which nothing below it can be seen, None where that is not certain.
    """

    id: str
    process_id: int | None
    place: int
    hides: Box | None


@dataclass(frozen=True, slots=True)
class Stacking:
    """The windows on the screen at one moment, the topmost last."""

    windows: tuple[StackedWindow, ...]

    def visible(self, box: Box, window_id: str, answering: Collection[int]) -> list[Box]:
        """The parts of a box in a window that no window above it hides.

        A window hides something only if its program is `answering`: a window whose program hangs may not have
        been drawn, and shows what was there before.
        """
        place = next((one.place for one in self.windows if one.id == window_id), None)
        parts = [box]
        for one in self.windows:
            if place is None or one.place <= place or one.hides is None or one.process_id not in answering:
                continue
            parts = [part for whole in parts for part in whole.without(one.hides)]
        return parts


@dataclass(slots=True)
class Hidden:
    """The areas to redact in a picture, and the programs that could not be searched for them."""

    boxes: list[Box] = field(default_factory=list)
    not_searched: list[str] = field(default_factory=list)
    # Windows of programs that do not report their controls.
    blank: list[Window] = field(default_factory=list)
    # The windows that boxes are in; None among them where that is not certain.
    owners: dict[Box, set[str | None]] = field(default_factory=dict)
    # The processes whose programs answered while they were searched.
    answering: set[int] = field(default_factory=set)

    def add(self, box: Box, window_id: str | None) -> None:
        """Redact a box, which is in this window."""
        self.boxes.append(box)
        self.owners.setdefault(box, set()).add(window_id)

    def visible(self, stacking: Stacking | None) -> list[Box]:
        """The parts of the boxes that no other window hides; the whole boxes where that is not certain."""
        if stacking is None:
            return list(self.boxes)
        parts: dict[Box, None] = {}
        for box in self.boxes:
            for window_id in self.owners.get(box, {None}):
                seen = [box] if window_id is None else stacking.visible(box, window_id, self.answering)
                parts.update(dict.fromkeys(seen))
        return list(parts)


@dataclass(frozen=True, slots=True)
class Focus:
    """Where the keyboard is.

    `certainty`: "control" where `control` has it; "nothing" where no control has it, such as while a menu is
    open; "untold" where the program tells nothing about its controls; "not searched" where the search did not
    come to its end.
    """

    control: Control | None
    certainty: Literal["control", "nothing", "untold", "not searched"]


@dataclass(frozen=True, slots=True)
class EditPoint:
    """Where typed text goes in a text of `length` characters: at a caret, or in place of a selection."""

    start: int
    end: int
    length: int

    @property
    def replaces(self) -> int:
        """The number of selected characters, which typed text replaces."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Unavailability:
    """Why this machine's desktop cannot do something now, and how an operator can fix that."""

    reason: str
    how_to_fix: str

    def error(self) -> DeviceError:
        """The lack as a tool's error."""
        return DeviceError(f"{self.reason}. {self.how_to_fix}.", ErrorCode.TOOL_FAILED)


def stale(what: str) -> DeviceError:
    """The error for an id whose control or window is gone."""
    return DeviceError(
        f"{what} is not there (any more). Read the controls again and use an id from there.",
        ErrorCode.STALE_OBSERVATION,
    )


class Desktop(ABC):
    """A system's controls, pointer and keys.

    Every method ends within seconds, even if a program on the screen hangs. All raise `DeviceError`: with
    `stale_observation` for an unknown or outdated id, with `tool_failed` where the system refuses.
    """

    @abstractmethod
    def lack(self, need: Need) -> Unavailability | None:
        """Why `need` cannot be met now; None when it can. Blocks for two seconds at most."""

    @abstractmethod
    async def monitors(self) -> list[Box]:
        """The monitors; the first one is number 1 in results."""

    @abstractmethod
    async def windows(self) -> list[Window]:
        """The top-level windows, the topmost last."""

    @abstractmethod
    async def bring_forward(self, window: Window) -> None:
        """Ask for a window to be raised and to get the keyboard: from its icon or another workspace, too.

        Returns before it is done; `windows` tells when the window is active.
        """

    async def window_of(self, control: Control) -> Window | None:
        """The window that shows a control; None where it is not known."""
        own = [one for one in await self.windows() if one.process_id == control.process_id]
        return next((one for one in own if one.active), own[-1] if own else None)

    async def processes_called(self, name: str) -> set[int]:
        """The processes whose programs call themselves by this name, whatever their files are called."""
        return set()

    @abstractmethod
    async def tree(self, scope: Scope, bounds: Bounds) -> Tree:
        """The controls in `scope`; each root is a program or a window."""

    async def find(self, scope: Scope, wanted: Wanted, *, showing: bool = False) -> Found[Control]:
        """The controls in `scope` that fit, or those that are nearest; `showing`: on the screen only.

        Every system may read all controls for it; one that can find a control without that does.
        """
        return found_in(await self.tree(scope, SEARCHED_BOUNDS), wanted, showing=showing)

    async def cell(self, table_id: str, row: int, column: int) -> Control:
        """A cell of a table by its row and column, from 1, wherever the table is scrolled to."""
        raise DeviceError(
            "On this system no cell is found by its row and column; search it by its name.",
            ErrorCode.TOOL_FAILED,
        )

    @abstractmethod
    async def control(self, control_id: str) -> Control:
        """A control's current state, without its descendants."""

    @abstractmethod
    async def perform(self, control: Control) -> str | None:
        """Press, click, activate or toggle through accessibility; returns the action's name, or None."""

    async def prefers_pointer(self, control: Control) -> bool:
        """Whether a control is better pressed with the pointer than by its accessibility action."""
        return False

    async def menus_above(self, control: Control) -> list[Control]:
        """The menus that must be open for a menu item to show, the outermost first; empty where unknown."""
        return []

    async def scroll_to(self, control: Control) -> bool:
        """Ask the program to scroll to a control; False where it cannot. Returns before it is done."""
        return False

    async def shown(self) -> list[Window]:
        """The windows on the screen, with menus and similar ones (`is_popup`), which `windows` leaves out."""
        return [one for one in await self.windows() if one.visible]

    async def states(self, control: Control) -> tuple[str, ...]:
        """The present states of a control."""
        return (await self.control(control.id)).states

    @abstractmethod
    async def focus(self, control: Control) -> None:
        """Give a control the keyboard focus."""

    @abstractmethod
    async def focused(self) -> Control | None:
        """The control with the keyboard focus; None where it is not known."""

    async def keyboard(self) -> Focus:
        """Where the keyboard is."""
        control = await self.focused()
        return Focus(control, "control") if control is not None else Focus(None, "untold")

    async def has_focus(self, control: Control) -> bool:
        """Whether a control still has the keyboard focus."""
        focused = await self.focused()
        return focused is not None and focused.id == control.id

    async def edit_point(self, control: Control) -> EditPoint | None:
        """Where text that is typed into a control goes; None where it is not told, or is protected."""
        return None

    async def text_between(self, control: Control, start: int, end: int) -> str | None:
        """A part of a control's text; None where it is not told, or is protected."""
        return None

    async def delete_text(self, control: Control, start: int, end: int) -> bool:
        """Delete a part of a control's text; returns False where the control cannot do that."""
        return False

    @abstractmethod
    async def insert_text(self, control: Control, text: str) -> bool:
        """Insert text at the caret, replacing a selection; returns False where the control cannot do that."""

    @abstractmethod
    async def hidden(self) -> Hidden:
        """The areas of secret fields on the screen, such as password fields."""

    async def stacking(self) -> Stacking | None:
        """The windows in their stacking order; None where it is not known what can be seen through them."""
        return None

    @abstractmethod
    def protect(self, control_id: str | None) -> None:
        """Redact a field in pictures like a password field, because a secret is typed into it.

        None means that the field is not known: the window with the keyboard focus is then redacted for a
        while.
        """

    @abstractmethod
    async def owner_at(self, x: int, y: int) -> Window | None:
        """The topmost window at a pixel."""

    async def layers(self) -> list[Layer]:
        """The layers on the screen, the topmost first."""
        return [Layer(one.id, one.box) for one in reversed(await self.windows()) if one.visible]

    async def layer_at(self, x: int, y: int) -> str | None:
        """The id of the layer that a click at a pixel would reach."""
        owner = await self.owner_at(x, y)
        return owner.id if owner else None

    async def in_the_way(self, control: Control, x: int, y: int) -> str | None:
        """A phrase for what covers a control at a pixel; None where nothing does."""
        owner = await self.owner_at(x, y)
        if owner is None or owner.process_id in (None, control.process_id):
            return None
        return f"covered by the window {owner.title!r} of {owner.process_name}"

    @abstractmethod
    async def click(self, x: int, y: int, button: Button, count: int) -> None:
        """Move the pointer and press a button `count` times."""

    @abstractmethod
    async def type_keys(self, text: str, window: Window | None = None) -> int:
        """Type text by keys into the control with the focus; cancelling stops it and releases every key.

        Returns how many characters were typed: fewer than all where `window` lost the keyboard, or where its
        program does not read keys.
        """

    @abstractmethod
    async def press(self, chord: Chord, window: Window | None = None) -> None:
        """Press one key with its modifiers and release them all.

        Refused with the code `keyboard_elsewhere` where `window` has lost the keyboard.
        """

    @abstractmethod
    async def scroll(self, direction: Direction, amount: int, at: tuple[int, int] | None) -> None:
        """Turn the wheel by `amount` notches, at a pixel or at the pointer."""

    @abstractmethod
    async def close(self) -> None:
        """Close every connection."""


class NoDesktop(Desktop):
    """The desktop of an unsupported system."""

    def __init__(self, platform: str) -> None:
        self._lack = Unavailability(
            f"There is no desktop support for {platform}", "Use Linux, Windows or macOS"
        )

    def lack(self, need: Need) -> Unavailability | None:
        return self._lack

    async def monitors(self) -> list[Box]:
        return []

    async def windows(self) -> list[Window]:
        raise self._lack.error()

    async def bring_forward(self, window: Window) -> None:
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

    async def type_keys(self, text: str, window: Window | None = None) -> int:
        raise self._lack.error()

    async def press(self, chord: Chord, window: Window | None = None) -> None:
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
        raise DeviceError(sentences(f"The screen cannot be read: {error}"), ErrorCode.TOOL_FAILED) from error

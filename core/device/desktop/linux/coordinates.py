"""Converts the toolkits' coordinates of controls to screen pixels.

On a high-density screen GTK 3 and Qt report positions in unscaled pixels, and GTK 4 reports only positions
within its window. The X server has the real positions of windows, and a frame is as wide as its window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor

from core.device.desktop.interface import Box, Window
from core.device.desktop.linux.atspi import AccessibilityBus, Gone, NotSupported, Ref, Toolkit
from core.device.desktop.linux.atspi_constants import ACCESSIBLE, COMPONENT, NULL, ROOT, role_word

Extents = tuple[int, int, int, int]
# AT-SPI coordinate types: relative to the screen, and relative to the control's window.
_OF_SCREEN, _OF_WINDOW = 0, 1
# The coordinate that toolkits report for a control without a position.
_NOWHERE = -(1 << 31)
_MOST_FRAMES = 40
_LEVELS = 60
_LEAST_DENSITY, _MOST_DENSITY = 1.1, 8.0


@dataclass(frozen=True, slots=True)
class Place:
    """The conversion of a program's coordinates to the screen: a corner known in both, and the density."""

    told: tuple[int, int] = (0, 0)
    real: tuple[int, int] = (0, 0)
    density: float = 1.0

    def on_screen(self, extents: Extents | None) -> Box | None:
        """The pixels that extents touch; None where they are no position."""
        if extents is None:
            return None
        x, y, width, height = extents
        if width <= 0 or height <= 0 or _NOWHERE in (x, y):
            return None
        left = self.real[0] + floor((x - self.told[0]) * self.density)
        top = self.real[1] + floor((y - self.told[1]) * self.density)
        return Box(left, top, ceil(width * self.density), ceil(height * self.density))


@dataclass(frozen=True, slots=True)
class Where:
    """How to convert positions: `place` is None where they cannot be converted to pixels."""

    coordinates: int = _OF_SCREEN
    place: Place | None = Place()
    # GTK 4 reports the state `showing` for windows only.
    tells_showing: bool = True


@dataclass(frozen=True, slots=True)
class Frame:
    """A window as its program reports it, and the windows on the screen that may match it.

    `is_named`: these windows are the program's own and have the frame's title.
    """

    ref: Ref
    windows: tuple[str, ...]
    places: tuple[Place, ...]
    is_named: bool = False
    title: str = ""
    extents: Extents = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Home:
    """The program whose window contains a control, and the frame that contains it.

    `inner`: the topmost object above a control that leads to no program, as those of LibreOffice do.
    """

    root: Ref
    top: Ref | None = None
    inner: Ref | None = None


@dataclass(slots=True)
class Places:
    """A program's frames."""

    inside_window: bool = False
    process_id: int | None = None
    frames: list[Frame] = field(default_factory=list)

    def of(self, frame: Frame | None) -> Where:
        """How to convert positions in a frame; in any frame for None."""
        found = self._all() if frame is None else frame.places
        place = found[0] if len(found) == 1 else None
        return Where(self._coordinates, place, not self.inside_window)

    def frame(self, ref: Ref | None) -> Frame | None:
        """The frame with a reference."""
        return next((one for one in self.frames if one.ref == ref), None)

    async def frame_of(self, bus: AccessibilityBus, home: Home) -> Frame | None:
        """The frame that contains a control; None where it is not known.

        LibreOffice's own controls are in a frame that it does not list. That one is placed as the whole
        window, but is lower than it by the menu bar above it, which belongs to the toolkit.

        Raises:
            Silent: its program hangs.
            Gone: it does not exist.
        """
        if home.inner is None or self.inside_window:
            return self.frame(home.top)
        try:
            (role,) = await bus.call(home.inner, ACCESSIBLE, "GetRole")
            title = str(await bus.get(home.inner, ACCESSIBLE, "Name"))
            *edges, height = await extents_of(bus, home.inner, _OF_SCREEN)
        except NotSupported:
            return None
        if role_word(int(role)) != "frame" or height <= 0:
            return None
        same = [one for one in self.frames if (one.title, [*one.extents[:3]]) == (title, edges)]
        if len(same) != 1 or same[0].extents[3] < height:
            return None
        menu_bar = same[0].extents[3] - height
        moved = (replace(one, told=(one.told[0], one.told[1] - menu_bar)) for one in same[0].places)
        return replace(same[0], places=tuple(moved))

    def window_of(self, top: Ref | None) -> str | None:
        """The only window that the frame `top` can be; None if it is not certain which one it is.

        With frames in several places it is not: `boxes` are then in windows of other frames, too.
        """
        frame = self.frame(top)
        is_certain = frame is not None and frame.is_named and len(frame.windows) == 1
        return frame.windows[0] if frame is not None and is_certain and len(self._all()) == 1 else None

    async def boxes(self, bus: AccessibilityBus, ref: Ref, home: Home) -> list[Box]:
        """All boxes where a control may be, for redaction, which must cover every one.

        Raises:
            Silent: its program hangs.
            Gone: it does not exist.
            NotSupported: it reports no position.
        """
        extents = await extents_of(bus, ref, self._coordinates)
        frame = await self.frame_of(bus, home) if home.inner is not None else None
        places = (*self._all(), *(() if frame is None else frame.places))
        found = (place.on_screen(extents) for place in places)
        return [box for box in dict.fromkeys(found) if box is not None]

    @property
    def _coordinates(self) -> int:
        return _OF_WINDOW if self.inside_window else _OF_SCREEN

    def _all(self) -> tuple[Place, ...]:
        found = tuple(dict.fromkeys(place for frame in self.frames for place in frame.places))
        return found if found or self.inside_window else (Place(),)


async def extents_of(bus: AccessibilityBus, ref: Ref, coordinates: int) -> Extents:
    """The extents that a control reports.

    Raises:
        Silent: its program hangs.
        Gone: it does not exist.
        NotSupported: it reports none.
    """
    (told,) = await bus.call(ref, COMPONENT, "GetExtents", "u", (coordinates,))
    x, y, width, height = (int(one) for one in told)
    return x, y, width, height


async def places_of(
    bus: AccessibilityBus,
    root: Ref,
    windows: Sequence[Window],
    titles: Mapping[Ref, str] | None = None,
) -> Places:
    """The conversion of a program's coordinates to the screen that shows `windows`.

    Frames in `titles` are not requested again.

    Raises:
        Silent: the program hangs.
        Gone: it does not exist.
    """
    toolkit, process_id = await bus.toolkit(root), await bus.process_id(root.bus)
    places = Places(toolkit.is_gtk(4), process_id)
    try:
        (children,) = await bus.call(root, ACCESSIBLE, "GetChildren")
    except NotSupported:
        return places
    refs = [Ref(str(name), str(path)) for name, path in children[:_MOST_FRAMES]]
    own = [one for one in windows if one.process_id == process_id]
    told = await asyncio.gather(*(_frame(bus, ref, places, (titles or {}).get(ref)) for ref in refs))
    for ref, one in zip(refs, told, strict=True):
        if one is None:
            continue
        title, extents = one
        # A program in a container has a different process id outside, so its windows are matched by title
        # only.
        named = [window for window in own or windows if window.title == title]
        fitting = named or own
        fitting = [window for window in fitting if window.box == Box(*extents)] or fitting
        found = tuple(dict.fromkeys(_place(extents, window, toolkit) for window in fitting))
        if not found and not places.inside_window:
            found = (Place(),)
        is_named = bool(named) and bool(own)
        places.frames.append(
            Frame(ref, tuple(window.id for window in fitting), found, is_named, title, extents)
        )
    return places


async def home_of(bus: AccessibilityBus, ref: Ref) -> Home:
    """Find the program and frame that contain a control; a web page's process differs from its window's.

    Raises:
        Silent: its program hangs.
        Gone: it does not exist.
    """
    own = Ref(ref.bus, ROOT)
    if ref == own:
        return Home(own)
    top = ref
    for _ in range(_LEVELS):
        try:
            name, path = await bus.get(top, ACCESSIBLE, "Parent")
        except NotSupported:
            break
        above = Ref(str(name), str(path))
        if above.path == ROOT:
            return Home(above, top)
        if above.path == NULL:
            return Home(own, inner=top)
        top = above
    return Home(own)


async def _frame(
    bus: AccessibilityBus, ref: Ref, places: Places, title: str | None
) -> tuple[str, Extents] | None:
    """A frame's title and extents."""
    try:
        extents = await extents_of(bus, ref, places.of(None).coordinates)
        if title is None:
            title = str(await bus.get(ref, ACCESSIBLE, "Name"))
    except (Gone, NotSupported):
        return None
    return (title, extents) if min(extents[2:]) > 0 else None


def _place(frame: Extents, window: Window, toolkit: Toolkit) -> Place:
    x, y, width, height = frame
    box, shadow = window.box, window.shadow
    if toolkit.is_gtk(4):
        # Coordinates of GTK 4 exclude the shadow and border around the window.
        density = max(1, round((box.width - shadow.width) / width))
        rim_x = (box.width - shadow.width - width * density) // 2
        rim_y = (box.height - shadow.height - height * density) // 2
        return Place((0, 0), (box.x + shadow.x + rim_x, box.y + shadow.y + rim_y), float(density))
    across, down = box.width / width, box.height / height
    if not _LEAST_DENSITY <= across <= _MOST_DENSITY:
        return Place()
    if abs(across - down) * height <= across + 1:
        return Place((x, y), (box.x, box.y), across)
    if toolkit.is_gtk(3):
        # A GTK 3 frame includes the window manager's borders, so it is slightly larger than its window.
        return Place(density=float(max(1, round(across))))
    return Place()

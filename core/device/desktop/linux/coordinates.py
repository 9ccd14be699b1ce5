"""Where on the screen a program's controls are: toolkits tell places in coordinates of their own.

On a dense screen GTK 3 and Qt tell places in pixels of an ordinary one, and GTK 4 knows only places inside
its window. The X server knows where the windows really are, and a frame is as wide as its window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor

from core.device.desktop.interface import Box, Window
from core.device.desktop.linux.atspi import AccessibilityBus, Gone, NotSupported, Ref, Toolkit
from core.device.desktop.linux.atspi_constants import ACCESSIBLE, COMPONENT, NULL, ROOT

Extents = tuple[int, int, int, int]
# Counted from the corner of the screen, and from that of the window that a control is in.
_OF_SCREEN, _OF_WINDOW = 0, 1
# What toolkits tell for what has no place now.
_NOWHERE = -(1 << 31)
_MOST_FRAMES = 40
_LEVELS = 60
_LEAST_DENSITY, _MOST_DENSITY = 1.1, 8.0


@dataclass(frozen=True, slots=True)
class Place:
    """How coordinates that a program tells lead to the screen: a corner known in both, and the density."""

    told: tuple[int, int] = (0, 0)
    real: tuple[int, int] = (0, 0)
    density: float = 1.0

    def on_screen(self, extents: Extents | None) -> Box | None:
        """The pixels that extents have any share in; None where they are no place."""
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
    """How to read places: `place` is None where they lead to no pixel that could be told."""

    coordinates: int = _OF_SCREEN
    place: Place | None = Place()
    # GTK 4 does not say of anything but windows that it is showing.
    tells_showing: bool = True


@dataclass(frozen=True, slots=True)
class Frame:
    """A window as its program tells of it, and the windows on the screen that it may be."""

    ref: Ref
    windows: tuple[str, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Home:
    """The program whose windows a control is in, and which of its frames it is in."""

    root: Ref
    top: Ref | None = None


@dataclass(slots=True)
class Places:
    """A program's frames."""

    inside_window: bool = False
    process_id: int | None = None
    frames: list[Frame] = field(default_factory=list)

    def of(self, frame: Frame | None) -> Where:
        """How to read places of what is in a frame; in any frame for None."""
        found = self._all() if frame is None else frame.places
        place = found[0] if len(found) == 1 else None
        return Where(self._coordinates, place, not self.inside_window)

    def frame(self, ref: Ref | None) -> Frame | None:
        """The frame with a reference."""
        return next((one for one in self.frames if one.ref == ref), None)

    async def boxes(self, bus: AccessibilityBus, ref: Ref) -> list[Box]:
        """Everywhere that a control may be: for what must be hidden whichever it is.

        Raises:
            Silent: its program hangs.
            Gone: it is not there.
            NotSupported: it tells no place.
        """
        extents = await extents_of(bus, ref, self._coordinates)
        found = (place.on_screen(extents) for place in self._all())
        return [box for box in dict.fromkeys(found) if box is not None]

    @property
    def _coordinates(self) -> int:
        return _OF_WINDOW if self.inside_window else _OF_SCREEN

    def _all(self) -> tuple[Place, ...]:
        found = tuple(dict.fromkeys(place for frame in self.frames for place in frame.places))
        return found if found or self.inside_window else (Place(),)


async def extents_of(bus: AccessibilityBus, ref: Ref, coordinates: int) -> Extents:
    """What a control tells of its place.

    Raises:
        Silent: its program hangs.
        Gone: it is not there.
        NotSupported: it tells none.
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
    """How a program's coordinates lead to the screen that shows `windows`.

    What is in `titles` is not asked for.

    Raises:
        Silent: the program hangs.
        Gone: it is not there.
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
        # A program in a container has another number outside, so its windows are known by their titles only.
        fitting = [window for window in own or windows if window.title == title] or own
        fitting = [window for window in fitting if window.box == Box(*extents)] or fitting
        found = tuple(dict.fromkeys(_place(extents, window, toolkit) for window in fitting))
        if not found and not places.inside_window:
            found = (Place(),)
        places.frames.append(Frame(ref, tuple(window.id for window in fitting), found))
    return places


async def home_of(bus: AccessibilityBus, ref: Ref) -> Home:
    """Find what a control is in. A web page's controls are another program's than the window around them.

    Raises:
        Silent: its program hangs.
        Gone: it is not there.
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
            break
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
        # Its window has a shadow and a rim around it that its coordinates do not count.
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
        # Its frame counts the manager's borders, so that it is a little larger than its window.
        return Place(density=float(max(1, round(across))))
    return Place()

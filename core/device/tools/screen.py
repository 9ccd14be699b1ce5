"""The tool `screenshot`: takes pictures of the screen, with secret fields blacked out."""

from __future__ import annotations

import io
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any

import mss
import mss.exception

from core.device.desktop.interface import Box, Desktop, Hidden, Layer, monitors_now, stale
from core.device.desktop.thread_worker import OneThread, bounded
from core.device.desktop.ui_tools import window_as_dict
from core.device.observations import Observation
from core.device.tool import OBSERVES, Tool, ToolCall, Unavailable, number, object_schema, text, whole_number
from core.device.tool_context import ToolContext
from core.device.tools.ui import WINDOW_ROW
from core.errors import BadInput, DeviceError, ErrorCode
from core.text import sentences

if TYPE_CHECKING:
    from PIL import Image

_MEDIA = {"png": "image/png", "webp": "image/webp", "jpeg": "image/jpeg"}
# The encoders' defaults take three times as long and save a tenth of the size.
_EFFORT: dict[str, dict[str, int]] = {
    "png": {"compress_level": 3},
    "webp": {"quality": 85, "method": 1},
    "jpeg": {"quality": 85},
}
# Bytes of a result in addition to the picture.
_ENVELOPE_BYTES = 1024
# How long a picture is retaken when the areas to redact changed while it was taken.
_RETAKE_S = 2.0
# Time limits, because calls into the display library hang with the display.
_GRAB_S, _LOOK_S = 10.0, 2.0
_RECTANGLE = {
    "x": whole_number("Left edge, from the monitor's left.", minimum=0),
    "y": whole_number("Top edge, from the monitor's top.", minimum=0),
    "width": whole_number("Pixels.", minimum=1),
    "height": whole_number("Pixels.", minimum=1),
}
_PLACE = whole_number("On the whole desktop.")
_PART = object_schema(_RECTANGLE)
_WISHES = object_schema(
    {
        "region": {
            "oneOf": [{"const": "fullscreen"}, _PART, {"type": "string", "pattern": "^window:.+$"}],
            "default": "fullscreen",
            "description": "One of: fullscreen, {x, y, width, height}, window:<id>",
        },
        "monitor": whole_number("1 is the first; 0 all together.", minimum=0, default=1),
        "format": {"enum": list(_MEDIA), "default": "png", "description": "Encoding."},
        "max_width": whole_number("Wider pictures are made smaller.", minimum=16, maximum=16_384),
    },
    required=(),
)
_ANSWER = object_schema(
    {
        "image": object_schema(
            {
                "media_type": {"enum": list(_MEDIA.values())},
                "data_base64": text("The picture.", contentEncoding="base64"),
            }
        ),
        "width": whole_number("Pixels of the picture."),
        "height": whole_number("Pixels of the picture."),
        "scale": number("Picture pixels for each screen pixel."),
        "monitor": whole_number("The monitor."),
        "taken_at": text("ISO 8601."),
        "screen_box": object_schema({**_RECTANGLE, "x": _PLACE, "y": _PLACE}),
        "masked": {
            "type": "array",
            "items": _PART,
            "description": "What was blacked out, in the picture's pixels.",
        },
        "not_searched": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Programs that could not be searched for what must not be seen.",
        },
        "windows": {
            "type": "array",
            "items": WINDOW_ROW,
            "description": "What is in the picture, the topmost first.",
        },
        "observation": text("Good for one click within 30 seconds."),
    }
)


@dataclass(frozen=True, slots=True)
class _Area:
    """A part of the screen and its monitor; 0 for all monitors together."""

    monitor: int
    box: Box


@dataclass(frozen=True, slots=True)
class _Wish:
    region: str | dict[str, int]
    monitor: int
    format: str
    max_width: int | None


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """The tool `screenshot`, if the screen of this machine can be read."""
    if missing := _why_not(workshop.desktop):
        return [], [missing]
    most = (workshop.config.limits.max_output_bytes - _ENVELOPE_BYTES) // 4 * 3

    async def screenshot(call: ToolCall) -> dict[str, Any]:
        wish = _Wish(
            region=call.arguments.get("region", "fullscreen"),
            monitor=int(call.arguments.get("monitor", 1)),
            format=call.arguments.get("format", "png"),
            max_width=call.arguments.get("max_width"),
        )
        window = await _window_box(workshop.desktop, wish.region)
        eyes = OneThread("screen", "The screen")
        try:
            area = await eyes.run(_area, wish, window, seconds=_GRAB_S)
            layers = await _layers(workshop.desktop)
            picture, taken_at, hidden = await _take(workshop.desktop, eyes, area)
        finally:
            eyes.abandon()
        encoded, size, masked = await workshop.in_thread(_encode, picture, area, hidden.boxes, wish)
        if len(encoded) > most:
            raise DeviceError(
                f"The picture has {len(encoded)} bytes, more than the {most} this device sends; "
                "ask for jpeg, or a smaller max_width.",
                ErrorCode.TOO_LARGE,
            )
        box = area.box
        shown = Observation(area.monitor, box.x, box.y, box.width, box.height, *size, layers)
        return {
            "image": {"media_type": _MEDIA[wish.format], "data_bytes": encoded},
            "width": size[0],
            "height": size[1],
            "scale": shown.scale,
            "monitor": area.monitor,
            "screen_box": box.as_dict(),
            "taken_at": taken_at.isoformat(),
            "masked": [one.as_dict() for one in masked],
            "not_searched": _not_searched(hidden, box),
            "windows": await _windows_in(workshop.desktop, box),
            "observation": workshop.observations.issue(shown),
        }

    return [_tool(screenshot)], []


async def _take(desktop: Desktop, eyes: OneThread, area: _Area) -> tuple[Image.Image, datetime, Hidden]:
    """Take a picture; returns it with its time and the areas to redact."""
    until = time.monotonic() + _RETAKE_S
    # Secrets are not redacted over the windows that cover them, unless one moved meanwhile. The windows are
    # read first of all as well: one that was there during a whole search has been drawn.
    stacking = await desktop.stacking()
    before = await desktop.hidden()
    while True:
        just_before = await desktop.stacking() if before.boxes else stacking
        picture = await eyes.run(_grab, area, seconds=_GRAB_S)
        taken_at = datetime.now(UTC)
        just_after = await desktop.stacking() if before.boxes else just_before
        is_still = stacking == just_before == just_after
        # A secret field may appear or move while the picture is taken, so the areas are read again.
        after = await desktop.hidden()
        is_late = time.monotonic() > until
        if set(before.boxes) == set(after.boxes) and (is_still or is_late):
            is_certain = is_still and before.owners == after.owners
            after.answering &= before.answering
            after.boxes = after.visible(stacking if is_certain else None)
            return picture, taken_at, after
        if is_late:
            # A field keeps moving: redact its old and new areas and everything between them.
            moving = set(before.boxes) ^ set(after.boxes)
            after.boxes.extend((*before.boxes, _around(list(moving))))
            return picture, taken_at, after
        before, stacking = after, just_after


def _not_searched(hidden: Hidden, area: Box) -> list[str]:
    """The programs in an area that could not be searched for secret fields."""
    blank = (one.process_name or one.title for one in hidden.blank if area.shared_with(one.box))
    return [name for name in dict.fromkeys((*hidden.not_searched, *blank)) if name]


def _tool(run: Any) -> Tool:
    return Tool(
        name="screenshot",
        title="Take a picture of the screen",
        tool_type="data_collection",
        description="A picture of a monitor or a part of it, with a ref that a click on it must name.",
        input_schema=_WISHES,
        output_schema=_ANSWER,
        contract=OBSERVES,
        run=run,
    )


def _why_not(desktop: Desktop) -> Unavailable | None:
    if sys.platform == "linux" and (lack := desktop.lack("windows")):
        return Unavailable("screenshot", lack.reason, lack.how_to_fix)
    try:
        if bounded("screen", monitors_now, _LOOK_S):
            return None
    except TimeoutError:
        return Unavailable("screenshot", "The display does not answer", "Start the graphical session again")
    except DeviceError as error:
        return Unavailable(
            "screenshot",
            f"The display cannot be opened: {error.message}",
            "Check DISPLAY and its access rights; the device client looks again every half minute",
        )
    return Unavailable("screenshot", "The display has no monitor", "Connect a monitor")


async def _window_box(desktop: Desktop, region: str | dict[str, int]) -> Box | None:
    if not isinstance(region, str) or region == "fullscreen":
        return None
    window_id = region.removeprefix("window:")
    window = next((one for one in await desktop.windows() if one.id == window_id), None)
    if window is None:
        raise stale(f"The window {window_id[:60]}")
    if not window.visible:
        raise BadInput(f"The window {window_id} is not shown, so there is no picture of it.")
    return window.box


async def _windows_in(desktop: Desktop, area: Box) -> list[dict[str, Any]]:
    try:
        found = await desktop.windows()
    except Exception:  # noqa: BLE001 — a picture is useful without its windows, whatever keeps them away
        return []
    return [window_as_dict(one) for one in reversed(found) if one.visible and area.shared_with(one.box)]


async def _layers(desktop: Desktop) -> tuple[Layer, ...]:
    try:
        return tuple(await desktop.layers())
    except Exception:  # noqa: BLE001 — nor do layers matter to a picture, though a click on it needs them
        return ()


def _area(wish: _Wish, window: Box | None) -> _Area:
    monitors = monitors_now()
    if window is not None:
        whole = _around(monitors)
        shown = window.shared_with(whole)
        if shown is None:
            raise BadInput("The window is outside the screen, so there is no picture of it.")
        centre = shown.centre
        return _Area(next((n for n, one in enumerate(monitors, 1) if one.holds(*centre)), 0), shown)
    if wish.monitor > len(monitors):
        allowed = ", ".join(str(index) for index in range(len(monitors) + 1))
        raise BadInput(f"Unknown monitor: {wish.monitor}. One of: {allowed}.")
    box = monitors[wish.monitor - 1] if wish.monitor else _around(monitors)
    if isinstance(wish.region, dict):
        part = Box(*(int(wish.region[key]) for key in ("x", "y", "width", "height")))
        if part.x + part.width > box.width or part.y + part.height > box.height:
            raise BadInput(f"The region leaves the monitor, which is {box.width} × {box.height} pixels.")
        box = Box(box.x + part.x, box.y + part.y, part.width, part.height)
    return _Area(wish.monitor, box)


def _around(boxes: list[Box]) -> Box:
    left, top = min(one.x for one in boxes), min(one.y for one in boxes)
    right, bottom = max(one.x + one.width for one in boxes), max(one.y + one.height for one in boxes)
    return Box(left, top, right - left, bottom - top)


def _grab(area: _Area) -> Image.Image:
    # Imported here, because it takes a tenth of the client's start-up and most devices never take a picture.
    from PIL import Image

    box = area.box
    try:
        with mss.MSS() as screen:
            shot = screen.grab({"left": box.x, "top": box.y, "width": box.width, "height": box.height})
    except (mss.exception.ScreenShotError, OSError) as error:
        raise DeviceError(sentences(f"The screen cannot be read: {error}"), ErrorCode.TOOL_FAILED) from error
    return Image.frombytes("RGB", (shot.width, shot.height), bytes(shot.bgra), "raw", "BGRX")


def _encode(
    picture: Image.Image, area: _Area, hidden: list[Box], wish: _Wish
) -> tuple[bytes, tuple[int, int], list[Box]]:
    """The encoded picture with hidden areas blacked out, its size, and these areas in picture pixels."""
    from PIL import Image, ImageDraw

    # On some systems a picture has more pixels than the screen has points.
    dense_x, dense_y = picture.width / area.box.width, picture.height / area.box.height
    inside = [part for one in dict.fromkeys(hidden) if (part := one.shared_with(area.box))]
    black = ImageDraw.Draw(picture)
    for part in inside:
        left, top = (part.x - area.box.x) * dense_x, (part.y - area.box.y) * dense_y
        black.rectangle(
            (int(left), int(top), ceil(left + part.width * dense_x), ceil(top + part.height * dense_y)),
            "#000000",
        )
    if wish.max_width is not None and picture.width > wish.max_width:
        height = max(1, round(picture.height * wish.max_width / picture.width))
        # reducing_gap lets whole pixels be skipped first: a third of the time, no visible difference.
        picture = picture.resize((int(wish.max_width), height), Image.Resampling.LANCZOS, reducing_gap=2.0)
    buffer = io.BytesIO()
    picture.save(buffer, wish.format.upper(), **_EFFORT[wish.format])
    across, down = picture.width / area.box.width, picture.height / area.box.height
    masked = [_in_picture(part, area.box, across, down) for part in inside]
    return buffer.getvalue(), picture.size, masked


def _in_picture(part: Box, area: Box, across: float, down: float) -> Box:
    """The pixels of the picture that a part of the screen touches."""
    left, top = int((part.x - area.x) * across), int((part.y - area.y) * down)
    right, bottom = (
        ceil((part.x + part.width - area.x) * across),
        ceil((part.y + part.height - area.y) * down),
    )
    return Box(left, top, right - left, bottom - top)

"""Pictures of the screen."""

from __future__ import annotations

import base64
import io
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import mss
import mss.exception
from PIL import Image

from core.device.observations import Observation
from core.device.tool import (
    OBSERVES,
    Tool,
    ToolCall,
    Unavailable,
    Workshop,
    number,
    object_schema,
    text,
    whole_number,
)
from core.errors import BadInput, DeviceError, ErrorCode

_MEDIA = {"png": "image/png", "webp": "image/webp", "jpeg": "image/jpeg"}
# The rest of a result beside the picture.
_ENVELOPE_BYTES = 1024
_RECTANGLE = {
    "x": whole_number("Left edge, from the monitor's left.", minimum=0),
    "y": whole_number("Top edge, from the monitor's top.", minimum=0),
    "width": whole_number("Pixels.", minimum=1),
    "height": whole_number("Pixels.", minimum=1),
}


@dataclass(frozen=True, slots=True)
class _Wish:
    region: str | dict[str, int]
    monitor: int
    format: str
    max_width: int | None


def offer(workshop: Workshop) -> tuple[list[Tool], list[Unavailable]]:
    """`screenshot`, where a picture can really be taken."""
    if missing := _why_not():
        return [], [missing]

    async def screenshot(call: ToolCall) -> dict[str, Any]:
        wish = _Wish(
            region=call.arguments.get("region", "fullscreen"),
            monitor=int(call.arguments.get("monitor", 1)),
            format=call.arguments.get("format", "png"),
            max_width=call.arguments.get("max_width"),
        )
        if isinstance(wish.region, str) and wish.region != "fullscreen":
            raise BadInput(
                f"This device cannot take a picture of one window ({wish.region}). "
                "One of: fullscreen, {x, y, width, height}"
            )
        picture, seen = await workshop.in_thread(_grab, wish)
        encoded, size = await workshop.in_thread(_encode, picture, wish)
        most = (workshop.config.limits.max_output_bytes - _ENVELOPE_BYTES) // 4 * 3
        if len(encoded) > most:
            raise DeviceError(
                f"The picture has {len(encoded)} bytes, more than the {most} this device sends; "
                "ask for jpeg, or a smaller max_width",
                ErrorCode.TOO_LARGE,
            )
        scale = size[0] / seen.width
        shown = Observation(wish.monitor, seen.left, seen.top, seen.width, seen.height, scale)
        return {
            "image": {
                "media_type": _MEDIA[wish.format],
                "data_base64": base64.b64encode(encoded).decode("ascii"),
            },
            "width": size[0],
            "height": size[1],
            "scale": scale,
            "monitor": wish.monitor,
            "taken_at": datetime.now(UTC).isoformat(),
            "masked": [],
            "observation": workshop.observations.issue(shown),
        }

    return [_tool(screenshot)], []


def _tool(run: Any) -> Tool:
    rectangle = object_schema(_RECTANGLE)
    return Tool(
        name="screenshot",
        title="Take a picture of the screen",
        tool_type="data_collection",
        description="A picture of a monitor or a part of it, with a ref that a click on it must name.",
        input_schema=object_schema(
            {
                "region": {
                    "oneOf": [
                        {"const": "fullscreen"},
                        rectangle,
                        {"type": "string", "pattern": "^window:.+$"},
                    ],
                    "default": "fullscreen",
                    "description": "One of: fullscreen, {x, y, width, height}, window:<id>",
                },
                "monitor": whole_number("1 is the first; 0 all together.", minimum=0, default=1),
                "format": {"enum": list(_MEDIA), "default": "png", "description": "Encoding."},
                "max_width": whole_number("Wider pictures are made smaller.", minimum=16, maximum=16_384),
            },
            required=(),
        ),
        output_schema=object_schema(
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
                "masked": {"type": "array", "items": rectangle, "description": "What was blacked out."},
                "observation": text("Good for one click within 30 seconds."),
            }
        ),
        contract=OBSERVES,
        run=run,
    )


def _why_not() -> Unavailable | None:
    if sys.platform == "linux":
        if os.environ.get("XDG_SESSION_TYPE") == "wayland" or (
            os.environ.get("WAYLAND_DISPLAY") and not os.environ.get("DISPLAY")
        ):
            return Unavailable(
                "screenshot",
                "This session runs on Wayland, where a program cannot read the screen",
                "Log in to an X11 session",
            )
        if not os.environ.get("DISPLAY"):
            return Unavailable(
                "screenshot",
                "There is no display: DISPLAY is not set",
                "Start the device client inside a graphical session, or under xvfb-run",
            )
    try:
        with mss.MSS() as screen:
            if len(screen.monitors) > 1:
                return None
    except (mss.exception.ScreenShotError, OSError) as error:
        return Unavailable(
            "screenshot",
            f"The display cannot be opened: {error}",
            "Check DISPLAY and its access rights, then restart the device client",
        )
    return Unavailable("screenshot", "The display has no monitor", "Connect a monitor")


def _grab(wish: _Wish) -> tuple[Image.Image, Observation]:
    try:
        with mss.MSS() as screen:
            if wish.monitor >= len(screen.monitors):
                allowed = ", ".join(str(index) for index in range(len(screen.monitors)))
                raise BadInput(f"Unknown monitor: {wish.monitor}. One of: {allowed}")
            whole = screen.monitors[wish.monitor]
            left, top, width, height = (whole[key] for key in ("left", "top", "width", "height"))
            if isinstance(wish.region, dict):
                x, y = int(wish.region["x"]), int(wish.region["y"])
                wanted_width, wanted_height = int(wish.region["width"]), int(wish.region["height"])
                if x + wanted_width > width or y + wanted_height > height:
                    raise BadInput(f"The region leaves the monitor, which is {width} × {height} pixels")
                left, top, width, height = left + x, top + y, wanted_width, wanted_height
            shot = screen.grab({"left": left, "top": top, "width": width, "height": height})
    except mss.exception.ScreenShotError as error:
        raise DeviceError(f"The screen cannot be read: {error}", ErrorCode.TOOL_FAILED) from error
    picture = Image.frombytes("RGB", (shot.width, shot.height), bytes(shot.bgra), "raw", "BGRX")
    return picture, Observation(wish.monitor, left, top, width, height, 1.0)


def _encode(picture: Image.Image, wish: _Wish) -> tuple[bytes, tuple[int, int]]:
    if wish.max_width is not None and picture.width > wish.max_width:
        height = max(1, round(picture.height * wish.max_width / picture.width))
        picture = picture.resize((int(wish.max_width), height), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    # PNG's default effort costs three times the time for a tenth of the size.
    more: dict[str, Any] = {"compress_level": 3} if wish.format == "png" else {"quality": 85}
    picture.save(buffer, wish.format.upper(), **more)
    return buffer.getvalue(), picture.size

"""Checks whether an action's target still looks as it did on the approval card. Pure, except
`ScreenshotCache`.

An operator approves a click on the target that the card shows. If that region has changed since, nothing is
sent. A blinking caret is not a change, and neither is a change elsewhere on the screen.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from math import ceil, floor
from typing import Any

from core.approvals.preview_models import Region
from core.commands.request import CommandRequest, Purpose
from core.commands.results import CommandResult, Evidence
from core.dispatch.result_sanitizer import MOST_PIXELS, PICTURE_TYPES
from core.errors import BadInput
from core.models.frozen import FrozenModel
from core.models.tool_names import SCREENSHOT
from core.policy.analysis.built_in_tools import SCREEN_TARGETS, ScreenTarget
from core.text import sentences, shorten_middle

# Width and height of the compared region around a point, in pixels of the picture.
AROUND_POINT = 64

_MOST_REMEMBERED = 64
# The largest plausible screen coordinate, in pixels.
_LARGEST_COORDINATE = 1_000_000
_TILE = 8
# A caret is a narrow upright bar; letters, edges and dialogs are wider. In pixels at scale 1.
_CARET_WIDTH = 3
_CARET_HEIGHT = 48
# Tolerated difference, of 255. Lossy compression never gives the same pixels twice near an edge.
_NOISE = {"PNG": 8, "WEBP": 48, "JPEG": 48}


@dataclass(frozen=True, slots=True)
class Screenshot:
    """A picture taken through the dispatcher. `parameters` take the same part of the screen again.

    `left`, `top` and `scale` map its pixels to the screen.
    """

    blob: str
    parameters: dict[str, Any] = field(default_factory=dict)
    evidence: Evidence | None = None
    left: int = 0
    top: int = 0
    scale: float = 1.0

    def in_picture(self, box: Any) -> Region | None:
        """Convert a box on the screen to the picture's pixels; None if it is not a valid box."""
        try:
            x, y, width, height = (float(box[key]) for key in ("x", "y", "width", "height"))
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        if (
            not all(abs(edge) <= _LARGEST_COORDINATE for edge in (x, y, width, height))
            or width <= 0
            or height <= 0
        ):
            # Impossible screen coordinates from the device.
            return None
        left, top = floor((x - self.left) * self.scale), floor((y - self.top) * self.scale)
        right, bottom = ceil((x + width - self.left) * self.scale), ceil((y + height - self.top) * self.scale)
        return Region(x=left, y=top, width=right - left, height=bottom - top)

    def shown_part(self, box: Any) -> Region | None:
        """The part of a box on the screen that the picture shows, in its pixels; None if it shows none."""
        region = self.in_picture(box)
        width, height = (self.evidence.width, self.evidence.height) if self.evidence else (None, None)
        if region is None or width is None or height is None:
            return None
        left, top = max(0, region.x), max(0, region.y)
        right, bottom = min(width, region.x + region.width), min(height, region.y + region.height)
        if right <= left or bottom <= top:
            return None
        return Region(x=left, y=top, width=right - left, height=bottom - top)


class Freshness(FrozenModel):
    """The comparison of a target with the card: `tiles` of the `of` tiles in `region` have changed."""

    fresh: bool
    region: Region
    tiles: int = 0
    of: int = 0
    why: str = ""


class ScreenshotCache:
    """The pictures that a click can still reference."""

    def __init__(self) -> None:
        self._by_ref: OrderedDict[tuple[str, str], Screenshot] = OrderedDict()

    def note(self, request: CommandRequest, result: CommandResult) -> None:
        """Remember a returned picture that a click may reference.

        A glimpse is ignored: it is too small to compare with. So is a picture for another command, whose
        reference is shown to no caller.
        """
        if request.tool != SCREENSHOT or request.purpose is Purpose.LIVE_VIEW or request.evidence_for:
            return
        screenshot = screenshot_in(request, result)
        if screenshot is None:
            return
        if isinstance(result.result, dict) and isinstance(ref := result.result.get("observation"), str):
            self._by_ref[request.device, ref] = screenshot
            while len(self._by_ref) > _MOST_REMEMBERED:
                self._by_ref.popitem(last=False)

    def by_observation(self, device: str, ref: object) -> Screenshot | None:
        """The picture with this observation reference; None if it is not remembered."""
        return self._by_ref.get((device, ref)) if isinstance(ref, str) else None


def screenshot_in(request: CommandRequest, result: CommandResult) -> Screenshot | None:
    """The picture in a request's result; None if there is none."""
    picture = next((evidence for evidence in result.evidence if evidence.what == "picture"), None)
    if picture is None:
        return None
    body = result.result if isinstance(result.result, dict) else {}
    return with_screen_position(Screenshot(picture.blob, request.parameters, picture), body)


def with_screen_position(picture: Screenshot, result: dict[str, Any]) -> Screenshot:
    """A picture, with its place on the screen as the result of `screenshot` tells it."""
    box, scale = result.get("screen_box"), result.get("scale")
    area = box if isinstance(box, dict) else {}
    left, top, screen_width = area.get("x", 0), area.get("y", 0), area.get("width")
    is_plausible = all(isinstance(edge, int) and abs(edge) <= _LARGEST_COORDINATE for edge in (left, top))
    if isinstance(width := result.get("width"), int) and isinstance(screen_width, int) and screen_width > 0:
        scale = width / screen_width
    return replace(
        picture,
        left=left if is_plausible else 0,
        top=top if is_plausible else 0,
        scale=float(scale) if isinstance(scale, (int, float)) and 0.01 < scale < 100 else 1.0,
    )


def has_screen_target(tool: str, parameters: dict[str, Any]) -> bool:
    """Whether a call has a target on the screen."""
    target = SCREEN_TARGETS.get(tool)
    if target is ScreenTarget.CONTROL_IF_NAMED:
        return "control_id" in parameters
    return target in (ScreenTarget.POINT, ScreenTarget.CONTROL)


def targets_point(tool: str) -> bool:
    """Whether a call's target is a pixel of a picture that it names."""
    return SCREEN_TARGETS.get(tool) is ScreenTarget.POINT


def around_point(parameters: dict[str, Any]) -> Region | None:
    """The region around a click's point; None if the call names no point."""
    x, y = parameters.get("x"), parameters.get("y")
    if not isinstance(x, (int, float)) or not isinstance(y, (int, float)):
        return None
    half = AROUND_POINT // 2
    return Region(x=int(x) - half, y=int(y) - half, width=AROUND_POINT, height=AROUND_POINT)


def compare(card: bytes, now: bytes, region: Region, scale: float = 1.0) -> Freshness:
    """Compare one region of two pictures, in tiles of 8 × 8 pixels. Decodes pictures: run it in a thread.

    `scale`: pixels of the picture per pixel of the screen.

    Raises:
        BadInput: a picture cannot be read, or the region is outside it.
    """
    from PIL import ImageChops

    old, noise_then = _decoded(card)
    new, noise_now = _decoded(now)
    if old.size != new.size:
        why = f"the screen was {old.width} × {old.height} pixels and is {new.width} × {new.height}"
        return Freshness(fresh=False, region=region, why=why)
    left, top = max(0, region.x), max(0, region.y)
    right, bottom = min(old.width, region.x + region.width), min(old.height, region.y + region.height)
    if right <= left or bottom <= top:
        raise BadInput("What it aims at is outside the picture.")
    box = (left, top, right, bottom)
    compared = Region(x=left, y=top, width=right - left, height=bottom - top)
    noise = max(noise_then, noise_now)
    difference, *channels = ImageChops.difference(old.crop(box), new.crop(box)).split()
    for channel in channels:
        difference = ImageChops.lighter(difference, channel)
    mask = difference.point([0] * (noise + 1) + [255] * (255 - noise))
    # A tile's mean stays above 0 after rounding: one changed pixel of 64 gives 4 of 255.
    tiles = mask.reduce(_TILE).tobytes()
    changed = sum(1 for tile in tiles if tile)
    changed_box = mask.getbbox()
    if changed_box is None:
        return Freshness(fresh=True, region=compared, of=len(tiles))
    width, height = changed_box[2] - changed_box[0], changed_box[3] - changed_box[1]
    caret = width <= ceil(_CARET_WIDTH * max(1.0, scale)) and height <= _CARET_HEIGHT * max(1.0, scale)
    if caret and height >= 2 * width:
        return Freshness(fresh=True, region=compared, tiles=changed, of=len(tiles), why="a blinking caret")
    why = f"{changed} of {len(tiles)} tiles there look different"
    return Freshness(fresh=False, region=compared, tiles=changed, of=len(tiles), why=why)


def target_text(tool: str, parameters: dict[str, Any]) -> str:
    """A call's target, in words for a sentence."""
    if targets_point(tool):
        return f"({parameters.get('x')}, {parameters.get('y')})"
    return shorten_middle(str(parameters.get("name") or parameters.get("control_id") or "the control"), 60)


def _decoded(data: bytes) -> tuple[Any, int]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=list(PICTURE_TYPES)) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise BadInput("The picture is too large to be compared.")
            return picture.convert("RGB"), _NOISE[picture.format or "PNG"]
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadInput(sentences(f"The picture cannot be read: {error}")) from error

"""Compares two folders of pictures pixel by pixel."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw

ENVIRONMENT = "environment.json"
_MARGIN = 24
_GAP = 8
_BACK, _MARK = (128, 128, 128), (255, 0, 80)
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """How one picture differs.

    `box` is the rectangle that holds all differing pixels: left, top, right, bottom, the last two exclusive.
    It is None where the pictures cannot be laid over each other; `problem` says why.
    """

    name: str
    pixels: int = 0
    box: Box | None = None
    problem: str = ""

    def __str__(self) -> str:
        if self.box is None:
            return f"{self.name}: {self.problem}"
        left, top, right, bottom = self.box
        count = f"{self.pixels:,} pixel{'' if self.pixels == 1 else 's'}"
        return f"{self.name}: {count} in {right - left}×{bottom - top} at {left}, {top}"


class OtherEnvironment(Exception):
    """The two folders were drawn with other versions, fonts or looks: their pixels say nothing."""


def compare_folders(before: Path, after: Path, out: Path) -> list[Difference]:
    """Every picture that differs; where pixels do, `out` gets a picture of both sides and of the difference.

    Raises:
        OtherEnvironment: the folders were drawn in different environments.
        FileNotFoundError: a folder holds no pictures of this command.
    """
    _check_environments(before, after)
    names = sorted({path.name for folder in (before, after) for path in folder.glob("*.png")})
    return [found for name in names if (found := compare(before / name, after / name, out)) is not None]


def _check_environments(before: Path, after: Path) -> None:
    first, second = (json.loads((folder / ENVIRONMENT).read_text()) for folder in (before, after))
    others = sorted(key for key in first | second if first.get(key) != second.get(key))
    if others:
        raise OtherEnvironment(
            "; ".join(f"{key}: {first.get(key)} before, {second.get(key)} after" for key in others)
        )


def compare(before: Path, after: Path, out: Path) -> Difference | None:
    """How two pictures of one name differ; None where they are equal."""
    for path, problem in ((before, "only after"), (after, "only before")):
        if not path.exists():
            return Difference(before.name, problem=problem)
    if before.read_bytes() == after.read_bytes():
        return None
    with Image.open(before) as first, Image.open(after) as second:
        return _compare_pixels(before.name, first.convert("RGBA"), second.convert("RGBA"), out)


def _compare_pixels(name: str, before: Image.Image, after: Image.Image, out: Path) -> Difference | None:
    if before.size != after.size:
        sizes = ["×".join(map(str, image.size)) for image in (before, after)]
        return Difference(name, problem=f"{sizes[0]} pixels before, {sizes[1]} after")
    mask = differing(before, after)
    box = mask.getbbox()
    if box is None:
        return None
    out.mkdir(parents=True, exist_ok=True)
    _side_by_side(before, after, mask, box).save(out / name)
    return Difference(name, mask.histogram()[255], box)


def differing(before: Image.Image, after: Image.Image) -> Image.Image:
    """White where a pixel differs in any of its four channels, else black."""
    red, *others = ImageChops.difference(before, after).split()
    for band in others:
        red = ImageChops.lighter(red, band)
    return red.point(lambda value: 255 if value else 0)


def _side_by_side(before: Image.Image, after: Image.Image, mask: Image.Image, box: Box) -> Image.Image:
    """Before, after, and what differs marked, cut out around the rectangle of the difference."""
    width, height = before.size
    cut = (
        max(0, box[0] - _MARGIN),
        max(0, box[1] - _MARGIN),
        min(width, box[2] + _MARGIN),
        min(height, box[3] + _MARGIN),
    )
    marked = Image.blend(before.convert("RGB"), Image.new("RGB", before.size, _BACK), 0.7)
    marked.paste(_MARK, mask=mask)
    ImageDraw.Draw(marked).rectangle((box[0] - 2, box[1] - 2, box[2] + 1, box[3] + 1), outline=_MARK)
    parts = [image.convert("RGB").crop(cut) for image in (before, after, marked)]
    part_width, part_height = parts[0].size
    sheet = Image.new("RGB", (3 * part_width + 2 * _GAP, part_height), _BACK)
    for place, part in enumerate(parts):
        sheet.paste(part, (place * (part_width + _GAP), 0))
    return sheet

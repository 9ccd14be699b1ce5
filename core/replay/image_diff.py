"""Comparison of two pictures, and thumbnails: pure functions over bytes, which run in threads.

Pictures are untrusted: format, size in pixels and every decoding error are checked first.
"""

from __future__ import annotations

import io
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

from PIL import Image, ImageChops, UnidentifiedImageError
from pydantic import Field

from core.errors import BadInput
from core.models.frozen import FrozenModel

MOST_PIXELS = 80_000_000
"""Larger pictures are refused before a pixel is decoded."""

FORMATS = ("PNG", "JPEG", "WEBP")

_NOISE = 2
_LARGEST_TILE = 16
# Differences above the noise become 255 instead of 1, so that the mean over a tile does not round to 0.
_THRESHOLD = [0] * (_NOISE + 1) + [255] * (255 - _NOISE)


class Rect(FrozenModel):
    """A rectangle in the picture's pixels."""

    x: int
    y: int
    width: int
    height: int


class Changes(FrozenModel):
    """The differences between two pictures.

    `size` is the width and height of the later picture. `rects` do not overlap, cover every changed pixel and
    consist of whole tiles. `share` is the fraction of pixels that changed, 0 to 1. Pictures of different size
    (`same_size` is false) count as changed everywhere.
    """

    size: tuple[int, int]
    rects: list[Rect]
    share: float = Field(ge=0, le=1)
    same_size: bool


def changed_tiles(before: bytes, after: bytes, tile: int = 16) -> Changes:
    """Compare two pictures in tiles of `tile` pixels (1 to 16).

    A pixel has changed when one of its channels differs by more than 2 of 255. A single changed pixel makes
    its tile count.

    Raises:
        BadInput: a picture cannot be read or is too large (the message says which and why), or `tile` is out
            of bounds.
    """
    if not 1 <= tile <= _LARGEST_TILE:
        raise BadInput(f"A tile has 1 to {_LARGEST_TILE} pixels, not {tile}.")
    # The decoder releases the interpreter lock, so both pictures are decoded at the same time.
    with ThreadPoolExecutor(1, thread_name_prefix="decode") as pool:
        other = pool.submit(_decoded, before, "The picture before")
        new = _decoded(after, "The picture after")
        old = other.result()
    width, height = new.size
    if old.size != new.size:
        whole = Rect(x=0, y=0, width=width, height=height)
        return Changes(size=new.size, rects=[whole], share=1.0, same_size=False)
    if old.mode != new.mode:
        old, new = old.convert("RGBA"), new.convert("RGBA")
    difference = ImageChops.difference(old, new)
    box = _tile_box(difference, tile)
    if box is None:
        return Changes(size=(width, height), rects=[], share=0.0, same_size=True)
    mask = _mask(difference.crop(box))
    share = mask.histogram()[255] / (width * height)
    rects = _merged(mask.reduce(tile), tile, box)
    return Changes(size=(width, height), rects=rects, share=share, same_size=True)


def thumbnail(data: bytes, width: int, height: int) -> bytes:
    """Scale the picture down to fit into `width` × `height` pixels, as PNG; never enlarged or distorted.

    Raises:
        BadInput: the picture cannot be read or is too large (the message says why), or a side is below 1.
    """
    if width < 1 or height < 1:
        raise BadInput(f"A thumbnail has at least 1 × 1 pixels, not {width} × {height}.")
    picture = _decoded(data, "The picture", (width, height))
    picture.thumbnail((width, height), Image.Resampling.BOX, reducing_gap=2.0)
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=1)
    return out.getvalue()


def _decoded(data: bytes, which: str, wanted: tuple[int, int] | None = None) -> Image.Image:
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            width, height = picture.size
            if width * height > MOST_PIXELS:
                raise BadInput(f"{which} has {width} × {height} pixels; {MOST_PIXELS:,} in all are allowed.")
            if wanted:
                picture.draft("RGB", wanted)
            clear = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
            return picture.convert("RGBA" if clear else "RGB")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadInput(f"{which} is too large: {MOST_PIXELS:,} pixels are allowed.") from error
    except UnidentifiedImageError as error:
        raise BadInput(f"{which} is not a picture; allowed are {', '.join(FORMATS)}.") from error
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error) as error:
        # A broken file can make Pillow's decoders raise any of these.
        raise BadInput(f"{which} cannot be read: {error}.") from error


def _tile_box(difference: Image.Image, tile: int) -> tuple[int, int, int, int] | None:
    """The box around all differences, widened to whole tiles; most replay steps change little."""
    box = difference.getbbox(alpha_only=False)
    if box is None:
        return None
    left, top, right, bottom = box
    width, height = difference.size
    return (
        left // tile * tile,
        top // tile * tile,
        min(width, -(-right // tile) * tile),
        min(height, -(-bottom // tile) * tile),
    )


def _mask(difference: Image.Image) -> Image.Image:
    """255 where any channel differs by more than the noise, else 0."""
    first, *others = difference.split()
    for channel in others:
        first = ImageChops.lighter(first, channel)
    return first.point(_THRESHOLD)


def _merged(tiles: Image.Image, tile: int, box: tuple[int, int, int, int]) -> list[Rect]:
    """Merge changed tiles into rectangles: runs in each row, joined with an equal run in the row above."""
    columns, rows = tiles.size
    values = tiles.tobytes()
    open_runs: dict[tuple[int, int], int] = {}
    done: list[tuple[int, int, int, int]] = []
    for row in range(rows + 1):
        runs = _runs(values[row * columns : (row + 1) * columns]) if row < rows else []
        going = {run: open_runs.pop(run, row) for run in runs}
        done.extend((left, top, right, row) for (left, right), top in open_runs.items())
        open_runs = going
    rects = []
    for left, top, right, bottom in sorted(done, key=lambda one: (one[1], one[0])):
        x, y = box[0] + left * tile, box[1] + top * tile
        # The picture's edge may cut the last tiles of a row or column.
        far_x, far_y = min(box[2], box[0] + right * tile), min(box[3], box[1] + bottom * tile)
        rects.append(Rect(x=x, y=y, width=far_x - x, height=far_y - y))
    return rects


def _runs(row: bytes) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    start = None
    for column, value in enumerate(row):
        if value and start is None:
            start = column
        elif not value and start is not None:
            runs.append((start, column))
            start = None
    if start is not None:
        runs.append((start, len(row)))
    return runs

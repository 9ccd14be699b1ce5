"""What changed between two pictures, and small pictures of large ones."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from core.errors import BadInput
from core.replay.image_diff import MOST_PIXELS, Changes, Rect, changed_tiles, thumbnail
from tests.fakes.run_size import examples

GREY = (100, 100, 100)


def picture(size: tuple[int, int] = (100, 60), mode: str = "RGB") -> Image.Image:
    return Image.new(mode, size, GREY if mode == "RGB" else (*GREY, 255))


def png(image: Image.Image, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    image.save(out, kind, compress_level=1) if kind == "PNG" else image.save(out, kind)
    return out.getvalue()


def covers(changes: Changes, x: int, y: int) -> bool:
    return any(one.x <= x < one.x + one.width and one.y <= y < one.y + one.height for one in changes.rects)


def test_equal_pictures_have_no_changes() -> None:
    assert changed_tiles(png(picture()), png(picture())) == Changes(
        size=(100, 60), rects=[], share=0.0, same_size=True
    )


@pytest.mark.parametrize("place", [(0, 0), (99, 59), (15, 15), (16, 16), (50, 33)])
@pytest.mark.parametrize("channel", [0, 1, 2])
def test_a_single_pixel_that_blinks_in_one_channel_is_seen(place: tuple[int, int], channel: int) -> None:
    after = picture()
    colour = list(GREY)
    colour[channel] += 3
    after.putpixel(place, tuple(colour))
    changes = changed_tiles(png(picture()), png(after))
    assert len(changes.rects) == 1
    assert covers(changes, *place)
    assert changes.share == 1 / 6000


def test_noise_of_two_steps_is_not_a_change() -> None:
    noisy = picture()
    for x in range(100):
        for y in range(60):
            noisy.putpixel((x, y), (100 + (x % 5) - 2, 100 - (y % 3), 100 + (x * y) % 3))
    assert changed_tiles(png(picture()), png(noisy)).rects == []


def test_neighbouring_tiles_are_one_rectangle_cut_at_the_edge() -> None:
    after = picture()
    after.paste((255, 0, 0), (40, 20, 100, 60))
    changes = changed_tiles(png(picture()), png(after))
    assert changes.rects == [Rect(x=32, y=16, width=68, height=44)]
    assert changes.share == 60 * 40 / 6000


@settings(max_examples=examples(60))
@given(
    st.sets(st.tuples(st.integers(0, 69), st.integers(0, 44)), max_size=30),
    st.integers(1, 16),
    st.sampled_from(["RGB", "RGBA"]),
)
def test_rectangles_cover_exactly_the_tiles_with_changed_pixels(
    pixels: set[tuple[int, int]], tile: int, mode: str
) -> None:
    before, after = picture((70, 45), mode), picture((70, 45), mode)
    for place in pixels:
        after.putpixel(place, (0, 100, 100, 255)[: len(mode)])
    changes = changed_tiles(png(before), png(after), tile)
    tiles = {(x // tile, y // tile) for x, y in pixels}
    covered = [
        (x, y)
        for one in changes.rects
        for x in range(one.x, one.x + one.width)
        for y in range(one.y, one.y + one.height)
    ]
    assert len(covered) == len(set(covered))
    assert {(x // tile, y // tile) for x, y in covered} == tiles
    assert all(x < 70 and y < 45 for x, y in covered)
    assert len(covered) == sum((x // tile, y // tile) in tiles for x in range(70) for y in range(45))
    assert changes.share == len(pixels) / (70 * 45)


def test_a_change_of_alpha_alone_is_a_change() -> None:
    after = picture(mode="RGBA")
    after.putpixel((5, 5), (*GREY, 10))
    assert covers(changed_tiles(png(picture()), png(after)), 5, 5)


def test_pictures_of_different_size_differ_everywhere() -> None:
    changes = changed_tiles(png(picture()), png(picture((50, 40))))
    assert changes == Changes(
        size=(50, 40), rects=[Rect(x=0, y=0, width=50, height=40)], share=1.0, same_size=False
    )


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_the_three_formats_of_screenshots_are_read(kind: str) -> None:
    assert changed_tiles(png(picture(), kind), png(picture(), kind)).rects == []
    assert Image.open(io.BytesIO(thumbnail(png(picture(), kind), 10, 10))).size == (10, 6)


def bomb(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a picture; allowed are PNG, JPEG, WEBP"),
        (b"hello", "not a picture"),
        (png(picture())[:60], "cannot be read"),
        (png(picture())[:20], "not a picture|cannot be read"),
        (png(picture(), "GIF"), "not a picture"),
        (bomb(100, 100), "cannot be read"),
        (bomb(9000, 9000), "pixels"),
        (bomb(10_000, 9000), "pixels"),
        (bomb(60_000, 60_000), "too large"),
    ],
)
def test_what_is_not_a_usable_picture_is_refused_with_the_reason(data: bytes, says: str) -> None:
    good = png(picture())
    with pytest.raises(BadInput, match=f"The picture after.*(?:{says})"):
        changed_tiles(good, data)
    with pytest.raises(BadInput, match="The picture before"):
        changed_tiles(data, good)
    with pytest.raises(BadInput):
        thumbnail(data, 10, 10)


@settings(max_examples=examples(150))
@given(st.data())
def test_damaged_pictures_are_refused_or_read_but_never_crash(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "WEBP"]))
    broken = bytearray(png(picture((20, 12)), kind))
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(broken) - 1), st.integers(0, 255)), max_size=4)
    ):
        broken[place] = value
    try:
        size = changed_tiles(png(picture((20, 12))), bytes(broken)).size
    except BadInput:
        return
    assert size[0] * size[1] <= MOST_PIXELS


@pytest.mark.parametrize("tile", [0, -1, 17])
def test_a_tile_that_cannot_be_is_refused(tile: int) -> None:
    with pytest.raises(BadInput, match="1 to 16"):
        changed_tiles(png(picture()), png(picture()), tile)


def test_a_thumbnail_fits_keeps_its_shape_and_is_never_enlarged() -> None:
    assert Image.open(io.BytesIO(thumbnail(png(picture((400, 100))), 80, 80))).size == (80, 20)
    assert Image.open(io.BytesIO(thumbnail(png(picture()), 800, 800))).size == (100, 60)
    with pytest.raises(BadInput, match="at least"):
        thumbnail(png(picture()), 0, 5)

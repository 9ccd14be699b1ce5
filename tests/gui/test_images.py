"""Pictures from devices: what is refused and why, where they are decoded, and how much of them is kept."""

from __future__ import annotations

import asyncio
import io
import re
import struct
import threading
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import pytest
from PIL import Image
from PySide6.QtCore import QObject
from PySide6.QtGui import QImage, QImageReader

import app
from app import images
from app.images import (
    DECODE_AT_ONCE,
    ENTRY_BYTES,
    MOST_ENCODED_BYTES,
    BoundedCache,
    ImageCache,
    ImageError,
    ImageFault,
    ImageKey,
    decode_image,
    images_of,
)
from app.screens.replay.images import ImagePair, ReplayImages, ScaledImage
from app.theme.theme import Theme
from core.errors import BadInput, ErrorCode, JournalCorrupt, QuarterdeckError, ServiceError
from tests.fakes.console import FakeConsole
from tests.fakes.pictures import desktop_png
from tests.fakes.window import open_frame, seen

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'


def encoded(kind: str, size: tuple[int, int] = (8, 8), shade: int = 60) -> bytes:
    """A picture in a format."""
    out = io.BytesIO()
    Image.new("RGB", size, (shade % 256, shade // 256, 80)).save(out, kind)
    return out.getvalue()


def chunk(kind: bytes, body: bytes) -> bytes:
    """A chunk of a PNG with its length and checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@lru_cache(maxsize=1)
def png_bomb(side: int) -> bytes:
    """A PNG of some kB whose rows, all of them there, unpack to `side` × `side` pixels of one bit."""
    rows = zlib.compressobj(9)
    packed = b"".join(rows.compress(bytes(1 + (side + 7) // 8)) for _ in range(side)) + rows.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


class WatchedReader(QImageReader):
    """Qt's reader, which counts the pictures that were read and keeps the threads that did."""

    reads = 0
    threads: ClassVar[set[threading.Thread]] = set()

    def read(self) -> QImage:  # type: ignore[override]
        WatchedReader.reads += 1
        WatchedReader.threads.add(threading.current_thread())
        return super().read()


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> type[WatchedReader]:
    """Watches the only reader of the window."""
    WatchedReader.reads, WatchedReader.threads = 0, set()
    monkeypatch.setattr(images, "QImageReader", WatchedReader)
    return WatchedReader


# Attacks


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        pytest.param(lambda: png_bomb(60_000), ImageFault.TOO_MANY_PIXELS, id="bomb"),
        pytest.param(SVG, ImageFault.UNKNOWN_FORMAT, id="svg"),
        pytest.param(encoded("GIF"), ImageFault.UNKNOWN_FORMAT, id="gif"),
        pytest.param(encoded("BMP"), ImageFault.UNKNOWN_FORMAT, id="bmp"),
        pytest.param(b"", ImageFault.UNKNOWN_FORMAT, id="empty"),
        pytest.param(b"no picture", ImageFault.UNKNOWN_FORMAT, id="text"),
        pytest.param(bytes(MOST_ENCODED_BYTES + 1), ImageFault.TOO_MANY_BYTES, id="bytes"),
    ],
)
@pytest.mark.parametrize("width", [None, 320])
def test_what_is_not_a_picture_of_a_known_kind_and_size_is_refused_before_a_pixel_is_decoded(
    data: bytes | Callable[[], bytes], fault: ImageFault, width: int | None, reader: type[WatchedReader]
) -> None:
    # The bomb is made when it is wanted: it takes a second.
    picture = data if isinstance(data, bytes) else data()
    with pytest.raises(ImageError) as caught:
        decode_image(picture, width)
    assert (caught.value.fault, caught.value.message) == (fault, fault.value)
    assert reader.reads == 0


@pytest.mark.qt_log_ignore("Corrupt JPEG data: premature end of data segment")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_picture_is_refused_or_shown_in_part_and_never_larger_than_it_says(
    kind: str, share: float
) -> None:
    noise = Image.effect_noise((200, 120), 60).convert("RGB")
    out = io.BytesIO()
    noise.save(out, kind)
    whole = out.getvalue()
    try:
        image = decode_image(whole[: int(len(whole) * share)])
    except ImageError:
        return
    assert (image.width(), image.height()) == (200, 120)


def test_a_truncated_png_is_damaged() -> None:
    with pytest.raises(ImageError) as caught:
        decode_image(desktop_png("x")[:200])
    assert caught.value.fault is ImageFault.DAMAGED


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_the_known_formats_are_decoded_to_the_width_that_is_wanted(kind: str) -> None:
    assert decode_image(encoded(kind, (640, 400))).width() == 640
    small = decode_image(encoded(kind, (640, 400)), 320)
    assert (small.width(), small.height()) == (320, 200)


# The cache


def test_the_cache_keeps_what_was_used_last_within_its_weight() -> None:
    cache: BoundedCache[str, int] = BoundedCache(10)
    for number, key in enumerate("abc"):
        cache.put(key, number, 4)
    assert [key for key, _ in cache.items()] == ["b", "c"]
    assert cache.get("b") == 1
    cache.put("d", 3, 4)
    assert ("c" in cache, cache.weight) == (False, 8)
    cache.put("d", 4, 5)
    assert (cache.get("d"), cache.weight, len(cache)) == (4, 9, 2)
    cache.put("heavy", 5, 99)
    assert [key for key, _ in cache.items()] == ["heavy"], "the newest stays"
    cache.drop(["heavy", "gone"])
    assert (len(cache), cache.weight) == (0, 0)


async def test_thousands_of_small_pictures_do_not_fill_the_memory(theme: Theme, tmp_path: Path) -> None:
    most = 256 * ENTRY_BYTES

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        cache = ImageCache(desk.link, most)
        for number in range(3000):
            await cache.decode(ImageKey(f"{number:064x}"), encoded("PNG", (1, 1), number))
            assert cache.kept_bytes <= most
        assert len(cache.kept_keys()) < 256
        assert cache.get(ImageKey(f"{2999:064x}")) is not None
        for number in range(3000):
            with pytest.raises(ImageError):
                await cache.decode(ImageKey(f"{number:064x}"), b"bad")
        assert cache.kept_bytes <= most, "reasons weigh something too"


async def test_a_window_has_one_cache(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        assert images_of(desk.link) is images_of(desk.link)


class Answers:
    """Collects what one owner is told."""

    def __init__(self, cache: ImageCache, parent: QObject) -> None:
        self.cache, self.owner = cache, QObject(parent)
        self.shown: list[QImage] = []
        self.failed: list[QuarterdeckError] = []

    def want(self, blob: str) -> None:
        """Want a picture."""
        self.cache.want(self.owner, blob, self.shown.append, self.failed.append)


async def test_a_picture_that_several_want_is_fetched_and_decoded_once(
    theme: Theme, tmp_path: Path, reader: type[WatchedReader]
) -> None:
    console = FakeConsole()
    blob = console.fake_journal.add_blob(encoded("PNG"))

    async with open_frame(theme, tmp_path, console) as desk:
        cache = images_of(desk.link)
        several = [Answers(cache, desk.window) for _ in range(5)]
        for answers in several:
            answers.want(blob)
            answers.want(blob)
        await seen(lambda: all(answers.shown for answers in several))
        several[0].want(blob)
        assert [len(answers.shown) for answers in several] == [2, 1, 1, 1, 1]
        assert (console.asked.count("blob"), reader.reads) == (1, 1)


async def test_a_late_answer_to_what_is_no_longer_wanted_is_ignored(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    first = console.fake_journal.add_blob(encoded("PNG", (8, 8)))
    second = console.fake_journal.add_blob(encoded("PNG", (9, 9)))
    gate = console.hold_back("blob")

    async with open_frame(theme, tmp_path, console) as desk:
        cache = images_of(desk.link)
        moved, stayed, left, gone = (Answers(cache, desk.window) for _ in range(4))
        for answers in (moved, stayed, left, gone):
            answers.want(first)
        moved.want(second)
        cache.cancel(left.owner)
        gone.owner.setParent(None)
        gone.owner.deleteLater()
        gone_owner = asyncio.Event()
        gone.owner.destroyed.connect(gone_owner.set)
        await gone_owner.wait()
        gate.set()
        await seen(lambda: moved.shown and stayed.shown)
        assert [image.width() for image in moved.shown] == [9]
        assert [image.width() for image in stayed.shown] == [8]
        assert not any((left.shown, left.failed, gone.shown, gone.failed))


async def test_bytes_that_are_no_picture_are_fetched_once_and_a_fetch_that_failed_is_tried_again(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()
    bad = console.fake_journal.add_blob(b"not a picture")
    good = console.fake_journal.add_blob(encoded("PNG"))

    async with open_frame(theme, tmp_path, console) as desk:
        answers = Answers(images_of(desk.link), desk.window)
        answers.want(bad)
        await seen(lambda: answers.failed)
        answers.want(bad)
        assert [error.message for error in answers.failed] == [ImageFault.UNKNOWN_FORMAT.value] * 2
        assert console.asked.count("blob") == 1
        console.fail_next["blob"] = ServiceError("Not now.")
        answers.want(good)
        await seen(lambda: len(answers.failed) == 3)
        answers.want(good)
        await seen(lambda: answers.shown)


def test_a_picture_that_is_missing_or_damaged_in_the_store_has_one_text_each() -> None:
    missing = BadInput("There is no blob abc.", ErrorCode.NOT_FOUND)
    assert images.image_problem(missing) == ImageFault.MISSING
    assert images.image_problem(JournalCorrupt("The blob is not what was stored.")) == ImageFault.CORRUPT
    assert images.image_problem(ImageError(ImageFault.DAMAGED)) == ImageFault.DAMAGED
    assert images.image_problem(ServiceError("Not now.")) == "Not now."


# Threads


async def test_no_picture_is_decoded_in_the_gui_thread(
    theme: Theme, tmp_path: Path, reader: type[WatchedReader]
) -> None:
    console = FakeConsole()
    before = console.fake_journal.add_blob(desktop_png("x"))
    after = console.fake_journal.add_blob(desktop_png("y"))

    async with open_frame(theme, tmp_path, console) as desk:
        answers = Answers(images_of(desk.link), desk.window)
        answers.want(before)
        await seen(lambda: answers.shown)
        shelf = ReplayImages(desk.link, desk.window)
        small, pair = ScaledImage(after, 128, 80), ImagePair(before, after)
        shelf.want("test", [small, pair, after])
        await seen(lambda: shelf.get(small) and shelf.get(pair) and shelf.get(after))
        assert reader.reads == 3
        assert threading.main_thread() not in reader.threads


def test_nothing_else_in_the_window_decodes_bytes() -> None:
    decoders = re.compile(r"QImageReader|fromData\(|loadFromData\(|QMovie|import PIL|from PIL")
    root = Path(app.__path__[0])
    users = {str(path.relative_to(root)) for path in root.rglob("*.py") if decoders.search(path.read_text())}
    assert users == {"images.py"}


async def test_few_pictures_are_decoded_at_the_same_time(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most = 0, 0
    lock, may_end = threading.Lock(), threading.Event()

    def decode(data: bytes, width: int | None = None) -> QImage:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        assert may_end.wait(60)
        with lock:
            running -= 1
        return QImage(1, 1, QImage.Format.Format_RGB32)

    monkeypatch.setattr(images, "decode_image", decode)

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        cache = images_of(desk.link)
        decoding = asyncio.gather(*(cache.decode(ImageKey(str(number)), b"") for number in range(6)))
        await seen(lambda: running == DECODE_AT_ONCE)
        may_end.set()
        await decoding
        assert most == DECODE_AT_ONCE

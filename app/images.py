"""Pictures from devices: one set of rules for their bytes, decoded in threads, kept in one bounded cache.

Bytes from a device are untrusted. Formats, bytes and pixels are limited, and the size is read from the header
before a pixel is decoded. Nothing is decoded in the GUI thread. `images_of(link)` is the window's cache.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QObject, QSize, Qt
from PySide6.QtGui import QImage, QImageReader
from shiboken6 import isValid

from app.service_client import ConsoleLink
from core.errors import BadInput, ErrorCode, QuarterdeckError
from core.replay.image_diff import FORMATS, MOST_PIXELS
from core.service.console import Console

MOST_ENCODED_BYTES = 64 * 1024 * 1024
MOST_KEPT_BYTES = 192 * 1024 * 1024
# What an entry costs besides its pixels, so that a great many small pictures are bounded too.
ENTRY_BYTES = 4096
# A decoded picture may have `MOST_PIXELS`, four bytes each: few at the same time.
DECODE_AT_ONCE = 2

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Result = TypeVar("Result")
Show = Callable[[QImage], None]
Fail = Callable[[QuarterdeckError], None]


class ImageFault(StrEnum):
    """Why a picture cannot be shown: one text for each reason."""

    TOO_MANY_BYTES = "This picture has too many bytes to be shown."
    UNKNOWN_FORMAT = f"This is not a picture; allowed are {', '.join(FORMATS)}."
    TOO_MANY_PIXELS = "This picture has too many pixels to be shown."
    DAMAGED = "This picture is damaged and cannot be read."
    CORRUPT = "This picture does not match its hash."
    MISSING = "This picture is missing from the store."


class ImageError(BadInput):
    """The bytes are not a picture that can be shown; `fault` says why."""

    def __init__(self, fault: ImageFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def check_bytes(data: bytes) -> None:
    """Refuse an encoded picture that has too many bytes.

    Raises:
        ImageError: it has.
    """
    if len(data) > MOST_ENCODED_BYTES:
        raise ImageError(ImageFault.TOO_MANY_BYTES)


def decode_image(data: bytes, width: int | None = None) -> QImage:
    """Decode bytes from a device, to at most `width` pixels across; runs in a worker thread.

    The size is read from the header first: a small file that claims an enormous picture costs nothing.

    Raises:
        ImageError: it is none of the known formats, is damaged, or is too large.
    """
    check_bytes(data)
    raw = QByteArray(data)
    buffer = QBuffer(raw)
    buffer.open(QIODevice.OpenModeFlag.ReadOnly)
    reader = QImageReader(buffer)
    reader.setDecideFormatFromContent(True)
    name = reader.format().toStdString().upper()
    if name.replace("JPG", "JPEG") not in FORMATS:
        raise ImageError(ImageFault.UNKNOWN_FORMAT)
    size = reader.size()
    if not size.isValid():
        raise ImageError(ImageFault.DAMAGED)
    if size.width() * size.height() > MOST_PIXELS:
        raise ImageError(ImageFault.TOO_MANY_PIXELS)
    if width is not None and size.width() > width:
        # JPEG decodes straight to a smaller size; others are scaled by the reader.
        reader.setScaledSize(QSize(width, max(1, round(size.height() * width / size.width()))))
    image = reader.read()
    if image.isNull():
        raise ImageError(ImageFault.DAMAGED)
    if width is not None and image.width() > width:
        image = image.scaledToWidth(width, Qt.TransformationMode.SmoothTransformation)
    # The format that is drawn fastest.
    return image.convertToFormat(QImage.Format.Format_ARGB32_Premultiplied)


def image_problem(error: QuarterdeckError) -> str:
    """Why a picture is not shown, in one sentence."""
    if error.code is ErrorCode.JOURNAL_CORRUPT:
        return ImageFault.CORRUPT.value
    if error.code is ErrorCode.NOT_FOUND:
        return ImageFault.MISSING.value
    return error.message


class BoundedCache(Generic[Key, Value]):
    """The values used last, up to a weight in all; the newest stays however heavy it is."""

    def __init__(self, most: int) -> None:
        self._most, self.weight = most, 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def get(self, key: Key) -> Value | None:
        """The value of a key, which counts as used."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Key, value: Value, weight: int) -> None:
        """Keep a value; those used longest ago make room."""
        self.drop([key])
        self._entries[key] = (value, weight)
        self.weight += weight
        while self.weight > self._most and len(self._entries) > 1:
            self.drop([next(iter(self._entries))])

    def drop(self, keys: Iterable[Key]) -> None:
        """Keep these no longer."""
        for key in keys:
            if (entry := self._entries.pop(key, None)) is not None:
                self.weight -= entry[1]

    def items(self) -> list[tuple[Key, Value]]:
        """All of it, the value used longest ago first."""
        return [(key, value) for key, (value, _) in self._entries.items()]


@dataclass(frozen=True, slots=True)
class ImageKey:
    """A picture by its digest, in full or decoded to at most `width` pixels across."""

    blob: str
    width: int | None = None


class ImageCache(QObject):
    """Fetches pictures from the journal, decodes them in threads, and keeps those used last."""

    def __init__(self, link: ConsoleLink, most_bytes: int = MOST_KEPT_BYTES) -> None:
        super().__init__(link)
        self._link = link
        self._kept: BoundedCache[ImageKey, QImage | ImageFault] = BoundedCache(most_bytes)
        self._decoding = asyncio.Semaphore(DECODE_AT_ONCE)
        self._waiting: dict[ImageKey, dict[QObject, tuple[Show, Fail]]] = {}
        self._requests: dict[ImageKey, asyncio.Future[object]] = {}
        self._key_of: WeakKeyDictionary[QObject, ImageKey] = WeakKeyDictionary()

    @property
    def kept_bytes(self) -> int:
        """What is kept weighs this much, in bytes."""
        return self._kept.weight

    def kept_keys(self) -> list[ImageKey]:
        """What is kept."""
        return [key for key, _ in self._kept.items()]

    def get(self, key: ImageKey) -> QImage | ImageFault | None:
        """A picture that was decoded, why it cannot be, or None when neither is known."""
        return self._kept.get(key)

    def drop(self, key: ImageKey) -> None:
        """Keep a picture no longer."""
        self._kept.drop([key])

    def want(self, owner: QObject, blob: str, show: Show, fail: Fail) -> None:
        """Call `show` with the picture, now or once it has come, or `fail` with why there is none.

        It replaces what `owner` wanted before: a late answer to that is ignored.
        """
        key = ImageKey(blob)
        if self._key_of.get(owner) == key:
            self._waiting[key][owner] = (show, fail)
            return
        self.cancel(owner)
        kept = self.get(key)
        if isinstance(kept, QImage):
            show(kept)
        elif kept is not None:
            fail(ImageError(kept))
        else:
            self._key_of[owner] = key
            waiting = self._waiting.setdefault(key, {})
            waiting[owner] = (show, fail)
            if len(waiting) == 1:
                self._requests[key] = self._link.ask(
                    lambda console: self.load(console, key),
                    partial(self._came, key),
                    partial(self._failed, key),
                    what="read a picture",
                )

    def cancel(self, owner: QObject) -> None:
        """`owner` wants nothing any more; what no other owner waits for is not read to its end."""
        key = self._key_of.pop(owner, None)
        if key is None or (waiting := self._waiting.get(key)) is None:
            return
        waiting.pop(owner, None)
        if not waiting:
            del self._waiting[key]
            self._requests.pop(key).cancel()

    async def load(self, console: Console, key: ImageKey) -> QImage:
        """Fetch and decode a picture, unless it is kept.

        Raises:
            ImageError: the bytes are not a picture that can be shown.
            QuarterdeckError: the bytes cannot be had.
        """
        kept = self.get(key)
        if isinstance(kept, QImage):
            return kept
        if kept is not None:
            raise ImageError(kept)
        return await self.decode(key, await console.journal.blob(key.blob))

    async def decode(self, key: ImageKey, data: bytes) -> QImage:
        """Decode the bytes of a picture in a thread, and keep it.

        Raises:
            ImageError: they are not a picture that can be shown; that is kept too.
        """
        try:
            image = await self.in_thread(decode_image, data, key.width)
        except ImageError as error:
            self._kept.put(key, error.fault, ENTRY_BYTES)
            raise
        self._kept.put(key, image, image.sizeInBytes() + ENTRY_BYTES)
        return image

    async def in_thread(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Run work on pictures in a thread, `DECODE_AT_ONCE` at the same time."""
        async with self._decoding:
            return await asyncio.to_thread(work, *arguments)

    def _came(self, key: ImageKey, image: QImage) -> None:
        for show, _ in self._answered(key):
            show(image)

    def _failed(self, key: ImageKey, error: QuarterdeckError) -> None:
        for _, fail in self._answered(key):
            fail(error)

    def _answered(self, key: ImageKey) -> list[tuple[Show, Fail]]:
        self._requests.pop(key, None)
        waiting = self._waiting.pop(key, {})
        for owner in waiting:
            self._key_of.pop(owner, None)
        return [callbacks for owner, callbacks in waiting.items() if isValid(owner)]


def images_of(link: ConsoleLink) -> ImageCache:
    """The cache of the window with this link."""
    for child in link.children():
        if isinstance(child, ImageCache):
            return child
    return ImageCache(link)

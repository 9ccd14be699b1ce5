"""Small pictures for the wall: fetched a few at a time, only what is seen, decoded in a thread, bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QImage

from app.images import decoded
from app.service_client import ConsoleLink
from core.service.console import Console

WIDTHS = (320, 640, 1280)
AT_ONCE = 4
KEPT_BYTES = 64 * 1024 * 1024

Wanted = tuple[str, int]


class Thumbs(QObject):
    """Pictures by digest.

    Signals:
        came: at least one more picture is here.
    """

    came = Signal()

    def __init__(self, link: ConsoleLink, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._kept: OrderedDict[Wanted, QImage] = OrderedDict()
        self._bytes = 0
        self._wished: OrderedDict[Wanted, None] = OrderedDict()
        self._under_way: set[Wanted] = set()
        self._before: dict[str, str] = {}
        # Screens that look alike share a picture: whether one is still shown somewhere.
        self.is_shown: Callable[[str], bool] = lambda blob: False

    def get(self, blob: str, px: int) -> QImage | None:
        """The picture, if it is here; else it is fetched, and `came` tells. Null when it cannot be read.

        While a newer one of the same device is fetched, the one before stands in for it.
        """
        wanted = (blob, next((width for width in WIDTHS if width >= px), WIDTHS[-1]))
        if (image := self._kept.get(wanted)) is not None:
            self._kept.move_to_end(wanted)
            return image
        if wanted not in self._under_way:
            self._wished[wanted] = None
            self._wished.move_to_end(wanted)
            # What was scrolled past long ago is not fetched any more.
            while len(self._wished) > 96:
                self._wished.popitem(last=False)
            self._go_on()
        before = self._before.get(blob)
        return self._kept.get((before, wanted[1])) if before else None

    def replace(self, old: str, new: str) -> None:
        """A device shows `new` from now on. `old` stands in for it until it has come, and is dropped then."""
        for width in WIDTHS:
            self._wished.pop((old, width), None)
        before = self._before.pop(old, "")
        if self._has(new):
            self._drop(old)
        elif self._has(old) or not before:
            self._before[new] = old
        else:
            self._before[new], before = before, ""
        if before:
            self._drop(before)

    def _has(self, blob: str) -> bool:
        return any((blob, width) in self._kept for width in WIDTHS)

    def _drop(self, blob: str) -> None:
        if self.is_shown(blob):
            return
        for width in WIDTHS:
            if (image := self._kept.pop((blob, width), None)) is not None:
                self._bytes -= image.sizeInBytes()

    def _go_on(self) -> None:
        while self._wished and len(self._under_way) < AT_ONCE:
            wanted, _ = self._wished.popitem(last=True)
            self._under_way.add(wanted)
            self._fetch(wanted)

    def _fetch(self, wanted: Wanted) -> None:
        blob, width = wanted

        async def read(console: Console) -> QImage:
            return await decoded(await console.journal.blob(blob), width)

        self._link.ask(
            read,
            lambda image: self._take(wanted, image),
            lambda _error: self._take(wanted, QImage()),
            what="read a picture",
        )

    def _take(self, wanted: Wanted, image: QImage) -> None:
        self._under_way.discard(wanted)
        self._kept[wanted] = image
        self._bytes += image.sizeInBytes()
        if before := self._before.pop(wanted[0], ""):
            self._drop(before)
        while self._bytes > KEPT_BYTES and len(self._kept) > 1:
            _, old = self._kept.popitem(last=False)
            self._bytes -= old.sizeInBytes()
        self._go_on()
        self.came.emit()

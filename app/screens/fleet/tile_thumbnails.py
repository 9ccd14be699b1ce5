"""Small pictures for the wall: only what is seen is fetched, what was seen last first, a few at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QImage

from app.images import BoundedCache, ImageKey, images_of
from app.service_client import ConsoleLink

WIDTHS = (320, 640, 1280)
AT_ONCE = 4
# Failures that are remembered, so that painting does not ask for them again.
MOST_FAILED = 4096


class TileThumbnails(QObject):
    """Pictures by digest.

    Signals:
        came: at least one more picture is here.
    """

    came = Signal()

    def __init__(self, link: ConsoleLink, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._images = images_of(link)
        self._failed: BoundedCache[ImageKey, QImage] = BoundedCache(MOST_FAILED)
        self._wished: OrderedDict[ImageKey, None] = OrderedDict()
        self._under_way: set[ImageKey] = set()
        self._before: dict[str, str] = {}
        # Screens that look alike share a picture: whether one is still shown somewhere.
        self.is_shown: Callable[[str], bool] = lambda blob: False

    def get(self, blob: str, px: int) -> QImage | None:
        """The picture, if it is here; else it is fetched, and `came` tells. Null when it cannot be read.

        While a newer one of the same device is fetched, the one before stands in for it.
        """
        wanted = ImageKey(blob, next((width for width in WIDTHS if width >= px), WIDTHS[-1]))
        if (image := self._known(wanted)) is not None:
            return image
        if wanted not in self._under_way:
            self._wished[wanted] = None
            self._wished.move_to_end(wanted)
            # What was scrolled past long ago is not fetched any more.
            while len(self._wished) > 96:
                self._wished.popitem(last=False)
            self._go_on()
        before = self._before.get(blob)
        return self._known(ImageKey(before, wanted.width)) if before else None

    def replace(self, old: str, new: str) -> None:
        """A device shows `new` from now on. `old` stands in for it until it has come, and is dropped then."""
        for width in WIDTHS:
            self._wished.pop(ImageKey(old, width), None)
        before = self._before.pop(old, "")
        if self._has(new):
            self._drop(old)
        elif self._has(old) or not before:
            self._before[new] = old
        else:
            self._before[new], before = before, ""
        if before:
            self._drop(before)

    def _known(self, key: ImageKey) -> QImage | None:
        kept = self._images.get(key)
        if kept is None:
            return self._failed.get(key)
        return kept if isinstance(kept, QImage) else QImage()

    def _has(self, blob: str) -> bool:
        return any(self._known(ImageKey(blob, width)) is not None for width in WIDTHS)

    def _drop(self, blob: str) -> None:
        if self.is_shown(blob):
            return
        for width in WIDTHS:
            self._images.drop(ImageKey(blob, width))
            self._failed.drop([ImageKey(blob, width)])

    def _go_on(self) -> None:
        while self._wished and len(self._under_way) < AT_ONCE:
            wanted, _ = self._wished.popitem(last=True)
            self._under_way.add(wanted)
            self._fetch(wanted)

    def _fetch(self, wanted: ImageKey) -> None:
        self._link.ask(
            lambda console: self._images.load(console, wanted),
            lambda _image: self._take(wanted),
            lambda _error: self._fail(wanted),
            what="read a picture",
        )

    def _fail(self, wanted: ImageKey) -> None:
        self._failed.put(wanted, QImage(), 1)
        self._take(wanted)

    def _take(self, wanted: ImageKey) -> None:
        self._under_way.discard(wanted)
        if before := self._before.pop(wanted.blob, ""):
            self._drop(before)
        self._go_on()
        self.came.emit()

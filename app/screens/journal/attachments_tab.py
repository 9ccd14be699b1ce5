"""The blobs of an entry: pictures to look into, texts to read; one that is damaged says so in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from app.images import ENTRY_BYTES, BoundedCache, ImageError, ImageKey, images_of
from app.query import Query
from app.service_client import ConsoleLink
from app.theme.tokens import SPACE
from app.widgets.banner import Notice
from app.widgets.code_view import CodeView
from app.widgets.empty_state import EmptyState
from app.widgets.image_view import ImageView
from app.widgets.labels import Label
from app.widgets.layouts import vbox
from app.widgets.property_list import short_digest
from app.widgets.section import SectionHead
from app.widgets.util import ScrollArea, clear_layout
from core.audit.entries import Entry
from core.errors import QuarterdeckError
from core.service.console import Console

KEPT_TEXT_BYTES = 8 * 1024 * 1024
MOST_TEXT = 256 * 1024
_PICTURE_HEIGHT = 216


@dataclass(frozen=True, slots=True)
class Blob:
    """What a blob turned out to be: a picture, a text, or neither."""

    size: int
    image: QImage | None = None
    text: str | None = None


def read_text(data: bytes) -> Blob:
    """Decode a blob that is not a picture; it may be a text."""
    try:
        return Blob(len(data), text=data[: MOST_TEXT + 4].decode("utf-8")[:MOST_TEXT] if data else "")
    except UnicodeDecodeError as error:
        # A cut in the middle of a letter at the very end is ours, not the blob's.
        if len(data) > MOST_TEXT and error.start >= MOST_TEXT:
            return Blob(len(data), text=data[: error.start].decode("utf-8"))
        return Blob(len(data))


class AttachmentsTab(ScrollArea):
    """One section a blob, read when the tab is in front."""

    def __init__(self, link: ConsoleLink) -> None:
        super().__init__(name="Pictures and outputs of the entry")
        self._link = link
        self._entry: Entry | None = None
        self._shown_for = 0
        self._shown = False
        self._images = images_of(link)
        self._texts: BoundedCache[str, Blob] = BoundedCache(KEPT_TEXT_BYTES)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._inner = QWidget()
        self._inner.setProperty("clear", "true")
        self._column = vbox(parent=self._inner, margins=(14, 12, 14, 12), spacing=SPACE.section)
        self.setWidget(self._inner)

    def show_entry(self, entry: Entry | None) -> None:
        """Take another entry."""
        self._entry = entry
        self._read()

    def set_shown(self, shown: bool) -> None:
        """The tab came to the front, or left it."""
        self._shown = shown
        self._read()

    def _read(self) -> None:
        entry = self._entry
        if not self._shown or entry is None or self._shown_for == entry.seq:
            return
        self._shown_for = entry.seq
        self._empty()
        if not entry.blobs:
            line = "Entries of calls that took a picture or kept an output have some."
            self._column.addWidget(EmptyState("This entry has no picture and no stored output.", line), 1)
            return
        words = dict(_descriptions(entry.body))
        for place, digest in enumerate(dict.fromkeys(entry.blobs)):
            section = _BlobSection(digest, words.get(digest, f"Blob {place + 1}"))
            self._column.addWidget(section)
            self._fill(section)
        self._column.addStretch(1)

    def _empty(self) -> None:
        clear_layout(self._column)

    def _fill(self, section: _BlobSection) -> None:
        digest = section.digest
        key = ImageKey(digest)
        image = self._images.get(key)
        if isinstance(image, QImage):
            section.show_blob(Blob(0, image=image))
            return
        if (text := self._texts.get(digest)) is not None:
            section.show_blob(text)
            return

        async def read(console: Console) -> Blob:
            data = await console.journal.blob(digest)
            try:
                return Blob(len(data), image=await self._images.decode(key, data))
            except ImageError:
                blob = await asyncio.to_thread(read_text, data)
            self._texts.put(digest, blob, len(blob.text or "") + ENTRY_BYTES)
            return blob

        # It ends with the section, when another entry is shown.
        Query(section, self._link, section.show_blob, section.show_error, "read a stored picture").load(read)


class _BlobSection(QWidget):
    """Head and content of one blob."""

    def __init__(self, digest: str, words: str) -> None:
        super().__init__()
        self.digest = digest
        self._words = words
        self._head = SectionHead(words, short_digest(digest))
        self._head.hint.setToolTip(digest)
        self._content: QWidget = Label("Reading…", "meta", "text3")
        self._column = vbox(self._head, self._content, parent=self, spacing=SPACE.snug)

    def _put(self, widget: QWidget) -> None:
        self._column.replaceWidget(self._content, widget)
        self._content.hide()
        self._content.deleteLater()
        self._content = widget

    def show_blob(self, blob: Blob) -> None:
        """Show what it is."""
        if blob.image is not None:
            view = ImageView(self._words)
            view.setFixedHeight(_PICTURE_HEIGHT)
            view.set_image(blob.image, self._words)
            size = f"{blob.image.width()} × {blob.image.height()}"
            self._head.set_hint(f"{size}, {short_digest(self.digest)}")
            self._put(view)
        elif blob.text is not None:
            box = CodeView(self._words, 14)
            box.show_text(blob.text)
            cut = "" if blob.size <= MOST_TEXT else f", the first {MOST_TEXT // 1024} KiB"
            self._head.set_hint(f"{blob.size:,} bytes{cut}, {short_digest(self.digest)}")
            self._put(box)
        else:
            words = f"{blob.size:,} bytes that are neither a picture nor text."
            self._put(Label(words, tone="text2", wrap=True))

    def show_error(self, error: QuarterdeckError) -> None:
        """It is missing, or not what it was."""
        self._put(Notice("fail", error.message, error.info.next))


def _descriptions(value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """What the body says about its blobs: (digest, words)."""
    if depth > 6:
        return
    if isinstance(value, dict):
        digest, what = value.get("blob"), value.get("what")
        if isinstance(digest, str) and isinstance(what, str) and what:
            yield digest, what[:1].upper() + what[1:].replace("_", " ")
        for inner in value.values():
            yield from _descriptions(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value[:100]:
            yield from _descriptions(inner, depth + 1)

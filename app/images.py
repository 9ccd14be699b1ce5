"""How bytes from a device become a picture: known formats only, bounded, outside the GUI thread."""

from __future__ import annotations

import asyncio

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QSize, Qt
from PySide6.QtGui import QImage, QImageReader

from core.errors import BadInput
from core.replay.image_diff import FORMATS, MOST_PIXELS

MOST_BYTES = 64 * 1024 * 1024


def decode_picture(data: bytes, width: int | None = None) -> QImage:
    """Decode bytes from a device, to at most `width` pixels across; runs in a worker thread.

    The size is read from the header first: a small file that claims an enormous picture costs nothing.

    Raises:
        BadInput: it is none of the known formats, is damaged, or is too large.
    """
    if len(data) > MOST_BYTES:
        raise BadInput(f"This picture has {len(data)} bytes, which is too many.")
    raw = QByteArray(data)
    buffer = QBuffer(raw)
    buffer.open(QIODevice.OpenModeFlag.ReadOnly)
    reader = QImageReader(buffer)
    reader.setDecideFormatFromContent(True)
    name = reader.format().toStdString().upper()
    if name.replace("JPG", "JPEG") not in FORMATS:
        raise BadInput(f"This is not a picture; allowed are {', '.join(FORMATS)}.")
    size = reader.size()
    if not size.isValid() or size.width() * size.height() > MOST_PIXELS:
        raise BadInput(f"This picture has {size.width()} × {size.height()} pixels, which is too many.")
    if width is not None and size.width() > width:
        # JPEG decodes straight to a smaller size; others are scaled by the reader.
        reader.setScaledSize(QSize(width, max(1, round(size.height() * width / size.width()))))
    image = reader.read()
    if image.isNull():
        raise BadInput("This picture is damaged and cannot be read.")
    if width is not None and image.width() > width:
        image = image.scaledToWidth(width, Qt.TransformationMode.SmoothTransformation)
    # The format that is drawn fastest.
    return image.convertToFormat(QImage.Format.Format_ARGB32_Premultiplied)


def picture_or_none(data: bytes, width: int | None = None) -> QImage:
    """As `decode_picture`, with a null image for what cannot be shown."""
    try:
        return decode_picture(data, width)
    except BadInput:
        return QImage()


async def decoded(data: bytes, width: int | None = None) -> QImage:
    """The picture in these bytes, decoded in a thread; a null image for what cannot be shown."""
    return await asyncio.to_thread(picture_or_none, data, width) if data else QImage()

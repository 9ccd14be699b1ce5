"""Reads and changes the text of a control over the accessibility bus."""

from __future__ import annotations

from core.device.desktop.interface import EditPoint
from core.device.desktop.linux.atspi import AccessibilityBus, Gone, NotSupported, Ref
from core.device.desktop.linux.atspi_constants import APPLICATION, EDITABLE_TEXT, ROOT, TEXT


async def edit_point(bus: AccessibilityBus, ref: Ref) -> EditPoint | None:
    """Where typed text goes; None where the control tells no text.

    Raises:
        Silent: its program hangs.
        Gone: it does not exist.
    """
    try:
        length = int(await bus.get(ref, TEXT, "CharacterCount"))
        caret = int(await bus.get(ref, TEXT, "CaretOffset"))
        (selections,) = await bus.call(ref, TEXT, "GetNSelections")
        if int(selections) > 0:
            start, end = await bus.call(ref, TEXT, "GetSelection", "i", (0,))
            if int(end) > int(start) >= 0:
                return EditPoint(int(start), int(end), length)
    except NotSupported:
        return None
    if caret < 0:
        caret = length
    return EditPoint(caret, caret, length)


async def between(bus: AccessibilityBus, ref: Ref, start: int, end: int) -> str | None:
    """A part of a control's text; None where it is not told.

    Raises:
        Silent: its program hangs.
        Gone: it does not exist.
    """
    if start >= end:
        return ""
    try:
        (text,) = await bus.call(ref, TEXT, "GetText", "ii", (start, end))
    except NotSupported:
        return None
    return str(text)


async def delete(bus: AccessibilityBus, ref: Ref, start: int, end: int) -> bool:
    """Delete a part of a control's text; returns False where the control cannot do that.

    Raises:
        Silent: no answer in time.
        Gone: it does not exist.
    """
    try:
        (done,) = await bus.call(ref, EDITABLE_TEXT, "DeleteText", "ii", (start, end))
    except NotSupported:
        return False
    return bool(done)


async def insert_text(bus: AccessibilityBus, ref: Ref, text: str) -> bool:
    """Insert text at the caret, replacing a selection; returns False where the control cannot do that."""
    try:
        point = await edit_point(bus, ref)
        if point is None or (point.replaces and not await delete(bus, ref, point.start, point.end)):
            return False
        at = point.start
        is_qt = await _is_qt(bus, ref)
        # Each toolkit measures the length in its own unit and cuts the text there.
        length = _utf16(text) if is_qt else len(text.encode())
        (done,) = await bus.call(ref, EDITABLE_TEXT, "InsertText", "isi", (at, text, length))
        if done:
            after = at + (_utf16(text) if is_qt else len(text))
            await bus.call(ref, TEXT, "SetCaretOffset", "i", (after,))
    except NotSupported:
        return False
    return bool(done)


async def _is_qt(bus: AccessibilityBus, ref: Ref) -> bool:
    try:
        toolkit = str(await bus.get(Ref(ref.bus, ROOT), APPLICATION, "ToolkitName"))
    except (NotSupported, Gone):
        return False
    return toolkit.lower().startswith("qt")


def _utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2

"""Types text, and looks whether it arrived.

Text goes where the keyboard is, so this is looked at before the first key, after it (a list may open a
field at the first letter), and after each line end and tab. A field that tells its text is read afterwards,
and what stands there is compared with what was typed.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from core.device.desktop.interface import (
    LONGEST_VALUE,
    PROTECTED,
    Control,
    Desktop,
    EditPoint,
    Focus,
    Window,
)
from core.device.desktop.key_chords import Chord
from core.device.desktop.target_window import active_window, belongs_to, brought_forward, described
from core.errors import DeviceError, ErrorCode
from core.text import sentences

_Answer = TypeVar("_Answer")
Method = Literal["accessibility", "keys"]
# A line end and a tab are keys of their own: they may move the keyboard.
_KEYS = {"\n": Chord((), "enter"), "\t": Chord((), "tab")}
_PIECES = re.compile(r"[\n\t]|[^\n\t]+")
# Roles that take keys as commands, not as text.
_NO_TEXT = {
    "menu bar": "a menu bar",
    "menu": "a menu",
    "popup menu": "a menu",
    "menu item": "a menu",
    "check menu item": "a menu",
    "radio menu item": "a menu",
    "tearoff menu item": "a menu",
    "push button": "a button",
    "push button menu": "a button",
    "toggle button": "a button",
    "check box": "a check box",
    "radio button": "a radio button",
    "page tab": "a tab",
    "link": "a link",
    "slider": "a slider",
    "scroll bar": "a scroll bar",
    "frame": "a window, in none of its controls",
    "dialog": "a window, in none of its controls",
    "window": "a window, in none of its controls",
    "document web": "a web page, in none of its fields",
}
_FIELDS = ("text", "entry", "password text", "spin button")
# A terminal shows what programs answer, and not always what is typed.
_TELLS_OTHER_TEXT = ("terminal",)
# What stands for an embedded object, such as a paragraph of a web page.
_OBJECT = "\N{OBJECT REPLACEMENT CHARACTER}"
# A field that is opened by the first key gets the keyboard a moment later.
_MOVES_S = 0.5
# A program that shows nothing more of a text after this time does not take more, and a wait's longest time.
_ARRIVES_S, _LONGEST_S = 1.0, 10.0
# A field of one line may still look for completions, as a file chooser does, and Enter would only end that.
# No program says when it has done so; to keys, which come one by one, it has time in between.
_COMPLETES_S = 0.25
_POLL_S = 0.02


@dataclass(slots=True)
class Entry:
    """The typed text and its place; `stands` is the field's text afterwards, None where that is not told."""

    length: int
    window: Window | None
    control: Control | None
    method: Method = "keys"
    typed: int = 0
    stands: str | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where text starts in a field, and how long the field's text was; `replaces` characters are selected."""

    control: Control
    start: int
    length: int
    replaces: int = 0


@dataclass(slots=True)
class TextEntry:
    """One call of `type_text`. `control` is the field that it names, if any; `window` where it must go."""

    desktop: Desktop
    text: str
    control: Control | None
    window: Window | None
    secret: bool = False
    _entry: Entry = field(init=False)

    def __post_init__(self) -> None:
        self.text = self.text.replace("\r\n", "\n").replace("\r", "\n")
        self._entry = Entry(len(self.text), self.window, self.control)

    async def run(self) -> Entry:
        """Type the text.

        Raises:
            DeviceError: the keyboard is not where text can go (code `keyboard_elsewhere`): nothing was typed;
                or it did not all arrive, which the message says.
        """
        pieces = _PIECES.findall(self.text)
        if self.control is not None:
            if (what := _takes_no_text(self.control)) is not None:
                raise _elsewhere(f"{_capital(_named(self.control))} takes no text: it is {what}")
            if len(pieces) == 1 and pieces[0] not in _KEYS and self.control.takes_text:
                # Needs no keyboard, so the window may stay where it is.
                self._protect(self.control)
                place = await self._place(self.control)
                if await self._insert(self.control, pieces[0]):
                    await self._tell(await self._check(place, pieces[0]))
                    return self._entry
        await self._take_keyboard()
        self._protect(self._entry.control)
        place = None
        for number, piece in enumerate(pieces):
            if number > 0 and pieces[number - 1] in _KEYS:
                await self._look_after_key()
            if piece in _KEYS:
                await self._press(piece)
            else:
                place = await self._type_piece(piece)
        await self._tell(place)
        return self._entry

    def _protect(self, control: Control | None) -> None:
        if self.secret:
            self.desktop.protect(control.id if control else None)

    async def _take_keyboard(self) -> None:
        """Put the keyboard into the named field, or look where it is."""
        await self._need_keys()
        entry = self._entry
        if self.control is None:
            if entry.window is None:
                entry.window = await active_window(self.desktop)
            entry.control = (await self._in_field(entry.window)).control
            return
        window = await self.desktop.window_of(self.control)
        if window is not None:
            front = await brought_forward(self.desktop, window)
            if front.id != window.id:
                raise _elsewhere(f"{_capital(described(window))} waits for its dialog, {described(front)}")
            entry.window = front
        await self.desktop.focus(self.control)

    async def _in_field(self, window: Window | None) -> Focus:
        """Where the keyboard is; a dialog that has just opened may tell a moment later that it has it.

        Raises:
            DeviceError: it is where no text goes (code `keyboard_elsewhere`).
        """
        async for _ in _tries(_MOVES_S):
            focus = await self.desktop.keyboard()
            if (refusal := _refusal(focus, window)) is None:
                return focus
        assert refusal is not None
        raise refusal

    async def _need_keys(self) -> None:
        if lack := await asyncio.to_thread(self.desktop.lack, "input"):
            raise lack.error()

    async def _type_piece(self, piece: str) -> _Place | None:
        """Type a piece without line ends; returns where it is if the field tells its text."""
        control = self._entry.control
        place = await self._place(control)
        if control is not None and await self._insert(control, piece):
            return await self._check(place, piece)
        if control is None or _is_field(control) or control.role in _TELLS_OTHER_TEXT:
            await self._send(piece)
            return await self._check(place, piece)
        await self._send(piece[:1])
        moved = await self._moved_to(control)
        if moved is None:
            await self._send(piece[1:])
            return None
        self._entry.control = moved
        self._protect(moved)
        place = await self._opened_by(piece[:1], moved)
        if not await self._insert(moved, piece[1:]):
            await self._send(piece[1:])
        return await self._check(place, piece)

    async def _insert(self, control: Control, piece: str) -> bool:
        """Insert a piece through accessibility; returns False where the control cannot do that."""
        if not piece or not control.takes_text or not await self.desktop.insert_text(control, piece):
            return False
        self._entry.typed += len(piece)
        self._entry.method = "accessibility"
        return True

    async def _send(self, keys: str) -> None:
        """Type by keys.

        Raises:
            DeviceError: not all were typed.
        """
        if not keys:
            return
        entry = self._entry
        typed = await self.desktop.type_keys(keys, entry.window)
        entry.typed += typed
        if typed < len(keys):
            now = await active_window(self.desktop)
            if entry.window is not None and (now is None or now.id != entry.window.id):
                raise self._stopped(f"the keyboard went to {described(now) if now else 'no window'}")
            raise self._stopped("the program does not read keys")

    async def _press(self, piece: str) -> None:
        entry = self._entry
        if entry.method == "accessibility" and entry.control is not None and _is_line(entry.control):
            await asyncio.sleep(_COMPLETES_S)
        before = await self._point(entry.control)
        try:
            await self.desktop.press(_KEYS[piece], entry.window)
        except DeviceError as error:
            if error.code is ErrorCode.KEYBOARD_ELSEWHERE:
                raise self._stopped(error.message[:1].lower() + error.message[1:]) from error
            raise
        entry.typed += 1
        if entry.control is None or before is None:
            return
        # The field tells when it has taken the key; what a program shows is read only then.
        async for _ in _tries(_MOVES_S):
            if not await self.desktop.has_focus(entry.control) or before != await self._point(entry.control):
                break

    async def _look_after_key(self) -> None:
        """Find the control that has the keyboard after Enter or Tab.

        Raises:
            DeviceError: it is in another program's window, or where no text goes.
        """
        entry = self._entry
        if entry.control is not None and await self.desktop.has_focus(entry.control):
            return
        if entry.window is not None:
            windows = await self.desktop.windows()
            now = next((one for one in windows if one.active), None)
            if now is None or not (now.id == entry.window.id or belongs_to(now, entry.window.id, windows)):
                raise self._stopped(f"the keyboard went to {described(now) if now else 'no window'}")
            entry.window = now
        focus = await self._settled()
        if (refusal := _refusal(focus, entry.window)) is not None:
            raise self._stopped(refusal.message[:1].lower() + refusal.message[1:])
        entry.control = focus.control

    async def _settled(self) -> Focus:
        """Where the keyboard is, when a program has put it somewhere."""
        async for _ in _tries(_ARRIVES_S):
            focus = await self.desktop.keyboard()
            if focus.certainty != "nothing":
                break
        return focus

    async def _moved_to(self, control: Control) -> Control | None:
        """The control that the first key moved the keyboard to; None where it stayed.

        Raises:
            DeviceError: it moved to where no text goes.
        """
        async for _ in _tries(_MOVES_S):
            if not await self.desktop.has_focus(control):
                break
        else:
            return None
        focus = await self._settled()
        if focus.control is None and focus.certainty == "untold":
            return None
        if (refusal := _refusal(focus, self._entry.window)) is not None:
            raise self._stopped(refusal.message[:1].lower() + refusal.message[1:])
        return focus.control

    async def _opened_by(self, key: str, control: Control) -> _Place | None:
        """Where the first key is in the field that it opened.

        Raises:
            DeviceError: it is not there.
        """
        async for _ in _tries(_ARRIVES_S):
            point = await self._point(control)
            if point is None:
                return None
            before = await self.desktop.text_between(control, point.start - len(key), point.start)
            if before == key:
                return _Place(control, point.start - len(key), point.length - len(key))
        raise self._stopped(f"the keyboard went to {_named(control)}, and the first key is not in it")

    async def _place(self, control: Control | None) -> _Place | None:
        point = await self._point(control)
        if point is None or control is None:
            return None
        return _Place(control, point.start, point.length, point.replaces)

    async def _point(self, control: Control | None) -> EditPoint | None:
        if control is None or self.secret or control.role in _TELLS_OTHER_TEXT:
            return None
        if "editable" not in control.states:
            # Such as a button, whose text is its label, or a document around the field.
            return None
        return await self._told(self.desktop.edit_point, control)

    async def _check(self, place: _Place | None, piece: str) -> _Place | None:
        """Wait until a piece stands in its field; None where the field does not tell.

        Raises:
            DeviceError: something else stands there.
        """
        if place is None:
            return None
        before, until = "", time.monotonic() + _ARRIVES_S
        async for _ in _tries(_LONGEST_S):
            point = await self._told(self.desktop.edit_point, place.control)
            if point is None:
                return None
            grown = point.length - (place.length - place.replaces)
            stands = await self._told(
                self.desktop.text_between, place.control, place.start, place.start + max(0, grown)
            )
            if stands is None or _OBJECT in stands:
                return None
            if stands == piece or await self._stands_otherwise(place, point, piece):
                return place
            if stands.startswith(piece) and point.replaces == grown - len(piece) > 0:
                await self._drop_completion(place.control, point)
            if stands != before:
                # It is still arriving.
                before, until = stands, time.monotonic() + _ARRIVES_S
            elif time.monotonic() >= until:
                break
        whole = await self._whole(place)
        if whole is None or _OBJECT in whole:
            return None
        raise self._stopped(f"{_named(place.control)} now has {whole!r}")

    async def _stands_otherwise(self, place: _Place, point: EditPoint, piece: str) -> bool:
        """Whether a piece stands in its field although the field has not grown by as much."""
        if point.replaces == 0 and point.start > place.start:
            # A browser's empty last line is a character that goes when something is typed there.
            told = self.desktop.text_between
            if await self._told(told, place.control, place.start, point.start) == piece:
                return True
        # A calculator puts a new text in the place of its last result.
        return point.length == len(piece) and await self._whole(place) == piece

    async def _drop_completion(self, control: Control, point: EditPoint) -> None:
        """Delete what a field has added, selected, to the text: the next Enter would take it for typed."""
        if not await self.desktop.delete_text(control, point.start, point.end):
            await self.desktop.press(Chord((), "delete"), self._entry.window)

    async def _tell(self, place: _Place | None) -> None:
        """Note what stands in the field: around the text, or the whole value where no caret is told."""
        control = self._entry.control
        if place is not None:
            self._entry.stands = await self._whole(place)
        elif control is not None and not self.secret and control.role not in _TELLS_OTHER_TEXT:
            now = await self._told(self.desktop.control, control.id)
            value = None if now is None or PROTECTED in now.states else now.value
            self._entry.stands = value if isinstance(value, str) and _OBJECT not in value else None

    async def _whole(self, place: _Place) -> str | None:
        """The text of a field: all of it, or the part around the text where it is long."""
        point = await self._told(self.desktop.edit_point, place.control)
        if point is None:
            return None
        start = 0 if point.length <= LONGEST_VALUE else place.start
        end = min(point.length, start + LONGEST_VALUE)
        return await self._told(self.desktop.text_between, place.control, start, end)

    async def _told(
        self, ask: Callable[..., Awaitable[_Answer | None]], *arguments: object
    ) -> _Answer | None:
        """An answer of the field; None where it went away with its window."""
        try:
            return await ask(*arguments)
        except DeviceError:
            return None

    def _stopped(self, reason: str) -> DeviceError:
        """The error for text that did not all arrive; it does not repeat the text, which may be a secret."""
        typed, length = self._entry.typed, self._entry.length
        return DeviceError(
            sentences(f"Typed {typed} of {length} characters: {reason}"), ErrorCode.TOOL_FAILED
        )


def _takes_no_text(control: Control) -> str | None:
    """The word for a control that takes keys as commands; None where it takes text."""
    return None if "editable" in control.states else _NO_TEXT.get(control.role)


def _refusal(focus: Focus, window: Window | None) -> DeviceError | None:
    """Why no text is typed here: keys are commands, or go nowhere; None where a field takes them."""
    place = f" of {described(window)}" if window is not None else ""
    if focus.control is not None:
        control = focus.control
        if (what := _takes_no_text(control)) is not None:
            return _elsewhere(f"The keyboard is in {what}{_quoted(control)}{place}")
    elif focus.certainty == "nothing":
        return _elsewhere(f"The keyboard is in no field{place}; a menu may be open")
    elif focus.certainty == "not searched":
        return _elsewhere(f"Which field{place} has the keyboard could not be read in time")
    return None


def _is_field(control: Control) -> bool:
    """Whether a control keeps the keyboard when text is typed: it is no list that opens a field for it."""
    return "editable" in control.states or control.takes_text or control.role in _FIELDS


def _is_line(control: Control) -> bool:
    return "multi line" not in control.states


def _elsewhere(message: str) -> DeviceError:
    return DeviceError(message, ErrorCode.KEYBOARD_ELSEWHERE)


def _named(control: Control) -> str:
    return f"the {control.role} {control.name[:80]!r}" if control.name else f"the {control.role}"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _quoted(control: Control) -> str:
    return f", {control.name[:80]!r}," if control.name else ""


async def _tries(seconds: float) -> AsyncIterator[None]:
    """Turns of a wait: at once, then again and again until the time is over."""
    until = time.monotonic() + seconds
    yield
    while time.monotonic() < until:
        await asyncio.sleep(_POLL_S)
        yield

"""Large frames in parts (`chunks`): one part is one binary WebSocket message, so other frames pass between.

A part is a head and its bytes. Head, big-endian: a byte 1, a byte of flags, then 4 bytes each for the stream,
the size of the whole frame and the part's offset in it; a byte for the length of the subject; the subject.
Streams are numbered from 1 on each link and direction. The parts of a stream come in order, those of several
streams in any mixture. The subject, in the first part only, is the response id that the frame belongs to. The
flag `ABANDONED` ends a stream whose rest is not sent; its part has no bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from core.errors import DeviceError, ErrorCode
from core.text import sentences

# A JSON text never begins with this byte, and the frame of a blob with a zero byte.
CHUNK_MARK = b"\x01"
ABANDONED = 1
# All but the last part of a frame have at least so many bytes: a flood of tiny parts costs time for each.
LEAST_PART = 1024
MOST_STREAMS = 16
# The sender keeps so many bytes under way at once, or a single frame that is larger.
MOST_AT_ONCE = 32 * 1024 * 1024
_HEAD = struct.Struct(">BBIIIB")
_MOST_SUBJECT = 64


def pack_chunk(stream: int, total: int, offset: int, data: bytes | memoryview, subject: str = "") -> bytes:
    """Make one part."""
    words = subject.encode()[:_MOST_SUBJECT] if offset == 0 else b""
    return b"".join((_HEAD.pack(1, 0, stream, total, offset, len(words)), words, data))


def pack_abandoned(stream: int, total: int, offset: int) -> bytes:
    """Make the part that ends a stream early."""
    return _HEAD.pack(1, ABANDONED, stream, total, offset, 0)


@dataclass(slots=True)
class IncomingFrame:
    """A frame of which parts have come; `began_at` is given by the caller of `take`."""

    subject: str
    total: int
    began_at: float
    data: bytearray = field(default_factory=bytearray)

    @property
    def is_whole(self) -> bool:
        """Whether every byte has come."""
        return len(self.data) == self.total


class FrameAssembler:
    """Puts the frames of one link and direction together again, bounded in number and in bytes."""

    def __init__(self, most_frame: int, most_held: int) -> None:
        """`most_frame` bounds one frame, `most_held` all that are incomplete together, in bytes."""
        self._most_frame = most_frame
        self._most_held = max(most_held, most_frame)
        self._last_stream = 0
        self.open: dict[int, IncomingFrame] = {}
        self.bytes_held = 0

    def take(self, part: bytes, now: float) -> IncomingFrame | None:
        """Add a part; returns the frame that it belongs to, None for one that its sender abandoned.

        Raises:
            DeviceError: it is no part, or fits no frame that is under way (code `protocol_error`), or the
                frame is too large (code `too_large`). The link cannot be used any more.
        """
        if len(part) < _HEAD.size:
            raise _misfit("its head is too short")
        _, flags, stream, total, offset, words = _HEAD.unpack_from(part)
        data = memoryview(part)[_HEAD.size + words :]
        if flags == ABANDONED:
            self._drop(stream)
            return None
        if flags:
            raise _misfit(f"its flags {flags} are not known")
        if offset == 0:
            frame = self._begin(stream, total, part[_HEAD.size : _HEAD.size + words], now)
        else:
            frame = self._next(stream, total, offset)
        if not data or offset + len(data) > total:
            raise _misfit(f"it has {len(data)} bytes at {offset} of {total}")
        if len(data) < LEAST_PART and offset + len(data) < total:
            raise _misfit(f"it has {len(data)} bytes, and is not the last")
        if self.bytes_held + len(data) > self._most_held:
            raise DeviceError("Too many bytes of incomplete frames.", ErrorCode.TOO_LARGE)
        frame.data += data
        self.bytes_held += len(data)
        if frame.is_whole:
            self._drop(stream)
        return frame

    def _begin(self, stream: int, total: int, subject: bytes, now: float) -> IncomingFrame:
        if stream <= self._last_stream:
            raise _misfit(f"stream {stream} begins a second time")
        if total > self._most_frame:
            raise DeviceError(
                f"A frame has at most {self._most_frame} bytes, not {total}.", ErrorCode.TOO_LARGE
            )
        if len(self.open) >= MOST_STREAMS:
            raise _misfit(f"{MOST_STREAMS} frames are incomplete already")
        self._last_stream = stream
        frame = self.open[stream] = IncomingFrame(subject.decode("utf-8", "replace"), total, now)
        return frame

    def _next(self, stream: int, total: int, offset: int) -> IncomingFrame:
        frame = self.open.get(stream)
        if frame is None:
            raise _misfit(f"stream {stream} is not under way")
        if frame.total != total or len(frame.data) != offset:
            raise _misfit(f"byte {offset} of {total} came where {len(frame.data)} of {frame.total} was next")
        return frame

    def _drop(self, stream: int) -> None:
        if (frame := self.open.pop(stream, None)) is not None:
            self.bytes_held -= len(frame.data)


def _misfit(why: str) -> DeviceError:
    return DeviceError(sentences(f"A part of a frame does not fit: {why}"), ErrorCode.PROTOCOL_ERROR)

"""What an X server reports about the origin of input, read over connections of its own; knows no Qt.

- **The device** of each event stands in XInput 2's raw events. Events that XTEST makes come from devices with
  the property "XTEST Device", one beside each pointer and each keyboard. The accessibility registry's
  generated clicks and keys, xdotool and x11vnc use XTEST.
- **XTEST in the name of another device**: an older form of its request lets a program name a real device as
  the source, which the raw event then repeats. The RECORD extension reports these requests, and each attempt
  to change the recording. A server has both extensions or neither.
- **The devices there are** may change: an event of a device that is not known yet is synthetic.

Sources: The X Input Extension 2.4 (XI2proto.txt), X Test Extension Protocol 2.2 (also its chapter on XInput
devices), Record Extension Protocol 1.13.
"""

from __future__ import annotations

import contextlib
import select
import struct
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from Xlib import X, Xatom
from Xlib.error import ConnectionClosedError, DisplayError, XError
from Xlib.ext import ge, record, xinput, xtest

from app.input_origin import InputOrigin, Stroke, StrokeKind
from core.log import Logger
from core.x_server import connect, is_xwayland

log = Logger(__name__)

# What a lost or refused connection raises.
LOST = (XError, DisplayError, ConnectionClosedError, OSError)
# How long to wait for an answer of the server, in seconds. It takes 0.1 ms (measured).
LATEST_S = 0.25
BEGIN_S = 2.0
# Strokes and fakes that are remembered; far more than a hand makes while the window's loop is busy. A stroke
# that was forgotten is synthetic.
MOST = 256

_RAW_TOUCH_BEGIN, _RAW_TOUCH_END = 22, 24  # python-xlib has no names for them
_KINDS: dict[int, StrokeKind] = {
    xinput.RawButtonPress: "button down",
    xinput.RawButtonRelease: "button up",
    # Qt translates a touch into presses of a button, with the time of the touch.
    _RAW_TOUCH_BEGIN: "button down",
    _RAW_TOUCH_END: "button up",
    xinput.RawKeyPress: "key down",
    xinput.RawKeyRelease: "key up",
}
_KEYS = xinput.RawKeyPressMask | xinput.RawKeyReleaseMask
_BUTTONS = (
    xinput.RawButtonPressMask | xinput.RawButtonReleaseMask | 1 << _RAW_TOUCH_BEGIN | 1 << _RAW_TOUCH_END
)
_RAW_EVENT = struct.Struct("=HIIH")  # device, time, detail, source: the fields of xXIRawEvent in front
_GET_VERSION, _FAKE_INPUT = 0, 2  # minor opcodes of XTEST
# Minor opcodes of RECORD: the first and the last that act on a context, and the one that only reads it.
_REGISTER, _FREE, _GET_CONTEXT = 2, 7, 4
_FIRST_EXTENSION_EVENT = 64
_TIMES = 1 << 32  # the server's time, in milliseconds, wraps around


class Unwatched(Exception):
    """The server does not report the origin of input; the message says why."""


@dataclass(frozen=True, slots=True)
class RawStroke:
    """One press or release as the server saw it; `control`: a real device held Ctrl at that moment."""

    kind: StrokeKind
    time_ms: int
    keycode: int
    is_real: bool
    control: bool


class XWatch:
    """Follows the raw input of one display. Not thread-safe; only the constructor takes long.

    The server reports keys of all windows, so keys are followed only while `watch_keys` is on.
    """

    def __init__(self, name: str | None = None) -> None:
        """Connect to the display `name`, else to the one in `DISPLAY`. Waits for the server.

        Raises:
            Unwatched: there is no such server, it is too old, or it refuses.
        """
        self._record: Any = None
        self._context = 0
        self._recording = False
        self._strokes: deque[RawStroke] = deque(maxlen=MOST)
        # Spans of the server's time in which XTEST was used in the name of a device. A part of the record has
        # the time at which it began, and ends before the mark that follows it. Those whose mark has not come
        # stand in `_faking`, those whose mark has no time yet in `_marked`.
        self._faking: list[int] = []
        self._marked: list[int] = []
        self._faked: deque[tuple[int, int]] = deque(maxlen=MOST)
        # Marks are requests that the server answers behind everything it had to report: how many were made,
        # seen in the events, and seen in the record.
        self._marks = self._marks_answered = self._marks_recorded = 0
        self._mark_time = 0
        self._held: set[int] = set()
        self.devices_changed = False
        try:
            self._input = _connect(name)
            self.is_xwayland = is_xwayland(self._input)
            self._real = real_devices(self._input)
            self._controls = set(self._input.get_modifier_mapping()[X.ControlMapIndex]) - {0}
            self._marker = self._listen()
            self._record_fakes(name)
            if not self.catch_up(BEGIN_S):
                raise Unwatched("The X server does not answer in time.")
        except LOST as error:
            raise Unwatched(f"The X server does not report the origin of input: {error}") from error

    def _listen(self) -> Any:
        if not self._input.has_extension(xinput.extname):
            raise Unwatched("The X server has no XInput extension.")
        opcode = self._input.display.get_extension_major(xinput.extname)
        # python-xlib's own method asks for 2.0, in which raw events name no source, and stop while another
        # client has grabbed the device.
        asked = {"opcode": opcode, "major_version": 2, "minor_version": 2}
        version = xinput.XIQueryVersion(display=self._input.display, **asked)
        if (version.major_version, version.minor_version) < (2, 1):
            raise Unwatched("The X server has no XInput 2.1.")
        root = self._input.screen().root
        root.xinput_select_events([(xinput.AllDevices, xinput.HierarchyChangedMask)])
        marker = root.create_window(
            0, 0, 1, 1, 0, X.CopyFromParent, X.InputOnly, event_mask=X.PropertyChangeMask
        )
        self.watch_keys(False)
        self._input.sync()
        return marker

    def _record_fakes(self, name: str | None) -> None:
        """Have the server report each use of XTEST, and each change of this recording."""
        if not self._input.has_extension("XTEST"):
            return
        if not self._input.has_extension("RECORD"):
            raise Unwatched("The X server has XTEST without RECORD.")
        majors = self._input.display.get_extension_major
        self._xtest, self._recorder = majors("XTEST"), majors(record.extname)
        ranges = [
            _record_range(self._xtest, _GET_VERSION, _FAKE_INPUT),
            _record_range(self._recorder, _REGISTER, _FREE),
        ]
        self._context = self._input.record_create_context(0, [record.AllClients], ranges)
        self._input.sync()
        # The record comes as replies to one request that does not end, over a connection of its own.
        self._record = _connect(name)
        arguments = {"opcode": self._recorder, "context": self._context}
        record.EnableContext(self._take_record, display=self._record.display, defer=True, **arguments)
        until = time.monotonic() + BEGIN_S
        while not self._recording:
            self._record.pending_events()
            if not self._recording and not _ready([self._record.fileno()], until):
                raise Unwatched("The X server does not begin to record.")

    def close(self) -> None:
        """End the connections."""
        for connection in (self._record, self._input):
            if connection is not None:
                with contextlib.suppress(*LOST):  # it has ended already
                    connection.close()

    def sockets(self) -> Iterator[int]:
        """The descriptors on which something may come for `read`."""
        yield self._input.fileno()
        if self._record is not None:
            yield self._record.fileno()

    def watch_keys(self, wanted: bool) -> None:
        """Follow keys as well as buttons."""
        self._held.clear()
        # Of all masters: each event comes once then, and names the device that made it as its source.
        mask = _BUTTONS | _KEYS if wanted else _BUTTONS
        self._input.screen().root.xinput_select_events([(xinput.AllMasterDevices, mask)])
        self._input.flush()

    # Reading

    def read(self) -> None:
        """Take what has come, without waiting.

        Raises:
            XError, DisplayError, ConnectionClosedError, OSError: the server is lost.
        """
        while self._input.pending_events():
            self._take(self._input.next_event())
        if self._record is not None:
            self._record.pending_events()

    def _take(self, event: Any) -> None:
        if event.type == X.PropertyNotify:
            self._marks_answered += 1
            self._mark_time = event.time
        elif event.type == ge.GenericEventCode:
            if event.evtype == xinput.HierarchyChanged:
                # Numbers of devices are given out again: none is known until `know_devices`.
                self._real = frozenset()
                self.devices_changed = True
            elif event.evtype in _KINDS:
                self._take_stroke(_KINDS[event.evtype], event.data)

    def _take_stroke(self, kind: StrokeKind, data: bytes) -> None:
        _device, at, detail, source = _RAW_EVENT.unpack_from(data)
        is_real = source in self._real
        control = not self._controls.isdisjoint(self._held)
        if kind == "key up":
            self._held.discard(detail)
        elif kind == "key down" and is_real:
            self._held.add(detail)
        # A button's number is left out: raw events have the physical one, which may be mapped to another.
        keycode = detail if kind in ("key down", "key up") else 0
        self._strokes.append(RawStroke(kind, at, keycode, is_real, control))

    def _take_record(self, answer: Any) -> None:
        """Take a part of the record: requests that one client made, one after the other."""
        if answer.category == record.StartOfData:
            self._recording = True
        elif answer.category == record.EndOfData:
            self._recording = False
        elif answer.category == record.FromClient:
            requests = list(_requests(bytes(answer.data)))
            if answer.id_base == self._input.display.info.resource_id_base:
                self._marks_recorded += len(requests)
                self._marked += self._faking
                self._faking = []
            # Requests of a client with the other byte order are not read.
            elif answer.client_swapped or any(map(self._changes_recording, requests)):
                log.warning("another program changes what this window records: input is synthetic")
                self._recording = False
            elif any(map(_names_a_device, requests)):
                self._faking.append(answer.server_time)

    def _changes_recording(self, request: bytes) -> bool:
        at = int.from_bytes(request[4:8], sys.byteorder)
        return request[0] == self._recorder and at == self._context and request[1] != _GET_CONTEXT

    def know_devices(self, real: frozenset[int]) -> None:
        """Take over which devices are real, after `devices_changed`."""
        self._real = real

    # Judging

    def catch_up(self, seconds: float = LATEST_S) -> bool:
        """Read everything that the server had to report before this call.

        Returns False when it does not answer within `seconds`, or no longer records.

        Raises:
            XError, DisplayError, ConnectionClosedError, OSError: the server is lost.
        """
        self._marks += 1
        if self._record is not None:
            # A use of XTEST: it stands in the record, behind all requests before it.
            xtest.GetVersion(
                display=self._input.display, opcode=self._xtest, major_version=2, minor_version=2, defer=True
            )
        # Its event stands behind all other events, and has a time that is later than the record's mark.
        self._marker.change_property(Xatom.WM_NAME, Xatom.STRING, 8, b"")
        until = time.monotonic() + seconds
        while True:
            self.read()
            if self._record is not None and not self._recording:
                return False
            recorded = self._record is None or self._marks_recorded >= self._marks
            if recorded and self._marks_answered >= self._marks:
                self._faked.extend((began, self._mark_time) for began in self._marked)
                self._marked = []
                return True
            if not _ready(self.sockets(), until):
                return False

    def hand_of(self, stroke: Stroke) -> InputOrigin:
        """The origin of an event, from what was read before."""
        at = stroke.time_ms % _TIMES
        raw = [
            known
            for known in self._strokes
            if (known.kind, known.time_ms, known.keycode) == (stroke.kind, at, stroke.keycode)
        ]
        if not raw or not all(known.is_real for known in raw) or self._was_faked(at):
            return InputOrigin.SYNTHETIC
        # Ctrl may be latched, or held by a program until a hand presses the rest of a chord.
        if stroke.keycode and stroke.control and not all(known.control for known in raw):
            return InputOrigin.SYNTHETIC
        return InputOrigin.REAL

    def _was_faked(self, at: int) -> bool:
        if any((at - began) % _TIMES <= (ended - began) % _TIMES for began, ended in self._faked):
            return True
        # When older spans were forgotten, what was pressed before the oldest that is left is not known.
        return len(self._faked) == MOST and (self._faked[0][0] - at) % _TIMES < _TIMES // 2


def real_devices(connection: Any) -> frozenset[int]:
    """The numbers of the devices that are not XTEST's. Waits for the server."""
    mark = connection.intern_atom("XTEST Device")
    real = set()
    for device in connection.xinput_query_device(xinput.AllDevices).devices:
        if device.use in (xinput.SlavePointer, xinput.SlaveKeyboard):
            value = connection.xinput_get_device_property(device.deviceid, mark, X.AnyPropertyType, 0, 1)
            if value.type == X.NONE:
                real.add(device.deviceid)
    return frozenset(real)


def real_devices_of(name: str | None = None) -> frozenset[int]:
    """As `real_devices`, over a connection of its own.

    Raises:
        XError, DisplayError, ConnectionClosedError, OSError: the server is lost.
    """
    connection = _connect(name)
    try:
        return real_devices(connection)
    finally:
        connection.close()


def _connect(name: str | None) -> Any:
    connection = connect(name)
    # python-xlib prints errors of requests that nothing waits for; a refused selection is noticed anyway, by
    # events that do not come.
    connection.set_error_handler(lambda error, _request: log.debug("the X server refuses", error=str(error)))
    return connection


def _ready(sockets: Iterable[int], until: float) -> bool:
    """Wait until a socket can be read; False when none can before `until`, in seconds of `time.monotonic`."""
    left = until - time.monotonic()
    return left > 0 and bool(select.select(list(sockets), [], [], left)[0])


def _record_range(major: int, first: int, last: int) -> dict[str, Any]:
    """A RECORD range of one extension's requests, from one minor opcode to another."""
    nothing = ("core_requests", "core_replies", "delivered_events", "device_events", "errors")
    return {
        **dict.fromkeys(nothing, (0, 0)),
        "ext_requests": (major, major, first, last),
        "ext_replies": (0, 0, 0, 0),
        "client_started": False,
        "client_died": False,
    }


def _requests(recorded: bytes) -> Iterator[bytes]:
    """The requests in a part of the record; the whole rest, where a length makes no sense."""
    place = 0
    while place < len(recorded):
        length = 4 * int.from_bytes(recorded[place + 2 : place + 4], sys.byteorder)
        end = place + length if length >= 8 else len(recorded)
        yield recorded[place:end]
        place = end


def _names_a_device(request: bytes) -> bool:
    """Whether an XTEST request makes input in the name of a device; a malformed one counts as such."""
    if len(request) == 8 and request[1] != _FAKE_INPUT:
        return False
    malformed = len(request) < 36 or len(request) % 4 != 0
    return malformed or request[4] & 0x7F >= _FIRST_EXTENSION_EVENT

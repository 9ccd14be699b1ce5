"""What an X server tells of the origin of input, read over connections of its own; knows no Qt.

Three things are told, each by another part of the server:

- **which device** made an event: XInput 2's raw events name it. What XTEST makes comes from a device with the
  property "XTEST Device", one beside each pointer and each keyboard; the accessibility registry's clicks and
  keys, xdotool and x11vnc use it.
- **who used XTEST**: its older form lets a program name a real device as the source, and the raw event then
  says so. The RECORD extension shows the requests that do this; a server has both extensions or neither.
- **which devices there are**: an event of one that is not known yet counts as made by a program.

Sources: The X Input Extension 2.4 (XI2proto.txt), X Test Extension 2.2, Record Extension 1.13.
"""

from __future__ import annotations

import select
import struct
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog
from Xlib import X, Xatom, display
from Xlib.error import ConnectionClosedError, DisplayError, XError
from Xlib.ext import ge, record, xinput, xtest

from app.hand import Hand, Stroke, StrokeKind

log = structlog.get_logger(__name__)

# What a lost or refused connection raises.
LOST = (XError, DisplayError, ConnectionClosedError, OSError)
# The server answers within 0.1 ms (measured); one that takes this long is not waited for.
LATEST_S = 0.25
BEGIN_S = 2.0
# More strokes than a hand makes while the window's loop is busy. What fell out counts as made by a program.
MOST = 256

_RAW_TOUCH_BEGIN, _RAW_TOUCH_END = 22, 24  # python-xlib has no names for them
_KINDS: dict[int, StrokeKind] = {
    xinput.RawButtonPress: "button down",
    xinput.RawButtonRelease: "button up",
    # Qt makes a button's press of a touch, with the time of the touch.
    _RAW_TOUCH_BEGIN: "button down",
    _RAW_TOUCH_END: "button up",
    xinput.RawKeyPress: "key down",
    xinput.RawKeyRelease: "key up",
}
_KEYS = xinput.RawKeyPressMask | xinput.RawKeyReleaseMask
_BUTTONS = (
    xinput.RawButtonPressMask | xinput.RawButtonReleaseMask | 1 << _RAW_TOUCH_BEGIN | 1 << _RAW_TOUCH_END
)
_RAW_EVENT = struct.Struct("=HIIH")  # device, time, detail, source; the first four fields of xXIRawEvent
_GET_VERSION, _FAKE_INPUT = 0, 2  # minor opcodes of XTEST
_FIRST_EXTENSION_EVENT = 64
_TIMES = 1 << 32  # the server's time wraps around


class Unwatched(Exception):
    """The server cannot tell who makes input; says why."""


@dataclass(frozen=True, slots=True)
class RawStroke:
    """One press or release as the server saw it; `control` is whether a real device held Ctrl then."""

    kind: StrokeKind
    time_ms: int
    keycode: int
    is_real: bool
    control: bool


class XWatch:
    """Follows the raw input of one display. Not thread-safe; everything but the constructor is quick.

    `watch_keys` is off at first: key presses are only asked for while the window is in front, since the
    server tells them of all windows.
    """

    def __init__(self, name: str | None = None) -> None:
        """Connect to the display `name`, else to the one in `DISPLAY`. Blocks: call it in a thread.

        Raises:
            Unwatched: the server has no XInput 2.1, or refuses.
        """
        try:
            self._input = display.Display(name)
            self._record: Any = None
            self._recording = False
            self._strokes: deque[RawStroke] = deque(maxlen=MOST)
            # Spans of the server's time, in milliseconds, in which XTEST was used in the name of a device. A
            # part of the record tells when it began; what is in it was done before our next mark. Those that
            # have no end yet stand in two lists of their own: behind that mark, and before it.
            self._faking: list[int] = []
            self._marked: list[int] = []
            self._faked: deque[tuple[int, int]] = deque(maxlen=MOST)
            self._mark_time = 0
            self._held: set[int] = set()
            # How often the server was asked to answer behind everything it had to tell, and what came of it.
            self._asked = self._answered = self._recorded = 0
            self.devices_changed = False
            self._real = real_devices(self._input)
            self._controls = set(self._input.get_modifier_mapping()[X.ControlMapIndex]) - {0}
            self._marker = self._listen()
            self._listen_for_fakes(name)
            if not self.catch_up():
                raise Unwatched("The X server does not answer in time.")
        except LOST as error:
            raise Unwatched(f"The X server does not tell who makes input: {error}") from error

    def _listen(self) -> Any:
        if not self._input.has_extension(xinput.extname):
            raise Unwatched("The X server has no XInput extension.")
        opcode = self._input.display.get_extension_major(xinput.extname)
        # python-xlib's own method asks for 2.0, in which raw events name no source and stop while another
        # client has the device to itself.
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

    def _listen_for_fakes(self, name: str | None) -> None:
        """Have the server report each use of XTEST."""
        if not self._input.has_extension("XTEST"):
            return
        if not self._input.has_extension("RECORD"):
            raise Unwatched("The X server has XTEST without RECORD.")
        self._xtest = self._input.display.get_extension_major("XTEST")
        nothing = dict.fromkeys(
            ("core_requests", "core_replies", "delivered_events", "device_events"), (0, 0)
        )
        wanted = {
            **nothing,
            "ext_requests": (self._xtest, self._xtest, _GET_VERSION, _FAKE_INPUT),
            "ext_replies": (0, 0, 0, 0),
            "errors": (0, 0),
            "client_started": False,
            "client_died": False,
        }
        context = self._input.record_create_context(0, [record.AllClients], [wanted])
        self._input.sync()
        # What is recorded comes as answers to one request that does not end, over a connection of its own.
        self._record = display.Display(name)
        opcode = self._record.display.get_extension_major(record.extname)
        arguments = {"display": self._record.display, "opcode": opcode, "context": context}
        record.EnableContext(callback=self._take_record, defer=True, **arguments)
        until = time.monotonic() + BEGIN_S
        while not self._recording:
            self._record.pending_events()
            if not self._recording and not _ready([self._record.fileno()], until):
                raise Unwatched("The X server does not begin to record.")

    def close(self) -> None:
        """End the connections."""
        for connection in (self._record, self._input):
            if connection is not None:
                # One that is lost already says so.
                try:
                    connection.close()
                except LOST:
                    log.debug("a connection to the X server was lost before its end")

    def sockets(self) -> Iterator[int]:
        """The descriptors on which something may come; `read` takes it."""
        yield self._input.fileno()
        if self._record is not None:
            yield self._record.fileno()

    def watch_keys(self, wanted: bool) -> None:
        """Follow keys, or buttons alone."""
        self._held.clear()
        # Of all masters: then each event comes once, and under the name of the device that made it.
        mask = _BUTTONS | _KEYS if wanted else _BUTTONS
        self._input.screen().root.xinput_select_events([(xinput.AllMasterDevices, mask)])
        self._input.flush()

    # Reading

    def read(self) -> None:
        """Take what has come; waits for nothing.

        Raises:
            XError, DisplayError, ConnectionClosedError, OSError: the server is lost.
        """
        while self._input.pending_events():
            self._take(self._input.next_event())
        if self._record is not None:
            self._record.pending_events()

    def _take(self, event: Any) -> None:
        if event.type == X.PropertyNotify:
            self._answered += 1
            self._mark_time = event.time
        elif event.type == ge.GenericEventCode:
            if event.evtype == xinput.HierarchyChanged:
                # Numbers of devices are given anew: none is known until they were asked for again.
                self._real = frozenset()
                self.devices_changed = True
            elif event.evtype in _KINDS:
                self._take_stroke(_KINDS[event.evtype], event.data)

    def _take_stroke(self, kind: StrokeKind, data: bytes) -> None:
        _device, at, detail, source = _RAW_EVENT.unpack_from(data)
        is_key = kind in ("key down", "key up")
        is_real = source in self._real
        control = not self._controls.isdisjoint(self._held)
        if is_key and kind == "key up":
            self._held.discard(detail)
        elif is_key and is_real:
            self._held.add(detail)
        self._strokes.append(RawStroke(kind, at, detail if is_key else 0, is_real, control))

    def _take_record(self, answer: Any) -> None:
        """A part of the record: requests of one client, one after the other."""
        if answer.category == record.StartOfData:
            self._recording = True
        if answer.category != record.FromClient:
            return
        requests = bytes(answer.data)
        if answer.id_base == self._input.display.info.resource_id_base:
            self._recorded += len(list(_requests(requests)))
            self._marked += self._faking
            self._faking = []
        # A client of the other byte order does not work at this desk.
        elif answer.client_swapped or any(map(_names_a_device, _requests(requests))):
            self._faking.append(answer.server_time)

    def know_devices(self, real: frozenset[int]) -> None:
        """Take over which devices are real, as `real_devices` told after they had changed."""
        self._real = real

    # Telling

    def catch_up(self, seconds: float = LATEST_S) -> bool:
        """Read everything that the server had to tell before now; False when it does not answer in time.

        Raises:
            XError, DisplayError, ConnectionClosedError, OSError: the server is lost.
        """
        self._asked += 1
        if self._record is not None:
            # Each of our own uses of XTEST stands in the record, behind all that came before it.
            xtest.GetVersion(
                display=self._input.display, opcode=self._xtest, major_version=2, minor_version=2, defer=True
            )
        # The answer to this stands behind all events, and tells the server's time after both.
        self._marker.change_property(Xatom.WM_NAME, Xatom.STRING, 8, b"")
        until = time.monotonic() + seconds
        while True:
            self.read()
            if self._answered >= self._asked and (self._record is None or self._recorded >= self._asked):
                self._faked.extend((began, self._mark_time) for began in self._marked)
                self._marked = []
                return True
            if not _ready(self.sockets(), until):
                return False

    def hand_of(self, stroke: Stroke) -> Hand:
        """By whom this event was made; as far as was read by now."""
        same = [
            one
            for one in self._strokes
            if (one.kind, one.time_ms, one.keycode) == (stroke.kind, stroke.time_ms % _TIMES, stroke.keycode)
        ]
        if not same or not all(one.is_real for one in same) or self._was_faked(stroke.time_ms):
            return Hand.SYNTHETIC
        # Ctrl may be latched, or held by a program that waits until a hand presses the rest of the chord.
        if stroke.control and stroke.keycode and not all(one.control for one in same):
            return Hand.SYNTHETIC
        return Hand.REAL

    def _was_faked(self, at: int) -> bool:
        if any((at - began) % _TIMES <= (ended - began) % _TIMES for began, ended in self._faked):
            return True
        # So many that the first of them are forgotten.
        return len(self._faked) == MOST and (self._faked[0][0] - at) % _TIMES < _TIMES // 2


def real_devices(connection: Any) -> frozenset[int]:
    """The numbers of the devices that are none of XTEST's. Waits for the server."""
    mark = connection.intern_atom("XTEST Device")
    real = set()
    for device in connection.xinput_query_device(xinput.AllDevices).devices:
        if device.use in (xinput.SlavePointer, xinput.SlaveKeyboard):
            told = connection.xinput_get_device_property(device.deviceid, mark, X.AnyPropertyType, 0, 1)
            if told.type == X.NONE:
                real.add(device.deviceid)
    return frozenset(real)


def real_devices_of(name: str | None = None) -> frozenset[int]:
    """As `real_devices`, over a connection of its own; for a thread.

    Raises:
        XError, DisplayError, ConnectionClosedError, OSError: the server is lost.
    """
    connection = display.Display(name)
    try:
        return real_devices(connection)
    finally:
        connection.close()


def _ready(sockets: Iterable[int], until: float) -> bool:
    """Wait until one of them can be read; False when none can by then, in seconds of the monotonic clock."""
    left = until - time.monotonic()
    return left > 0 and bool(select.select(list(sockets), [], [], left)[0])


def _requests(recorded: bytes) -> Iterator[bytes]:
    """The single requests of a recorded part; the rest as it is where they are not as they should be."""
    place = 0
    while place < len(recorded):
        length = 4 * int.from_bytes(recorded[place + 2 : place + 4], sys.byteorder)
        yield recorded[place : place + length if length >= 8 else len(recorded)]
        place += length if length >= 8 else len(recorded)


def _names_a_device(request: bytes) -> bool:
    """Whether an XTEST request makes input in the name of a device; one that is odd is taken for it."""
    if len(request) == 8 and request[1] == _GET_VERSION:
        return False
    odd = len(request) < 36 or len(request) % 4
    return bool(odd) or request[4] & 0x7F >= _FIRST_EXTENSION_EVENT

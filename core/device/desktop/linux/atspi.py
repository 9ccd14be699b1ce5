"""A client of the accessibility bus, found through the session bus; calls are bounded in time and number."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbus_fast import BusType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.errors import DBusFastError

from core.device.desktop.interface import Unavailability, stale
from core.device.desktop.linux.atspi_constants import (
    ACCESSIBLE,
    ANSWERS,
    APPLICATION,
    MAY_WAIT,
    PROPERTIES,
    PROPERTY_TYPES,
    SOMETIMES_LOST,
)
from core.errors import DeviceError, ErrorCode

CALL_S = 1.0
_CONNECT_S = 4.0
# Toolkits answer calls in sequence, so more concurrent calls would only delay the last answer.
_AT_ONCE = 32
# How long, in seconds, a hung program or an unreachable bus is not called again.
_LEFT_ALONE_S = 2.0
# How long, in seconds, a call is not repeated that a program left unanswered while it answered others.
_DEAF_S = 60.0
_REMEMBERED = 256
# Most objects have paths of this form; an id has it in short, because a tree has hundreds of ids.
_USUAL_PATH, _SHORT_PATH = "/org/a11y/atspi/accessible/", "~"
_ID = re.compile(r"at-(?P<mark>[0-9A-Za-z]*)(?P<bus>:[0-9]+\.[0-9]+)(?P<path>[~/][0-9A-Za-z_/]*)")
_GONE = (
    "org.freedesktop.DBus.Error.UnknownObject",
    "org.freedesktop.DBus.Error.ServiceUnknown",
    "org.freedesktop.DBus.Error.NameHasNoOwner",
    "org.freedesktop.DBus.Error.NoReply",
    "org.freedesktop.DBus.Error.Disconnected",
)
# The bus says so of calls that the program had and did not answer before it left the bus.
_ENDED = ("org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Disconnected")
NO_BUS = Unavailability(
    "The accessibility bus cannot be reached",
    "Install at-spi2-core, run the device client inside the desktop session (it needs "
    "DBUS_SESSION_BUS_ADDRESS), and start programs again that were running before",
)


class Silent(Exception):
    """A program did not answer in time; `was_sent` is false where it was not called, because it hangs."""

    def __init__(self, name: str, *, was_sent: bool = True) -> None:
        super().__init__(name)
        self.name = name
        self.was_sent = was_sent


class Gone(Exception):
    """The object or its program does not exist any more.

    `was_sent`: the program ended while it had the call, which it may have carried out.
    """

    def __init__(self, name: str, *, was_sent: bool = False) -> None:
        super().__init__(name)
        self.was_sent = was_sent


class NotSupported(Exception):
    """The program has the object but does not support the call."""


@dataclass(frozen=True, slots=True)
class Ref:
    """An accessible object: the program's unique name on the bus, and a path in it."""

    bus: str
    path: str


_DAEMON = Ref("org.freedesktop.DBus", "/org/freedesktop/DBus")


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A program's GUI toolkit, in lower case, and its version."""

    name: str = ""
    version: str = ""

    def is_gtk(self, major: int) -> bool:
        """Whether it is GTK of that major version."""
        return self.name == "gtk" and self.version.startswith(f"{major}.")


def session_bus_address() -> str | None:
    """The address of the session bus; None where there is none."""
    if address := os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
        return address
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and (Path(runtime) / "bus").exists():
        return f"unix:path={runtime}/bus"
    return None


async def _ask(bus: MessageBus, message: Message, seconds: float) -> list[Any]:
    async with asyncio.timeout(seconds):
        reply = await bus.call(message)
    if reply.message_type is MessageType.ERROR:
        if reply.error_name in _GONE:
            raise Gone(reply.error_name, was_sent=reply.error_name in _ENDED)
        raise NotSupported(f"{reply.error_name}: {reply.body}")
    # A program may send an answer of the wrong type, which must not break the reading of other programs.
    wanted = ANSWERS.get(str(message.member), reply.signature)
    if reply.signature != wanted:
        raise NotSupported(f"{message.member} was answered with {reply.signature!r}, not {wanted!r}")
    return list(reply.body)


async def find_bus(seconds: float = _CONNECT_S) -> str:
    """Ask the session bus for the accessibility bus, and enable accessibility in programs.

    Raises:
        DeviceError: there is no accessibility bus.
    """
    address = session_bus_address()
    if address is None:
        raise NO_BUS.error()
    session = MessageBus(bus_address=address, bus_type=BusType.SESSION)
    try:
        async with asyncio.timeout(seconds):
            await session.connect()
            where = Message("org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress")
            (found,) = await _ask(session, where, seconds)
            # Programs that watch this setting build their trees only while it is on. It stays on, because
            # switching it off would break a screen reader that was started meanwhile.
            told = ["org.a11y.Status", "IsEnabled", Variant("b", True)]
            enable = Message("org.a11y.Bus", "/org/a11y/bus", PROPERTIES, "Set", signature="ssv", body=told)
            await _ask(session, enable, seconds)
    except (OSError, TimeoutError, DBusFastError, EOFError, Gone, NotSupported, ValueError) as error:
        raise DeviceError(
            f"{NO_BUS.reason}: {type(error).__name__} {error}. {NO_BUS.how_to_fix}.", ErrorCode.TOOL_FAILED
        ) from error
    finally:
        if session.connected:
            session.disconnect()
    return str(found)


class AccessibilityBus:
    """A connection to the accessibility bus, opened when first needed and again after it is lost."""

    def __init__(self) -> None:
        self._bus: MessageBus | None = None
        self._connecting = asyncio.Lock()
        self._mark = ""
        self._slots: OrderedDict[str, asyncio.Semaphore] = OrderedDict()
        self._hung: dict[str, float] = {}
        self._deaf: dict[tuple[str, str], float] = {}
        self._failed_until = 0.0
        self._toolkits: OrderedDict[str, Toolkit] = OrderedDict()

    async def connect(self) -> None:
        """Connect, unless already connected.

        Raises:
            DeviceError: the bus cannot be reached.
        """
        async with self._connecting:
            if self._bus is not None and self._bus.connected:
                return
            if time.monotonic() < self._failed_until:
                raise NO_BUS.error()
            # Set before the attempt and cleared by success: a hung bus must not cost its time-out with each
            # call.
            self._failed_until = time.monotonic() + _LEFT_ALONE_S
            address = await find_bus()
            bus = MessageBus(bus_address=address)
            try:
                async with asyncio.timeout(_CONNECT_S):
                    await bus.connect()
            except (OSError, TimeoutError, DBusFastError, EOFError) as error:
                raise NO_BUS.error() from error
            self._bus, self._failed_until = bus, 0.0
            self._toolkits.clear()
            # The id of the bus: names such as :1.7 recur on another bus and then mean another program.
            _, _, guid = address.partition("guid=")
            self._mark = re.sub("[^0-9A-Za-z]", "", guid or address[-8:])[:8]

    def id_of(self, ref: Ref) -> str:
        """An opaque id for a reference, valid for the life of the object."""
        path = ref.path
        if path.startswith(_USUAL_PATH):
            path = _SHORT_PATH + path.removeprefix(_USUAL_PATH)
        return f"at-{self._mark}{ref.bus}{path}"

    def ref_of(self, control_id: str) -> Ref:
        """The reference for an id.

        Raises:
            DeviceError: the id is not of this bus (code `stale_observation`).
        """
        fit = _ID.fullmatch(control_id)
        if fit is None or fit["mark"] != self._mark:
            raise stale(f"The control {control_id[:60]}")
        path = fit["path"]
        if path.startswith(_SHORT_PATH):
            path = _USUAL_PATH + path.removeprefix(_SHORT_PATH)
        return Ref(fit["bus"], path)

    async def call(
        self,
        ref: Ref,
        interface: str,
        member: str,
        signature: str = "",
        body: tuple[Any, ...] = (),
        seconds: float | None = None,
    ) -> list[Any]:
        """Call a method; without `seconds` the time-out is `CALL_S`.

        Raises:
            Silent: no answer in time.
            Gone: the object or its program does not exist.
            NotSupported: the object does not support the call.
        """
        bus = self._bus
        if bus is None or not bus.connected:
            raise Gone("the accessibility bus")
        if member in SOMETIMES_LOST and self._deaf.get((ref.bus, member), 0.0) > time.monotonic():
            raise NotSupported(f"{member} gets no answer")
        try:
            message = Message(ref.bus, ref.path, interface, member, signature=signature, body=list(body))
            async with self._slot(ref.bus):
                # Otherwise each queued call to a hung program would wait a full time-out of its own.
                if self._hung.get(ref.bus, 0.0) > time.monotonic():
                    raise Silent(ref.bus, was_sent=False)
                return await _ask(bus, message, CALL_S if seconds is None else seconds)
        except TimeoutError as error:
            if member in SOMETIMES_LOST and await self._answers(bus, ref):
                self._deaf[ref.bus, member] = time.monotonic() + _DEAF_S
                raise NotSupported(f"{member} gets no answer") from error
            if member in MAY_WAIT:
                # It may answer all other calls meanwhile.
                raise Silent(ref.bus) from error
            self._hung[ref.bus] = time.monotonic() + _LEFT_ALONE_S
            raise Silent(ref.bus) from error
        except (OSError, EOFError) as error:
            raise Gone("the accessibility bus") from error
        except (DBusFastError, TypeError) as error:
            raise NotSupported(str(error)) from error

    async def _answers(self, bus: MessageBus, ref: Ref) -> bool:
        """Whether a program that left a call unanswered answers any call."""
        try:
            await _ask(bus, Message(ref.bus, ref.path, ACCESSIBLE, "GetRole"), CALL_S)
        except (TimeoutError, OSError, EOFError, Gone, NotSupported):
            return False
        return True

    async def get(self, ref: Ref, interface: str, name: str) -> Any:
        """Read a property.

        Raises:
            Silent: no answer in time.
            Gone: the object or its program does not exist.
            NotSupported: the property does not exist or has another type.
        """
        (value,) = await self.call(ref, PROPERTIES, "Get", "ss", (interface, name))
        wanted = PROPERTY_TYPES[name]
        if value.signature != wanted:
            raise NotSupported(f"{name} is {value.signature!r}, not {wanted!r}")
        return value.value

    async def toolkit(self, root: Ref) -> Toolkit:
        """A program's toolkit; requested once, then cached.

        Raises:
            Silent: the program hangs.
            Gone: the program does not exist.
        """
        if (known := self._toolkits.get(root.bus)) is not None:
            return known
        try:
            name = await self.get(root, APPLICATION, "ToolkitName")
            version = await self.get(root, APPLICATION, "Version")
            found = Toolkit(str(name)[:40].lower(), str(version)[:40])
        except NotSupported:
            found = Toolkit()
        self._toolkits[root.bus] = found
        if len(self._toolkits) > _REMEMBERED:
            self._toolkits.popitem(last=False)
        return found

    async def unique_name(self, name: str) -> str:
        """The unique bus name of the program that owns a well-known name.

        Raises:
            Gone: no program owns it.
        """
        (found,) = await self.call(_DAEMON, "org.freedesktop.DBus", "GetNameOwner", "s", (name,))
        return str(found)

    async def process_id(self, bus_name: str) -> int:
        """The process id for a bus name; the bus itself answers, so this works for a hung program."""
        (found,) = await self.call(
            _DAEMON, "org.freedesktop.DBus", "GetConnectionUnixProcessID", "s", (bus_name,)
        )
        return int(found)

    def close(self) -> None:
        """Close the connection."""
        if self._bus is not None and self._bus.connected:
            self._bus.disconnect()
        self._bus = None

    def _slot(self, bus_name: str) -> asyncio.Semaphore:
        slot = self._slots.get(bus_name)
        if slot is None:
            slot = self._slots[bus_name] = asyncio.Semaphore(_AT_ONCE)
            if len(self._slots) > _REMEMBERED:
                self._slots.popitem(last=False)
        return slot

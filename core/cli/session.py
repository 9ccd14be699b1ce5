"""Console for one command: attached to the service that owns the home, else with the core in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from core.cli.output import note, one_line
from core.errors import DeviceError, ErrorCode, QuarterdeckError, ServiceError
from core.home import Home
from core.models.devices import Device, Health
from core.service.api.interface import Console
from core.service.rpc.client import RemoteConsole
from core.service.rpc.transport import own_folder
from core.text import sentences
from core.user import user_name

if TYPE_CHECKING:
    from core.models.tools import Tool

BUSY_FOR = 3.0
# Seconds in which a service that ends has recorded what its runs came to, and released the home.
ENDS_WITHIN = 15.0
LOOK_AGAIN = 0.1
DEVICES_WITHIN = 15.0

_HERE = (Health.ONLINE, Health.BUSY)


@dataclass(slots=True)
class Session:
    """A console; `hosted` says whether this command itself runs the core behind it."""

    home: Home
    console: Console
    hosted: bool
    _ends: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def reconnect(self) -> None:
        """Attach again after the service has ended: to the next one, else with the core in this process.

        Raises:
            QuarterdeckError: as `open_session`.
        """
        again = await _begin(self._ends, self.home, False, None, ENDS_WITHIN)
        self.console, self.hosted = again.console, again.hosted


def actor() -> str:
    """The name of this command's caller in the journal."""
    return f"cli:{user_name()}"


@contextlib.asynccontextmanager
async def open_session(
    home: Home, wait_for_devices: bool = False, device: str | None = None
) -> AsyncIterator[Session]:
    """Attach to the home's service, or host the core for as long as the context lasts.

    `wait_for_devices` waits for local devices that are starting, and for `device` wherever it runs.

    Raises:
        ServiceError: another process owns the home and cannot be reached.
        QuarterdeckError: the home cannot be opened.
    """
    async with contextlib.AsyncExitStack() as ends:
        yield await _begin(ends, home, wait_for_devices, device)


async def _begin(
    ends: contextlib.AsyncExitStack,
    home: Home,
    wait_for_devices: bool,
    device: str | None,
    busy_for: float = BUSY_FOR,
) -> Session:
    deadline = asyncio.get_running_loop().time() + busy_for
    while True:
        try:
            remote = await RemoteConsole.connect(home, "cli", actor())
            ends.push_async_callback(remote.close)
            if wait_for_devices:
                await _until_devices_are_here(remote, device)
            return Session(home, remote, False, ends)
        except ServiceError as error:
            if error.code is not ErrorCode.SERVICE_UNAVAILABLE:
                raise
        if home.is_read_only:
            # Imported here: importing the whole core takes longer than an attached command.
            from core.service.read_only_console import read_only_console

            kept = await ends.enter_async_context(read_only_console(home, actor()))
            if kept.spooled:
                note(
                    f"{kept.spooled} entries that the service noted last are in journal.spool and not shown: "
                    "start a service on a copy that can be written, and its journal takes them over."
                )
            return Session(home, kept, False, ends)
        try:
            console = await _host(ends, home)
        except ServiceError as busy:
            if busy.code is ErrorCode.HOME_UNSAFE:
                raise
            # The home's owner may be a service that is starting, or a command that is ending.
            if asyncio.get_running_loop().time() >= deadline:
                many = "If that is another command: with quarterdeck service start, many work at once."
                raise ServiceError(sentences(busy.message, many), busy.code) from busy
            await asyncio.sleep(LOOK_AGAIN)
            continue
        if wait_for_devices:
            await _until_devices_are_here(console, device)
        return Session(home, console, True, ends)


async def _host(ends: contextlib.AsyncExitStack, home: Home) -> Console:
    """Open the core in this process until `ends` closes; it logs to the service's log file."""
    # Imported here: importing the whole core takes longer than an attached command.
    from core.service.local_console import LocalConsole
    from core.service.log_setup import logging_to
    from core.service.service import Service

    with contextlib.ExitStack() as log:
        own_folder(home.create())
        log.enter_context(logging_to(home.log))
        service = await Service.open(home)
        ends.callback(log.pop_all().close)
    ends.push_async_callback(service.close)
    return LocalConsole(service, actor())


async def must_be_here(session: Session, device: str) -> None:
    """Check that a device is online or busy; the tools of a device that has never connected are not known.

    Raises:
        DeviceError: the device is away; the message says why.
    """
    for one in await session.console.devices.match(""):
        if one.name == device and one.health not in _HERE:
            why = f": {one.reason}" if one.reason else ""
            raise DeviceError(sentences(f"{device} is {one.health.value}{why}"))


async def tool_of(session: Session, device: str, wanted: str) -> Tool:
    """The tool of a device with this name or key.

    Raises:
        BadInput: the device or the tool does not exist.
        DeviceError: the device is away, so its tools are not known.
    """
    # Imported here: a command that lists devices does without the models of tools.
    from core.models.tool_lookup import tool_named

    tools = await session.console.devices.tools(device)
    if (tool := tool_named(wanted, tools)) is not None:
        return tool
    if not tools:
        await must_be_here(session, device)
    # Says why, where the device could offer it.
    return (await session.console.devices.describe(device, wanted)).tool


async def _until_devices_are_here(console: Console, wanted: str | None) -> None:
    """Wait for devices that are starting: a core that has just been opened has no device yet."""
    if not _missing(await console.devices.match(""), wanted):
        return
    # Imported here: mostly every device is here, and no event is waited for.
    from core.service.api.events import DeviceChanged

    events = console.events()
    state = await console.service.state()
    age = (datetime.now(UTC) - datetime.fromisoformat(state.service_started_at)).total_seconds()
    missing = _missing(state.devices, wanted)
    try:
        if age >= DEVICES_WITHIN:
            # Long after the service's start, a missing device is not just starting.
            return
        async with asyncio.timeout(DEVICES_WITHIN - age):
            while missing:
                event = await anext(events)
                if isinstance(event, DeviceChanged) and event.device.health in _HERE:
                    missing.discard(event.device.name)
    except TimeoutError:
        note(f"Not online: {', '.join(map(one_line, sorted(missing)))}.")
    except (StopAsyncIteration, QuarterdeckError):
        return
    finally:
        if close := getattr(events, "aclose", None):
            await close()


def _missing(devices: list[Device], wanted: str | None) -> set[str]:
    """The devices to wait for. Remote devices are often away: only the requested one is waited for."""
    return {
        device.name
        for device in devices
        if device.health not in _HERE
        and device.paired
        and (device.direction == "local" or device.name == wanted)
    }

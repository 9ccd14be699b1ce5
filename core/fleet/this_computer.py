"""Runs this computer as a device: as a supervised device client process, or as tools in this process.

The process gets a one-time token on its standard input and dials the service's loopback listener. It ends
when its standard input closes, so it never outlives the service, however the service ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.extensions import Progress
from core.aip.link_events import Heartbeat, LateAnswer, RefusedAttempt
from core.aip.link_server import DeviceLinkServer
from core.backoff import Backoff
from core.commands.channel import LocalCommandDispatcher, WebSocketCommandDispatcher
from core.commands.permit import Gate
from core.device.config import CONFIG, DeviceConfig, config_text
from core.environment import without_secrets
from core.errors import BadInput, QuarterdeckError
from core.fleet.device_state import ConnectionInfo
from core.fleet.fleet import Fleet
from core.fleet.registration import own_process_arrival, read_unavailable
from core.log import Logger
from core.models.devices import Health, Unavailable
from core.own_console import OWN_CONSOLE
from core.tasks import TaskGroupOwner, set_within
from core.tokens import new_token

log = Logger(__name__)

NAME = "this-computer"
FIRST_DELAY = 0.2
LONGEST_DELAY = 10.0
JITTER = (0.8, 1.2)
# Seconds. A process that ran this long counts as healthy; its next end resets the restart delay.
WELL_AFTER = 30.0
POLITE = 3.0
PING_EVERY = 5.0
LOOK_EVERY = 2.0
MOST_WORDS = 300
# The device client's exit code for invalid input, usually a broken device.toml.
BAD_INPUT = 2
# Identifies a version of a file: inode, size and modification time; None without a file.
Stamp = tuple[int, int, int] | None


class ThisComputer:
    """Keeps the device `this-computer` online."""

    def __init__(
        self,
        fleet: Fleet,
        gate: Gate,
        state_dir: Path,
        closed_paths: list[Path],
        config: Callable[[], Awaitable[DeviceConfig]],
        tasks: TaskGroupOwner,
        on_progress: Callable[[str, Progress], None],
        on_refused: Callable[[RefusedAttempt], None],
        on_late: Callable[[str, LateAnswer], None],
        on_introduced: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`closed_paths`: paths that the device's file tools may never touch, such as the home itself.

        `config` returns the limits in force, or raises `BadInput` if device.toml is broken. The device never
        reads the file, which may be changed at any time. `on_introduced` is called when the device's process
        has connected and its tools are known.
        """
        self._tell_progress = on_progress
        self._on_refused = on_refused
        self._on_late = on_late
        self._on_introduced = on_introduced
        self._fleet = fleet
        self._gate = gate
        self._state_dir = state_dir
        self._closed_paths = closed_paths
        self._config = config
        self._tasks = tasks
        self._server: DeviceLinkServer | None = None
        self._token = ""
        self._process: asyncio.subprocess.Process | None = None
        self._channels: dict[DeviceLink, WebSocketCommandDispatcher] = {}
        # A `core.device.in_process.InProcessDevice`; typed `Any` because it is imported only when needed.
        self._in_process: Any = None
        self._ending = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The PID of the device client's process; None while it does not run."""
        return self._process.pid if self._process is not None else None

    @property
    def link(self) -> DeviceLink | None:
        """The present link to the device client's process."""
        return next(reversed(self._channels), None)

    async def start_in_process(self) -> None:
        """Offer the device client's tools from this process.

        While device.toml is broken, the device is offline with that reason; it is retried when the file
        changes.
        """
        stamp = self._stamp()
        if not await self._offer():
            self._tasks.spawn("wait for this computer's device.toml", self._offer_when_changed(stamp))

    async def _offer_when_changed(self, stamp: Stamp) -> None:
        offered = False
        while not offered:
            await self._changed_since(stamp)
            if self._ending.is_set():
                return
            stamp = self._stamp()
            try:
                offered = await self._offer()
            except QuarterdeckError as error:
                self._wait_offline(error.message)

    async def _offer(self) -> bool:
        """Bring the tools online; False when device.toml is broken."""
        # Imported here: the service needs the device's code only if it runs in this process.
        from core.device.build import build_router_aside
        from core.device.in_process import FEATURES, InProcessDevice, Told

        try:
            config = (await self._config()).closing(*self._closed_paths)
        except BadInput as error:
            self._wait_offline(error.message)
            return False
        if self._in_process is not None:
            await self._in_process.close()
        router = await build_router_aside(config, self._state_dir, NAME)
        events = Told(
            on_progress=lambda progress: self._tell_progress(NAME, progress),
            on_load=lambda load: self._fleet.measured(NAME, load.cpu_percent, load.memory_percent, None),
            on_changed=lambda: self._list_again(_unavailable_in(router.unavailable)),
        )
        self._in_process = InProcessDevice(router, events)
        arrival = ConnectionInfo(
            channel=LocalCommandDispatcher(NAME, self._in_process, self._gate),
            kind="in-process",
            platform=sys.platform,
            system=_system(),
            client="in this process",
            unavailable=_unavailable_in(router.unavailable),
            roots=list(config.roots),
            features=sorted(FEATURES),
            approvers=router.approvers,
            own_computer=True,
            shares_disk=True,
        )
        before = router.tools(), router.unavailable
        await self._fleet.arrived(NAME, arrival)
        self._in_process.start()
        if (router.tools(), router.unavailable) != before:
            # Hosted servers may have started meanwhile, after the tools were listed.
            router.announce()
        return True

    async def start_process(self) -> None:
        """Listen on loopback and start the device client's process, which then connects."""
        self._server = DeviceLinkServer(
            self._authorise,
            LinkEvents(
                on_connected=self._connected,
                on_lost=self._lost,
                on_refused=self._on_refused,
                on_late=lambda link, late: self._on_late(NAME, late),
                on_progress=lambda link, progress: self._tell_progress(NAME, progress),
                on_heartbeat=self._heartbeat,
                on_tools_changed=self._tools_changed,
            ),
        )
        await self._server.start()
        self._tasks.spawn("keep this computer's device client alive", self._keep_alive())

    async def close(self) -> None:
        """End the process, or the in-process tools, with all their children."""
        self._ending.set()
        await self._end_process()
        if self._server is not None:
            await self._server.close()
        if self._in_process is not None:
            await self._in_process.close()

    def _stamp(self) -> Stamp:
        try:
            status = (self._state_dir / CONFIG).stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    async def _changed_since(self, stamp: Stamp) -> None:
        """Wait until device.toml changes or the service ends."""
        while self._stamp() == stamp and not self._ending.is_set():
            await set_within(self._ending, LOOK_EVERY)

    def _wait_offline(self, why: str) -> None:
        self._fleet.lost(NAME, None, f"{why.rstrip('.')}; waits until {CONFIG} changes", Health.OFFLINE)

    def _authorise(self, token: str | None) -> str | None:
        expected, offered = self._token, token or ""
        if expected and secrets.compare_digest(expected.encode(), offered.encode()):
            # Single use: a second connection with this token is not from the process that was given it.
            self._token = ""
            return NAME
        return None

    async def _keep_alive(self) -> None:
        restarts = 0
        backoff = Backoff(FIRST_DELAY, LONGEST_DELAY, jitter=JITTER, healthy_after=WELL_AFTER)
        while not self._ending.is_set():
            backoff.begin()
            stamp = self._stamp()
            code, last_words = await self._run_once()
            if self._ending.is_set():
                return
            if code == BAD_INPUT and stamp is not None:
                # The unchanged file would end the process again.
                self._wait_offline(last_words)
                await self._changed_since(stamp)
                backoff.reset()
                continue
            ended = _how_it_ended(code, last_words)
            if backoff.healthy:
                backoff.reset()
            backoff.fail()
            restarts += 1
            wait = backoff.wait()
            self._fleet.restarting(NAME, restarts, f"{ended}; start {restarts + 1} in {wait:.1f} s")
            await asyncio.sleep(wait)

    async def _run_once(self) -> tuple[int | None, str]:
        """Run the process until it ends; returns its exit code (None: not started) and the reason as text."""
        assert self._server is not None
        try:
            config = await self._config()
        except BadInput as error:
            return BAD_INPUT, error.message
        self._token = new_token()
        # -P: keeps the current folder, which other users may control, from providing another `core` package.
        command = [sys.executable, "-P", "-m", "core.device", "--connect", self._server.url, "--name", NAME]
        command += ["--token-stdin", "--state", str(self._state_dir)]
        command += ["--config-stdin"]
        for path in self._closed_paths:
            command += ["--closed", str(path)]
        environment = {**without_secrets(), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                start_new_session=True,
                creationflags=OWN_CONSOLE,
            )
        except OSError as error:
            return None, f"its process cannot be started ({error.strerror})"
        self._process = process
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(self._token.encode() + b"\n" + config_text(config).encode() + b"\n")
                await process.stdin.drain()
            last_words = await _follow(process)
            code = await process.wait()
        finally:
            self._process = None
        return code, _in_words(last_words)

    async def _end_process(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        if sys.platform != "win32":
            # On Windows this would kill it at once; there the end of its input is all that asks it to end.
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        try:
            await asyncio.wait_for(process.wait(), POLITE)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await asyncio.wait_for(process.wait(), POLITE)

    def _connected(self, link: DeviceLink) -> None:
        channel = WebSocketCommandDispatcher(NAME, link, self._gate)
        self._channels[link] = channel
        self._tasks.spawn("list this computer's tools", self._introduce(link, channel))

    async def _introduce(self, link: DeviceLink, channel: WebSocketCommandDispatcher) -> None:
        try:
            # No other process was given the token, so the link is from the client that this service started.
            arrival = own_process_arrival(link, channel, _system())
            await self._fleet.arrived(NAME, arrival, lambda: link in self._channels)
        except QuarterdeckError as error:
            self._fleet.lost(NAME, channel, error.message, Health.OFFLINE)
            return
        self._on_introduced(NAME)
        while link in self._channels:
            try:
                self._fleet.heard(NAME, await link.ping() * 1000)
            except QuarterdeckError:
                return  # `_lost` handles the end of the link
            await asyncio.sleep(PING_EVERY)

    def _heartbeat(self, link: DeviceLink, beat: Heartbeat) -> None:
        if beat.metrics is not None and link in self._channels:
            self._fleet.measured(NAME, beat.metrics.cpu_percent, beat.metrics.memory_percent, None)

    def _tools_changed(self, link: DeviceLink) -> None:
        if link in self._channels:
            unavailable = own_process_arrival(link, self._channels[link], "").unavailable
            self._tasks.spawn("list this computer's tools again", self._list_again(unavailable))

    async def _list_again(self, unavailable: list[Unavailable]) -> None:
        try:
            await self._fleet.relist(NAME, unavailable)
        except QuarterdeckError as error:
            log.warning("the tools could not be listed again", problem=error.message)

    def _lost(self, link: DeviceLink, reason: str) -> None:
        channel = self._channels.pop(link, None)
        health = Health.OFFLINE if self._ending.is_set() else Health.RECONNECTING
        self._fleet.lost(NAME, channel, reason, health)


def _unavailable_in(rows: Iterable[Any]) -> list[Unavailable]:
    """The in-process device's unavailable tools, read like a report over a link."""
    return read_unavailable([asdict(row) for row in rows])


async def _follow(process: asyncio.subprocess.Process) -> str:
    """Forward the process's log line by line; returns the last line."""
    assert process.stderr is not None
    last = ""
    while True:
        try:
            line = await process.stderr.readline()
        except ValueError:  # a line beyond the reader's limit was discarded
            continue
        if not line:
            return last
        last = line.decode("utf-8", "replace").rstrip()
        log.info("device client", says=last)


def _in_words(line: str) -> str:
    """A line of the process's log as readable text."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line.removeprefix("quarterdeck-device: ")[:MOST_WORDS]
    if not isinstance(entry, dict):
        return line[:MOST_WORDS]
    parts = [str(entry[key]) for key in ("event", "reason") if entry.get(key)]
    return ": ".join(parts)[:MOST_WORDS]


def _how_it_ended(code: int | None, last_words: str) -> str:
    if code is None:
        return last_words
    if code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with code {code}" + (f": {last_words}" if last_words else "")


def _system() -> str:
    # Determined here, as it is the same machine: more useful than the client's kernel build number.
    import platform

    try:
        release = platform.freedesktop_os_release()
        return f"{release.get('PRETTY_NAME', platform.system())}, {platform.machine()}"
    except OSError:
        return f"{platform.system()} {platform.release()}, {platform.machine()}"

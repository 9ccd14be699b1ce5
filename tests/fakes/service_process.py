"""The service as a process of its own, for tests that take the ground from under it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import cast

import psutil

from core.errors import ErrorCode, ErrorInfo, ServiceError
from core.home import Home
from core.models.devices import Health
from core.service.console import Console, DeviceChanged, Event
from core.service.rpc.client import RemoteConsole
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import environment
from tests.fakes.program import run as run_command
from tests.fakes.signing import signing
from tests.fakes.warm import SERVICES, Fork, Warm

_LOOK_AGAIN = 0.02
_PR_CAPBSET_DROP = 24
_CAPABILITIES_OVER_MODES = (1, 2, 3)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER


def obey_modes() -> None:
    """For `preexec`: what is started cannot pass by the modes of files, root or not."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in _CAPABILITIES_OVER_MODES:
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "a capability could not be given up")


@dataclass(slots=True)
class ServiceProcess:
    """`python -m core.service --stay` on one home."""

    home: Home
    process: subprocess.Popen[str] | Fork
    _consoles: list[RemoteConsole] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.process.pid

    def family(self) -> list[psutil.Process]:
        """The service and every process below it."""
        service = psutil.Process(self.pid)
        return [service, *service.children(recursive=True)]

    async def console(self, actor: str = "operator:anna") -> RemoteConsole:
        """Attach, with an operator at the console who signs; waits until the service answers."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    console = await RemoteConsole.connect(self.home, "window", actor)
                    self._consoles.append(console)
                    return cast(RemoteConsole, signing(console, self.home))
                except ServiceError as error:
                    if error.code is not ErrorCode.SERVICE_UNAVAILABLE:
                        raise
                if self.process.poll() is not None:
                    raise AssertionError(f"the service has ended: {await self.ends()}")
                # That it listens is its only sign of readiness.
                await asyncio.sleep(_LOOK_AGAIN)

    async def ends(self) -> tuple[int, ErrorInfo | None]:
        """Its exit code, and the error it gave as the reason, when it has ended by itself."""
        _, said = await asyncio.to_thread(self.process.communicate, timeout=PATIENCE_S)
        error = None
        for line in said.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                error = ErrorInfo.model_validate(json.loads(line)["error"])
        code = self.process.poll()
        assert code is not None
        return code, error

    async def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.process.kill()
        await self.ends()
        await self.leave()

    async def leave(self) -> None:
        """Detach every console."""
        for console in self._consoles:
            await console.close()
        self._consoles.clear()


def _begin(
    home: Home, preexec: Callable[[], None] | None, cold: bool, warm: Warm
) -> subprocess.Popen[str] | Fork:
    words = ["--home", str(home.path), "--stay"]
    if preexec is None and not cold and warm.suits(environment()):
        return warm.start(words, environment(), home.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "core.service", *words],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home.path,
        preexec_fn=preexec,
        start_new_session=True,
    )


@asynccontextmanager
async def service_process(
    home: Home, preexec: Callable[[], None] | None = None, *, cold: bool = False, warm: Warm = SERVICES
) -> AsyncIterator[ServiceProcess]:
    """A service in a process of its own; whatever the test did, it is gone afterwards.

    Cold, or with `preexec`, it is started as an operator's is; otherwise forked from an interpreter, `warm`,
    that has loaded it.
    """
    process = await asyncio.to_thread(_begin, home, preexec, cold, warm)
    service = ServiceProcess(home, process)
    try:
        yield service
    finally:
        await service.leave()
        if process.poll() is None:
            process.terminate()
            try:
                await service.ends()
            except subprocess.TimeoutExpired:
                await service.kill()


@contextmanager
def served(home: Home) -> Iterator[None]:
    """A service of this home, forked, that answers; `service stop` must end it."""
    assert SERVICES.suits(environment())
    process = SERVICES.start(["--home", str(home.path), "--stay"], environment(), home.path)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not home.socket.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            # That it listens is its only sign of readiness.
            time.sleep(_LOOK_AGAIN)
        yield
        assert run_command(home, "service", "stop", "--cancel-work").code == 0
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()


async def until(console: Console, wanted: Callable[[], object], events: AsyncIterator[Event]) -> None:
    """Wait for events until `wanted` (which may be async) says so."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            said = wanted()
            if asyncio.iscoroutine(said):
                said = await said
            if said:
                return
            await anext(events)


async def until_online(console: Console) -> None:
    """Wait until this computer is online."""
    events = console.events()
    async with asyncio.timeout(PATIENCE_S):
        if (await console.service.state()).devices[0].health is Health.ONLINE:
            return
        async for event in events:
            if isinstance(event, DeviceChanged) and event.device.health is Health.ONLINE:
                return

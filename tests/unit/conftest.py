"""What several files of unit tests stand on: a service that devices dial into, and the control socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.home import Home
from core.service.console import Console
from core.service.rpc.server import ControlServer
from core.service.service import Service
from tests.fakes.control_socket import Attach, attaching, serving
from tests.fakes.memory_console import MemoryHost
from tests.fakes.remote_device import make_listening_home
from tests.fakes.signing import signing


@pytest.fixture
def home(memory_path: Path) -> Home:
    """A fresh home, in memory."""
    return Home(memory_path / "home").create()


@pytest.fixture
async def service(memory_path: Path) -> AsyncIterator[Service]:
    """A service that listens for remote devices, and whose own computer costs no process."""
    service = await Service.open(make_listening_home(memory_path / "home"))
    yield service
    await service.close()


@pytest.fixture
def console(service: Service) -> Console:
    """The door of that service, for the operator anna."""
    return signing(service.console("operator:anna"), service.home)


@pytest.fixture
def host() -> MemoryHost:
    """A console in memory that the control socket leads to."""
    return MemoryHost()


@pytest.fixture
async def server(home: Home, host: MemoryHost) -> AsyncIterator[ControlServer]:
    """The service's end of the control socket, open."""
    async with serving(home, host) as one:
        yield one


@pytest.fixture
async def attach(home: Home, server: ControlServer) -> AsyncIterator[Attach]:
    """Attaches clients to the control socket; all of them are closed at the end."""
    async with attaching(home) as one:
        yield one

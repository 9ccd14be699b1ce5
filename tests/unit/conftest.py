"""What several files of unit tests stand on: a service that devices dial into, and the control socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.device.sandbox import bubblewrap
from core.home import Home
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.rpc.server import ControlServer
from core.service.service import Service
from tests.fakes.control_socket import Attach, FakeHost, attaching, serving
from tests.fakes.remote_device import make_listening_home
from tests.fakes.signing import signing

_self_test = bubblewrap._self_test
_passed: set[str] = set()
OWN_TESTS = Path(__file__).parent / "device" / "test_sandbox.py"


def _tested_once(sandbox: bubblewrap.Bubblewrap) -> bubblewrap.Missing | None:
    if sandbox.program in _passed:
        return None
    missing = _self_test(sandbox)
    if missing is None:
        _passed.add(sandbox.program)
    return missing


@pytest.fixture(autouse=True)
def _one_self_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test the sandbox of each device that a test makes only once, except in the sandbox's own tests.

    It takes 0.07 s and three processes, for each device anew since each has other folders.
    """
    if request.path != OWN_TESTS:
        monkeypatch.setattr(bubblewrap, "_self_test", _tested_once)


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
    return signing(LocalConsole(service, "operator:anna"), service.home)


@pytest.fixture
def host() -> FakeHost:
    """The fake console that the control socket leads to."""
    return FakeHost()


@pytest.fixture
async def server(home: Home, host: FakeHost) -> AsyncIterator[ControlServer]:
    """The service's end of the control socket, open."""
    async with serving(home, host) as one:
        yield one


@pytest.fixture
async def attach(home: Home, server: ControlServer) -> AsyncIterator[Attach]:
    """Attaches clients to the control socket; all of them are closed at the end."""
    async with attaching(home) as one:
        yield one

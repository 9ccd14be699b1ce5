"""What several files of end-to-end tests stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from core.approvals.operator_keys import OperatorKey
from core.device import Router
from core.home import Home
from core.service.console import Console
from tests.fakes.agents import add_agent
from tests.fakes.desk import choose_channel
from tests.fakes.read_shell import attacked, build_tree, clear
from tests.fakes.service_process import ServiceProcess, service_process, until_online
from tests.fakes.signing import anna


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a file's device has its root and its state in."""
    return tmp_path_factory.mktemp("attacked")


@pytest.fixture
def tree(place: Path) -> Path:
    """Files that are attacked through the read-only shell; each test finds them as at first."""
    root = place / "root"
    clear(root)
    return build_tree(root)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _device(place: Path) -> AsyncIterator[Router]:
    """One device for all tests of a file: a call leaves nothing in it, and each has a sandbox of its own."""
    root = place / "root"
    root.mkdir()
    async with attacked(root, place / "state") as built:
        yield built


@pytest.fixture
def router(_device: Router, tree: Path) -> Router:
    """A device whose only root is the tree."""
    del tree
    return _device


@pytest.fixture
async def service(home: Home) -> AsyncIterator[ServiceProcess]:
    """A service in a process of its own."""
    home.create()
    choose_channel(home, "in-process")
    async with service_process(home) as process:
        yield process


@pytest.fixture
async def console(service: ServiceProcess) -> Console:
    """An operator's console on it, once this computer is online."""
    console = await service.console()
    await console.approvals.register_operator(anna(service.home).operator)
    await until_online(console)
    return console


@pytest.fixture
def key(console: Console, home: Home) -> OperatorKey:
    """The operator's key."""
    del console
    return anna(home)


@pytest.fixture
async def token(console: Console, key: OperatorKey) -> str:
    """The token of an agent that was added."""
    return await add_agent(console, key, "claude")

"""A service at its control socket, an operator at a console of it, and an agent's token."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core.approvals.operator_keys import OperatorKey
from core.home import Home
from core.service.console import Console
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.rpc.server import ControlServer
from core.service.service import Service
from tests.fakes.agents import add_agent
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.gateway import Connect, in_process
from tests.fakes.signing import anna, signing


@pytest.fixture
async def service(home: Home) -> AsyncIterator[Service]:
    choose_channel(home, "in-process")
    home.device_state.mkdir(parents=True, exist_ok=True)
    async with open_service(home) as service:
        control = ControlServer(LocalConsoles(service), home)
        await control.open()
        yield service
        await control.close()


@pytest.fixture
async def console(service: Service, home: Home) -> Console:
    console = signing(LocalConsole(service, "operator:anna"), home)
    await console.approvals.register_operator(anna(home).operator)
    return console


@pytest.fixture
def key(console: Console, home: Home) -> OperatorKey:
    return anna(home)


@pytest.fixture
async def token(console: Console, key: OperatorKey) -> str:
    return await add_agent(console, key, "claude")


@pytest.fixture
def connect(home: Home) -> Connect:
    return lambda token, *args, **more: in_process(home, token, *args, **more)

"""The control socket of a fake console, and clients of it: well-behaved ones and raw ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pydantic_core import to_json
from websockets.asyncio.client import ClientConnection, unix_connect

from core.batch.models import Batch, Run, Step
from core.errors import ErrorCode, Refused
from core.home import Home
from core.models.devices import Device, Health
from core.models.tools import Contract, Effect, Fact, Risk, Source, Tool
from core.service.api.methods import ApiMethod
from core.service.console import API_VERSION, Console, Event
from core.service.event_hub import EventHub
from core.service.rpc import protocol
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import ago
from tests.fakes.patience import PATIENCE_S

Attach = Callable[..., Any]
AGENT_TOKEN = "x.token"
HERE = "this-computer"
SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "deep": {"type": "boolean"},
        "many": {"type": "array", "items": {"type": "string"}},
    },
}


def fact(value: Any) -> Fact[Any]:
    return Fact(value=value, source=Source.BUILT_IN, why="")


def tool(name: str, risk: Risk) -> Tool:
    """A tool of this computer: of low risk it reads and runs at once, else it waits for an approval."""
    reads = risk is Risk.LOW
    contract = Contract(
        effect=fact(Effect.OBSERVE if reads else Effect.CHANGE),
        risk=fact(risk),
        reversible=fact(False),
        idempotent=fact(False),
        open_world=fact(False),
        digest="c" * 64,
    )
    return Tool(
        device=HERE,
        tool_key=f"ns::{name}",
        tool_name=name,
        tool_type="data_collection" if reads else "action",
        input_schema=SCHEMA,
        contract=contract,
    )


class FakeHost:
    """The `Host` of a control server: all clients have consoles of one `FakeConsole`, `fake`.

    `start_run` and `wait_run` release `entered` when they begin, and `start_run` waits for `gate`.
    """

    def __init__(self) -> None:
        self.fake = FakeConsole([Device(name=HERE, health=Health.ONLINE, since=ago(0))])
        self.fake.tools_of[HERE] = [tool("echo", Risk.LOW), tool("change", Risk.HIGH)]
        self.fake.answer("start_run", self._start_run)
        self.fake.answer("wait_run", self._wait_run)
        self.fake.answer("shut_down", self._shut_down)
        self.hub = EventHub()
        self.fake.emit = self.hub.publish  # type: ignore[method-assign]  # a real service's events
        self.actors: list[str] = []
        self.gate, self.finished, self.left = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.entered = asyncio.Semaphore(0)
        self.cancelled_waits = 0
        self.busy = False
        self.on_shutdown_asked = asyncio.Event()

    @property
    def asked(self) -> Counter[str]:
        """How often each method was called."""
        return Counter(self.fake.asked)

    def console(self, actor: str) -> Console:
        self.actors.append(actor)
        return _ClientConsole(self)

    def agent_console(self, actor: str, token: str, end: Callable[[str], None]) -> Console:
        if token != AGENT_TOKEN:
            raise Refused("This is not the token of an agent of this home.", ErrorCode.AGENT_UNKNOWN)
        return self.console(actor)

    async def _start_run(self, batch: Batch) -> Run:
        self.entered.release()
        await self.gate.wait()
        self.finished.set()
        [step] = batch.steps
        assert isinstance(step, Step)
        return self.fake.on_call(HERE, step.tool, step.parameters, None, "")

    async def _wait_run(self, run: str, timeout: float) -> Run:
        self.entered.release()
        try:
            return await self.fake.on_wait_run(run, timeout)
        except asyncio.CancelledError:
            self.cancelled_waits += 1
            self.finished.set()
            raise

    def _shut_down(self) -> str:
        self.on_shutdown_asked.set()
        return "It ends."


class _ClientConsole(Console):
    """One client's console of the host; it frees what it held when the client leaves."""

    def __init__(self, host: FakeHost) -> None:
        super().__init__()
        self._host = host
        self._held: set[str] = set()

    async def invoke(self, method: ApiMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        answer = await self._host.fake.invoke(method, args, kwargs)
        if method.wire == "hold":
            (self._held.add if answer.paused else self._held.discard)(answer.id)
        return answer

    def events(self) -> AsyncIterator[Event]:
        return self._host.hub.subscribe()

    async def close(self) -> None:
        for approval in sorted(self._held):
            await self.approvals.hold(approval=approval, reading=False)
        self._host.left.set()


@asynccontextmanager
async def serving(home: Home, host: FakeHost) -> AsyncIterator[ControlServer]:
    """The service's end of the socket; nothing that waits at its gate keeps it from closing."""
    one = ControlServer(host, home)
    await one.open()
    try:
        yield one
    finally:
        host.gate.set()
        await one.close()


@asynccontextmanager
async def attaching(home: Home) -> AsyncIterator[Attach]:
    """Makes consoles that are attached to the socket; all of them are closed at the end."""
    consoles = []

    async def one(
        client: protocol.Client = "test",
        actor: str = "operator:anna",
        timeout: float = 30,
        token: str = AGENT_TOKEN,
    ) -> Any:
        console = await RemoteConsole.connect(home, client, actor, request_timeout=timeout, token=token)
        consoles.append(console)
        return console

    try:
        yield one
    finally:
        for console in consoles:
            await console.close()


async def raw(home: Home, **hello: Any) -> ClientConnection:
    connection = await unix_connect(str(home.socket), compression=None, max_size=protocol.MAX_FRAME)
    await connection.send(
        to_json(
            {
                "hello": {
                    "api_version": API_VERSION,
                    "client": "test",
                    "actor": "cli:x",
                    "token": AGENT_TOKEN,
                    **hello,
                }
            }
        ),
        text=True,
    )
    return connection


async def within(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await event.wait()

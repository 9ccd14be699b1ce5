"""An agent's connection to the service, made when it is needed and again after the service has restarted.

Tickets are opaque names of the agent's runs. A ticket is derived from the run and the agent's token, so that
it survives restarts, is stored nowhere, and is of no use to another agent. The service checks in addition
that the run is the agent's own.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from collections import OrderedDict
from hashlib import sha256

from core.actors import AGENT_PREFIX
from core.errors import BadInput, ErrorCode, Refused
from core.home import OPERATOR_NAME, Home
from core.policy.agent_models import ClientProgram, Transport, name_in
from core.service.control import ensure_service
from core.service.rpc.client import RemoteConsole
from core.tasks import TaskGroupOwner

_PREFIX = "t-"
_MAC_BYTES = 12
_LONGEST = 200


class Tickets:
    """Makes and checks the tickets of one agent."""

    def __init__(self, token: str) -> None:
        self._key = sha256(b"quarterdeck.ticket/1\0" + token.encode()).digest()

    def of(self, run: str) -> str:
        """The ticket of a run; always the same one."""
        data = self._mac(run) + run.encode()
        return _PREFIX + base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    def run(self, ticket: str) -> str:
        """The run of a ticket.

        Raises:
            BadInput: it is not a ticket of this agent (code `not_found`).
        """
        try:
            if not ticket.startswith(_PREFIX) or len(ticket) > _LONGEST:
                raise ValueError
            text = ticket.removeprefix(_PREFIX)
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            run = data[_MAC_BYTES:].decode()
            if not hmac.compare_digest(data[:_MAC_BYTES], self._mac(run)) or self.of(run) != ticket:
                raise ValueError
        except (ValueError, binascii.Error) as error:
            raise BadInput(
                "This is not a ticket of yours. Call wait_run without a ticket to list your runs.",
                ErrorCode.NOT_FOUND,
            ) from error
        return run

    def _mac(self, run: str) -> bytes:
        return hmac.new(self._key, run.encode(), sha256).digest()[:_MAC_BYTES]


MOST_PROGRAMS = 8
"""Maximum programs that use one token over HTTP at the same time, each with a connection of its own."""
IDLE_S = 600.0
"""Over HTTP a program does not say that it has gone: after so long without a request it is taken for that."""


class AgentSession:
    """One agent at the control socket. Everything that the gateway does for the agent goes through it."""

    def __init__(
        self, home: Home, token: str, transport: Transport = "stdio", program: ClientProgram | None = None
    ) -> None:
        """`token` names the agent; the service checks it when the session connects.

        `transport` is the MCP transport, `program` what the program that uses this session calls itself, if
        that is known yet.

        Raises:
            Refused: the token names no agent (code `agent_unknown`).
        """
        self.name = name_in(token)
        if not OPERATOR_NAME.fullmatch(self.name):
            raise Refused("This is not the token of an agent.", ErrorCode.AGENT_UNKNOWN)
        self.tickets = Tickets(token)
        self._home = home
        self._token = token
        self._transport = transport
        self._program = program
        # The console to which the program was introduced.
        self._introduced_to: RemoteConsole | None = None
        self._others: OrderedDict[ClientProgram, AgentSession] = OrderedDict()
        self._console: RemoteConsole | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._tasks = TaskGroupOwner("agent session")
        self._connecting = asyncio.Lock()
        # Set when the service has ended the agent's connection: it was stopped, or its token is worthless.
        self.cut_off = asyncio.Event()

    async def console(self) -> RemoteConsole:
        """The agent's console; starts the service of the home if none runs.

        Raises:
            Refused: the token is not the agent's, or no longer (code `agent_unknown`).
            ServiceError: the service cannot be reached.
        """
        async with self._connecting:
            if self._console is not None and self._console.cut_off:
                self.cut_off.set()
            if self._console is None or self._console.closed.is_set():
                actor = AGENT_PREFIX + self.name
                self._console = await ensure_service(self._home, "agent", actor, token=self._token)
                self._tasks.spawn("watch the connection", self._watch(self._console))
            if self._program is not None and self._introduced_to is not self._console:
                program = self._program
                await self._console.agents.introduce(self._transport, program.name, program.version)
                self._introduced_to = self._console
            self._wait_for_idleness()
            return self._console

    async def _watch(self, console: RemoteConsole) -> None:
        await console.closed.wait()
        if console.cut_off:
            self.cut_off.set()

    async def used_by(self, name: str, version: str) -> AgentSession:
        """The session of the program that calls itself this; each program has a connection of its own."""
        program = ClientProgram.called(name, version)
        # Over HTTP, the session that checks the token is no program's own.
        if self._program is None and self._transport == "stdio":
            self._program = program
        if self._program == program:
            return self
        session = self._others.get(program)
        if session is None:
            session = AgentSession(self._home, self._token, self._transport, program)
            self._others[program] = session
        self._others.move_to_end(program)
        while len(self._others) > MOST_PROGRAMS:
            _, oldest = self._others.popitem(last=False)
            await oldest.close()
        return session

    def _wait_for_idleness(self) -> None:
        """Detach from the service if no request comes for `IDLE_S`."""
        if self._idle is not None:
            self._idle.cancel()
        if self._transport == "http" and self._program is not None:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._is_idle)

    def _is_idle(self) -> None:
        if self._console is not None and self._console.busy:
            self._wait_for_idleness()
        else:
            self._tasks.spawn("detach", self._detach())

    async def _detach(self) -> None:
        if self._console is not None:
            await self._console.close()

    async def close(self) -> None:
        """Detach from the service; the agent's runs go on."""
        if self._idle is not None:
            self._idle.cancel()
        await self._tasks.close()
        while self._others:
            await self._others.popitem()[1].close()
        await self._detach()

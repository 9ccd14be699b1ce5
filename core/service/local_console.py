"""The console API in the process that owns the home, with one `LocalConsole` per client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from core.service.agent_connections import Attachment
from core.service.api.agents import INTRODUCE, LocalAgents
from core.service.api.approvals import LocalApprovals
from core.service.api.client import Client
from core.service.api.devices import LocalDevices
from core.service.api.journal import LocalJournal
from core.service.api.methods import ApiMethod, check_operator
from core.service.api.policy import LocalPolicy
from core.service.api.runs import LocalRuns
from core.service.api.service import LocalService
from core.service.console import Console, Event
from core.service.service import Service


class LocalConsole(Console):
    """The console API of one client, for a service in this process.

    Each call is checked against the method's declaration before it reaches the implementation.
    """

    def __init__(
        self, service: Service, actor: str, credential: str = "", attachment: Attachment | None = None
    ) -> None:
        """`actor` is recorded as the author of the client's requests.

        `credential` is the digest of the token that an agent has shown, and the console holds no longer than
        it; `attachment` is the agent's connection.
        """
        super().__init__()
        self._client = Client(service, actor, credential, attachment)
        runs = LocalRuns(self._client)
        self._implementations = {
            "devices": LocalDevices(self._client),
            "agents": LocalAgents(self._client, runs),
            "runs": runs,
            "approvals": LocalApprovals(self._client),
            "policy": LocalPolicy(self._client),
            "journal": LocalJournal(self._client),
            "service": LocalService(self._client, runs),
        }

    async def invoke(self, method: ApiMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._client.check_standing()
        method.check_caller(self._client.actor)
        if self._client.attachment is not None and method.wire != INTRODUCE:
            self._client.service.agent_connections.use(self._client.attachment)
        return await getattr(self._implementations[method.api], method.name)(*args, **kwargs)

    def events(self) -> AsyncIterator[Event]:
        check_operator(self._client.actor, "follow events")
        return self._client.service.hub.subscribe()

    async def close(self) -> None:
        if self._client.attachment is not None:
            self._client.service.agent_connections.detach(self._client.attachment)
        self._client.service.approvals.release_reader(self._client.reader)
        self._client.service.live_pictures.let_go(self._client.reader)


class LocalConsoles:
    """Makes the consoles of a service's clients: the `Host` of its control server."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def console(self, actor: str) -> LocalConsole:
        """A console for a person."""
        return LocalConsole(self._service, actor)

    def agent_console(self, actor: str, token: str, end: Callable[[str], None] | None = None) -> LocalConsole:
        """A console for an agent that shows this token; `end` ends the agent's connection, if it has one.

        Raises:
            Refused: it is not the token of the agent that `actor` names (code `agent_unknown`).
        """
        credential = self._service.agents.proved(actor, token)
        attachment = self._service.agent_connections.attach(actor, end) if end is not None else None
        return LocalConsole(self._service, actor, credential, attachment)

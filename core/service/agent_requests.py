"""Repeated requests of agents: an agent that gave up waiting and asks again gets the run that it has.

A request is repeated if it has the `request_id` of an earlier one, also of one before a restart of the
service, or if the same agent has a run of the same request on the same devices that has not ended.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from core.audit.entries import Kind
from core.audit.events import RunStarted
from core.audit.journal import Journal
from core.audit.query import quoted
from core.batch.models import Batch
from core.batch.runs import Runs
from core.errors import BadInput
from core.token_formats import token_spans

LONGEST_ID = 200


class AgentRequests:
    """Finds the run of a repeated request. One per service."""

    def __init__(self, runs: Runs, journal: Journal, digest: Callable[[Any], str]) -> None:
        """`digest` makes a keyed digest of a JSON value."""
        self._runs = runs
        self._journal = journal
        self._digest = digest
        # Held from looking for an earlier run until the new one is started.
        self.turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def digest_of(self, batch: Batch, inputs: dict[str, Any]) -> str:
        """Identifies what the agent has sent: targets, steps with their arguments, and inputs.

        Nothing else counts: the schemas of tools and the devices that match are others when the service has
        just started, and the same request must still be the same. Keyed, because arguments may hold secrets,
        and this is written to the journal.
        """
        steps = [entry.model_dump(mode="json", by_alias=True) for entry in batch.steps]
        return self._digest([batch.targets, steps, batch.on_failure, inputs])

    async def earlier(self, actor: str, request_id: str, digest: str, devices: list[str]) -> str | None:
        """The run that the agent has for this request; None if the request is new.

        Without a request id, the run must be under way on the same devices.

        Raises:
            BadInput: the agent used this request id for something else, or it is no id but a secret, which
                would be written to the journal.
        """
        if len(request_id) > LONGEST_ID:
            raise BadInput(f"request_id has at most {LONGEST_ID} characters.")
        if token_spans(request_id):
            raise BadInput("request_id holds what looks like a token or key; choose an id without a secret.")
        if request_id:
            started = await self._with_id(actor, request_id)
            if started is not None:
                run, known = started
                if known != digest:
                    raise BadInput(
                        f"request_id {request_id!r} was used for another request. wait_run without a ticket "
                        "lists your runs: look whether this was done before you ask with another one."
                    )
                return run
            return None
        for live in self._runs.active:
            same = live.actor == actor and live.request_digest == digest
            if same and sorted(live.devices) == sorted(devices) and not live.cancelled:
                return live.id
        return None

    async def _with_id(self, actor: str, request_id: str) -> tuple[str, str] | None:
        for live in self._runs.latest():
            if live.actor == actor and live.request_id == request_id:
                return live.id, live.request_digest
        # Other entries of the agent may contain the id as a text, so that the search only narrows.
        query = f"kind:{Kind.RUN_STARTED} actor:{quoted(actor)} {quoted(request_id)}"
        async for entry in self._journal.newest(query):
            event = RunStarted.read(entry.body)
            if event.request_id == request_id and entry.run:
                return entry.run, event.request_digest
        return None

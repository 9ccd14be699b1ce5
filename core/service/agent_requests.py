"""Repeated requests of agents: an agent that gave up waiting and asks again gets the run that it has.

A request is repeated if it has the `request_id` of an earlier one, also of one before a restart of the
service, or if the same agent has a run with the same devices, steps and arguments that has not ended.
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
from core.batch.models import Batch, Step, flatten
from core.batch.runner import Runner
from core.errors import BadInput

LONGEST_ID = 200
_PAGE = 200

SchemaOf = Callable[[str, str], Any]


class AgentRequests:
    """Finds the run of a repeated request. One per service."""

    def __init__(
        self, runner: Runner, journal: Journal, digest: Callable[[Any], str], schema_of: SchemaOf
    ) -> None:
        """`digest` makes a keyed digest of a JSON value; `schema_of` returns a tool's schema on a device."""
        self._runner = runner
        self._journal = journal
        self._digest = digest
        self._schema_of = schema_of
        # Held from looking for an earlier run until the new one is started.
        self.turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def digest_of(self, batch: Batch, devices: list[str], inputs: dict[str, Any]) -> str:
        """Identifies what is requested: devices, steps, inputs, and arguments with their schemas' defaults.

        Keyed, because arguments may hold secrets, and this is written to the journal.
        """
        steps = [entry.model_dump(mode="json", by_alias=True) for entry in batch.steps]
        arguments = {step.id: self._filled(step, devices[0]) for step in flatten(batch.steps)}
        return self._digest(
            [sorted(devices), steps_without_arguments(steps), arguments, batch.on_failure, inputs]
        )

    async def earlier(self, actor: str, request_id: str, digest: str) -> str | None:
        """The run that the agent has for this request; None if the request is new.

        Raises:
            BadInput: the agent used this request id for something else.
        """
        if len(request_id) > LONGEST_ID:
            raise BadInput(f"request_id has at most {LONGEST_ID} characters.")
        if request_id:
            started = await self._with_id(actor, request_id)
            if started is not None:
                run, known = started
                if known != digest:
                    raise BadInput(f"request_id {request_id!r} was used for another request.")
                return run
            return None
        for live in self._runner.active:
            if live.actor == actor and live.request_digest == digest and not live.cancelled:
                return live.id
        return None

    async def _with_id(self, actor: str, request_id: str) -> tuple[str, str] | None:
        for live in self._runner.latest():
            if live.actor == actor and live.request_id == request_id:
                return live.id, live.request_digest
        # Other entries of the agent may contain the id as a text, so that the search only narrows.
        query = f"kind:{Kind.RUN_STARTED} actor:{quoted(actor)} {quoted(request_id)}"
        before: int | None = None
        while True:
            page = await self._journal.query(query, before=before, limit=_PAGE)
            for entry in page.entries:
                event = RunStarted.read(entry.body)
                if event.request_id == request_id and entry.run:
                    return entry.run, event.request_digest
            before = page.next_before
            if before is None:
                return None

    def _filled(self, step: Step, device: str) -> dict[str, Any]:
        schema = self._schema_of(device, step.tool)
        properties = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(properties, dict):
            return step.parameters
        defaults = {
            name: declared["default"]
            for name, declared in properties.items()
            if isinstance(declared, dict) and "default" in declared
        }
        return {**defaults, **step.parameters}


def steps_without_arguments(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps of a batch as JSON without their arguments, which are compared with their defaults."""
    return [
        {"parallel": steps_without_arguments(step["parallel"])}
        if "parallel" in step
        else {key: value for key, value in step.items() if key != "with"}
        for step in steps
    ]

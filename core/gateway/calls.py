"""Carries out the gateway's tools for one agent, by calls of its console only."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp import types

from core.batch.inputs import inputs_schema
from core.batch.models import OPEN_STATES, Batch, Parallel, Run, RunSummary, Step
from core.commands.results import CommandResult, Evidence
from core.errors import BadInput, ErrorCode, QuarterdeckError
from core.fleet.models import NOT_KNOWN, ToolDescription
from core.gateway import tools
from core.gateway.agent_session import AgentSession
from core.gateway.answers import (
    MOST_CHARACTERS,
    Item,
    answer,
    picture,
    result_text,
    room_of_each,
    run_failed,
    run_item,
    whole_run_item,
)
from core.models.devices import Device, Health
from core.schema_forms.fields import schema_fields
from core.service.envelope import Envelope, SavedEvidence
from core.service.pages import every_result, results_of, whole_run
from core.similar import did_you_mean
from core.text import sentences, some_names

ANSWER_WITHIN = tools.DEFAULT_WAIT
"""Seconds in which a run that needs no approval is answered at once."""
PROGRESS_EVERY = 2.0
"""Seconds between two notices of progress while a run is awaited."""
_MOST_ENDED = 10
_PAGE = 50
# In one answer; `get_evidence` gives the others.
_MOST_PICTURES = 4
_MOST_DEVICES = 200
_REACH = ("authentication", "network", "files", "processes", "account")
_TELLS_NOTHING = ("none", NOT_KNOWN, "the user of the device client")
_MOST_RESULT_FIELDS = 80
# A text that can be a device's name; any other is a filter.
_NAME = re.compile(r"[^\s\"'*?:!,]+")

# Reports progress: done, total, and a sentence.
Report = Callable[[float, float, str], Awaitable[None]]


async def _no_report(done: float, total: float, words: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class RunStanding:
    """A run as it stands, with its ticket: a tool's answer, or a task.

    `pictures` are those that its tools have taken, once it has ended.
    """

    run: RunSummary
    envelopes: list[Envelope]
    ticket: str
    pictures: list[types.ImageContent]

    def item(self) -> Item:
        """The run in few words, as JSON."""
        return run_item(self.run, self.envelopes, self.ticket)

    def whole(self) -> Item:
        """The run with the envelope of each command, as JSON."""
        return whole_run_item(self.run, self.envelopes, self.ticket)

    def answer(self) -> types.CallToolResult:
        """The answer of a tool that has run something or waits for it."""
        return answer(self.item(), is_error=run_failed(self.run), pictures=self.pictures)


Outcome = types.CallToolResult | RunStanding


class ToolCalls:
    """Carries out the tools for one agent."""

    def __init__(self, session: AgentSession, report: Report = _no_report) -> None:
        self._session = session
        self._report = report

    async def call(self, arguments: tools.Arguments) -> Outcome:
        """Carry out one tool, by the type of its arguments.

        Raises:
            QuarterdeckError: it was not carried out.
        """
        match arguments:
            case tools.ListDevices():
                return await self._list_devices(arguments)
            case tools.SearchTools():
                return await self._search_tools(arguments)
            case tools.DescribeTool():
                return await self._describe_tool(arguments)
            case tools.RunCommands():
                return await self._run_commands(arguments)
            case tools.RunBatch():
                return await self._run_batch(arguments)
            case tools.WaitRun():
                return await self._wait_run(arguments)
            case tools.CancelRun():
                return await self._cancel_run(arguments)
            case tools.GetEvidence():
                return await self._get_evidence(arguments)
            case _:
                raise AssertionError(f"No tool has the arguments {type(arguments).__name__}.")

    async def standing(self, ticket: str) -> RunStanding:
        """A run of this agent as it stands.

        Raises:
            BadInput: it is no ticket of this agent.
        """
        run = self._session.tickets.run(ticket)
        return await self._standing(await (await self._session.console()).runs.get(run))

    async def cancel(self, ticket: str) -> RunStanding:
        """Cancel a run of this agent; returns it as it stands then.

        Raises:
            BadInput: it is no ticket of this agent.
        """
        run = self._session.tickets.run(ticket)
        console = await self._session.console()
        await console.runs.stop(run)
        return await self._standing(await console.runs.wait(run, ANSWER_WITHIN))

    async def whole_result(self, ticket: str, call_id: str) -> Any:
        """The result of a command of this agent, however long it is.

        Raises:
            BadInput: it is no ticket of this agent, or its run has no such result.
        """
        run = self._session.tickets.run(ticket)
        for envelope in await every_result((await self._session.console()).runs, run):
            if envelope.call_id == call_id and envelope.verdict is not None:
                return envelope.result
        raise _no_item()

    async def _standing(self, run: Run) -> RunStanding:
        run_id = run.summary.id
        runs = (await self._session.console()).runs
        envelopes = await results_of(runs, run)
        taken = [picture for envelope in envelopes for picture in _taken_pictures(envelope)]
        pictures: list[types.ImageContent] = []
        for evidence in taken[:_MOST_PICTURES] if run.summary.state.ended else []:
            data = await runs.evidence(run_id, evidence.blob)
            pictures += filter(None, [await _scaled(data, evidence.media_type)])
        return RunStanding(run.summary, envelopes, self._session.tickets.of(run_id), pictures)

    async def _list_devices(self, asked: tools.ListDevices) -> Outcome:
        devices = await (await self._session.console()).devices.match(asked.filter)
        shown = [device_item(device) for device in devices[:_MOST_DEVICES]]
        return answer({"devices": shown, "more": len(devices) - len(shown)})

    async def _search_tools(self, asked: tools.SearchTools) -> Outcome:
        hits = await (await self._session.console()).devices.search(asked.words, asked.filter, asked.limit)
        shown = [hit.model_dump(mode="json", exclude_defaults=True) for hit in hits]
        return answer({"tools": shown})

    async def _describe_tool(self, asked: tools.DescribeTool) -> Outcome:
        console = await self._session.console()
        return answer({"tool": tool_item(await console.devices.describe(asked.device, asked.tool))})

    async def _run_commands(self, asked: tools.RunCommands) -> Outcome:
        console = await self._session.console()
        device = await self._device(asked.devices)
        if device is not None and len(asked.commands) == 1:
            [command] = asked.commands
            run = await console.runs.call(
                device, command.tool, command.arguments, asked.timeout, asked.reason, asked.request_id
            )
            return await self._begun(run)
        steps = [
            Step(id=f"c{number}", tool=one.tool, parameters=one.arguments, timeout=asked.timeout)
            for number, one in enumerate(asked.commands, 1)
        ]
        batch = Batch(
            name=f"{len(steps)} commands" if len(steps) > 1 else steps[0].tool[:200],
            targets=_named(device) if device is not None else asked.devices,
            steps=[Parallel(parallel=steps)] if asked.parallel else list(steps),
        )
        return await self._begun(
            await console.runs.start(batch, said=asked.reason, request_id=asked.request_id)
        )

    async def _run_batch(self, asked: tools.RunBatch) -> Outcome:
        console = await self._session.console()
        if not asked.batch:
            return answer({"batches": await self._batches()})
        batch = await self._saved(asked.batch)
        if asked.devices:
            device = await self._device(asked.devices)
            targets = _named(device) if device is not None else asked.devices
            batch = batch.model_copy(update={"targets": targets})
        return await self._begun(
            await console.runs.start(
                batch, inputs=asked.inputs, said=asked.reason, request_id=asked.request_id
            )
        )

    async def _batches(self) -> list[Item]:
        """The saved batches for devices that exist for the agent."""
        console = await self._session.console()
        items = [await self._batch(name) for name in await console.runs.batch_names()]
        return [item for item in items if item is not None]

    async def _batch(self, name: str) -> Item | None:
        """A saved batch as an operation; None if it is for no device that exists for the agent."""
        console = await self._session.console()
        try:
            batch = await console.runs.load_batch(name)
            devices = [device.name for device in await console.devices.match(batch.targets)]
        except QuarterdeckError as error:
            # One broken file must not hide the others.
            return {"batch": name, "problem": error.message}
        return batch_item(name, batch, devices) if devices else None

    async def _saved(self, name: str) -> Batch:
        """A saved batch by its name.

        Raises:
            BadInput: there is none of that name; the message names those that there are.
        """
        console = await self._session.console()
        try:
            return await console.runs.load_batch(name)
        except BadInput as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            names = [item["batch"] for item in await self._batches()]
            hint = did_you_mean(name, names) or f"Saved batches: {some_names(names)}."
            step = "Call run_batch with one of these names."
            raise BadInput(sentences(error.message, hint), ErrorCode.NOT_FOUND, step) from error

    async def _begun(self, run: Run) -> RunStanding:
        """The run once it has ended or asks an operator; as it stands if neither happens soon."""
        console = await self._session.console()
        return await self._standing(await console.runs.wait(run.summary.id, ANSWER_WITHIN, until_asked=True))

    async def _wait_run(self, asked: tools.WaitRun) -> Outcome:
        console = await self._session.console()
        if not asked.ticket:
            active = await console.runs.list(active=True)
            latest = await console.runs.list(limit=_PAGE)
            over = [run for run in latest if run.state.ended]
            return answer({"open": self._listed(active), "ended": self._listed(over[:_MOST_ENDED])})
        run_id = self._session.tickets.run(asked.ticket)
        until = time.monotonic() + asked.seconds
        while True:
            left = max(0.0, until - time.monotonic())
            run = await console.runs.wait(run_id, min(PROGRESS_EVERY, left))
            summary = run.summary
            ended = sum(count for state, count in summary.counts.items() if state not in OPEN_STATES)
            await self._report(ended, sum(summary.counts.values()), summary.state.value)
            if run.summary.state.ended or left <= PROGRESS_EVERY:
                return await self._standing(run)

    def _listed(self, runs: list[RunSummary]) -> list[Item]:
        return [
            {
                "ticket": self._session.tickets.of(run.id),
                "state": run.state.value,
                "name": run.name,
                "started_at": run.started_at,
            }
            | ({"ended_at": run.ended_at} if run.ended_at else {})
            for run in runs
        ]

    async def _cancel_run(self, asked: tools.CancelRun) -> Outcome:
        # That the run has ended without being done is what was asked for.
        return answer((await self.cancel(asked.ticket)).item())

    async def _get_evidence(self, asked: tools.GetEvidence) -> Outcome:
        console = await self._session.console()
        run_id = self._session.tickets.run(asked.ticket)
        run = await whole_run(console.runs, await console.runs.get(run_id))
        results = [cell.result for cell in run.cells if cell.result is not None]
        if not asked.item:
            room = room_of_each(len(results))
            return answer({"items": [item for result in results for item in evidence_items(result, room)]})
        for result in results:
            if result.call_id == asked.item:
                return answer(_part(result_text(result.result), asked.offset))
            for evidence in result.evidence:
                if evidence.blob == asked.item:
                    data = await console.runs.evidence(run_id, evidence.blob)
                    return await _evidence_answer(evidence, data, asked.offset)
        raise _no_item()

    async def _device(self, devices: str) -> str | None:
        """The device that is meant by its exact name; None if `devices` is a filter.

        A text that may be either and matches nothing is taken for a name, so that it is refused as one.
        """
        name = devices.strip()
        if not _NAME.fullmatch(name):
            return None
        console = await self._session.console()
        visible = await console.devices.match(_named(name))
        if any(device.name == name for device in visible):
            return name
        return None if await console.devices.match(name) else name


def _no_item() -> BadInput:
    step = "Call get_evidence without an item, which lists those that there are."
    return BadInput("No result of this run has such an item.", ErrorCode.NOT_FOUND, step)


def _named(device: str) -> str:
    return f'name:"{device}"'


def device_item(device: Device) -> Item:
    """A device as an agent sees it."""
    item: Item = {
        "name": device.name,
        "health": device.health.value,
        "platform": device.platform,
        "tags": device.tags,
        "tools": device.tool_count,
    }
    if device.production:
        item["production"] = True
    return item | ({"reason": device.reason} if device.reason else {})


def tool_item(described: ToolDescription) -> Item:
    """A tool as an agent sees it before it calls it.

    Of its scope: what it reaches. How it is repaired, and where a fact is from, is for people.
    """
    tool = described.tool
    contract = tool.contract
    item: Item = {
        "device": tool.device,
        "tool": tool.tool_name,
        "namespace": tool.namespace,
        "description": tool.description,
        "arguments": tool.input_schema,
        "results": result_kinds(tool.output_schema),
        "effect": contract.effect.value.value,
        "risk": contract.risk.value.value,
        "undo": described.undo,
    }
    reach = {
        name: fact.value
        for name in _REACH
        if (fact := getattr(described.scope, name)).value not in _TELLS_NOTHING
    }
    if reach:
        item["scope"] = reach
    if described.health is not Health.ONLINE:
        item["health"] = described.health.value
    return item | ({"changed": True} if tool.changed else {})


def result_kinds(schema: dict[str, Any]) -> Item:
    """The fields of a result with their types, as steps of a batch name them; the rest is counted.

    Fields that are there only for one value of another are below that value, as `info_type=disk`.
    """
    fields = schema_fields(schema)
    kinds: Item = {}
    for field in fields[:_MOST_RESULT_FIELDS]:
        if field.when is None:
            kinds[field.path] = field.kind_words
        elif field.path != field.when[0]:
            kinds.setdefault(f"{field.when[0]}={field.when[1]}", {})[field.path] = field.kind_words
    left_out = len(fields) - _MOST_RESULT_FIELDS
    return kinds | ({"more": left_out} if left_out > 0 else {})


def batch_item(name: str, batch: Batch, devices: list[str]) -> Item:
    """A saved batch as an operation, with the schema of its inputs if it has any.

    `devices` are those that it is for and that exist for the agent. Its targets may name others.
    """
    item: Item = {
        "batch": name,
        "description": batch.description,
        "devices": devices[:_MOST_DEVICES],
        "steps": len(batch.steps),
    }
    return item | ({"inputs": inputs_schema(batch)} if batch.inputs else {})


def evidence_items(result: CommandResult, room: int) -> list[Item]:
    """The evidence that `get_evidence` gives of one result, which is cut to so much room in an answer."""
    items: list[Item] = [
        {"item": one.blob, "media_type": one.media_type, "size": one.size, "device": result.device}
        for one in result.evidence
    ]
    size = len(result_text(result.result))
    if size > room:
        items.append(
            {"item": result.call_id, "media_type": "text/plain", "size": size, "device": result.device}
        )
    return items


async def _evidence_answer(evidence: Evidence, data: bytes, offset: int) -> types.CallToolResult:
    if evidence.media_type.startswith("image/"):
        scaled = await _scaled(data, evidence.media_type)
        if scaled is None:
            raise BadInput("This picture cannot be decoded.", ErrorCode.BAD_RESULT)
        return answer({"items": [evidence.model_dump(mode="json")]}, pictures=[scaled])
    return answer(_part(data.decode("utf-8", "replace"), offset))


def _taken_pictures(envelope: Envelope) -> list[SavedEvidence]:
    """The pictures that a tool has returned; those that prove an action are no part of its result."""
    images = [evidence for evidence in envelope.evidence if evidence.media_type.startswith("image/")]
    text = result_text(envelope.result) if images else ""
    return [image for image in images if image.blob in text]


async def _scaled(data: bytes, media_type: str) -> types.ImageContent | None:
    # Scaling takes some ten milliseconds.
    return await asyncio.to_thread(picture, data, media_type)


def _part(text: str, offset: int) -> Item:
    end = offset + MOST_CHARACTERS
    return {"text": text[offset:end]} | ({"next_offset": end} if end < len(text) else {})

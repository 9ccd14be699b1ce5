"""One call on several devices: a run of one step, which has the plan, waves and table of a batch.

Its arguments are meant as they are written, as those of a call on one device.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from core.batch.models import Batch, Rollout, Step
from core.cli.answer import Answer
from core.cli.arguments import typed_as_written
from core.cli.follow import HowToFollow
from core.cli.output import one_line
from core.cli.run_answer import identify_where_several_approve, plan_answer, run_to_end
from core.cli.saving import Saving
from core.cli.session import Session
from core.errors import BadInput, DeviceError, first_fault
from core.models.device_filter import no_match
from core.models.devices import Device, Health
from core.models.tool_lookup import tool_named

# Of how many devices the schema of the tool is asked for; the others check the arguments as they are.
MOST_LOOKED_AT = 20
_HERE = (Health.ONLINE, Health.BUSY)


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it was typed. `targets` is a filter; `words` are `key=value` and its other forms."""

    targets: str
    tool: str
    words: list[str]
    timeout: float | None
    rollout: dict[str, int | str]


async def plan_call(session: Session, call: Call) -> Answer:
    """What the call would do on each device; nothing is sent.

    Raises:
        BadInput: no device matches, or the words are no arguments.
    """
    return await plan_answer(session, await _batch_of(session, call), {}, literal=True)


async def call_many(session: Session, call: Call, how: HowToFollow, saving: Saving | None) -> Answer:
    """Call a tool on every device that matches; the answer is the run with its results.

    Raises:
        BadInput: as `plan_call`.
    """
    batch = await _batch_of(session, call)
    await identify_where_several_approve(session, batch, {}, how.unlocking, literal=True)
    return await run_to_end(session, lambda: session.console.runs.start(batch, literal=True), how, saving)


async def _batch_of(session: Session, call: Call) -> Batch:
    devices = await session.console.devices.match(call.targets)
    if not devices:
        raise no_match(call.targets, await session.console.devices.match(""))
    parameters = await _arguments(session, devices, call.tool, call.words)
    try:
        step = Step(id="call", tool=call.tool, parameters=parameters, timeout=call.timeout)
        # A number may be written as a text here, and is none in a batch file.
        numbers = {
            name: int(value) if str(value).isdecimal() else value for name, value in call.rollout.items()
        }
        rollout = Rollout.model_validate(numbers)
        return Batch(name=call.tool[:200], targets=call.targets, rollout=rollout, steps=[step])
    except ValidationError as error:
        raise BadInput(f"This is not a call: {first_fault(error)}.") from None


async def _arguments(session: Session, devices: list[Device], tool: str, words: list[str]) -> dict[str, Any]:
    """The arguments, each typed as the schema of the tool says.

    Raises:
        BadInput: the schemas of two devices type them differently.
    """
    looked_at = [device.name for device in devices if device.health in _HERE][:MOST_LOOKED_AT]
    read: dict[str, tuple[str, dict[str, Any]]] = {}
    schemas: set[str] = set()
    for device in looked_at:
        schema = await _schema(session, device, tool)
        written = json.dumps(schema, sort_keys=True)
        if schema is not None and written not in schemas:
            schemas.add(written)
            parameters = typed_as_written(words, schema)
            read.setdefault(json.dumps(parameters, sort_keys=True), (device, parameters))
    if not read:
        return typed_as_written(words, {})
    (first, parameters), *others = read.values()
    for other, differing in others:
        key = next(key for key in parameters if parameters[key] != differing[key])
        raise BadInput(
            f"{one_line(first)} and {one_line(other)} take {one_line(key)} as values of different types.",
            next_step=f"Write {one_line(key)}:=JSON, or call them one after the other.",
        )
    return parameters


async def _schema(session: Session, device: str, tool: str) -> dict[str, Any] | None:
    """The input schema of a tool; None if the device does not have it, or is away by now."""
    try:
        found = tool_named(tool, await session.console.devices.tools(device))
    except (BadInput, DeviceError):
        # What the run says of this device is in the journal.
        return None
    return None if found is None else found.input_schema

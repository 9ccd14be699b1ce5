"""Proposes a batch for an intent in words, from the search for tools alone. Nothing is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from core.batch.models import Batch, Step
from core.errors import BadInput, ErrorCode
from core.fleet.models import ToolHit
from core.models.tools import Tool
from core.policy.analysis.arguments import PATH_NAME, snake
from core.service.console import Console

# A tool that fits less well is not proposed as a step.
LEAST_SCORE = 15.0
_PARTS = re.compile(r"\s*(?:[,;]|\band then\b|\bthen\b|\band\b)\s*", re.IGNORECASE)
_PATH = re.compile(r"(?<!\S)(?:~|/)[^\s,;]*")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A batch for an intent, and remarks on what it lacks."""

    batch: Batch
    notes: list[str]


async def propose(console: Console, intent: str, targets: str = "") -> Proposal:
    """Propose a batch: one step for each part of an intent, on the devices of a filter.

    Without one it is for the device on which the first step fits best.

    Raises:
        BadInput: no tool fits a part (code `not_found`), or `targets` is no filter.
    """
    parts = [part for part in _PARTS.split(intent) if part.strip()] or [intent]
    if not targets:
        # One device for all steps: the one on which the first step fits best.
        first = await _best(console, parts[0], "")
        targets = f'name:"{first.device}"'
    steps: list[Step] = []
    notes: list[str] = []
    for number, part in enumerate(parts, 1):
        hit = await _best(console, part, targets)
        tool = (await console.devices.describe(hit.device, hit.tool)).tool
        taken = dict(_arguments_in(part, tool))
        steps.append(Step(id=f"step_{number}", tool=hit.tool, parameters=taken))
        missing = [name for name in _required(tool) if name not in taken]
        why = f"step_{number}: {hit.tool} for “{part.strip()}” ({'; '.join(hit.reasons)})"
        notes.append(f"{why}; it still needs {', '.join(missing)}." if missing else f"{why}.")
    batch = Batch(name=intent.strip()[:200], targets=targets, steps=list(steps))
    return Proposal(batch, notes)


async def _best(console: Console, part: str, targets: str) -> ToolHit:
    hits = await console.devices.search(part.strip()[:500], targets, 1)
    if not hits or hits[0].score < LEAST_SCORE:
        where = f" on {targets}" if targets else ""
        raise BadInput(f"No tool{where} fits “{part.strip()}” well enough.", ErrorCode.NOT_FOUND)
    return hits[0]


def _properties(tool: Tool) -> dict[str, Any]:
    properties = tool.input_schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(tool: Tool) -> list[str]:
    required = tool.input_schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _arguments_in(words: str, tool: Tool) -> Iterator[tuple[str, str]]:
    """The arguments that an intent names: a value from an argument's list, and a path for the first path."""
    said = {word.casefold() for word in re.findall(r"\w+", words)}
    paths = iter(_PATH.findall(words))
    for name, schema in _properties(tool).items():
        allowed = schema.get("enum") if isinstance(schema, dict) else None
        if isinstance(allowed, list):
            named = [value for value in allowed if isinstance(value, str) and value.casefold() in said]
            if named:
                yield name, named[0]
        elif PATH_NAME.search(snake(name)) and (path := next(paths, None)) is not None:
            yield name, path

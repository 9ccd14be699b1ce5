"""Proposes a batch for an intent in words, from the search for tools alone. Nothing is sent.

Each part of the intent becomes a step: of the tools that fit it about as well as the best one, the first
whose call would be complete. A question never becomes a step that destroys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.batch.models import Batch, Step
from core.errors import BadInput, ErrorCode
from core.fleet.models import ToolHit
from core.fleet.sentence import read_sentence
from core.fleet.words import is_question
from core.models.tools import Effect
from core.service.call_needs import lacking, need_words
from core.service.console import Console
from core.service.intent_arguments import Taken, arguments_in

# A tool that fits less well is not proposed as a step.
LEAST_SCORE = 15.0
# A tool fits about as well as the best one with this share of its score.
_AS_WELL = 0.75
_MOST_LOOKED_AT = 5
_PARTS = re.compile(r"[,;]|\band then\b|\bthen\b|\band\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProposedStep:
    """A step for one part of an intent, `words`.

    `lacks` are the arguments that the call still needs, `unused` the values that no argument took, and
    `alternative` the tool that fits second best, if any.
    """

    step: Step
    words: str
    reasons: tuple[str, ...]
    lacks: tuple[str, ...]
    unused: tuple[str, ...]
    alternative: str | None

    def note(self) -> str:
        """What is to be said of the step."""
        said = f"{self.step.id}: {self.step.tool} for “{self.words}” ({'; '.join(self.reasons)})"
        if self.lacks:
            said += f"; it still needs {', '.join(self.lacks)}"
        if self.unused:
            said += f"; nothing took {', '.join(self.unused)}"
        return f"{said}. Or {self.alternative}." if self.alternative else f"{said}."


@dataclass(frozen=True, slots=True)
class Proposal:
    """A batch for an intent, and its steps with what they lack."""

    batch: Batch
    steps: tuple[ProposedStep, ...]

    @property
    def notes(self) -> list[str]:
        """Remarks, one for each step."""
        return [step.note() for step in self.steps]


@dataclass(frozen=True, slots=True)
class _Candidate:
    hit: ToolHit
    taken: Taken
    lacks: tuple[str, ...]


async def propose(console: Console, intent: str, targets: str = "") -> Proposal:
    """Propose a batch: one step for each part of an intent, on the devices of a filter.

    Without one it is for the device on which the first step fits best.

    Raises:
        BadInput: no tool fits a part (code `not_found`), or `targets` is no filter.
    """
    parts = list(_parts(intent)) or [intent]
    if not targets:
        # One device for all steps: the one on which the first step fits best.
        first = (await _found(console, parts[0], ""))[0]
        targets = f'name:"{first.device}"'
    steps: list[ProposedStep] = []
    for part in parts:
        step = await _proposed(console, part, targets, f"step_{len(steps) + 1}")
        # "The model and the cores of the processor" are two parts and one call.
        if not any(_is_same(step.step, before.step) for before in steps):
            steps.append(step)
    batch = Batch(name=intent.strip()[:200], targets=targets, steps=[step.step for step in steps])
    return Proposal(batch, tuple(steps))


def _is_same(step: Step, before: Step) -> bool:
    return step.tool == before.tool and step.parameters == before.parameters


def _parts(intent: str) -> Iterator[str]:
    """The parts of an intent, divided where no value is."""
    start = 0
    for found in _PARTS.finditer(read_sentence(intent).rest):
        if part := intent[start : found.start()].strip():
            yield part
        start = found.end()
    if part := intent[start:].strip():
        yield part


async def _proposed(console: Console, part: str, targets: str, step_id: str) -> ProposedStep:
    hits = await _found(console, part, targets)
    candidates = []
    for hit in hits:
        tool = (await console.devices.describe(hit.device, hit.tool)).tool
        taken = arguments_in(part, tool)
        lacks = tuple(need_words(need) for need in lacking(tool, taken.arguments))
        candidates.append(_Candidate(hit, taken, lacks))
    as_well = [one for one in candidates if one.hit.score >= hits[0].score * _AS_WELL]
    # `min` keeps the first of those that are alike.
    chosen = min(as_well, key=lambda one: (bool(one.lacks), len(one.taken.unused)))
    others = [one.hit.tool for one in candidates if one is not chosen]
    return ProposedStep(
        Step(id=step_id, tool=chosen.hit.tool, parameters=chosen.taken.arguments),
        part,
        tuple(chosen.hit.reasons),
        chosen.lacks,
        chosen.taken.unused,
        others[0] if others else None,
    )


async def _found(console: Console, part: str, targets: str) -> list[ToolHit]:
    """The tools that fit a part, best first; for a question, none that destroys."""
    # The blank says that the last word is whole.
    hits = await console.devices.search(f"{part[:499]} ", targets, _MOST_LOOKED_AT * 2)
    asks = is_question(part)
    fit = [hit for hit in hits if hit.score >= LEAST_SCORE and not (asks and hit.effect is Effect.DESTROY)]
    if not fit:
        where = f" on {targets}" if targets else ""
        raise BadInput(f"No tool{where} fits “{part}” well enough.", ErrorCode.NOT_FOUND)
    return fit[:_MOST_LOOKED_AT]

"""Proposes a batch for an intent in words, from the search for tools alone. Nothing is sent.

Each part of the intent becomes a step: of the tools that fit it about as well as the best one, the first
whose call would be complete. A tool fits that accounts for at least half of what a part says; where none
does, that is the answer, with the nearest ones. A question never becomes a step that changes or destroys.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.batch.models import Batch, Step
from core.errors import BadInput, ErrorCode
from core.fleet.models import ToolHit
from core.fleet.sentence import Sentence, ValueKind, read_sentence
from core.fleet.thesaurus import is_change, is_known_word, without_phrases
from core.fleet.words import FILLERS, is_question, words
from core.models.tools import Effect
from core.service.call_needs import lacking, need_words
from core.service.console import Console
from core.service.intent_arguments import Taken, arguments_in, is_free_text, is_line
from core.text import sentences

# A tool that fits less well is not proposed as a step.
LEAST_SCORE = 15.0
# A tool fits about as well as the best one with this share of its score.
_AS_WELL = 0.75
_MOST_LOOKED_AT = 5
_MOST_NEAREST = 3
_TWICE = 2
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
class _Part:
    """One part of an intent, as it is typed, and whether it asks something.

    `said` are its words that say something, `values` how many values it has, and `deed` the word that says
    what is to be done, if it asks nothing.
    """

    words: str
    asks: bool
    said: tuple[str, ...]
    values: int
    deed: str | None

    @classmethod
    def of(cls, text: str, asks: bool) -> _Part:
        sentence = read_sentence(text)
        told = words(without_phrases(sentence.rest))
        said = tuple(dict.fromkeys(word for word in told if word not in FILLERS and len(word) > 1) or told)
        deed = said[0] if said and not asks and _begins_with_a_word(sentence) else None
        return cls(text, asks, said, len(sentence.values), deed)


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
    parts = list(_parts(intent)) or [_Part.of(intent, is_question(intent))]
    if not targets:
        # One device for all steps: the one on which the first step fits best.
        first = (await _fitting(console, parts[0], ""))[0]
        targets = f'name:"{first.hit.device}"'
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


def _parts(intent: str) -> Iterator[_Part]:
    """The parts of an intent, divided where no value is.

    A question goes on behind "and" and a comma, as in "what was opened and closed?"; "then" ends it.
    """
    start, asks = 0, intent.rstrip().endswith("?")
    for found in _PARTS.finditer(read_sentence(intent).rest):
        if text := intent[start : found.start()].strip():
            asks = asks or is_question(text)
            yield _Part.of(text, asks)
        start = found.end()
        asks = asks and "then" not in found.group().casefold()
    if text := intent[start:].strip():
        yield _Part.of(text, asks or is_question(text))


def _begins_with_a_word(sentence: Sentence) -> bool:
    """Whether the first thing said is a word and not a value: "ls -la" says nothing of what is to be done."""
    first = sentence.values[0] if sentence.values else None
    return first is None or first.kind is ValueKind.NUMBER or bool(sentence.rest[: first.start].strip())


async def _proposed(console: Console, part: _Part, targets: str, step_id: str) -> ProposedStep:
    fitting = await _fitting(console, part, targets)
    best = fitting[0].hit.score
    # `min` keeps the first of those that are alike.
    chosen = min(
        (one for one in fitting if one.hit.score >= best * _AS_WELL),
        key=lambda one: (bool(one.lacks), len(one.taken.unused)),
    )
    others = [one.hit.tool for one in fitting if one is not chosen]
    return ProposedStep(
        Step(id=step_id, tool=chosen.hit.tool, parameters=chosen.taken.arguments),
        part.words,
        tuple(chosen.hit.reasons),
        chosen.lacks,
        chosen.taken.unused,
        others[0] if others else None,
    )


async def _fitting(console: Console, part: _Part, targets: str) -> list[_Candidate]:
    """The tools that fit a part, best first; for a question, none that changes or destroys.

    Raises:
        BadInput: there is none (code `not_found`); the message names the nearest.
    """
    # The blank says that the last word is whole.
    hits = await console.devices.search(f"{part.words[:499]} ", targets, _MOST_LOOKED_AT * 2)
    if part.asks:
        hits = [hit for hit in hits if hit.effect not in (Effect.CHANGE, Effect.DESTROY)]
    unknown = _known_to_none(hits)
    fitting = []
    for hit in [hit for hit in hits if hit.score >= LEAST_SCORE][:_MOST_LOOKED_AT]:
        tool = (await console.devices.describe(hit.device, hit.tool)).tool
        taken = arguments_in(part.words, tool)
        needs = lacking(tool, taken.arguments)
        if _fits(part, hit, taken, unknown, wants_line=any(map(is_line, itertools.chain(*needs)))):
            fitting.append(_Candidate(hit, taken, tuple(map(need_words, needs))))
    if not fitting:
        raise _nothing_fits(part, targets, hits, unknown)
    return fitting


def _known_to_none(hits: list[ToolHit]) -> set[str]:
    """The words of a part of which no tool says anything, and which are not of the field."""
    missed = [set(hit.missed) for hit in hits]
    return {word for word in (set.intersection(*missed) if missed else set()) if not is_known_word(word)}


def _fits(part: _Part, hit: ToolHit, taken: Taken, unknown: set[str], wants_line: bool) -> bool:
    """Whether a tool and its arguments account for half of what is said, of a question for a third.

    Accounted for is a word that the tool's definition has or that an argument takes, and a value where the
    tool still wants a line for a shell, which may hold it. A value is what a wish is about, and counts twice;
    so does a word that no tool knows, unless it is asked about. The word that says what is to be done must
    be the tool's: it is no change that the tool does not make, and no text for an argument.
    """
    names = {
        word
        for name, value in taken.arguments.items()
        if not is_free_text(name)
        for word in words(str(value))
    }
    deed = part.deed if part.deed in hit.missed else None
    if deed is not None and (is_change(deed) or (deed in unknown and deed not in names)):
        return False
    arguments = names | {word for value in taken.arguments.values() for word in words(str(value))}
    weights = {word: _TWICE if word in unknown and not part.asks else 1 for word in part.said}
    lost = sum(weights.get(word, 0) for word in hit.missed if word not in arguments)
    lost += 0 if wants_line else _TWICE * len(taken.unused)
    total = sum(weights.values()) + _TWICE * part.values
    # To read what was not meant costs nothing.
    return total - lost >= total / (3 if part.asks else 2)


def _nothing_fits(part: _Part, targets: str, hits: list[ToolHit], unknown: set[str]) -> BadInput:
    where = f" on {targets}" if targets else ""
    strange = [word for word in part.said if word in unknown]
    why = f"no tool there has to do with {', '.join(strange)}" if strange and hits else ""
    nearest = list(dict.fromkeys(hit.tool for hit in hits))[:_MOST_NEAREST]
    near = f"The nearest: {', '.join(nearest)}." if nearest else ""
    nothing = f"No tool{where} fits “{part.words}”{f': {why}' if why else ''}."
    return BadInput(
        sentences(nothing, near),
        ErrorCode.NOT_FOUND,
        "Say it in other words, look through what there is (quarterdeck search), or give a shell the line.",
    )

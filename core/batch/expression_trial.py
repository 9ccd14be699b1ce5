"""Tries an expression while it is written: what it may read, and its value on the results of an earlier run.

Nothing is sent and nothing is journalled. What reads a secret input has no value here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from core.batch.cel_types import described_fields, is_selectable, kind_words
from core.batch.expressions import (
    DEVICE,
    INPUTS,
    RESULT,
    STEPS,
    Context,
    DeviceFacts,
    Expression,
    ExpressionError,
    StepFacts,
)
from core.batch.live_run import step_facts
from core.batch.models import (
    ABSENT,
    LONGEST_VALUE,
    MOST_ASKED,
    ApprovalStep,
    AskedExpression,
    Batch,
    Cell,
    Entry,
    ExpressionTrial,
    ExpressionTrials,
    Parallel,
    Place,
    Readable,
    Run,
    Step,
    result_of,
)
from core.batch.step_values import LargeText, has_large_texts, readable_value
from core.batch.templates import CompiledStep, StepExpressionError, compile_all, steps_before
from core.errors import BadInput, ErrorCode

MOST_READABLE = 400
_LONGEST_EXAMPLE = 120
_DEEPEST = 5
_STEP_FIELDS = {
    "status": "text",
    "state": "text",
    "verdict": "text",
    "error": "text",
    "duration_ms": "number",
    "attempts": "whole number",
}
_DEVICE_FIELDS = {"name": "text", "tags": "list", "platform": "text", "os": "text", "os_name": "text"}


@dataclass(frozen=True, slots=True)
class Known:
    """The data that expressions of a batch are tried on.

    `schemas` has the output schemas of the steps' tools; `earlier` is a run whose results are read, of which
    some devices may be left out; `device` are the facts of the device whose results are read. `texts` has, by
    blob, the large texts that `parts_read` names.
    """

    schemas: Mapping[str, Mapping[str, Any]]
    device: DeviceFacts
    earlier: Run | None = None
    texts: Mapping[str, str] | None = None

    def cell(self, step: str) -> Cell | None:
        """The cell of a step on the device in the earlier run."""
        cells = self.earlier.cells if self.earlier is not None else []
        return next((cell for cell in cells if (cell.device, cell.step) == (self.device.name, step)), None)

    def inputs(self, batch: Batch) -> dict[str, Any]:
        """The values of the inputs that are not secret: those of the earlier run, else their defaults."""
        given = self.earlier.inputs if self.earlier is not None else {}
        values = {name: given.get(name, one.default) for name, one in batch.inputs.items() if not one.secret}
        return {name: value for name, value in values.items() if value is not ABSENT}


def try_expressions(
    batch: Batch, step: str, asked: Sequence[AskedExpression], known: Known
) -> ExpressionTrials:
    """The values that conditions of a step may read (`MOST_READABLE` at most), and what expressions give.

    Raises:
        BadInput: the batch has no such step (NOT_FOUND), or more than `MOST_ASKED` are asked (TOO_LARGE).
    """
    if len(asked) > MOST_ASKED:
        raise BadInput(f"At most {MOST_ASKED} expressions are tried at once.", ErrorCode.TOO_LARGE)
    return ExpressionTrials(
        readable=list(islice(_readable(batch, step, known), MOST_READABLE)),
        trials=[_tried(batch, step, one.place, one.text, known) for one in asked],
        run=known.earlier.summary.id if known.earlier is not None else "",
        device=known.device.name if known.earlier is not None else "",
    )


def parts_read(batch: Batch, step: str, asked: Sequence[AskedExpression], known: Known) -> list[Any]:
    """The large texts of the earlier run that the asked expressions read, loaded for a trial."""
    if known.earlier is None or not any(has_large_texts(cell.result) for cell in known.earlier.cells):
        return []
    parts: list[Any] = []
    for one in asked[:MOST_ASKED]:
        compiled = compile_all(_with_only(batch, step, one.place, one.text), known.schemas, [])
        if step in compiled:
            context = _context(batch, step, known)
            parts += [expression.cut(context) for expression in compiled[step].expressions()]
    return parts


def _readable(batch: Batch, step: str, known: Known) -> Iterator[Readable]:
    found, before = _step_in(batch, step)
    if isinstance(found, Step):
        yield from _result_fields(RESULT, step, known)
    values = known.inputs(batch)
    for name, given in batch.inputs.items():
        if not given.secret:
            value = _short(values[name]) if name in values else ""
            yield Readable(path=f"{INPUTS}.{name}", type=kind_words(given.type), value=value)
    if isinstance(found, ApprovalStep):
        return
    for name, kind in _DEVICE_FIELDS.items():
        yield Readable(path=f"{DEVICE}.{name}", type=kind, value=_short(getattr(known.device, name)))
    for earlier in reversed(before):
        path, facts = _joined(STEPS, earlier), _facts_of(known.cell(earlier))
        yield from _result_fields(f"{path}.{RESULT}", earlier, known)
        for name, kind in _STEP_FIELDS.items():
            value = _short(getattr(facts, name)) if facts is not None else ""
            yield Readable(path=f"{path}.{name}", type=kind, value=value)


def _result_fields(path: str, step: str, known: Known) -> Iterator[Readable]:
    """The result of a step and its fields: those of the schema, and those of the real result."""
    cell = known.cell(step)
    result = result_of(cell) if cell is not None else None
    fields = {_joined(path, *names): kind for names, kind in described_fields(known.schemas.get(step, {}))}
    real = dict(_values(path, readable_value(result))) if result is not None else {}
    for name in dict.fromkeys([path, *fields, *real]):
        kind = fields.get(name) or (_kind_of(real[name]) if name in real else "")
        yield Readable(path=name, type=kind, value=_short(real[name]) if name in real else "")


def _values(path: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """A value and what lies in it; of a list its first element."""
    yield path, value
    if depth >= _DEEPEST:
        return
    if isinstance(value, dict):
        for key, inner in list(value.items())[:MOST_READABLE]:
            yield from _values(_joined(path, key), inner, depth + 1)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from _values(f"{path}[0]", value[0], depth + 1)


def _joined(path: str, *names: str) -> str:
    for name in names:
        if name == "[0]":
            path += name
        else:
            path += f".{name}" if is_selectable(name) else f"[{json.dumps(name, ensure_ascii=False)}]"
    return path


def _kind_of(value: Any) -> str:
    kinds: dict[type, str] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        LargeText: "string",
        list: "array",
    }
    return kind_words("object" if isinstance(value, dict) else kinds.get(type(value), ""))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=_head_of)
    return text if len(text) <= _LONGEST_EXAMPLE else f"{text[:_LONGEST_EXAMPLE]}…"


def _head_of(value: object) -> str:
    assert isinstance(value, LargeText), "a result is JSON data but for its large texts"
    return value.head


def _facts_of(cell: Cell | None) -> StepFacts | None:
    """The facts about a step of an earlier run for expressions; None where it has not ended."""
    ended = cell is not None and (result_of(cell) is not None or cell.ended_at is not None)
    return step_facts(cell) if cell is not None and ended else None


def _tried(batch: Batch, step: str, place: Place, text: str, known: Known) -> ExpressionTrial:
    faults: list[StepExpressionError] = []
    compiled = compile_all(_with_only(batch, step, place, text), known.schemas, faults)
    if faults:
        first = faults[0]
        return ExpressionTrial(problem=first.what, line=first.line, column=first.column)
    made = compiled[step]
    expressions = list(made.expressions())
    secret = any(one.secret for one in expressions)
    if secret:
        return ExpressionTrial(
            type=_type_of(expressions), unknown="It reads a secret; its value is not shown."
        )
    if why := _why_unknown(expressions, step, known):
        return ExpressionTrial(type=_type_of(expressions), unknown=why)
    try:
        value = _evaluate(made, place, _context(batch, step, known))
    except ExpressionError as error:
        unknown = f"{error.message[:1].upper()}{error.message[1:]}."
        return ExpressionTrial(type=_type_of(expressions), unknown=unknown)
    shown = json.dumps(value, ensure_ascii=False)
    return ExpressionTrial(type=_type_of(expressions), value=shown[:LONGEST_VALUE])


def _why_unknown(expressions: list[Expression], step: str, known: Known) -> str:
    """Why an expression has no value: what it reads is in no earlier run."""
    read = [reference.path for expression in expressions for reference in expression.references]
    steps = {path[1] for path in read if path[0] == STEPS and len(path) > 1}
    steps |= {step for path in read if path[0] == RESULT}
    if not steps:
        return ""
    if known.earlier is None:
        return "This batch has not run yet, so that there are no results to read."
    missing = sorted(one for one in steps if _facts_of(known.cell(one)) is None)
    run = known.earlier.summary.id
    return f"{run} has no result of {', '.join(missing)} on {known.device.name}." if missing else ""


def _context(batch: Batch, step: str, known: Known) -> Context:
    cells = known.earlier.cells if known.earlier is not None else []
    names = {cell.step for cell in cells}
    facts = {name: found for name in names if (found := _facts_of(known.cell(name))) is not None}
    own = facts.get(step)
    result = own.result if own is not None else None
    return Context(known.inputs(batch), facts, known.device, result, known.texts)


def _evaluate(made: CompiledStep, place: Place, context: Context) -> Any:
    if place == "with":
        assert made.arguments is not None
        return made.arguments.evaluate(context)["value"]
    condition = made.when if place == "when" else made.expect[0]
    assert condition is not None
    return condition.evaluate(context)


def _type_of(expressions: list[Expression]) -> str:
    return kind_words(expressions[0].result_type) if len(expressions) == 1 else "text"


def _step_in(batch: Batch, step: str) -> tuple[Step | ApprovalStep, tuple[str, ...]]:
    for one, before in steps_before(batch):
        if one.id == step:
            return one, before
    raise BadInput(f"The batch has no step {step!r}.", ErrorCode.NOT_FOUND)


def _with_only(batch: Batch, step: str, place: Place, text: str) -> Batch:
    """The batch with this one text as its only expression."""

    def bare(one: Step) -> Step:
        here = one.id == step
        return one.model_copy(
            update={
                "when": text if here and place == "when" else None,
                "expect": [text] if here and place == "expect" else [],
                "parameters": {"value": text} if here and place == "with" else {},
                "recover": [bare(inner) for inner in one.recover],
            }
        )

    def bare_entry(entry: Entry) -> Entry:
        if isinstance(entry, ApprovalStep):
            return entry.model_copy(update={"when": text if entry.id == step else None})
        if isinstance(entry, Parallel):
            return entry.model_copy(update={"parallel": [bare(one) for one in entry.parallel]})
        return bare(entry)

    return batch.model_copy(update={"steps": [bare_entry(entry) for entry in batch.steps]})

"""Reads batch files (YAML or JSON), reporting mistakes by line and column, and writes them as readable YAML.

The format is that of `core.batch.models`; the key `with` holds a step's arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from core.batch.models import ApprovalStep, Batch, Parallel, Rollout, Step
from core.batch.yaml_reader import DEEPEST, Fault, Node, Place, read_document
from core.batch.yaml_writer import write_document
from core.errors import BadInput, ErrorCode
from core.fleet.filter import parse_filter

LARGEST = 1024 * 1024
"""Maximum size of a batch file, in bytes of UTF-8."""

MOST_FAULTS = 50

_STEP_KEYS = ("id", "tool", "with", "timeout", "enabled")
_GROUP_KEYS = ("parallel",)
_BATCH_KEYS = tuple(Batch.model_fields)
_ROLLOUT_KEYS = tuple(Rollout.model_fields)

# pydantic's error types, in words for the author of a batch file.
_SAYINGS = {
    "missing": "is missing",
    "string_type": "is not a text; put it in quotes",
    "string_too_short": "is empty",
    "bool_type": "is not a yes or no; allowed true, false",
    "int_type": "is not a whole number",
    "int_from_float": "is not a whole number",
    "float_type": "is not a number",
    "list_type": "is not a list; begin each line with -",
    "too_short": "is an empty list",
    "dict_type": "is not a set of key: value lines",
    "model_type": "is not a set of key: value lines",
}


def read_batch(text: str, origin: str) -> Batch:
    """Read a batch from YAML or JSON. `origin` is the file name that error messages show.

    Raises:
        BadInput: the text is too large (TOO_LARGE) or has mistakes. The message has one line for each of the
            first `MOST_FAULTS` mistakes, in the order of the file: `origin:line:column: what; allowed …`.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadInput(f"{origin}:1:1: the text is not Unicode: {error.reason}") from error
    if size > LARGEST:
        raise BadInput(
            f"{origin}:1:1: the file has {size:,} bytes; allowed are {LARGEST:,}", ErrorCode.TOO_LARGE
        )
    node, faults = read_document(text.removeprefix("\ufeff"))
    if node is not None:
        faults.extend(_faults_of(node))
    if faults or node is None:
        raise BadInput(_in_words(faults, origin))
    return Batch.model_validate(node.plain(), strict=True)


def batch_to_yaml(batch: Batch) -> str:
    """Write a batch as YAML that `read_batch` reads back to an equal batch. Default values are left out.

    Raises:
        BadInput: an argument is not a JSON value (NaN, infinity, a lone surrogate), or is nested too deeply.
    """
    return write_document(_for_file(batch), DEEPEST)


def _for_file(batch: Batch) -> dict[str, Any]:
    wanted = batch.model_dump(by_alias=True, exclude_defaults=True, exclude={"steps"})
    steps = [
        {"parallel": [_step_for_file(one) for one in step.parallel]}
        if isinstance(step, Parallel)
        else _step_for_file(step)
        for step in batch.steps
    ]
    return {"format": batch.format, **wanted, "steps": steps}


def _step_for_file(step: Step | ApprovalStep) -> dict[str, Any]:
    return {"id": step.id, **step.model_dump(by_alias=True, exclude_defaults=True, exclude={"id"})}


def _in_words(faults: list[Fault], origin: str) -> str:
    ordered = sorted(set(faults))
    lines = [f"{origin}:{fault.place[0]}:{fault.place[1]}: {fault.what}" for fault in ordered[:MOST_FAULTS]]
    if len(ordered) > MOST_FAULTS:
        lines.append(f"{origin}: and {len(ordered) - MOST_FAULTS} more")
    return "\n".join(lines)


def _faults_of(root: Node) -> Iterator[Fault]:
    if not isinstance(root.value, dict):
        yield Fault(root.place, f"a batch is a set of key: value lines; allowed {', '.join(_BATCH_KEYS)}")
        return
    yield from _unknown_keys(root, _BATCH_KEYS, "a batch")
    # Each step is checked separately, so a valid placeholder replaces the steps in this check.
    stand_in = {"id": "x", "tool": "x"}
    head = {key: node.plain() for key, node in root.value.items() if key in _BATCH_KEYS}
    rollout = root.value.get("rollout")
    if rollout is not None and isinstance(rollout.value, dict):
        yield from _unknown_keys(rollout, _ROLLOUT_KEYS, "rollout")
        head["rollout"] = {key: value for key, value in head["rollout"].items() if key in _ROLLOUT_KEYS}
    steps = root.value.get("steps")
    if steps is not None and isinstance(steps.value, list) and steps.value:
        head["steps"] = [stand_in]
        yield from _step_faults(steps)
    yield from _model_faults(Batch, head, root)
    targets = root.value.get("targets")
    if targets is not None and isinstance(targets.value, str):
        try:
            parse_filter(targets.value)
        except BadInput as error:
            yield Fault(targets.place, f"targets: {error.message}")


def _step_faults(steps: Node) -> Iterator[Fault]:
    seen: dict[str, Place] = {}
    for node in steps.value:
        if isinstance(node.value, dict) and "parallel" in node.value:
            yield from _unknown_keys(node, _GROUP_KEYS, "a parallel group")
            group = node.value["parallel"]
            if not isinstance(group.value, list) or not group.value:
                yield Fault(group.place, "parallel is not a list of steps; begin each step with -")
                continue
            for inner in group.value:
                yield from _one_step(inner, seen)
        else:
            yield from _one_step(node, seen)


def _one_step(node: Node, seen: dict[str, Place]) -> Iterator[Fault]:
    if not isinstance(node.value, dict):
        yield Fault(node.place, f"a step is a set of key: value lines; allowed {', '.join(_STEP_KEYS)}")
        return
    if "parallel" in node.value:
        yield Fault(node.keys["parallel"], "a parallel group cannot stand inside another one")
        return
    yield from _unknown_keys(node, _STEP_KEYS, "a step")
    data = {key: inner.plain() for key, inner in node.value.items() if key in _STEP_KEYS}
    yield from _model_faults(Step, data, node)
    name = node.value.get("id")
    if name is not None and isinstance(name.value, str):
        if name.value in seen:
            first = seen[name.value][0]
            yield Fault(name.place, f'two steps have the id "{name.value}"; the first is in line {first}')
        seen.setdefault(name.value, name.place)


def _unknown_keys(node: Node, allowed: tuple[str, ...], what: str) -> Iterator[Fault]:
    for key, place in node.keys.items():
        if key not in allowed:
            yield Fault(place, f'{what} has no key "{key[:80]}"; allowed {", ".join(allowed)}')


def _model_faults(model: type[BaseModel], data: Mapping[str, Any], node: Node) -> Iterator[Fault]:
    try:
        model.model_validate(data, strict=True)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False):
            place, name = _find(node, one["loc"])
            yield Fault(place, f"{name} {_say(one['type'], one['msg'], one.get('ctx', {}))}".strip())


def _say(kind: str, message: str, context: Mapping[str, Any]) -> str:
    match kind:
        case "literal_error":
            return f"is not known; allowed {str(context['expected']).replace(chr(39), '')}"
        case "string_pattern_mismatch":
            return (
                "is not an id; allowed are letters, digits, _ and -, beginning with a letter or _, at most 64"
            )
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            sign = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
            limits = [f"{word} {context[key]:g}" for key, word in sign.items() if key in context]
            return f"is out of range; allowed {', '.join(limits)}"
        case "string_too_long":
            return f"is too long; allowed are {context['max_length']} characters"
    return _SAYINGS.get(kind) or message[:1].lower() + message[1:]


def _find(node: Node, path: tuple[int | str, ...]) -> tuple[Place, str]:
    """The place of the value at a path, or of the innermost value around it; and the last name looked up."""
    name = ""
    for part in path:
        name = str(part)
        inner = node.value.get(part) if isinstance(node.value, dict) else None
        if inner is None:
            return node.place, name
        node = inner
    return node.place, name

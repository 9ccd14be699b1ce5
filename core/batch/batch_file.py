"""Reads batch files (YAML or JSON), reporting mistakes by line and column, and writes them as readable YAML.

The format is that of `core.batch.models`; the key `with` holds a step's arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from core.batch.batch_schema import node_at, schema_faults
from core.batch.inputs import fault_of_default
from core.batch.models import ApprovalStep, Batch, Input, Parallel, Step
from core.batch.templates import OPEN, StepExpressionError, compile_all, has_expressions
from core.batch.yaml_reader import DEEPEST, Fault, Node, Place, read_document
from core.batch.yaml_writer import write_document
from core.errors import BadInput, ErrorCode
from core.models.device_filter import parse_filter
from core.text import sentences

LARGEST = 1024 * 1024
"""Maximum size of a batch file, in bytes of UTF-8."""

MOST_FAULTS = 50


def read_batch(text: str, origin: str) -> Batch:
    """Read a batch from YAML or JSON. `origin` is the file name that error messages show.

    Raises:
        BadInput: the text is too large (TOO_LARGE) or has mistakes. The message has one line for each of the
            first `MOST_FAULTS` mistakes, in the order of the file: `origin:line:column: what; allowed …`.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadInput(sentences(f"{origin}:1:1: the text is not Unicode: {error.reason}")) from error
    if size > LARGEST:
        raise BadInput(
            f"{origin}:1:1: the file has {size:,} bytes; allowed are {LARGEST:,}.", ErrorCode.TOO_LARGE
        )
    node, faults = read_document(text.removeprefix("\ufeff"))
    if node is not None:
        faults.extend(schema_faults(node))
        faults.extend(_repeated_ids(node))
        faults.extend(_target_faults(node))
        faults.extend(_default_faults(node))
    if faults or node is None:
        raise BadInput(_in_words(faults, origin))
    try:
        batch = Batch.model_validate(node.plain())
    except ValidationError as error:
        raise BadInput(_in_words(list(_model_faults(error, node)), origin)) from error
    if faults := list(_expression_faults(batch, node, text)):
        raise BadInput(_in_words(faults, origin))
    return batch


def batch_to_yaml(batch: Batch) -> str:
    """Write a batch as YAML that `read_batch` reads back to an equal batch. Default values are left out.

    Raises:
        BadInput: an argument is not a JSON value (NaN, infinity, a lone surrogate), or is nested too deeply.
    """
    return write_document(_for_file(batch), DEEPEST)


def _for_file(batch: Batch) -> dict[str, Any]:
    wanted = batch.model_dump(by_alias=True, exclude_defaults=True, exclude={"steps"})
    steps = [
        {"parallel": [_step_for_file(step) for step in entry.parallel]}
        if isinstance(entry, Parallel)
        else _step_for_file(entry)
        for entry in batch.steps
    ]
    return {"format": batch.format, **wanted, "steps": steps}


def _step_for_file(step: Step | ApprovalStep) -> dict[str, Any]:
    dumped = step.model_dump(by_alias=True, exclude_defaults=True, exclude={"id", "recover"})
    written = {"id": step.id, **dumped}
    if isinstance(step, ApprovalStep):
        return written
    if len(step.expect) == 1:
        written["expect"] = step.expect[0]
    if step.recover:
        written["recover"] = [_step_for_file(inner) for inner in step.recover]
    return written


def _in_words(faults: list[Fault], origin: str) -> str:
    ordered = sorted(set(faults))
    lines = [f"{origin}:{fault.place[0]}:{fault.place[1]}: {fault.what}" for fault in ordered[:MOST_FAULTS]]
    if len(ordered) > MOST_FAULTS:
        lines.append(f"{origin}: and {len(ordered) - MOST_FAULTS} more")
    return "\n".join(lines)


def _target_faults(root: Node) -> Iterator[Fault]:
    targets = root.value.get("targets") if isinstance(root.value, dict) else None
    if targets is not None and isinstance(targets.value, str):
        try:
            parse_filter(targets.value)
        except BadInput as error:
            yield Fault(targets.place, f"targets: {error.message}")


def _repeated_ids(root: Node) -> Iterator[Fault]:
    seen: dict[str, Place] = {}
    for node in _step_nodes(root):
        name = node.value.get("id")
        if name is None or not isinstance(name.value, str):
            continue
        if name.value in seen:
            first = seen[name.value][0]
            yield Fault(name.place, f'two steps have the id "{name.value}"; the first is in line {first}')
        seen.setdefault(name.value, name.place)


def _step_nodes(root: Node) -> list[Node]:
    """The nodes of all steps in the order of the file, those in groups and recovery steps included."""
    found: list[Node] = []
    waiting = [root.value.get("steps")] if isinstance(root.value, dict) else []
    while waiting:
        node = waiting.pop()
        if node is None or not isinstance(node.value, dict | list):
            continue
        if isinstance(node.value, list):
            waiting += reversed(node.value)
        else:
            found.append(node)
            waiting += [node.value.get("recover"), node.value.get("parallel")]
    return found


def _model_faults(error: ValidationError, root: Node) -> Iterator[Fault]:
    """The faults that the models find beyond the schema: rules between several values."""
    for fault in error.errors(include_url=False, include_input=False):
        node = root
        for part in fault["loc"]:
            # A location of pydantic also names the models that it tried, which are no keys of the file.
            inner = node_at(node, [part])
            node = inner
        yield Fault(node.place, fault["msg"].removeprefix("Value error, "))


def _default_faults(root: Node) -> Iterator[Fault]:
    """Faults of defaults; what is wrong with an input otherwise is told by the schema."""
    inputs = node_at(root, ["inputs"])
    if inputs is root or not isinstance(inputs.value, dict):
        return
    for name, node in inputs.value.items():
        try:
            declared = Input.model_validate(node.plain())
        except ValidationError:
            continue
        if fault := fault_of_default(declared):
            yield Fault(node_at(node, ["default"]).place, f"the default of {name} {fault}")


def _expression_faults(batch: Batch, root: Node, text: str) -> Iterator[Fault]:
    if not has_expressions(batch):
        return
    mistakes: list[StepExpressionError] = []
    compile_all(batch, {}, mistakes)
    steps = {node.value["id"].value: node for node in _step_nodes(root) if "id" in node.value}
    lines = text.split("\n")
    for mistake in mistakes:
        node = node_at(steps[mistake.step], list(mistake.path))
        name = ".".join(str(part) for part in mistake.path if isinstance(part, str))
        yield Fault(_place_in_file(lines, node, mistake), f"{name}: {mistake.what}")


def _place_in_file(lines: list[str], node: Node, mistake: StepExpressionError) -> Place:
    """Where an expression's mistake stands in the file; the value's place where that cannot be told.

    It cannot where the text has several expressions or several lines, or is written with escapes.
    """
    line, column = node.place
    value, written = str(node.value), lines[line - 1][column - 1 :]
    source = value[value.find(OPEN) :]
    if value.count(OPEN) == 1 and "\n" not in value and source in written:
        return line, column + written.index(source) + len(OPEN) + mistake.column - 1
    return node.place

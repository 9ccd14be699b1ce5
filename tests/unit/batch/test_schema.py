"""The JSON Schema of batch files agrees with the models, and finds what they would refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from core.batch.batch_file import batch_to_yaml, read_batch
from core.batch.batch_schema import SCHEMA_FILE
from core.batch.models import (
    ABSENT,
    ApprovalStep,
    Batch,
    Input,
    Parallel,
    Question,
    Retry,
    Rollout,
    Step,
    Stop,
    StopAt,
)
from core.errors import BadInput, ErrorCode

SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
PARTS: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (Batch, SCHEMA),
    (Step, SCHEMA["$defs"]["step"]),
    (Parallel, SCHEMA["$defs"]["parallel"]),
    (ApprovalStep, SCHEMA["$defs"]["approval_step"]),
    (Question, SCHEMA["$defs"]["question"]),
    (Retry, SCHEMA["$defs"]["retry"]),
    (Input, SCHEMA["$defs"]["input"]),
    (Rollout, SCHEMA["$defs"]["rollout"]),
    (Stop, SCHEMA["$defs"]["rollout"]["properties"]["stop"]),
    (StopAt, SCHEMA["$defs"]["stop_at"]),
]

WHOLE = """\
name: Free disk space
targets: "os:linux tag:lab !name:db-*"
inputs:
  threshold: {type: integer, default: 80, description: Percent}
  nothing: {type: object, default: {}}
  token: {type: string, secret: true}
  mode: {type: string, default: fast, one_of: [fast, slow]}
on_failure: continue
rollout:
  canary: 1
  wave: 10
  parallel: 5
  stop:
    run: {failed: 3, denied: "10%"}
    wave: {offline: 1, unknown: 1}
notes: For people.
steps:
  - id: disk
    tool: get_system_info
    with: {info_type: disk}
  - id: ask
    approval: {question: Clean the lab?, approvers: 2, deadline: 600}
    when: "${{ inputs.mode == 'fast' }}"
  - id: clean
    tool: shell_execute
    with: {command: "rm -rf ~/.cache/${{ inputs.mode }}", timeout: "${{ inputs.threshold }}"}
    when: "${{ steps.disk.result.filesystems[0].use_percent > inputs.threshold }}"
    expect:
      - "${{ result.exit_code == 0 }}"
      - "${{ steps.disk.state == 'done' }}"
    retry:
      times: 2
      backoff: 2
      jitter: 0
      on: [timeout, tool_failed]
      not_idempotent: Removing twice removes the same.
    on_failure: recover
    recover:
      - id: look
        tool: shell_execute_read
        with: {command: "journalctl -n 5"}
        on_failure: continue
      - id: other
        tool: shell_execute
        with: {command: "echo ${{ steps.clean.error }}"}
        when: "${{ steps.look.status == 'success' }}"
    note: Careful.
  - parallel:
      - {id: shot, tool: screenshot, expect: "${{ size(result) > 0 }}"}
      - {id: mem, tool: get_system_info, with: {info_type: memory}}
"""


@pytest.mark.parametrize(("model", "part"), PARTS, ids=[model.__name__ for model, _ in PARTS])
def test_schema_and_model_have_the_same_keys_requirements_and_defaults(
    model: type[BaseModel], part: dict[str, Any]
) -> None:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    assert list(part["properties"]) == list(fields) or set(part["properties"]) == set(fields)
    assert set(part.get("required", ())) == {name for name, field in fields.items() if field.is_required()}
    assert part["additionalProperties"] is False
    for name, inner in part["properties"].items():
        if "default" in inner:
            assert inner["default"] == fields[name].default


def test_the_schema_is_a_schema_and_names_every_error_code() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    codes = SCHEMA["$defs"]["retry"]["properties"]["on"]["items"]["enum"]
    assert set(codes) == {code.value for code in ErrorCode}
    recovery = SCHEMA["$defs"]["recovery_step"]["properties"]
    assert set(SCHEMA["$defs"]["step"]["properties"]) - set(recovery) == {"recover"}


def test_a_batch_with_everything_is_read_and_written_back() -> None:
    batch = read_batch(WHOLE, "b.yaml")
    assert batch.inputs["nothing"].default == {}
    assert batch.inputs["token"].default is ABSENT
    assert batch.inputs["token"].required
    written = batch_to_yaml(batch)
    assert read_batch(written, "b.yaml") == batch
    assert batch_to_yaml(read_batch(written, "b.yaml")) == written
    assert Batch.model_validate_json(batch.model_dump_json(by_alias=True)) == batch


def step(text: str) -> str:
    inputs = "inputs: {n: {type: integer}, s: {type: string, secret: true}}"
    return f"name: x\n{inputs}\nsteps:\n  - {{id: z, tool: t}}\n  - id: a\n    tool: t\n{text}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (step("    retry: {times: 0}\n"), "7:20: times is out of range; allowed at least 1, at most 10"),
        (step("    retry: {times: 1, on: [late]}\n"), "7:28: 0 is not known; allowed invalid_arguments"),
        (step("    retry: {backoff: 1}\n"), "7:12: times is missing"),
        (step("    on_failure: recover\n"), "5:5: on_failure: recover needs recover steps"),
        (
            step("    on_failure: stop\n    recover: [{id: b, tool: t}]\n"),
            "5:5: a step with recover steps cannot say on_failure: stop",
        ),
        (
            step("    recover: [{id: b, tool: t, recover: [{id: c, tool: t}]}]\n"),
            '7:32: a recovery step has no key "recover"',
        ),
        (
            step("    recover: [{id: a, tool: t}]\n"),
            '7:20: two steps have the id "a"; the first is in line 5',
        ),
        (step("    when: \"${{ steps.y.state == 'done' }}\"\n"), '7:21: when: no step "y" stands before'),
        (
            step("    when: ${{ steps.z.state > 3 }}\n"),
            "7:29: when: > cannot be used with: text, whole number",
        ),
        (step("    when: ${{ inputs.m > 3 }}\n"), '7:21: when: there is no input "m"; known are n, s'),
        (
            step("    when: ${{ inputs.n }}\n"),
            "when: a condition is true or false; this one is of the type int",
        ),
        (step("    when: inputs.n > 3\n"), "7:11: when: a condition stands wholly in ${{ … }}"),
        (step("    when: ${{ inputs.n > 3\n"), "7:14: when: ${{ is not closed with }}"),
        (step("    when: ${{ inputs.s == 'a' }}\n"), "when: the secret input s may only go into an argument"),
        (step("    expect: ${{ result.x > }}\n"), "expect: mismatched input"),
        (step("    with: {a: [1, 'n ${{ inputs.q }}']}\n"), 'with.a: there is no input "q"'),
        (
            "name: x\ninputs: {1a: {type: string}}\nsteps: [{id: a, tool: t}]\n",
            "2:10: 1a is not the name of an input",
        ),
        (
            "name: x\ninputs: {a: {type: text}}\nsteps: [{id: a, tool: t}]\n",
            "2:20: type is not known; allowed",
        ),
        (
            "name: x\nrollout: {stop: {run: {failed: '0%'}}}\nsteps: [{id: a, tool: t}]\n",
            "2:32: failed is neither",
        ),
        (
            "name: x\nrollout: {stop: {wave: {failed: 0}}}\nsteps: [{id: a, tool: t}]\n",
            "2:33: failed is neither",
        ),
        ("name: x\nsteps: [{id: a, approval: {}}]\n", "2:27: question is missing"),
        (
            "name: x\nsteps: [{id: a, approval: {question: q}, when: '${{ device.name == \"a\" }}'}]\n",
            "when: an approval is asked once for all devices",
        ),
    ],
)
def test_a_mistake_in_what_a_batch_decides_by_is_named_with_its_place(text: str, line: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_batch(text, "b.yaml")
    assert line in caught.value.message, caught.value.message

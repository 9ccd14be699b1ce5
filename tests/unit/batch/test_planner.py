"""What a plan says of each step on each device, from what is known before a run."""

from __future__ import annotations

from typing import Any

from core.aip.messages import ResultStatus
from core.batch.batch_file import read_batch
from core.batch.live_run import step_facts
from core.batch.models import Cell, CellState, Plan, PlannedCell
from core.batch.planner import SKIPPED, Planner
from core.commands.request import NO_SECRETS, Secrets
from core.commitments import NO_PLACES, Places
from core.errors import BadInput, ErrorCode
from core.models.devices import Device, Health
from core.models.tools import Contract, Effect, Fact, Risk, Source, Tool
from core.policy.models import Answer, Decision, Reason
from core.policy.real_paths import NOT_FOLLOWED, ResolvedPaths

DISK = {"type": "object", "properties": {"percent": {"type": "number"}}}


class Policy:
    """Asks for shell lines, denies those with `forbidden`, allows the rest, and keeps the calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    def explain(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        actor: str = "",
        leads: ResolvedPaths = NOT_FOLLOWED,
        secrets: Secrets = NO_SECRETS,
        unquoted: Places = NO_PLACES,
    ) -> Decision:
        self.secrets = secrets
        self.asked.append((device, tool, parameters))
        if tool == "gone":
            raise BadInput("There is no such tool.", ErrorCode.UNKNOWN_TOOL)
        answer = Answer.ASK if tool == "shell" else Answer.ALLOW
        if "forbidden" in str(parameters):
            answer = Answer.DENY
        return Decision.model_construct(
            answer=answer,
            risk=Risk.LOW,
            effect=Effect.OBSERVE,
            summary="Does it",
            reasons=[Reason.model_construct(text="Because.", origin="test")],
        )


class Shelf:
    """Each device has `disk`, which answers as `DISK` says, and `shell`, which changes something."""

    def tool(self, device: str, name: str) -> Tool | None:
        if name == "gone":
            return None
        effect = Effect.OBSERVE if name == "disk" else Effect.CHANGE

        def fact(value: Any) -> Any:
            return Fact[Any](value=value, source=Source.BUILT_IN, why="test")

        contract = Contract(
            effect=fact(effect),
            risk=fact(Risk.LOW),
            reversible=fact(False),
            idempotent=fact(False),
            open_world=fact(False),
            digest=f"digest of {name}",
        )
        return Tool(
            device=device,
            tool_key=f"action::{name}",
            tool_name=name,
            tool_type="action",
            output_schema=DISK if name == "disk" else {},
            contract=contract,
        )


def device(name: str, health: Health = Health.ONLINE, tags: list[str] | None = None) -> Device:
    return Device(name=name, health=health, since="2026-01-01T00:00:00Z", tags=tags or [])


def planned(steps: str, inputs: dict[str, Any] | None = None, *devices: Device) -> tuple[Plan, Policy]:
    head = """name: x
inputs:
  threshold: {type: integer, default: 80}
  place: {type: string}
  token: {type: string, secret: true}
steps:
  - {id: disk, tool: disk}
"""
    policy = Policy()
    planner = Planner(read_batch(head + steps, "b.yaml"), inputs or {}, policy, Shelf(), "operator:ada")
    return planner.plan(list(devices) or [device("lab-1")], {}), policy


def cell(plan: Plan, step: str, of: str = "lab-1") -> PlannedCell:
    return next(one for one in plan.cells if (one.step, one.device) == (step, of))


def test_what_depends_on_results_is_not_known_and_names_the_steps() -> None:
    plan, policy = planned(
        "  - {id: a, tool: shell, with: {n: '${{ steps.disk.result.percent }}'}}\n"
        "  - {id: b, tool: shell, when: '${{ steps.a.state == \"done\" }}'}\n"
        "  - {id: c, tool: shell, with: {p: 'x ${{ inputs.place }}'}}\n"
    )
    assert (cell(plan, "disk").outcome, cell(plan, "a").outcome) == ("runs", "not_known")
    assert cell(plan, "a").because == ["disk"]
    assert cell(plan, "b").because == ["a"]
    assert cell(plan, "c").because == ["inputs.place"]
    assert [tool for _, tool, _ in policy.asked] == ["disk"]


def test_a_condition_on_known_values_decides_and_skipped_steps_are_known() -> None:
    plan, _ = planned(
        "  - {id: a, tool: shell, when: '${{ inputs.threshold > 90 }}'}\n"
        "  - {id: b, tool: shell, when: '${{ steps.a.state == \"skipped\" }}'}\n"
        "  - {id: c, tool: shell, when: '${{ false && steps.disk.result.percent > 1.0 }}'}\n"
        "  - {id: d, tool: shell, when: '${{ \"db\" in device.tags }}'}\n",
        None,
        device("lab-1"),
        device("db-1", tags=["db"]),
    )
    assert [cell(plan, step).outcome for step in "abcd"] == ["skipped", "asks", "skipped", "skipped"]
    assert cell(plan, "a").why == "inputs.threshold > 90 is false."
    assert cell(plan, "d", "db-1").outcome == "asks"


def test_arguments_are_judged_with_their_values_secrets_too_and_these_are_not_shown() -> None:
    plan, policy = planned(
        "  - {id: a, tool: shell, with: {command: 'ls ${{ inputs.place }}'}}\n"
        "  - {id: b, tool: shell, with: {password: '${{ inputs.token }}', n: '${{ inputs.threshold }}'}}\n",
        {"place": "forbidden", "token": "hunter22"},
    )
    assert cell(plan, "a").outcome == "denied"
    assert cell(plan, "b").outcome == "asks"
    assert policy.asked[-1][2] == {"password": "hunter22", "n": 80}
    assert policy.secrets.places == {("password",): ()}
    assert "hunter22" not in plan.model_dump_json()


def test_a_text_that_is_inserted_as_it_is_is_said_in_the_plan() -> None:
    plan, policy = planned(
        "  - {id: a, tool: shell, with: {command: 'ls ${{ raw(inputs.place) }}'}}\n"
        "  - {id: b, tool: shell, with: {command: 'ls ${{ inputs.place }}'}}\n",
        {"place": "a; id"},
    )
    assert policy.asked[-1][2] == {"command": "ls 'a; id'"}
    assert "raw(…)" in cell(plan, "a").why
    assert "raw(…)" not in cell(plan, "b").why


def test_a_field_that_the_tool_does_not_answer_is_found_before_the_run() -> None:
    plan, _ = planned(
        "  - {id: a, tool: shell, when: '${{ steps.disk.result.percnt > 1.0 }}'}\n"
        "  - {id: b, tool: shell, when: '${{ steps.disk.result.percent > \"1\" }}'}\n"
    )
    assert cell(plan, "a").outcome == "invalid"
    assert cell(plan, "a").why == 'a: when: there is no field "percnt"; there are percent.'
    assert "cannot be used with: number, text" in cell(plan, "b").why


def test_recovery_steps_and_questions_have_their_own_outcome() -> None:
    plan, _ = planned(
        "  - {id: ask, approval: {question: Go on?}}\n"
        "  - {id: no, approval: {question: Go on?}, when: '${{ inputs.threshold > 90 }}'}\n"
        "  - id: a\n    tool: shell\n    recover:\n"
        "      - {id: r, tool: shell}\n      - {id: s, tool: gone}\n"
        "  - id: b\n    tool: shell\n    enabled: false\n    recover: [{id: t, tool: shell}]\n"
    )
    assert plan.steps == ["disk", "ask", "no", "a", "r", "s", "b", "t"]
    outcomes = [cell(plan, step).outcome for step in plan.steps]
    assert outcomes == [
        "runs", "question", "skipped", "asks", "recovers", "no_such_tool", "off", "skipped",
    ]  # fmt: skip
    assert cell(plan, "r").because == ["a"]
    assert cell(plan, "r").answer is Answer.ASK


def test_a_retry_that_will_not_happen_is_announced() -> None:
    plan, _ = planned(
        "  - {id: a, tool: shell, retry: {times: 2}}\n"
        "  - {id: b, tool: shell, retry: {times: 2, not_idempotent: It only adds a line.}}\n"
        "  - {id: c, tool: disk, retry: {times: 2}}\n"
    )
    assert "It is not tried again" in cell(plan, "a").why
    assert "It is not tried again" not in cell(plan, "b").why + cell(plan, "c").why


def test_a_device_that_is_away_has_no_other_outcome() -> None:
    plan, _ = planned("", None, device("lab-1", Health.OFFLINE))
    assert cell(plan, "disk").outcome == "offline"


def test_a_skipped_step_reads_in_a_plan_as_it_reads_in_a_run() -> None:
    assert ResultStatus.SKIPPED.value == "skipped"
    skipped = Cell(run="r", device="d", step="s", tool="t", state=CellState.SKIPPED)
    assert step_facts(skipped, None) == SKIPPED


def test_a_missing_tool_is_named_also_where_the_condition_is_not_known_yet() -> None:
    plan, _ = planned(
        '  - {id: b, tool: gone, when: "${{ steps.disk.result.percent > 90 }}"}\n'
        '  - {id: c, tool: gone, with: {p: "${{ steps.disk.result.percent }}"}}\n'
        '  - {id: d, tool: shell, with: {p: "${{ steps.disk.result.percent }}"}}\n'
    )
    assert [cell(plan, step).outcome for step in "bcd"] == ["not_known"] * 3
    assert [cell(plan, step).why for step in "bcd"] == [
        "depends on disk; lab-1 has no tool 'gone'.",
        "depends on disk; lab-1 has no tool 'gone'.",
        "depends on disk",
    ]


def test_what_is_wrong_on_every_device_is_wrong_everywhere_and_devices_that_are_away_do_not_count() -> None:
    batch = read_batch(
        "name: x\ntargets: 'name:*'\nsteps:\n  - {id: disk, tool: disk}\n"
        "  - {id: b, tool: shell, when: '${{ steps.disk.result.nope > 1 }}'}\n",
        "x.yaml",
    )

    class Mixed(Shelf):
        def tool(self, device: str, name: str) -> Tool | None:
            return None if device == "bare" else super().tool(device, name)

    def wrong(*devices: Device) -> list[str]:
        return Planner(batch, {}, Policy(), Mixed(), "operator:anna").wrong_everywhere(list(devices))

    [why] = wrong(device("lab-1"), device("lab-2"))
    assert 'b: when: there is no field "nope"' in why
    assert wrong(device("lab-1"), device("away", Health.OFFLINE))
    # Of a tool that a device lacks nothing is known.
    assert wrong(device("lab-1"), device("bare")) == []
    assert wrong(device("away", Health.OFFLINE)) == []


def test_arguments_are_wrong_everywhere_only_if_no_device_takes_them() -> None:
    batch = read_batch(
        "name: x\ntargets: 'name:*'\nsteps:\n  - {id: disk, tool: disk}\n"
        "  - {id: b, tool: shell, with: {p: ls}}\n  - {id: c, tool: shell, with: {p: id}}\n",
        "x.yaml",
    )

    class Strict(Policy):
        def explain(
            self, device: str, tool: str, parameters: dict[str, Any], *rest: Any, **more: Any
        ) -> Decision:
            if parameters and device.startswith("strict"):
                raise BadInput("p is not an argument here.")
            return super().explain(device, tool, parameters, *rest, **more)

    def wrong(*devices: Device) -> list[str]:
        return Planner(batch, {}, Strict(), Shelf(), "operator:anna").wrong_everywhere(list(devices))

    strict = [device("strict-1"), device("strict-2"), device("away", Health.OFFLINE)]
    assert wrong(*strict) == ["b: p is not an argument here.", "c: p is not an argument here."]
    assert wrong(*strict, device("lab-1")) == []

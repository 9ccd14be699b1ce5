"""Plans dry runs: predicts the outcome of each step on each device now. Records and sends nothing.

Conditions and arguments are evaluated on what is known before a run: inputs, facts of the device, and steps
that are known to be skipped. What depends on results is not known, and the plan says of which steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from core.batch.expressions import (
    INPUTS,
    STEPS,
    Context,
    DeviceFacts,
    Expression,
    ExpressionError,
    StepFacts,
)
from core.batch.inputs import secret_values
from core.batch.models import ABSENT, ApprovalStep, Batch, Plan, PlannedCell, Step, calls, flatten
from core.batch.questions import question_text
from core.batch.result_schema import arriving_schema
from core.batch.templates import (
    CompiledStep,
    FilledArguments,
    StepExpressionError,
    compile_all,
    has_expressions,
)
from core.batch.waves import planned_waves
from core.commands.request import NO_SECRETS, Secrets
from core.commitments import NO_PLACES, Places
from core.dispatch.argument_checks import outside_said_roots
from core.dispatch.deadline import is_stock
from core.errors import ErrorCode, QuarterdeckError
from core.models.devices import Device, Health
from core.models.tool_lookup import lacks
from core.models.tools import Effect, Tool
from core.policy.analysis.masking import UNQUOTED
from core.policy.analysis.shell.tool_arguments import described_line_arguments
from core.policy.models import Answer, Decision
from core.policy.real_paths import NOT_FOLLOWED, ResolvedPaths
from core.text import sentences

_AWAY = (Health.OFFLINE, Health.RECONNECTING)
_MOST_WRONG = 5
_WORDS = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "denied"}
# What `core.batch.run_executor` lets expressions read of a skipped step.
SKIPPED = StepFacts("skipped", "skipped", "cancelled", error="skipped")


class Explains(Protocol):
    """The part of the dispatcher that planning uses."""

    def explain(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        actor: str = "",
        leads: ResolvedPaths = NOT_FOLLOWED,
        secrets: Secrets = NO_SECRETS,
        unquoted: Places = NO_PLACES,
    ) -> Decision: ...


class Offers(Protocol):
    """Returns a device's tool by name; None where the device is away or has no such tool."""

    def tool(self, device: str, name: str) -> Tool | None: ...


class Planner:
    """The plan of one batch. `inputs` has the given values; inputs without a value are not known.

    `literal`: its texts have no expressions.
    """

    def __init__(
        self,
        batch: Batch,
        inputs: Mapping[str, Any],
        dispatcher: Explains,
        offers: Offers,
        actor: str,
        literal: bool = False,
    ) -> None:
        self._batch = batch
        self._dispatcher = dispatcher
        self._offers = offers
        self._actor = actor
        defaults = {
            name: given.default for name, given in batch.inputs.items() if given.default is not ABSENT
        }
        self._inputs = {**defaults, **inputs}
        self._steps = flatten(batch.steps)
        self._expressions = not literal and has_expressions(batch)
        # By the definitions of the tools: the compiled steps, and the first mistake of each step.
        self._compiled: dict[tuple[str, ...], tuple[dict[str, CompiledStep], dict[str, str]]] = {}

    def shared_arguments(self) -> dict[str, FilledArguments]:
        """The arguments, by step, that are known and the same on all devices."""
        if not self._expressions:
            return {step.id: FilledArguments(step.parameters) for step in self._steps}
        compiled = compile_all(self._batch, {}, [])
        shared: dict[str, FilledArguments] = {}
        for step in self._steps:
            made = compiled.get(step.id)
            if made is None or made.arguments is None:
                continue
            if all(
                path[0] == INPUTS for expression in made.arguments.expressions for path in _paths(expression)
            ):
                try:
                    shared[step.id] = self._filled(made, Context(self._inputs, {}, DeviceFacts()))
                except ExpressionError:
                    continue
        return shared

    def wrong_everywhere(self, devices: list[Device]) -> list[str]:
        """Why steps are wrong on every device, of the first `_MOST_WRONG` that are; empty if there is none.

        Wrong are expressions that do not fit the tools, and arguments that are invalid and known by now.
        Of a device that is away nothing is known; it does not count.
        """
        present = [device for device in devices if device.health not in _AWAY]
        if not present:
            return []
        wrong: list[str] = []
        certain = {one.id: one for one in self._unconditional()}
        shared = {step: made for step, made in self.shared_arguments().items() if step in certain}
        off = {one.id for one in self._steps if not one.enabled}
        for step in _ids(self._batch):
            if step in off:
                continue
            why = ""
            # Of a thousand devices, one on which nothing is wrong is enough.
            for device in present:
                why = self._compile_for(device)[1].get(step, "")
                if not why and step in shared:
                    why = self._invalid_arguments(certain[step], device, shared[step])
                if not why:
                    break
            if why:
                wrong.append(sentences(why))
            if len(wrong) == _MOST_WRONG:
                break
        return wrong

    def _unconditional(self) -> Iterator[Step]:
        """The steps without a condition. One with a condition may be meant for some of the devices only."""
        for entry in self._batch.steps:
            for call in calls(entry):
                if call.when is None:
                    yield call
                    yield from (step for step in call.recover if step.when is None)

    def _invalid_arguments(self, step: Step, device: Device, arguments: FilledArguments) -> str:
        """Why a device's tool does not take the arguments; empty if it does, or something else is wrong."""
        try:
            self._explain(step, device, arguments)
        except QuarterdeckError as error:
            return f"{step.id}: {error.message}" if error.code is ErrorCode.INVALID_ARGUMENTS else ""
        return ""

    def plan(self, devices: list[Device], leads: Mapping[str, ResolvedPaths]) -> Plan:
        """Ask the policy for its decision on every step on every device, in the order in which they begin.

        `leads`: by step id, where the paths in its arguments lead on this computer, as far as they are known.

        Raises:
            BadInput: no device is the canary that the batch names.
        """
        started = time.perf_counter()
        waves = planned_waves(self._batch.rollout, devices)
        by_name = {device.name: device for device in devices}
        devices = [by_name[name] for wave in waves for name in wave]
        cells = [cell for device in devices for cell in self._of_device(device, leads)]
        return Plan(
            devices=[device.name for device in devices],
            steps=_ids(self._batch),
            cells=cells,
            production=[device.name for device in devices if device.production],
            waves=[list(wave) for wave in waves] if len(waves) > 1 else [],
            took_ms=round((time.perf_counter() - started) * 1000, 3),
        )

    def _of_device(self, device: Device, leads: Mapping[str, ResolvedPaths]) -> Iterator[PlannedCell]:
        compiled, faults = self._compile_for(device)
        facts: dict[str, StepFacts] = {}
        context = Context(
            self._inputs,
            facts,
            DeviceFacts.of(device),
        )
        for entry in self._batch.steps:
            if isinstance(entry, ApprovalStep):
                question = self._question(entry, device, compiled.get(entry.id), faults, context)
                yield question.model_copy(update={"approvers": entry.approval.approvers})
            for call in calls(entry):
                cell = self._cell(call, device, compiled.get(call.id), faults, context, leads)
                if cell.outcome in ("off", "skipped"):
                    facts[call.id] = SKIPPED
                yield cell
                for step in call.recover:
                    inner = self._cell(step, device, compiled.get(step.id), faults, context, leads)
                    yield _recovering(inner, call, cell)

    def _compile_for(self, device: Device) -> tuple[dict[str, CompiledStep], dict[str, str]]:
        """The compiled steps with the types of this device's tools; once for devices with equal tools."""
        if not self._expressions:
            return {}, {}
        tools = [self._offers.tool(device.name, step.tool) for step in self._steps]
        # Equal tools give equal values where the device hands them on alike.
        key = (
            "stock" if is_stock(device) else "own",
            *(f"{tool.namespace} {tool.contract.digest}" if tool else "" for tool in tools),
        )
        if key not in self._compiled:
            schemas = {
                step.id: arriving_schema(tool, device)
                for step, tool in zip(self._steps, tools, strict=True)
                if tool
            }
            mistakes: list[StepExpressionError] = []
            compiled = compile_all(self._batch, schemas, mistakes)
            faults: dict[str, str] = {}
            for mistake in mistakes:
                faults.setdefault(mistake.step, mistake.message)
            self._compiled[key] = compiled, faults
        return self._compiled[key]

    def _question(
        self,
        step: ApprovalStep,
        device: Device,
        compiled: CompiledStep | None,
        faults: Mapping[str, str],
        context: Context,
    ) -> PlannedCell:
        undecided = self._before(step.id, compiled, faults, context)
        if undecided is not None:
            return undecided.model_copy(update={"device": device.name})
        try:
            text = question_text(step, compiled, context)
        except ExpressionError as error:
            expressions = compiled.expressions() if compiled is not None else ()
            because = sorted({name for one in expressions for name in _unknown(one, context)})
            cell = (
                _not_known(step.id, because) if because else _invalid(step.id, f"question: {error.message}")
            )
            return cell.model_copy(update={"device": device.name})
        return PlannedCell(device=device.name, step=step.id, outcome="question", why=text)

    def _before(
        self, step: str, compiled: CompiledStep | None, faults: Mapping[str, str], context: Context
    ) -> PlannedCell | None:
        """The cell of a step whose expressions are wrong or whose `when` is false or not known; else None."""
        if step in faults:
            return PlannedCell(device="", step=step, outcome="invalid", why=faults[step])
        if compiled is None or compiled.when is None:
            return None
        try:
            if compiled.when.evaluate(context):
                return None
        except ExpressionError as error:
            because = _unknown(compiled.when.expression, context)
            if because:
                return _not_known(step, because)
            return PlannedCell(device="", step=step, outcome="invalid", why=f"when: {error.message}")
        why = f"{compiled.when.text.strip()} is false."
        return PlannedCell(device="", step=step, outcome="skipped", why=why)

    def _cell(
        self,
        step: Step,
        device: Device,
        compiled: CompiledStep | None,
        faults: Mapping[str, str],
        context: Context,
        leads: Mapping[str, ResolvedPaths],
    ) -> PlannedCell:
        if not step.enabled:
            return PlannedCell(device=device.name, step=step.id, outcome="off", why="switched off")
        if device.health in _AWAY:
            why = f"{device.health.value}: {device.reason}" if device.reason else device.health.value
            return PlannedCell(device=device.name, step=step.id, outcome="offline", why=why)
        undecided = self._before(step.id, compiled, faults, context)
        if undecided is not None:
            return self._with_missing_tool(undecided, step, device)
        filled = FilledArguments(step.parameters)
        if compiled is not None and compiled.arguments is not None and compiled.arguments.templates:
            because = sorted(
                {
                    name
                    for expression in compiled.arguments.expressions
                    for name in _unknown(expression, context)
                }
            )
            if because:
                return self._with_missing_tool(_not_known(step.id, because), step, device)
            try:
                filled = self._filled(compiled, context, self._described(step, device))
            except ExpressionError as error:
                return PlannedCell(device=device.name, step=step.id, outcome="invalid", why=error.message)
        return self._decided(step, device, filled, leads.get(step.id, NOT_FOLLOWED))

    def _with_missing_tool(self, cell: PlannedCell, step: Step, device: Device) -> PlannedCell:
        """The cell on this device; of one that is not known yet, also that its tool is not there."""
        missing = cell.outcome == "not_known" and self._offers.tool(device.name, step.tool) is None
        why = f"{cell.why}; {lacks(device, step.tool)}" if missing else cell.why
        return cell.model_copy(update={"device": device.name, "why": why})

    def _filled(
        self, compiled: CompiledStep, context: Context, described: frozenset[str] = frozenset()
    ) -> FilledArguments:
        """The arguments as a run would send them, secrets too: the decision is about these."""
        assert compiled.arguments is not None
        return compiled.arguments.fill(context, secret_values(self._batch, self._inputs), described)

    def _described(self, step: Step, device: Device) -> frozenset[str]:
        tool = self._offers.tool(device.name, step.tool)
        return described_line_arguments(tool.input_schema) if tool is not None else frozenset()

    def _decided(
        self, step: Step, device: Device, filled: FilledArguments, leads: ResolvedPaths
    ) -> PlannedCell:
        try:
            decision = self._explain(step, device, filled, leads)
        except QuarterdeckError as error:
            outcome = {ErrorCode.CONTRACT_CHANGED: "denied", ErrorCode.UNKNOWN_TOOL: "no_such_tool"}
            return PlannedCell.model_validate(
                {
                    "device": device.name,
                    "step": step.id,
                    "outcome": outcome.get(error.code, "invalid"),
                    "why": error.message,
                }
            )
        why = decision.reasons[0].text
        if filled.unquoted:
            why = sentences(why, UNQUOTED)
        tool = self._offers.tool(device.name, step.tool)
        if tool is not None and (outside := outside_said_roots(tool, filled.parameters, device)):
            why = sentences(why, outside)
        if step.retry is not None and not self._may_repeat(step, device):
            why = sentences(why, NOT_REPEATED)
        return PlannedCell.model_validate(
            {
                "device": device.name,
                "step": step.id,
                "outcome": _WORDS[decision.answer],
                "answer": decision.answer,
                "risk": decision.risk,
                "approvers": decision.approvers if decision.answer is Answer.ASK else 1,
                "summary": decision.summary,
                "why": why,
            }
        )

    def _explain(
        self, step: Step, device: Device, filled: FilledArguments, leads: ResolvedPaths = NOT_FOLLOWED
    ) -> Decision:
        return self._dispatcher.explain(
            device.name,
            step.tool,
            filled.parameters,
            self._actor,
            leads,
            secrets=Secrets(places=filled.secret),
            unquoted=filled.unquoted,
        )

    def _may_repeat(self, step: Step, device: Device) -> bool:
        if step.retry is not None and step.retry.not_idempotent:
            return True
        tool = self._offers.tool(device.name, step.tool)
        if tool is None:
            return False
        return tool.contract.effect.value is Effect.OBSERVE or tool.contract.idempotent.value


NOT_REPEATED = (
    "It is not tried again once the device has begun it: it changes something and is not known to be "
    "idempotent; "
    "retry.not_idempotent says why repeating it is right."
)


def _paths(expression: Expression) -> Iterator[tuple[str, ...]]:
    return (reference.path for reference in expression.references)


def _unknown(expression: Expression, context: Context) -> list[str]:
    """The unknown values that an expression reads: ids of steps, and inputs as `inputs.NAME`."""
    names: list[str] = []
    for root, *rest in _paths(expression):
        if root == STEPS and rest and rest[0] not in context.steps:
            names.append(rest[0])
        elif root == INPUTS and rest and rest[0] not in context.inputs:
            names.append(f"{INPUTS}.{rest[0]}")
    return list(dict.fromkeys(names))


def _invalid(step: str, why: str) -> PlannedCell:
    return PlannedCell(device="", step=step, outcome="invalid", why=why)


def _not_known(step: str, because: list[str]) -> PlannedCell:
    why = f"depends on {', '.join(because)}"
    return PlannedCell(device="", step=step, outcome="not_known", because=because, why=why)


def _recovering(cell: PlannedCell, failed: Step, outcome: PlannedCell) -> PlannedCell:
    """The cell of a recovery step, given the cell of the step that it recovers."""
    if cell.outcome not in ("runs", "asks", "not_known"):
        return cell
    if outcome.outcome in ("off", "skipped"):
        why = f"{failed.id} is skipped and cannot fail."
        return cell.model_copy(update={"outcome": "skipped", "because": [], "why": why})
    why = f"runs if {failed.id} fails"
    return cell.model_copy(update={"outcome": "recovers", "because": [failed.id], "why": why})


def _ids(batch: Batch) -> list[str]:
    ids: list[str] = []
    for entry in batch.steps:
        if isinstance(entry, ApprovalStep):
            ids.append(entry.id)
        ids += [step.id for call in calls(entry) for step in (call, *call.recover)]
    return ids

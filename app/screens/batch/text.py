"""What steps, tools and plans say of themselves: one-line summaries, outcomes, the plan as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from app.screens.batch.document import ALONE, BatchDocument, DraftStep, Steps
from app.text import plural
from app.theme.state_looks import StateLook, plan_look
from core.batch.models import Plan, PlannedCell
from core.batch.templates import CLOSE, OPEN
from core.batch.waves import wave_lines
from core.models.tools import Effect, Tool
from core.schema_forms.json_values import HIDDEN, shown

LONGEST_SUMMARY = 300
SECRET = "•••"
# Where one of these is the point of a call, its name says nothing more.
_SELF_SAYING = ("command", "file_path", "path", "url", "text")

OUTCOMES: dict[str, StateLook] = {
    "runs": plan_look("runs"),
    "asks": plan_look("asks"),
    "denied": plan_look("denied"),
    "invalid": StateLook("invalid", "cross_octagon", "fail", "fail"),
    "no_such_tool": plan_look("no_such_tool"),
    "offline": StateLook("offline", "circle_off", "text3", "text3"),
    "off": StateLook("off", "step_over", "text3", "text3"),
    "not_known": StateLook("not known yet", "circle_off", "text3", "text3"),
    "skipped": StateLook("skipped", "step_over", "text3", "text3"),
    "question": plan_look("asks"),
    "recovers": StateLook("if it fails", "step_over", "text3", "text3"),
}
"""What a plan may say of a cell, in the order in which it is counted."""

BLOCKED = ("denied", "invalid", "no_such_tool", "offline")
"""Outcomes with which a step does not run as it is."""
_HAVE_REASONS = (*BLOCKED, "not_known", "skipped")

_COUNTED = {
    "runs": "run",
    "asks": "ask",
    "no_such_tool": "no such tool",
    "not_known": "not known yet",
    "question": "ask operators",
    "recovers": "if a step fails",
}


def outcome_look(outcome: str) -> StateLook:
    """How an outcome is shown."""
    return OUTCOMES.get(outcome) or plan_look(outcome)


def counted(outcome: str) -> str:
    """The word behind a number: 27 run, 11 ask, 2 denied."""
    return _COUNTED.get(outcome, outcome)


def one_line(text: str) -> str:
    """Text on one line in which nothing hides."""
    flat = " ".join(text[: 2 * LONGEST_SUMMARY].split())
    return HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", flat)[:LONGEST_SUMMARY]


def summary_of(step: DraftStep, secrets: Iterable[str] = ()) -> str:
    """A step's arguments in one line; empty when there are none."""
    if step.is_approval:
        asked = step.flow["approval"]
        return one_line(str(asked.get("question") or "")) if isinstance(asked, dict) else ""
    hidden = set(secrets)
    parts: list[str] = []
    for name, value in step.parameters.items():
        if name in hidden:
            parts.append(f"{one_line(name)} {SECRET}")
            continue
        # What lies deeper may hold secrets that only a deeper schema tells of.
        if isinstance(value, dict | list):
            words = f"{{{len(value)}}}" if isinstance(value, dict) else f"[{len(value)}]"
        else:
            words = one_line(value if isinstance(value, str) else shown(value, 120))
        parts.append(words if name in _SELF_SAYING else f"{one_line(name)} {words}")
    if step.timeout is not None:
        parts.append(f"at most {step.timeout:g} s")
    return ", ".join(parts)[:LONGEST_SUMMARY]


def inner_expression(text: str) -> str:
    """A condition without its brackets, where it is wholly `${{ … }}`."""
    stripped = text.strip()
    wholly = stripped.startswith(OPEN) and stripped.endswith(CLOSE) and stripped.count(OPEN) == 1
    return stripped[len(OPEN) : -len(CLOSE)].strip() if wholly else stripped


def flow_lines(step: DraftStep, recovery: Steps = ()) -> tuple[str, ...]:
    """How a step goes on, a plain line for each thing that is not as usual."""
    flow = step.flow
    lines: list[str] = []
    if step.group == ALONE:
        lines.append("in a parallel group of its own")
    if isinstance(asked := flow.get("approval"), dict):
        lines.append(_asked_line(asked))
    if isinstance(when := flow.get("when"), str):
        lines.append(f"only if {one_line(inner_expression(when))}")
    if isinstance(retry := flow.get("retry"), dict):
        lines.append(_retry_line(retry))
    if isinstance(expect := flow.get("expect"), list) and expect:
        more = f", and {len(expect) - 1} more" if len(expect) > 1 else ""
        lines.append(f"expects {one_line(inner_expression(str(expect[0])))}{more}")
    if recovery:
        lines.append(f"if it fails: {', '.join(one.id for one in recovery)}")
    elif "on_failure" in flow:
        words = {"stop": "stops the device if it fails", "continue": "goes on if it fails"}
        lines.append(words.get(str(flow["on_failure"]), f"on failure: {one_line(str(flow['on_failure']))}"))
    return tuple(lines)


def _asked_line(asked: dict[str, Any]) -> str:
    approvers, deadline = asked.get("approvers", 1), asked.get("deadline", 3600)
    who = "asks one operator" if approvers == 1 else f"asks {approvers} operators"
    return f"{who} in each wave, for {_span(deadline)}"


def _retry_line(retry: dict[str, Any]) -> str:
    times = retry.get("times")
    often = f"{times} times" if isinstance(times, int) and times > 1 else "once" if times == 1 else "…"
    codes = retry.get("on")
    on = f" on {', '.join(str(code) for code in codes)}" if isinstance(codes, list) and codes else ""
    action = ", although it is not idempotent" if retry.get("not_idempotent") else ""
    return f"tried again {often}{on}, first after {_span(retry.get('backoff', 1))}{action}"


def _span(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "…"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def settings_line(content: BatchDocument) -> str:
    """What a batch says beside its steps, in one line: its inputs, its waves, when it stops."""
    settings = content.settings
    inputs, rollout = settings.get("inputs"), settings.get("rollout")
    parts: list[str] = []
    if isinstance(inputs, dict) and inputs:
        parts.append(f"{'input' if len(inputs) == 1 else 'inputs'} {', '.join(map(one_line, inputs))}")
    if isinstance(rollout, dict):
        first, wave = rollout.get("canary"), rollout.get("wave")
        parts += [f"canary of {first}"] if first else []
        parts += [f"waves of {wave}"] if wave else []
        parts += [f"{rollout['parallel']} at once"] if "parallel" in rollout else []
        parts += _stop_words(rollout.get("stop"))
    if settings.get("on_failure") == "continue":
        parts.append("goes on after a failure")
    parts += ["notes"] if settings.get("notes") else []
    return one_line(", ".join(parts))


def _stop_words(stop: object) -> list[str]:
    words = []
    for of, place in (("run", ""), ("wave", " in a wave")):
        limits = stop.get(of) if isinstance(stop, dict) else None
        if isinstance(limits, dict):
            words += [f"stops at {limit} {state}{place}" for state, limit in limits.items()]
    return words


def effect_group(tool: Tool) -> str:
    """Under which head a tool is listed."""
    effect = tool.contract.effect.value
    if effect is Effect.UNKNOWN:
        return "Effect unknown"
    return "Observe" if effect is Effect.OBSERVE else "Change"


EFFECT_GROUPS = ("Observe", "Change", "Effect unknown")


def count_outcomes(cells: Iterable[PlannedCell]) -> dict[str, int]:
    """How many cells have each outcome, in the order of `OUTCOMES`, none left out that occurs."""
    found = Counter(cell.outcome for cell in cells)
    return {outcome: found[outcome] for outcome in OUTCOMES if found[outcome]}  # type: ignore[index]


def why_not(cells: Iterable[PlannedCell]) -> str:
    """Why a device does not run all steps for certain, each reason with its steps; asking is no reason.

    A reason that holds for all of several steps, such as that the device is away, stands without them.
    """
    total = 0
    steps_of: dict[str, list[str]] = {}
    for cell in cells:
        total += 1
        if cell.outcome in _HAVE_REASONS:
            words = one_line(cell.why or outcome_look(cell.outcome).word).rstrip(".")
            steps_of.setdefault(words, []).append(cell.step)
    return " ".join(
        f"{words}." if len(steps) == total > 1 else f"{', '.join(steps)}: {words}."
        for words, steps in steps_of.items()
    )


def plan_as_text(name: str, plan: Plan) -> str:
    """A plan for a ticket or a mail: one line a device, tabs between the cells."""
    counts = count_outcomes(plan.cells)
    head = ", ".join(f"{number} {counted(outcome)}" for outcome, number in counts.items())
    of: dict[str, list[PlannedCell]] = {device: [] for device in plan.devices}
    for cell in plan.cells:
        of[cell.device].append(cell)
    lines = [
        f"Plan of {one_line(name)}: {plural(len(plan.devices), 'device')}, {head}. Nothing was sent.",
        *wave_lines(plan.waves, plan.production, most=len(plan.waves)),
        "\t".join(["Device", *plan.steps, "Why not"]),
    ]
    for device, cells in of.items():
        mark = f"{device} (Production)" if device in plan.production else device
        lines.append("\t".join([mark, *(outcome_look(cell.outcome).word for cell in cells), why_not(cells)]))
    return "\n".join(lines)

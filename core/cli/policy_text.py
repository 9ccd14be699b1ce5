"""Decisions, checks and trials of the policy as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from core.cli.output import (
    Block,
    Cell,
    Prose,
    Remark,
    facts,
    lines,
    one_line,
    span,
    table,
    time_cell,
    tool_cell,
)
from core.cli.terminal import styled
from core.policy.models import Answer, Decision, Explanation, PolicyCheck, PolicyWarning, Trial
from core.text import plural

_WORDS = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "is denied"}


def explanation_text(found: Explanation) -> Iterator[Block]:
    """A decision with everything that led to it, and the rules and grants that nearly matched."""
    decision = found.decision
    yield facts(_head(decision))
    if decision.findings:
        rows = [
            (one.risk.value, one.argument or "", _place(one.start, one.end), one.text, one.detail)
            for one in decision.findings
        ]
        yield f"\n{styled('What the arguments say', 'bold')}"
        yield table(("RISK", "ARGUMENT", "AT", "FOUND", "TEXT"), rows)
    if decision.rules:
        rules = [(one.id, one.decision.value, one.line or "", one.reason) for one in decision.rules]
        yield f"\n{styled('Rules that match', 'bold')}"
        yield table(("RULE", "SAYS", "LINE", "REASON"), rules)
    if found.near:
        near = [(one.id, one.decision.value, one.line or "", one.fault) for one in found.near]
        yield f"\n{styled('Rules that nearly match', 'bold')}"
        yield table(("RULE", "SAYS", "LINE", "BUT"), near)
    if found.near_grants:
        grants = [(one.id, one.fault) for one in found.near_grants]
        yield f"\n{styled('Grants that nearly cover it', 'bold')}"
        yield table(("GRANT", "BUT"), grants)


def trial_text(trial: Trial) -> Iterator[Block]:
    """The result of a trial in sentences and rows."""
    yield Prose(
        f"Of {trial.looked_at:,} commands it would have allowed {trial.allowed:,}, asked {trial.asked:,}, "
        f"denied {trial.denied:,}; {trial.changed:,} otherwise than then."
    )
    if trial.allowed_but_denied_by_human:
        yield styled(
            f"{trial.allowed_but_denied_by_human:,} of the allowed were denied by a human then.", "red"
        )
    if trial.skipped:
        yield f"{trial.skipped:,} of {trial.commands:,} could not be judged from what the journal has."
    if trial.glimpses:
        yield _glimpses_text(trial)
    if trial.rows:
        rows = [
            (
                one.seq,
                time_cell(one.time),
                one.device,
                tool_cell(one.tool),
                f"{one.was.value} -> {one.now.value}",
                one.human,
                one.rule,
                one.summary,
            )
            for one in trial.rows
        ]
        yield table(("SEQ", "TIME (UTC)", "DEVICE", "TOOL", "ANSWER", "HUMAN", "RULE", "WHAT"), rows)
        if len(trial.rows) < trial.changed:
            yield f"The newest {len(trial.rows):,} of {trial.changed:,} are listed."


def _glimpses_text(trial: Trial) -> str:
    pictures = f"{trial.glimpses:,} live pictures not counted"
    if not trial.glimpses_refused:
        return pictures + "."
    return styled(f"{pictures}; {trial.glimpses_refused:,} of them would be refused.", "yellow")


def _head(decision: Decision) -> list[tuple[str, object]]:
    asks = decision.answer is Answer.ASK
    return [
        ("This call", _WORDS[decision.answer]),
        ("Effect", f"{decision.summary} ({decision.effect.value})"),
        ("Risk", decision.risk.value),
        ("Approvers", decision.approvers if asks else ""),
        ("Waits", span(decision.expires_s) if asks and decision.expires_s is not None else ""),
        ("Evidence", ", ".join(one.value for one in decision.evidence)),
        ("Grant", decision.grant),
        ("Undo", decision.undo),
        *[("Because", f"{one.text} [{one.origin}]") for one in decision.reasons],
    ]


def warnings_text(warnings: list[PolicyWarning]) -> Iterator[Block]:
    """The warnings of a check, as remarks."""
    for warning in warnings:
        at = f"line {warning.line}: " if warning.line else ""
        about = one_line(warning.about)
        yield Remark(f"{styled('Warning', 'yellow')}: {at}{about}: {lines(warning.message)}")
        if warning.slips:
            yield Remark(f"  It allows this line: {one_line(repr(warning.slips))}")


def check_text(path: Path, found: PolicyCheck) -> Iterator[Block]:
    """What a check found: the faults and warnings as remarks, the examples, and whether the policy holds."""
    for problem in found.problems:
        at = f"line {problem.line}: " if problem.line and "line " not in problem.message else ""
        yield Remark(f"{styled('Error', 'red')}: {at}{lines(problem.message)}")
    yield from warnings_text(found.warnings)
    if found.examples:
        rows = [
            (
                Cell("ok", "green") if one.ok else Cell("FAILS", "red"),
                one.rule,
                one.line or "",
                "match" if one.wanted else "not match",
                one.number,
                one.fault,
            )
            for one in found.examples
        ]
        yield table(("RESULT", "RULE", "LINE", "EXAMPLE", "NO", "WHY"), rows)
    state = "holds" if found.ok else "may not be used"
    counts = f": {plural(found.rules, 'rule')}, {plural(len(found.examples), 'example')}" if found.ok else ""
    yield f"{one_line(path)} {state}{counts}."


def _place(start: int | None, end: int | None) -> str:
    return "" if start is None else f"{start}-{end}"

"""Commands about the policy: check, explain, try on the journal, accept, and set the profile."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from core.approvals.operators import read_copy
from core.broken_text import fault_words
from core.changes import Change
from core.cli.arguments import parse_arguments
from core.cli.base import EVERYWHERE, command_set, examples, in_session
from core.cli.output import (
    as_json,
    facts,
    lines,
    note,
    one_line,
    print_error,
    say,
    styled,
    table,
    time_cell,
    tool_cell,
)
from core.cli.session import Session, tool_of
from core.cli.signing import KeySource, sign_change, signs
from core.errors import BadInput, ErrorCode, ErrorInfo
from core.fleet.tool_pins import known_tools
from core.home import Home
from core.policy.models import (
    Answer,
    Decision,
    Explanation,
    PolicyCheck,
    PolicyText,
    PolicyWarning,
    Profile,
    Trial,
)
from core.policy.policy_check import check_text
from core.policy.policy_file import with_profile
from core.service import exit_codes
from core.service.wishes import policy_change, settings_change
from core.text import sentences

commands = command_set()
app = typer.Typer(
    help="policy.toml: check it, explain one call, try it on the journal.",
    epilog=EVERYWHERE,
    no_args_is_help=True,
)
commands.add_typer(app, name="policy")

_WORDS = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "is denied"}


@app.command("check", epilog=examples("policy check", "policy check draft.toml --json"))
def check(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Else the home's policy.toml.")] = None,
) -> None:
    """Read a policy, run its examples, and warn of loose patterns. Exit code 2 when something is wrong.

    A warning shows a shell line that a rule allows although it does more than the rule is for, a rule that
    means no tool of any known device, or one that wants more operators than there are. Nothing is changed.
    """
    path = file or context.obj.home.policy
    home = context.obj.home
    text = _text(path, missing_ok=file is None)
    found = check_text(text, known_tools(home.contracts), _number_of_operators(home))
    if context.obj.json:
        say(as_json({"path": str(path), **found.model_dump(mode="json")}))
    else:
        _say_check(path, found)
    raise typer.Exit(exit_codes.DONE if found.ok else exit_codes.BAD_INPUT)


def _number_of_operators(home: Home) -> int | None:
    """As far as the home's copy tells without the service; only a warning depends on it."""
    try:
        return len(read_copy(home.operators) or [])
    except BadInput:
        return None


@app.command("explain", epilog=examples("policy explain lab-1 shell_execute command='df -h'"))
def explain(
    context: typer.Context,
    device: Annotated[str, typer.Argument(metavar="DEVICE")],
    tool: Annotated[str, typer.Argument(metavar="TOOL")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...")] = None,
    actor: Annotated[
        str, typer.Option("--as", metavar="ACTOR", help="Who asks, such as agent:night; else you.")
    ] = "",
) -> None:
    """Say what would become of one call and why. Nothing is sent and nothing recorded."""

    async def work(session: Session) -> None:
        known = await tool_of(session, device, tool)
        sent = parse_arguments(arguments or [], known.input_schema)
        found = await session.console.policy.explanation(device, known.tool_name, sent, actor)
        say(as_json(found.model_dump(mode="json")) if context.obj.json else explanation_text(found))

    in_session(context, work, wait_for_devices=True, device=device)


@app.command("try", epilog=examples("policy try draft.toml --limit 100"))
def try_file(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    limit: Annotated[
        int, typer.Option(min=0, max=2_000, metavar="NUMBER", help="How many changed commands to list.")
    ] = 50,
) -> None:
    """Say what a policy would have said of every command in the journal. It is not put in force."""
    text = _text(file)
    found = check_text(text)
    if not found.ok:
        if context.obj.json:
            message = f"{file} has faults: {_problems(found)}"
            print_error(ErrorInfo.of(ErrorCode.INVALID_ARGUMENTS, message), True)
        else:
            _say_check(file, found)
        raise typer.Exit(exit_codes.BAD_INPUT)

    async def work(session: Session) -> None:
        trial = await session.console.policy.backtest(text, limit)
        say(as_json(trial.model_dump(mode="json")) if context.obj.json else trial_text(trial))

    in_session(context, work)


@app.command("accept", epilog=examples("policy accept"))
@signs
def accept(
    context: typer.Context,
    *,
    unlocking: KeySource,
) -> None:
    """Accept policy.toml and settings.toml as they stand now. Until then they only make things stricter."""
    in_session(context, lambda session: _accept(session, unlocking, context.obj.json))


@app.command("profile", epilog=examples("policy profile lockdown"))
@signs
def choose_profile(
    context: typer.Context,
    profile: Annotated[
        Profile, typer.Argument(metavar="PROFILE", help="observe, guarded, trusted, lockdown")
    ],
    *,
    unlocking: KeySource,
) -> None:
    """Choose the profile for every device that has none of its own. A laxer one is signed."""

    async def work(session: Session) -> None:
        wish, text, shown = _wish(await session.console.policy.text(), profile)
        signed = await sign_change(session, unlocking, wish, text, shown)
        status = await session.console.policy.set_profile(profile, signed)
        say(
            as_json(status.model_dump(mode="json"))
            if context.obj.json
            else f"Profile {status.profile.value}."
        )

    in_session(context, work)


async def _accept(session: Session, unlocking: KeySource, json_wanted: bool) -> None:
    console = session.console
    found = await console.policy.text()
    status = (await console.service.state()).policy
    wish, text, shown = _wish(found)
    if text != found.accepted:
        signed = await sign_change(session, unlocking, wish, text, shown)
        status = await console.policy.accept(found.digest, signed)
    if status.pending_settings:
        change = settings_change(session.home)
        status = await console.service.accept_settings(await sign_change(session, unlocking, change))
        if not json_wanted:
            note("The settings hold when the service starts next.")
    if json_wanted:
        say(as_json(status.model_dump(mode="json")))
    else:
        _say_warnings((await console.policy.check(text)).warnings)
        say(f"Accepted: profile {status.profile.value}." if not status.problem else status.problem)


def _wish(found: PolicyText, profile: Profile | None = None) -> tuple[Change, str, str]:
    """The policy change to the file's text, or to that text with `profile`; the text; the differing lines."""
    text = found.text if profile is None else with_profile(found.text, profile)
    differ = difflib.unified_diff(
        found.accepted.splitlines(), text.splitlines(), "accepted", "policy.toml", lineterm="", n=1
    )
    return policy_change(text), text, "\n".join(f"  {one_line(line)}" for line in differ)


def explanation_text(found: Explanation) -> str:
    """A decision with everything that led to it, and the rules and grants that nearly matched."""
    decision = found.decision
    parts = [facts(_head(decision))]
    if decision.findings:
        rows = [
            (one.risk.value, one.argument or "", _place(one.start, one.end), one.text, one.detail)
            for one in decision.findings
        ]
        parts.append(
            _titled("What the arguments say", table(("RISK", "ARGUMENT", "AT", "FOUND", "TEXT"), rows))
        )
    if decision.rules:
        rules = [(one.id, one.decision.value, one.line or "", one.reason) for one in decision.rules]
        parts.append(_titled("Rules that match", table(("RULE", "SAYS", "LINE", "REASON"), rules)))
    if found.near:
        near = [(one.id, one.decision.value, one.line or "", one.fault) for one in found.near]
        parts.append(_titled("Rules that nearly match", table(("RULE", "SAYS", "LINE", "BUT"), near)))
    if found.near_grants:
        grants = [(one.id, one.fault) for one in found.near_grants]
        parts.append(_titled("Grants that nearly cover it", table(("GRANT", "BUT"), grants)))
    return "\n\n".join(parts)


def trial_text(trial: Trial) -> str:
    """The result of a trial in sentences and rows."""
    says = (
        f"Of {trial.looked_at:,} commands it would have allowed {trial.allowed:,}, asked {trial.asked:,}, "
        f"denied {trial.denied:,}; {trial.changed:,} otherwise than then."
    )
    parts = [says]
    if trial.allowed_but_denied_by_human:
        parts.append(
            styled(
                f"{trial.allowed_but_denied_by_human:,} of the allowed were denied by a human then.", "red"
            )
        )
    if trial.skipped:
        parts.append(
            f"{trial.skipped:,} of {trial.commands:,} could not be judged from what the journal has."
        )
    if trial.glimpses:
        parts.append(_glimpses_text(trial))
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
        parts.append(
            table(("ENTRY", "TIME (UTC)", "DEVICE", "TOOL", "ANSWER", "HUMAN", "RULE", "WHAT"), rows)
        )
        if len(trial.rows) < trial.changed:
            parts.append(f"The newest {len(trial.rows):,} of {trial.changed:,} are listed.")
    return "\n".join(parts)


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
        ("Waits", f"{decision.expires_s:g} s" if asks and decision.expires_s is not None else ""),
        ("Evidence", ", ".join(one.value for one in decision.evidence)),
        ("Grant", decision.grant),
        ("Undo", decision.undo),
        *[("Because", f"{one.text} [{one.origin}]") for one in decision.reasons],
    ]


def _say_warnings(warnings: list[PolicyWarning]) -> None:
    for warning in warnings:
        at = f"line {warning.line}: " if warning.line else ""
        note(f"{styled('Warning', 'yellow')}: {at}{one_line(warning.about)}: {lines(warning.message)}")
        if warning.slips:
            note(f"  It allows this line: {one_line(repr(warning.slips))}")


def _say_check(path: Path, found: PolicyCheck) -> None:
    for problem in found.problems:
        at = f"line {problem.line}: " if problem.line and "line " not in problem.message else ""
        note(f"{styled('Error', 'red')}: {at}{lines(problem.message)}")
    _say_warnings(found.warnings)
    if found.examples:
        rows = [
            (
                "ok" if one.ok else "FAILS",
                one.rule,
                one.line or "",
                "match" if one.wanted else "not_match",
                one.number,
                one.fault,
            )
            for one in found.examples
        ]
        say(table(("RESULT", "RULE", "LINE", "EXAMPLE", "NO", "WHY"), rows))
    state = "holds" if found.ok else "may not be used"
    say(f"{one_line(path)} {state}: {found.rules:,} rules, {len(found.examples):,} examples.")


def _problems(found: PolicyCheck) -> str:
    return sentences(*(one.message for one in found.problems[:5]))


def _titled(title: str, body: str) -> str:
    return f"{styled(title, 'bold')}\n{body}"


def _place(start: int | None, end: int | None) -> str:
    return "" if start is None else f"{start}-{end}"


def _text(path: Path, missing_ok: bool = False) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        if missing_ok:
            return ""
        raise BadInput(f"There is no file {path}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(sentences(f"{path} cannot be read: {fault_words(error)}")) from error

"""Commands about the policy: check, explain, try on the journal, accept, and set the profile."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from core.approvals.operators import read_copy
from core.broken_text import fault_words
from core.changes import Change
from core.cli import policy_text
from core.cli.answer import Answer
from core.cli.arguments import parse_arguments
from core.cli.base import EVERYWHERE, command_set, examples, finish, in_session
from core.cli.output import Block, Remark, error_json, one_line
from core.cli.session import Session, tool_of
from core.cli.signing import KeySource, sign_change, signs
from core.errors import BadInput, ErrorCode, ErrorInfo
from core.fleet.tool_pins import known_tools
from core.home import Home
from core.policy.models import PolicyCheck, PolicyText, Profile
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
    told = {"path": str(path), **found.model_dump(mode="json")}
    code = exit_codes.DONE if found.ok else exit_codes.BAD_INPUT
    finish(context, Answer(told, policy_text.check_text(path, found), code))


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

    async def work(session: Session) -> Answer:
        known = await tool_of(session, device, tool)
        sent = parse_arguments(arguments or [], known.input_schema)
        found = await session.console.policy.explanation(device, known.tool_name, sent, actor)
        return Answer(found, policy_text.explanation_text(found))

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
        message = f"{file} has faults: {_problems(found)}"
        error = error_json(ErrorInfo.of(ErrorCode.INVALID_ARGUMENTS, message))
        finish(context, Answer({"error": error}, policy_text.check_text(file, found), exit_codes.BAD_INPUT))

    async def work(session: Session) -> Answer:
        trial = await session.console.policy.backtest(text, limit)
        return Answer(trial, policy_text.trial_text(trial))

    in_session(context, work)


@app.command("accept", epilog=examples("policy accept"))
@signs
def accept(
    context: typer.Context,
    *,
    unlocking: KeySource,
) -> None:
    """Accept policy.toml and settings.toml as they stand now. Until then they only make things stricter."""
    in_session(context, lambda session: _accept(session, unlocking))


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

    async def work(session: Session) -> Answer:
        wish, text, shown = _wish(await session.console.policy.text(), profile)
        signed = await sign_change(session, unlocking, wish, text, shown)
        status = await session.console.policy.set_profile(profile, signed)
        return Answer(status, f"Profile {status.profile.value}.")

    in_session(context, work)


async def _accept(session: Session, unlocking: KeySource) -> Answer:
    console = session.console
    remarks: list[Block] = []
    found = await console.policy.text()
    status = (await console.service.state()).policy
    wish, text, shown = _wish(found)
    if text != found.accepted:
        signed = await sign_change(session, unlocking, wish, text, shown)
        status = await console.policy.accept(found.digest, signed)
    if status.pending_settings:
        change = settings_change(session.home)
        status = await console.service.accept_settings(await sign_change(session, unlocking, change))
        remarks.append(Remark("The settings hold when the service starts next."))

    async def words() -> list[Block]:
        warnings = (await console.policy.check(text)).warnings
        accepted = f"Accepted: profile {status.profile.value}." if not status.problem else status.problem
        return [*remarks, *policy_text.warnings_text(warnings), accepted]

    return Answer(status, words)


def _wish(found: PolicyText, profile: Profile | None = None) -> tuple[Change, str, str]:
    """The policy change to the file's text, or to that text with `profile`; the text; the differing lines."""
    text = found.text if profile is None else with_profile(found.text, profile)
    differ = difflib.unified_diff(
        found.accepted.splitlines(), text.splitlines(), "accepted", "policy.toml", lineterm="", n=1
    )
    return policy_change(text), text, "\n".join(f"  {one_line(line)}" for line in differ)


def _problems(found: PolicyCheck) -> str:
    return sentences(*(one.message for one in found.problems[:5]))


def _text(path: Path, missing_ok: bool = False) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        if missing_ok:
            return ""
        raise BadInput(f"There is no file {path}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(sentences(f"{path} cannot be read: {fault_words(error)}")) from error

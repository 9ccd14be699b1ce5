"""Commands about agents: list, add, set, pause, stop and revoke them, and serve them by the gateway."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from core.cli.base import EVERYWHERE, CommonOptions, command_set, end_on_signals, examples, in_session
from core.cli.output import as_json, claim_cell, note, say, table, time_cell
from core.cli.session import Session
from core.cli.signing import KeySource, sign_change, signs
from core.environment import TOKEN_VARIABLE, keep_memory_private
from core.errors import BadInput
from core.filter_language import SIGNS
from core.policy.agent_models import MOST_A_MINUTE, MOST_WAITING, Agent, AgentSettings, name_in, targets_words
from core.policy.models import Profile
from core.service import exit_codes
from core.service.console import AgentCommand, AgentState, AgentTally
from core.service.wishes import agent_added, agent_set
from core.text import sentences

_LONGEST_TOKEN = 4_096
MOST_COMMANDS = 50

commands = command_set()
app = typer.Typer(
    help="The programs that may ask for commands through the gateway.",
    epilog=EVERYWHERE,
    no_args_is_help=True,
)
commands.add_typer(app, name="agents")

NameArgument = Annotated[str, typer.Argument(metavar="AGENT")]
ProfileOption = Annotated[
    Profile | None, typer.Option("--profile", help="What runs unasked; the device's profile limits it too.")
]
TargetsOption = Annotated[
    str | None,
    typer.Option(
        "--targets",
        metavar="TARGETS",
        help="The devices that exist for it, as a filter; empty means every one. "
        f"{SIGNS}; fields are name, tag, production.",
    ),
]
PerMinuteOption = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_A_MINUTE, metavar="NUMBER", help="How many commands it may start a minute."),
]
WaitingOption = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_WAITING, metavar="NUMBER", help="How many of its requests may wait."),
]


@app.command("list", epilog=examples("agents list", "agents list --json"))
def agents_list(context: typer.Context) -> None:
    """List the agents: their limits, who is connected, what they asked for, were given and were denied."""

    async def work(session: Session) -> None:
        agents = await session.console.agents.list()
        counted = await session.console.agents.tallies()
        tallies = [counted.get(agent.name, AgentTally()) for agent in agents]
        if context.obj.json:
            say(
                as_json(
                    [
                        {**agent.model_dump(mode="json"), "tally": tally.model_dump(mode="json")}
                        for agent, tally in zip(agents, tallies, strict=True)
                    ]
                )
            )
        else:
            rows = [_row(agent, tally) for agent, tally in zip(agents, tallies, strict=True)]
            say(table(_HEAD, rows))

    in_session(context, work)


_HEAD = [
    *("Name", "State", "Program (says)", "Profile", "Targets", "A minute", "May wait"),
    *("Open", "Asked", "Given", "Denied", "Added (UTC)"),
]


def _row(agent: AgentState, tally: AgentTally) -> list[object]:
    settings, connections = agent.settings, agent.connections
    standing = ["paused"] if settings.paused else []
    standing.append("connected" if connections else "not connected")
    return [
        agent.name,
        ", ".join(standing),
        ", ".join(dict.fromkeys(claim_cell(one.program.words) for one in connections)),
        settings.profile.value,
        settings.targets or "every device",
        settings.per_minute,
        settings.waiting,
        agent.open_runs,
        tally.asked,
        tally.given,
        tally.denied,
        time_cell(agent.added_at),
    ]


@app.command("show", epilog=examples("agents show night-shift", "agents show night-shift --limit 50 --json"))
def agents_show(
    context: typer.Context,
    name: NameArgument,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_COMMANDS, help="How many commands, newest first.")
    ] = 20,
) -> None:
    """Show the requests of an agent, what was sent for them and the results; revoked agents included."""

    async def work(session: Session) -> None:
        page = await session.console.agents.commands(name, limit=limit)
        if context.obj.json:
            say(as_json(page.model_dump(mode="json")))
        else:
            head = ["At (UTC)", "It says", "What its arguments do", "Device", "Tool", "Answer", "Outcome"]
            say(table(head, [_command_row(command) for command in page.commands]))

    in_session(context, work)


def _command_row(command: AgentCommand) -> list[object]:
    return [
        time_cell(command.at),
        claim_cell(command.said),
        command.effect or (command.error.message if command.error is not None else ""),
        command.device,
        command.tool,
        f"{command.fate.value.replace('_', ' ')} {f'by {command.by}' if command.by else ''}".strip(),
        command.verdict.value if command.verdict is not None else "",
    ]


@app.command("add", epilog=examples("agents add night-shift --targets 'tag:lab' --profile observe"))
@signs
def agents_add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    profile: ProfileOption = None,
    targets: TargetsOption = None,
    per_minute: PerMinuteOption = None,
    waiting: WaitingOption = None,
    *,
    unlocking: KeySource,
) -> None:
    """Add an agent and print its token, once. An operator signs this.

    Adding a name again gives that agent a new token and makes the one that it had worthless.
    """
    settings = _changed(AgentSettings(), profile, targets, per_minute, waiting)

    async def work(session: Session) -> None:
        signed = await sign_change(session, unlocking, agent_added(name, settings))
        added = await session.console.agents.add(name, settings, signed)
        if context.obj.json:
            say(as_json({"agent": added.agent.model_dump(mode="json"), "token": added.token}))
            return
        note(
            f"{name} may ask for commands on {targets_words(settings.targets)}. Its token is shown only now; "
            f"give it to the program as {TOKEN_VARIABLE}, or in a file (gateway --token-file):"
        )
        say(added.token)

    in_session(context, work)


@app.command("set", epilog=examples("agents set night-shift --profile observe --waiting 3"))
@signs
def agents_set(
    context: typer.Context,
    name: NameArgument,
    profile: ProfileOption = None,
    targets: TargetsOption = None,
    per_minute: PerMinuteOption = None,
    waiting: WaitingOption = None,
    *,
    unlocking: KeySource,
) -> None:
    """Change an agent's limits. What tightens holds at once; an operator signs the rest."""

    async def work(session: Session) -> None:
        settings = _changed(await _settings_of(session, name), profile, targets, per_minute, waiting)
        agent = await _update(session, unlocking, name, settings)
        say(as_json(agent.model_dump(mode="json")) if context.obj.json else f"The limits of {name} are set.")

    in_session(context, work)


@app.command("pause", epilog=examples("agents pause night-shift"))
def agents_pause(context: typer.Context, name: NameArgument) -> None:
    """Refuse what an agent asks for, and hold its runs, until it is resumed."""

    async def work(session: Session) -> None:
        agent = await session.console.agents.pause(name)
        say(as_json(agent.model_dump(mode="json")) if context.obj.json else f"{name} is paused.")

    in_session(context, work)


@app.command("resume", epilog=examples("agents resume night-shift"))
@signs
def agents_resume(context: typer.Context, name: NameArgument, *, unlocking: KeySource) -> None:
    """Let an agent that was paused or stopped ask again, and its held runs go on. An operator signs this."""

    async def work(session: Session) -> None:
        settings = (await _settings_of(session, name)).model_copy(update={"paused": False})
        agent = await _update(session, unlocking, name, settings)
        say(as_json(agent.model_dump(mode="json")) if context.obj.json else f"{name} may ask again.")

    in_session(context, work)


@app.command("stop", epilog=examples("agents stop night-shift"))
def agents_stop(context: typer.Context, name: NameArgument) -> None:
    """Pause an agent, cancel its runs, withdraw its requests and end its connections."""

    async def work(session: Session) -> None:
        words = await session.console.agents.stop(name)
        say(as_json({"stopped": name, "note": words}) if context.obj.json else words)

    in_session(context, work)


async def _update(session: Session, unlocking: KeySource, name: str, settings: AgentSettings) -> Agent:
    """Change an agent's limits, signed if that lets it do more."""
    signed = await sign_change(session, unlocking, agent_set(name, settings))
    return await session.console.agents.update(name, settings, signed)


async def _settings_of(session: Session, name: str) -> AgentSettings:
    known = {agent.name: agent.settings for agent in await session.console.agents.list()}
    return known.get(name, AgentSettings())


@app.command("revoke", epilog=examples("agents revoke night-shift"))
def agents_revoke(context: typer.Context, name: NameArgument) -> None:
    """Make an agent's token worthless, cancel its runs and withdraw its requests."""

    async def work(session: Session) -> None:
        await session.console.agents.revoke(name)
        say(as_json({"revoked": name}) if context.obj.json else f"{name} is revoked.")

    in_session(context, work)


def _changed(
    settings: AgentSettings,
    profile: Profile | None,
    targets: str | None,
    per_minute: int | None,
    waiting: int | None,
) -> AgentSettings:
    given = {"profile": profile, "targets": targets, "per_minute": per_minute, "waiting": waiting}
    changed = {name: value for name, value in given.items() if value is not None}
    try:
        return AgentSettings.model_validate({**settings.model_dump(), **changed})
    except ValueError as error:
        raise BadInput(sentences(f"--targets: {error}")) from error


@commands.command(
    "gateway",
    epilog=examples("gateway --as night-shift", "gateway --http 127.0.0.1:8765"),
    short_help="Serve agents by the Model Context Protocol.",
)
def gateway(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Option("--as", metavar="AGENT", help="The agent, over standard input and output.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve every agent here, on loopback, instead."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help=f"Else the variable {TOKEN_VARIABLE}.")
    ] = None,
) -> None:
    """Serve agents by the Model Context Protocol, as an agent program starts it.

    With --as it serves one agent on standard input and output; its token is in the environment variable
    QUARTERDECK_TOKEN or in --token-file. With --http every agent shows its own token.
    """
    if (name is None) is (http is None):
        raise BadInput("Give --as NAME for one agent on standard input and output, or --http HOST:PORT.")
    given: CommonOptions = context.obj
    keep_memory_private()

    async def work() -> None:
        end_on_signals()
        # Imported here: the SDK takes longer to import than any other command takes.
        if http is not None:
            from core.gateway.http import serve_http

            await serve_http(given.home, http, lambda url: note(f"The gateway is at {url}."))
        else:
            from core.gateway.stdio import serve_stdio

            token = given.token if token_file is None else _token_in(token_file)
            await serve_stdio(given.home, _checked_token(token, name or ""))

    asyncio.run(work())
    raise typer.Exit(exit_codes.DONE)


def _token_in(file: Path) -> str:
    """The content of a token file.

    Raises:
        BadInput: it cannot be read, or other users can read it too.
    """
    try:
        with file.open("rb") as opened:
            if os.name == "posix" and os.fstat(opened.fileno()).st_mode & 0o077:
                raise BadInput(f"Other users can read {file}: make it private (chmod 600 {file}).")
            return opened.read(_LONGEST_TOKEN).decode("ascii", "replace")
    except OSError as error:
        raise BadInput(sentences(f"The token cannot be read from {file}: {error}")) from error


def _checked_token(given: str, name: str) -> str:
    """The token of an agent, from a file or the environment; never from the command line.

    Raises:
        BadInput: there is none, or it is another agent's.
    """
    token = given.strip()
    if not token:
        raise BadInput(f"There is no token: set {TOKEN_VARIABLE}, or give --token-file FILE.")
    if not token.isascii() or name_in(token) != name:
        raise BadInput(f"This is not a token of the agent {name}.")
    return token

"""Commands about agents: list, add, set, pause, stop and revoke them."""

from __future__ import annotations

from typing import Annotated

import typer

from core.cli.answer import Answer
from core.cli.base import EVERYWHERE, command_set, examples, in_session
from core.cli.output import Cell, Prose, Remark, claim_cell, one_line, state_cell, table, time_cell
from core.cli.session import Session
from core.cli.signing import KeySource, sign_change, signs
from core.environment import TOKEN_VARIABLE
from core.errors import BadInput, first_fault
from core.filter_language import SIGNS
from core.policy.agent_models import MOST_A_MINUTE, MOST_WAITING, Agent, AgentSettings, targets_words
from core.policy.models import Profile
from core.service.console import AgentCommand, AgentState, AgentTally
from core.service.wishes import agent_added, agent_set
from core.text import sentences

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

    async def work(session: Session) -> Answer:
        agents = await session.console.agents.list()
        counted = await session.console.agents.tallies()
        tallies = [counted.get(agent.name, AgentTally()) for agent in agents]
        told = [
            {**agent.model_dump(mode="json"), "tally": tally}
            for agent, tally in zip(agents, tallies, strict=True)
        ]
        rows = [_row(agent, tally) for agent, tally in zip(agents, tallies, strict=True)]
        return Answer({"agents": told}, [table(_HEAD, rows)] if rows else "No agent yet.")

    in_session(context, work)


_HEAD = [
    *("NAME", "STATE", "PROGRAM (SAYS)", "PROFILE", "TARGETS", "A MINUTE", "MAY WAIT"),
    *("OPEN", "ASKED", "GIVEN", "DENIED", "ADDED (UTC)"),
]


def _row(agent: AgentState, tally: AgentTally) -> list[object]:
    settings, connections = agent.settings, agent.connections
    standing = ["paused"] if settings.paused else []
    standing.append("connected" if connections else "not connected")
    return [
        agent.name,
        Cell(", ".join(standing), "yellow" if settings.paused else "green" if connections else "dim"),
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

    async def work(session: Session) -> Answer:
        page = await session.console.agents.commands(name, limit=limit)
        head = ("TIME (UTC)", "IT SAYS", "EFFECT", "DEVICE", "TOOL", "ANSWER", "OUTCOME")
        rows = [_command_row(command) for command in page.commands]
        return Answer(page, [table(head, rows)] if rows else f"{one_line(name)} has asked for nothing yet.")

    in_session(context, work)


def _command_row(command: AgentCommand) -> list[object]:
    return [
        time_cell(command.at),
        claim_cell(command.said),
        command.effect or (command.error.message if command.error is not None else ""),
        command.device,
        command.tool,
        f"{command.fate.value.replace('_', ' ')} {f'by {command.by}' if command.by else ''}".strip(),
        state_cell(command.verdict) if command.verdict is not None else "",
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

    async def work(session: Session) -> Answer:
        signed = await sign_change(session, unlocking, agent_added(name, settings))
        added = await session.console.agents.add(name, settings, signed)
        remark = Remark(
            f"{name} may ask for commands on {targets_words(settings.targets)}. Its token is shown only now; "
            f"give it to the program as {TOKEN_VARIABLE}, or in a file (gateway --token-file):"
        )
        return Answer({"agent": added.agent, "token": added.token}, [remark, added.token])

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

    async def work(session: Session) -> Answer:
        settings = _changed(await _settings_of(session, name), profile, targets, per_minute, waiting)
        agent = await _update(session, unlocking, name, settings)
        return Answer(agent, f"The limits of {name} are set.")

    in_session(context, work)


@app.command("pause", epilog=examples("agents pause night-shift"))
def agents_pause(context: typer.Context, name: NameArgument) -> None:
    """Refuse what an agent asks for, and hold its runs, until it is resumed."""

    async def work(session: Session) -> Answer:
        agent = await session.console.agents.pause(name)
        return Answer(agent, f"{name} is paused.")

    in_session(context, work)


@app.command("resume", epilog=examples("agents resume night-shift"))
@signs
def agents_resume(context: typer.Context, name: NameArgument, *, unlocking: KeySource) -> None:
    """Let an agent that was paused or stopped ask again, and its held runs go on. An operator signs this."""

    async def work(session: Session) -> Answer:
        settings = (await _settings_of(session, name)).model_copy(update={"paused": False})
        agent = await _update(session, unlocking, name, settings)
        return Answer(agent, f"{name} may ask again.")

    in_session(context, work)


@app.command("stop", epilog=examples("agents stop night-shift"))
def agents_stop(context: typer.Context, name: NameArgument) -> None:
    """Pause an agent, cancel its runs, withdraw its requests and end its connections."""

    async def work(session: Session) -> Answer:
        words = await session.console.agents.stop(name)
        return Answer({"stopped": name, "message": words}, Prose(words))

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

    async def work(session: Session) -> Answer:
        await session.console.agents.revoke(name)
        return Answer({"revoked": name}, f"{name} is revoked.")

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
        raise BadInput(sentences(f"--{first_fault(error)}")) from error

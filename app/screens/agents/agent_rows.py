"""What the lists of this screen show of an agent, of its commands and of its open tickets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter

from app.items.table_model import Cell, Column, Kind, RowStyle, TableModel
from app.records.run_text import devices_words
from app.text import clock, count_words, one_line, person_words
from core.batch.models import RunState, RunSummary
from core.service.console import AgentCommand, AgentConnection, AgentState, AgentTally, CommandFate

TRANSPORTS = {"stdio": "standard input and output", "http": "HTTP", "": "the control socket"}
NO_NAME = "not named"


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent, and how much it has asked for; None until that was counted."""

    agent: AgentState
    tally: AgentTally | None

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.agent.name


def standing_words(agent: AgentState) -> str:
    """Whether an agent may ask, and is there: `paused`, `connected`, `not connected`."""
    if agent.settings.paused:
        return "paused, connected" if agent.connections else "paused"
    return "connected" if agent.connections else "not connected"


def program_words(connections: Iterable[AgentConnection]) -> str:
    """The programs of connections, as they call themselves; each once."""
    return ", ".join(dict.fromkeys(one_line(one.program.words) or NO_NAME for one in connections))


def transport_words(connection: AgentConnection) -> str:
    """Over what an agent is connected."""
    return TRANSPORTS.get(connection.transport, one_line(connection.transport))


def fits(row: AgentRow, words: str) -> bool:
    """Whether every word is found in what the list shows of an agent."""
    agent = row.agent
    text = " ".join(
        (
            agent.name,
            standing_words(agent),
            program_words(agent.connections),
            agent.settings.profile.value,
            agent.settings.targets,
        )
    ).casefold()
    return all(word in text for word in words.casefold().split())


def _standing(row: AgentRow) -> Cell:
    agent = row.agent
    words = standing_words(agent)
    if agent.settings.paused:
        # That it is connected is told by its program.
        return Cell("paused", glyph="pause", tone="warn", tip=words)
    return Cell(words, glyph="circle", tone="ok") if agent.connections else Cell(words, tone="text3")


def _program(row: AgentRow) -> str | Cell:
    words = program_words(row.agent.connections)
    return Cell(words, tip=f"It calls itself {words}; that is not checked.") if words else ""


def _since(row: AgentRow) -> str:
    return clock(row.agent.connections[0].since, seconds=False) if row.agent.connections else ""


def _open(row: AgentRow) -> str | Cell:
    agent = row.agent
    if not agent.waiting:
        return str(agent.open_runs or "")
    return Cell(
        str(agent.open_runs),
        glyph="sand",
        tone="waiting",
        tip=f"{agent.waiting} of its requests wait for you.",
    )


def _count(of: Callable[[AgentTally], int]) -> Callable[[AgentRow], str]:
    return lambda row: "" if row.tally is None else count_words(of(row.tally))


def _number(of: Callable[[AgentTally], int]) -> Callable[[AgentRow], int | None]:
    return lambda row: None if row.tally is None else of(row.tally)


AGENT_COLUMNS: tuple[Column[AgentRow], ...] = (
    Column("agent", "Agent", Kind.NAME, 120, cell=lambda row: Cell(row.agent.name, icon="agent")),
    Column("standing", "State", Kind.TEXT, 138, cell=_standing),
    Column("program", "Program (says)", Kind.TEXT, 90, stretch=True, cell=_program),
    Column("since", "Since", Kind.TIME, 84, drop=2, cell=_since),
    Column("profile", "Profile", Kind.TEXT, 72, drop=1, cell=lambda row: row.agent.settings.profile.value),
    Column("open", "Open", Kind.NUMBER, 46, cell=_open, sort=lambda row: row.agent.open_runs),
    Column("asked", "Asked", Kind.NUMBER, 56, cell=_count(lambda one: one.asked),
           sort=_number(lambda one: one.asked)),
    Column("given", "Given", Kind.NUMBER, 56, cell=_count(lambda one: one.given),
           sort=_number(lambda one: one.given)),
    Column("denied", "Denied", Kind.NUMBER, 60, cell=_count(lambda one: one.denied),
           sort=_number(lambda one: one.denied)),
)  # fmt: skip


def agent_model() -> TableModel[AgentRow]:
    """Agents by name; one that is not connected is muted."""
    return TableModel(
        AGENT_COLUMNS,
        attrgetter("name"),
        lambda row: RowStyle(muted=not row.agent.connections and not row.agent.settings.paused),
    )


_FATES = {
    CommandFate.OPEN: "waiting",
    CommandFate.DENIED: "refused",
    CommandFate.NOT_SENT: "cancelled",
}
_FATE_WORDS = {
    CommandFate.OPEN: "is open",
    CommandFate.GIVEN: "given",
    CommandFate.DENIED: "denied",
    CommandFate.NOT_SENT: "not sent",
}


def fate_words(command: AgentCommand) -> str:
    """Whether a command was given or denied, and by whom: `denied by harbour`, `given by the policy`."""
    if command.fate in (CommandFate.OPEN, CommandFate.NOT_SENT):
        return _FATE_WORDS[command.fate]
    by = one_line(person_words(command.by)) if command.by else "the policy"
    return f"{_FATE_WORDS[command.fate]} by {by}"


def _outcome(command: AgentCommand) -> str:
    return command.verdict.value if command.verdict is not None else _FATES.get(command.fate, "unknown")


def _does(command: AgentCommand) -> str:
    return one_line(command.effect) or one_line(command.error.message if command.error else "")


COMMAND_COLUMNS: tuple[Column[AgentCommand], ...] = (
    Column("at", "Asked at", Kind.TIME, 112, cell=lambda one: clock(one.at), sort=lambda one: one.seq),
    Column("said", "It says", Kind.TEXT, 150, tone="text3",
           cell=lambda one: Cell(one_line(one.said), tip=one_line(one.said)) if one.said else ""),
    Column("does", "What its arguments do", Kind.TEXT, 150, stretch=True,
           cell=lambda one: Cell(_does(one), tip=_does(one))),
    Column("device", "Device", Kind.NAME, 100, cell=lambda one: one_line(one.device)),
    Column("tool", "Tool", Kind.MONO, 110, drop=2, cell=lambda one: one_line(one.tool)),
    Column("fate", "Answer", Kind.TEXT, 110, drop=1, cell=fate_words),
    Column("outcome", "Outcome", Kind.VERDICT, 104, cell=_outcome),
)  # fmt: skip


def command_model() -> TableModel[AgentCommand]:
    """Commands by their ids; a denied one is tinted."""
    return TableModel(
        COMMAND_COLUMNS,
        attrgetter("call_id"),
        lambda one: RowStyle(tint="fail_tint" if one.fate is CommandFate.DENIED else ""),
    )


@dataclass(frozen=True, slots=True)
class Ticket:
    """An open run of an agent; `approvals` are its requests that wait, `on_cards` what they are about."""

    run: RunSummary
    approvals: tuple[str, ...] = ()
    on_cards: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.id

    def waits_for(self) -> str:
        """What it waits for, as a person reads it."""
        if self.approvals:
            more = f" and {len(self.approvals) - 1} more" if len(self.approvals) > 1 else ""
            return f"you: {one_line(self.on_cards[0])}{more}"
        if self.run.state is RunState.PAUSED:
            return "the run is paused"
        return "operators" if self.run.state is RunState.WAITING else "its devices"


TICKET_COLUMNS: tuple[Column[Ticket], ...] = (
    Column("run", "Run", Kind.MONO, 76, cell=lambda one: one.run.id),
    Column("name", "What", Kind.NAME, 130, cell=lambda one: one_line(one.run.name)),
    Column("state", "State", Kind.VERDICT, 112, cell=lambda one: one.run.state.value),
    Column("waits", "Waits for", Kind.TEXT, 180, stretch=True,
           cell=lambda one: Cell(one.waits_for(), tip=one.waits_for())),
    Column("devices", "Devices", Kind.TEXT, 110, drop=1, cell=lambda one: devices_words(one.run)),
    Column("started", "Asked at", Kind.TIME, 112, drop=2, cell=lambda one: clock(one.run.started_at)),
)  # fmt: skip


def ticket_model() -> TableModel[Ticket]:
    """Open tickets by their runs."""
    return TableModel(TICKET_COLUMNS, attrgetter("id"))

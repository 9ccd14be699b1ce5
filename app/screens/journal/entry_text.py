"""Journal entries in words: what happened, how it ended, and one row of the table each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.items.table_model import Cell, Column, Kind
from app.text import count_words, one_line, parse_time, person_words
from core.audit.entries import Entry
from core.audit.entries import Kind as EntryKind

ENTRY, TIME, KIND, DEVICE, ACTOR, TOOL, BY, OUTCOME, TOOK = range(9)
# Fields of the query language that a column's value can be filtered by.
COLUMN_FIELDS = {
    ENTRY: "seq",
    KIND: "kind",
    DEVICE: "device",
    ACTOR: "actor",
    TOOL: "tool",
    BY: "tool",
    OUTCOME: "verdict",
}
KIND_TONES = {
    EntryKind.COMMAND_REFUSED: "fail",
    EntryKind.APPROVAL_DENIED: "fail",
    EntryKind.APPROVAL_REJECTED: "fail",
    EntryKind.DEVICE_REFUSED: "fail",
    EntryKind.POLICY_BROKEN: "fail",
    EntryKind.CHANGE_REFUSED: "fail",
    EntryKind.ALL_STOPPED: "fail",
    EntryKind.DEVICE_LOST: "warn",
    EntryKind.LATE_ANSWER_RECEIVED: "warn",
    EntryKind.DEVICE_REVOKED: "warn",
    EntryKind.OPERATOR_REMOVED: "warn",
    EntryKind.AGENT_REVOKED: "warn",
    EntryKind.AGENT_STOPPED: "warn",
    EntryKind.FATIGUE_NOTED: "warn",
    EntryKind.CONTRACT_CHANGED: "warn",
    EntryKind.APPROVAL_EXPIRED: "warn",
    EntryKind.JOURNAL_RECOVERED: "warn",
    EntryKind.LOSS_ACCEPTED: "fail",
    EntryKind.HOME_RESTORED: "warn",
    EntryKind.RUN_CANCEL_ASKED: "warn",
}
_OWN_PREFIXES = ("operator:", "device:")


def kind_words(kind: EntryKind | str) -> str:
    """What happened: `result recorded`."""
    return str(kind).replace("_", " ")


def entry_words(entry: Entry) -> str:
    """What an entry says that happened; a request that was withdrawn did not expire."""
    if entry.kind is EntryKind.APPROVAL_EXPIRED and entry.body.get("state") == "withdrawn":
        return "approval withdrawn"
    return kind_words(entry.kind)


@dataclass(frozen=True, slots=True)
class Present:
    """What is so now and is not in the entry: devices that are production, commands that wait."""

    production: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()


def outcome_of(entry: Entry, present: Present) -> str:
    """The verdict or cell state that an entry stands for; empty when it is about neither.

    A request for approval waits as long as no operator has answered it; what it was later is
    another entry's story.
    """
    if entry.verdict:
        return entry.verdict
    waits = entry.kind is EntryKind.APPROVAL_REQUESTED and entry.call_id in present.waiting
    return "waiting" if waits else ""


def actor_words(entry: Entry) -> str:
    """Who did it: the entry's own device as `device`, people and programs as everywhere."""
    if entry.device and entry.actor == f"device:{entry.device}":
        return "device"
    return person_words(entry.actor)


def time_words(stamp: str, today: datetime | None = None) -> str:
    """Local clock time with milliseconds; with the day before it where it is not today's."""
    moment = parse_time(stamp)
    clock = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
    now = today or datetime.now().astimezone()
    if moment.date() == now.date():
        return clock
    return f"{moment:%m-%d} {clock}" if moment.year == now.year else f"{moment:%Y-%m-%d} {clock}"


def took_words(milliseconds: float | None) -> str:
    """How long it took; nothing where nothing was measured."""
    if milliseconds is None:
        return ""
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def device_words(entry: Entry) -> str:
    """The device, or how many a run is on."""
    if entry.device:
        return one_line(entry.device)
    devices = entry.body.get("devices")
    if isinstance(devices, list) and devices:
        return f"{len(devices)} device{'s' if len(devices) != 1 else ''}"
    return ""


def _by(entry: Entry) -> Cell:
    """Actor and tool in one narrow column: who it was is left out where it is the usual one for a tool."""
    tool, actor = one_line(entry.tool), one_line(actor_words(entry))
    words = tool if tool and actor in ("device", "service") else ", ".join(filter(None, (actor, tool)))
    return Cell(words, tip=", ".join(filter(None, (one_line(entry.actor), tool))))


def _tool(entry: Entry) -> Cell:
    tool = one_line(entry.tool)
    return Cell(tool, tip=tool)


def outcome_cell(entry: Entry, present: Present) -> Cell:
    """How it ended, or that it waits."""
    outcome = outcome_of(entry, present)
    return Cell(outcome, tip="waits for an operator" if outcome == "waiting" else "")


COLUMNS: tuple[Column[Entry], ...] = (
    Column("seq", "Entry", Kind.NUMBER, 64, tone="text3", cell=lambda one: count_words(one.seq)),
    Column(
        "time", "Time", Kind.MONO, 104, cell=lambda one: Cell(time_words(one.time), tone="text", tip=one.time)
    ),
    Column(
        "kind", "Kind", Kind.TEXT, 146, tone="text",
        cell=lambda one: Cell(entry_words(one), tone=KIND_TONES.get(one.kind, "text")),
    ),
    Column("device", "Device", Kind.NAME, 122, cell=device_words),
    Column(
        "actor", "Actor", Kind.TEXT, 124,
        cell=lambda one: Cell(one_line(actor_words(one)), tip=one_line(one.actor)),
    ),
    Column("tool", "Tool", Kind.MONO, 120, stretch=True, tone="text2", cell=_tool),
    Column("by", "Actor, tool", Kind.TEXT, 200, tone="text2", cell=_by),
    Column("outcome", "Outcome", Kind.VERDICT, 122, cell=lambda one: outcome_cell(one, Present())),
    Column("took", "Took", Kind.NUMBER, 70, cell=lambda one: took_words(one.duration_ms)),
)  # fmt: skip


def field_value(entry: Entry, column: int) -> str:
    """What the entry has in the column's field; empty when there is nothing to filter by."""
    values = {
        ENTRY: str(entry.seq),
        KIND: entry.kind.value,
        DEVICE: entry.device,
        ACTOR: entry.actor,
        TOOL: entry.tool,
        BY: entry.tool,
        OUTCOME: entry.verdict,
    }
    return values.get(column) or ""


def entry_title(entry: Entry) -> str:
    """What an entry is about, on one line: `click_element on stock-pc-02, r-0414 step 7`."""
    what = " on ".join(part for part in (one_line(entry.tool), device_words(entry)) if part)
    where = ""
    if entry.run:
        where = one_line(entry.run) + (f" step {one_line(entry.step)}" if entry.step else "")
    return ", ".join(part for part in (what, where) if part) or one_line(entry.actor)

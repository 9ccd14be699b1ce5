"""Journal entries in words: what happened, how it ended, and one row of the table each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.items.table_model import Cell, Column, Kind, Row
from app.text import count_words, one_line, parse_time, person_words
from core.audit.entries import Entry
from core.audit.entries import Kind as EntryKind

ENTRY, TIME, KIND, DEVICE, ACTOR, TOOL, BY, OUTCOME, TOOK = range(9)
COLUMNS = (
    Column("seq", "Entry", Kind.NUMBER, 64, tone="text3"),
    Column("time", "Time", Kind.MONO, 104),
    Column("kind", "Kind", Kind.TEXT, 146, tone="text"),
    Column("device", "Device", Kind.NAME, 122),
    Column("actor", "Actor", Kind.TEXT, 124),
    Column("tool", "Tool", Kind.MONO, 120, stretch=True, tone="text2"),
    Column("by", "Actor, tool", Kind.TEXT, 200, tone="text2"),
    Column("outcome", "Outcome", Kind.VERDICT, 122),
    Column("took", "Took", Kind.NUMBER, 70),
)
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
    EntryKind.FATIGUE_NOTED: "warn",
    EntryKind.CONTRACT_CHANGED: "warn",
    EntryKind.APPROVAL_EXPIRED: "warn",
    EntryKind.JOURNAL_RECOVERED: "warn",
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

    A request for approval waits as long as nobody answered it; what it was later is another entry's story.
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


def entry_row(entry: Entry, present: Present) -> Row:
    """One entry, ready to be painted."""
    tool, actor = one_line(entry.tool), one_line(actor_words(entry))
    outcome = outcome_of(entry, present)
    return Row(
        key=str(entry.seq),
        cells=(
            count_words(entry.seq),
            Cell(time_words(entry.time), tone="text", tip=entry.time),
            Cell(entry_words(entry), tone=KIND_TONES.get(entry.kind, "text")),
            device_words(entry),
            Cell(actor, tip=one_line(entry.actor)),
            Cell(tool, tip=tool),
            Cell(_by_words(actor, tool), tip=", ".join(filter(None, (one_line(entry.actor), tool)))),
            Cell(outcome, tip="waits for an operator" if outcome == "waiting" else ""),
            took_words(entry.duration_ms),
        ),
        production=entry.device in present.production,
    )


def _by_words(actor: str, tool: str) -> str:
    """Actor and tool in one narrow column: who it was is left out where it is the usual one for a tool."""
    if tool and actor in ("device", "service"):
        return tool
    return ", ".join(part for part in (actor, tool) if part)


def placeholder_row(seq: int) -> Row:
    """An entry that is being read again."""
    cells: list[str | Cell] = [""] * len(COLUMNS)
    cells[ENTRY] = count_words(seq)
    return Row(key=str(seq), cells=tuple(cells), muted=True)


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

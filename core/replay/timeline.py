"""Time line from journal entries: lanes, spans, decisions, pictures, and every entry as a step.

The entries can be an excerpt of a longer journal, so any entry may be missing, and a body may hold any data.
Data that is not understood is left out and never raises. A replay executes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from core.audit.entries import Entry, Kind
from core.audit.events import (
    ApprovalAnswered,
    ApprovalDenied,
    ApprovalExpired,
    DeviceConnected,
    DeviceLost,
    Event,
    EvidenceTaken,
    GrantUsed,
    Json,
    ResultRecorded,
    ServiceStarted,
    event_of,
)
from core.audit.projection import CommandState, Projection
from core.models.tool_names import SCREENSHOT
from core.replay.models import Frame, Mark, Moment, Span, SpanKind, Timeline
from core.replay.titles import inside, text_in, title_of

_ASKERS = ("operator:", "window:", "agent:", "cli:")
_READING_TOOLS = frozenset({"list_tools", "get_mcp_tools"})


def build_timeline(
    entries: Iterable[Entry], title: str, run: str | None = None, truncated: bool = False
) -> Timeline:
    """Build the time line of entries, which come oldest first.

    Lanes are operators, windows, agents and command lines in the order of their first entry, then devices. A
    time that cannot be read, or is before the previous entry's, counts as the previous time. `truncated` says
    that older or newer entries were left out.
    """
    builder = _Builder()
    for entry in entries:
        builder.take(entry)
    return builder.timeline(title, run, truncated)


class _Builder:
    """Reads entries once, in order, and stores what has begun and not ended."""

    def __init__(self) -> None:
        self._start: datetime | None = None
        self._now = 0.0
        self._first_time = ""
        self._last_time = ""
        self._actors: dict[str, None] = {}
        self._devices: dict[str, None] = {}
        self._moments: list[Moment] = []
        self._spans: list[Span] = []
        self._marks: list[Mark] = []
        self._frames: list[Frame] = []
        self._journalled = Projection()
        # Seconds since the start, by the numbers of the entries read.
        self._at: dict[int, float] = {}
        self._lost: dict[str, Span] = {}
        self._pictures: dict[str, str] = {}
        self._last_picture: str | None = None

    def take(self, entry: Entry) -> None:
        self._tick(entry)
        if entry.actor.startswith(_ASKERS):
            self._actors.setdefault(entry.actor)
        if entry.device:
            self._devices.setdefault(entry.device)
        event = event_of(entry)
        match event:
            case ResultRecorded():
                self._result(entry, event)
            case EvidenceTaken():
                self._evidence(entry, event)
            case ApprovalAnswered() | ApprovalExpired():
                self._decided(entry, event)
            case GrantUsed() if event.approval:
                self._decided(entry, event)
            case DeviceLost() if entry.device:
                self._lost.setdefault(entry.device, self._lost_span(entry, event))
            case DeviceConnected() if entry.device in self._lost:
                self._spans.append(self._lost.pop(entry.device).model_copy(update={"end": self._now}))
            case ServiceStarted():
                # Answers to the earlier service process can no longer arrive.
                self._add_open_spans(end=self._now)
        self._journalled.apply(entry, event)
        self._moments.append(self._moment(entry, event))

    def timeline(self, title: str, run: str | None, truncated: bool) -> Timeline:
        self._add_open_spans(end=None)
        self._spans.extend(self._lost.values())
        spans = [span for span in self._spans if span.lane]
        used = dict.fromkeys(
            (*self._devices, *(span.lane for span in spans), *(mark.lane for mark in self._marks))
        )
        return Timeline(
            title=title,
            run=run,
            start=self._first_time,
            end=self._last_time,
            length_s=self._now,
            lanes=[*self._actors, *(lane for lane in used if lane not in self._actors)],
            moments=self._moments,
            spans=sorted(spans, key=lambda span: (span.start, span.seq)),
            marks=self._marks,
            frames=sorted(self._frames, key=lambda frame: (frame.at, frame.seq)),
            truncated=truncated,
        )

    def _tick(self, entry: Entry) -> None:
        self._first_time = self._first_time or entry.time
        self._last_time = entry.time
        when = _instant(entry.time)
        if when is not None:
            self._start = self._start or when
            self._now = max(self._now, (when - self._start).total_seconds())
        self._at[entry.seq] = self._now

    def _moment(self, entry: Entry, event: Event) -> Moment:
        return Moment(
            seq=entry.seq,
            at=self._now,
            time=entry.time,
            kind=entry.kind.value,
            title=title_of(entry, event),
            actor=entry.actor,
            device=entry.device,
            tool=entry.tool,
            call_id=entry.call_id,
            status=entry.status,
            verdict=entry.verdict,
            picture=self._pictures.get(entry.device) if entry.device else self._last_picture,
        )

    def _command(self, entry: Entry) -> CommandState:
        """The command of an entry before the entry is applied."""
        return self._journalled.commands.get(entry.call_id or "") or CommandState(entry.call_id or "")

    def _result(self, entry: Entry, event: ResultRecorded) -> None:
        command, result = self._command(entry), event.result or {}
        kind = _kind_of(command, entry, result)
        ended = _ended(entry)
        sent = command.sent if command.sent and command.sent.device else None
        if entry.device:
            began = self._at[sent.seq] if sent else self._began(entry)
            if sent or began < self._now:
                self._spans.append(_call_span(sent or entry, began, self._now, ended or kind))
        pictures = _pictures_of(entry, result)
        if pictures and entry.device:
            self._pictures[entry.device] = pictures[-1]
        if pictures:
            self._last_picture = pictures[-1]
        for blob in pictures:
            self._frames.append(self._frame(command, entry, blob, result))
        # A read leaves a frame only where it returned a picture, or where it failed.
        if not pictures and (kind == "action" or ended):
            self._frames.append(self._frame(command, entry, None, result))

    def _evidence(self, entry: Entry, event: EvidenceTaken) -> None:
        """Add the frame of a picture before or after a command at the time when it was taken."""
        picture = event.picture or {}
        if not _is_picture(picture):
            return
        blob = text_in(picture, "blob")
        self._frames.append(self._frame(self._command(entry), entry, blob, {}))
        self._last_picture = blob
        if entry.device:
            self._pictures[entry.device] = blob

    def _began(self, entry: Entry) -> float:
        """The start of a call whose `command_sent` entry is missing, from the duration of its result."""
        took = entry.duration_ms
        if took is None or not 0 < took < float("inf"):
            return self._now
        return max(0.0, self._now - took / 1000)

    def _frame(self, command: CommandState, entry: Entry, blob: str | None, result: Json) -> Frame:
        return Frame(
            seq=entry.seq,
            at=self._at[entry.seq],
            time=entry.time,
            tool=entry.tool or "",
            device=entry.device or "",
            blob=blob,
            call_id=entry.call_id,
            mark=_acted_on(command, result),
            ended=_ended(entry),
        )

    def _decided(self, entry: Entry, event: ApprovalAnswered | ApprovalExpired | GrantUsed) -> None:
        request = self._command(entry).waiting.get(event.approval)
        lane = entry.actor if entry.actor in self._actors else _asker_lane(request) if request else ""
        lane = lane or entry.device or ""
        if not lane:
            return
        if request:
            self._spans.append(_wait_span(request, self._at[request.seq], self._now, lane))
        kind: Literal["approved", "denied", "expired"]
        match event:
            case GrantUsed():
                kind, words = "approved", "Granted "
            case ApprovalDenied():
                kind, words = "denied", "Denied "
            case ApprovalAnswered():
                kind, words = "approved", "Approved "
            case ApprovalExpired():
                kind, words = "expired", "Withdrawn: " if event.state == "withdrawn" else "Expired: "
        label = f"{words}{entry.tool or 'command'}"
        self._marks.append(Mark(lane=lane, at=self._now, kind=kind, label=label, seq=entry.seq))

    def _lost_span(self, entry: Entry, event: DeviceLost) -> Span:
        lane, label = entry.device or "", event.reason or "lost"
        return Span(lane=lane, start=self._now, end=None, kind="lost", label=label, seq=entry.seq)

    def _add_open_spans(self, end: float | None) -> None:
        """Add the calls and requests that have no answer; their kind is unknown if they end without one."""
        for command in self._journalled.commands.values():
            sent = command.sent
            if sent is not None and sent.device:
                kind = _kind_of(command, sent, {})
                start = self._at[sent.seq]
                self._spans.append(_call_span(sent, start, end, kind if end is None else "unknown"))
                if kind == "action":
                    self._frames.append(self._frame(command, sent, None, {}))
            for request in command.waiting.values():
                start = self._at[request.seq]
                self._spans.append(_wait_span(request, start, end, _asker_lane(request)))


def _kind_of(command: CommandState, entry: Entry, result: Json) -> Literal["action", "observation"]:
    """The kind of a call, by its contract; without it, by its result and its tool."""
    tool_type = command.prepared.event.tool_type if command.prepared else ""
    if tool_type in ("action", "data_collection"):
        return "action" if tool_type == "action" else "observation"
    reading = text_in(result, "basis") == "read_response"
    reads = reading or entry.tool in _READING_TOOLS or _pictures_of(entry, result)
    return "observation" if reads else "action"


def _call_span(entry: Entry, start: float, end: float | None, kind: SpanKind) -> Span:
    return Span(
        lane=entry.device or "",
        start=start,
        end=end,
        kind=kind,
        label=entry.tool or "command",
        seq=entry.seq,
        call_id=entry.call_id,
    )


def _wait_span(entry: Entry, start: float, end: float | None, lane: str) -> Span:
    return Span(
        lane=lane,
        start=start,
        end=end,
        kind="approval_wait",
        label=entry.tool or "command",
        seq=entry.seq,
        call_id=entry.call_id,
    )


def _ended(entry: Entry) -> Literal["", "failed", "unknown"]:
    """How a command ended without success; empty for success and for entries that are not results."""
    if entry.kind is not Kind.RESULT_RECORDED:
        return ""
    if entry.verdict == "unknown":
        return "unknown"
    return "failed" if entry.status == "failure" else ""


def _asker_lane(entry: Entry) -> str:
    return entry.actor if entry.actor.startswith(_ASKERS) else entry.device or entry.actor


def _instant(text: str) -> datetime | None:
    try:
        when = datetime.fromisoformat(text)
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


_BESIDE = frozenset({"before", "after"})


def _pictures_of(entry: Entry, result: Json) -> list[str]:
    """The pictures of a result in its order; pictures taken before or after it have their own entries."""
    if entry.kind is not Kind.RESULT_RECORDED:
        return []
    evidence = result.get("evidence")
    if isinstance(evidence, list):
        blobs = [blob for blob in evidence if isinstance(blob, dict) and _is_picture(blob)]
        return [text_in(blob, "blob") for blob in blobs if text_in(blob, "what") not in _BESIDE]
    # A truncated body still has its blobs; a screenshot's first blob is the picture.
    return entry.blobs[:1] if entry.tool == SCREENSHOT else []


def _is_picture(evidence: Mapping[str, Any]) -> bool:
    return text_in(evidence, "media_type").startswith("image/") and bool(text_in(evidence, "blob"))


def _acted_on(command: CommandState, result: Json) -> tuple[int, int] | None:
    """The point that an action aimed at: its own coordinates, or the middle of the box in its result."""
    parameters = command.prepared.event.parameters if command.prepared else {}
    tool_type = command.prepared.event.tool_type if command.prepared else ""
    point = _point(parameters.get("x"), parameters.get("y"))
    if point or tool_type == "data_collection":
        return point if tool_type == "action" else None
    box = inside(inside(result, "result"), "box")
    size = _point(box.get("width"), box.get("height"))
    corner = _point(box.get("x"), box.get("y"))
    return (corner[0] + size[0] // 2, corner[1] + size[1] // 2) if corner and size else None


def _point(x: object, y: object) -> tuple[int, int] | None:
    if isinstance(x, int) and isinstance(y, int) and 0 <= x < 1_000_000 and 0 <= y < 1_000_000:
        return (int(x), int(y))
    return None

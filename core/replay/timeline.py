"""Time line from journal entries: lanes, spans, decisions, pictures, and every entry as a step.

The entries can be an excerpt of a longer journal, so any entry may be missing, and a body may hold any data.
Data that is not understood is left out and never raises. A replay executes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from core.audit.entries import Entry, Kind
from core.policy.analysis.built_in_tools import SCREENSHOT
from core.replay.models import Frame, Mark, Moment, Span, SpanKind, Timeline
from core.replay.titles import inside, text_in, title_of

_ASKERS = ("operator:", "window:", "agent:", "cli:")
_DECISIONS = (Kind.APPROVAL_GIVEN, Kind.APPROVAL_DENIED, Kind.APPROVAL_EXPIRED)
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
        self._prepared: dict[str, Mapping[str, Any]] = {}
        self._sent: dict[str, tuple[Entry, float]] = {}
        self._asked: dict[str, tuple[Entry, float]] = {}
        self._lost: dict[str, tuple[Entry, float]] = {}
        self._pictures: dict[str, str] = {}
        self._last_picture: str | None = None

    def take(self, entry: Entry) -> None:
        self._tick(entry)
        if entry.actor.startswith(_ASKERS):
            self._actors.setdefault(entry.actor)
        if entry.device:
            self._devices.setdefault(entry.device)
        match entry.kind:
            case Kind.COMMAND_PREPARED if entry.call_id:
                self._prepared[entry.call_id] = entry.body
            case Kind.COMMAND_SENT if entry.call_id and entry.device:
                self._sent[entry.call_id] = (entry, self._now)
            case Kind.RESULT_RECORDED:
                self._result(entry)
            case Kind.EVIDENCE_TAKEN:
                self._evidence(entry)
            case Kind.APPROVAL_REQUESTED:
                self._asked[_approval_key(entry)] = (entry, self._now)
            case Kind.DEVICE_LOST if entry.device:
                self._lost.setdefault(entry.device, (entry, self._now))
            case Kind.DEVICE_CONNECTED if entry.device in self._lost:
                self._found(entry.device)
            case Kind.SERVICE_STARTED:
                self._service_started()
        if entry.kind in _DECISIONS or (entry.kind is Kind.GRANT_USED and "approval" in entry.body):
            self._decided(entry)
        self._moments.append(self._moment(entry))

    def timeline(self, title: str, run: str | None, truncated: bool) -> Timeline:
        for entry, at in self._sent.values():
            self._spans.append(self._call_span(entry, at, None, self._kind_of(entry)))
            self._sent_frame(entry, at)
        for entry, at in self._asked.values():
            self._spans.append(self._wait_span(entry, at, None, _asker_lane(entry)))
        for device, (entry, at) in self._lost.items():
            self._spans.append(_lost_span(device, entry, at, None))
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
        if when is None:
            return
        self._start = self._start or when
        self._now = max(self._now, (when - self._start).total_seconds())

    def _moment(self, entry: Entry) -> Moment:
        return Moment(
            seq=entry.seq,
            at=self._now,
            time=entry.time,
            kind=entry.kind.value,
            title=title_of(entry),
            actor=entry.actor,
            device=entry.device,
            tool=entry.tool,
            call_id=entry.call_id,
            status=entry.status,
            verdict=entry.verdict,
            picture=self._pictures.get(entry.device) if entry.device else self._last_picture,
        )

    def _result(self, entry: Entry) -> None:
        sent = self._sent.pop(entry.call_id or "", None)
        kind = self._kind_of(entry)
        ended = _ended(entry)
        if entry.device:
            shown: SpanKind = ended or kind
            began = sent[1] if sent else self._began(entry)
            if sent or began < self._now:
                self._spans.append(self._call_span(sent[0] if sent else entry, began, self._now, shown))
        pictures = _pictures_of(entry)
        if pictures and entry.device:
            self._pictures[entry.device] = pictures[-1]
        if pictures:
            self._last_picture = pictures[-1]
        for blob in pictures:
            self._frames.append(self._frame(entry, self._now, blob))
        # A read leaves a frame only where it returned a picture, or where it failed.
        if not pictures and (kind == "action" or ended):
            self._frames.append(self._frame(entry, self._now, None))

    def _evidence(self, entry: Entry) -> None:
        """Add the frame of a picture before or after a command at the time when it was taken."""
        picture = inside(entry.body, "picture")
        if not _is_picture(picture):
            return
        blob = text_in(picture, "blob")
        self._frames.append(self._frame(entry, self._now, blob))
        self._last_picture = blob
        if entry.device:
            self._pictures[entry.device] = blob

    def _began(self, entry: Entry) -> float:
        """The start of a call whose `command_sent` entry is missing, from the duration of its result."""
        took = entry.duration_ms
        if took is None or not 0 < took < float("inf"):
            return self._now
        return max(0.0, self._now - took / 1000)

    def _frame(self, entry: Entry, at: float, blob: str | None) -> Frame:
        return Frame(
            seq=entry.seq,
            at=at,
            time=entry.time,
            tool=entry.tool or "",
            device=entry.device or "",
            blob=blob,
            call_id=entry.call_id,
            mark=_acted_on(self._prepared.get(entry.call_id or "", {}), entry.body),
            ended=_ended(entry),
        )

    def _sent_frame(self, entry: Entry, at: float) -> None:
        if self._kind_of(entry) == "action":
            self._frames.append(self._frame(entry, at, None))

    def _kind_of(self, entry: Entry) -> SpanKind:
        prepared = self._prepared.get(entry.call_id or "", {})
        tool_type = text_in(prepared, "tool_type")
        if tool_type in ("action", "data_collection"):
            return "action" if tool_type == "action" else "observation"
        reading = text_in(inside(entry.body, "result"), "basis") == "read_response"
        return "observation" if reading or entry.tool in _READING_TOOLS or _pictures_of(entry) else "action"

    def _call_span(self, entry: Entry, start: float, end: float | None, kind: SpanKind) -> Span:
        return Span(
            lane=entry.device or "",
            start=start,
            end=end,
            kind=kind,
            label=entry.tool or "command",
            seq=entry.seq,
            call_id=entry.call_id,
        )

    def _wait_span(self, entry: Entry, start: float, end: float | None, lane: str) -> Span:
        return Span(
            lane=lane,
            start=start,
            end=end,
            kind="approval_wait",
            label=entry.tool or "command",
            seq=entry.seq,
            call_id=entry.call_id,
        )

    def _decided(self, entry: Entry) -> None:
        asked = self._asked.pop(_approval_key(entry), None)
        lane = entry.actor if entry.actor in self._actors else _asker_lane(asked[0]) if asked else ""
        lane = lane or entry.device or ""
        if not lane:
            return
        if asked:
            self._spans.append(self._wait_span(asked[0], asked[1], self._now, lane))
        tool = entry.tool or "command"
        match entry.kind:
            case Kind.APPROVAL_GIVEN:
                mark = Mark(lane=lane, at=self._now, kind="approved", label=f"Approved {tool}", seq=entry.seq)
            case Kind.GRANT_USED:
                mark = Mark(lane=lane, at=self._now, kind="approved", label=f"Granted {tool}", seq=entry.seq)
            case Kind.APPROVAL_DENIED:
                mark = Mark(lane=lane, at=self._now, kind="denied", label=f"Denied {tool}", seq=entry.seq)
            case _:
                word = "Withdrawn" if text_in(entry.body, "state") == "withdrawn" else "Expired"
                mark = Mark(lane=lane, at=self._now, kind="expired", label=f"{word}: {tool}", seq=entry.seq)
        self._marks.append(mark)

    def _found(self, device: str | None) -> None:
        if device is not None:
            entry, at = self._lost.pop(device)
            self._spans.append(_lost_span(device, entry, at, self._now))

    def _service_started(self) -> None:
        """End the calls and requests of the earlier service process: their answers can no longer arrive."""
        for entry, at in self._sent.values():
            self._spans.append(self._call_span(entry, at, self._now, "unknown"))
            self._sent_frame(entry, at)
        for entry, at in self._asked.values():
            self._spans.append(self._wait_span(entry, at, self._now, _asker_lane(entry)))
        self._sent.clear()
        self._asked.clear()


def _ended(entry: Entry) -> Literal["", "failed", "unknown"]:
    """How a command ended without success; empty for success and for entries that are not results."""
    if entry.kind is not Kind.RESULT_RECORDED:
        return ""
    if entry.verdict == "unknown":
        return "unknown"
    return "failed" if entry.status == "failure" else ""


def _lost_span(device: str, entry: Entry, start: float, end: float | None) -> Span:
    label = text_in(entry.body, "reason") or "lost"
    return Span(lane=device, start=start, end=end, kind="lost", label=label, seq=entry.seq)


def _asker_lane(entry: Entry) -> str:
    return entry.actor if entry.actor.startswith(_ASKERS) else entry.device or entry.actor


def _approval_key(entry: Entry) -> str:
    return text_in(entry.body, "approval") or f"call:{entry.call_id}"


def _instant(text: str) -> datetime | None:
    try:
        when = datetime.fromisoformat(text)
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


_BESIDE = frozenset({"before", "after"})


def _pictures_of(entry: Entry) -> list[str]:
    """The pictures of a result in its order; pictures taken before or after it have their own entries."""
    if entry.kind is not Kind.RESULT_RECORDED:
        return []
    evidence = inside(entry.body, "result").get("evidence")
    if isinstance(evidence, list):
        named = [one for one in evidence if isinstance(one, dict)]
        own = [one for one in named if text_in(one, "what") not in _BESIDE]
        return [text_in(one, "blob") for one in own if _is_picture(one)]
    # A truncated body still has its blobs; a screenshot's first blob is the picture.
    return entry.blobs[:1] if entry.tool == SCREENSHOT else []


def _is_picture(evidence: Mapping[str, Any]) -> bool:
    return text_in(evidence, "media_type").startswith("image/") and bool(text_in(evidence, "blob"))


def _acted_on(prepared: Mapping[str, Any], body: Mapping[str, Any]) -> tuple[int, int] | None:
    """The point that an action aimed at: its own coordinates, or the middle of the box in its result."""
    parameters = inside(prepared, "parameters")
    point = _point(parameters.get("x"), parameters.get("y"))
    if point or text_in(prepared, "tool_type") == "data_collection":
        return point if text_in(prepared, "tool_type") == "action" else None
    box = inside(inside(inside(body, "result"), "result"), "box")
    size = _point(box.get("width"), box.get("height"))
    corner = _point(box.get("x"), box.get("y"))
    return (corner[0] + size[0] // 2, corner[1] + size[1] // 2) if corner and size else None


def _point(x: object, y: object) -> tuple[int, int] | None:
    if isinstance(x, int) and isinstance(y, int) and 0 <= x < 1_000_000 and 0 <= y < 1_000_000:
        return (int(x), int(y))
    return None

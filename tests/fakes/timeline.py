"""Lays entries of the fake journal out as a timeline, the way the service does for replay."""

from __future__ import annotations

from datetime import datetime

from core.audit.entries import Entry, Kind
from core.replay.models import Frame, Mark, Moment, Span, Timeline
from tests.fakes.journal import FakeJournal

_MARKS = {
    Kind.APPROVAL_GIVEN: "approved",
    Kind.APPROVAL_DENIED: "denied",
    Kind.APPROVAL_EXPIRED: "expired",
}


def make_timeline(journal: FakeJournal, run: str | None, around: int | None) -> Timeline:
    """A run, or the sixty entries around one entry."""
    if run is not None:
        chosen = [one for one in journal.entries if one.run == run]
        title = run
    else:
        middle = around or journal.status.entries
        chosen = [one for one in journal.entries if abs(one.seq - middle) <= 30]
        title = f"around entry {middle:,}"
    if not chosen:
        return Timeline(
            title=title,
            run=run,
            start="",
            end="",
            length_s=0.0,
            lanes=[],
            moments=[],
            spans=[],
            marks=[],
            frames=[],
        )
    zero = datetime.fromisoformat(chosen[0].time)

    def at(entry: Entry) -> float:
        return (datetime.fromisoformat(entry.time) - zero).total_seconds()

    lanes: list[str] = []
    for one in chosen:
        lane = one.device or one.actor
        if lane not in lanes:
            lanes.append(lane)
    return Timeline(
        title=title,
        run=run,
        start=chosen[0].time,
        end=chosen[-1].time,
        length_s=at(chosen[-1]),
        lanes=lanes,
        moments=[_moment(one, at(one)) for one in chosen],
        spans=[_span(one, at(one)) for one in chosen if one.kind is Kind.RESULT_RECORDED and one.device],
        marks=[
            Mark(
                lane=one.device or one.actor, at=at(one), kind=_MARKS[one.kind], label=one.actor, seq=one.seq
            )
            for one in chosen
            if one.kind in _MARKS
        ],
        frames=[
            Frame(
                seq=one.seq,
                at=at(one),
                time=one.time,
                tool=one.tool or "",
                device=one.device or "",
                blob=one.blobs[0] if one.blobs else None,
                call_id=one.call_id,
            )
            for one in chosen
            if one.kind is Kind.RESULT_RECORDED
        ],
    )


def _moment(one: Entry, at: float) -> Moment:
    return Moment(
        seq=one.seq,
        at=at,
        time=one.time,
        kind=one.kind.value,
        title=one.kind.value.replace("_", " "),
        actor=one.actor,
        device=one.device,
        tool=one.tool,
        call_id=one.call_id,
        status=one.status,
        verdict=one.verdict,
        picture=one.blobs[0] if one.blobs else None,
    )


def _span(one: Entry, at: float) -> Span:
    took = (one.duration_ms or 200.0) / 1000
    kind = {"unknown": "unknown", "failure": "failed"}.get(str(one.verdict or one.status), "action")
    if one.verdict == "confirmed":
        kind = "observation"
    return Span(
        lane=str(one.device),
        start=max(0.0, at - took),
        end=at,
        kind=kind,
        label=one.tool or "",
        seq=one.seq,
        call_id=one.call_id,
    )

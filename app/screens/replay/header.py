"""What the head of the screen says about what is replayed."""

from __future__ import annotations

from dataclasses import dataclass

from app.screens.targets import OpenReplay
from app.text import clock, one_line
from core.batch.models import RunSummary
from core.replay.models import Timeline


@dataclass(frozen=True, slots=True)
class Header:
    """Name, facts, and the devices that are in it."""

    name: str
    facts: str
    devices: tuple[str, ...]


def heading_of(target: OpenReplay | None, run: RunSummary | None, timeline: Timeline | None) -> Header:
    """The heading of a run, or of the entries around one; as much of it as is known."""
    name = run.name if run else timeline.title if timeline else ""
    parts: list[str] = []
    if target is not None and target.run:
        parts.append(one_line(target.run))
    if timeline is not None and timeline.start:
        parts.append(_day_words(timeline.start))
    devices = tuple(run.devices) if run else _devices_of(timeline)
    if devices:
        parts.append(", ".join(map(one_line, devices)) if len(devices) <= 2 else f"{len(devices)} devices")
    return Header(one_line(name) or "Replay", ", ".join(parts), devices)


def _day_words(stamp: str) -> str:
    try:
        words = clock(stamp, seconds=False)
    except ValueError:
        return one_line(stamp)
    return words if " " in words else f"today {words}"


def _devices_of(timeline: Timeline | None) -> tuple[str, ...]:
    if timeline is None:
        return ()
    return tuple(dict.fromkeys(moment.device for moment in timeline.moments if moment.device))

"""Lays entries of the fake journal out as a timeline, with the service's own code."""

from __future__ import annotations

from core.replay.models import Timeline
from core.replay.timeline import build_timeline
from tests.fakes.journal import FakeJournal

AROUND = 30


def make_timeline(journal: FakeJournal, run: str | None, around: int | None, name: str = "") -> Timeline:
    """A run, or the sixty entries around one entry."""
    if run is not None:
        chosen = [one for one in journal.entries if one.run == run]
        return build_timeline(chosen, name or run, run)
    middle = around or journal.status.entries
    chosen = [one for one in journal.entries if abs(one.seq - middle) <= AROUND]
    return build_timeline(chosen, f"Around entry {middle:,}")

"""A timeline, made ready to step through: which picture was known at each moment, and what changed where.

Plain data. Built once for each timeline; every question of a step is answered by a look-up or a bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

from core.replay.models import Frame, Moment, Timeline

LONGEST_GAP_S = 2.0
SHORTEST_STEP_S = 0.03
NO_HITS: Mapping[str, frozenset[int]] = {}


class TimelineIndex:
    """The moments of one timeline in order, and the frames behind them."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.moments: list[Moment] = timeline.moments
        self.frames: list[Frame] = timeline.frames
        self.ats = [moment.at for moment in self.moments]
        self.seqs = [moment.seq for moment in self.moments]
        self._frame_seqs = [frame.seq for frame in self.frames]
        self._of_device: dict[str, list[int]] = {}
        self._any_picture: list[int] = []
        self.previous: list[int | None] = self._link_pictures()
        self._marks = {frame.call_id: frame.mark for frame in self.frames if frame.call_id and frame.mark}
        self.changes = self._find_changes()
        # With one device everything is about it; with several each frame says whose it is.
        self.many_devices = len({frame.device for frame in self.frames}) > 1
        self._texts: list[str] | None = None

    def __len__(self) -> int:
        return len(self.moments)

    def _link_pictures(self) -> list[int | None]:
        """For each frame the one before it that shows the same device, None at the first."""
        previous: list[int | None] = []
        for number, frame in enumerate(self.frames):
            shown = self._of_device.setdefault(frame.device, [])
            previous.append(shown[-1] if shown else None)
            if frame.blob:
                shown.append(number)
                self._any_picture.append(number)
        return previous

    def _find_changes(self) -> list[int]:
        """Moments at which a device's picture became another one."""
        found: dict[int, None] = {}
        for number, frame in enumerate(self.frames):
            before = self.previous[number]
            if frame.blob and before is not None and self.frames[before].blob != frame.blob:
                found[self.at_seq(frame.seq)] = None
        return list(found)

    # Places

    def at_seq(self, seq: int) -> int:
        """The moment of an entry, or the last one before it; 0 when it lies before all."""
        return max(0, bisect_right(self.seqs, seq) - 1)

    def at_time(self, seconds: float) -> int:
        """The last moment that is not after this time."""
        return max(0, bisect_right(self.ats, seconds) - 1)

    def frame_at(self, place: int) -> int | None:
        """The last frame of the strip that is not after this moment."""
        number = bisect_right(self._frame_seqs, self.seqs[place]) - 1
        return number if number >= 0 else None

    def next_change(self, place: int, step: int) -> int | None:
        """The next moment that changed a picture, or the one before with -1."""
        if step > 0:
            at = bisect_right(self.changes, place)
            return self.changes[at] if at < len(self.changes) else None
        at = bisect_left(self.changes, place) - 1
        return self.changes[at] if at >= 0 else None

    # Pictures

    def known_at(self, place: int) -> tuple[Frame | None, Frame | None]:
        """The picture before, and the newest picture, of the moment's device as they were known then.

        An entry that is about no device shows the device of the newest picture.
        """
        moment = self.moments[place]
        mine = self._of_device.get(moment.device, []) if moment.device else []
        if not moment.device:
            newest = self._last(self._any_picture, moment.seq)
            mine = self._of_device[self.frames[newest].device] if newest is not None else []
        count = self._count(mine, moment.seq)
        after = self.frames[mine[count - 1]] if count else None
        before = self.frames[mine[count - 2]] if count > 1 else None
        return before, after

    def _count(self, numbers: list[int], seq: int) -> int:
        return bisect_right(numbers, seq, key=lambda number: self.frames[number].seq)

    def _last(self, numbers: list[int], seq: int) -> int | None:
        count = self._count(numbers, seq)
        return numbers[count - 1] if count else None

    def pair_of(self, number: int) -> tuple[str, str] | None:
        """The pictures to compare for a frame: the one before it of its device, and its own."""
        before, after = self.previous[number], self.frames[number].blob
        if before is None or not after:
            return None
        blob = self.frames[before].blob
        return (blob, after) if blob and blob != after else None

    def mark_at(self, place: int) -> tuple[int, int] | None:
        """Where the moment's command acted, in pixels of the picture."""
        return self._marks.get(self.moments[place].call_id or "")

    # Words

    def search(self, words: str, in_results: Mapping[str, frozenset[int]] = NO_HITS) -> list[int]:
        """The moments whose title, tool, actor, device, kind or outcome, or whose result, hold every word.

        `in_results` has for each word the numbers of the entries whose result holds it.
        """
        wanted = words.casefold().split()
        if not wanted:
            return []
        if self._texts is None:
            self._texts = [_text_of(moment) for moment in self.moments]
        hits = [(word, in_results.get(word, frozenset())) for word in wanted]
        return [
            place
            for place, text in enumerate(self._texts)
            if all(word in text or self.seqs[place] in entries for word, entries in hits)
        ]

    def lanes_of(self, places: list[int]) -> frozenset[str]:
        """The lanes that these moments are on: their devices, and people or agents that did something."""
        lanes = set(self.timeline.lanes)
        moments = [self.moments[place] for place in places]
        named = {name for moment in moments for name in (moment.device, moment.actor) if name}
        return frozenset(named & lanes)

    def delay(self, place: int, speed: float, skip_idle: bool) -> float:
        """Seconds of playing from a moment to the next one."""
        gap = self.ats[place + 1] - self.ats[place]
        if skip_idle:
            gap = min(gap, LONGEST_GAP_S)
        return max(SHORTEST_STEP_S, gap / speed)


def _text_of(moment: Moment) -> str:
    kind = moment.kind.replace("_", " ")
    # What lanes and frames call failed is `failure` in the journal; either word finds it.
    ended = "failed" if moment.status == "failure" else ""
    parts = (
        moment.title, moment.tool, moment.actor, moment.device, kind, moment.kind, moment.verdict,
        moment.status, ended,
    )  # fmt: skip
    return " ".join(part for part in parts if part).casefold()

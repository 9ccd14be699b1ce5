"""Models of a time line, which is a run or an excerpt of the journal. Times are seconds since `start`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from core.models.frozen import FrozenModel


class Moment(FrozenModel):
    """A journal entry as a step of the replay. `picture` is the blob shown at this moment, or None."""

    seq: int
    at: float
    time: str
    kind: str
    title: str
    actor: str
    device: str | None = None
    tool: str | None = None
    call_id: str | None = None
    status: str | None = None
    verdict: str | None = None
    picture: str | None = None


SpanKind = Literal["action", "observation", "approval_wait", "failed", "unknown", "lost"]


class Span(FrozenModel):
    """A period on a lane. `end` is None while the period has not ended."""

    lane: str
    start: float
    end: float | None
    kind: SpanKind
    label: str
    seq: int
    call_id: str | None = None


class Mark(FrozenModel):
    """A decision on an operator's lane."""

    lane: str
    at: float
    kind: Literal["approved", "denied", "expired"]
    label: str
    seq: int


class Frame(FrozenModel):
    """A picture in the film strip. `mark` is the point (x, y) in picture pixels that an action aimed at.

    `ended` says how a command without success ended; such a frame may have no picture.
    """

    seq: int
    at: float
    time: str
    tool: str
    device: str
    blob: str | None
    call_id: str | None = None
    mark: tuple[int, int] | None = None
    ended: Literal["", "failed", "unknown"] = ""


class Timeline(FrozenModel):
    """A run, or an excerpt of the journal, for stepping through."""

    title: str
    run: str | None
    start: str
    end: str
    length_s: float
    lanes: list[str]
    moments: list[Moment]
    spans: list[Span]
    marks: list[Mark]
    frames: list[Frame]
    truncated: bool = Field(default=False)


MOST_WORDS = 16
"""Maximum number of words that are looked for in results at once."""

LONGEST_WORD = 200
"""Maximum number of characters of such a word."""


class ContentHits(FrozenModel):
    """For each word, in the order asked, the numbers of the entries whose result contains it, ascending.

    `not_searched` counts stored texts that are too large or cannot be read.
    """

    numbers: list[list[int]]
    not_searched: int

"""What the journal answers with, as plain models that cross the control socket unchanged."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from core.audit.entries import Entry


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class JournalState(_Answer):
    """Whether the journal can be written, and how much is in it.

    `queued` entries are not durable yet; `recovered` ones were taken from the spool when it was opened.
    """

    writable: bool
    error: str | None
    entries: int
    queued: int
    recovered: int


class Page(_Answer):
    """One page of a query's answer.

    `count` is how many entries match, exact when `count_exact`, else at least that many. `complete` is False
    when the search ran out of time: `entries` then holds what was found down to (or up to) `searched_to`.
    `next_before` and `next_after` fetch the page after this one, in the direction asked for.
    """

    entries: list[Entry]
    count: int
    count_exact: bool
    complete: bool
    searched_to: int | None
    next_before: int | None
    next_after: int | None
    took_ms: float


class Facet(_Answer):
    """A value that a field takes, and how many entries have it (`exact`, or at least that many)."""

    value: str
    count: int
    exact: bool


class Bucket(_Answer):
    """How many entries match between two moments (ISO 8601 UTC; only the last bucket includes its `end`).

    `failed` and `unknown` of them have the status `failure` or the verdict `unknown`.
    """

    start: str
    end: str
    count: int
    failed: int = 0
    unknown: int = 0


class InclusionProof(_Answer):
    """That one entry is in the tree a checkpoint signs. Hashes are lower-case hexadecimal.

    `entry` is the canonical text whose leaf hash is `leaf`.
    """

    seq: int
    entry: str
    leaf: str
    path: list[str]
    root: str
    size: int
    checkpoint: str


class VerifyReport(_Answer):
    """What a verification found. `first_bad` is the number of the first entry that is not as written.

    `checkpoint` is the newest one, a C2SP signed note over all entries, when all is well; kept elsewhere, it
    shows later whether the journal still has them.
    """

    ok: bool
    entries: int
    blobs: int
    checkpoints: int
    first_bad: int | None
    problem: str | None
    took_s: float
    root: str
    checkpoint: str
    checked_at: str

"""Models of the journal's answers, sent unchanged over the control socket."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from core.audit.entries import Entry


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class JournalState(_Answer):
    """Whether the journal can be written, and how many entries it has.

    `queued` counts the groups of entries that are not committed yet; `recovered` counts the entries that were
    taken from the spool when the journal was opened.
    """

    writable: bool
    error: str | None
    entries: int
    queued: int
    recovered: int


class Page(_Answer):
    """One page of a query's answer.

    `count` is the number of matching entries if `count_exact`, else a lower bound. `complete` is False when
    the search ran out of time: `entries` then has the matches down to (or up to) `searched_to`.
    `next_before` and `next_after` request the following page in the same direction.
    """

    entries: list[Entry]
    count: int
    count_exact: bool
    complete: bool
    searched_to: int | None
    next_before: int | None
    next_after: int | None
    took_ms: float


class NumberPage(_Answer):
    """Numbers of entries, highest first. `next_before` requests the next page; None at the end."""

    numbers: list[int]
    next_before: int | None


class ExportCursor(_Answer):
    """Where an export goes on: after the entry `after`, up to `through`.

    `through` was the newest entry when the export began, and `at` the moment, so that what is written
    meanwhile is not in it and ages in the query (`since:1h`) keep their meaning.
    """

    after: int = Field(ge=0)
    through: int = Field(ge=0)
    at: str


class ExportPage(_Answer):
    """Matching entries, oldest first, as the canonical texts whose hashes are in the journal's tree.

    `through` is the cursor's; `checkpoint` is the journal's signed head, which on the first page is over
    `through` entries. `next` requests the following page; None at the end.
    """

    entries: list[str]
    through: int
    checkpoint: str
    next: ExportCursor | None


class Facet(_Answer):
    """A value of a field, and the number of entries that have it (counted up to `search.COUNT_BOUND`)."""

    value: str
    count: int


class Bucket(_Answer):
    """The number of matching entries between two moments (ISO 8601 UTC; only the last bucket includes `end`).

    `failed` of them have the status `failure`, `unknown` of them the verdict `unknown`.
    """

    start: str
    end: str
    count: int
    failed: int = 0
    unknown: int = 0


class InclusionProof(_Answer):
    """A proof (RFC 6962) that an entry is in the tree that a checkpoint, a C2SP signed note, signs.

    `entry` is the canonical text whose leaf hash is `leaf`; `path` holds the sibling hashes from the leaf up.
    Hashes are lower-case hexadecimal.
    """

    seq: int
    entry: str
    leaf: str
    path: list[str]
    root: str
    size: int
    checkpoint: str


class VerifyReport(_Answer):
    """The result of a verification; `problem` is empty if the journal is intact.

    `first_bad` is the number of the first entry that does not verify.

    If the journal is intact, `checkpoint` is its newest checkpoint, a C2SP signed note over all entries. A
    copy stored elsewhere shows later whether the journal still has these entries.
    """

    ok: bool
    entries: int
    blobs: int
    checkpoints: int
    first_bad: int | None = None
    problem: str = ""
    took_s: float = 0.0
    checked_at: str = ""
    root: str = ""
    checkpoint: str = ""

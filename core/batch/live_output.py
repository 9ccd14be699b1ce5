"""The output of a running command: kept while it comes, and read back from the journal afterwards. Pure.

A position counts the characters that the device has sent, of both streams, in the order of their arrival. The
journal has the first `KEPT_WHOLE` characters of a call without a gap, and after them the end of what came
between two entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from core.audit.entries import Entry, Kind
from core.audit.events import ProgressReported
from core.batch.models import OutputChunk, OutputPiece, OutputStream

# In characters, as all sizes here. The output of a result may be ten times as long.
KEPT_WHOLE = 1024 * 1024
# Of what comes after them, in each entry.
KEPT_OF_THE_REST = 2_000
# In memory for clients that follow, for each running call; and how much waits for an entry at most.
FOLLOWED = 64 * 1024
MOST_UNWRITTEN = 32 * 1024
CHUNK = 256 * 1024


@dataclass(slots=True)
class LiveOutput:
    """The last output of a running call, and what of it is not in the journal yet."""

    size: int = 0
    _pieces: deque[OutputPiece] = field(default_factory=deque)
    _followed: int = 0
    _unwritten: list[OutputPiece] = field(default_factory=list)
    unwritten_size: int = 0

    def add(self, stream: OutputStream, text: str, time: str) -> None:
        """Add output that has arrived."""
        if not text:
            return
        piece = OutputPiece(at=self.size, stream=stream, text=text, time=time)
        self.size = piece.end
        self._pieces.append(piece)
        self._followed += len(text)
        while self._followed > FOLLOWED and len(self._pieces) > 1:
            self._followed -= len(self._pieces.popleft().text)
        self._unwritten.append(piece)
        self.unwritten_size += len(text)

    def take_unwritten(self) -> list[OutputPiece]:
        """The output for the journal's next entry, which counts as written from now on."""
        pieces, self._unwritten, self.unwritten_size = self._unwritten, [], 0
        return pieces if self.size <= KEPT_WHOLE else list(_kept_of_the_rest(pieces))

    def drop_unwritten(self) -> None:
        """Of output beyond `KEPT_WHOLE`, keep only what an entry will hold."""
        self._unwritten = self.take_unwritten()
        self.unwritten_size = sum(len(piece.text) for piece in self._unwritten)

    def chunk(self, after: int) -> OutputChunk | None:
        """The output since `after`; None if its beginning is in the journal only."""
        if self._pieces and after < self._pieces[0].at:
            return None
        pieces = [piece.since(after) for piece in self._pieces if piece.end > after]
        return OutputChunk(pieces=pieces, next=max(after, self.size))


def _kept_of_the_rest(pieces: list[OutputPiece]) -> Iterator[OutputPiece]:
    """The kept part of output that reaches beyond `KEPT_WHOLE`: all up to there, and its end."""
    last = pieces[-1].end - KEPT_OF_THE_REST if pieces else 0
    for piece in pieces:
        if piece.at < KEPT_WHOLE and (whole := piece.text[: KEPT_WHOLE - piece.at]):
            yield piece.model_copy(update={"text": whole})
        if piece.end > max(last, KEPT_WHOLE):
            yield piece.since(max(last, KEPT_WHOLE))


def joined(pieces: list[OutputPiece]) -> dict[str, Any]:
    """Pieces without a gap as the fields `text` and `changes` of a journal entry."""
    text, changes = "", []
    for before, piece in zip([pieces[0], *pieces], pieces, strict=False):
        if piece.stream != before.stream:
            changes.append([len(text), piece.stream])
        text += piece.text
    return {"text": text, "changes": changes}


def without_gaps(pieces: Iterable[OutputPiece]) -> Iterator[list[OutputPiece]]:
    """The pieces in runs without a gap between them."""
    run: list[OutputPiece] = []
    for piece in pieces:
        if run and run[-1].end != piece.at:
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


def output_in(entries: Iterable[Entry]) -> Iterator[OutputPiece]:
    """The output in a call's entries, oldest first."""
    for entry in entries:
        event = ProgressReported.read(entry.body)
        if entry.kind is not Kind.PROGRESS_REPORTED or event.stream not in ("stdout", "stderr"):
            continue
        at = start = event.at
        stream: str = event.stream
        for offset, following in [*_changes_in(event), (len(event.text), "")]:
            if part := event.text[at - start : offset]:
                yield OutputPiece.model_validate(
                    {"at": at, "stream": stream, "text": part, "time": entry.time}
                )
            at, stream = start + offset, following


def _changes_in(event: ProgressReported) -> list[tuple[int, str]]:
    """Where the stream changes, as far as the body makes sense."""
    changes: list[tuple[int, str]] = []
    for change in event.changes:
        match change:
            case [int() as offset, "stdout" | "stderr" as stream] if offset >= (
                changes[-1][0] if changes else 0
            ):
                changes.append((min(offset, len(event.text)), stream))
    return changes


def chunk_of(pieces: Iterable[OutputPiece], after: int, ended: bool) -> OutputChunk:
    """One chunk of a call's output from a position on."""
    taken: list[OutputPiece] = []
    size, place = 0, after
    for piece in pieces:
        if piece.end <= after:
            continue
        if size >= CHUNK:
            return OutputChunk(pieces=taken, next=place, more=True)
        taken.append(piece.since(after))
        size += len(taken[-1].text)
        place = piece.end
    return OutputChunk(pieces=taken, next=place, ended=ended)

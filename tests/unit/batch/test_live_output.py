"""Output that comes while a command runs: nothing is lost or doubled between memory and journal."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.audit.entries import Entry
from core.audit.events import ProgressReported
from core.batch.live_output import (
    CHUNK,
    FOLLOWED,
    KEPT_OF_THE_REST,
    KEPT_WHOLE,
    LiveOutput,
    chunk_of,
    joined,
    output_in,
    without_gaps,
)
from core.batch.models import OutputPiece

PARTS = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text("ab\n", max_size=6)), max_size=20)


def entry(seq: int, **fields: Any) -> Entry:
    event = ProgressReported(seq=seq, **fields)
    return Entry(**event.entry("device:a", call_id="c").values(), seq=seq + 1, time=f"t{seq}")


def written(output: LiveOutput, seq: int) -> list[Entry]:
    """The entries that the progress log writes."""
    return [
        entry(seq, stream=part[0].stream, at=part[0].at, **joined(part))
        for part in without_gaps(output.take_unwritten())
    ]


def streams(pieces: list[OutputPiece]) -> str:
    """Each character with its stream."""
    return "".join(f"{piece.stream[3]}{sign}" for piece in pieces for sign in piece.text)


@given(PARTS, st.integers(0, 120), st.sets(st.integers(0, 20)))
def test_memory_and_journal_give_the_same_output_from_any_position(parts, after, entries_after):
    output, entries = LiveOutput(), []
    for number, (stream, text) in enumerate(parts):
        output.add(stream, text, "now")
        if number in entries_after:
            entries += written(output, number)
    entries += written(output, len(parts))
    whole = streams([OutputPiece(at=0, stream=stream, text=text) for stream, text in parts])
    live = output.chunk(after)
    assert live is not None
    assert streams(live.pieces) == whole[2 * after :]
    read = chunk_of(output_in(entries), after, ended=True)
    assert streams(read.pieces) == whole[2 * after :]
    assert (live.next, read.next) == (max(after, output.size), max(after, output.size))


def test_a_follower_that_lags_too_far_is_sent_to_the_journal():
    output = LiveOutput()
    for _ in range(20):
        output.add("stdout", "x" * (FOLLOWED // 10), "now")
    assert output.chunk(0) is None
    chunk = output.chunk(output.size - FOLLOWED // 10)
    assert chunk is not None
    assert len(chunk.text) == FOLLOWED // 10


def test_beyond_the_bound_the_end_of_each_stretch_is_kept_and_the_gap_can_be_seen():
    output = LiveOutput()
    output.add("stdout", "a" * (KEPT_WHOLE - 10), "now")
    entries = written(output, 1)
    output.add("stdout", "b" * 50_000, "now")
    entries += written(output, 2)
    output.add("stdout", "c" * 10, "now")
    entries += written(output, 3)
    pieces = list(output_in(entries))
    text = "".join(piece.text for piece in pieces)
    assert text == "a" * (KEPT_WHOLE - 10) + "b" * 10 + "b" * KEPT_OF_THE_REST + "c" * 10
    assert pieces[-1].end == output.size
    assert any(after.at > before.end for before, after in pairwise(pieces))


def test_output_that_waits_beyond_the_bound_takes_no_more_memory():
    output = LiveOutput()
    output.add("stdout", "a" * KEPT_WHOLE, "now")
    output.take_unwritten()
    for _ in range(100):
        output.add("stderr", "b" * 1_000, "now")
        output.drop_unwritten()
    assert output.unwritten_size == KEPT_OF_THE_REST
    [piece] = [one for one in output_in(written(output, 1)) if one.end == output.size]
    assert piece.stream == "stderr"


def test_a_long_output_is_read_in_chunks(monkeypatch):
    pieces = [OutputPiece(at=place * CHUNK, stream="stdout", text="x" * CHUNK) for place in range(3)]
    first = chunk_of(pieces, 0, ended=True)
    assert (first.more, first.ended, first.next) == (True, False, CHUNK)
    last = chunk_of(pieces, 2 * CHUNK, ended=True)
    assert (last.more, last.ended, last.next) == (False, True, 3 * CHUNK)


def test_a_body_that_makes_no_sense_is_read_as_far_as_it_does():
    odd = entry(1, stream="stdout", text="abc", changes=[[9, "stderr"], "x", [-1, "stdout"], [1, "pipe"]])
    assert "".join(piece.text for piece in output_in([odd])) == "abc"

"""Search in the results of a timeline: entries, stored texts, and their bounds."""

from __future__ import annotations

from typing import Any

import pytest

from core.audit.entries import Entry, Kind
from core.errors import BadInput, JournalCorrupt
from core.replay.models import LONGEST_WORD, MOST_WORDS
from core.replay.result_search import MOST_BYTES, MOST_TEXT_BYTES, find_in_results

TIME = "2026-03-04T05:06:07Z"


def result(seq: int, value: Any, kind: Kind = Kind.RESULT_RECORDED) -> Entry:
    return Entry(seq=seq, time=TIME, kind=kind, actor="service", body={"result": {"result": value}})


def stored(blob: str, size: int, media_type: str = "text/plain") -> dict[str, Any]:
    return {"blob": blob, "media_type": media_type, "size": size, "head": "beginning"}


class Blobs:
    def __init__(self, **blobs: bytes) -> None:
        self.blobs, self.read = blobs, list[str]()

    async def get(self, sha: str) -> bytes:
        self.read.append(sha)
        if sha not in self.blobs:
            raise JournalCorrupt(f"{sha} was changed.")
        return self.blobs[sha]


async def test_texts_of_results_are_searched_wherever_they_stand_and_nothing_else():
    entries = [
        result(1, {"stdout": "Kernel PANIC", "list": [{"deep": "straße"}]}),
        result(2, {"panic": "a key is no text"}),
        result(3, "panic", Kind.COMMAND_PREPARED),
        result(4, "no panic here", Kind.COMMAND_REFUSED),
    ]
    hits = await find_in_results(entries, ["panic", "STRASSE"], Blobs().get)
    assert hits.numbers == [[1, 4], [1]]
    assert hits.not_searched == 0


async def test_stored_texts_are_read_and_pictures_are_not():
    blobs = Blobs(t=b"deep inside", p=b"deep inside")
    entries = [result(1, {"stdout": stored("t", 11), "shot": stored("p", 11, "image/png")})]
    hits = await find_in_results(entries, ["inside", "beginning"], blobs.get)
    assert hits.numbers == [[1], [1]]
    assert blobs.read == ["t"]


async def test_a_text_that_is_too_large_or_damaged_is_counted_and_the_rest_is_searched():
    blobs = Blobs(ok=b"needle")
    entries = [
        result(1, stored("large", MOST_TEXT_BYTES + 1)),
        result(2, stored("damaged", 5)),
        result(3, stored("ok", 6)),
    ]
    hits = await find_in_results(entries, ["needle"], blobs.get)
    assert hits.numbers == [[3]]
    assert hits.not_searched == 2
    assert blobs.read == ["damaged", "ok"]


async def test_one_search_reads_a_bounded_number_of_bytes():
    count = 2 * MOST_BYTES // MOST_TEXT_BYTES
    blobs = Blobs(t=b"x")
    entries = [result(seq, stored("t", MOST_TEXT_BYTES)) for seq in range(1, count + 1)]
    hits = await find_in_results(entries, ["needle"], blobs.get)
    assert len(blobs.read) == MOST_BYTES // MOST_TEXT_BYTES
    assert hits.not_searched == count - len(blobs.read)


@pytest.mark.parametrize("words", [[""], ["x" * (LONGEST_WORD + 1)], ["x"] * (MOST_WORDS + 1)])
async def test_words_are_bounded(words: list[str]):
    with pytest.raises(BadInput):
        await find_in_results([], words, Blobs().get)

"""What keeps the loop moving while thousands of things change: reports in slices, ids."""

from __future__ import annotations

import asyncio
import os

from core.debounce import REPORTS_A_TURN, Coalescer
from core.ids import new_id
from core.schema_forms.validator import errors_for
from tests.fakes.patience import PATIENCE_S


async def test_many_changes_are_reported_over_several_turns_of_the_loop_and_each_once():
    reported: list[int] = []
    done = asyncio.Event()
    many = REPORTS_A_TURN * 4 + 1

    def report(key: int) -> None:
        reported.append(key)
        if len(reported) == many:
            done.set()

    coalescer: Coalescer[int] = Coalescer(report)
    for key in range(many):
        coalescer.mark(key)
        coalescer.mark(key)
    sizes: list[int] = []
    while not done.is_set():
        before = len(reported)
        await asyncio.sleep(0)
        sizes.append(len(reported) - before)
    assert reported == list(range(many))
    assert max(sizes) <= REPORTS_A_TURN
    coalescer.close()


async def test_what_changes_while_a_slice_is_reported_is_reported_again():
    told: list[str] = []
    again = asyncio.Event()

    def report(key: str) -> None:
        told.append(key)
        if told.count("a") == 1 and key == "a":
            coalescer.mark("a")
        elif key == "a":
            again.set()

    coalescer: Coalescer[str] = Coalescer(report)
    coalescer.mark("a")
    async with asyncio.timeout(PATIENCE_S):
        await again.wait()
    assert told == ["a", "a"]
    coalescer.close()


async def test_a_flush_reports_all_that_is_left_at_once_and_nothing_follows():
    told: list[int] = []
    begun = asyncio.Event()

    def report(key: int) -> None:
        told.append(key)
        begun.set()

    coalescer: Coalescer[int] = Coalescer(report)
    for key in range(REPORTS_A_TURN + 5):
        coalescer.mark(key)
    await begun.wait()
    coalescer.flush()
    assert sorted(told) == list(range(REPORTS_A_TURN + 5))
    coalescer.close()
    coalescer.mark(0)
    coalescer.flush()
    assert len(told) == REPORTS_A_TURN + 5


def test_what_was_found_fine_does_not_make_its_likes_fine():
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}, "l": {"type": "array"}},
        "additionalProperties": False,
    }
    for _ in range(2):
        assert errors_for(schema, {"n": 1, "b": True, "l": [1]}) == []
        assert errors_for(schema, {"n": True, "b": True, "l": [1]})
        assert errors_for(schema, {"n": 1, "b": 1, "l": [1]})
        assert errors_for(schema, {"n": 1, "b": True, "l": (1,)})
        assert errors_for(schema, {"n": "1", "b": True, "l": [1]})
        assert errors_for(schema, {"n": 1, "b": True, "l": [1], "m": 1})
        assert errors_for({**schema, "required": ["z"]}, {"n": 1, "b": True, "l": [1]})


def test_ids_are_different_also_in_a_forked_child():
    new_id()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writes, "".join(new_id() for _ in range(50)).encode())
        os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)
    with os.fdopen(reads) as pipe:
        said = pipe.read()
    theirs = {said[at : at + 26] for at in range(0, len(said), 26)}
    ours = {new_id() for _ in range(50)}
    assert len(theirs) == len(ours) == 50
    assert not {one[10:] for one in theirs} & {one[10:] for one in ours}

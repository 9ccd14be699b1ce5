"""Changes to the steps of a batch, as plain data: nothing is lost, doubled or torn from its group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.screens.batch.document import (
    BatchDocument,
    DraftStep,
    Steps,
    content_of,
    doubled,
    free_id,
    grouped,
    inserted,
    moved,
    moved_by_one,
    removed,
    tidy,
)
from app.screens.batch.document_io import EXAMPLES, examples
from core.batch.batch_file import batch_to_yaml, read_batch
from core.batch.models import STEP_ID
from core.errors import BadInput


@st.composite
def some_steps(draw: st.DrawFn) -> Steps:
    groups = draw(st.lists(st.integers(0, 2), min_size=1, max_size=9))
    return tidy(DraftStep(f"s{place}", "tool", group=group) for place, group in enumerate(groups))


def made(*groups: int) -> Steps:
    return tidy(DraftStep(f"s{place}", "tool", group=group) for place, group in enumerate(groups))


def shape(steps: Steps) -> str:
    """`a(bc)d` for a, b and c in parallel, d."""
    words, open_group = "", 0
    for one in steps:
        if one.group != open_group:
            words += ")" if open_group else ""
            words += "(" if one.group else ""
            open_group = one.group
        words += "abcdefghi"[int(one.id[1:])]
    return words + (")" if open_group else "")


@given(some_steps(), st.data())
def test_moving_keeps_every_step_and_the_order_of_those_that_move(steps: Steps, data: st.DataObject) -> None:
    keys = data.draw(st.sets(st.sampled_from([one.key for one in steps]), min_size=1))
    place = data.draw(st.integers(0, len(steps)))
    after = moved(steps, keys, place)
    assert sorted(one.key for one in after) == sorted(one.key for one in steps)
    assert [one.key for one in after if one.key in keys] == [one.key for one in steps if one.key in keys]
    assert [one.key for one in after if one.key not in keys] == [
        one.key for one in steps if one.key not in keys
    ]


@given(some_steps(), st.data())
def test_every_change_leaves_a_batch_that_is_read_back_the_same(steps: Steps, data: st.DataObject) -> None:
    keys = data.draw(st.sets(st.sampled_from([one.key for one in steps]), min_size=1))
    down = data.draw(st.booleans())
    for after in (
        moved_by_one(steps, keys, down),
        doubled(steps, keys)[0],
        grouped(steps, keys),
        inserted(steps, [DraftStep("new", "tool")], data.draw(st.integers(0, len(steps)))),
        removed(steps, keys) or steps,
    ):
        batch = BatchDocument(steps=after).as_batch()
        again = content_of(read_batch(batch_to_yaml(batch), "test"))
        assert again.as_batch() == batch
        assert shape_of_groups(again.steps) == shape_of_groups(after)


def shape_of_groups(steps: Steps) -> list[int]:
    return [one.group for one in tidy(steps)]


def test_a_step_goes_through_a_group_place_by_place() -> None:
    steps = made(0, 1, 1, 0)
    first = {steps[0].key}
    seen = []
    for _ in range(5):
        steps = moved_by_one(steps, first, True)
        seen.append(shape(steps))
    assert seen == ["(bac)d", "(bca)d", "(bc)ad", "(bc)da", "(bc)da"]


def test_grouping_one_step_takes_the_next_and_grouping_it_again_lets_go() -> None:
    steps = made(0, 0, 0)
    both = grouped(steps, {steps[0].key})
    assert shape(both) == "(ab)c"
    assert shape(grouped(both, {steps[0].key})) == "abc"
    assert shape(grouped(steps, {steps[2].key})) == "a(bc)"


def test_a_step_put_between_two_of_a_group_joins_it() -> None:
    steps = made(1, 1)
    after = inserted(steps, [DraftStep("s2", "tool")], 1)
    assert shape(after) == "(acb)"


@given(st.text(max_size=80), st.lists(st.text(max_size=5), max_size=4))
def test_a_free_id_is_an_id_and_free(wanted: str, taken: list[str]) -> None:
    import re

    steps = [DraftStep(one, "tool") for one in [*taken, wanted]]
    found = free_id(wanted, steps)
    assert re.fullmatch(STEP_ID, found)
    assert found not in [one.id for one in steps]


def test_an_id_that_stands_twice_is_named() -> None:
    with pytest.raises(BadInput, match="Two steps have the id 'x'"):
        BatchDocument(steps=(DraftStep("x", "tool"), DraftStep("x", "tool"))).as_batch()


def test_an_empty_batch_cannot_be_sent() -> None:
    with pytest.raises(BadInput, match="at least one step"):
        BatchDocument().as_batch()


def test_each_example_is_offered_and_is_the_same_batch_again() -> None:
    offered = examples()
    assert len(offered) == len(list(EXAMPLES.glob("*.yaml")))
    for _, batch in offered:
        assert content_of(batch).as_batch() == batch

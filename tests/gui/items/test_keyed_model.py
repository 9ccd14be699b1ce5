"""The model over objects by key: every update keeps Qt's rules, and tells no more than it changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QItemSelectionModel, QPersistentModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from app.items.keyed_model import ITEM_ROLE, KeyedModel, neighbours

DISPLAY = int(Qt.ItemDataRole.DisplayRole)


@dataclass(frozen=True)
class Thing:
    name: str
    weight: int | None = 0


def weight_of(thing: Thing) -> int | None:
    return thing.weight


def model_of(*things: Thing) -> KeyedModel[Thing]:
    model = KeyedModel[Thing](
        lambda thing: thing.name, {DISPLAY: lambda thing: f"{thing.name} {thing.weight}"}
    )
    model.sync(things)
    return model


def things_of(names: str) -> list[Thing]:
    return [Thing(name) for name in names]


class Told:
    """What a model tells its views."""

    def __init__(self, model: KeyedModel[Thing]) -> None:
        self.calls: list[tuple[str, int, int]] = []
        model.rowsInserted.connect(lambda _parent, first, last: self.calls.append(("insert", first, last)))
        model.rowsRemoved.connect(lambda _parent, first, last: self.calls.append(("remove", first, last)))
        model.layoutChanged.connect(lambda: self.calls.append(("move", 0, 0)))
        model.modelReset.connect(lambda: self.calls.append(("reset", 0, 0)))
        model.dataChanged.connect(
            lambda first, last, _roles: self.calls.append(("change", first.row(), last.row()))
        )


updates = st.lists(
    st.lists(
        st.builds(Thing, st.sampled_from("abcdefgh"), st.sampled_from([None, 0, 1, 2])),
        unique_by=lambda thing: thing.name,
    ),
    max_size=6,
)


@given(updates=updates, order=st.sampled_from(["given", "up", "down"]))
def test_any_updates_keep_qts_rules_and_every_view_finds_its_rows_again(
    qapp: object, updates: list[list[Thing]], order: str
) -> None:
    model = model_of()
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    if order != "given":
        model.set_order(weight_of, descending=order == "down")
    kept: dict[str, QPersistentModelIndex] = {}
    for wanted in updates:
        known = {thing.name: thing for thing in model.items}
        told = Told(model)
        model.sync(wanted)
        now = list(model.items)
        if order == "given":
            assert now == wanted
        else:
            values = [thing.weight for thing in now]
            full = [value for value in values if value is not None]
            assert Counter(now) == Counter(wanted)
            assert full == sorted(full, reverse=order == "down")
            assert values == full + [None] * (len(values) - len(full)), "what has no value comes last"
        assert [model.row_of(thing.name) for thing in now] == list(range(len(now)))
        # A persistent index is what selection, cursor and open editors are to Qt.
        for name, index in kept.items():
            assert index.row() == model.row_of(name)
        changed = {thing.name for thing in now if known.get(thing.name, thing) != thing}
        rows = {row for what, first, last in told.calls if what == "change" for row in range(first, last + 1)}
        assert rows == {model.row_of(name) for name in changed}
        inserted = sum(last - first + 1 for what, first, last in told.calls if what == "insert")
        removed = sum(last - first + 1 for what, first, last in told.calls if what == "remove")
        assert inserted == len({thing.name for thing in now} - known.keys())
        assert removed == len(known.keys() - {thing.name for thing in now})
        kept = {thing.name: QPersistentModelIndex(model.index_of(thing.name)) for thing in now}
    tester.deleteLater()


def test_an_update_is_told_in_as_few_steps_as_it_has_gaps(qapp: object) -> None:
    model = model_of(*things_of("abcdefgh"))
    told = Told(model)
    model.sync([Thing("x"), Thing("y"), *things_of("abgh"), Thing("z")])
    assert told.calls == [("remove", 2, 5), ("insert", 0, 1), ("insert", 6, 6)]
    told.calls.clear()
    model.sync([replace(thing, weight=1) if thing.name in "ab" else thing for thing in model.items])
    assert told.calls == [("change", 2, 3)]


def test_equal_objects_cause_nothing_and_are_taken_over(qapp: object) -> None:
    model = model_of(*things_of("abc"))
    told, again = Told(model), things_of("abc")
    model.sync(again)
    assert told.calls == []
    assert all(item is other for item, other in zip(model.items, again, strict=True))


def test_objects_that_move_are_one_new_layout_and_stay_chosen(qapp: object) -> None:
    model = model_of(*things_of("abcdef"))
    selection = QItemSelectionModel(model)
    selection.setCurrentIndex(model.index_of("e"), QItemSelectionModel.SelectionFlag.SelectCurrent)
    told = Told(model)
    model.sync(things_of("fedcba"))
    assert told.calls == [("move", 0, 0)]
    assert selection.currentIndex().data(ITEM_ROLE) == Thing("e")
    assert [index.row() for index in selection.selectedIndexes()] == [1]


def test_an_order_is_worked_out_once_for_each_version_of_an_object(qapp: object) -> None:
    model = model_of()
    asked: list[str] = []

    def order(thing: Thing) -> int | None:
        asked.append(thing.name)
        return thing.weight

    model.set_order(order)
    things = [Thing(name, place) for place, name in enumerate("dcba")]
    for _ in range(3):
        model.sync(things)
    assert asked == list("dcba")
    things[1] = Thing("c", 9)
    model.sync(things)
    assert asked == list("dcbac")
    assert [thing.name for thing in model.items] == list("dbac")


def test_nothing_is_rendered_before_qt_asks_for_it(qapp: object) -> None:
    asked: list[str] = []
    model = KeyedModel[Thing](lambda thing: thing.name, {DISPLAY: lambda thing: asked.append(thing.name)})
    model.sync(things_of("abcdefgh"))
    assert asked == []
    model.index(2, 0).data()
    assert asked == ["c"]


def test_refresh_has_the_named_rows_read_again(qapp: object) -> None:
    model = model_of(*things_of("abcd"))
    told = Told(model)
    model.refresh(["d", "b", "c", "not here"])
    assert told.calls == [("change", 1, 3)]


def test_two_objects_with_one_key_are_refused_and_nothing_changes(qapp: object) -> None:
    model = model_of(*things_of("ab"))
    with pytest.raises(ValueError, match="different keys"):
        model.sync(things_of("aa"))
    assert list(model.items) == things_of("ab")


def test_a_reset_drops_the_cursor_and_takes_the_order(qtbot: QtBot) -> None:
    model = model_of(*things_of("ab"))
    selection = QItemSelectionModel(model)
    selection.setCurrentIndex(model.index_of("a"), QItemSelectionModel.SelectionFlag.SelectCurrent)
    model.set_order(weight_of)
    with qtbot.waitSignal(model.modelReset):
        model.reset([Thing("a", 2), Thing("b", 1)])
    assert not selection.currentIndex().isValid()
    assert [thing.name for thing in model.items] == ["b", "a"]


@given(st.sets(st.integers(0, 40)))
def test_neighbours_cover_each_number_once_and_never_touch(numbers: set[int]) -> None:
    spans = list(neighbours(sorted(numbers)))
    assert [number for first, last in spans for number in range(first, last + 1)] == sorted(numbers)
    assert all(later[0] > earlier[1] + 1 for earlier, later in pairwise(spans))

"""The JSON tree: what a row says, copying, searching, folding, and that size does not matter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.theme.theme import Theme
from app.widgets.json_model import GROUP, JsonModel
from app.widgets.json_view import JsonView, fold, size_words
from tests.fakes.window import apply_to_parts
from tests.fakes.work import most_calls


@pytest.fixture(scope="module", autouse=True)
def _themed(qapp: QApplication) -> Theme:
    """One theme for this file: nothing in it switches."""
    theme = Theme("dark", "comfortable", reduced_motion=True, parent=qapp)
    apply_to_parts(theme, qapp)
    return theme


FATAL = QAbstractItemModelTester.FailureReportingMode.Fatal

VALUE: dict[str, Any] = {
    "status": "success",
    "result": {"clicked": True, "box": [980, 665, 170, 40], "a.b": [{"c": None}]},
    "evidence": [{"blob": "aa", "media_type": "image/png"}, {"type": "image", "data": "…"}],
    "stdout": "line\n" * 500,
    "empty": [],
}


@pytest.fixture
def view(qtbot: QtBot) -> JsonView:
    view = JsonView()
    qtbot.addWidget(view)
    view.resize(380, 420)
    view.set_value(VALUE)
    view.show()
    return view


def words(view: JsonView, *path: str | int) -> str:
    model = view.json_model()
    return str(model.data(model.index_of(path)))


def test_rows_say_name_and_value_or_how_much_is_below(view: JsonView) -> None:
    assert words(view, "status") == 'status: "success"'
    assert words(view, "result") == "result: {3}"
    assert words(view, "result", "box") == "box: [980, 665, 170, 40]"
    assert words(view, "evidence") == "evidence: [2 pictures]"
    assert words(view, "empty") == "empty: [0]"


def test_path_and_value_are_copied(view: JsonView) -> None:
    view.setCurrentIndex(view.json_model().index_of(("result", "a.b", 0, "c")))
    view.copy_path()
    assert QGuiApplication.clipboard().text() == 'result["a.b"][0].c'
    view.setCurrentIndex(view.json_model().index_of(("stdout",)))
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "line\n" * 500


def test_a_long_text_is_folded_to_three_lines_and_unfolds_by_enter(view: JsonView) -> None:
    index = view.json_model().index_of(("stdout",))
    node = view.json_model().node(index)
    lines, rest = view.lines_of(node)
    assert len(lines) == 3
    assert size_words(rest) == "2.5 kB"
    view.setCurrentIndex(index)
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert len(view.lines_of(node)[0]) == 400
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert len(view.lines_of(node)[0]) == 3


def test_search_opens_what_it_finds_and_goes_around(view: JsonView) -> None:
    assert view.search("C") > 1
    assert view.search("665") == 0 or view.currentIndex().isValid()
    assert view.search("clicked") == 1
    assert view.json_model().path_words(view.currentIndex()) == "result.clicked"
    assert view.isExpanded(view.json_model().index_of(("result",)))
    assert view.search("nowhere at all") == 0


def test_arrow_keys_open_and_close(view: JsonView) -> None:
    index = view.json_model().index_of(("evidence",))
    view.setCurrentIndex(index)
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.isExpanded(index)
    QTest.keyClick(view, Qt.Key.Key_Left)
    assert not view.isExpanded(index)


def test_a_hundred_thousand_values_open_at_once_and_make_few_nodes(view: JsonView) -> None:
    model = view.json_model()
    with most_calls(120_000):
        view.set_value({"flat": list(range(100_000)), "texts": ["a\nb\nc\nd\ne"] * 100_000})
        for name in ("flat", "texts"):
            view.expand(model.index_of((name,)))
            view.scrollToBottom()
            view.grab()
    assert model.made < 2_000
    deep = model.index_of(("flat", 77_777))
    assert model.data(deep) == "77777: 77777"
    assert model.path_words(deep) == "flat[77777]"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    )
)
def test_the_model_keeps_qts_rules_for_any_value(qapp: Any, value: Any) -> None:
    model = JsonModel()
    tester = QAbstractItemModelTester(model, FATAL)
    model.set_value(value)
    stack = [model.index(row, 0) for row in range(model.rowCount())]
    while stack:
        index = stack.pop()
        path = model.node(index).path
        assert not path or model.index_of(path) == index
        assert isinstance(model.data(index), str)
        stack += [model.index(row, 0, index) for row in range(model.rowCount(index))]
    del tester


@pytest.mark.parametrize("size", [GROUP, GROUP + 1, GROUP * GROUP + 1])
def test_groups_hold_every_item_once(qapp: Any, size: int) -> None:
    model = JsonModel()
    # Qt's tester looks at every row there is, which is what groups are there to avoid.
    tester = QAbstractItemModelTester(model, FATAL) if size < 1_000 else None
    model.set_value(list(range(size)))
    for at in {0, 1, GROUP - 1, size // 2, size - 1}:
        assert model.node(model.index_of((at,))).value == at
    assert model.rowCount() <= GROUP
    del tester


@pytest.mark.parametrize(
    ("text", "lines", "rest"),
    [
        ("", [""], 0),
        ("ab", ["ab"], 0),
        ("abcdef", ["abc", "def"], 0),
        ("a\nb\nc", ["a", "b"], 1),
        ("abc\n", ["abc", ""], 0),
    ],
)
def test_folding_wraps_at_line_ends_and_at_the_width(text: str, lines: list[str], rest: int) -> None:
    assert fold(text, 3, 2) == (lines, rest)

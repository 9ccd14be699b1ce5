"""Tables: the model's promises to Qt, and what survives an update."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRectF, QSettings, Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPainter
from PySide6.QtTest import QAbstractItemModelTester, QTest
from pytestqt.qtbot import QtBot

from app.items.cell_painter import cell_width, paint_cell
from app.items.table_view import Cell, Column, Kind, Row, RowsModel, TableView
from app.theme.theme import Theme
from app.widgets import painting
from app.widgets.animation_timer import animation_timer_of
from tests.fakes.painted import Painted, on_screen, painted_anew
from tests.fakes.work import most_calls

COLUMNS = (
    Column("name", "Device", Kind.NAME),
    Column("n", "Tools", Kind.NUMBER),
    Column("r", "Risk", Kind.RISK),
)


def row(key: str, number: int = 1, risk: str = "low") -> Row:
    return Row(key, (key, str(number), risk), order=(key, number, None))


def rows_of(*keys: str) -> list[Row]:
    return [row(key) for key in keys]


@pytest.fixture
def table(theme: Theme, qtbot: QtBot) -> TableView:
    table = TableView(COLUMNS, "Devices", multiple=True)
    qtbot.addWidget(table)
    table.resize(500, 300)
    table.show()
    qtbot.waitExposed(table)
    return table


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_of_updates_keeps_qts_rules_and_the_selection(
    theme: Theme, qtbot: QtBot, seed: int
) -> None:
    dice = random.Random(seed)
    table = TableView(COLUMNS, "Devices", multiple=True)
    qtbot.addWidget(table)
    model = table.rows_model
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Warning)
    keys = [f"d{number}" for number in range(30)]
    if seed % 2:
        table.sort_by("n", descending=bool(seed % 4))
    for _ in range(25):
        wanted = dice.sample(keys, dice.randint(0, len(keys)))
        chosen = table.current_key()
        table.show_rows([row(key, dice.randint(1, 3)) for key in wanted])
        assert {r.key for r in model.items} == set(wanted)
        assert [model.row_of(r.key) for r in model.items] == list(range(len(wanted)))
        if not seed % 2:
            assert [r.key for r in model.items] == wanted
        if chosen in wanted:
            assert table.current_key() == chosen
            assert table.marked_keys() == [chosen]
        if wanted:
            table.choose(dice.choice(wanted))
    tester.deleteLater()


def test_equal_rows_cause_no_repaint(theme: Theme, qtbot: QtBot) -> None:
    model = RowsModel(COLUMNS)
    model.sync(rows_of("a", "b", "c"))
    changed: list[tuple[int, int]] = []
    model.dataChanged.connect(lambda first, last, _roles: changed.append((first.row(), last.row())))
    model.sync(rows_of("a", "b", "c"))
    assert changed == []
    model.sync([row("a"), row("b", 9), row("c")])
    assert changed == [(1, 1)]


def test_of_rows_that_change_the_cells_that_look_otherwise_are_painted(
    table: TableView, qtbot: QtBot
) -> None:
    table.show_rows(rows_of("a", "b", "c"))
    model, viewport = table.rows_model, table.viewport()
    qtbot.waitUntil(lambda: on_screen(table) == painted_anew(table))
    painted = Painted(viewport)
    table.show_rows([row("a"), row("b", 9), row("c", risk="high")])
    qtbot.waitUntil(lambda: bool(painted.regions))
    whole = painted.take()
    for place in ((1, 1), (2, 2)):
        assert whole.contains(table.visualRect(model.index(*place)).center())
    for place in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)):
        assert not whole.contains(table.visualRect(model.index(*place)).center())


STYLES = [
    {},
    {"production": True},
    {"muted": True},
    {"tint": "warn_tint"},
    {"production": True, "muted": True},
]


def one_more_act(table: TableView, keys: list[str], dice: random.Random) -> None:
    """Something that happens to a table: by an update, which comes most often, or by the operator."""
    head, bar, shown = table.horizontalHeader(), table.verticalScrollBar(), table.rows_model.items
    match dice.randint(0, 9):
        case 0:
            bar.setValue(dice.randint(0, bar.maximum()))
        case 1:
            table.sort_by(dice.choice(("name", "n")), dice.random() < 0.5)
        case 2:
            table.show_column(1, dice.random() < 0.5)
        case 3:
            head.moveSection(dice.randint(0, 2), dice.randint(0, 2))
        case 4:
            table.size_column(dice.randint(0, 2), dice.randint(40, 200))
        case 5:
            table.choose(dice.choice(keys))
        case 6:
            wanted = dice.sample(keys, dice.randint(0, len(keys)))
            table.show_rows([row(key, dice.randint(1, 3)) for key in wanted])
        case _:
            table.show_rows([changed(one, dice) if dice.random() < 0.3 else one for one in shown])


def changed(one: Row, dice: random.Random) -> Row:
    """The row with other cells, or with another look."""
    number, risk = dice.randint(1, 3), dice.choice(("low", "high"))
    return replace(row(one.key, number, risk), **dice.choice(STYLES))


@pytest.mark.parametrize("seed", range(12))
def test_the_screen_shows_what_would_be_painted_anew_whatever_happened(
    table: TableView, qtbot: QtBot, seed: int
) -> None:
    dice = random.Random(seed)
    keys = [f"d{number}" for number in range(30)]
    table.show_rows(rows_of(*keys))
    for _ in range(20):
        # Painting anew notes what was painted too, so several things happen before it, painted or not.
        for _ in range(dice.randint(1, 5)):
            one_more_act(table, keys, dice)
            if dice.random() < 0.7:
                QGuiApplication.processEvents()
        qtbot.waitUntil(lambda: on_screen(table) == painted_anew(table))


def test_two_rows_with_one_key_are_refused(theme: Theme) -> None:
    with pytest.raises(ValueError, match="different keys"):
        RowsModel(COLUMNS).sync(rows_of("a", "a"))


def test_numbers_sort_by_value_and_rows_without_one_come_last_in_both_directions(table: TableView) -> None:
    rows = [row("ten", 10), row("nine", 9), Row("none", ("none", "—", "low"), order=("none", None, None))]
    table.show_rows(rows)
    table.sort_by("n")
    assert [r.key for r in table.rows_model.items] == ["nine", "ten", "none"]
    table.sort_by("n", descending=True)
    assert [r.key for r in table.rows_model.items] == ["ten", "nine", "none"]


def test_copying_gives_the_chosen_rows_as_tab_separated_words(table: TableView, qtbot: QtBot) -> None:
    table.show_rows(
        [row("a", 1, "high"), row("b", 2, "critical"), Row("c", (Cell("x\ty", bold="prod"), "3", "low"))]
    )
    table.selectAll()
    QTest.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "a\t1\tHigh\nb\t2\tCritical\nx y prod\t3\tLow"


def test_enter_and_double_click_open_the_row(table: TableView, qtbot: QtBot) -> None:
    table.show_rows(rows_of("a", "b"))
    table.choose("b")
    with qtbot.waitSignal(table.opened) as opened:
        QTest.keyClick(table, Qt.Key.Key_Return)
    assert opened.args == ["b"]


def test_arrow_keys_move_and_tell_the_key(table: TableView, qtbot: QtBot) -> None:
    table.show_rows(rows_of("a", "b"))
    table.choose("a")
    with qtbot.waitSignal(table.current_changed) as moved:
        QTest.keyClick(table, Qt.Key.Key_Down)
    assert moved.args == ["b"]


def test_columns_come_back_as_they_were_left(theme: Theme, qtbot: QtBot, tmp_path: Path) -> None:
    settings = QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)
    first, second = TableView(COLUMNS, "Devices"), TableView(COLUMNS, "Devices")
    qtbot.addWidget(first)
    qtbot.addWidget(second)
    first.size_column(0, 217)
    first.show_column(2, False)
    # The operator did not choose this width: it came of a long name, say.
    first.setColumnWidth(1, 399)
    first.save_columns(settings, "fleet")
    assert second.restore_columns(settings, "fleet")
    assert second.columnWidth(0) == 217
    assert second.columnWidth(1) == COLUMNS[1].width
    assert second.isColumnHidden(2)
    assert not second.restore_columns(settings, "elsewhere")


def test_columns_are_not_taken_back_by_a_table_that_has_one_more_among_them(
    theme: Theme, qtbot: QtBot, tmp_path: Path
) -> None:
    settings = QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)
    first = TableView((*COLUMNS, Column("doing", "Doing", stretch=True)), "Devices")
    more = (COLUMNS[0], Column("new", "New"), *COLUMNS[1:], Column("doing", "Doing", stretch=True))
    second = TableView(more, "Devices")
    qtbot.addWidget(first)
    qtbot.addWidget(second)
    first.save_columns(settings, "fleet")
    assert first.restore_columns(settings, "fleet")
    assert not second.restore_columns(settings, "fleet")
    head = second.horizontalHeader()
    assert [head.sectionResizeMode(n) is head.ResizeMode.Stretch for n in range(5)] == [False] * 4 + [True]


def test_columns_that_an_earlier_window_lost_come_back(theme: Theme, qtbot: QtBot, tmp_path: Path) -> None:
    settings = QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)
    first, second = TableView(COLUMNS, "Devices"), TableView(COLUMNS, "Devices")
    qtbot.addWidget(first)
    qtbot.addWidget(second)
    first.setColumnWidth(0, 505)
    first.setColumnHidden(1, True)
    # As it was kept before: the state of the head alone.
    settings.setValue("fleet/columns", first.horizontalHeader().saveState())
    assert second.restore_columns(settings, "fleet")
    assert (second.columnWidth(0), second.isColumnHidden(1)) == (COLUMNS[0].width, False)


def test_a_long_name_takes_its_share_of_the_table_and_gives_it_back(theme: Theme, qtbot: QtBot) -> None:
    columns = (
        Column("a", "Device", Kind.NAME, 120),
        Column("b", "Tags", width=150),
        Column("c", "Doing", width=100, stretch=True),
    )
    table = TableView(columns, "Devices")
    qtbot.addWidget(table)
    table.resize(800, 200)
    table.show()
    long = Row("long", ("x" * 64, "", ""))
    busy = "Copying the nightly build to the shelf of artefacts in hall 17, step 3 of 5, " * 2
    table.resize(500, 200)
    table.show_rows([Row("a", ("lab-lnx-01", "", busy)), long])
    table.fit_widths()
    assert table.columnWidth(0) >= table.widest_name()
    assert table.columnWidth(0) < table.needed_width(0)
    assert table.columnWidth(2) >= 100
    table.resize(800, 200)
    table.show_rows([Row("a", ("lab-lnx-01", "", "")), long])
    table.fit_widths()
    assert table.columnWidth(0) == table.needed_width(0) > table.widest_name(), "nobody else needs the room"
    tip = table.rows_model.index(1, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "x" * 64 in str(tip)
    table.show_rows([Row("a", ("lab-lnx-01", "", ""))])
    table.fit_widths()
    assert table.columnWidth(0) == 120
    table.size_column(0, 300)
    table.fit_widths()
    assert table.columnWidth(0) == 300


def test_room_that_is_left_goes_to_columns_that_would_be_cut(theme: Theme, qtbot: QtBot) -> None:
    columns = (
        Column("a", "Device", Kind.NAME, 120),
        Column("b", "Tags", width=60),
        Column("c", "Doing", width=100, stretch=True),
    )
    table = TableView(columns, "Devices")
    qtbot.addWidget(table)
    table.resize(900, 200)
    table.show()
    tags = "linux, edge, production, hall 17"
    table.show_rows([Row("a", ("lab-lnx-01", tags, "idle"))])
    table.fit_widths()
    assert table.columnWidth(1) == table.needed_width(1) > 150
    assert table.horizontalHeader().length() <= table.viewport().width()
    table.resize(330, 200)
    table.fit_widths()
    assert table.columnWidth(1) < table.needed_width(1)
    assert table.columnWidth(0) == table.needed_width(0) < 120, "what it does not need goes to the tags"
    assert table.columnWidth(2) == table.needed_width(2) < 100
    table.resize(210, 200)
    table.fit_widths()
    assert table.columnWidth(1) == 60, "so much it has for certain"


def test_the_menu_of_the_head_hides_shows_fits_and_resets(theme: Theme, qtbot: QtBot) -> None:
    columns = (
        Column("a", "Device", Kind.NAME, 120),
        Column("b", "Tags", width=150, drop=1),
        Column("c", "Load", width=300),
    )
    table = TableView(columns, "Devices")
    qtbot.addWidget(table)
    table.resize(1000, 200)
    table.show()
    table.show_rows([Row("a", ("lab-lnx-01", "x", "1"))])

    def act(words: str) -> None:
        menu = table.head_menu()
        next(action for action in menu.actions() if action.text() == words).trigger()

    marked = {one.text(): one.isChecked() for one in table.head_menu().actions() if one.isCheckable()}
    assert marked == {"Device": True, "Tags": True, "Load": True}
    act("Tags")
    act("Load")
    assert (table.isColumnHidden(1), table.isColumnHidden(2)) == (True, True)
    act("Tags")
    act("Load")
    # What is wanted stays also where there is little room.
    table.resize(300, 200)
    assert (table.isColumnHidden(1), table.isColumnHidden(2)) == (False, False)
    act("Fit columns")
    assert table.columnWidth(2) < 120
    act("Reset columns")
    assert table.columnWidth(2) == 300
    assert table.isColumnHidden(1), "there is no room, and the operator does not want it any more"
    table.resize(1000, 200)
    assert not table.isColumnHidden(1)


def test_an_edge_that_is_dragged_is_a_width_that_is_kept(theme: Theme, qtbot: QtBot) -> None:
    table = TableView(COLUMNS, "Devices")
    qtbot.addWidget(table)
    table.resize(900, 200)
    table.show()
    head = table.horizontalHeader()
    edge = QPoint(head.sectionViewportPosition(0) + head.sectionSize(0) - 1, head.height() // 2)
    view = head.viewport()
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=edge)
    QTest.mouseMove(view, edge + QPoint(30, 0))
    QTest.mouseMove(view, edge + QPoint(60, 0))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=edge + QPoint(60, 0))
    dragged = table.columnWidth(0)
    assert dragged > COLUMNS[0].width
    table.fit_widths()
    assert table.columnWidth(0) == dragged


def test_columns_that_may_go_give_way_to_names(theme: Theme, qtbot: QtBot) -> None:
    columns = (
        Column("a", "Device", Kind.NAME, 200),
        Column("b", "Tags", width=150, drop=2),
        Column("c", "Seen", width=150, drop=1),
    )
    table = TableView(columns, "Devices")
    qtbot.addWidget(table)
    table.resize(700, 200)
    table.show()
    assert not table.isColumnHidden(1)
    table.resize(380, 200)
    assert (table.isColumnHidden(1), table.isColumnHidden(2)) == (True, False)
    table.resize(220, 200)
    assert (table.isColumnHidden(1), table.isColumnHidden(2)) == (True, True)
    table.resize(700, 200)
    assert not table.isColumnHidden(1)


def test_assistive_technology_reads_title_and_word_of_a_painted_state(table: TableView) -> None:
    table.show_rows([row("a", 1, "critical")])
    role = Qt.ItemDataRole.AccessibleTextRole
    assert table.rows_model.index(0, 2).data(role) == "Risk: Critical"


def test_a_running_cell_turns_while_it_is_in_sight(theme: Theme, qtbot: QtBot) -> None:
    theme.set_reduced_motion(False)
    table = TableView([Column("v", "Outcome", Kind.VERDICT)], "Cells")
    qtbot.addWidget(table)
    table.show_rows([Row("1", ("running",))])
    table.show()
    pulse = animation_timer_of(table)
    qtbot.waitUntil(lambda: pulse.running)
    table.show_rows([Row("1", ("confirmed",))])
    qtbot.waitUntil(lambda: not pulse.running)


def test_showing_two_hundred_thousand_cells_asks_for_those_in_sight(theme: Theme, qtbot: QtBot) -> None:
    table = TableView(COLUMNS, "Devices")
    qtbot.addWidget(table)
    many = [row(f"d{number}", number) for number in range(70_000)]
    table.show_rows(many)
    table.resize(600, 400)
    table.show()
    with most_calls(13_000):
        table.grab()


TAGS = Column("tags", "Tags")


def inked(cell: Cell, width: int, theme: Theme, column: Column = TAGS) -> tuple[range, range]:
    """Which columns of pixels a cell's text takes in so much room, and which its bold word.

    They are told apart by their colours: red in the tone `fail`, blue in `accent`.
    """
    image = QImage(width, 28, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    painter = QPainter(image)
    paint_cell(painter, QRectF(0, 0, width, 27), column, cell, False, theme, 0)
    painter.end()
    found: list[range] = []
    for sign in (1, -1):
        inks = []
        for x in range(width):
            pixels = [QColor(image.pixel(x, y)) for y in range(28)]
            if max(sign * (one.red() - one.blue()) for one in pixels) > 30:
                inks.append(x)
        found.append(range(min(inks), max(inks) + 1) if inks else range(0))
    return found[0], found[1]


def tags(text: str, bold: str) -> Cell:
    return Cell(text, tone="fail", bold=bold, bold_tone="accent")


@pytest.mark.parametrize("width", [200, 140, 100, 76, 50])
def test_a_bold_word_is_whole_and_the_text_before_it_is_cut(theme: Theme, width: int) -> None:
    strong = painting.text_width("prod", theme, "head")
    words, bold = inked(tags("gpu, build, eu-west, rack-4,", "prod"), width, theme)
    assert abs(len(bold) - strong) <= 3, "the word is whole"
    assert bold.stop <= width
    assert words.stop <= bold.start, "and stands clear of the text"


@pytest.mark.parametrize("right", [False, True])
def test_a_cell_as_wide_as_it_says_it_needs_cuts_nothing(theme: Theme, right: bool) -> None:
    column = Column("tags", "Tags", right=right)
    for cell in (tags("gpu, build,", "prod"), tags("", "production")):
        whole = round(cell_width(column, cell, theme)) + 1
        text = painting.text_width(cell.text, theme)
        words, bold = inked(cell, whole, theme, column)
        assert abs(len(words) - text) <= 3
        assert abs(len(bold) - painting.text_width(cell.bold, theme, "head")) <= 3
        assert bold.stop <= whole

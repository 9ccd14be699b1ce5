"""What a terminal shows of a run: lines for devices that matter, a bar, and output."""

from __future__ import annotations

import io

import pytest

from core.batch.models import Cell, CellState
from core.cli.run_display import MOST_DEVICES, LiveDisplay, PlainDisplay, live_lines
from core.cli.terminal import STATE_STYLES, Terminal, styled
from core.service.export_file import neutral
from tests.golden.cli.printing import Screen

PLAIN = Terminal()


def cell(device: str, state: CellState, step: str = "look", **more: str) -> Cell:
    return Cell(run="r", device=device, step=step, tool="t", state=state, **more)


def cells(*all_of: Cell) -> dict[tuple[str, str], Cell]:
    return {(one.device, one.step): one for one in all_of}


def test_a_device_that_waits_stands_above_those_that_run_and_the_rest_is_a_bar():
    shown = live_lines(
        cells(
            *(cell(f"done-{number}", CellState.DONE) for number in range(40)),
            cell("runs", CellState.RUNNING, progress="3 of 9 files"),
            cell("failed", CellState.FAILED, note="No such file"),
            cell("waits", CellState.WAITING),
        )
    )
    assert [PLAIN.shown(line) for line in shown[:3]] == [
        "waits look waiting",
        "failed look failed: No such file",
        "runs look running: 3 of 9 files",
    ]
    assert PLAIN.shown(shown[3]).endswith("41 of 43 steps: 1 running, 1 waiting, 40 done, 1 failed")
    assert len(shown) == 4


@pytest.mark.parametrize("state", [CellState.WAITING, CellState.FAILED, CellState.UNKNOWN])
def test_a_state_has_the_colour_that_it_has_in_tables(state: CellState):
    word = styled(state.value, STATE_STYLES[state.value])
    line, bar = live_lines(cells(cell("lab-1", state)))
    assert line == f"lab-1 look {word}"
    assert bar.endswith(f"1 {word}")


def test_a_long_note_is_shortened_and_its_state_stays_coloured():
    line, _ = live_lines(cells(cell("lab-1", CellState.FAILED, note="no " * 100)))
    assert line.startswith(f"lab-1 look {styled('failed', 'red')}: no no")
    assert len(PLAIN.shown(line)) == 100


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "vt100"}, False)],
)
def test_the_live_display_has_colours_where_a_table_has_them(
    environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Screen(80)
    display = LiveDisplay(PlainDisplay(stream, several=True), stream)
    failed = cell("lab-1", CellState.FAILED)
    display.show(cells(failed), [failed])
    display.close()
    shown = stream.leave()
    assert "failed" in shown
    assert ("\x1b[31mfailed" in shown) is coloured


def test_of_a_thousand_devices_only_some_have_a_line():
    shown = live_lines(cells(*(cell(f"d-{number}", CellState.RUNNING) for number in range(1000))))
    assert len(shown) == MOST_DEVICES + 2
    assert shown[-2] == f"and {1000 - MOST_DEVICES} devices more"


def test_output_of_several_cells_comes_in_whole_lines_that_name_their_cell():
    stream = io.StringIO()
    display = PlainDisplay(stream, several=True)
    running = cell("a", CellState.RUNNING)
    display.output(running, "one\ntw")
    display.output(cell("b", CellState.RUNNING), "other\n")
    display.output(running, "o\n")
    assert stream.getvalue() == "a look | one\nb look | other\na look | two\n"


def test_output_of_one_cell_comes_as_it_is_and_cannot_move_the_cursor():
    stream = io.StringIO()
    display = PlainDisplay(stream, several=False)
    display.output(cell("a", CellState.RUNNING), "pass\x1b[2Jword? ")
    assert stream.getvalue() == "pass[U+001B][2Jword? "
    display.close()
    assert stream.getvalue().endswith("\n")


def test_the_rest_of_a_line_is_printed_when_its_cell_ends(capsys: pytest.CaptureFixture[str]):
    stream = io.StringIO()
    display = PlainDisplay(stream, several=True)
    display.output(cell("a", CellState.RUNNING), "no line end")
    ended = cell("a", CellState.DONE)
    display.show(cells(ended), [ended])
    assert stream.getvalue() == "a look | no line end\n"
    assert capsys.readouterr().err == "a look done\n"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=1", "＝1"])
def test_a_text_that_a_spreadsheet_would_run_is_quoted(text: str):
    assert neutral(text) == f"'{text}"


@pytest.mark.parametrize("value", ["plain", "", "1=1", -1.5, 7])
def test_other_values_stay_as_they_are(value: object):
    assert neutral(value) == value

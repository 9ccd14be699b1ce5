"""What a terminal shows of a run: lines for devices that matter, a bar, and output."""

from __future__ import annotations

import io
from typing import Any

import pytest

from core.batch.models import Cell, CellState
from core.cli.run_course import Course
from core.cli.run_display import MOST_DEVICES, LiveDisplay, PlainDisplay, bar, cell_line, live_lines
from core.cli.run_text import cells_text, groups_text
from core.cli.terminal import STATE_STYLES, Terminal, styled
from core.service.export_file import neutral
from tests.fakes.cells import cell_with, run_of
from tests.golden.cli.printing import Screen

PLAIN = Terminal()
COURSE = Course()


def cell(device: str, state: CellState, step: str = "look", **more: Any) -> Cell:
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
        ),
        COURSE,
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
    line, totals = live_lines(cells(cell("lab-1", state)), COURSE)
    assert line == f"lab-1 look {word}"
    assert totals.endswith(f"1 {word}")


def test_a_long_note_is_shortened_and_its_state_stays_coloured():
    line, _ = live_lines(cells(cell("lab-1", CellState.FAILED, note="no " * 100)), COURSE)
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
    display = LiveDisplay(PlainDisplay(stream, True, COURSE), stream)
    failed = cell("lab-1", CellState.FAILED)
    display.show(cells(failed), [failed])
    display.close()
    shown = stream.leave()
    assert "failed" in shown
    assert ("\x1b[31mfailed" in shown) is coloured


def test_of_a_thousand_devices_only_some_have_a_line():
    shown = live_lines(cells(*(cell(f"d-{number}", CellState.RUNNING) for number in range(1000))), COURSE)
    assert len(shown) == MOST_DEVICES + 2
    assert shown[-2] == f"and {1000 - MOST_DEVICES} devices more"


def test_output_of_several_cells_comes_in_whole_lines_that_name_their_cell():
    stream = io.StringIO()
    display = PlainDisplay(stream, True, COURSE)
    running = cell("a", CellState.RUNNING)
    display.output(running, "one\ntw")
    display.output(cell("b", CellState.RUNNING), "other\n")
    display.output(running, "o\n")
    assert stream.getvalue() == "a look | one\nb look | other\na look | two\n"


def test_output_of_one_cell_comes_as_it_is_and_cannot_move_the_cursor():
    stream = io.StringIO()
    display = PlainDisplay(stream, False, COURSE)
    display.output(cell("a", CellState.RUNNING), "pass\x1b[2Jword? ")
    assert stream.getvalue() == "pass[U+001B][2Jword? "
    display.close()
    assert stream.getvalue().endswith("\n")


def test_the_rest_of_a_line_is_printed_when_its_cell_ends(capsys: pytest.CaptureFixture[str]):
    stream = io.StringIO()
    display = PlainDisplay(stream, True, COURSE)
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


RETRIED = {"steps": [{"id": "look", "tool": "t", "retry": {"times": 3}}]}
WAVES = {"rollout": {"canary": 1, "wave": 2}}


def shown(display: PlainDisplay, *states: Cell) -> None:
    for one in states:
        display.show(cells(one), [one])


def attempt(number: int, state: CellState, **more: Any) -> Cell:
    return cell("a", state, call_id=f"c-{number}", attempts=number, **more)


def test_each_failed_attempt_is_told_once_with_why_and_the_end_with_its_number(
    capsys: pytest.CaptureFixture[str],
):
    course = Course.of(run_of([cell("a", CellState.QUEUED)], **RETRIED))
    display = PlainDisplay(io.StringIO(), True, course)
    failed = attempt(1, CellState.RETRYING, note="No route")
    shown(display, attempt(1, CellState.RUNNING), failed, failed, attempt(2, CellState.RUNNING))
    # Between these two the terminal did not look.
    shown(display, attempt(3, CellState.RUNNING), attempt(3, CellState.DONE))
    assert capsys.readouterr().err.splitlines() == [
        "a look retrying (attempt 1 of 4): No route",
        "a look running (attempt 3 of 4)",
        "a look done (attempt 3 of 4)",
    ]


def test_a_step_that_fails_twice_is_told_each_time(capsys: pytest.CaptureFixture[str]):
    course = Course.of(run_of([cell("a", CellState.QUEUED)], **RETRIED))
    shown(
        PlainDisplay(io.StringIO(), True, course),
        attempt(1, CellState.FAILED, note="No"),
        attempt(1, CellState.RETRYING, note="No"),
        attempt(2, CellState.FAILED, note="No"),
    )
    assert [line.split(" (")[0] for line in capsys.readouterr().err.splitlines()] == [
        "a look failed",
        "a look retrying",
        "a look failed",
    ]


def test_a_running_attempt_says_why_the_last_failed_and_one_without_a_retry_says_nothing():
    course = Course.of(run_of([cell("a", CellState.QUEUED)], **RETRIED))
    second = attempt(2, CellState.RUNNING)
    assert PLAIN.shown(live_lines(cells(second), course, lambda cell: "No\x1broute")[0]) == (
        "a look running (attempt 2 of 4): the last failed: No[U+001B]route"
    )
    assert PLAIN.shown(cell_line(attempt(1, CellState.RUNNING), COURSE)) == "a look running"
    # What was approved and changed before its turn is asked again, beyond what the batch retries.
    assert PLAIN.shown(cell_line(attempt(5, CellState.WAITING), course)) == "a look waiting (attempt 5)"


def test_a_recovered_step_is_told_after_its_failure_and_counted(capsys: pytest.CaptureFixture[str]):
    failed = cell("a", CellState.FAILED, note="No route")
    recovered = cell("a", CellState.DONE, recovered_by=["other_way"], note="Recovered by other_way. No route")
    shown(PlainDisplay(io.StringIO(), True, COURSE), failed, recovered, recovered)
    assert capsys.readouterr().err.splitlines() == [
        "a look failed: No route",
        "a look done: Recovered by other_way. No route",
    ]
    totals = PLAIN.shown(bar(cells(recovered, cell("b", CellState.DONE))))
    assert totals.endswith("2 of 2 steps: 2 done (1 recovered)")


def test_each_wave_is_told_when_its_first_step_begins(capsys: pytest.CaptureFixture[str]):
    devices = ["a\x1b", "b", "c", "d"]
    course = Course.of(run_of([cell(name, CellState.QUEUED) for name in devices], **WAVES))
    display = PlainDisplay(io.StringIO(), False, course)
    shown(display, *(cell(name, CellState.QUEUED) for name in devices))
    assert capsys.readouterr().err == ""
    begun = [cell(name, CellState.RUNNING, started_at="t") for name in devices]
    shown(display, begun[0], begun[0], begun[2], begun[1], begun[3])
    assert capsys.readouterr().err.splitlines() == [
        "Wave 1 of 3: canary a[U+001B]",
        "Wave 2 of 3: b, c",
        "Wave 3 of 3: d",
    ]
    assert [course.wave_of(name) for name in devices] == [1, 2, 2, 3]
    one = PlainDisplay(io.StringIO(), False, Course.of(run_of(begun)))
    shown(one, *begun)
    assert capsys.readouterr().err == ""


def test_a_large_wave_is_counted_and_not_listed():
    run = run_of([cell(f"d-{number:02}", CellState.QUEUED) for number in range(40)], rollout={"canary": 8})
    assert Course.of(run).wave_words(2) == (
        "wave 2 of 2: 32 devices, d-08, d-09, d-10, d-11, d-12 and 27 more"
    )


def test_the_text_of_a_run_says_which_steps_took_several_attempts():
    made = [
        cell_with(name, "look", 1).model_copy(update={"call_id": f"c-{name}", "attempts": attempts})
        for name, attempts in (("a", 0), ("b", 3), ("c", 2))
    ]
    run = run_of(made, **RETRIED)
    assert groups_text(run).splitlines()[-1] == "  tried again: b (attempt 3 of 4), c (attempt 2 of 4)"
    table = str(cells_text(run))
    assert ("done (attempt 3 of 4)" in table, table.count("attempt")) == (True, 2)

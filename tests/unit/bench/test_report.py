"""How the bench judges: goals missed, parts that crash, what is not measured, figures that are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench.byte_code import CACHE, use_own_cache
from tests.bench.figures import Figure, Figures, Note, Peer, Scale, rounded
from tests.bench.goals import GOALS, Goal, at_least, at_most, beyond, share, times
from tests.bench.lines import ROOT
from tests.bench.report import Report, RunPart

LINK = Peer("bare link", 2.0)


def part(*lines: Figure | Note) -> RunPart:
    """A part that gives these lines."""
    return lambda scale: list(lines)


def crash(scale: Scale) -> Figures:
    """A part that crashes."""
    raise KeyError("no such device")


def report_of(figure: Figure, *goals: Goal) -> Report:
    report = Report(goals)
    report.run({"link": part(figure)}, Scale())
    return report


@pytest.mark.parametrize(
    ("goal", "met", "missed"),
    [
        (at_most("link", "call", 3, "ms"), 3.0, 3.1),
        (at_least("link", "call", 3, "ms"), 3.0, 2.9),
        (beyond("link", "call", 0.5, "ms"), 2.5, 2.6),
        (times("link", "call", 1.5), 3.0, 3.1),
        (share("link", "call", 0.5), 1.0, 0.9),
    ],
)
def test_a_missed_goal_is_said_and_makes_the_exit_code_one(
    goal: Goal, met: float, missed: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report_of(Figure("call", met, "ms", LINK), goal).exit_code == 0
    assert "MISSED" not in capsys.readouterr().out
    report = report_of(Figure("call", missed, "ms", LINK), goal)
    assert report.exit_code == 1
    assert f"(MISSED, goal: {goal.words()})" in capsys.readouterr().out
    report.print_end()
    assert "\nMISSED\n  call" in capsys.readouterr().out


def test_a_figure_without_a_goal_is_judged_by_none() -> None:
    assert report_of(Figure("other", 1e9, "ms"), at_most("link", "call", 3, "ms")).exit_code == 0


def test_a_goal_holds_only_for_the_part_that_measures_it() -> None:
    report = Report([at_most("window", "idle", 1, "%")])
    report.run({"link": part(Figure("idle", 90, "%"))}, Scale())
    assert report.exit_code == 0


@pytest.mark.parametrize(
    "broken",
    [
        crash,
        lambda scale: sys.exit("there is no display"),
        # A goal that needs a peer.
        part(Figure("call", 1, "ms")),
    ],
)
def test_whatever_breaks_in_a_part_counts_as_its_crash(broken: RunPart) -> None:
    report = Report([beyond("link", "call", 0.5, "ms")])
    report.run({"link": broken, "window": part(Figure("start", 1.5, "s"))}, Scale())
    assert report.crashed == ["link"]
    assert report.ran == ["link", "window"]
    assert report.exit_code == 1


def test_a_part_that_crashes_is_said_to_and_the_next_one_runs(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(())
    report.run({"link": crash, "window": part(Figure("start", 1.5, "s"))}, Scale())
    report.print_end()
    out = capsys.readouterr().out
    assert "CRASHED: KeyError: 'no such device'" in out
    assert "MISSED" not in out
    assert [line.figure.name for line in report.figures] == ["start"]
    assert out.endswith("CRASHED\n  link" + " " * 63 + "see above\n")
    assert report.exit_code == 1


def test_goals_that_nothing_measures_are_printed_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(
        [
            at_most("", "export made", 3, "s"),
            at_most("link", "call", 3, "ms"),
            at_most("window", "opened", 1, "s"),
        ]
    )
    report.run({"link": part(Note("call", "left out: there is no link"))}, Scale())
    report.print_end()
    out = capsys.readouterr().out
    assert "left out: there is no link" in out
    assert "not measured yet (goal: at most 3 s)" in out
    assert "not measured in this run (goal: at most 3 ms)" in out
    assert "opened" not in out
    assert report.exit_code == 0


def test_kept_figures_are_printed_beside_those_of_a_later_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = beyond("link", "call", 0.5, "ms")
    report_of(Figure("call", 2.4, "ms", LINK), goal).write(tmp_path / "kept.json", "a machine")

    kept = json.loads((tmp_path / "kept.json").read_text())
    assert kept == {
        "machine": "a machine",
        "crashed": [],
        "figures": [
            {
                "part": "link",
                "name": "call",
                "value": 2.4,
                "unit": "ms",
                "peer": {"name": "bare link", "value": 2.0},
                "goal": "at most the peer + 0.500 ms",
                "met": True,
            }
        ],
    }
    report_of(Figure("call", 3.6, "ms", LINK), goal).print_comparison(tmp_path / "kept.json")
    out = capsys.readouterr().out
    assert "before: a machine" in out
    assert "2.40 → 3.60 ms (+50 %); its peer 2 → 2; met → MISSED" in out


def test_the_command_line_ends_with_the_exit_code_and_keeps_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Figure("one decision, 1,000 rules", 0.06, "ms")
    monkeypatch.setattr(bench, "part_runner", lambda name: crash if name == "mcp" else part(slow))
    # Compiling all is for measuring.
    monkeypatch.setattr(bench, "use_own_cache", lambda: None)
    monkeypatch.setattr(bench, "warm_cache", part())
    assert bench.main(["policy", "--json", str(tmp_path / "kept.json")]) == 1
    assert json.loads((tmp_path / "kept.json").read_text())["figures"][0]["met"] is False
    assert bench.main(["search"]) == 0
    assert bench.main(["mcp"]) == 1


def test_a_part_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        bench.main(["polisy"])
    assert refused.value.code == 2
    assert "polisy" in capsys.readouterr().err


def test_each_goal_is_of_a_part_that_there_is_and_once_in_the_table() -> None:
    assert {goal.part for goal in GOALS} - {""} <= set(bench.PARTS)
    known = [(goal.part, goal.name) for goal in GOALS]
    assert len(set(known)) == len(known)


def test_processes_that_a_bench_starts_use_its_byte_code() -> None:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    use_own_cache(environment)
    program = "import sys; print(sys.pycache_prefix, sys.dont_write_bytecode)"
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == [str(CACHE), "False"]


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (12, "12"), (0.0123, "0.012"), (1.239, "1.24"), (123456.7, "123,457")]
)
def test_a_number_has_the_digits_that_count(value: float, words: str) -> None:
    assert rounded(value) == words

"""Batches from the terminal: the real program, a real service, a device that writes and prints."""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.home import Home
from tests.fakes.program import Terminal, run, until
from tests.fakes.service_process import served as serving
from tests.fakes.signing import accepted

BATCH = """
name: Two steps
targets: "name:this-computer"
inputs:
  text: {{type: string, default: "as written"}}
  token: {{type: string, secret: true, default: "none"}}
on_failure: continue
steps:
  - id: write
    tool: write_file
    with: {{file_path: "{folder}/note.txt", content: "${{{{ inputs.text }}}}"}}
  - {{id: look, tool: read_file, with: {{file_path: "{folder}/note.txt"}}}}
  - {{id: gone, tool: read_file, with: {{file_path: "{folder}/none.txt"}}}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli-runs")


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[Home]:
    import asyncio

    home = Home(place / "home").create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    work = place / "work"
    work.mkdir()
    (home.path / "device.toml").write_text(f'roots = ["{work}"]\ntools_off = ["shell_execute_read"]\n')
    asyncio.run(accepted(home, 'profile = "trusted"\n'))
    (place / "two.yaml").write_text(BATCH.format(folder=work))
    with serving(home):
        yield home


def ran(home: Home, place: Path, *words: str) -> Any:
    done = run(home, "run", str(place / "two.yaml"), "--json", *words)
    assert done.code == 6, done
    return done.json


def test_a_batch_runs_from_its_file_with_its_inputs_and_tells_by_its_code_what_failed(served, place):
    told = ran(served, place, "--input", "text=from the terminal")
    assert (place / "work" / "note.txt").read_text() == "from the terminal"
    assert [one["status"] for one in told["results"]] == ["success", "success", "failure"]
    assert told["run"]["state"] == "failed"
    shown = run(served, "run", str(place / "two.yaml"))
    assert shown.code == 6
    assert "this-computer gone failed" in shown.err
    assert "Two steps" in shown.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--input", "token=hunter2"), "is secret"),
        (("--input", "unknown=1"), "unknown"),
        (("--input", "tokn=x"), "did you mean token (inputs: "),
        (("--inptu", "text=1"), "Did you mean --input?"),
        (("--text", "1"), "An input of the batch is written --input text=VALUE."),
        (("--device", "no-such-*"), "No device matches"),
        (("--device", "name:this-computr"), "Did you mean this-computer?"),
        (("--device", "os:nothing"), "Values of os: "),
        (("--device", "hleth:online"), "did you mean health?"),
    ],
)
def test_what_cannot_be_run_says_so_and_starts_nothing(served, place, words, said):
    before = run(served, "runs", "list", "--json").json["runs"]
    done = run(served, "run", str(place / "two.yaml"), *words)
    assert done.code == 2
    assert said in done.err
    assert run(served, "runs", "list", "--json").json["runs"] == before


@pytest.mark.parametrize("device", ["this-computer", "this-*", "health:online,busy", "!tag:lab !name:lab-*"])
def test_a_run_takes_a_name_or_a_filter_for_its_devices(served, place, device):
    planned = run(served, "run", str(place / "two.yaml"), "--plan", "--json", "--device", device)
    assert planned.json["plan"]["devices"] == ["this-computer"]


def test_an_unknown_run_is_answered_by_the_latest(served, place):
    number = ran(served, place)["run"]["id"]
    unknown = run(served, "runs", "show", "r-zz")
    assert (unknown.code, number in unknown.err) == (2, True)


def test_a_file_that_is_not_there_and_a_name_that_is_not_saved_are_named(served):
    assert "cannot be read" in run(served, "run", "/no/such.yaml").err
    assert run(served, "run", "no-such-name").code == 2


def test_a_run_is_undone_from_the_terminal_and_a_second_undo_is_told(served, place):
    note = place / "work" / "note.txt"
    note.write_text("before")
    number = ran(served, place)["run"]["id"]
    assert note.read_text() == "as written"
    planned = run(served, "undo", number, "--plan")
    assert planned.code == 0
    assert "1 file restored" in planned.out
    assert note.read_text() == "as written"
    undone = run(served, "undo", number, "--json")
    assert undone.code == 0, undone
    assert undone.json["run"]["undoes"] == number
    assert note.read_text() == "before"
    again = run(served, "undo", number)
    assert again.code == 2
    assert "1 undone already" in again.err


def test_two_runs_are_compared_by_their_contents(served, place):
    first = ran(served, place, "--input", "text=one")["run"]["id"]
    second = ran(served, place, "--input", "text=two")["run"]["id"]
    told = run(served, "runs", "compare", first, second)
    assert '$.content: "one" -> "two"' in told.out
    as_json = run(served, "runs", "compare", first, second, "--json").json
    assert {one["step"] for one in as_json["cells"] if not one["equal"]} == {"write", "look"}
    assert run(served, "runs", "compare", first, "r-9999").code == 2


def test_results_are_exported_and_no_cell_is_a_formula(served, place):
    number = ran(served, place, "--input", "text==cmd|' /C calc'!A0")["run"]["id"]
    target = place / "results.csv"
    assert run(served, "runs", "export", number, "--output", str(target)).code == 0
    with open(target, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["write", "look", "gone"]
    assert not [value for row in rows for value in row.values() if value.startswith(("=", "+", "-", "@"))]
    assert target.stat().st_mode & 0o077 == 0
    whole = place / "results.json"
    assert run(served, "runs", "export", number, "--format", "json", "--output", str(whole)).code == 0
    kept = json.loads(whole.read_text())
    assert kept["run"]["id"] == number
    assert kept["results"][1]["result"]["content"] == "=cmd|' /C calc'!A0"
    again = run(served, "runs", "export", number, "--output", str(whole))
    assert (again.code, json.loads(whole.read_text())) == (2, kept)
    assert "--replace" in again.err
    assert run(served, "runs", "export", number, "--output", str(whole), "--replace").code == 0
    assert whole.read_text() == target.read_text()
    nowhere = run(served, "runs", "export", number, "--output", str(place / "no" / "file"))
    assert nowhere.code == 2


def test_a_word_is_found_in_the_results_of_a_run(served, place):
    number = ran(served, place, "--input", "text=a needle in it")["run"]["id"]
    found = run(served, "runs", "search", number, "NEEDLE", "--json").json["results"]
    assert [one["step"] for one in found] == ["look"]


def test_each_result_names_its_step_and_how_it_went(served, place):
    told = ran(served, place)["results"]
    assert [(one["step"], one["state"], one["attempts"], one["recovered"]) for one in told] == [
        ("write", "done", 1, []),
        ("look", "done", 1, []),
        ("gone", "failed", 1, []),
    ]
    number = told[0]["run"]
    shown = run(served, "runs", "show", number, "--json").json["results"]
    assert [one["step"] for one in shown] == ["write", "look", "gone"]


def test_runs_are_found_by_their_words(served, place):
    number = ran(served, place)["run"]["id"]
    found = run(served, "runs", "list", "state:failed", "two", "--json").json["runs"]
    assert number in [one["id"] for one in found]
    none = run(served, "runs", "list", "no-such-word")
    assert (none.code, "No run has all of these words." in none.out + none.err) == (0, True)


def test_a_step_that_was_done_by_hand_is_settled_and_nothing_is_left_to_resume(served, place):
    number = ran(served, place)["run"]["id"]
    wrong = run(served, "runs", "settle", number, "this-computer", "gone", "not-done")
    assert (wrong.code, "which is not unknown" in wrong.err) == (12, True)
    settled = run(served, "runs", "settle", number, "this-computer", "gone", "done", "--json")
    assert settled.code == 0, settled
    assert (settled.json["step"], settled.json["settled"]) == ("gone", "done")
    left = run(served, "resume", number)
    assert (left.code, "is left to do" in left.err) == (12, True)
    assert "Start the batch again" in left.err


WAITS = """
name: Waits
targets: "name:this-computer"
on_failure: continue
steps:
  - {id: first, tool: shell_execute, with: {command: "rm -rf /srv/nothing"}}
  - {id: second, tool: get_system_info, with: {info_type: memory}}
  - {id: third, tool: get_system_info, with: {info_type: disk}}
"""


@pytest.fixture
def waiting(served: Home, place: Path) -> str:
    """A run whose first step waits for an operator."""
    (place / "waits.yaml").write_text(WAITS)
    left = run(served, "run", str(place / "waits.yaml"), "--json")
    assert left.code == 10, left
    return str(run(served, "runs", "list", "--json").json["runs"][0]["id"])


def ended(home: Home, number: str) -> Any:
    return until(
        lambda: run(home, "runs", "show", number, "--json").json,
        lambda told: told["run"]["state"] in ("done", "failed", "cancelled"),
    )


def states(told: Any) -> dict[str, str]:
    return {one["step"]: one["state"] for one in told["results"]}


def test_a_run_is_paused_goes_on_and_lacks_the_steps_that_were_cancelled(served, waiting):
    paused = run(served, "runs", "pause", waiting)
    assert (paused.code, f"{waiting} is paused." in paused.out) == (0, True)
    for step in ("second", "first"):
        cancelled = run(served, "runs", "cancel-step", waiting, "this-computer", step)
        assert (cancelled.code, f"cancels {step} on this-computer" in cancelled.out) == (0, True)
    shown = run(served, "runs", "show", waiting, "--json").json
    assert "third" not in states(shown)
    assert run(served, "runs", "go-on", waiting).code == 0
    told = ended(served, waiting)
    assert states(told) == {"first": "cancelled", "second": "not_started", "third": "done"}
    over = run(served, "runs", "pause", waiting)
    assert (over.code, "has ended" in over.err) == (12, True)


def test_a_stopped_run_begins_nothing_more(served, waiting):
    stopped = run(served, "runs", "stop", waiting)
    assert stopped.code == 0, stopped
    told = ended(served, waiting)
    assert told["run"]["state"] == "cancelled"
    assert "done" not in states(told).values()
    again = run(served, "runs", "stop", waiting)
    assert f"{waiting} had ended: it is cancelled." in again.out


def test_saved_batches_are_listed_shown_and_deleted(served, place):
    saved = run(served, "do", "how much memory is free", "--save", "memory-now")
    assert saved.code == 0, saved
    listed = run(served, "batches", "list", "--json").json["batches"]
    assert "memory-now" in [one["name"] for one in listed]
    shown = run(served, "batches", "show", "memory-now")
    (place / "shown.yaml").write_text(shown.out)
    assert run(served, "run", str(place / "shown.yaml"), "--plan").code == 0
    assert run(served, "batches", "rename", "memory-now", "memory-later").code == 0
    assert run(served, "batches", "delete", "memory-later").code == 0
    for name in ("memory-now", "memory-later"):
        gone = run(served, "batches", "show", name)
        assert (gone.code, f"No batch is saved as '{name}'" in gone.err) == (2, True)


def test_a_resumed_run_begins_at_the_failed_step(served, place):
    number = ran(served, place)["run"]["id"]
    (place / "work" / "none.txt").write_text("here now")
    try:
        (place / "token").write_text("none")
        done = run(served, "resume", number, "--input", f"token=@{place / 'token'}", "--json")
        assert done.code == 0, done
        assert done.json["run"]["resumes"] == number
        assert [one["tool_name"] for one in done.json["results"]] == ["read_file"]
    finally:
        (place / "work" / "none.txt").unlink()


NEEDS = """
name: Needs a token
targets: "name:this-computer"
inputs:
  token: {{type: string, secret: true}}
  count: {{type: integer, default: 1}}
steps:
  - {{id: gone, tool: read_file, with: {{file_path: "{folder}/none.txt"}}}}
"""


def resumed(served: Home, place: Path, number: str, token: str) -> Any:
    """Resume a run with this token, from a file of one line: it has to be the one of the run's start."""
    (place / "again").write_text(f"{token}\n")
    return run(served, "resume", number, "--input", f"token=@{place / 'again'}", "--json")


def test_a_secret_comes_from_standard_input_without_its_line_end_and_is_stored_nowhere(served, place):
    (place / "needs.yaml").write_text(NEEDS.format(folder=place / "work"))
    words = ("run", str(place / "needs.yaml"), "--json", "--input-stdin", "token")
    done = run(served, *words, input="sup3r-hunter2\n")
    assert done.code == 6, done
    number = done.json["run"]["id"]
    assert "had another value" in resumed(served, place, number, "sup3r-hunter2x").out
    # It was started with exactly this value.
    assert resumed(served, place, number, "sup3r-hunter2").json["run"]["resumes"] == number
    stored = [path for path in served.path.rglob("*") if path.is_file()]
    assert stored
    assert not [path for path in stored if b"sup3r-hunter2" in path.read_bytes()]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("nothing", "x", "is not an input"), ("count", "one", "is not JSON"), ("count", '"one"', "count")],
)
def test_what_standard_input_cannot_give_is_said_and_starts_nothing(served, place, name, text, said):
    (place / "needs.yaml").write_text(NEEDS.format(folder=place / "work"))
    (place / "token").write_text("t")
    before = run(served, "runs", "list", "--json").json["runs"]
    token = ("--input", f"token=@{place / 'token'}")
    done = run(served, "run", str(place / "needs.yaml"), "--input-stdin", name, *token, input=text)
    assert done.code == 2, done
    assert said in done.err
    assert run(served, "runs", "list", "--json").json["runs"] == before


def test_a_secret_that_is_missing_is_asked_for_on_a_terminal_and_not_shown(served, place):
    (place / "needs.yaml").write_text(NEEDS.format(folder=place / "work"))
    asked = Terminal(served, "run", str(place / "needs.yaml"))
    try:
        asked.sees("token (not shown): ")
        asked.types("typed-hunter2\n")
        assert asked.ends() == 6
    finally:
        asked.leave()
    assert "typed-hunter2" not in asked.seen
    [latest] = run(served, "runs", "list", "--limit", "1", "--json").json["runs"]
    assert resumed(served, place, latest["id"], "typed-hunter2").json["run"]["resumes"] == latest["id"]


def test_without_a_terminal_a_missing_secret_is_said(served, place):
    (place / "needs.yaml").write_text(NEEDS.format(folder=place / "work"))
    done = run(served, "run", str(place / "needs.yaml"))
    assert done.code == 2
    assert "token" in done.err


def test_on_a_terminal_a_run_has_a_bar_while_it_goes_on(served, place, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = Terminal(served, "run", str(place / "two.yaml"))
    try:
        shown.sees("of 3 steps")
        assert shown.ends() == 6
    finally:
        shown.leave()
    assert "Two steps" in shown.seen


PRINTS = "echo first; while [ ! -e {gate} ]; do sleep 0.05; done; echo last"


def test_a_call_prints_while_it_runs_and_ctrl_c_cancels_it(served, place):
    gate = place / "gate"
    asked = Terminal(served, "call", "this-computer", "shell_execute", f"command={PRINTS.format(gate=gate)}")
    try:
        asked.sees('Type "approve"')
        asked.types("approve\n")
        asked.sees("first\r\n")
        os.kill(asked.process.pid, signal.SIGINT)
        assert asked.ends() == 130
    finally:
        asked.leave()
    [latest] = run(served, "runs", "list", "--limit", "1", "--json").json["runs"]
    kept = until(
        lambda: run(served, "runs", "output", latest["id"], "this-computer", "--json").json,
        lambda told: told["ended"],
    )
    assert "".join(piece["text"] for piece in kept["output"]) == "first\n"

"""`quarterdeck run FILE --plan`: what it says before anything is sent, and where secret inputs come from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.home import Home
from tests.fakes.program import run
from tests.fakes.service_process import served as serving
from tests.fakes.signing import accepted

BATCH = """
name: Clean
targets: "name:this-computer"
inputs:
  threshold: {type: integer, default: 101}
  token: {type: string, secret: true}
steps:
  - {id: disk, tool: get_system_info, with: {info_type: disk}}
  - id: clean
    tool: shell_execute
    when: "${{ steps.disk.result.filesystems.exists(f, f.use_percent > inputs.threshold) }}"
    with: {command: "true"}
  - id: note
    tool: get_system_info
    when: "${{ inputs.threshold > 200 }}"
    with: {info_type: memory}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli-plan")
    (folder / "clean.yaml").write_text(BATCH)
    return folder


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[Home]:
    home = Home(place / "home").create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    asyncio.run(accepted(home, ""))
    with serving(home):
        yield home


def test_a_plan_says_what_runs_what_is_not_known_and_what_is_skipped(served: Home, place: Path) -> None:
    done = run(served, "run", str(place / "clean.yaml"), "--plan", "--json")
    assert done.code == 0, done
    cells = {cell["step"]: cell for cell in done.json["plan"]["cells"]}
    assert [cells[step]["outcome"] for step in ("disk", "clean", "note")] == ["runs", "not_known", "skipped"]
    assert cells["clean"]["because"] == ["disk"]
    text = run(served, "run", str(place / "clean.yaml"), "--plan", "--input", "threshold=201")
    assert text.code == 0
    assert "Plan of Clean on 1 device: runs 2, not known yet 1. Nothing was sent." in text.out
    assert "depends on disk" in text.out
    assert run(served, "runs", "list", "--json").json["runs"] == []


def test_a_field_that_no_tool_answers_is_found_by_the_plan(served: Home, place: Path) -> None:
    wrong = place / "wrong.yaml"
    wrong.write_text(BATCH.replace("f.use_percent >", "f.used_percent >"))
    done = run(served, "run", str(wrong), "--plan")
    assert 'there is no field "used_percent"; there are device, mount_point' in done.out
    # A script can tell it, too.
    assert done.code == 11


def test_a_secret_input_is_never_taken_from_the_command_line(served: Home, place: Path) -> None:
    done = run(served, "run", str(place / "clean.yaml"), "--plan", "--input", "token=hunter22")
    assert done.code == 2
    assert "token is secret" in done.err
    assert "hunter22" not in done.err + done.out
    missing = run(served, "run", str(place / "clean.yaml"))
    assert missing.code == 2
    assert "token is missing" in missing.err


def test_a_plan_for_no_device_says_so(served: Home, place: Path) -> None:
    done = run(served, "run", str(place / "clean.yaml"), "--plan", "--device", "no-such-*")
    assert done.code == 2
    assert "No device matches" in done.err

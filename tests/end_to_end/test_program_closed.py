"""A program that is closed by its name: which one is bound, shown and signed before it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.home import Home
from tests.fakes.program import run, until
from tests.fakes.service_process import served as serving
from tests.fakes.signing import accepted
from tests.fakes.window_program import WindowPrograms, window_programs


@pytest.fixture
def home(tmp_path: Path, on_display: str) -> Iterator[Home]:
    home = Home(tmp_path / "home").create()
    asyncio.run(accepted(home, 'profile = "guarded"\n'))
    with serving(home):
        yield home


@pytest.fixture
def programs(tmp_path: Path, on_display: str) -> Iterator[WindowPrograms]:
    with window_programs(tmp_path) as programs:
        yield programs


def close(home: Home, programs: WindowPrograms, *more: str) -> list[str]:
    return ["call", "this-computer", "close_application", f"process_name={programs.name}", *more]


def test_the_program_that_was_meant_is_shown_and_closed_though_another_was_started_since(
    home: Home, programs: WindowPrograms
) -> None:
    mine = programs.start("work")
    asked = run(home, *close(home, programs), "--wait", "0")
    assert asked.code == 10, asked
    [waiting] = run(home, "approvals", "list", "--json").json["approvals"]
    assert waiting["request"]["parameters"] == {"process_name": programs.name, "pid": mine.pid}
    card = run(home, "approvals", "show", waiting["id"]).out
    assert f"Closes {programs.name}, process {mine.pid}, asking it first" in card
    assert f"process {mine.pid} with the window “work”" in card
    stranger = programs.start("not yours")
    approved = run(home, "approvals", "approve", waiting["id"])
    assert approved.code == 0, approved
    assert mine.wait(30) == 0
    ended = until(
        lambda: run(home, "audit", "find", "tool:close_application kind:result_recorded", "--json").json,
        lambda found: found["entries"],
    )
    assert ended["entries"][0]["body"]["result"]["result"] == {"closed": [mine.pid]}
    assert stranger.poll() is None


def test_with_two_programs_of_a_name_nobody_is_asked_and_none_is_closed(
    home: Home, programs: WindowPrograms
) -> None:
    mine, stranger = programs.start("work"), programs.start("not yours")
    refused = run(home, *close(home, programs), "--wait", "0")
    assert refused.code == 2, refused
    assert f"process {mine.pid} with the window “work”" in refused.err + refused.out
    assert f"process {stranger.pid} with the window “not yours”" in refused.err + refused.out
    assert run(home, "approvals", "list", "--json").json["approvals"] == []
    assert [mine.poll(), stranger.poll()] == [None, None]

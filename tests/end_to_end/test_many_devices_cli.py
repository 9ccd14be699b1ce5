"""Several devices and piped batches from the terminal: the real program, and devices that dial in."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.cli.terminal import STATE_STYLES, styled
from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.devices import Health
from tests.end_to_end.test_readme_examples import code, table
from tests.fakes.program import Ended, Terminal, run, until
from tests.fakes.remote_device import make_listening_home, paired, stands
from tests.fakes.service_process import service_process
from tests.fakes.signing import accepted

pytestmark = pytest.mark.asyncio(loop_scope="module")
# By device: its tags, and the tools that it does not offer.
DEVICES = {
    "lab-1": (["lab"], ["shell_execute_read"]),
    "lab-2": (["lab", "spare"], ["shell_execute_read"]),
    "db-1": (["prod"], ["shell_execute_read", "write_file"]),
}


@dataclass
class Fleet:
    """A home whose service has the three devices, and the folder in which each may write."""

    home: Home
    roots: dict[str, Path] = field(default_factory=dict)

    async def run(self, *words: str, **options: Any) -> Ended:
        """One command to its end."""
        return await asyncio.to_thread(run, self.home, *words, **options)

    async def runs(self) -> list[str]:
        """The ids of all runs."""
        return [one["id"] for one in (await self.run("runs", "list", "--json")).json["runs"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    folder = tmp_path_factory.mktemp("many")
    fleet = Fleet(make_listening_home(folder / "home"))
    await accepted(fleet.home, 'profile = "trusted"\n')
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(service_process(fleet.home))
        console = await service.console()
        for name, (tags, off) in DEVICES.items():
            pairing = await console.devices.pair(name, DeviceSettings(tags=tags))
            fleet.roots[name] = folder / "roots" / name
            fleet.roots[name].mkdir(parents=True)
            (folder / name).mkdir()
            (folder / name / "device.toml").write_text(
                f'roots = ["{fleet.roots[name]}"]\ntools_off = {off}\n'
            )
            await stack.enter_async_context(paired(folder / name, pairing.string))
        for name in (*DEVICES, "this-computer"):
            await stands(console, name, Health.ONLINE)
        yield fleet


MEMORY = ("get_system_info", "info_type=memory")


@pytest.mark.parametrize(
    ("wanted", "devices"),
    [
        ("tag:lab", ["lab-1", "lab-2"]),
        ("lab-*", ["lab-1", "lab-2"]),
        ("lab-1,db-1", ["db-1", "lab-1"]),
        ("name:lab-1", ["lab-1"]),
        ("tag:lab !tag:spare", ["lab-1"]),
    ],
)
async def test_a_filter_calls_a_tool_on_every_device_that_matches(fleet: Fleet, wanted, devices):
    told = await fleet.run("call", wanted, *MEMORY, "--json")
    assert told.code == 0, told
    assert sorted(told.json["run"]["devices"]) == devices
    assert sorted(one["device"] for one in told.json["results"]) == devices
    assert {(one["step"], one["state"], one["tool_name"]) for one in told.json["results"]} == {
        ("call", "done", "get_system_info")
    }


async def test_the_answer_of_several_is_one_table_of_what_is_alike(fleet: Fleet):
    told = await fleet.run("call", "tag:lab", "get_system_info", "info_type=os")
    assert (told.code, "call: 2 alike" in told.out) == (0, True), told


async def test_one_device_by_its_name_stays_one_call(fleet: Fleet):
    told = await fleet.run("call", "lab-1", *MEMORY, "--json")
    assert (told.code, told.json["device"], "results" in told.json) == (0, "lab-1", False)
    wrong = await fleet.run("call", "lab-1", *MEMORY, "--canary", "1")
    assert (wrong.code, "--canary is for several" in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("tag:lbb", "Did you mean lab?"), ("lab-9*", "No device matches"), ("tga:lab", "did you mean tag?")],
)
async def test_a_filter_that_matches_nothing_calls_nothing(fleet: Fleet, wanted, said):
    before = await fleet.runs()
    told = await fleet.run("call", wanted, *MEMORY)
    assert (told.code, said in told.err, "A blank means and" in told.err) == (2, True, True), told
    assert await fleet.runs() == before


async def test_a_plan_of_a_call_says_what_each_device_would_do_and_sends_nothing(fleet: Fleet):
    before = await fleet.runs()
    words = ("write_file", "file_path=/tmp/x", "content=y")
    told = await fleet.run("call", "lab-*,db-1", *words, "--plan", "--json")
    assert {one["device"]: one["outcome"] for one in told.json["plan"]["cells"]}["db-1"] == "no_such_tool"
    one = await fleet.run("call", "lab-1", *MEMORY, "--plan", "--json")
    assert one.json["counts"] == {"runs": 1}
    assert await fleet.runs() == before


async def test_a_run_in_which_one_device_lacks_the_tool_failed_and_is_no_bad_input(fleet: Fleet):
    root = fleet.roots["lab-1"]
    words = ("write_file", f"file_path={root}/some.txt", "content=y")
    told = await fleet.run("call", "name:lab-1,db-1", *words, "--json")
    states = {one["device"]: one["state"] for one in told.json["results"]}
    assert (told.code, states) == (6, {"lab-1": "done", "db-1": "no_such_tool"})
    nowhere = await fleet.run("call", "name:db-*", *words)
    assert nowhere.code == 2


async def test_arguments_of_a_call_on_several_are_as_they_are_written(fleet: Fleet):
    text = "on: ${{ github.event }} and ${{ steps.x.result }}" + " ${{ x }}" * 30
    path = fleet.roots["lab-1"] / "workflow.yml"
    words = ("call", "name:lab-1", "write_file", f"file_path={path}", f"content={text}")
    planned = await fleet.run(*words, "--plan", "--json")
    assert planned.json["counts"] == {"runs": 1}, planned
    told = await fleet.run(*words, "--json")
    assert told.code == 0, told
    assert path.read_text() == text


async def test_a_call_on_several_is_undone_and_resumed_like_a_batch(fleet: Fleet):
    path = fleet.roots["lab-1"] / "undone.txt"
    path.write_text("before")
    words = ("write_file", f"file_path={path}", "content=after")
    # The file is below the roots of one device only.
    told = await fleet.run("call", "tag:lab", *words, "--json")
    number = told.json["run"]["id"]
    assert (told.code, path.read_text()) == (6, "after")
    again = await fleet.run("resume", number, "--json")
    assert [one["device"] for one in again.json["results"]] == ["lab-2"]
    assert (await fleet.run("undo", number, "--json")).code == 0
    assert path.read_text() == "before"


async def test_an_undo_that_meets_a_changed_file_failed_and_is_no_refusal(fleet: Fleet):
    path = fleet.roots["lab-1"] / "changed.txt"
    told = await fleet.run("call", "name:lab-1", "write_file", f"file_path={path}", "content=one", "--json")
    path.write_text("by hand")
    undone = await fleet.run("undo", told.json["run"]["id"], "--json")
    [result] = undone.json["results"]
    assert (undone.code, result["error"]["code"], result["state"]) == (6, "changed_since", "failed")
    assert "put it right by hand" in result["error"]["next"]
    assert path.read_text() == "by hand"


async def test_devices_and_tools_take_a_filter(fleet: Fleet):
    for words in (["tag:lab"], ["list", "tag:lab"], ["tag:lab", "os:linux"], ["lab-*"]):
        told = await fleet.run("devices", *words, "--json")
        assert [one["name"] for one in told.json["devices"]] == ["lab-1", "lab-2"], words
    assert len((await fleet.run("devices", "--json")).json["devices"]) == 4
    assert (await fleet.run("devices", "lab-1")).out.count("lab-") == 1
    none = await fleet.run("devices", "tag:none")
    assert (none.code, "Values of tag" in none.err) == (2, True)
    typo = await fleet.run("devices", "shwo", "lab-1")
    assert (typo.code, "Did you mean 'show'" in typo.err) == (2, True), typo
    listed = (await fleet.run("tools", "name:lab-1,db-1", "--json")).json
    by = {one["tool_name"]: (one["devices"], one["by_all"]) for one in listed["offered"]}
    assert by["write_file"] == (["lab-1"], False)
    assert (sorted(by["read_file"][0]), by["read_file"][1]) == (["db-1", "lab-1"], True)
    shown = await fleet.run("tools", "name:lab-1,db-1")
    assert ("1 of 2: lab-1" in shown.out, "all 2" in shown.out) == (True, True)


BATCH = """
name: Piped
targets: "name:lab-1"
steps:
  - {{id: write, tool: write_file, with: {{file_path: "{path}", content: "piped"}}}}
  - {{id: gone, tool: read_file, with: {{file_path: "{path}.none"}}}}
"""


async def test_a_batch_from_standard_input_is_run_undone_and_resumed(fleet: Fleet):
    path = fleet.roots["lab-1"] / "piped.txt"
    path.write_text("before")
    text = BATCH.format(path=path)
    planned = await fleet.run("run", "-", "--plan", "--json", input=text)
    assert (planned.code, planned.json["batch"]) == (0, "Piped"), planned
    told = await fleet.run("run", "-", "--json", input=text)
    assert (told.code, path.read_text()) == (6, "piped"), told
    number = told.json["run"]["id"]
    path.with_name("piped.txt.none").write_text("now")
    resumed = await fleet.run("resume", number, "--json")
    assert [one["step"] for one in resumed.json["results"]] == ["gone"]
    assert (await fleet.run("resume", number)).code == 12
    assert (await fleet.run("undo", number)).code == 0
    assert path.read_text() == "before"


async def test_what_do_proposes_is_piped_into_a_run(fleet: Fleet):
    proposed = await fleet.run("do", "how much memory is free", "--device", "tag:lab")
    told = await fleet.run("run", "-", "--json", input=proposed.out)
    assert (told.code, sorted(told.json["run"]["devices"])) == (0, ["lab-1", "lab-2"]), told


@pytest.mark.parametrize(
    ("words", "text", "said"),
    [
        ((), "", "standard input:1:1"),
        ((), "name: x\nsteps: 7\n", "standard input:2:"),
        ((), "#" * (1024 * 1024 + 1), "allowed are 1,048,576"),
        (("--input-stdin", "who"), "name: x\n", "--input-stdin cannot read it"),
    ],
)
async def test_what_standard_input_cannot_be_is_said_and_starts_nothing(fleet: Fleet, words, text, said):
    before = await fleet.runs()
    told = await fleet.run("run", "-", *words, input=text)
    assert (told.code, said in told.err) == (2, True), told.err[:500]
    assert "argument" not in told.err
    assert await fleet.runs() == before


async def test_a_terminal_with_nothing_piped_is_told_what_to_write(fleet: Fleet):
    asked = await asyncio.to_thread(Terminal, fleet.home, "run", "-", warm=True)
    assert await asyncio.to_thread(asked.ends) == 2
    assert "quarterdeck run - < FILE" in asked.seen


ASKS = """
name: Asks
targets: "name:lab-1"
steps:
  - {id: s, tool: shell_execute, with: {command: "rm -rf /srv/x"}}
"""


async def test_what_a_piped_batch_asks_waits_in_the_queue(fleet: Fleet):
    told = await fleet.run("run", "-", "--json", input=ASKS)
    assert (told.code, told.json["error"]["code"]) == (10, "approval_pending"), told
    assert (await fleet.run("runs", "stop", told.json["run"])).code == 0
    ended = await asyncio.to_thread(
        until,
        lambda: run(fleet.home, "runs", "show", told.json["run"], "--json").json,
        lambda shown: shown["run"]["state"] == "cancelled",
    )
    assert ended["results"]


COURSE = """
name: Course
targets: "tag:lab"
rollout: {{canary: 1}}
steps:
  - id: flaky
    tool: read_file
    with: {{file_path: "{path}"}}
    retry: {{times: 2, backoff: 1, jitter: 0}}
    recover:
      - {{id: other_way, tool: get_system_info, with: {{info_type: memory}}}}
"""


async def test_attempts_waves_and_recovery_are_told_while_a_run_goes_on_and_in_its_end(fleet: Fleet):
    # Below the roots of lab-1: the other device refuses the path, which is not tried again.
    text = COURSE.format(path=fleet.roots["lab-1"] / "never.txt")
    told = await fleet.run("run", "-", input=text)
    assert told.code == 0, told
    assert "Wave 1 of 2: canary lab-1" in told.err
    assert "Wave 2 of 2: lab-2" in told.err
    assert "lab-1 flaky retrying (attempt 1 of 3): " in told.err
    assert "lab-1 flaky done (" in told.err.split("lab-1 flaky retrying", 1)[1]
    assert "attempt 3 of 3): Recovered by other_way." in told.err
    assert "tried again: lab-1 (attempt 3 of 3)" in told.out
    as_json = await fleet.run("run", "-", "--json", input=text)
    assert [
        (one["device"], one["step"], one["attempts"], one["recovered"], one["wave"])
        for one in as_json.json["results"]
    ] == [
        ("lab-1", "flaky", 3, ["other_way"], 1),
        ("lab-1", "other_way", 1, [], 1),
        ("lab-2", "flaky", 1, ["other_way"], 2),
        ("lab-2", "other_way", 1, [], 2),
    ]
    shown = await fleet.run("runs", "show", as_json.json["run"]["id"])
    assert "done (attempt 3 of 3)" in shown.out


@pytest.mark.parametrize(
    ("canary", "first"), [("name:lab-2", ["lab-2"]), ("50%", ["lab-1"]), ("1", ["lab-1"])]
)
async def test_the_canary_of_a_call_is_a_number_a_part_or_a_filter(
    fleet: Fleet, canary: str, first: list[str]
):
    words = ("call", "name:lab-1,lab-2", "get_system_info", "info_type=memory", "--canary", canary)
    told = await fleet.run(*words, "--plan", "--json")
    assert told.json["plan"]["waves"][0] == first


async def test_a_canary_that_is_nothing_of_these_is_bad_input(fleet: Fleet):
    told = await fleet.run("call", "name:lab-*", "get_system_info", "--canary", "lab", "--plan")
    assert told.code == 2
    assert "canary" in told.err


async def test_on_a_terminal_the_display_has_waves_attempts_and_what_was_recovered(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TERM", "xterm-256color")
    file = fleet.roots["lab-1"] / "course.yaml"
    file.write_text(COURSE.format(path=file.with_name("never.txt")))

    def played() -> Terminal:
        shown = Terminal(fleet.home, "run", str(file))
        try:
            shown.sees("wave 1 of 2: canary lab-1")
            shown.sees("lab-1 flaky " + styled("retrying", STATE_STYLES["retrying"]) + " (attempt 1 of 3): ")
            shown.sees("Recovered by other_way.")
            assert shown.ends() == 0
        finally:
            shown.leave()
        return shown

    assert "tried again: lab-1 (attempt 3 of 3)" in (await asyncio.to_thread(played)).seen


@pytest.mark.parametrize(("line", "devices"), table("command | devices"))
async def test_what_readme_shows_of_several_devices_prints_these(fleet: Fleet, line: str, devices: str):
    told = await fleet.run(*shlex.split(code(line))[1:], "--json")
    assert told.code == 0, told
    found = told.json.get("plan", told.json.get("run", told.json))["devices"]
    names = [one if isinstance(one, str) else one["name"] for one in found]
    assert sorted(names) == sorted(devices.split(", "))

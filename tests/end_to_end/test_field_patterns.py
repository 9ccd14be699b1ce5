"""The patterns that operators bring from the field, as batch files and command lines, each run for real.

They were written from README alone, and are run by the program against a service process with this computer
and two paired devices; `field_patterns/` has the files.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.home import Home
from core.service.console import Console
from tests.fakes.agents import add_agent
from tests.fakes.desk import approve, next_approval
from tests.fakes.gateway import asked, over_stdio
from tests.fakes.program import Ended, run, until
from tests.fakes.remote_device import make_listening_home, paired
from tests.fakes.service_process import service_process
from tests.fakes.signing import anna

FILES = Path(__file__).parent / "field_patterns"
HERE, LAB_1, LAB_2 = "this-computer", "lab-1", "lab-2"
WAITS = "60"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True, slots=True)
class Field:
    """A service process with three devices, and an operator at it."""

    home: Home
    console: Console
    folders: dict[str, Path]

    def starts(self, number: int, *words: str, wait: str = WAITS, **inputs: object) -> list[str]:
        """The command line of one pattern."""
        given = [part for key, value in inputs.items() for part in ("--input", f"{key}={value}")]
        return ["run", str(pattern(number)), "--wait", wait, "--json", *given, *words]

    def plays(self, number: int, *words: str, **inputs: object) -> Ended:
        """Run a pattern that asks for nothing."""
        return run(self.home, *self.starts(number, *words, **inputs))

    async def approved(self, words: list[str]) -> Ended:
        """Run a command line, and approve what it asks for."""
        async with asyncio.TaskGroup() as group:
            running = group.create_task(asyncio.to_thread(run, self.home, *words))
            await approve(self.console, await next_approval(self.console), anna(self.home))
        return running.result()


def pattern(number: int) -> Path:
    """The file of a pattern."""
    [file] = FILES.glob(f"{number:02}_*.yaml")
    return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def field(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Field]:
    folder = tmp_path_factory.mktemp("field")
    home = make_listening_home(folder / "home")
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(service_process(home))
        console = await service.console()
        await console.approvals.register_operator(anna(home).operator)
        for name in (LAB_1, LAB_2):
            said = await asyncio.to_thread(run, home, "pair", name, "--tag", "lab", "--operator", "anna")
            [line] = [line for line in said.out.splitlines() if line.startswith("qd1.")]
            await stack.enter_async_context(paired(folder / name, line))
        await asyncio.to_thread(all_online, home)
        folders = {name: folder / name / "root" for name in (LAB_1, LAB_2)}
        yield Field(home, console, folders | {HERE: folder})


def all_online(home: Home) -> None:
    until(
        lambda: [one["health"] for one in run(home, "devices", "--json").json["devices"]],
        lambda healths: healths == ["online"] * 3,
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Below the temporary folder, which is one of this computer's roots."""
    return tmp_path


def states(ended: Ended) -> dict[str, str]:
    """The state of each step, of a run on one device."""
    return {result["step"]: result["state"] for result in ended.json["results"]}


def result_of(ended: Ended, step: str) -> Any:
    """The result of a step, of a run on one device."""
    [result] = [one for one in ended.json["results"] if one["step"] == step]
    return result


async def test_01_several_reads_over_all_devices(field: Field):
    done = await asyncio.to_thread(field.plays, 1)
    assert (done.code, done.json["run"]["state"]) == (0, "done")
    got = {(one["device"], one["step"]): one["verdict"] for one in done.json["results"]}
    assert got == dict.fromkeys(
        ((device, step) for device in (HERE, LAB_1, LAB_2) for step in ("memory", "disk", "processes")),
        "confirmed",
    )


async def test_02_a_file_is_made_only_when_it_is_missing(field: Field, place: Path):
    made = await field.approved(field.starts(2, file=place / "made"))
    assert (made.code, states(made)) == (0, {"look": "done", "make": "done"})
    assert (place / "made").read_text() == "made\n"
    again = await asyncio.to_thread(field.plays, 2, file=place / "made")
    assert (again.code, states(again)) == (0, {"look": "done", "make": "skipped"})
    assert again.json["run"]["state"] == "done"


async def test_03_one_way_else_another_ends_done(field: Field, place: Path):
    (place / "second").write_text("two")
    done = await asyncio.to_thread(field.plays, 3, first=place / "none", second=place / "second")
    assert (done.code, done.json["run"]["state"]) == (0, "done")
    assert states(done) == {"read": "done", "read_other": "done"}
    assert result_of(done, "read")["recovered"]
    assert result_of(done, "read_other")["result"]["content"] == "two"


async def test_04_what_fails_is_repaired_and_the_run_goes_on(field: Field, place: Path):
    done = await field.approved(field.starts(4, pid_file=place / "pid"))
    assert done.code == 0
    assert states(done) == dict.fromkeys(("check", "repair", "check_again", "go_on"), "done")


HOSTILE = "'; touch {0}; $(touch {0}) `touch {0}` \" ${{{{ inputs.text }}}} | tee {0} & -x \\"


async def test_05_hostile_text_is_one_word_of_the_line(field: Field, place: Path):
    text = HOSTILE.format(place / "taken")
    done = await field.approved(field.starts(5, text=text))
    assert (done.code, result_of(done, "say")["result"]["stdout"]) == (0, f"<{text}>")
    assert not (place / "taken").exists()


@pytest.mark.parametrize(
    ("inputs", "code", "says"),
    [
        ({"text": "a", "level": "mid"}, 2, "level is not one of low, high"),
        ({"text": "a", "times": "x"}, 2, "times must be integer"),
        ({"txt": "a"}, 2, "txt is not an input of this batch"),
        ({"text": ""}, 6, "which is false"),
        ({"text": "a", "times": 9}, 6, "which is false"),
    ],
)
async def test_05_inputs_that_do_not_fit_reach_no_shell(
    field: Field, inputs: dict[str, str], code: int, says: str
):
    ended = await asyncio.to_thread(field.plays, 5, **inputs)
    assert ended.code == code
    assert says in ended.out
    assert code == 2 or states(ended)["say"] == "not_started"


async def test_06_a_step_is_tried_again_until_it_succeeds(field: Field, place: Path):
    late = place / "late"
    failed = f"tool:read_file status:failure {late}"
    async with asyncio.TaskGroup() as group:
        running = group.create_task(asyncio.to_thread(field.plays, 6, file=late))
        await asyncio.to_thread(
            until, lambda: run(field.home, "audit", "find", failed, "--json").json["total"], bool
        )
        late.write_text("there")
    done = running.result()
    assert (done.code, states(done)) == (0, {"wait": "done"})
    assert result_of(done, "wait")["attempts"] > 1


async def test_07_a_time_out_says_so_and_keeps_what_was_printed(field: Field):
    ended = await field.approved(field.starts(7))
    slow = result_of(ended, "slow")
    assert (ended.code, slow["error"]["code"]) == (6, "timeout")
    assert slow["result"]["stdout"] == "begun\n"


async def test_08_a_failed_canary_stops_before_the_others(field: Field):
    stopped = await asyncio.to_thread(field.plays, 8, most=-1)
    got = [one["state"] for one in stopped.json["results"]]
    assert (stopped.code, sorted(got)) == (6, ["failed", "not_started", "not_started"])
    assert "the batch stops at 1" in stopped.out


async def test_09_each_of_two_devices_is_approved_by_itself(field: Field):
    """What is granted for a run holds on the device of its request alone."""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(asyncio.to_thread(run, field.home, *field.starts(9)))
        waiting = await asyncio.to_thread(
            until,
            lambda: run(field.home, "approvals", "list", "--json").json["approvals"],
            lambda found: len(found) == 2,
        )
        first, second = (("approvals", "approve", one["id"], "--operator", "anna") for one in waiting)
        signed = await asyncio.to_thread(run, field.home, *first, "--for-run")
        assert signed.code == 0
        left = await asyncio.to_thread(run, field.home, "approvals", "list", "--json")
        assert [one["id"] for one in left.json["approvals"]] == [waiting[1]["id"]]
        assert (await asyncio.to_thread(run, field.home, *second)).code == 0
    done = running.result()
    assert done.code == 0
    assert {one["device"]: one["result"]["stdout"] for one in done.json["results"]} == {
        LAB_1: "acted\n",
        LAB_2: "acted\n",
    }


async def test_10_an_agent_runs_a_saved_batch(field: Field):
    field.home.batches.mkdir(exist_ok=True)
    (field.home.batches / "lab-health.yaml").write_text(pattern(10).read_text())
    token = await add_agent(field.console, anna(field.home), "night-shift")
    async with over_stdio(field.home, token) as agent:
        listed = await asked(agent, "run_batch")
        assert "lab-health" in str(listed["batches"])
        done = await asked(agent, "run_batch", batch="lab-health")
    assert done["state"] == "done"
    assert LAB_1 in str(done)
    assert LAB_2 in str(done)


async def test_11_a_change_is_undone(field: Field, place: Path):
    file = place / "kept"
    file.write_text("before\n")
    changed = await field.approved(field.starts(11, file=file))
    assert (changed.code, file.read_text()) == (0, "changed\n")
    number = changed.json["run"]["id"]
    plan = await asyncio.to_thread(run, field.home, "undo", number, "--plan")
    assert (plan.code, file.read_text()) == (0, "changed\n")
    undone = await field.approved(["undo", number, "--wait", WAITS, "--json"])
    assert (undone.code, file.read_text()) == (0, "before\n")


async def test_12_a_run_goes_on_after_the_service_was_killed(tmp_path: Path):
    home, file = make_listening_home(tmp_path / "home"), tmp_path / "file"
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(anna(home).operator)
        words = Field(home, console, {}).starts(12, wait="0", file=file)
        waits = await asyncio.to_thread(run, home, *words)
        assert waits.code == 10
        number = waits.json["run"]
        await service.kill()
    async with service_process(home) as again:
        field = Field(home, await again.console(), {})
        resumed = await field.approved(["resume", number, "--wait", WAITS, "--json"])
    assert resumed.code == 0
    assert file.read_text() == "second\n"


async def test_13_why_a_command_failed_is_found_out(field: Field, place: Path):
    none = place / "none"
    failed = await asyncio.to_thread(
        run, field.home, *shlex.split(f"call {HERE} read_file file_path={none} --json")
    )
    assert failed.code == 6
    answer = failed.json
    assert (answer["error"]["code"], answer["stage"]) == ("tool_failed", "observe")
    assert str(none) in answer["error"]["message"]
    assert answer["error"]["next"]
    found = await asyncio.to_thread(run, field.home, "audit", "find", f"call:{answer['call_id']}", "--json")
    assert {entry["kind"] for entry in found.json["entries"]} >= {"command_sent"}


async def test_14_whether_each_device_is_able_to(field: Field):
    """The plan says who would refuse, before anything is sent."""
    inside = field.folders[LAB_1] / "x"
    plan = await asyncio.to_thread(field.plays, 14, "--plan", file=inside)
    why = {cell["device"]: cell["why"] for cell in plan.json["plan"]["cells"]}
    assert plan.code == 0
    assert "will refuse it" in why[LAB_2]
    assert "will refuse it" not in why[LAB_1]
    assert not inside.exists()
    no_tool = await asyncio.to_thread(
        run, field.home, "policy", "explain", LAB_1, "shell_execute_read", "--json"
    )
    assert (no_tool.code, no_tool.json["error"]["code"]) == (2, "unknown_tool")
    assert (await asyncio.to_thread(run, field.home, "devices", "doctor", LAB_1)).code == 0

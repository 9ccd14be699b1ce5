"""A call that closes a program by its name is bound to one process before it is judged."""

from __future__ import annotations

from typing import Any

import pytest

from core.aip.messages import Command, Result, ResultStatus
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.rig import TEXT, Rig, open_rig, tool_info

INTEGER = {"type": "integer"}
TOOLS = [
    tool_info("close_application", "action", {"process_name": TEXT, "app_root_name": TEXT, "pid": INTEGER}),
    tool_info("list_processes", "data_collection", {"program": TEXT, "max_rows": INTEGER}),
]
EVERYTHING = '[[rule]]\nid = "all"\ndecision = "allow"\nrisk = ["low", "medium", "high", "critical"]\n'
DENIED = '[[rule]]\nid = "no"\ndecision = "deny"\ntool = "list_processes"\nreason = "Not here."\n'


def answer(rig: Rig, *pids: int, **more: Any) -> None:
    rows = [{"pid": pid, "windows": [f"window of {pid}"]} for pid in pids]
    listed = {"processes": rows, "total": len(rows), "truncated": False, **more}
    rig.tools.answers["list_processes"] = lambda command: Result(status=ResultStatus.SUCCESS, result=listed)
    rig.tools.answers["close_application"] = lambda command: Result(
        status=ResultStatus.SUCCESS, result={"closed": [(command.parameters or {}).get("pid")]}
    )


def sent(rig: Rig) -> list[dict[str, Any] | None]:
    seen: list[Command] = rig.tools.seen
    return [command.parameters for command in seen if command.tool_name == "close_application"]


@pytest.mark.parametrize("named", ["process_name", "app_root_name"])
async def test_a_name_becomes_the_only_process_that_has_it(home: Home, named: str):
    home.policy.write_text(EVERYTHING)
    async with open_rig(home, TOOLS) as rig:
        answer(rig, 4711)
        assert (await rig.call("close_application", **{named: "xterm"})).error is None
        assert sent(rig) == [{named: "xterm", "pid": 4711}]
        # A call that names the process is sent as it is.
        assert (await rig.call("close_application", pid=9)).error is None
        assert sent(rig)[1:] == [{"pid": 9}]


@pytest.mark.parametrize(
    ("pids", "more", "code", "says"),
    [
        ((1, 2), {}, ErrorCode.INVALID_ARGUMENTS, "process 2 with the window “window of 2”"),
        ((1,), {"total": 12}, ErrorCode.INVALID_ARGUMENTS, "12 programs are called"),
        ((), {}, ErrorCode.NOT_FOUND, "No program is called 'xterm'"),
        ((1,), {"processes": [{"pid": "one"}]}, ErrorCode.NOT_FOUND, "No program"),
    ],
)
async def test_what_is_not_exactly_one_program_is_refused_before_it_is_sent(
    home: Home, pids: tuple[int, ...], more: dict[str, Any], code: ErrorCode, says: str
):
    home.policy.write_text(EVERYTHING)
    async with open_rig(home, TOOLS) as rig:
        answer(rig, *pids, **more)
        result = await rig.call("close_application", process_name="xterm")
        assert result.error is not None
        assert result.error.code is code
        assert says in result.error.message
        assert sent(rig) == []


async def test_the_look_is_judged_as_a_read_of_the_asker(home: Home):
    """A caller that may not list processes learns of none by asking to close one."""
    home.policy.write_text(EVERYTHING + DENIED)
    async with open_rig(home, TOOLS) as rig:
        answer(rig, 4711, 4712)
        result = await rig.call("close_application", process_name="xterm")
        assert result.error is not None
        assert result.error.code is ErrorCode.DENIED_BY_POLICY
        assert "Name its pid" in result.error.message
        assert "4711" not in result.error.message
        assert rig.tools.seen == []

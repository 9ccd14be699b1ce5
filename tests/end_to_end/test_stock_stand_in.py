"""Our stand-in for the stock UFO client beside the real one: the same frames, the same answers and silences.

Opt-in like test_stock_ufo.py, and run in the same way.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from core.aip.device_link import DeviceLink
from core.aip.limits import LinkLimits
from core.aip.messages import Command, Result
from core.errors import DeviceError, ErrorCode
from core.models.tools import ToolType
from tests.fakes import stock_client as stand_in
from tests.fakes.aip_house import House, running_house, soon
from tests.fakes.patience import PATIENCE_S
from tests.fakes.stock_ufo import API_KEY, WHY_NOT, stock_ufo

pytestmark = [pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT), pytest.mark.slow]

SILENT = "silent"
# Far above what an answer takes, as the one sign of silence is that nothing came.
SILENCE_S = 2.0


def command(tool: str, tool_type: ToolType = "action", /, **parameters: Any) -> Command:
    return Command(tool_name=tool, tool_type=tool_type, parameters=parameters, call_id="c")


def run(line: str, key: str = API_KEY, **more: Any) -> Command:
    return command("execute_command", command=line, api_key=key, **more)


KEYLESS = command("execute_command", command="echo a")
FRAMES: dict[str, list[Command]] = {
    "done": [run("echo a")],
    "exit code": [run("test 1 = 2")],
    "wrong key": [run("echo a", "wrong")],
    "not allowed": [run("shutdown now")],
    "too slow": [run("tail -f /dev/null", timeout=1)],
    "missing argument": [KEYLESS],
    "unknown argument": [run("echo a", more=1)],
    "the rest is skipped": [run("echo a"), KEYLESS, run("echo b"), command("")],
    "a soft failure skips nothing": [run("test 1 = 2"), run("echo b")],
    "no tool": [command("")],
    "unknown tool": [command("no_such_tool")],
    "unknown tool later": [run("echo a"), command("no_such_tool")],
    "wrong type": [command("get_system_info", "data_collection", api_key=API_KEY)],
    "system": [command("get_system_info", api_key=API_KEY)],
    "system, wrong key": [command("get_system_info", api_key="wrong")],
    "listing": [command("list_tools", tool_type=None)],
    "listing of actions": [command("list_tools", tool_type="action")],
    "listing of nothing": [command("list_tools", namespace="Nobody")],
    "listing with a stray argument": [command("list_tools", stray=1)],
    "listing with meta tools": [command("list_tools", remove_meta=False)],
    "listing of a type it has not": [command("list_tools", "data_collection")],
}


async def says(house: House, link: DeviceLink, commands: list[Command]) -> Any:
    try:
        results = await soon(house.send(link, *commands, timeout=SILENCE_S), PATIENCE_S)
    except DeviceError as error:
        return SILENT if error.code is ErrorCode.OUTCOME_UNKNOWN else error.info
    return [comparable(result) for result in results]


def comparable(result: Result) -> dict[str, Any]:
    """What of a result does not depend on the machine or on the version of the server behind the client."""
    value = result.result
    if isinstance(value, dict) and "uname" in value:
        value = sorted(value)
    if isinstance(value, list):
        value = [tool_shape(row) if isinstance(row, dict) else row for row in value]
    error = result.error
    if result.status.value == "failure":
        error = bool(error)  # The words are those of the MCP library.
    return {**result.model_dump(mode="json"), "result": value, "error": error}


def tool_shape(row: dict[str, Any]) -> dict[str, Any]:
    schema = row["input_schema"]
    said = {"title", "description", "input_schema", "output_schema", "meta", "annotations"}
    arguments = {"arguments": sorted(schema["properties"]), "required": sorted(schema["required"])}
    return {"fields": list(row), **arguments, **{name: row[name] for name in row if name not in said}}


async def test_the_stand_in_answers_and_is_silent_where_the_real_client_is(tmp_path: Path) -> None:
    ufo = stock_ufo(tmp_path)
    async with running_house(LinkLimits()) as house, ufo.bash_server():
        url = house.server.url
        async with (
            ufo.client(f"{url}?token=token-one", "d1"),
            stand_in.stock_client(f"{url}?token=token-two", "d2"),
        ):
            links = {
                link.name: link for link in [await soon(house.connected.get(), PATIENCE_S) for _ in "12"]
            }
            real, ours = links["d1"], links["d2"]
            assert registered(real) == registered(ours)
            # The first command makes it connect to its MCP server, which may take longer than silence.
            [warm] = await soon(real.send_commands([run("echo warm")], PATIENCE_S), PATIENCE_S)
            assert warm.result["stdout"] == "warm\n"
            different = {}
            for name, commands in FRAMES.items():
                answers = await asyncio.gather(*(says(house, link, commands) for link in (real, ours)))
                if answers[0] != answers[1]:
                    different[name] = answers
            assert different == {}
            for link in (real, ours):
                link.agent_name = "NoSuchAgent"
                assert await says(house, link, [command("")]) == SILENT
            assert re.search(r"Agent configuration for NoSuchAgent not found", ufo.log())


def registered(link: DeviceLink) -> Any:
    """The shape of what a client says of itself."""
    system = link.metadata["system_info"]
    return list(link.metadata), list(system), system["supported_features"], link.features

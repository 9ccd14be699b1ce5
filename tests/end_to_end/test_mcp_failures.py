"""A hosted MCP tool that failed, as the console judges it: real server, real device, the whole way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.aip.messages import ResultStatus
from core.approvals.operator_keys import statement_for
from core.batch.live_run import cell_state_of
from core.batch.models import CellState
from core.commands.request import CommandRequest
from core.commands.results import Basis
from core.errors import ErrorCode
from core.home import Home
from core.service import exit_codes, result_codes
from tests.fakes.hosting_console import CHANNELS, NAME, hosting_console
from tests.fakes.mcp_server import rogue
from tests.fakes.rig import Rig

# Each as a public server was seen to answer, or as MCP's SDK wraps what a Python function returns.
NO_FILE = {"success": False, "exit_code": 2, "stdout": "", "stderr": "ls: cannot access '/nowhere'"}
ANSWERS: list[tuple[dict[str, Any], str]] = [
    (
        {"content": [{"type": "text", "text": json.dumps(NO_FILE)}], "structuredContent": NO_FILE},
        "Exit code 2: ls: cannot access '/nowhere'",
    ),
    (
        {"content": [], "structuredContent": {"success": False, "error": "no such arm"}},
        "The tool says it did not succeed: no such arm",
    ),
    ({"content": [], "structuredContent": {"exit_code": 2}}, "Exit code 2."),
    (
        {"content": [], "structuredContent": {"result": {"error": "No presentation is currently loaded"}}},
        "No presentation is currently loaded",
    ),
    (
        {"content": [], "structuredContent": {"result": json.dumps(NO_FILE)}},
        "Exit code 2: ls: cannot access '/nowhere'",
    ),
    ({"content": [{"type": "text", "text": '{"error": "fetch failed"}'}]}, "fetch failed"),
]


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_failing_tool_of_a_hosted_server_failed(home: Home, tmp_path: Path, channel: str):
    async with hosting_console(home, tmp_path, rogue(tools=["say"]), channel) as (rig, _):
        for answer, words in ANSWERS:
            request = CommandRequest(NAME, "rogue_say", {"answer": answer}, "operator:anna")
            result = await _approved(rig, request)
            assert result.status is ResultStatus.FAILURE, words
            assert result.error is not None, words
            assert (result.error.code, result.error.message) == (ErrorCode.TOOL_FAILED, words)
            assert result.basis is Basis.DEVICE_REPORTED_FAILURE, words
            assert result_codes.of_result(result) == exit_codes.TOOL_FAILED, words
            # Where a batch stops on failure, it stops here.
            assert cell_state_of(result) is CellState.FAILED, words


async def _approved(rig: Rig, order: CommandRequest) -> Any:
    task = rig.tasks.spawn("call", rig.dispatcher.dispatch(order))
    approval = await rig.asked.get()
    await rig.approvals.decide(rig.key.sign(statement_for(approval, "approve", "anna")))
    return await task

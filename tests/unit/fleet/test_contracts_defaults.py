"""A default that a server lists in another order at each start blocks nothing; any other change does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.aip.contract_digest import definition_of
from core.aip.messages import ToolInfo
from core.audit.entries import Kind
from core.errors import ErrorCode
from core.fleet.contracts import read_tool
from core.home import Home
from core.models.tools import Tool
from tests.fakes.rig import DEVICE, TEXT, Rig, open_rig, tool_info

# As mcp-atlassian's jira_search has it: made from a Python set.
FIELDS = {**TEXT, "default": "summary,status,assignee"}
REORDERED = {**TEXT, "default": "assignee, summary,status"}


def search(fields: dict[str, Any], required: list[str] | None = None) -> ToolInfo:
    return tool_info("search", "action", {"fields": fields, "jql": TEXT}, required, namespace="atlassian")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


async def listed(rig: Rig, info: ToolInfo) -> Tool:
    rig.tools.infos = [info]
    await rig.fleet.relist(DEVICE)
    [tool] = rig.fleet.tools(DEVICE)
    return tool


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FIELDS, REORDERED),
        ({"type": "array", "default": ["a", "b", "c"]}, {"type": "array", "default": ["c", "a", "b"]}),
    ],
)
async def test_a_default_in_another_order_is_the_same_tool(
    home: Home, before: dict[str, Any], after: dict[str, Any]
):
    async with open_rig(home, [search(before)]):
        pass
    async with open_rig(home, [search(after)]) as rig:
        [tool] = rig.fleet.tools(DEVICE)
        assert not tool.changed
        assert tool.input_schema["properties"]["fields"] == after
        # What an approval is bound to is the tool as it is listed now, which its device computes as well.
        assert tool.contract.digest != (await listed(rig, search(before))).contract.digest
        change = await rig.fleet.change(DEVICE, tool.tool_key)
        assert change.before == change.after
        assert not [entry for entry in await rig.entries() if entry.kind is Kind.CONTRACT_CHANGED]


@pytest.mark.parametrize(
    "now",
    [
        search({**TEXT, "default": "summary,status,password"}),
        search({**TEXT, "default": "summary,status"}),
        search({**TEXT, "default": "summary status assignee"}),
        search({**FIELDS, "description": "Other"}),
        search({**FIELDS, "enum": ["a"]}),
        search(REORDERED, ["fields"]),
    ],
)
async def test_any_other_change_blocks_the_tool(home: Home, now: ToolInfo):
    async with open_rig(home, [search(FIELDS)]) as rig:
        assert (await listed(rig, now)).changed
        result = await rig.call("search")
        assert result.error is not None
        assert result.error.code is ErrorCode.CONTRACT_CHANGED
        assert not rig.tools.seen


async def test_the_default_of_a_required_argument_is_sent_so_that_its_order_counts(home: Home):
    async with open_rig(home, [search(FIELDS, ["fields"])]) as rig:
        assert (await listed(rig, search(REORDERED, ["fields"]))).changed


def test_a_tool_without_such_a_default_is_pinned_by_its_whole_definition():
    for fields in (TEXT, {**TEXT, "default": "one"}, {"default": 3}, {"default": {"b": 1, "a": 2}}):
        offered = read_tool(search(fields))
        assert offered.digest == offered.exact
    assert definition_of(search(FIELDS))["input_schema"]["properties"]["fields"] == FIELDS

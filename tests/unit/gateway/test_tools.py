"""The list of tools: what it costs an agent, and that it says what each tool is."""

from __future__ import annotations

import json

import pytest

from core.errors import BadInput
from core.gateway.agent_session import Tickets
from core.gateway.tools import TOOLS


def test_the_list_of_tools_costs_an_agent_less_than_1200_tokens():
    listed = [tool.listed() for tool in TOOLS]
    # English and JSON have some four characters a token.
    assert len(json.dumps({"tools": listed}, separators=(",", ":"))) / 4 < 1_200


def test_every_tool_has_annotations_and_schemas_of_objects():
    for tool in (tool.listed() for tool in TOOLS):
        annotations = tool["annotations"]
        assert annotations["readOnlyHint"] is not ("destructiveHint" in annotations)
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        assert "$ref" not in json.dumps(tool["inputSchema"])
    reads = {tool.name for tool in TOOLS if tool.annotations["readOnlyHint"]}
    assert reads == {"list_devices", "search_tools", "describe_tool", "wait_run", "get_evidence"}


def test_a_ticket_leads_its_own_agent_to_its_run_and_no_other_one():
    mine, theirs = Tickets("claude.secret"), Tickets("other.secret")
    ticket = mine.of("r-0042")
    assert mine.run(ticket) == "r-0042"
    assert Tickets("claude.secret").of("r-0042") == ticket
    assert "0042" not in ticket
    altered = [
        ticket[:at] + ("A" if ticket[at] != "A" else "B") + ticket[at + 1 :] for at in range(len(ticket))
    ]
    for wrong in [
        *altered,
        "",
        "r-0042",
        ticket + "A",
        ticket[:-1],
        ticket + "=",
        " " + ticket,
        theirs.of("r-1"),
    ]:
        with pytest.raises(BadInput):
            mine.run(wrong)
    with pytest.raises(BadInput):
        theirs.run(ticket)

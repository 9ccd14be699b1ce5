"""Calls, tools and policies for tests of judging, without a dispatcher around them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from core.aip.messages import ToolInfo
from core.fleet.contracts import read_tool, tool_of
from core.models.devices import Device, Health
from core.models.tools import Risk, Tool, ToolType
from core.policy.engine import PolicyEngine, PolicyQuery
from core.policy.grant_book import GrantBook
from core.policy.models import Decision
from core.policy.policy_file import PolicyFile, parse_policy
from core.policy.rules import MatchContext

MONDAY_NOON = datetime.fromisoformat("2026-11-16T12:00:00+01:00")
NO_ETC = """
[[rule]]
id = "no-system-files"
decision = "deny"
tool = "write_file"
reason = "System files are managed elsewhere."
[rule.parameters.file_path]
below = "/etc"
[[rule.match]]
parameters = {file_path = "/etc/hosts"}
[[rule.not_match]]
parameters = {file_path = "/etcetera"}
"""


def a_device(name: str = "lab-1", *tags: str, production: bool = False) -> Device:
    return Device(name=name, health=Health.ONLINE, since="", tags=list(tags), production=production)


def a_tool(name: str = "write_file", tool_type: ToolType = "action", namespace: str = "builtin") -> Tool:
    info = ToolInfo(
        tool_key=f"{tool_type}::{name}",
        tool_name=name,
        tool_type=tool_type,
        namespace=namespace,
        description=name,
        input_schema={"type": "object"},
    )
    return tool_of("lab-1", read_tool(info), change="")


def a_question(
    parameters: dict[str, Any] | None = None,
    *,
    device: Device | None = None,
    tool: Tool | None = None,
    actor: str = "operator:anna",
    risk: Risk = Risk.MEDIUM,
    moment: datetime = MONDAY_NOON,
    **more: Any,
) -> MatchContext:
    return MatchContext(
        device=device or a_device(),
        tool=tool or a_tool(),
        parameters=parameters or {},
        actor=actor,
        risk=risk,
        at=moment,
        **more,
    )


def judged(
    policy: str | PolicyFile,
    tool: str | Tool = "write_file",
    parameters: dict[str, Any] | None = None,
    *,
    device: Device | None = None,
    grants: GrantBook | None = None,
    problem: str = "",
    **more: Any,
) -> Decision:
    """What a policy says of one call."""
    file = parse_policy(policy) if isinstance(policy, str) else policy
    sent = {"file_path": "/home/anna/a.txt", "content": "x"} if parameters is None else parameters
    asked = PolicyQuery(
        device=device or a_device(),
        tool=a_tool(tool) if isinstance(tool, str) else tool,
        parameters=sent,
        redacted=sent,
        actor=more.pop("actor", "operator:anna"),
        moment=more.pop("moment", MONDAY_NOON),
        **more,
    )
    return PolicyEngine(file).decide(asked, grants or GrantBook(), problem)


def rule(decision: str, more: str = "", name: str = "r") -> str:
    return f'[[rule]]\nid = "{name}"\ndecision = "{decision}"\n{more}\n'

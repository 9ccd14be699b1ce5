"""The tools of the gateway: their names, arguments, results and annotations.

An agent pays for this list with every conversation, so it stays below 1,200 tokens whatever the fleet offers
(`tests/unit/gateway/test_tools.py`). Clients get it before the SDK is imported, which nothing here needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

# Some agent programs give up a call after 5 s, and then never learn how their run stands.
DEFAULT_WAIT, LONGEST_WAIT = 4.0, 240.0
MOST_COMMANDS = 50


class Arguments(BaseModel):
    """Base of the arguments of a tool; unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=1_000_000)


class ListDevices(Arguments):
    """Arguments of `list_devices`."""

    filter: str = Field(default="", description="such as os:linux tag:lab !name:db-*")


class SearchTools(Arguments):
    """Arguments of `search_tools`."""

    words: str
    filter: str = ""
    limit: int = Field(default=10, ge=1, le=50)


class DescribeTool(Arguments):
    """Arguments of `describe_tool`."""

    device: str
    tool: str


class Command(Arguments):
    """One command of `run_commands`."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class RunCommands(Arguments):
    """Arguments of `run_commands`."""

    devices: str = Field(description="a name or a filter")
    commands: list[Command] = Field(min_length=1, max_length=MOST_COMMANDS)
    parallel: bool = False
    reason: str = Field(default="", description="for the operator", max_length=2_000)
    timeout: float | None = Field(default=None, gt=0, le=86_400, description="seconds a command")
    request_id: str = Field(default="", description="repeat it to ask again safely", max_length=200)


class RunBatch(Arguments):
    """Arguments of `run_batch`."""

    batch: str = Field(default="", description="leave out to list them")
    devices: str = Field(default="", description="instead of the batch's targets")
    inputs: dict[str, Any] = Field(default_factory=dict)
    reason: str = Field(default="", max_length=2_000)
    request_id: str = Field(default="", max_length=200)


class WaitRun(Arguments):
    """Arguments of `wait_run`."""

    ticket: str = Field(default="", description="leave out to list your runs")
    seconds: float = Field(
        default=DEFAULT_WAIT, ge=0, le=LONGEST_WAIT, description="more only if your client waits so long"
    )


class CancelRun(Arguments):
    """Arguments of `cancel_run`."""

    ticket: str


class GetEvidence(Arguments):
    """Arguments of `get_evidence`."""

    ticket: str
    item: str = Field(default="", description="a blob or call_id; leave out to list them")
    offset: int = Field(default=0, ge=0)


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One tool: `results` are the names of the members of its result, with their JSON types.

    `annotations` are those of the protocol.
    """

    name: str
    description: str
    arguments: type[Arguments]
    results: dict[str, str]
    annotations: dict[str, bool]

    def listed(self) -> dict[str, Any]:
        """The tool as clients list it."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": _compact(self.arguments.model_json_schema()),
            "outputSchema": {
                "type": "object",
                "properties": {name: {"type": kind} for name, kind in self.results.items()},
            },
            "annotations": self.annotations,
        }


_READS = {"readOnlyHint": True, "openWorldHint": False}
_CHANGES = {"readOnlyHint": False, "destructiveHint": True}
_CANCELS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True}
_RUN = {"ticket": "string", "state": "string", "results": "array", "waiting": "array", "next": "string"}

TOOLS = (
    ToolDefinition(
        "list_devices",
        "The devices you may use.",
        ListDevices,
        {"devices": "array", "more": "integer"},
        _READS,
    ),
    ToolDefinition(
        "search_tools",
        "Find tools of devices by what they do.",
        SearchTools,
        {"tools": "array"},
        _READS,
    ),
    ToolDefinition(
        "describe_tool",
        "One tool: its arguments (JSON Schema), result fields, effect and risk.",
        DescribeTool,
        {"tool": "object"},
        _READS,
    ),
    ToolDefinition(
        "run_commands",
        "Run tools on devices. Reads answer at once. What an operator must approve gives a ticket: call "
        "wait_run with it. A ticket holds as long as your token, also after restarts. Do not ask again "
        "meanwhile.",
        RunCommands,
        _RUN,
        _CHANGES,
    ),
    ToolDefinition(
        "run_batch",
        "Run a batch that an operator has saved; answers like run_commands.",
        RunBatch,
        {**_RUN, "batches": "array"},
        _CHANGES,
    ),
    ToolDefinition(
        "wait_run",
        "Wait for a run; call it again while state is running or waiting, for hours if need be.",
        WaitRun,
        {**_RUN, "open": "array", "ended": "array"},
        _READS,
    ),
    ToolDefinition("cancel_run", "Cancel a run and withdraw its requests.", CancelRun, _RUN, _CANCELS),
    ToolDefinition(
        "get_evidence",
        "Pictures and long outputs of a run, a part at a time.",
        GetEvidence,
        {"items": "array", "text": "string", "next_offset": "integer"},
        _READS,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}


# Of a schema: what tells an agent nothing, or what the gateway says itself when it is not kept.
_LEFT_OUT = frozenset(
    "title $defs maxLength minItems exclusiveMinimum additionalProperties propertyNames".split()
)


def _compact(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without titles, defaults that say nothing, and references, which cost tokens."""
    definitions = schema.get("$defs", {})

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return walk(definitions[node["$ref"].rpartition("/")[2]])
        kept = {
            key: walk(value)
            for key, value in node.items()
            if key not in _LEFT_OUT
            and not (key == "default" and value in ("", None, False, {}))
            and not (key == "description" and node.get("type") == "object")
        }
        # pydantic writes an optional number as a choice between it and null.
        choices = kept.pop("anyOf", None)
        return {**choices[0], **kept} if choices else kept

    compacted: dict[str, Any] = walk(schema)
    return compacted

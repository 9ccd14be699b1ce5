"""Reads the tool definitions that an MCP server lists, and refuses unusable ones with a reason."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from core.aip.messages import ToolInfo
from core.aip.pending_requests import weight
from core.device.mcp.numbers import odd_number
from core.errors import DeviceError, ErrorCode
from core.json_walk import walk
from core.models.tools import ToolType
from core.schema_forms.document import subschemas
from core.schema_forms.validator import Validator
from core.text import sentences

MOST_TOOLS = 2000
MOST_PAGES = 400
MOST_DESCRIPTION = 16_000
MOST_DEFINITION = 256 * 1024
MOST_DEFINITIONS = 8 * 1024 * 1024
# Subschemas of all tools together: about 0.4 ms each to read. 2000 tools with ten arguments have this many.
MOST_PARTS = 25_000
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_MOST_REFUSED = 50
# Validation steps for one answer: enough for 20 000 rows of ten values.
_MOST_STEPS = 300_000
_DEEPEST = 60


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool of a server. `digest` is the JSON of its whole definition, for comparison.

    `weight` is what a console counts for it in a list of tools (`core.aip.pending_requests.weight`).
    """

    name: str
    title: str
    tool_type: ToolType
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any] | None
    meta: dict[str, Any]
    digest: bytes
    weight: int = field(compare=False)
    output: Validator | None = field(default=None, compare=False, repr=False)

    def info(self, offered: str, server: str) -> ToolInfo:
        """The tool as AIP lists it, under the name that this device offers it by."""
        return ToolInfo(
            tool_key=f"{self.tool_type}::{offered}",
            tool_name=offered,
            title=self.title,
            namespace=server,
            tool_type=self.tool_type,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            meta=self.meta or None,
            annotations=self.annotations,
        )

    def check_result(self, answer: dict[str, Any]) -> None:
        """Validate an answer against the output schema. Slow for a large answer: not for the event loop.

        Raises:
            DeviceError: the answer does not match the schema (code `bad_result`).
        """
        if self.output is None:
            return
        if "structuredContent" not in answer:
            raise DeviceError(f"{self.name} promises structured content and sent none.", ErrorCode.BAD_RESULT)
        faults = self.output.errors(answer["structuredContent"], _MOST_STEPS)
        if faults:
            place = "".join(f"[{part!r}]" for part in faults[0].path)
            raise DeviceError(
                sentences(
                    f"{self.name} sent what its output schema does not allow: structured{place}: "
                    f"{faults[0].message[:300]}"
                ),
                ErrorCode.BAD_RESULT,
            )


@dataclass(frozen=True, slots=True)
class Listing:
    """A server's usable tools, and its refused tools with the reason of each."""

    tools: tuple[Definition, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


async def fetch(ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> tuple[list[Any], bool]:
    """All pages of a server's tool list, unchecked, and whether there are more than this device accepts.

    `ask` sends `tools/list` with the given parameters.
    """
    found: list[Any] = []
    cursor: Any = None
    seen: set[str] = set()
    size = 0
    for _ in range(MOST_PAGES):
        page = await ask({} if cursor is None else {"cursor": cursor})
        tools = page.get("tools")
        if not isinstance(tools, list):
            raise DeviceError("Its answer has no list of tools.", ErrorCode.PROTOCOL_ERROR)
        found += tools
        size += len(to_json(tools))
        cursor = page.get("nextCursor")
        if len(found) > MOST_TOOLS or size > MOST_DEFINITIONS:
            return found[:MOST_TOOLS], True
        # Some servers send an empty text in place of no cursor.
        if not isinstance(cursor, str) or not cursor or cursor in seen:
            return found, False
        seen.add(cursor)
    return found, True


def read_listing(tools: list[Any], overflow: bool) -> Listing:
    """Check the tools that a server listed. Slow for a long list: not for the event loop."""
    good: dict[str, Definition] = {}
    refused: list[tuple[str, str]] = []
    size = parts = 0
    repeats = False
    for said in tools:
        name = said.get("name") if isinstance(said, dict) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            refused.append((str(name)[:60], "Its name is not one of 1 to 128 letters, digits and _ . / -"))
            continue
        try:
            if name in good and good[name].digest == to_json(said):
                repeats = True
                continue
            if name in good:
                raise ValueError("The server lists two tools of this name")
            parts += sum(1 for _ in subschemas([said.get("inputSchema"), said.get("outputSchema")]))
            if parts > MOST_PARTS:
                raise ValueError("The server's definitions are too large together")
            definition = _definition(name, said)
            size += len(definition.digest)
            if size > MOST_DEFINITIONS:
                raise ValueError("The server's definitions are too large together")
            good[name] = definition
        except ValueError as error:
            refused.append((name, str(error)))
    if repeats:
        refused.append(("…", "Its list of tools repeats; each tool is offered once"))
    if overflow:
        refused.append(("…", f"The server lists more than this device takes ({MOST_TOOLS} tools)"))
    return Listing(tuple(good.values()), tuple(refused[:_MOST_REFUSED]))


def _definition(name: str, said: dict[str, Any]) -> Definition:
    """Read one definition. Raises ValueError with a reason to display."""
    digest = to_json(said)
    if len(digest) > MOST_DEFINITION:
        raise ValueError(
            f"Its definition has {len(digest)} bytes; this device takes at most {MOST_DEFINITION}"
        )
    if odd := odd_number(said, digest):
        raise ValueError(f"Its definition has {odd}, which JSON cannot say")
    execution = said.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        raise ValueError("It runs as a task of MCP only, which this device does not do")
    annotations = said.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else None
    description = said.get("description")
    description = description if isinstance(description, str) else ""
    if len(description) > MOST_DESCRIPTION:
        description = f"{description[:MOST_DESCRIPTION]}… (cut by the device)"
    input_schema = _compiled(said.get("inputSchema"), "input").schema
    # A validator with bounded time, because the server controls both the schema and the answer.
    output = None if said.get("outputSchema") is None else _compiled(said["outputSchema"], "output")
    meta = said.get("_meta")
    return Definition(
        name=name,
        title=_title(said, annotations) or name,
        tool_type="data_collection" if (annotations or {}).get("readOnlyHint") is True else "action",
        description=description,
        input_schema=input_schema,
        output_schema=None if output is None else output.schema,
        annotations=annotations,
        meta=meta if isinstance(meta, dict) else {},
        digest=digest,
        weight=weight(said),
        output=output,
    )


def _title(said: dict[str, Any], annotations: dict[str, Any] | None) -> str:
    for title in (said.get("title"), (annotations or {}).get("title")):
        if isinstance(title, str) and title.strip():
            return title[:200]
    return ""


def _compiled(schema: Any, which: str) -> Validator:
    if not isinstance(schema, dict):
        raise ValueError(f"Its {which} schema is not an object")
    _refuse_remote(schema, which)
    validator = Validator(schema)
    if validator.broken:
        raise ValueError(f"Its {which} schema cannot be used: {validator.broken[:200]}")
    return validator


def _refuse_remote(schema: dict[str, Any], which: str) -> None:
    """Refuse references to other documents, so that no server can make this device fetch something."""
    for part, _, depth in walk(schema):
        if depth > _DEEPEST:
            raise ValueError(f"Its {which} schema is nested too deeply")
        for key in ("$ref", "$dynamicRef") if isinstance(part, dict) else ():
            if isinstance(part.get(key), str) and not part[key].startswith("#"):
                raise ValueError(f"Its {which} schema refers to another document")

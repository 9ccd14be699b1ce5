"""The gateway's resources: a device, a run, a long result and a journal entry, as JSON."""

from __future__ import annotations

from urllib.parse import quote, unquote

from mcp import types

from core.errors import BadInput, ErrorCode
from core.gateway.agent_session import AgentSession
from core.gateway.answers import SCHEME, Item, visible_json
from core.gateway.calls import ToolCalls, device_item
from core.text import escape_hidden

_JSON = "application/json"
MOST_LISTED = 200
_LARGEST_SEQ = 1 << 63
TEMPLATES = [
    types.ResourceTemplate(
        name="device",
        description="A device that you may use: its health, platform and tags.",
        uri_template=f"{SCHEME}device/{{name}}",
        mime_type=_JSON,
    ),
    types.ResourceTemplate(
        name="run",
        description="A run of yours as it stands, by its ticket, with all that is known of each command.",
        uri_template=f"{SCHEME}run/{{ticket}}",
        mime_type=_JSON,
    ),
    types.ResourceTemplate(
        name="result",
        description="All of a result that is cut in the answer of a tool, by ticket and call_id.",
        uri_template=f"{SCHEME}result/{{ticket}}/{{call_id}}",
        mime_type=_JSON,
    ),
    types.ResourceTemplate(
        name="entry",
        description="An entry of the journal about a run of yours, by its number.",
        uri_template=f"{SCHEME}entry/{{number}}",
        mime_type=_JSON,
    ),
]


async def listed(session: AgentSession) -> types.ListResourcesResult:
    """The devices that exist for the agent; its runs and entries are read by their names."""
    devices = await (await session.console()).devices.match("")
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                name=escape_hidden(device.name, keep_lines=False),
                description="A device that you may use: its health, platform and tags.",
                uri=f"{SCHEME}device/{quote(device.name, safe='')}",
                mime_type=_JSON,
            )
            for device in devices[:MOST_LISTED]
        ]
    )


async def read(session: AgentSession, uri: str) -> types.ReadResourceResult:
    """One resource, if it exists for the agent.

    Raises:
        BadInput: it does not (code `not_found`).
    """
    kind, _, name = uri.removeprefix(SCHEME).partition("/") if uri.startswith(SCHEME) else ("", "", "")
    item = await _item(session, kind, unquote(name))
    text = types.TextResourceContents(uri=uri, mime_type=_JSON, text=visible_json(item))
    return types.ReadResourceResult(contents=[text])


async def _item(session: AgentSession, kind: str, name: str) -> Item:
    console = await session.console()
    if kind == "device":
        for device in await console.devices.match(""):
            if device.name == name:
                return device_item(device)
    elif kind == "run":
        return (await ToolCalls(session).standing(name)).whole()
    elif kind == "result":
        ticket, _, call_id = name.partition("/")
        return {"result": await ToolCalls(session).whole_result(ticket, call_id)}
    elif kind == "entry" and name.isdecimal() and int(name) < _LARGEST_SEQ:
        entry: Item = (await console.journal.entry(int(name))).model_dump(mode="json")
        return entry
    raise BadInput("There is no such resource.", ErrorCode.NOT_FOUND)

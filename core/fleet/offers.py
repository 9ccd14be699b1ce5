"""What a device offers: its tools listed, what is new pinned, what changed blocked until it is reviewed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, Protocol

from core.aip.messages import ToolInfo
from core.audit.entries import Entry, Kind, NewEntry
from core.canonical import canonical_bytes, digest_of
from core.dispatch.channel import BasicCommandDispatcher
from core.errors import DeviceError, ErrorCode, QuarterdeckError
from core.fleet.contracts import definition_of, tool_of
from core.fleet.models import Tool
from core.fleet.pins import Pins
from core.ids import new_id
from core.policy.overrides import Overrides

LISTING_TIMEOUT = 15.0
# A definition beyond this is trusted like any other; only what it said before cannot be shown later.
LARGEST_KEPT = 256 * 1024


class Recorder(Protocol):
    """The journal, as far as the fleet needs it."""

    async def append(self, entry: NewEntry) -> Entry: ...
    def note(self, entry: NewEntry) -> None: ...
    async def put_blob(self, data: bytes) -> str: ...
    async def get_blob(self, sha: str) -> bytes: ...


class Offers:
    """Asks devices for their tools, and holds them against what was trusted."""

    def __init__(self, journal: Recorder, pins: Pins, overrides: Callable[[], Overrides]) -> None:
        """`overrides` gives what operators hold to be true of tools now."""
        self._journal = journal
        self._pins = pins
        self._overrides = overrides
        self._kept: set[str] = set()

    async def of(
        self, name: str, channel: BasicCommandDispatcher, ours: bool
    ) -> tuple[dict[str, ToolInfo], dict[str, Tool]]:
        """A device's tools as it defines them, by key, and as they are held to be, by name; pinned.

        Raises:
            QuarterdeckError: they cannot be listed or are nonsense, or cannot be recorded.
        """
        infos = await self._listed(name, channel, ours)
        digests = {key: digest_of(definition_of(info)) for key, info in infos.items()}
        pinned = {key: self._pins.get(name, key) for key in infos}
        fresh = {key: digest for key, digest in digests.items() if pinned[key] is None}
        changed = {key: digest for key, digest in digests.items() if pinned[key] not in (None, digest)}
        if fresh:
            await self.trust(name, {key: infos[key] for key in fresh}, fresh)
        if changed:
            await self._journal.append(_pinned(Kind.CONTRACT_CHANGED, name, changed))
        tools = {
            info.tool_name: self._tool(name, info, digests[key], ours, changed=key in changed)
            for key, info in infos.items()
        }
        return infos, tools

    def judged(self, name: str, info: ToolInfo, ours: bool) -> Tool:
        """One tool as it is held to be now."""
        digest = digest_of(definition_of(info))
        return self._tool(name, info, digest, ours, changed=self._pins.get(name, info.tool_key) != digest)

    async def trust(
        self,
        name: str,
        infos: dict[str, ToolInfo],
        digests: dict[str, str],
        reviewed_by: str = "",
    ) -> None:
        """Pin definitions, and keep what they say: a later change is shown beside it.

        A kept definition is the blob whose name is its digest, so that nothing else can pass for it.

        Raises:
            QuarterdeckError: this cannot be recorded; nothing is trusted then.
        """
        blobs = [sha for sha in await asyncio.gather(*map(self._keep, infos.values())) if sha]
        entry = _pinned(Kind.CONTRACT_PINNED, name, digests)
        if reviewed_by:
            [tool] = [info.tool_name for info in infos.values()]
            body = {**entry.body, "reviewed": True}
            entry = entry.model_copy(update={"actor": reviewed_by, "tool": tool, "body": body})
        await self._journal.append(entry.model_copy(update={"blobs": blobs}))
        await self._pins.pin(name, digests)

    async def trusted(self, name: str, tool_key: str) -> dict[str, Any] | None:
        """The trusted definition of a tool; None where it was not kept or is lost."""
        digest = self._pins.get(name, tool_key)
        if digest is None:
            return None
        try:
            found = json.loads(await self._journal.get_blob(digest))
        except (QuarterdeckError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    async def _keep(self, info: ToolInfo) -> str:
        definition = definition_of(info)
        data = canonical_bytes(definition)
        if len(data) > LARGEST_KEPT:
            return ""
        digest = digest_of(definition)
        if digest not in self._kept:
            self._kept.add(await self._journal.put_blob(data))
        return digest

    def _tool(self, name: str, info: ToolInfo, digest: str, ours: bool, *, changed: bool) -> Tool:
        override = self._overrides().of(name, info.tool_name, info.namespace)
        return tool_of(name, info, changed=changed, definition=digest, ours=ours, override=override)

    async def _listed(self, name: str, channel: BasicCommandDispatcher, ours: bool) -> dict[str, ToolInfo]:
        call_id = new_id()
        # The listing reaches the device too, so the journal has it, although no contract can exist yet.
        self._journal.note(_listing(Kind.COMMAND_SENT, name, call_id, {}))
        started = time.perf_counter()
        try:
            infos = await channel.list_tools(LISTING_TIMEOUT)
        except QuarterdeckError as error:
            self._journal.note(_listing(Kind.RESULT_RECORDED, name, call_id, {"problem": error.message}))
            raise
        took = (time.perf_counter() - started) * 1000
        self._journal.note(
            _listing(Kind.RESULT_RECORDED, name, call_id, {"tools": len(infos)}).model_copy(
                update={"status": "success", "verdict": "confirmed", "duration_ms": round(took, 3)}
            )
        )
        return _distinct(name, infos, ours)


def _distinct(device: str, infos: list[ToolInfo], ours: bool) -> dict[str, ToolInfo]:
    """The tools by key, each name once.

    A stock client whose configuration has one MCP server collect data and act (as its HardwareAgent's has)
    lists each tool under both types. It is one tool, and one that acts may not pass for one that reads.
    """
    by_key: dict[str, ToolInfo] = {}
    names: dict[str, ToolInfo] = {}
    for info in infos:
        twin = names.get(info.tool_name)
        if twin is not None and (ours or twin.tool_type == info.tool_type):
            raise DeviceError(f"{device} lists the tool {info.tool_name} twice.", ErrorCode.PROTOCOL_ERROR)
        if info.tool_key in by_key:
            raise DeviceError(f"{device} lists the key {info.tool_key} twice.", ErrorCode.PROTOCOL_ERROR)
        if twin is not None:
            if twin.tool_type == "action":
                continue
            del by_key[twin.tool_key]
        by_key[info.tool_key] = info
        names[info.tool_name] = info
    return by_key


def _pinned(kind: Kind, device: str, digests: dict[str, str]) -> NewEntry:
    return NewEntry(kind=kind, actor="service", device=device, body={"tools": digests})


def _listing(kind: Kind, device: str, call_id: str, body: dict[str, Any]) -> NewEntry:
    return NewEntry(kind=kind, actor="service", device=device, call_id=call_id, tool="list_tools", body=body)

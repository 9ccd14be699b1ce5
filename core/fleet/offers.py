"""What a device offers: its tools listed, what is new pinned, what changed blocked until it is reviewed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from pydantic import ValidationError

from core.aip.messages import ToolInfo
from core.audit.entries import Entry, Kind, NewEntry
from core.canonical import canonical_bytes, digest_of
from core.dispatch.channel import BasicCommandDispatcher
from core.errors import DeviceError, ErrorCode, QuarterdeckError
from core.fleet.contracts import (
    changed_facts,
    claimed_risk,
    claims_of,
    contract_of,
    definition_of,
    eases,
    judge,
    tool_of,
    with_claim,
)
from core.fleet.models import OTHERWISE, Contract, Risk, Tool
from core.fleet.pins import Claims, Pin, Pins
from core.ids import new_id
from core.policy.overrides import Overrides

LISTING_TIMEOUT = 15.0
# A definition beyond this is trusted like any other; only what it said before cannot be shown later.
LARGEST_KEPT = 256 * 1024
# Names of tools that one device may ever have had: one that makes up new ones without end fills no disk.
MOST_PINNED = 5_000


class Recorder(Protocol):
    """The journal, as far as the fleet needs it."""

    async def append(self, entry: NewEntry) -> Entry: ...
    def note(self, entry: NewEntry) -> None: ...
    async def put_blob(self, data: bytes) -> str: ...
    async def get_blob(self, sha: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Change:
    """A tool's definition, and what its device says beside it, as it was trusted and as it is now.

    `before` is None where it was not kept. `contract_before` is what would be held to be true of the tool
    now, had it not changed, so that what differs is the device's doing; None where that is not known.
    """

    before: dict[str, Any] | None
    after: dict[str, Any]
    contract_before: Contract | None


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
        admitted = {key: self._admitted(name, info, digests[key], ours) for key, info in infos.items()}
        fresh = {
            key: pin
            for key, pin in admitted.items()
            if pin is not None and pin != self._pins.get(name, infos[key].tool_name)
        }
        changed = {key: digests[key] for key, pin in admitted.items() if pin is None}
        if fresh:
            self._check_room(name, {infos[key].tool_name for key in fresh})
            await self._trust(name, {key: infos[key] for key in fresh}, fresh, ours)
        if changed:
            claims = _said({key: claimed_risk(infos[key]) for key in changed})
            await self._journal.append(_entry(Kind.CONTRACT_CHANGED, name, changed, claims, ours))
        # Looked up once more: what was pinned meanwhile holds too.
        return infos, {
            info.tool_name: self._as_held(name, info, digests[key], ours) for key, info in infos.items()
        }

    def _check_room(self, name: str, tools: set[str]) -> None:
        known = self._pins.names(name)
        if len(known | tools) > MOST_PINNED:
            raise DeviceError(
                f"{name} has offered more than {MOST_PINNED:,} different tools; none is added."
                " Look at what it is, then forget it and pair it anew.",
                ErrorCode.TOO_LARGE,
            )

    def judged(self, name: str, info: ToolInfo, ours: bool) -> Tool:
        """One tool as it is held to be now."""
        return self._as_held(name, info, digest_of(definition_of(info)), ours)

    async def accept(self, name: str, info: ToolInfo, ours: bool, reviewer: str) -> None:
        """Pin a tool as it is now, because somebody who has seen it says so.

        Raises:
            QuarterdeckError: this cannot be recorded; it is not trusted then.
        """
        pin = Pin(digest_of(definition_of(info)), claims_of(info, ours))
        before = (await self.change(name, info, ours)).contract_before
        body: dict[str, Any] = {"reviewed": True}
        if before is not None:
            override = self._overrides().of(name, info.tool_name, info.namespace)
            body["facts"] = changed_facts(before, contract_of(info, ours=ours, override=override))
        more = {"actor": reviewer, "tool": info.tool_name}
        await self._trust(name, {info.tool_key: info}, {info.tool_key: pin}, ours, more, body)

    async def change(self, name: str, info: ToolInfo, ours: bool) -> Change:
        """A tool as it was trusted, beside what it is now; with what its device says beside the definition,
        where it is known what that was."""
        pin = self._pins.get(name, info.tool_name)
        after = definition_of(info)
        digest = pin.definition if pin else self._pins.earlier(name, info.tool_name, info.tool_key)
        if digest is None:
            return Change(None, after, None)
        before = after if digest == digest_of(after) else await self._kept_definition(digest)
        if before is None or pin is None:
            return Change(before, after, None)
        return Change(
            before={**before, **_beside(pin.claims)},
            after={**after, **_beside(claims_of(info, ours))},
            contract_before=self._contract_before(name, before, pin.claims),
        )

    def _admitted(self, name: str, info: ToolInfo, digest: str, ours: bool) -> Pin | None:
        """What is pinned of a tool that is listed like this, without anybody's word; None where it takes one.

        What is new is trusted, what asks for more care is from then on held to that, and what would get by
        with less is a change like any other: a device's own claims never lower a risk.
        """
        now, pin = claims_of(info, ours), self._pins.get(name, info.tool_name)
        if pin is None:
            # An earlier version did not keep the claims: those of now are the first that are known.
            trusted = self._pins.earlier(name, info.tool_name, info.tool_key)
            return Pin(digest, now) if trusted in (None, digest) else None
        if pin.definition != digest:
            return None
        if now == pin.claims:
            return pin
        before = contract_of(with_claim(definition_of(info), pin.claims.risk), digest, pin.claims.ours)
        if eases(before, contract_of(info, digest, ours)):
            return None
        careful = pin.claims.with_care(now)
        return pin if careful == pin.claims else Pin(digest, careful)

    async def _trust(
        self,
        name: str,
        infos: dict[str, ToolInfo],
        pins: dict[str, Pin],
        ours: bool,
        more: Mapping[str, Any] = MappingProxyType({}),
        body: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Pin tools, and keep their definitions: a later change is shown beside them.

        A kept definition is the blob whose name is its digest, so that nothing else can pass for it. What
        else a contract follows from stands in the entry. `more` of that, and of its `body`, is given.
        """
        blobs = [sha for sha in await asyncio.gather(*map(self._keep, infos.values())) if sha]
        claims = _said({key: pin.claims.risk for key, pin in pins.items()})
        digests = {key: pin.definition for key, pin in pins.items()}
        entry = _entry(Kind.CONTRACT_PINNED, name, digests, claims, ours)
        body = {**entry.body, **body}
        await self._journal.append(entry.model_copy(update={**more, "blobs": blobs, "body": body}))
        await self._pins.pin(name, {infos[key].tool_name: pin for key, pin in pins.items()})

    async def _kept_definition(self, digest: str) -> dict[str, Any] | None:
        try:
            found = json.loads(await self._journal.get_blob(digest))
        except (QuarterdeckError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _contract_before(self, name: str, definition: dict[str, Any], claims: Claims) -> Contract | None:
        try:
            info = with_claim(definition, claims.risk)
            override = self._overrides().of(name, info.tool_name, info.namespace)
            return judge(info, claims.ours, override)
        except (ValidationError, QuarterdeckError):
            return None

    async def _keep(self, info: ToolInfo) -> str:
        definition = definition_of(info)
        data = canonical_bytes(definition)
        if len(data) > LARGEST_KEPT:
            return ""
        digest = digest_of(definition)
        if digest not in self._kept:
            self._kept.add(await self._journal.put_blob(data))
        return digest

    def _as_held(self, name: str, info: ToolInfo, digest: str, ours: bool) -> Tool:
        change = self._change_words(name, info, digest, ours)
        override = self._overrides().of(name, info.tool_name, info.namespace)
        return tool_of(name, info, change=change, definition=digest, ours=ours, override=override)

    def _change_words(self, name: str, info: ToolInfo, digest: str, ours: bool) -> str:
        """What is different of a tool that takes somebody's word; empty where all is well."""
        if self._admitted(name, info, digest, ours) is not None:
            return ""
        pin = self._pins.get(name, info.tool_name)
        if pin is None or pin.definition != digest:
            return "changed its definition"
        return claims_of(info, ours).words_after(pin.claims) or OTHERWISE

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


def _said(claims: dict[str, Risk | None]) -> dict[str, str]:
    return {key: risk.value for key, risk in claims.items() if risk is not None}


def _beside(claims: Claims) -> dict[str, Any]:
    """Claims as they stand beside a definition where both are shown."""
    return {"claimed_risk": claims.risk.value if claims.risk else None, "client": claims.client}


def _entry(kind: Kind, device: str, digests: dict[str, str], claims: dict[str, str], ours: bool) -> NewEntry:
    body = {"tools": digests, "claims": claims, "ours": ours}
    return NewEntry(kind=kind, actor="service", device=device, body=body)


def _listing(kind: Kind, device: str, call_id: str, body: dict[str, Any]) -> NewEntry:
    return NewEntry(kind=kind, actor="service", device=device, call_id=call_id, tool="list_tools", body=body)

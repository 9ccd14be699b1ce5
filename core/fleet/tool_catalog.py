"""The catalog of a device's tools: lists them, pins new tools, and blocks changed tools until reviewed.

Reading a device's list must not block the service for other devices. A usual list is read at once on the
loop; a list of megabytes is read in a thread, a few tools at a time, so that it can still be abandoned.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol
from weakref import WeakValueDictionary

from pydantic import ValidationError

from core.aip.contract_digest import definition_of, pinned_definition
from core.aip.messages import ToolInfo
from core.audit.entries import Entry, NewEntry
from core.audit.events import CommandSent, ContractChanged, ContractPinned, EntryFields, Json, ResultRecorded
from core.canonical_json import canonical_bytes
from core.commands.channel import BasicCommandDispatcher
from core.errors import DeviceError, ErrorCode, QuarterdeckError
from core.fleet.contracts import (
    ListedTool,
    changed_parts,
    claimed_risk,
    claims_of,
    contract_of,
    eases,
    judge_offered,
    read_tool,
    tool_of,
    with_claim,
)
from core.fleet.models import ContractChange
from core.fleet.tool_pins import Claims, Pin, Pins
from core.fleet.updated_tools import is_update
from core.ids import new_id
from core.json_walk import count_parts
from core.models.tools import OTHERWISE, Contract, Risk, Tool, changed_facts
from core.policy.policy_file import Overrides
from core.tasks import in_turns

# Sizes in parts of definitions (`count_parts`): read at once, which takes some milliseconds at worst; and
# read by one call in a thread.
AT_ONCE = 2_000
_IN_A_THREAD = 20_000
_CHARACTERS = 200


class Arrived(Protocol):
    """A connected device: its channel, and whether it identifies itself as our own client."""

    @property
    def channel(self) -> BasicCommandDispatcher: ...
    @property
    def ours(self) -> bool: ...


async def read_tools(
    infos: list[ToolInfo], one_at_a_time: asyncio.Lock, still: Callable[[], bool]
) -> list[ListedTool]:
    """Read the tools that a device lists, in its order.

    Raises:
        BadInput: a definition has no canonical form.
        DeviceError: `still` returned False: the device's link has ended meanwhile.
    """
    if count_parts([definition_of(info) for info in infos], AT_ONCE, _CHARACTERS) < AT_ONCE:
        return [read_tool(info) for info in infos]
    found: list[ListedTool] = []
    async with one_at_a_time:
        for part in _parts(infos):
            if not still():
                raise DeviceError("It went away while its tools were read.", ErrorCode.DEVICE_OFFLINE)
            found += await asyncio.to_thread(_read_all, part)
    return found


def _read_all(infos: list[ToolInfo]) -> list[ListedTool]:
    return [read_tool(info) for info in infos]


def _parts(infos: list[ToolInfo]) -> Iterator[list[ToolInfo]]:
    part: list[ToolInfo] = []
    size = 0
    for info in infos:
        part.append(info)
        size += count_parts(definition_of(info), _IN_A_THREAD, _CHARACTERS)
        if size >= _IN_A_THREAD:
            yield part
            part, size = [], 0
    if part:
        yield part


# Seconds. A device with our client may be behind a slow line: its list is waited for long after the device
# is shown as of no use yet. A stock device takes no other command while it is asked.
LISTING_IS_LATE = 15.0
LISTING_TIMEOUT = 240.0
STOCK_LISTING_TIMEOUT = 15.0
# Bytes. A larger definition is pinned too, but is not stored, so a later change cannot show it.
LARGEST_KEPT = 256 * 1024
# Tool names that one device may ever have had, so that a device that invents names cannot fill the disk.
MOST_PINNED = 5_000
# Bytes of stored definitions per device while the service runs; characters of a tool's name or key.
MOST_KEPT = 64 * 1024 * 1024
MOST_NAME = 256
# Tools named in one entry: a device can change two thousand tools every other second.
MOST_NAMED = 100
_KEPT_AT_ONCE = 4
_SMALL = 8 * 1024


class Recorder(Protocol):
    """The part of the journal that the fleet needs."""

    async def append(self, entry: NewEntry) -> Entry: ...
    def note(self, entry: NewEntry) -> None: ...
    def note_late(self, entries: list[NewEntry]) -> None: ...
    async def put_blob(self, data: bytes) -> str: ...
    async def get_blob(self, sha: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Review:
    """An operator's review of a tool: the facts of its contract that changed, and the signed change."""

    reviewer: str
    tool: str
    facts: dict[str, list[Any]] | None
    signed: Json | None


class ToolCatalog:
    """Lists devices' tools and compares them with the pins."""

    def __init__(self, journal: Recorder, pins: Pins, overrides: Callable[[], Overrides]) -> None:
        """`overrides` returns the operators' present entries for tools."""
        self._journal = journal
        self._pins = pins
        self._overrides = overrides
        self._kept: set[str] = set()
        # By device: bytes of stored definitions, and the changes in the last CONTRACT_CHANGED entry.
        self._bytes_kept: dict[str, int] = {}
        self._noted: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {}
        # `_reading`: one large list is read at a time. `_turns`: one change of a device's pins at a time.
        self._reading = asyncio.Lock()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def alone(self, name: str) -> asyncio.Lock:
        """The lock to hold while a device's pins change."""
        lock = self._turns.get(name)
        if lock is None:
            lock = self._turns[name] = asyncio.Lock()
        return lock

    async def of(
        self, name: str, arrival: Arrived, still: Callable[[], bool], *, again: bool = False
    ) -> tuple[dict[str, ListedTool], dict[str, Tool]]:
        """List a device's tools and pin new ones; returns them as offered, by key, and as judged, by name.

        This takes a moment, longer for large lists. If `still` returns False by then, because the link has
        ended, nothing is pinned. `again`: this link's tools were listed before. Then the listing is in the
        journal only if it failed, or pins or blocks a tool: a server whose tools change all the time would
        fill the journal with listings that changed nothing.

        Raises:
            QuarterdeckError: the tools cannot be listed or recorded, or are invalid; or the link has ended.
        """
        ours = arrival.ours
        infos, listing = await self._listed(name, arrival.channel, ours, again)
        offered = dict(zip(infos, await read_tools(list(infos.values()), self._reading, still), strict=True))
        async with self.alone(name):
            _check_there(name, still)
            fresh: dict[str, Pin] = {}
            changed: dict[str, str] = {}
            async for key, tool in in_turns(offered.items()):
                pin = self._admitted(name, tool, ours)
                if pin is None:
                    changed[key] = tool.digest
                elif pin != self._pins.get(name, tool.info.tool_name):
                    fresh[key] = pin
            if again and (fresh or not self._knows_of(name, offered, changed, ours)):
                for entry in listing:
                    self._journal.note(entry)
            if fresh:
                self._check_room(name, {offered[key].info.tool_name for key in fresh})
                await self._trust(name, {key: offered[key] for key in fresh}, fresh, ours, still)
            await self._note_changed(name, offered, changed, ours)
            held: dict[str, Tool] = {}
            async for tool in in_turns(offered.values()):
                held[tool.info.tool_name] = self.judged(name, tool, ours)
            _check_there(name, still)
        return offered, held

    async def _note_changed(
        self, name: str, offered: dict[str, ListedTool], changed: dict[str, str], ours: bool
    ) -> None:
        """Journal the blocked tools; once, however often the device lists them like this."""
        claims = _said({key: claimed_risk(offered[key].info) for key in changed})
        now = (changed, claims, ours)
        if not changed:
            self._noted.pop(name, None)
        elif not self._knows_of(name, offered, changed, ours):
            named = dict(list(changed.items())[:MOST_NAMED])
            event = ContractChanged(
                tools=named, claims=_only(claims, named), ours=ours, more=len(changed) - len(named)
            )
            await self._journal.append(event.entry("service", device=name))
            self._noted[name] = now

    def _knows_of(
        self, name: str, offered: dict[str, ListedTool], changed: dict[str, str], ours: bool
    ) -> bool:
        """Whether the journal has that exactly these tools of a device are blocked."""
        if not changed:
            return name not in self._noted
        claims = _said({key: claimed_risk(offered[key].info) for key in changed})
        return self._noted.get(name) == (changed, claims, ours)

    async def forget(self, name: str) -> None:
        """Remove a device's pins; the caller holds `alone`."""
        await self._pins.forget(name)
        self._noted.pop(name, None)
        self._bytes_kept.pop(name, None)

    def _check_room(self, name: str, tools: set[str]) -> None:
        known = self._pins.names(name)
        if len(known | tools) > MOST_PINNED:
            raise DeviceError(
                f"{name} has offered more than {MOST_PINNED:,} different tools; none is added."
                " Look at what it is, then forget it and pair it again.",
                ErrorCode.TOO_LARGE,
            )

    def pinned(self, name: str, tool_name: str) -> str:
        """The digest of a tool's trusted definition; empty if it has none."""
        pin = self._pins.get(name, tool_name)
        return pin.definition if pin is not None else ""

    def pin_now(self, offered: ListedTool, ours: bool) -> Pin:
        """The pin for a tool as it is listed now."""
        return Pin(offered.digest, claims_of(offered.info, ours))

    def judged(
        self,
        name: str,
        offered: ListedTool,
        ours: bool,
        was: Mapping[str, Tool] = MappingProxyType({}),
        overrides: Overrides | None = None,
    ) -> Tool:
        """A tool with its present contract and change; returns the object in `was` if nothing differs.

        With `overrides`, the tool as it would be if those were in force.
        """
        change = self._change_words(name, offered, ours)
        info = offered.info
        override = (overrides or self._overrides()).of(name, info.tool_name, info.namespace)
        contract = contract_of(offered, claims_of(info, ours), override)
        before = was.get(info.tool_name)
        if before is not None and (before.change, before.contract.digest) == (change, contract.digest):
            return before
        return tool_of(name, offered, change=change, ours=ours, override=override)

    def judged_anew(
        self, name: str, offered: Mapping[str, ListedTool], ours: bool, was: Mapping[str, Tool]
    ) -> dict[str, Tool]:
        """All tools of a device by name, each from `judged`."""
        return {one.info.tool_name: self.judged(name, one, ours, was) for one in offered.values()}

    async def accept(
        self,
        name: str,
        offered: ListedTool,
        ours: bool,
        reviewer: str,
        still: Callable[[], bool],
        proof: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Pin a tool as it is now after an operator's review; `proof` is the operator's signature.

        Raises:
            QuarterdeckError: the review cannot be recorded, or `still` returned False because the device was
                forgotten; the tool is not pinned.
        """
        info = offered.info
        pin = self.pin_now(offered, ours)
        before = (await self.change(name, offered, ours)).before_contract
        facts = None
        if before is not None:
            override = self._overrides().of(name, info.tool_name, info.namespace)
            facts = changed_facts(before, contract_of(offered, claims_of(info, ours), override))
        review = _Review(reviewer, info.tool_name, facts, proof.get("signed"))
        async with self.alone(name):
            tools, pins = {info.tool_key: offered}, {info.tool_key: pin}
            await self._trust(name, tools, pins, ours, still, review)
            self._noted.pop(name, None)

    async def change(self, name: str, offered: ListedTool, ours: bool) -> ContractChange:
        """A tool as trusted and as listed now, each with its claims; without the first if it was not kept."""
        info = offered.info
        pin = self._pins.get(name, info.tool_name)
        before, after = None, pinned_definition(info)
        contract: Contract | None = None
        if pin is not None:
            is_same = pin.definition == offered.digest
            before = after if is_same else await self._kept_definition(pin.definition)
        if before is not None and pin is not None:
            contract = await self._contract_before(name, before, pin.claims)
            before = {**before, **_beside(pin.claims)}
            after = {**after, **_beside(claims_of(info, ours))}
        return ContractChange(
            device=name,
            tool_key=info.tool_key,
            before=before,
            before_contract=contract,
            after=after,
            changed=changed_parts(before, after) if before else [],
        )

    def _admitted(self, name: str, offered: ListedTool, ours: bool) -> Pin | None:
        """The pin for a tool as listed, if no review is needed; None if an operator must review it.

        A new tool is pinned. Claims that demand more care are added to the pin. Claims that would allow less
        care need a review: a device's own claims never lower a risk.
        """
        info, digest = offered.info, offered.digest
        now, pin = claims_of(info, ours), self._pins.get(name, info.tool_name)
        if pin is None:
            return Pin(digest, now)
        definition = pin.definition
        if definition != digest:
            # Another definition, even an equivalent one, needs an operator's review, unless this program
            # lists it as an update of the trusted definition.
            if not is_update(info.tool_name, definition, digest):
                return None
            definition = digest
        if now == pin.claims:
            return Pin(definition, now)
        if eases(contract_of(offered, pin.claims), contract_of(offered, now)):
            return None
        return Pin(definition, pin.claims.with_care(now))

    async def _trust(
        self,
        name: str,
        tools: dict[str, ListedTool],
        pins: dict[str, Pin],
        ours: bool,
        still: Callable[[], bool],
        review: _Review | None = None,
    ) -> None:
        """Pin tools and store their definitions, so that a later change can be shown beside them.

        A definition is stored as the blob named by its digest, so that nothing can replace it. The other
        inputs of the contract are in the entry, and the review after which they are trusted.

        In the entry, `tools` and `claims` are by tool key, for readers; `pins` are the new pins by tool name,
        which the service reads back when it starts.
        """
        blobs = await self._keep_all(name, tools.values())
        _check_there(name, still)
        claims = _said({key: pin.claims.risk for key, pin in pins.items() if pin.claims is not None})
        digests = {key: pin.definition for key, pin in pins.items()}
        by_name = {tools[key].info.tool_name: pin for key, pin in pins.items()}
        event = ContractPinned(
            tools=digests,
            claims=claims,
            ours=ours,
            pins={tool: pin.row for tool, pin in by_name.items()},
            reviewed=review is not None,
            facts=review.facts if review else None,
            signed=review.signed if review else None,
        )
        actor, tool = (review.reviewer, review.tool) if review else ("service", None)
        await self._journal.append(event.entry(actor, device=name, tool=tool, blobs=blobs))
        # Even if the link has ended meanwhile: the pins must match the journal.
        await self._pins.pin(name, by_name)

    async def trusted_schemas(self, tool: str, devices: Iterable[str]) -> dict[str, Any]:
        """The input schemas in the trusted definitions of these devices' tools of this name, by digest."""
        pins = {pin.definition for name in devices if (pin := self._pins.get(name, tool)) is not None}
        found = {digest: await self._kept_definition(digest) for digest in pins}
        return {
            digest: definition.get("input_schema") or {}
            for digest, definition in found.items()
            if definition is not None
        }

    async def _kept_definition(self, digest: str) -> dict[str, Any] | None:
        try:
            found = json.loads(await self._journal.get_blob(digest))
        except (QuarterdeckError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    async def _contract_before(
        self, name: str, definition: dict[str, Any], claims: Claims
    ) -> Contract | None:
        try:
            offered = await asyncio.to_thread(read_tool, with_claim(definition, claims.risk))
        except (ValidationError, QuarterdeckError):
            return None
        info = offered.info
        return judge_offered(offered, claims, self._overrides().of(name, info.tool_name, info.namespace))

    async def _keep_all(self, name: str, tools: Iterable[ListedTool]) -> list[str]:
        """Store the definitions that are not too large; returns the names of the blobs."""
        # Two thousand writes at once would delay all other blobs.
        room = asyncio.Semaphore(_KEPT_AT_ONCE)

        async def keep(tool: ListedTool) -> str:
            async with room:
                return await self._keep(name, tool)

        return [sha for sha in await asyncio.gather(*map(keep, tools)) if sha]

    async def _keep(self, name: str, tool: ListedTool) -> str:
        if tool.digest in self._kept:
            return tool.digest
        kept = self._bytes_kept.get(name, 0) + tool.size
        if tool.size > LARGEST_KEPT or kept > MOST_KEPT:
            return ""
        self._bytes_kept[name] = kept
        definition = pinned_definition(tool.info)
        aside = tool.size > _SMALL
        data = await asyncio.to_thread(canonical_bytes, definition) if aside else canonical_bytes(definition)
        self._kept.add(await self._journal.put_blob(data))
        return tool.digest

    def _change_words(self, name: str, offered: ListedTool, ours: bool) -> str:
        """The change in a tool that needs a review; empty if it needs none."""
        if self._admitted(name, offered, ours) is not None:
            return ""
        pin = self._pins.get(name, offered.info.tool_name)
        if pin is None or pin.definition != offered.digest:
            return "changed its definition"
        return claims_of(offered.info, ours).words_after(pin.claims) or OTHERWISE

    async def _listed(
        self, name: str, channel: BasicCommandDispatcher, ours: bool, again: bool
    ) -> tuple[dict[str, ToolInfo], list[NewEntry]]:
        """The tools by key, and the listing's journal entries, which are noted already unless `again`."""
        call_id = new_id()
        # Journalled because it is sent to the device, although no contract can exist yet.
        place: EntryFields = {"device": name, "call_id": call_id, "tool": "list_tools"}
        sent = CommandSent().entry("service", **place)
        if not again:
            self._journal.note(sent)
        started = time.perf_counter()
        try:
            infos = await channel.list_tools(LISTING_TIMEOUT if ours else STOCK_LISTING_TIMEOUT)
        except QuarterdeckError as error:
            if again:
                self._journal.note(sent)
            self._journal.note(ResultRecorded(problem=error.message).entry("service", **place))
            raise
        took = (time.perf_counter() - started) * 1000
        place |= {"status": "success", "verdict": "confirmed", "duration_ms": round(took, 3)}
        listed = ResultRecorded(tools=len(infos)).entry("service", **place)
        if not again:
            self._journal.note(listed)
        return _distinct(name, infos, ours), [sent, listed]


def _distinct(device: str, infos: list[ToolInfo], ours: bool) -> dict[str, ToolInfo]:
    """The tools by key, each name once.

    A stock client lists each tool under both types if its configuration uses one MCP server for data
    collection and for actions (as its HardwareAgent's does). Then the action is kept: a tool that acts must
    not be treated as a tool that reads.

    Raises:
        DeviceError: a name or key is too long, or is listed twice otherwise.
    """
    by_key: dict[str, ToolInfo] = {}
    names: dict[str, ToolInfo] = {}
    for info in infos:
        if len(info.tool_name) > MOST_NAME or len(info.tool_key) > MOST_NAME:
            raise DeviceError(
                f"{device} lists a tool whose name or key has more than {MOST_NAME} characters.",
                ErrorCode.TOO_LARGE,
            )
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


def _check_there(name: str, still: Callable[[], bool]) -> None:
    if not still():
        raise DeviceError(f"{name} went away while its tools were looked at.", ErrorCode.DEVICE_OFFLINE)


def _only(claims: dict[str, str], keys: Iterable[str]) -> dict[str, str]:
    return {key: claims[key] for key in keys if key in claims}


def _said(claims: dict[str, Risk | None]) -> dict[str, str]:
    return {key: risk.value for key, risk in claims.items() if risk is not None}


def _beside(claims: Claims) -> dict[str, Any]:
    """Claims as the fields that are shown beside a definition."""
    return {"claimed_risk": claims.risk.value if claims.risk else None, "client": claims.client}

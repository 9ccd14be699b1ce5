"""Device history from the journal: last connection, last picture, health changes and rejected connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from core.aip.messages import ResultStatus
from core.audit.entries import Entry, Kind
from core.audit.journal import Journal
from core.dispatch.command_request import shows_whole_screen
from core.fleet.device_state import PersistedState
from core.fleet.models import Health, HealthChange, Refusal

PAGE = 500
# Pages of entries to search. A device with no entry in them is shown without its past.
MOST_PAGES = 8
CHANGES = 100
REFUSALS = 100


async def remembered_devices(journal: Journal, names: set[str]) -> dict[str, PersistedState]:
    """The last known facts about these devices, from the newest entries.

    Raises:
        JournalError: the journal cannot be read.
    """
    found: dict[str, PersistedState] = {}
    seen: set[str] = set()
    async for entry in _newest(journal, f"kind:{Kind.DEVICE_CONNECTED},{Kind.DEVICE_LOST}"):
        name = entry.device or ""
        if name not in names:
            continue
        then = found.get(name) or _first_word(entry)
        if entry.kind is Kind.DEVICE_CONNECTED:
            body = entry.body
            then = replace(
                then,
                platform=str(body.get("platform", "")),
                system=str(body.get("system", "")),
                client=str(body.get("client", "")),
            )
            seen.add(name)
        found[name] = then
        if seen >= names:
            break
    # Live pictures leave thousands of glimpses, which do not count as a device's picture. Whether a result
    # shows the whole screen is in its command's entry, which comes after it when reading newest first.
    taken = f"kind:{Kind.RESULT_RECORDED},{Kind.COMMAND_PREPARED} tool:screenshot !glimpse"
    results: dict[str, Entry] = {}
    async for entry in _newest(journal, taken):
        name, call_id = entry.device or "", entry.call_id or ""
        if name not in names or found.get(name, PersistedState()).picture:
            continue
        if entry.kind is Kind.RESULT_RECORDED:
            if entry.status == ResultStatus.SUCCESS and _picture_in(entry):
                results[call_id] = entry
            continue
        result = results.pop(call_id, None)
        parameters = entry.body.get("parameters")
        if result is None or not isinstance(parameters, dict) or not shows_whole_screen(parameters):
            continue
        then = found.get(name, PersistedState())
        found[name] = replace(then, picture=_picture_in(result), picture_at=result.time)
        if all(name in found and found[name].picture for name in names):
            break
    return found


async def changes_before(journal: Journal, device: str, before: str) -> list[HealthChange]:
    """A device's connects and disconnects before the time `before`; oldest first."""
    kinds = f"kind:{Kind.DEVICE_CONNECTED},{Kind.DEVICE_LOST}"
    page = await journal.query(f'{kinds} device:"{device}"', limit=CHANGES)
    return [_change(entry) for entry in reversed(page.entries) if entry.time < before]


async def refusals_before(journal: Journal, before: str) -> list[Refusal]:
    """Rejected connections before the time `before`; oldest first."""
    page = await journal.query(f"kind:{Kind.DEVICE_REFUSED}", limit=REFUSALS)
    return [_refusal(entry) for entry in reversed(page.entries) if entry.time < before]


async def _newest(journal: Journal, query: str) -> AsyncIterator[Entry]:
    before: int | None = None
    for _ in range(MOST_PAGES):
        page = await journal.query(query, before=before, limit=PAGE)
        for entry in page.entries:
            yield entry
        before = page.next_before
        if before is None:
            return


def _first_word(entry: Entry) -> PersistedState:
    """The facts in a device's newest entry."""
    if entry.kind is Kind.DEVICE_LOST:
        return PersistedState(since=entry.time, reason=str(entry.body.get("reason", "")))
    return PersistedState(since=entry.time, reason="not seen since the service started anew")


def _change(entry: Entry) -> HealthChange:
    health = Health.ONLINE if entry.kind is Kind.DEVICE_CONNECTED else Health.OFFLINE
    return HealthChange(at=entry.time, health=health, reason=str(entry.body.get("reason", "")))


def _refusal(entry: Entry) -> Refusal:
    body = entry.body
    count = body.get("count", 1)
    return Refusal(
        at=entry.time,
        peer=str(body.get("peer", "")),
        name=str(body.get("name") or entry.device or ""),
        reason=str(body.get("reason", "")),
        count=count if isinstance(count, int) else 1,
    )


def _picture_in(entry: Entry) -> str | None:
    result = entry.body.get("result")
    evidence = result.get("evidence") if isinstance(result, dict) else None
    for one in evidence if isinstance(evidence, list) else []:
        if isinstance(one, dict) and one.get("what") == "picture" and isinstance(one.get("blob"), str):
            return str(one["blob"])
    return None

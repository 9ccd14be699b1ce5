"""Device history from the journal: last connection, last picture, health changes and rejected connections."""

from __future__ import annotations

from dataclasses import replace

from core.aip.messages import ResultStatus
from core.audit.entries import Entry, Kind
from core.audit.events import (
    CommandPrepared,
    CommandSent,
    DeviceBound,
    DeviceConnected,
    DeviceLost,
    DeviceRefused,
    Event,
    Json,
    ResultRecorded,
    event_of,
)
from core.audit.journal import Journal
from core.audit.query import quoted
from core.commands.request import shows_whole_screen
from core.fleet.device_state import PersistedState
from core.fleet.models import HealthChange, PastCall, Refusal
from core.fleet.tool_search import Results
from core.models.devices import Health

# Entries whose results count, and entries to search. A device with none in them is shown without its past.
RESULTS = 500
MOST_SEARCHED = 4_000
CHANGES = 100
CALLS = 5
REFUSALS = 100


async def remembered_devices(journal: Journal, names: set[str]) -> dict[str, PersistedState]:
    """The last known facts about these devices, from the newest entries.

    Raises:
        JournalError: the journal cannot be read.
    """
    facts: dict[str, PersistedState] = {}
    seen: set[str] = set()
    async for entry in journal.newest(f"kind:{Kind.DEVICE_CONNECTED},{Kind.DEVICE_LOST}", MOST_SEARCHED):
        name = entry.device or ""
        if name not in names:
            continue
        event = event_of(entry)
        known = facts.get(name) or _newest_facts(entry, event)
        if isinstance(event, DeviceConnected):
            known = replace(known, platform=event.platform, system=event.system, client=event.client)
            seen.add(name)
        facts[name] = known
        if seen >= names:
            break
    # Live pictures leave thousands of glimpses, which do not count as a device's picture. Whether a result
    # shows the whole screen is in its command's entry, which comes after it when reading newest first.
    kinds = f"{Kind.RESULT_RECORDED},{Kind.COMMAND_PREPARED},{Kind.COMMAND_SENT}"
    taken = f"kind:{kinds} tool:screenshot !glimpse"
    pictures: dict[str, tuple[str, str]] = {}
    async for entry in journal.newest(taken, MOST_SEARCHED):
        name, call_id = entry.device or "", entry.call_id or ""
        known = facts.get(name, PersistedState())
        if name not in names or known.picture:
            continue
        match event_of(entry):
            case ResultRecorded(result=result):
                blob = _picture_in(result or {})
                if entry.status == ResultStatus.SUCCESS and blob:
                    pictures[call_id] = blob, entry.time
            case CommandPrepared(parameters=parameters) | CommandSent(parameters=dict(parameters)) if (
                call_id in pictures
            ):
                blob, taken_at = pictures.pop(call_id)
                if shows_whole_screen(parameters):
                    facts[name] = replace(known, picture=blob, picture_at=taken_at)
                    if all(name in facts and facts[name].picture for name in names):
                        break
    return facts


async def changes_before(journal: Journal, device: str, before: str) -> list[HealthChange]:
    """A device's connects, disconnects and machines before the time `before`; oldest first."""
    kinds = f"kind:{Kind.DEVICE_CONNECTED},{Kind.DEVICE_LOST},{Kind.DEVICE_BOUND}"
    page = await journal.query(f"{kinds} device:{quoted(device)}", limit=CHANGES)
    return [_change(entry) for entry in reversed(page.entries) if entry.time < before]


async def refusals_before(journal: Journal, before: str) -> list[Refusal]:
    """Rejected connections before the time `before`; oldest first."""
    page = await journal.query(f"kind:{Kind.DEVICE_REFUSED}", limit=REFUSALS)
    return [_refusal(entry) for entry in reversed(page.entries) if entry.time < before]


async def past_results(journal: Journal) -> dict[tuple[str, str], Results]:
    """How the newest commands ended, by device and tool; entries of another version count nothing.

    Raises:
        JournalError: the journal cannot be read.
    """
    results: dict[tuple[str, str], Results] = {}
    await journal.settle()
    page = await journal.query(f"kind:{Kind.RESULT_RECORDED}", limit=RESULTS)
    for entry in page.entries:
        if entry.status in list(ResultStatus):
            key = (entry.device or "", entry.tool or "")
            results[key] = results.get(key, Results()).after(ResultStatus(entry.status))
    return results


async def past_calls(journal: Journal, device: str, tool: str) -> list[PastCall]:
    """The latest calls of a tool on a device that have ended, newest first.

    Raises:
        JournalError: the journal cannot be read.
    """
    await journal.settle()
    kinds = f"kind:{Kind.RESULT_RECORDED},{Kind.COMMAND_REFUSED}"
    page = await journal.query(f"{kinds} device:{quoted(device)} tool:{quoted(tool)}", limit=CALLS)
    return [_past_call(entry) for entry in page.entries]


def _newest_facts(entry: Entry, event: Event) -> PersistedState:
    """The facts in a device's newest entry."""
    if isinstance(event, DeviceLost):
        return PersistedState(since=entry.time, reason=event.reason)
    return PersistedState(since=entry.time, reason="not seen since the service was restarted")


def _change(entry: Entry) -> HealthChange:
    match event_of(entry):
        case DeviceLost(reason=reason):
            return HealthChange(at=entry.time, health=Health.OFFLINE, reason=reason)
        case DeviceBound(host=host, signed=None):
            return HealthChange(at=entry.time, health=Health.ONLINE, reason=f"bound to host {host}")
        case DeviceBound(host=host):
            reason = f"host {host} was accepted by {entry.actor}"
            return HealthChange(at=entry.time, health=Health.OFFLINE, reason=reason)
        case _:
            return HealthChange(at=entry.time, health=Health.ONLINE, reason="")


def _refusal(entry: Entry) -> Refusal:
    event = DeviceRefused.read(entry.body)
    return Refusal(
        at=entry.time,
        peer=event.peer,
        name=event.name or entry.device or "",
        reason=event.reason,
        count=event.count or 1,
    )


def _past_call(entry: Entry) -> PastCall:
    result = entry.body.get("result")
    error = result.get("error") if isinstance(result, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return PastCall(
        call_id=entry.call_id or "",
        at=entry.time,
        actor=entry.actor,
        status=entry.status or "",
        verdict=entry.verdict or "",
        duration_ms=entry.duration_ms,
        error=message if isinstance(message, str) else "",
    )


def _picture_in(result: Json) -> str | None:
    """The blob of the picture in a result; None if it has none."""
    evidence = result.get("evidence")
    for blob in evidence if isinstance(evidence, list) else []:
        if isinstance(blob, dict) and blob.get("what") == "picture" and isinstance(blob.get("blob"), str):
            return str(blob["blob"])
    return None

"""After a crash: what is in the spool and not yet in the journal goes into the journal, in order and once."""

from __future__ import annotations

from core.audit.encode import Parts, decode, encode_parts
from core.audit.entries import Kind, NewEntry
from core.audit.spool import Record, Spool
from core.audit.store import Store
from core.audit.writer import GROUP_ENTRIES
from core.errors import JournalCorrupt
from core.ids import now_utc


def recover(store: Store, spool: Spool) -> int:
    """Commit the spool's records that the journal lacks; gives how many there were.

    A torn last record was never acknowledged, and is dropped. When something was recovered, the journal says
    so in a `journal_recovered` entry, in the same transaction as the last of it.

    Raises:
        JournalCorrupt: a whole record is not an entry; nothing after it is taken, and the spool is kept.
        JournalUnavailable: the journal cannot be written; the spool is kept.
    """
    records, torn = spool.read()
    done = store.head.spool_done
    fresh = [record for record in records if record.number > done]
    latest = store.last_time
    for start in range(0, len(fresh), GROUP_ENTRIES):
        chunk = fresh[start : start + GROUP_ENTRIES]
        parts: list[Parts] = []
        for record in chunk:
            part, latest = _checked(record, latest, spool)
            parts.append(part)
        if start + GROUP_ENTRIES >= len(fresh):
            latest = max(latest, now_utc())
            parts.append(encode_parts(_told(len(fresh), torn), latest))
        store.commit(parts, chunk[-1].number)
    store.last_time = latest
    spool.start_after(max([done, *(record.number for record in records)]))
    spool.empty(always=True)
    return len(fresh)


def _checked(record: Record, latest: str, spool: Spool) -> tuple[Parts, str]:
    """A record's parts, as they can follow an entry of time `latest`, and its time."""
    try:
        entry = decode(record.parts.with_seq(0))
    except JournalCorrupt as error:
        raise JournalCorrupt(
            f"Record {record.number} of the spool {spool.path} is not an entry. Keep a copy of the file, then"
            " move it away to open the journal without it."
        ) from error
    if entry.time >= latest:
        return record.parts, entry.time
    return encode_parts(entry, latest), latest


def _told(count: int, torn: int) -> NewEntry:
    return NewEntry(kind=Kind.JOURNAL_RECOVERED, actor="service", body={"entries": count, "torn_bytes": torn})

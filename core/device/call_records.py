"""The records of actions in the device's store: which call began, how it ended, and which was never seen.

A call has one row, whichever of the clients with this state folder it reached. It is `started` before its
action begins, `done` when it has ended, or `gone`: a console was told that it never came, so it never runs.

Neither arguments nor results are stored, since both hold secrets that this device cannot tell from other
text. Of an ended call the store has its `Facts`; the whole result is in the memory of the client that ran it
(`call_log`), for as long as that client runs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.aip.frames import error_text, read_error_text
from core.aip.messages import Result, ResultStatus
from core.device.device_store import EXPIRY_S, DeviceStore, doubt, doubtful_until, made_at
from core.device.tool import NAMESPACE
from core.device.undo import ID_PATTERN
from core.errors import DeviceError, ErrorCode
from core.log import Logger

log = Logger(__name__)

State = Literal["started", "done", "gone"]
# So many are kept at any age: correcting a wrong clock can make young records look old.
KEPT_ANYWAY = 4096
_MOST_RECORDS = 50_000
_MOST_FACT_BYTES = 4 * 1024 * 1024
_NOTES_BETWEEN_TRIMS = 256
_INTERRUPTED = "It was running when the device client ended"
_NOT_KEPT = "The device client that ran it has ended, and results are not stored"
_COLUMNS = "call_id, state, what, at, result"
# Facts have a table of their own, whose pages are free again when old ones are dropped.
_CALLS = "calls LEFT JOIN results USING (seq)"
_INSERT = "INSERT INTO calls (call_id, state, what, at, client) VALUES (?, ?, ?, ?, ?)"


class Facts(BaseModel):
    """The stored facts of a call's end: nothing that an argument, a file or a program could have written.

    `code` is the error's code. `exit_code` and `undo` are those of a built-in tool's result. `cut`: the
    client ended before the call did.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    status: ResultStatus
    namespace: str | None = None
    code: ErrorCode | None = None
    exit_code: int | None = None
    undo: str | None = Field(default=None, pattern=ID_PATTERN)
    cut: bool = False

    @classmethod
    def of(cls, result: Result) -> Facts:
        """The facts of a result."""
        code = None if result.status is ResultStatus.SUCCESS else read_error_text(result.error or "").code
        facts = cls(status=result.status, namespace=result.namespace, code=code)
        if result.namespace != NAMESPACE or not isinstance(result.result, dict):
            return facts
        named = {name: result.result.get(name) for name in ("exit_code", "undo")}
        try:
            return cls.model_validate({**dict(facts), **named})
        except ValidationError:
            # A later tool's field of this name has another form.
            return facts

    def result(self, call_id: str | None, why: str = "") -> Result:
        """The result of a call of which only these facts are told; `why`: where it is not a restart."""
        named = {"exit_code": self.exit_code, "undo": self.undo}
        known = {name: value for name, value in named.items() if value is not None}
        words = _INTERRUPTED if self.cut else why or _NOT_KEPT
        return Result(
            status=self.status,
            error=None if self.code is None else error_text(DeviceError(words, self.code)),
            result=None if self.cut else {**known, "not_kept": why or _NOT_KEPT},
            namespace=self.namespace,
            call_id=call_id,
        )


_CUT = Facts(status=ResultStatus.FAILURE, namespace=NAMESPACE, code=ErrorCode.OUTCOME_UNKNOWN, cut=True)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """The state of one call; `facts` of its end, unless they were dropped.

    `what` identifies the command, and `at` is when it came, in seconds since 1970.
    """

    call_id: str
    state: State
    what: str
    at: float
    facts: Facts | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The records of ended clients, oldest first, and how far they reach; times in seconds since 1970.

    Until `doubtful_until` an unknown call may be a lost record. Of calls before `since` there are none.
    """

    known: list[CallRecord]
    doubtful_until: float
    since: float


@dataclass(frozen=True, slots=True)
class Lookup:
    """The records of ended clients, which are this client's now, and those of the calls in question.

    None stands for a call whose record may have been lost.
    """

    adopted: list[CallRecord]
    asked: dict[str, CallRecord | None]


class CallRecords:
    """The records of one client, and its view of those of the others."""

    def __init__(self, store: DeviceStore) -> None:
        self._store = store
        self._notes = 0

    def open(self, now: float) -> Opened:
        """Open the records, and take over those of ended clients.

        Raises:
            BadInput: the state folder cannot be used.
            DeviceError: it cannot be used now, but perhaps later.
        """
        self._store.open()
        return self._store.do(partial(self._take_over, now=now), durable=True)

    async def claim(self, record: CallRecord) -> CallRecord | None:
        """Record a call as started, on the disk; the record of the client that had it before, if any.

        Raises:
            DeviceError: it was not recorded.
        """
        return await self._store.run(partial(self._claim, record=record), durable=True)

    async def note(self, record: CallRecord) -> None:
        """Record how a call ended that this client has claimed.

        Raises:
            DeviceError: it was not recorded.
        """
        await self._store.run(partial(self._note, record=record))

    async def adopt(self) -> list[CallRecord]:
        """Take over the records of clients that have ended since; oldest first.

        Raises:
            DeviceError: they cannot be read.
        """
        return await self._store.run(self._adopt)

    async def look_up(self, call_ids: Sequence[str], now: float, doubtful: bool) -> Lookup:
        """The records of these calls; those that have none never run from now on, on the disk.

        `doubtful`: records of this client have been dropped, so that a call without one may have run.

        Raises:
            DeviceError: they cannot be read or written.
        """
        return await self._store.run(
            partial(self._look_up, call_ids=call_ids, now=now, doubtful=doubtful), durable=True
        )

    def close(self) -> None:
        """Close the store; the records stay."""
        self._store.close()

    def _take_over(self, connection: sqlite3.Connection, now: float) -> Opened:
        self._adopt(connection)
        self._trim(connection, now)
        rows = connection.execute(
            f"SELECT seq, {_COLUMNS} FROM {_CALLS} WHERE client = ? ORDER BY seq", (self._store.client,)
        ).fetchall()
        records = {seq: _record(row) for seq, *row in rows}
        for seq in [seq for seq, record in records.items() if record is None]:
            log.warning("a record of an action cannot be read and was dropped", number=seq)
            connection.execute("DELETE FROM calls WHERE seq = ?", (seq,))
            doubt(connection, "calls", now)
        known = [record for record in records.values() if record is not None]
        return Opened(known, doubtful_until(connection, "calls"), made_at(connection))

    def _claim(self, connection: sqlite3.Connection, record: CallRecord) -> CallRecord | None:
        row = (*_row(record), self._store.client)
        if connection.execute(f"{_INSERT} ON CONFLICT (call_id) DO NOTHING", row).rowcount:
            return None
        return _find(connection, record.call_id)

    def _note(self, connection: sqlite3.Connection, record: CallRecord) -> None:
        row = connection.execute(
            "SELECT seq FROM calls WHERE call_id = ? AND client = ? AND state = 'started'",
            (_bytes(record.call_id), self._store.client),
        ).fetchone()
        if row is not None:
            connection.execute("UPDATE calls SET state = ? WHERE seq = ?", (record.state, row[0]))
            _put_facts(connection, row[0], record.facts)
        self._count(connection, 1, record.at)

    def _adopt(self, connection: sqlite3.Connection) -> list[CallRecord]:
        adopted: list[tuple[Any, ...]] = []
        for (client,) in connection.execute("SELECT DISTINCT client FROM calls").fetchall():
            if self._store.is_alive(client):
                continue
            cut = connection.execute(
                "SELECT seq FROM calls WHERE client = ? AND state = 'started'", (client,)
            ).fetchall()
            for (seq,) in cut:
                connection.execute("UPDATE calls SET state = 'done' WHERE seq = ?", (seq,))
                _put_facts(connection, seq, _CUT)
            adopted += connection.execute(f"SELECT seq, {_COLUMNS} FROM {_CALLS} WHERE client = ?", (client,))
            connection.execute("UPDATE calls SET client = ? WHERE client = ?", (self._store.client, client))
        records = [_record(row) for _, *row in sorted(adopted)]
        return [record for record in records if record is not None]

    def _look_up(
        self, connection: sqlite3.Connection, call_ids: Sequence[str], now: float, doubtful: bool
    ) -> Lookup:
        adopted = self._adopt(connection)
        doubtful = doubtful or now < doubtful_until(connection, "calls")
        asked: dict[str, CallRecord | None] = {}
        added = 0
        for call_id in call_ids:
            record = _find(connection, call_id)
            if record is None and not doubtful:
                record = CallRecord(call_id, "gone", "", now)
                connection.execute(_INSERT, (*_row(record), self._store.client))
                added += 1
            asked[call_id] = record
        self._count(connection, added, now)
        return Lookup(adopted, asked)

    def _count(self, connection: sqlite3.Connection, notes: int, now: float) -> None:
        self._notes += notes
        if self._notes >= _NOTES_BETWEEN_TRIMS:
            self._notes = 0
            self._trim(connection, now)

    def _trim(self, connection: sqlite3.Connection, now: float) -> None:
        """Drop records and facts that are too old or too many; calls that run stay."""
        since = now - EXPIRY_S
        old = "state != 'started' AND seq <= (SELECT seq FROM calls ORDER BY seq DESC LIMIT 1 OFFSET ?)"
        connection.execute(f"DELETE FROM calls WHERE at < ? AND {old}", (since, KEPT_ANYWAY))
        connection.execute(f"DELETE FROM calls WHERE state = 'gone' AND {old}", (_MOST_RECORDS,))
        if connection.execute(f"DELETE FROM calls WHERE {old}", (_MOST_RECORDS,)).rowcount:
            doubt(connection, "calls", now)
        connection.execute(
            "DELETE FROM results WHERE seq NOT IN (SELECT seq FROM calls WHERE at >= ?)", (since,)
        )
        connection.execute(
            "DELETE FROM results WHERE seq <= (SELECT seq FROM "
            "(SELECT seq, sum(length(result)) OVER (ORDER BY seq DESC) AS total FROM results) "
            "WHERE total > ? ORDER BY seq DESC LIMIT 1)",
            (_MOST_FACT_BYTES,),
        )


def _find(connection: sqlite3.Connection, call_id: str) -> CallRecord | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM {_CALLS} WHERE call_id = ?", (_bytes(call_id),)
    ).fetchone()
    if row is None:
        return None
    # An unreadable record still says that the call is not a new one.
    return _record(row) or CallRecord(call_id, "done", "", 0.0)


def _row(record: CallRecord) -> tuple[bytes, str, bytes, float]:
    return _bytes(record.call_id), record.state, _bytes(record.what), round(record.at, 3)


def _put_facts(connection: sqlite3.Connection, seq: int, facts: Facts | None) -> None:
    if facts is not None:
        text = facts.model_dump_json(exclude_defaults=True)
        connection.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", (seq, text))


def _record(row: Sequence[Any]) -> CallRecord | None:
    """The record in a row of `_COLUMNS`; None if the row cannot be read."""
    call_id, state, what, at, facts = row
    try:
        known = None if facts is None else Facts.model_validate_json(facts)
        if state not in {"started", "done", "gone"}:
            return None
        return CallRecord(_text(call_id), state, _text(what), float(at), known)
    except (ValueError, TypeError, AttributeError):
        return None


def _bytes(text: str) -> bytes:
    # Ids come from consoles, and JSON allows lone surrogates, which UTF-8 does not.
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")

"""The reserve: room in the home for what an operator stopped, while the journal cannot be written.

Stop all, pausing, stopping or revoking an agent, and revoking a grant hold at once, also on a full disk. They
must hold after a restart, too. So a file of the home has room for their entries: it is written over in place,
which needs no free space (but on a file system that copies what is written over, such as btrfs). The entries
go into the journal as soon as it can be written, at the latest at the next start.

The content carries a MAC under a key derived from the journal's, so that no program without that key can add
to the journal by it. An earlier content that is put back can only stop again what was stopped before.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from enum import StrEnum
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import TypeAdapter, ValidationError

from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.files import create_new
from core.log import Logger

log = Logger(__name__)

SIZE = 256 * 1024
KINDS = frozenset(
    {Kind.ALL_STOPPED, Kind.AGENT_SET, Kind.AGENT_STOPPED, Kind.AGENT_REVOKED, Kind.GRANT_REVOKED}
)
"""The entries that a reserve may hold: those that tighten. An agent's settings are checked at restoring."""
MARK = b"QDRESERVE1"
_LENGTH_BYTES, _MAC_BYTES = 4, 32
_HEAD = len(MARK) + _LENGTH_BYTES + _MAC_BYTES
_ENTRIES: TypeAdapter[list[NewEntry]] = TypeAdapter(list[NewEntry])


class Kept(StrEnum):
    """Where the record of something that an operator stopped is kept; the value is said to the operator."""

    JOURNAL = ""
    RESERVE = "The journal cannot be written now; it holds after a restart, too."
    NOWHERE = "The journal cannot be written now: this holds until the service ends, but NOT after a restart."


class Reserve:
    """The reserve of one home, used by the process that owns the home."""

    def __init__(self, path: Path, key: Ed25519PrivateKey) -> None:
        self._path = path
        self._key = hashlib.sha256(b"quarterdeck.reserve/1\0" + key.private_bytes_raw()).digest()
        self._entries: list[NewEntry] = []

    @property
    def used(self) -> bool:
        """Whether it holds entries."""
        return bool(self._entries)

    def prepare(self) -> None:
        """Allocate the file. Without room for it now, there is no reserve until the next start."""
        try:
            if self._path.exists() and self._path.stat().st_size == SIZE:
                return
            self._path.unlink(missing_ok=True)
            # Not a hole: zeros that are written have blocks of the disk.
            create_new(self._path, bytes(SIZE))
        except OSError as error:
            log.warning("there is no room for the reserve", problem=error.strerror)

    def read(self) -> list[NewEntry]:
        """The entries that an earlier service left here; none if the content is not this home's."""
        try:
            data = self._path.read_bytes()
        except OSError:
            return []
        length = int.from_bytes(data[len(MARK) : len(MARK) + _LENGTH_BYTES], "little")
        body = data[_HEAD : _HEAD + length]
        if not data.startswith(MARK) or len(body) != length:
            return []
        if not hmac.compare_digest(self._mac(body), data[len(MARK) + _LENGTH_BYTES : _HEAD]):
            log.error("the reserve was written by another program; it does not count", path=str(self._path))
            return []
        try:
            entries = _ENTRIES.validate_json(body)
        except ValidationError:
            return []
        self._entries = [entry for entry in entries if entry.kind in KINDS]
        return list(self._entries)

    def add(self, entry: NewEntry) -> bool:
        """Keep an entry that tightens; returns whether it will be there after a restart."""
        body = _ENTRIES.dump_json([*self._entries, entry])
        if len(body) > SIZE - _HEAD:
            return False
        head = MARK + len(body).to_bytes(_LENGTH_BYTES, "little") + self._mac(body)
        if not self._write_over(head + body):
            return False
        self._entries.append(entry)
        return True

    def clear(self) -> bool:
        """Drop all entries, which the journal has by now; returns whether they are gone."""
        if self._entries and not self._write_over(bytes(_HEAD)):
            return False
        self._entries = []
        return True

    def _write_over(self, data: bytes) -> bool:
        try:
            with self._path.open("r+b", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != SIZE or file.write(data) != len(data):
                    return False
                os.fsync(file.fileno())
        except OSError as error:
            log.error("the reserve cannot be written", problem=error.strerror)
            return False
        return True

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")


async def take_over(reserve: Reserve, journal: Journal) -> None:
    """Write what an earlier service left in the reserve into the journal, and make room for what comes.

    Raises:
        JournalUnavailable: the journal cannot be written; the reserve stays as it is.
    """
    left = await asyncio.to_thread(reserve.read)
    await journal.append_many(left)
    reserve.clear()
    await asyncio.to_thread(reserve.prepare)

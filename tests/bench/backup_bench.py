"""What a backup costs: making one, and checking it, of a journal with pictures.

The peer reads the same bytes, hashes them, and writes them durably to the same disk, which `TMPDIR` chooses.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import threading
import time
from pathlib import Path

from core.approvals.operator_keys import create_operator_key
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.home import Home
from core.service.backup.checking import check
from core.service.backup.making import back_up
from core.service.backup.models import BackupKey
from core.service.backup.reading import BackupFile
from core.service.backup.restoring import JOURNAL_NAME
from tests.bench.figures import Figure, Figures, Peer, Scale

# Derived of no passphrase, which takes half a second whatever the size.
KEY = BackupKey(salt="5a" * 32, key="c3" * 32)
PICTURE = 500_000
GROUP = 100


def run(scale: Scale) -> Figures:
    """Fill a home, back it up, check the backup."""
    with tempfile.TemporaryDirectory(prefix="backup-bench-") as name:
        return asyncio.run(_measure(Path(name), scale))


async def _measure(folder: Path, scale: Scale) -> Figures:
    home = Home(folder / "home").create()
    journal = await Journal.open(
        home.path, load_or_create_journal_key(home.keys / "journal.key"), JOURNAL_NAME
    )
    create_operator_key(home, "bench", None)
    pictures = [await journal.put_blob(os.urandom(PICTURE)) for _ in range(scale.of(100, 2))]
    for _ in range(scale.of(200, 2)):
        await journal.append_many([_entry(number, pictures) for number in range(GROUP)])
    started = time.perf_counter()
    made = await back_up(home, journal, str(folder / "desk.tar"), KEY, lambda done, total: None)
    making = time.perf_counter() - started
    await journal.close()
    megabytes = made.size / 1e6
    peer = Peer("read, hash, write the same bytes", megabytes / _copied(folder / "desk.tar", folder / "copy"))
    started = time.perf_counter()
    with BackupFile(folder / "desk.tar") as backup:
        check(backup, KEY, lambda done, total: None, threading.Event())
    checking = time.perf_counter() - started
    remark = f"{megabytes:.0f} MB, {made.entries:,} entries, {len(pictures)} pictures"
    return [
        Figure("backup made", megabytes / making, "MB/s", peer, remark),
        Figure("backup checked", megabytes / checking, "MB/s", peer, "each file, and the journal verified"),
    ]


def _entry(number: int, pictures: list[str]) -> NewEntry:
    return NewEntry(
        kind=Kind.RESULT_RECORDED,
        actor="device:lab-1",
        device="lab-1",
        body={"number": number, "text": "what a device says " * 20},
        blobs=[pictures[number % len(pictures)]],
    )


def _copied(source: Path, target: Path) -> float:
    """Seconds to read a file, hash it and write it, all of it on the disk."""
    started = time.perf_counter()
    digest = hashlib.sha256()
    with source.open("rb") as read, target.open("wb") as write:
        while data := read.read(1 << 20):
            digest.update(data)
            write.write(data)
        os.fsync(write.fileno())
    return time.perf_counter() - started

"""What is said to be durable waited for the disk. A kill cannot show that, only a count of the waits can."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from tests.fakes.watched_syncs import watching_syncs

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
APPENDS = 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel that counts is Linux")


def new(number: int) -> NewEntry:
    return NewEntry(kind=Kind.INTENT_RECORDED, actor="service", body={"number": number})


async def append(folder: Path, count: int) -> None:
    journal = await Journal.open(folder, KEY, "desk")
    for number in range(count):
        await journal.append(new(number))
    await journal.close()


def test_each_awaited_append_waits_for_the_log_and_has_the_head_file_written_beside_it(memory_path):
    _, few = watching_syncs(lambda: asyncio.run(append(memory_path / "few", 0)))
    _, many = watching_syncs(lambda: asyncio.run(append(memory_path / "many", APPENDS)))
    for name in ("journal.db-wal", "journal.head"):
        assert many.count(name) - few.count(name) >= APPENDS, (name, few, many)
    # Never a head whose commit the disk was not asked for: it would say more than the database has.
    asked = Counter[str]()
    for name in many:
        asked[name] += 1
        assert asked["journal.head"] <= asked["journal.db-wal"]


def test_a_blob_and_the_folders_with_its_name_are_on_the_disk_before_it_is_named(memory_path):
    async def put() -> str:
        journal = await Journal.open(memory_path, KEY, "desk")
        sha = await journal.put_blob(b"a picture")
        await journal.close()
        return sha

    sha, syncs = watching_syncs(lambda: asyncio.run(put()))
    places = [
        next(at for at, name in enumerate(syncs) if sha in name),
        syncs.index(sha[:2]),
        syncs.index("blobs"),
    ]
    assert places == sorted(places)


def test_a_new_home_has_its_key_and_its_head_on_the_disk_before_their_names(memory_path):
    async def first() -> None:
        key = load_or_create_journal_key(memory_path / "keys" / "journal.key")
        await (await Journal.open(memory_path / "home", key, "desk")).close()

    (memory_path / "keys").mkdir()
    _, syncs = watching_syncs(lambda: asyncio.run(first()))
    fresh_key = next(at for at, name in enumerate(syncs) if name.startswith(".journal.key."))
    assert "keys" in syncs[fresh_key:]
    fresh_head = next(at for at, name in enumerate(syncs) if name.startswith(".journal.head."))
    assert "home" in syncs[fresh_head:]

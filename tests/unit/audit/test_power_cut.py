"""A power cut at every moment at which the journal has waited for the disk: it opens, with all it promised.

What a power cut leaves of a file is what the disk was last asked to keep, or what was written since, whole or
in part, and for each file by itself. Tests cannot pull the plug, but they see each such request.
"""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit.entries import Kind, NewEntry
from core.audit.head_file import read_head_file
from core.audit.journal import Journal
from core.audit.verify import verify_folder
from tests.fakes.run_size import examples
from tests.fakes.watched_syncs import watching_syncs

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
BEFORE, APPENDS, NOTES = 5, 12, 3
ROUNDS = examples(4, quick=2)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel that watches is Linux")


@dataclass(frozen=True)
class Moment:
    """What each file is sure to hold, what it may hold already, and how many appends had been answered."""

    kept: dict[str, bytes]
    written: dict[str, bytes]
    answered: int


class Disk:
    """Follows one journal's files. Names are taken to last: no file is made or renamed meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = self._written()
        self.answered = BEFORE
        self.moments: list[Moment] = []

    def sync(self, path: Path) -> None:
        """The disk was asked to keep a file: at the end of the wait it does, before it may or may not."""
        written = self._written()
        self.moments.append(Moment(dict(self.kept), written, self.answered))
        if path.parent == self.folder:
            self.kept[path.name] = written[path.name]
        self.moments.append(Moment(dict(self.kept), written, self.answered))

    def _written(self) -> dict[str, bytes]:
        files = self.folder.iterdir()
        return {path.name: path.read_bytes() for path in files if not path.name.endswith("-shm")}


def new(text: str) -> NewEntry:
    return NewEntry(kind=Kind.COMMAND_SENT, actor="service", body={"text": text})


async def fill(folder: Path) -> None:
    journal = await Journal.open(folder, KEY, "desk")
    await journal.append_many([new(str(number)) for number in range(BEFORE)])
    await journal.close()


async def go_on(disk: Disk) -> None:
    journal = await Journal.open(disk.folder, KEY, "desk")
    for number in range(BEFORE, BEFORE + APPENDS):
        for _ in range(NOTES):
            journal.note(new("noted"))
        await journal.append(new(str(number)))
        disk.answered = number + 1
    await journal.close()


def cut(moment: Moment, home: Path, pick: random.Random) -> None:
    """Lay out what a power cut at that moment may leave."""
    home.mkdir()
    for name, written in moment.written.items():
        kept = moment.kept.get(name, b"")
        how = pick.choice(("kept", "written", "in part"))
        data = kept if how == "kept" else written
        if how == "in part":
            data = in_part(kept, written, pick)
        (home / name).write_bytes(data)


def in_part(kept: bytes, written: bytes, pick: random.Random) -> bytes:
    """Sectors of what was written since, the others as they were, or zeros where nothing was."""
    data = bytearray(kept.ljust(len(written), b"\0"))
    for at in range(0, len(written), 512):
        if pick.random() < 0.5:
            data[at : at + 512] = written[at : at + 512]
    return bytes(data)


async def texts(folder: Path) -> list[str]:
    journal = await Journal.open(folder, KEY, "desk")
    entries = (await journal.query("", after=0, limit=5000)).entries
    await journal.close()
    report = verify_folder(folder, KEY.public_key())
    assert report.ok, report.problem
    return [entry.body["text"] for entry in entries if "text" in entry.body]


def test_a_power_cut_at_any_moment_leaves_a_journal_that_opens_with_all_that_was_acknowledged(memory_path):
    live = memory_path / "live"
    asyncio.run(fill(live))
    disk = Disk(live)
    watching_syncs(lambda: asyncio.run(go_on(disk)), disk.sync)
    assert len(disk.moments) > 4 * APPENDS
    pick = random.Random(20_261_122)
    for number, moment in enumerate(disk.moments):
        for attempt in range(ROUNDS):
            home = memory_path / f"home-{number}-{attempt}"
            cut(moment, home, pick)
            appended = [text for text in asyncio.run(texts(home)) if text != "noted"]
            assert appended == [str(at) for at in range(len(appended))]
            assert len(appended) >= moment.answered, (number, attempt)
    assert disk.moments[-1].answered == BEFORE + APPENDS
    # What the disk is sure to have of the head file lacks the newest commit at most.
    head = memory_path / "journal.head"
    for moment in disk.moments:
        head.write_bytes(moment.kept["journal.head"])
        known = read_head_file(head, KEY.public_key())
        assert known is not None
        assert known.checkpoint.size >= BEFORE + (moment.answered - BEFORE - 1) * (NOTES + 1)

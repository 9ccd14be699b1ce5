"""One byte of a killed home's journal changed, at a time: what verification and the next start make of it."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.audit.checkpoint import load_or_create_journal_key, load_public_key
from core.audit.entries import Kind
from core.audit.journal import Journal
from core.audit.verify import verify_folder
from core.errors import JournalCorrupt
from tests.fakes.patience import PATIENCE_S
from tests.fakes.sqlite_space import Space, matters

ROOT = Path(__file__).parents[2]
# How the positions are shared out; the largest files have the most bytes that nothing depends on.
SHARES = {
    "journal.db": 35,
    "journal.db-wal": 30,
    "journal.spool": 12,
    "journal.head": 11,
    "blobs": 6,
    "keys": 6,
}

_VICTIM = """
import asyncio, os, signal, sys
from pathlib import Path
from core.audit import writer
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal

home = Path(sys.argv[1])
key = load_or_create_journal_key(home / "keys" / "journal.key")

def new(number, size=40, **fields):
    body = {"text": f"line {number} " + "x" * size}
    kind = Kind.RESULT_RECORDED if number % 2 else Kind.COMMAND_SENT
    return NewEntry(kind=kind, actor="agent:clerk", run=f"r-{number // 7}", device=f"lab-{number % 3}",
        call_id=f"c-{number}", tool="type_text", duration_ms=number * 1.5, body=body, **fields)

async def main():
    journal = await Journal.open(home, key, "quarterdeck")
    shas = [await journal.put_blob(b"picture %d" % number * 40) for number in range(3)]
    # Some do not fit a page of the database, and the trees have inner pages.
    await journal.append_many([new(n, 9000 if n % 50 == 9 else 40, blobs=[shas[n % 3]]) for n in range(70)])
    await journal.close()
    # None of what is noted from here on reaches the database by itself.
    writer.NOTE_DELAY = 3600
    journal = await Journal.open(home, key, "quarterdeck")
    for number in range(70, 80):
        journal.note(new(number))
        await journal.append(new(number + 1000))
    for number in range(80, 88):
        journal.note(new(number))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Flip:
    """A changed byte. `used` says whether the format gives it a meaning, `problem` what verification said.

    `refused` says that a start did not open the journal, `lost` what one that did lost or altered so that a
    verification afterwards finds nothing wrong.
    """

    file: str
    at: int
    by: int
    used: bool
    problem: str | None
    refused: bool
    lost: str

    @property
    def unnoticed(self) -> bool:
        """Whether all passed over a byte that means something, or a start lost an entry in silence."""
        return bool(self.lost) or (self.used and self.problem is None and not self.refused)


class KilledHome:
    """A home that was used, closed, used again and killed: each of its journal's files holds something."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "home"
        self._opened = folder / "opened"
        self.path.mkdir()
        victim = [sys.executable, "-c", _VICTIM, str(self.path)]
        done = subprocess.run(victim, cwd=ROOT, check=False, capture_output=True, timeout=PATIENCE_S)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        (self.path / "journal.db-shm").unlink()
        self.files = sorted(
            path.relative_to(self.path).as_posix() for path in self.path.rglob("*") if path.is_file()
        )
        space = Space((self.path / "journal.db").read_bytes(), (self.path / "journal.db-wal").read_bytes())
        self._key = load_public_key(self.path / "keys" / "journal.pub")
        self._used = {"journal.db": space.database, "journal.db-wal": space.log}
        assert self.verify() is None
        self.entries = asyncio.run(self._entries())

    def verify(self) -> str | None:
        """What verification says is wrong; None when it finds nothing."""
        try:
            report = verify_folder(self.path, load_public_key(self.path / "keys" / "journal.pub"))
            return report.problem or None
        except JournalCorrupt as error:
            return error.message

    def flips(self, count: int, seed: int) -> Iterator[Flip]:
        """Change so many bytes, one after the other, in every file by its share."""
        pick = random.Random(seed)
        for share, percent in SHARES.items():
            files = [name for name in self.files if name == share or name.startswith(f"{share}/")]
            assert files, share
            for number in range(max(count * percent // 100, 1)):
                name = files[number % len(files)]
                at = pick.randrange((self.path / name).stat().st_size)
                yield self.flip(name, at, pick.randrange(1, 256))

    def flip(self, name: str, at: int, by: int) -> Flip:
        """Change one byte, verify, start, and put the byte back."""
        path = self.path / name
        whole = path.read_bytes()
        path.write_bytes(whole[:at] + bytes([whole[at] ^ by]) + whole[at + 1 :])
        try:
            problem = self.verify()
            refused, lost = asyncio.run(self._start())
        finally:
            path.write_bytes(whole)
        used = matters(self._used[name][at], whole[at] ^ by) if name in self._used else True
        return Flip(name, at, by, used, problem, refused, lost)

    async def _start(self) -> tuple[bool, str]:
        try:
            entries = await self._entries()
        except JournalCorrupt:
            return True, ""
        if entries == self.entries or not verify_folder(self._opened, self._key).ok:
            return False, ""
        missing = len([entry for entry in self.entries if entry not in entries])
        return False, f"{missing} of {len(self.entries)} entries"

    async def _entries(self) -> list[tuple[str, str]]:
        """Everything that a start on a copy of the home brings back, in order."""
        shutil.rmtree(self._opened, ignore_errors=True)
        shutil.copytree(self.path, self._opened)
        key = load_or_create_journal_key(self._opened / "keys" / "journal.key")
        journal = await Journal.open(self._opened, key, "quarterdeck")
        try:
            page = await journal.query("", after=0, limit=5000)
        finally:
            await journal.close()
        return [
            (entry.kind, "" if entry.kind is Kind.JOURNAL_RECOVERED else entry.model_dump_json())
            for entry in page.entries
        ]

"""What the journal costs: durable entries, notes, verification; with `--million`, queries over a full log.

Run it with `python -m tests.bench.journal_bench [--million] [--folder DIR]`. The peer of single appends is a
bare `os.fsync` in the same folder in the same run, since disks differ more than programs.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import random
import tempfile
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.audit.verify import verify_folder

Figures = list[tuple[str, str]]

MILLION = 1_000_000
QUERIES = (
    "",
    "status:failure",
    "tool:type_text status:failure device:lab-1*",
    "tool:type_text status:failure device:lab-17 dur:>2s",
    "dur:>2900ms tool:click",
    "!kind:progress_reported actor:agent:* verdict:unknown",
    "run:r-004711",
    "call:c-00000000000a2*",
    "kind:command_* since:1h",
    "nowhere-to-be-found tool:click status:failure",
)


def run(million: bool = False, folder: Path | None = None) -> Figures:
    """Measure; gives names and figures to print."""
    with tempfile.TemporaryDirectory(prefix="journal-bench-", dir=folder) as name:
        return asyncio.run(_measure(Path(name), million))


async def _measure(folder: Path, million: bool) -> Figures:
    figures: Figures = []
    key = Ed25519PrivateKey.generate()
    journal = await Journal.open(folder / "home", key, "bench")
    made = _Maker()
    figures.append(("bare fsync (peer)", f"{_fsyncs(folder):,.0f}/s"))
    figures.append(("single durable appends", f"{await _singles(journal, made):,.0f}/s"))
    figures.append(
        ("durable, one group of 100 after the other", f"{await _groups(journal, made, 1):,.0f} entries/s")
    )
    figures.append(("durable, groups of 100, 8 callers", f"{await _groups(journal, made, 8):,.0f} entries/s"))
    figures.append(("note()", f"{await _notes(journal, made):.1f} µs"))
    while million and journal.state.entries < MILLION:
        await journal.append_many(made.entries(1000))
    report = await journal.verify()
    assert report.ok, report.problem
    log = (folder / "home" / "journal.db-wal").stat().st_size / 2**20
    name = f"verify {report.entries:,} entries, the indexes and {log:.0f} MiB of log, while open"
    figures.append((name, f"{report.entries / report.took_s:,.0f} entries/s"))
    await journal.close()
    for indexes in (False, True):
        report = verify_folder(folder / "home", key.public_key(), indexes=indexes)
        assert report.ok, report.problem
        name = f"verify {report.entries:,} entries{', and the indexes' if indexes else ''}"
        figures.append((name, f"{report.entries / report.took_s:,.0f} entries/s"))
    hashed = report.entries / _hashed(folder / "home" / "journal.db")
    figures.append(("SHA-256 over the same file (peer)", f"{hashed:,.0f} entries/s"))
    started = time.perf_counter()
    journal = await Journal.open(folder / "home", key, "bench")
    figures.append(
        (f"open with {report.entries:,} entries", f"{(time.perf_counter() - started) * 1000:.1f} ms")
    )
    if million:
        size = (folder / "home" / "journal.db").stat().st_size
        figures.append(("bytes on disk for an entry", f"{size / report.entries:,.0f}"))
        figures += await _queries(journal)
    await journal.close()
    return figures


class _Maker:
    """Entries like those of a busy console, from a fixed seed."""

    def __init__(self) -> None:
        self._random = random.Random(20_261_101)
        self._made = 0

    def entries(self, count: int) -> list[NewEntry]:
        return [self.entry() for _ in range(count)]

    def entry(self) -> NewEntry:
        self._made += 1
        pick = self._random
        return NewEntry(
            kind=pick.choice(_KINDS),
            actor=pick.choice(("operator:eve", "agent:clerk", "agent:scout", "service")),
            run=f"r-{self._made // 20:06d}",
            step="fill-in",
            device=f"lab-{pick.randrange(200)}",
            call_id=f"c-{self._made:016x}",
            tool=pick.choice(("type_text", "screenshot", "click", "shell_execute", "read_file")),
            status="failure" if pick.random() < 0.05 else "success",
            verdict=pick.choice(("confirmed", "unverified", "unverified", "unknown")),
            duration_ms=round(pick.random() * 3000, 1),
            body={
                "parameters": {"text": f"row {self._made}", "element": 17},
                "digest": f"{pick.getrandbits(256):064x}",
            },
        )


_KINDS = (
    Kind.COMMAND_PREPARED,
    Kind.COMMAND_DECIDED,
    Kind.INTENT_RECORDED,
    Kind.COMMAND_SENT,
    Kind.PROGRESS_REPORTED,
    Kind.RESULT_RECORDED,
)


def _hashed(path: Path) -> float:
    """Seconds to read a file and hash it: the least that a verification of its bytes can take."""
    started = time.perf_counter()
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")
    return time.perf_counter() - started


def _fsyncs(folder: Path) -> float:
    """Like a commit to SQLite's log: 4 KiB behind the last, then fsync."""
    handle = os.open(folder / "fsync-peer", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        started = time.perf_counter()
        for _ in range(300):
            os.write(handle, b"x" * 4096)
            os.fsync(handle)
        return 300 / (time.perf_counter() - started)
    finally:
        os.close(handle)


async def _singles(journal: Journal, made: _Maker) -> float:
    entries = made.entries(300)
    started = time.perf_counter()
    for entry in entries:
        await journal.append(entry)
    return len(entries) / (time.perf_counter() - started)


async def _groups(journal: Journal, made: _Maker, callers: int) -> float:
    groups = [made.entries(100) for _ in range(240)]
    started = time.perf_counter()

    async def call(mine: list[list[NewEntry]]) -> None:
        for group in mine:
            await journal.append_many(group)

    async with asyncio.TaskGroup() as tasks:
        for number in range(callers):
            tasks.create_task(call(groups[number::callers]))
    return 100 * len(groups) / (time.perf_counter() - started)


async def _notes(journal: Journal, made: _Maker) -> float:
    """Microseconds for one note, at the pace of a busy console: bursts of 20, then the loop gets its turn."""
    entries = made.entries(2000)
    spent = 0.0
    for start in range(0, len(entries), 20):
        began = time.perf_counter()
        for entry in entries[start : start + 20]:
            journal.note(entry)
        spent += time.perf_counter() - began
        await journal.append(made.entry())
    return spent / len(entries) * 1e6


async def _queries(journal: Journal) -> Figures:
    figures: Figures = []
    for text in QUERIES:
        times = []
        for _ in range(3):
            page = await journal.query(text)
            times.append(page.took_ms)
        found = (
            f"{page.count:,}{'' if page.count_exact else '+'} found{'' if page.complete else ', incomplete'}"
        )
        figures.append(
            (f"query {text or '(all)'}", f"{sorted(times)[1]:.1f} ms (first {times[0]:.1f}), {found}")
        )
    for name, work in (
        ("facets of device", journal.facets("device", "lab-1")),
        ("histogram of all, 60 buckets", journal.histogram("", 60)),
        ("histogram of status:failure", journal.histogram("status:failure", 60)),
        ("inclusion proof", journal.prove(MILLION // 3)),
    ):
        started = time.perf_counter()
        await work
        figures.append((name, f"{(time.perf_counter() - started) * 1000:.1f} ms"))
    return figures


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure the journal.")
    parser.add_argument("--million", action="store_true", help="also with 1,000,000 entries (some minutes)")
    parser.add_argument("--folder", type=Path, help="where to measure (default: the temporary folder)")
    arguments = parser.parse_args()
    for name, figure in run(arguments.million, arguments.folder):
        print(f"{name:48} {figure}")


if __name__ == "__main__":
    main()

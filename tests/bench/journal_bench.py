"""What the journal costs: durable entries, notes, verification; with `--million`, queries over a full one.

The peer of appends is a bare `os.fsync` in the same folder, since disks differ more than programs; that of
verification is SHA-256 over the same file. `TMPDIR` chooses the disk.
"""

from __future__ import annotations

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
from tests.bench.figures import Figure, Figures, Peer, Scale

MILLION = 1_000_000
GROUP = 100
# The first is all entries, the others filter.
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


def run(scale: Scale) -> Figures:
    """Fill a journal, verify it, and with `--million` query it."""
    with tempfile.TemporaryDirectory(prefix="journal-bench-") as name:
        return asyncio.run(_measure(Path(name), scale))


async def _measure(folder: Path, scale: Scale) -> Figures:
    key = Ed25519PrivateKey.generate()
    home = folder / "home"
    journal = await Journal.open(home, key, "bench")
    lines = await _filled(journal, folder, scale)
    report = await journal.verify()
    assert report.ok, report.problem
    log = (home / "journal.db-wal").stat().st_size / 2**20
    remark = f"{report.entries:,} entries, the indexes and {log:.0f} MiB of log"
    lines.append(
        Figure("verification while open", report.entries / report.took_s, "entries/s", remark=remark)
    )
    await journal.close()
    hashed = Peer("SHA-256 over the same file", report.entries / _hashed(home / "journal.db"))
    for indexes, name in ((False, "verification"), (True, "verification, the indexes too")):
        report = verify_folder(home, key.public_key(), indexes=indexes)
        assert report.ok, report.problem
        rate = report.entries / report.took_s
        lines.append(Figure(name, rate, "entries/s", hashed, f"{report.entries:,} entries"))
    started = time.perf_counter()
    journal = await Journal.open(home, key, "bench")
    lines.append(Figure("journal opened", (time.perf_counter() - started) * 1000, "ms"))
    if scale.million:
        size = (home / "journal.db").stat().st_size
        lines.append(Figure("bytes on disk for an entry", size / report.entries, "bytes"))
        lines += await _queries(journal)
    await journal.close()
    return lines


async def _filled(journal: Journal, folder: Path, scale: Scale) -> Figures:
    """Entries a second in each way of writing; the journal has them, or a million, afterwards."""
    made = _Maker()
    fsync = Peer("bare fsync", _fsyncs(folder, scale.of(300, 5)))
    groups = scale.of(240, 8)
    in_groups = Peer(f"{GROUP} entries for each bare fsync", GROUP * fsync.value)
    lines: Figures = [
        Figure("single durable appends", await _singles(journal, made, scale.of(300, 5)), "entries/s", fsync),
        Figure(
            "durable, groups of 100 in turn", await _groups(journal, made, groups, 1), "entries/s", in_groups
        ),
        Figure(
            "durable, groups of 100 from 8 callers",
            await _groups(journal, made, groups, 8),
            "entries/s",
            in_groups,
        ),
        Figure("one note", await _notes(journal, made, scale.of(2_000, 40)), "µs"),
    ]
    while scale.million and journal.state.entries < scale.of(MILLION, 2_000):
        await journal.append_many(made.entries(1000))
    return lines


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


def _fsyncs(folder: Path, count: int) -> float:
    """How many a second, each like a commit to SQLite's log: 4 KiB behind the last, then fsync."""
    handle = os.open(folder / "fsync-peer", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        started = time.perf_counter()
        for _ in range(count):
            os.write(handle, b"x" * 4096)
            os.fsync(handle)
        return count / (time.perf_counter() - started)
    finally:
        os.close(handle)


async def _singles(journal: Journal, made: _Maker, count: int) -> float:
    entries = made.entries(count)
    started = time.perf_counter()
    for entry in entries:
        await journal.append(entry)
    return len(entries) / (time.perf_counter() - started)


async def _groups(journal: Journal, made: _Maker, count: int, callers: int) -> float:
    groups = [made.entries(GROUP) for _ in range(count)]
    started = time.perf_counter()

    async def call(mine: list[list[NewEntry]]) -> None:
        for group in mine:
            await journal.append_many(group)

    async with asyncio.TaskGroup() as tasks:
        for number in range(callers):
            tasks.create_task(call(groups[number::callers]))
    return GROUP * len(groups) / (time.perf_counter() - started)


async def _notes(journal: Journal, made: _Maker, count: int) -> float:
    """Microseconds for one note, at the pace of a busy console: bursts of 20, then the loop gets its turn."""
    entries = made.entries(count)
    spent = 0.0
    for start in range(0, len(entries), 20):
        began = time.perf_counter()
        for entry in entries[start : start + 20]:
            journal.note(entry)
        spent += time.perf_counter() - began
        await journal.append(made.entry())
    return spent / len(entries) * 1e6


async def _queries(journal: Journal) -> Figures:
    lines: Figures = []
    medians: dict[str, float] = {}
    for text in QUERIES:
        pages = [await journal.query(text) for _ in range(3)]
        times = [page.took_ms for page in pages]
        medians[text] = sorted(times)[1]
        count = f"{pages[0].count:,}{'' if pages[0].count_exact else '+'} found"
        remark = f"first {times[0]:.1f} ms, {count}{'' if pages[0].complete else ', incomplete'}"
        lines.append(Figure(f"query {text or '(all)'}", medians[text], "ms", remark=remark))
    slowest = max(QUERIES[1:], key=lambda text: medians[text])
    lines += [
        Figure("first rows of a full journal", medians[QUERIES[0]], "ms"),
        Figure("slowest filtered query over a full journal", medians[slowest], "ms", remark=slowest),
    ]
    for name, work in (
        ("facets of device", journal.facets("device", "lab-1")),
        ("histogram of all, 60 buckets", journal.histogram("", 60)),
        ("histogram of status:failure", journal.histogram("status:failure", 60)),
        ("inclusion proof", journal.prove(journal.state.entries // 3)),
    ):
        started = time.perf_counter()
        await work
        lines.append(Figure(name, (time.perf_counter() - started) * 1000, "ms"))
    return lines

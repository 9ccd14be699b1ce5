"""The journal screen over a real journal on disk: its queries, its proofs, and damage that is found out."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.screens.targets import OpenEntry, OpenQuery
from app.theme.theme import Theme
from app.widgets.banner import Notice
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.journal import Journal
from core.service.console import Bucket, EntryPage, Facet, JournalChanged, Proof, VerifyReport
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame, seen

COUNT = 1_000


class DiskConsole(FakeConsole):
    """The fake console with a real journal behind it, translated as the service does."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.folder.mkdir()

    async def open_journal(self, count: int = COUNT) -> None:
        key = load_or_create_journal_key(self.folder / "journal.key")
        self.disk = await Journal.open(self.folder, key, "test")
        self.picture = await self.disk.put_blob(b"words of a command\n")
        made = [
            NewEntry(
                kind=Kind.RESULT_RECORDED if number % 4 == 3 else Kind.COMMAND_SENT,
                actor="service",
                device=f"lab-lnx-0{number % 5 + 1}",
                call_id=f"c-{number // 4}",
                tool="shell_execute" if number % 3 else "screenshot",
                verdict="confirmed" if number % 4 == 3 else None,
                duration_ms=float(number) if number % 4 == 3 else None,
                blobs=[self.picture] if number == count - 1 else [],
                body={"number": number},
            )
            for number in range(count)
        ]
        await self.disk.append_many(made)
        self._tell()

    def _tell(self) -> None:
        state = self.disk.state
        self.fake_journal.status = self.fake_journal.status.model_copy(update={"entries": state.entries})
        self.emit(JournalChanged(journal=self.fake_journal.status))

    async def append(self, entry: NewEntry) -> None:
        await self.disk.append(entry)
        self._tell()

    async def on_entries(self, query: str, before: int | None, limit: int) -> EntryPage:
        page = await self.disk.query(query, before=before, limit=limit)
        return EntryPage(
            entries=page.entries,
            more=page.next_before is not None,
            total=page.count,
            total_exact=page.count_exact,
            took_ms=page.took_ms,
        )

    async def on_entry(self, seq: int) -> Entry:
        return await self.disk.entry(seq)

    async def on_histogram(self, query: str, buckets: int) -> list[Bucket]:
        return await self.disk.histogram(query, buckets)

    async def on_facets(self, field: str, prefix: str, limit: int) -> list[Facet]:
        return await self.disk.facets(field, prefix, limit)

    async def on_proof(self, seq: int) -> Proof:
        found = await self.disk.prove(seq)
        return Proof(**found.model_dump(), public_key=self.disk.public_key.public_bytes_raw().hex())

    async def on_verify(self) -> VerifyReport:
        return await self.disk.verify()

    async def on_blob(self, sha256: str) -> bytes:
        return await self.disk.get_blob(sha256)


async def test_a_real_journal_is_searched_proved_and_verified(theme: Theme, tmp_path: Path) -> None:
    console = DiskConsole(tmp_path / "journal")

    async with open_frame(theme, tmp_path / "home", console) as desk:
        await console.open_journal()
        desk.window.open("journal", OpenQuery("tool:screenshot verdict:confirmed dur:>100ms since:1h"))
        screen: Any = desk.window.current
        await seen(lambda: screen.feed.loaded and not screen.feed.loading)
        expected = [n + 1 for n in range(COUNT) if n % 4 == 3 and n % 3 == 0 and n > 100]
        assert screen.feed.total == len(expected)
        entries = screen.table.entries
        keys = [entries.seq_at(row) for row in range(entries.rowCount())]
        assert keys == sorted(expected, reverse=True)[: len(keys)]
        screen.bar.field.setFocus()
        screen.bar.field.setText("device:lab")
        screen.bar.field.completion_wanted.emit()
        await seen(lambda: screen.bar.field.list_is_open())
        assert screen.bar.field.suggestions.choices() == [f"lab-lnx-0{n}" for n in range(1, 6)]
        screen.bar.set_query("seq:..500")
        await seen(lambda: screen.table.entries.newest == 500)
        screen.table.setFocus()
        QTest.keyClick(screen.table, Qt.Key.Key_P)
        await seen(lambda: screen.pane.proof.verdict.isVisible())
        assert screen.pane.proof.verdict.text() == "In the journal, unchanged."
        screen.verify_act.trigger()
        await seen(lambda: screen.verify_banner.banner.kind == "ok" and not screen.verify_banner.running)
        assert "1,000 entries, 1 blob," in screen.verify_banner.banner.words()
        await console.disk.close()


async def test_a_changed_entry_and_a_damaged_blob_are_found_out(theme: Theme, tmp_path: Path) -> None:
    console = DiskConsole(tmp_path / "journal")

    async with open_frame(theme, tmp_path / "home", console) as desk:
        await console.open_journal()
        change_entry(console.folder / "journal.db", 412)
        stored = next(path for path in console.folder.rglob(f"*{console.picture[4:]}*") if path.is_file())
        stored.chmod(0o600)
        stored.write_bytes(b"other words")
        desk.window.open("journal", OpenEntry(412, "proof"))
        screen: Any = desk.window.current
        await seen(lambda: screen.pane.proof.failure.isVisible())
        assert not screen.pane.proof.verdict.isVisible()
        screen.verify_act.trigger()
        await seen(lambda: screen.verify_banner.banner.kind == "fail")
        assert "Entry 412 does not match its hash." in screen.verify_banner.banner.words()
        screen.open_entry(COUNT, "pictures")
        await seen(lambda: screen.pane.pictures.findChildren(Notice))
        await console.disk.close()


def change_entry(path: Path, seq: int) -> None:
    with sqlite3.connect(path) as connection:
        (text,) = connection.execute("SELECT entry FROM entries WHERE seq = ?", (seq,)).fetchone()
        changed = bytes(text).replace(b'"service"', b'"nobody!"')
        connection.execute("UPDATE entries SET entry = ? WHERE seq = ?", (changed, seq))
    connection.close()

"""The journal's pane: facts and body, proofs checked in the window, neighbours, pictures, ways on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.screens.journal.attachments_tab import MOST_TEXT, read_text
from app.screens.targets import OpenQuery, OpenReplay, OpenRun
from app.theme.theme import Theme
from app.widgets.banner import Notice
from app.widgets.code_view import CodeView
from app.widgets.image_view import ImageView
from app.widgets.labels import ElidedLabel
from core.audit.checkpoint import Signer, origin_of
from core.audit.entries import Entry, Kind
from core.audit.merkle import inclusion_path, leaf_hash, root_of
from core.errors import JournalCorrupt, ServiceError
from core.service.console import Proof
from core.service.proof_check import check_proof, steps_of
from tests.fakes.console import FakeConsole
from tests.fakes.journal_proof import entry_bytes, prove_entry
from tests.fakes.pictures import desktop_png
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.journal.page import open_entry
from tests.gui.page import visible


def first_seq(console: FakeConsole, query: str) -> int:
    return console.fake_journal.matching(query)[0].seq


# Proofs, attacked


@pytest.fixture(scope="module")
def proven() -> tuple[Entry, Proof]:
    entries = [
        Entry(seq=seq, time=f"2026-01-01T00:00:{seq:02d}.000000Z", kind=Kind.COMMAND_SENT, actor="service")
        for seq in range(1, 24)
    ]
    return entries[6], prove_entry(entries, entries[6])


def test_a_proof_that_holds_is_said_to_hold(proven: tuple[Entry, Proof]) -> None:
    finding = check_proof(*proven)
    assert (finding.ok, finding.words) == (True, "In the journal, unchanged.")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"entry": lambda p: p.entry.replace("command_sent", "result_recorded")}, "does not give the hash"),
        ({"path": lambda p: [p.path[1], p.path[0], *p.path[2:]]}, "does not lead from this entry"),
        ({"path": lambda p: p.path[:-1]}, "does not lead from this entry"),
        ({"path": lambda p: ["no hash", *p.path[1:]]}, "holds something that is not a hash"),
        ({"seq": lambda p: p.seq + 1}, "does not lead from this entry"),
        ({"root": lambda p: "00" * 32}, "does not lead from this entry"),
        ({"checkpoint": lambda p: p.checkpoint.replace("\n23\n", "\n24\n")}, "signature"),
        ({"checkpoint": lambda p: ""}, "not a signed note"),
        ({"public_key": lambda p: ""}, "public key is missing"),
        ({"public_key": lambda p: "zz"}, "public key is missing"),
    ],
)
def test_a_proof_that_was_tampered_with_does_not_hold(
    proven: tuple[Entry, Proof], change: dict[str, Any], words: str
) -> None:
    entry, proof = proven
    forged = proof.model_copy(update={name: make(proof) for name, make in change.items()})
    finding = check_proof(entry, forged)
    assert not finding.ok
    assert words in finding.words


def test_a_checkpoint_signed_with_another_key_is_refused(proven: tuple[Entry, Proof]) -> None:
    entry, proof = proven
    forger = Signer(Ed25519PrivateKey.generate(), origin_of("qd-desk-1"))
    note = forger.sign(proof.size, bytes.fromhex(proof.root))
    finding = check_proof(entry, proof.model_copy(update={"checkpoint": note}))
    assert not finding.ok
    assert "another key" in finding.words


def test_a_good_proof_of_other_words_than_are_shown_is_refused(proven: tuple[Entry, Proof]) -> None:
    entry, proof = proven
    finding = check_proof(entry.model_copy(update={"actor": "operator:anna"}), proof)
    assert not finding.ok
    assert "other words" in finding.words


@pytest.mark.parametrize("size", [1, 2, 3, 8, 23, 64, 65])
def test_the_steps_say_which_entries_are_below_each_hash(size: int) -> None:
    leaves = [leaf_hash(b"%d" % number) for number in range(size)]
    for index in range(size):
        path = inclusion_path(index, size, lambda start, end: root_of(leaves[start:end]))
        proof = Proof(
            seq=index + 1,
            entry="",
            leaf="",
            path=[node.hex() for node in path],
            root=root_of(leaves).hex(),
            size=size,
            checkpoint="",
            public_key="",
        )
        steps = steps_of(proof)
        assert [root_of(leaves[one.first - 1 : one.last]).hex() for one in steps] == proof.path
        assert all((one.side == "right") == (one.first > index + 1) for one in steps)


async def test_p_proves_the_entry_and_shows_the_way_to_the_checkpoint(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        seq = first_seq(console, "kind:command_refused")
        journal = await open_entry(desk, seq)
        journal.press(Qt.Key.Key_P)
        proof = journal.screen.pane.proof
        await seen(lambda: proof.verdict.isVisible())
        assert proof.verdict.text() == "In the journal, unchanged."
        assert proof.checkpoint.toPlainText().startswith("qd-desk-1/journal\n18204\n")
        assert proof.text.exact_bytes == entry_bytes(console.fake_journal.find(seq))
        QTest.mouseClick(proof.tree.more, Qt.MouseButton.LeftButton)
        assert proof.tree.more is None


async def test_a_forged_proof_is_shown_as_a_failure(theme: Theme, tmp_path: Path) -> None:
    console = story()
    honest = console.fake_journal.proof

    def forged(seq: int) -> Proof:
        return honest(seq).model_copy(update={"root": "00" * 32})

    console.fake_journal.proof = forged  # type: ignore[method-assign]  # the service lies here

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_entry(desk, first_seq(console, "kind:command_refused"), "proof")
        await seen(lambda: journal.screen.pane.proof.failure.isVisible())
        assert not journal.screen.pane.proof.verdict.isVisible()
        assert "does not lead" in journal.screen.pane.proof.failure.accessibleName()


async def test_a_proof_that_cannot_be_had_says_why(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.fail_next["proof"] = ServiceError("The line broke.")

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_entry(desk, first_seq(console, "kind:command_refused"), "proof")
        await seen(lambda: "The line broke." in journal.screen.pane.proof.message.words())


# Entry and neighbours


async def test_the_pane_shows_the_fields_and_the_body(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        seq = first_seq(console, "tool:screenshot kind:result_recorded")
        journal = await open_entry(desk, seq)
        entry = console.fake_journal.find(seq)
        assert journal.screen.pane.entry_tab.body.value == entry.body
        assert journal.screen.pane.entry_tab.facts.value("Command").text() == entry.call_id
        titles = [label.text() for label in visible(journal.screen.pane, ElidedLabel)]
        assert any(one.startswith(f"screenshot on {entry.device}, {entry.run} step") for one in titles)


async def test_neighbours_are_shown_and_the_same_command_is_marked(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    for number in range(40):
        call = "c-mine" if number in (20, 22) else f"c-{number}"
        console.write(Kind.COMMAND_SENT, "service", call_id=call, device="lab-lnx-01")

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_entry(desk, 21, "around")
        table = journal.screen.pane.around.table
        await seen(lambda: table.rows_model.rowCount() == 21)
        assert [row.key for row in table.rows_model.items if row.tint] == ["23", "21"]
        assert table.current_key() == "21"
        assert journal.screen.pane.tabs.tabText(2) == "Around it 2"
        table.choose("23")
        table.setFocus()
        QTest.keyClick(table, Qt.Key.Key_Return)
        await seen(lambda: journal.shown == 23)
        assert journal.screen.pane.current_tab() == "around"


# Blobs


async def test_pictures_texts_and_a_damaged_blob_each_have_their_place(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    kept = console.fake_journal
    picture = kept.add_blob(desktop_png("lab-lnx-01", "linux"))
    text = kept.add_blob(b"stdout of a command\nsecond line\n")
    other = kept.add_blob(bytes(range(128, 256)))
    missing = "ab" * 32
    body = {"evidence": [{"blob": picture, "what": "screenshot"}]}
    console.write(Kind.RESULT_RECORDED, "service", blobs=[picture, text, other, missing], body=body)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_entry(desk, 1, "pictures")
        tab = journal.screen.pane.pictures
        assert journal.screen.pane.tabs.tabText(3) == "Pictures 4"
        await seen(lambda: tab.findChildren(ImageView) and tab.findChildren(CodeView))
        await seen(lambda: tab.findChildren(Notice))
        view, box, notice = (tab.findChild(kind) for kind in (ImageView, CodeView, Notice))
        assert (view.image().width(), view.accessibleName()) == (1280, "Screenshot: Screenshot")
        assert box.toPlainText() == "stdout of a command\nsecond line\n"
        assert "There is no blob abababababab." in notice.accessibleName()


async def test_a_blob_that_is_not_what_it_was_says_so_in_its_place(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    blob = console.fake_journal.add_blob(b"text")
    console.write(Kind.RESULT_RECORDED, "service", blobs=[blob])
    console.fail_next["blob"] = JournalCorrupt("The blob is not what was stored.")

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_entry(desk, 1, "pictures")
        await seen(lambda: journal.screen.pane.pictures.findChildren(Notice))
        notice = journal.screen.pane.pictures.findChild(Notice)
        assert notice.accessibleName().startswith("The blob is not what was stored.")


def test_a_long_text_is_cut_between_letters() -> None:
    blob = read_text("é".encode() * MOST_TEXT)
    assert blob.text is not None
    assert set(blob.text) == {"é"}
    assert len(blob.text.encode()) <= MOST_TEXT + 4
    assert read_text(b"\xff\xfe\x00").text is None


# Ways on


@pytest.mark.parametrize("in_run", [True, False])
async def test_r_replays_the_run_or_what_was_around(theme: Theme, tmp_path: Path, in_run: bool) -> None:
    console = story()
    query = "run:r-0418 kind:result_recorded" if in_run else "kind:result_recorded tool:get_system_info"

    async with open_frame(theme, tmp_path, console) as desk:
        seq = first_seq(console, query)
        journal = await open_entry(desk, seq)
        opened: list[Any] = []
        desk.window.open = lambda name, target=None: opened.append((name, target))  # type: ignore[method-assign]
        journal.press(Qt.Key.Key_R)
        run = console.fake_journal.find(seq).run
        if in_run:
            assert opened == [("replay", OpenReplay(run=run, at=seq))]
            QTest.mouseClick(journal.screen.pane.run, Qt.MouseButton.LeftButton)
            entry = console.fake_journal.find(seq)
            assert opened[1] == ("runs", OpenRun(entry.run, entry.device, entry.step))
        else:
            assert opened == [("replay", OpenReplay(around=seq, at=seq))]
            assert not journal.screen.pane.run.isEnabled()
            assert "no run" in journal.screen.pane.run.toolTip()


async def test_enter_goes_into_the_pane_and_escape_comes_back_then_closes_it(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.open("journal", OpenQuery(""))
        screen: Any = desk.window.current
        await seen(lambda: screen.pane.entry is not None)
        QTest.keyClick(screen.table, Qt.Key.Key_Return)
        assert screen.pane.tabs.hasFocus()
        assert screen.escape()
        assert screen.table.hasFocus()
        assert screen.escape()
        assert not screen.pane.isVisible()
        QTest.keyClick(screen.table, Qt.Key.Key_Return)
        assert screen.pane.isVisible()


async def test_going_through_rows_quickly_asks_for_the_last_proof_only(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_entry(desk, 18_200, "proof")
        await seen(lambda: journal.screen.pane.proof.verdict.isVisible())
        before = console.asked.count("proof")
        for _ in range(8):
            journal.press(Qt.Key.Key_Down)
        await seen(lambda: journal.shown == 18_192)
        await seen(lambda: console.asked.count("proof") > before)
        await seen(lambda: journal.screen.pane.proof.verdict.isVisible())
        assert console.asked.count("proof") == before + 1

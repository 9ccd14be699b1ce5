"""A journal older than its last known head opens again by an operator's signature, and by nothing else."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from core.approvals.operator_keys import create_operator_key
from core.audit.entries import Kind, NewEntry
from core.changes import Change, change_statement
from core.errors import ErrorCode, JournalCorrupt, QuarterdeckError, Refused
from core.home import Home, HomeLock
from core.service import accepted_loss, exit_codes
from core.service.service import Service
from tests.fakes.program import make_home, run
from tests.fakes.service_process import service_process
from tests.fakes.signing import anna
from tests.fakes.trust_desk import edit_journal, trust_desk, write_journal

DATABASE = ("journal.db", "journal.db-wal", "journal.db-shm")


async def _work(home: Home, calls: int) -> int:
    """Some calls by a service that is killed then; returns how many entries the journal has."""
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(anna(home).operator)
        for _ in range(calls):
            run = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
            await console.runs.wait(run.summary.id, 30.0)
        await console.devices.listening()
        entries = (await console.service.state()).journal.entries
        await service.kill()
    return entries


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose database is as it was before its newest entries, like a copy of a home in use."""
    home = make_home(tmp_path / "home")
    asyncio.run(_work(home, 3))
    earlier = tmp_path / "earlier"
    shutil.copytree(home.path, earlier, ignore=shutil.ignore_patterns("*.sock"))
    asyncio.run(_work(home, 3))
    for name in DATABASE:
        (home.path / name).unlink(missing_ok=True)
        if (earlier / name).exists():
            shutil.copy2(earlier / name, home.path / name)
    return home


def journal_files(home: Home) -> dict[str, bytes]:
    """Without SQLite's index of its log, which readers write too."""
    files = home.path.glob("journal*")
    return {path.name: path.read_bytes() for path in files if not path.name.endswith("-shm")}


def test_without_a_signature_it_does_not_open_and_names_the_way(home: Home):
    before = journal_files(home)
    for words in (("devices",), ("service", "start"), ("audit", "verify")):
        ended = run(home, *words)
        assert ended.code == exit_codes.JOURNAL_BAD, ended
        assert "missing after" in ended.out + ended.err
        assert "quarterdeck audit accept-loss" in ended.out + ended.err
    assert journal_files(home) == before


def test_it_opens_with_a_signature_and_says_for_ever_what_was_lost(home: Home):
    head = (home.path / "journal.head").read_bytes()
    accepted = run(home, "audit", "accept-loss", "--json")
    assert accepted.code == 0, accepted
    first, last = json.loads(accepted.out)["lost"]
    assert run(home, "audit", "verify").code == 0
    found = json.loads(run(home, "audit", "find", "kind:loss_accepted", "--json").out)
    [entry] = found["entries"]
    assert entry["seq"] == json.loads(accepted.out)["seq"] == first
    assert (entry["actor"], entry["body"]["from"], entry["body"]["to"]) == ("operator:anna", first, last)
    assert entry["body"]["known_head"].encode() in head
    assert entry["body"]["signed"]["statement"]["change"]["before"]["size"] == last
    called = run(home, "call", "this-computer", "get_system_info", "info_type=memory")
    assert called.code == 0, called
    again = run(home, "audit", "accept-loss")
    assert again.code == exit_codes.BAD_INPUT
    assert "Nothing is missing" in again.err


def test_what_is_left_must_verify(home: Home):
    edit_journal(home, "service_started", '"stay":true', '"stay":null')
    before = journal_files(home)
    refused = run(home, "audit", "accept-loss")
    assert refused.code == exit_codes.JOURNAL_BAD, refused
    assert "does not verify, so that a loss cannot be accepted" in refused.err
    assert journal_files(home) == before


def test_a_damaged_log_is_named_before_its_loss_is_signed(home: Home):
    path = home.path / "journal.db-wal"
    data = bytearray(path.read_bytes())
    # The first frame with this call's end: the operator was registered before.
    data[data.index(b'"kind":"run_finished"') + 9] ^= 1
    path.write_bytes(data)
    accepted = run(home, "audit", "accept-loss")
    assert accepted.code == 0, accepted
    assert "in journal.db-wal is damaged" in accepted.err
    assert run(home, "audit", "verify").code == 0


def test_what_is_left_must_name_an_operator_who_can_sign(home: Home):
    path = home.path / "journal.db-wal"
    data = bytearray(path.read_bytes())
    data[data.index(b'"kind":"operator_registered"') + 9] ^= 1
    path.write_bytes(data)
    before = journal_files(home)
    refused = run(home, "audit", "accept-loss")
    assert refused.code == exit_codes.JOURNAL_BAD, refused
    assert "names no operator who could sign for the loss" in refused.err
    assert journal_files(home) == before


def test_a_statement_that_was_signed_for_less_does_not_count(home: Home):
    before = journal_files(home)
    with HomeLock(home):
        wish = accepted_loss.propose(home)
        change = wish.proposal.change
        key = anna(home)
        lies: list[Change] = [
            change.model_copy(update={"before": {**change.before, "size": change.after["size"]}}),
            change.model_copy(update={"after": {**change.after, "size": 1}}),
        ]
        for lie in lies:
            forged = wish.proposal.model_copy(update={"change": lie})
            with pytest.raises(Refused):
                accepted_loss.accept(home, wish, key.sign_change(change_statement(forged, "anna")))
        with pytest.raises(Refused) as unsigned:
            accepted_loss.accept(home, wish, None)
        assert unsigned.value.code is ErrorCode.SIGNATURE_REQUIRED
        stranger = create_operator_key(home, "mallory", None)
        with pytest.raises(Refused):
            accepted_loss.accept(home, wish, stranger.sign_change(change_statement(wish.proposal, "mallory")))
    assert journal_files(home) == before


def test_an_acceptance_does_not_serve_for_another_loss(home: Home, tmp_path: Path):
    """What was signed over one loss is no signature for entries that came afterwards."""
    files = journal_files(home)
    with HomeLock(home):
        wish = accepted_loss.propose(home)
        signed = anna(home).sign_change(change_statement(wish.proposal, "anna"))
        accepted_loss.accept(home, wish, signed)
    asyncio.run(_work(home, 2))
    for name, data in files.items():
        if name != "journal.head":
            (home.path / name).write_bytes(data)
    with HomeLock(home):
        later = accepted_loss.propose(home)
        assert later.loss.known_note != wish.loss.known_note
        with pytest.raises(Refused):
            accepted_loss.accept(home, later, signed)
    with pytest.raises(JournalCorrupt, match="missing"):
        asyncio.run(Service.open(home))


def test_an_operator_whose_removal_may_be_lost_does_not_sign_for_it(home: Home):
    rows = json.loads(home.operators.read_text())
    home.operators.write_text(json.dumps([row for row in rows if row["name"] != "anna"]))
    with HomeLock(home):
        wish = accepted_loss.propose(home)
        signed = anna(home).sign_change(change_statement(wish.proposal, "anna"))
        with pytest.raises(QuarterdeckError, match="may have removed"):
            accepted_loss.accept(home, wish, signed)


def test_while_a_service_runs_nothing_is_accepted(tmp_path: Path):
    home = make_home(tmp_path / "home")

    async def tried() -> str:
        async with service_process(home) as service:
            await service.console()
            ended = await asyncio.to_thread(run, home, "audit", "accept-loss")
            assert ended.code == exit_codes.HOME_OWNED
            return ended.err

    assert "owns the home" in asyncio.run(tried())


def test_a_crash_before_the_head_file_was_replaced_hides_nothing(home: Home, monkeypatch):
    from core.audit import accepted_loss as journal_loss

    def cut_off(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with HomeLock(home):
        wish = accepted_loss.propose(home)
        signed = anna(home).sign_change(change_statement(wish.proposal, "anna"))
        with monkeypatch.context() as patch:
            patch.setattr(journal_loss, "make_head_file", cut_off)
            with pytest.raises(QuarterdeckError):
                accepted_loss.accept(home, wish, signed)
    again = run(home, "audit", "accept-loss")
    assert again.code == 0, again
    found = json.loads(run(home, "audit", "find", "kind:loss_accepted", "--json").out)["entries"]
    assert {entry["kind"] for entry in found} == {Kind.LOSS_ACCEPTED}
    assert {entry["body"]["known_head"] for entry in found} == {wish.loss.known_note}


async def test_a_loss_that_no_operator_signed_is_told_at_every_start(tmp_path: Path):
    home = make_home(tmp_path / "home")
    async with trust_desk(home):
        pass
    body = {"from": 3, "to": 9, "known_head": "", "signed": {"statement": {}, "signature": ""}}
    await write_journal(home, NewEntry(kind=Kind.LOSS_ACCEPTED, actor="operator:anna", body=body))
    for _ in range(2):
        async with trust_desk(home) as desk:
            assert "has no operator's valid signature" in desk.notes()

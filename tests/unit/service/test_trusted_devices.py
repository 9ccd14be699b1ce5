"""Who may connect is what the journal says: attacks on `devices.json`, a token's file and the journal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.audit.entries import Entry, Kind, NewEntry
from core.canonical_json import sha256_hex
from core.changes import Change, ChangeKind, change_statement
from core.errors import BadInput, ErrorCode, JournalCorrupt, JournalUnavailable, Refused
from core.fleet.models import DeviceSettings
from core.home import Home
from core.service.service import Service
from tests.fakes.full_disk import full_disk_for
from tests.fakes.patience import PATIENCE_S
from tests.fakes.trust_desk import TrustDesk, edit_journal, edit_json, trust_desk, write_journal

PLANTED = "a-token-that-another-program-made"
PLANTED_SHA = sha256_hex(PLANTED.encode())


@pytest.fixture
def home(memory_path: Path) -> Home:
    return Home(memory_path / "home").create()


def _pairing(name: str) -> Change:
    return Change(kind=ChangeKind.DEVICE_PAIRED, subject=name, after={"direction": "in"})


def copy_of(home: Home) -> str:
    return home.devices.read_text()


class TestACopyThatSaysMore:
    async def test_a_device_that_another_program_adds_is_not_let_in(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            token = await desk.pair("lab-1")
        edit_json(home.devices, lab_9={"token_sha256": PLANTED_SHA, "tags": ["prod"]})
        async with trust_desk(home) as desk:
            assert not await desk.lets_in(PLANTED)
            assert await desk.lets_in(token)
            assert "lab-9" not in [one.name for one in await desk.console.devices.match("*")]
            assert "lab-9" in desk.notes()
            [started] = (await desk.entries("kind:service_started"))[-1:]
            assert "lab-9" in str(started.body["ignored"])
        assert "lab-9" not in copy_of(home)

    async def test_a_device_in_the_file_of_a_home_that_was_never_used_is_not_let_in(self, home: Home) -> None:
        home.devices.write_text('{"devices": []}')
        home.devices.chmod(0o600)
        edit_json(home.devices, lab_9={"token_sha256": PLANTED_SHA})
        for _ in range(2):
            async with trust_desk(home) as desk:
                assert not await desk.lets_in(PLANTED)
                assert desk.service.registry.devices() == []
            edit_json(home.devices, lab_9={"token_sha256": PLANTED_SHA})

    async def test_a_token_that_is_exchanged_lets_in_only_the_one_that_was_paired(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            token = await desk.pair("lab-1")
        edit_json(home.devices, lab_1={"token_sha256": PLANTED_SHA})
        async with trust_desk(home) as desk:
            assert not await desk.lets_in(PLANTED)
            assert await desk.lets_in(token)
            assert "lab-1" in desk.notes()
        assert PLANTED_SHA not in copy_of(home)

    @pytest.mark.parametrize(
        "edit", [{"tags": ["free"]}, {"tags": ["lab", "free"]}, {"production": None}, {"agent": "Other"}]
    )
    async def test_tags_production_and_agent_are_as_the_journal_has_them(
        self, home: Home, edit: dict[str, Any]
    ) -> None:
        async with trust_desk(home) as desk:
            await desk.pair("lab-1", tags=["prod"])
            await desk.set_device("lab-1", tags=["lab"], production=True, agent="LabAgent")
            before = desk.service.registry.get("lab-1")
        edit_json(home.devices, lab_1=edit)
        async with trust_desk(home) as desk:
            assert desk.service.registry.get("lab-1") == before
            shown = desk.service.fleet.get("lab-1")
            assert (shown.tags, shown.production) == (["lab"], True)
            assert "lab-1" in desk.notes()

    async def test_a_revocation_that_is_taken_out_stands(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            token = await desk.pair("lab-1")
            await desk.console.devices.revoke("lab-1")
        edit_json(home.devices, lab_1={"revoked_at": None})
        async with trust_desk(home) as desk:
            assert not await desk.lets_in(token)
            assert not desk.service.registry.get("lab-1").paired
            assert "lab-1" in desk.notes()
        assert "revoked_at" in copy_of(home)

    async def test_a_device_that_was_forgotten_does_not_come_back_with_an_old_copy(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            token = await desk.pair("lab-1")
            old = copy_of(home)
            await desk.console.devices.forget("lab-1")
        home.devices.write_text(old)
        async with trust_desk(home) as desk:
            assert not await desk.lets_in(token)
            assert desk.service.registry.devices() == []

    async def test_another_address_for_a_device_that_is_dialled_is_not_dialled(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            await desk.pair_listening("lab-2", "ws://127.0.0.1:9/ws", "a-token")
        edit_json(home.devices, lab_2={"url": "ws://127.0.0.1:10/ws", "fingerprint": "ab" * 32})
        async with trust_desk(home) as desk:
            known = desk.service.registry.get("lab-2")
            assert (known.url, known.fingerprint) == ("ws://127.0.0.1:9/ws", "")

    async def test_a_token_for_dialling_that_is_exchanged_is_not_shown(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            await desk.pair_listening("lab-2", "ws://127.0.0.1:9/ws", "a-token")
            assert desk.service.registry.dial_token("lab-2") == "a-token"
        (home.dial_tokens / "lab-2.token").write_text(PLANTED)
        async with trust_desk(home) as desk:
            with pytest.raises(BadInput, match="pair it again"):
                desk.service.registry.dial_token("lab-2")
            assert "pair it again" in desk.service.fleet.get("lab-2").reason


def removed(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_text(path.read_text()[:40])


def no_devices(path: Path) -> None:
    path.write_text('{"devices": []}')


def another_shape(path: Path) -> None:
    path.write_text('{"devices": [{"name": "lab-1", "\\ud800\\u202e": 1}]}')


def twice(path: Path) -> None:
    path.write_text('{"devices": [{"name": "lab-1"}, {"name": "lab-1"}]}')


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def endless_brackets(path: Path) -> None:
    path.write_text("[" * 100_000)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def a_link_to_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def writable_by_all(path: Path) -> None:
    edit_json(path, lab_9={"token_sha256": PLANTED_SHA})
    path.chmod(0o666)


DAMAGES: list[Callable[[Path], None]] = [
    removed,
    cut,
    no_devices,
    another_shape,
    twice,
    no_text,
    endless_brackets,
    a_pipe,
    a_link_to_nowhere,
    writable_by_all,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_whatever_becomes_of_the_copy_the_devices_of_the_journal_hold(
    home: Home, damage: Callable[[Path], None]
) -> None:
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1", tags=["lab"])
        revoked = await desk.pair("lab-3")
        await desk.console.devices.revoke("lab-3")
        known = desk.service.registry.devices()
    whole = copy_of(home)
    damage(home.devices)
    async with trust_desk(home) as desk:
        assert desk.service.registry.devices() == known
        assert await desk.lets_in(token)
        assert not await desk.lets_in(revoked)
        assert not await desk.lets_in(PLANTED)
        assert "devices.json" in desk.notes() or damage is no_devices
    assert copy_of(home) == whole
    assert home.devices.stat().st_mode & 0o777 == 0o600


async def test_a_copy_that_is_a_folder_is_left_and_nothing_else_is_harmed(home: Home) -> None:
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
    home.devices.unlink()
    home.devices.mkdir()
    async with trust_desk(home) as desk:
        assert await desk.lets_in(token)
        assert "devices.json" in desk.notes()


async def test_an_older_copy_undoes_nothing_that_came_after_it(home: Home) -> None:
    async with trust_desk(home) as desk:
        first = await desk.pair("lab-1", tags=["free"])
        await desk.console.devices.revoke("lab-1")
        old = copy_of(home)
        token = await desk.pair("lab-1")
        other = await desk.pair("lab-2")
        await desk.set_device("lab-1", tags=["held"])
    home.devices.write_text(old)
    async with trust_desk(home) as desk:
        # The revocation in it is of the pairing before.
        assert await desk.lets_in(token)
        assert await desk.lets_in(other)
        assert not await desk.lets_in(first)
        assert desk.service.registry.get("lab-1").tags == ["held"]
        assert len(await desk.entries("kind:device_revoked")) == 1


class _FullDisk:
    """The journal's disk: full for entries of one kind, until there is room."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch, *kinds: Kind) -> None:
        self.full = True
        self._kinds = kinds
        self._append, self._append_many = service.journal.append, service.journal.append_many
        monkeypatch.setattr(service.journal, "append", self.append)
        monkeypatch.setattr(service.journal, "append_many", self.append_many)
        note_all = service.journal.note_all
        monkeypatch.setattr(service.journal, "note_all", lambda entries: note_all(self._checked(entries)))

    async def append(self, entry: NewEntry) -> Entry:
        self._check(entry)
        return await self._append(entry)

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]:
        return await self._append_many(self._checked(entries))

    def _checked(self, entries: list[NewEntry]) -> list[NewEntry]:
        for entry in entries:
            self._check(entry)
        return entries

    def _check(self, entry: NewEntry) -> None:
        if self.full and entry.kind in self._kinds:
            raise JournalUnavailable("The disk is full.")


class TestLessTrust:
    @pytest.mark.parametrize("end", ["revoke", "forget"])
    async def test_what_the_journal_could_not_take_counts_after_a_restart(
        self, home: Home, monkeypatch: pytest.MonkeyPatch, end: str
    ) -> None:
        async with trust_desk(home) as desk:
            token = await desk.pair("lab-1")
            _FullDisk(desk.service, monkeypatch, Kind.DEVICE_REVOKED, Kind.DEVICE_FORGOTTEN)
            await getattr(desk.console.devices, end)("lab-1")
            assert not await desk.lets_in(token)
        async with trust_desk(home) as desk:
            assert not await desk.lets_in(token)
            [entry] = await desk.entries("kind:device_revoked device:lab-1")
            assert (entry.actor, entry.body["in"]) == ("service", "devices.json")
        # It is in the journal from then on, whatever becomes of the file.
        edit_json(home.devices, lab_1={"revoked_at": None})
        async with trust_desk(home) as desk:
            assert not await desk.lets_in(token)
            assert len(await desk.entries("kind:device_revoked device:lab-1")) == 1

    @pytest.mark.parametrize("end", ["revoke", "forget"])
    async def test_what_the_copy_could_not_take_counts_after_a_restart(self, home: Home, end: str) -> None:
        async with trust_desk(home) as desk:
            token = await desk.pair("lab-1")
            with full_disk_for(home.devices):
                await getattr(desk.console.devices, end)("lab-1")
            assert "revoked_at" not in copy_of(home)
        async with trust_desk(home) as desk:
            assert not await desk.lets_in(token)

    @pytest.mark.parametrize("end", ["revoke", "forget"])
    async def test_what_neither_can_take_counts_at_once_and_is_said(
        self, home: Home, monkeypatch: pytest.MonkeyPatch, end: str
    ) -> None:
        async with trust_desk(home) as desk:
            token = await desk.pair("lab-1")
            disk = _FullDisk(desk.service, monkeypatch, Kind.DEVICE_REVOKED, Kind.DEVICE_FORGOTTEN)
            with full_disk_for(home.devices), pytest.raises(BadInput, match=r"cannot be written.*a restart"):
                await getattr(desk.console.devices, end)("lab-1")
            assert not await desk.lets_in(token)
            disk.full = False
            assert await desk.service.journal.flush_late()
        async with trust_desk(home) as desk:
            assert not await desk.lets_in(token)

    async def test_a_device_is_not_paired_anew_before_the_journal_has_that_it_was_forgotten(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with trust_desk(home) as desk:
            await desk.pair("lab-1")
            disk = _FullDisk(desk.service, monkeypatch, Kind.DEVICE_FORGOTTEN)
            await desk.console.devices.forget("lab-1")
            with pytest.raises(JournalUnavailable):
                await desk.pair("lab-1")
            disk.full = False
            token = await desk.pair("lab-1")
            kinds = [entry.kind for entry in await desk.entries("kind:device_* device:lab-1")]
            assert kinds == [Kind.DEVICE_PAIRED, Kind.DEVICE_FORGOTTEN, Kind.DEVICE_PAIRED]
        async with trust_desk(home) as desk:
            assert await desk.lets_in(token)

    async def test_more_trust_holds_where_only_the_copy_could_not_be_written(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            with full_disk_for(home.devices):
                token = await desk.pair("lab-1", tags=["lab"])
                assert await desk.lets_in(token)
        async with trust_desk(home) as desk:
            assert await desk.lets_in(token)


@pytest.mark.parametrize("end", ["revoke", "forget", "pair", "pair_listening"])
async def test_the_token_for_dialling_a_device_goes_with_the_trust(home: Home, end: str) -> None:
    async with trust_desk(home) as desk:
        await desk.pair_listening("lab-2", "ws://127.0.0.1:9/ws", "secret-token")
        if end == "pair":
            await desk.pair("lab-2")
        elif end == "pair_listening":
            await desk.pair_listening("lab-2", "ws://127.0.0.1:9/ws", "another-token")
        else:
            await getattr(desk.console.devices, end)("lab-2")
    kept = b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file())
    assert b"secret-token" not in kept


async def test_a_dialled_device_whose_pairing_was_not_recorded_is_dialled_as_before(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with trust_desk(home) as desk:
        await desk.pair_listening("lab-2", "ws://127.0.0.1:9/ws", "first-token")
        _FullDisk(desk.service, monkeypatch, Kind.DEVICE_PAIRED)
        with pytest.raises(JournalUnavailable):
            await desk.pair_listening("lab-2", "ws://127.0.0.1:10/ws", "second-token")
        assert desk.service.registry.get("lab-2").url == "ws://127.0.0.1:9/ws"
        assert desk.service.registry.dial_token("lab-2") == "first-token"
    kept = b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file())
    assert b"second-token" not in kept


async def test_a_revocation_that_meets_a_new_pairing_ends_the_one_that_it_was_of(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device is paired anew while its link, and with it the revocation, is still being ended."""
    async with trust_desk(home) as desk:
        first = await desk.pair("lab-1")
        hanging, goes_on = asyncio.Event(), asyncio.Event()
        disconnect = desk.service.links.disconnect

        async def slowly(name: str, why: str) -> None:
            if why == "it was revoked":
                hanging.set()
                await goes_on.wait()
            await disconnect(name, why)

        monkeypatch.setattr(desk.service.links, "disconnect", slowly)
        revoking = desk.service.tasks.spawn("revoke", desk.console.devices.revoke("lab-1"))
        async with asyncio.timeout(PATIENCE_S):
            await hanging.wait()
            token = await desk.pair("lab-1")
            goes_on.set()
            await revoking
        kinds = [entry.kind for entry in await desk.entries("kind:device_* device:lab-1")]
        assert kinds == [Kind.DEVICE_PAIRED, Kind.DEVICE_PAIRED, Kind.DEVICE_REVOKED]
        known = desk.service.registry.devices()
        assert await desk.lets_in(token)
    async with trust_desk(home) as desk:
        assert desk.service.registry.devices() == known
        assert await desk.lets_in(token)
        assert not await desk.lets_in(first)


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_known_is_what_the_next_service_reads(home: Home, seed: int) -> None:
    """Whatever is done in turn: the journal alone gives the same devices, and every token says the same."""
    chance = random.Random(seed)
    tokens: list[str] = []

    async def act(desk: TrustDesk) -> None:
        name = f"lab-{chance.randrange(3)}"
        act = chance.choice(["pair", "pair", "listen", "set", "set", "revoke", "forget"])
        tags = chance.sample(["a", "b", "prod"], chance.randrange(3))
        settings = chance.choice(
            [{}, {"tags": tags}, {"production": bool(chance.randrange(2))}, {"agent": "X"}]
        )
        if act == "pair":
            tokens.append(await desk.pair(name, **settings))
        elif act == "listen":
            await desk.pair_listening(name, f"ws://127.0.0.1:{chance.randrange(1, 9)}/ws", "a-token")
        elif act == "set":
            await desk.set_device(name, **settings)
        else:
            await getattr(desk.console.devices, act)(name)

    async def let_in(desk: TrustDesk) -> list[str]:
        owners = [desk.service.registry.owner_of(token) for token in tokens]
        return [owner.name if owner is not None and owner.paired else "" for owner in owners]

    for _ in range(3):
        async with trust_desk(home) as desk:
            for _ in range(12):
                with contextlib.suppress(BadInput):
                    await act(desk)
            known, before = desk.service.registry.devices(), await let_in(desk)
            copy = copy_of(home)
        if chance.randrange(2):
            home.devices.unlink(missing_ok=True)
        async with trust_desk(home) as desk:
            assert desk.service.registry.devices() == known
            assert await let_in(desk) == before
        assert copy_of(home) == copy


class TestWhatIsSigned:
    async def test_no_device_is_paired_without_a_signature(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            with pytest.raises(Refused) as caught:
                await desk.console.devices.pair("lab-1", DeviceSettings())
            assert caught.value.code is ErrorCode.SIGNATURE_REQUIRED
            assert desk.service.registry.devices() == []
            assert not await desk.entries("kind:device_paired")

    async def test_a_signature_pairs_one_device_with_one_token_once(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            wish = _pairing("lab-1")
            signed = await desk.sign(wish)
            assert signed is not None
            await desk.console.devices.pair("lab-1", DeviceSettings(), signed)
            for name in ("lab-1", "lab-2"):
                with pytest.raises(Refused):
                    await desk.console.devices.pair(name, DeviceSettings(), signed)
            [entry] = await desk.entries("kind:device_paired")
            after = signed.statement.change.after
            assert entry.body["token_sha256"] == after["token_sha256"]
            assert desk.service.registry.get("lab-1").token_sha256 == after["token_sha256"]

    async def test_a_signature_under_a_digest_that_the_service_did_not_offer_is_worth_nothing(
        self, home: Home
    ) -> None:
        async with trust_desk(home) as desk:
            proposal = await desk.console.service.propose(_pairing("lab-1"))
            change = proposal.change
            forged = change.model_copy(update={"after": {**change.after, "token_sha256": PLANTED_SHA}})
            signed = desk.key.sign_change(
                change_statement(proposal.model_copy(update={"change": forged}), "anna")
            )
            with pytest.raises(Refused) as caught:
                await desk.console.devices.pair("lab-1", DeviceSettings(), signed)
            assert caught.value.code is ErrorCode.APPROVAL_INVALID
            assert not await desk.lets_in(PLANTED)

    async def test_tokens_that_are_offered_and_not_paired_are_bounded_and_let_nobody_in(
        self, home: Home
    ) -> None:
        async with trust_desk(home) as desk:
            first = await desk.sign(_pairing("lab-1"))
            for _ in range(150):
                await desk.console.service.propose(_pairing("lab-1"))
            offered = desk.service.registry._offered._offered
            assert len(offered) == 100
            assert not await desk.lets_in(next(iter(offered.values())))
            with pytest.raises(Refused):
                await desk.console.devices.pair("lab-1", DeviceSettings(), first)


class TestAJournalThatWasEdited:
    """Verification says so; until somebody verifies, what is in it lets nobody in without a signature."""

    async def test_an_exchanged_digest_of_a_token_lets_nobody_in(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            await desk.pair("lab-1")
            sha = desk.service.registry.get("lab-1").token_sha256
        edit_journal(home, "device_paired", sha, PLANTED_SHA)
        async with trust_desk(home) as desk:
            assert desk.service.registry.get("lab-1").token_sha256 == PLANTED_SHA
            assert not await desk.lets_in(PLANTED)
            assert not desk.service.registry.get("lab-1").paired
            assert "lab-1" in desk.notes()

    async def test_a_pairing_that_was_added_is_not_signed_and_lets_nobody_in(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            await desk.pair("lab-1")
            [entry] = await desk.entries("kind:device_paired")
        after = {"direction": "in", "token_sha256": PLANTED_SHA, "tags": [], "production": None, "agent": ""}
        signed = entry.body["signed"]
        signed["statement"]["change"] |= {"subject": "lab-9", "after": after}
        body = {**entry.body, "token_sha256": PLANTED_SHA, "signed": signed}
        planted = NewEntry(kind=Kind.DEVICE_PAIRED, actor="operator:anna", device="lab-9", body=body)
        await write_journal(home, planted)
        async with trust_desk(home) as desk:
            assert not await desk.lets_in(PLANTED)
            assert "lab-9" in desk.notes()

    async def test_the_signature_for_one_device_pairs_no_other(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            token = await desk.pair("lab-1")
            [entry] = await desk.entries("kind:device_paired")
            await desk.console.devices.forget("lab-1")
        moved = NewEntry(kind=Kind.DEVICE_PAIRED, actor=entry.actor, device="lab-2", body=entry.body)
        await write_journal(home, moved)
        async with trust_desk(home) as desk:
            assert not await desk.lets_in(token)

    async def test_a_pairing_without_any_signature_is_none_that_a_service_wrote(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            await desk.pair("lab-1")
        body = {"direction": "in", "token_sha256": PLANTED_SHA}
        await write_journal(
            home, NewEntry(kind=Kind.DEVICE_PAIRED, actor="operator:anna", device="lab-9", body=body)
        )
        with pytest.raises(JournalCorrupt, match="Entry"):
            await Service.open(home)

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            (Kind.TRUST_ADOPTED, {"known": {"name": "lab-9", "token_sha256": PLANTED_SHA}, "pins": {}}),
            (Kind.DEVICE_PAIRED, {"direction": "in", "token_sha256": PLANTED_SHA}),
            (Kind.CONTRACT_PINNED, {"tools": {"action::poke": "0" * 64}}),
        ],
    )
    async def test_an_entry_of_an_earlier_versions_form_is_named_with_what_to_do(
        self, home: Home, kind: Kind, body: dict[str, Any]
    ) -> None:
        async with trust_desk(home):
            pass
        await write_journal(home, NewEntry(kind=kind, actor="service", device="lab-9", body=body))
        with pytest.raises(JournalCorrupt, match=r"Entry \d+ of the journal.* the version that wrote it"):
            await Service.open(home)

    async def test_the_mark_of_a_home_that_adopted_nothing_means_nothing(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            token = await desk.pair("lab-1")
        mark = NewEntry(kind=Kind.TRUST_ADOPTED, actor="service", body={"devices": 0, "tools": 0})
        await write_journal(home, mark)
        async with trust_desk(home) as desk:
            assert await desk.lets_in(token)

    async def test_a_setting_whose_signature_is_for_another_one_does_not_count(self, home: Home) -> None:
        async with trust_desk(home) as desk:
            await desk.pair("lab-1", tags=["held"])
            [entry] = await desk.entries("kind:device_paired")
        body = {"tags": ["free"], "signed": entry.body["signed"]}
        await write_journal(
            home, NewEntry(kind=Kind.DEVICE_SET, actor="operator:anna", device="lab-1", body=body)
        )
        async with trust_desk(home) as desk:
            assert desk.service.registry.get("lab-1").tags == ["held"]
            assert "lab-1" in desk.notes()

    async def test_a_setting_that_was_signed_holds_for_the_device_that_it_names_alone(
        self, home: Home
    ) -> None:
        async with trust_desk(home) as desk:
            for name in ("lab-1", "lab-2"):
                await desk.pair(name, tags=["held"])
            wish = Change(kind=ChangeKind.DEVICE_SET, subject="lab-2", after={"tags": ["free"]})
            proposal = await desk.console.service.propose(wish)
        for name in ("lab-1", "lab-2"):
            signed = desk.key.sign_change(change_statement(proposal, "anna"))
            # What else such an entry says is not what was signed.
            body = {"tags": ["planted"], "signed": signed.model_dump(mode="json")}
            await write_journal(
                home, NewEntry(kind=Kind.DEVICE_SET, actor="operator:anna", device=name, body=body)
            )
        async with trust_desk(home) as desk:
            assert desk.service.registry.get("lab-1").tags == ["held"]
            assert desk.service.registry.get("lab-2").tags == ["free"]


async def test_a_home_that_was_copied_with_its_journal_goes_on(home: Home, memory_path: Path) -> None:
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
    other = Home(memory_path / "other")
    shutil.copytree(home.path, other.path, ignore=shutil.ignore_patterns("*.sock", "devices.json"))
    async with trust_desk(other) as desk:
        assert await desk.lets_in(token)
        assert Home(other.path).devices.exists()

"""A home is made of a backup as a whole or not at all, and of nothing but what was backed up."""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import os
import socket
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from core.approvals.operator_keys import load_operator_key
from core.audit.checkpoint import load_public_key
from core.audit.head_file import HEAD_FILE
from core.audit.verify import verify_folder
from core.canonical_json import sha256_hex
from core.errors import BadInput, ErrorCode, JournalCorrupt, JournalUnavailable, QuarterdeckError
from core.home import Home
from core.service.backup.archive import END, Member, header, padding, read_content, read_member
from core.service.backup.checking import check
from core.service.backup.description import Description
from core.service.backup.making import back_up
from core.service.backup.models import BackupKey
from core.service.backup.reading import BackupFile
from core.service.backup.restoring import restore
from tests.fakes.backups import (
    KEY,
    LONG_NAME,
    OLD_CONTENT,
    OTHER_KEY,
    entry,
    forged,
    made,
    open_journal,
    restored,
    small_home,
)
from tests.fakes.patience import PATIENCE_S
from tests.fakes.run_size import PROFILE, spread
from tests.fakes.small_disk import fill, small_disk_at


@pytest.fixture
async def original(memory_path: Path) -> Home:
    return await small_home(memory_path / "original")


@pytest.fixture
async def backup(original: Home, memory_path: Path) -> Path:
    await made(original, memory_path / "desk.tar")
    return memory_path / "desk.tar"


@pytest.fixture
def new(memory_path: Path) -> Home:
    return Home(memory_path / "new")


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def checked(file: Path, key: BackupKey = KEY) -> Description:
    with BackupFile(file) as backup:
        return check(backup, key, lambda done, total: None, threading.Event())


def refused(file: Path, new: Home, words: str | None = None, key: BackupKey = KEY) -> QuarterdeckError:
    """Restore what must not be restored; returns the error. Nothing of it may be left.

    Checking finds the same, but for what is the new home's.
    """
    before = sorted(os.listdir(new.path.parent))
    if new.path.parent == file.parent and not new.path.exists():
        with pytest.raises(QuarterdeckError):
            checked(file, key)
    with pytest.raises(QuarterdeckError, match=words) as error:
        restored(file, new, key)
    assert sorted(os.listdir(new.path.parent)) == before
    return error.value


async def test_a_restored_home_has_all_and_says_that_it_was_restored(
    original: Home, backup: Path, new: Home, memory_path: Path
):
    (memory_path / "umask").mkdir()
    before = os.umask(0)
    try:
        result = restored(backup, new)
    finally:
        os.umask(before)
    was, now = files_of(original.path), files_of(new.path)
    journal = {"journal.db", "journal.head", "journal.spool"}
    assert {name: data for name, data in now.items() if name not in journal} == {
        name: data for name, data in was.items() if name not in journal
    }
    assert f"batches/{LONG_NAME}.yaml" in now
    for path in (new.path, *new.path.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    key = load_public_key(new.keys / "journal.pub")
    assert verify_folder(new.path, key).entries == result.entry == 6
    opened = await open_journal(new)
    said = await opened.entry(6)
    assert (said.kind, said.actor) == ("home_restored", "cli:anna")
    assert said.body["entries"] == 5
    assert said.body["backup_made_at"] == result.description.made_at
    assert said.body["checkpoint"].encode() in (original.path / HEAD_FILE).read_bytes()
    await opened.close()
    assert (
        load_operator_key(new, "anna", None).public_key
        == load_operator_key(original, "anna", None).public_key
    )


async def test_checking_writes_no_secret_and_leaves_nothing(
    original: Home, backup: Path, memory_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = memory_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    seen: dict[str, bytes] = {}
    verify = verify_folder

    def look(folder: Path, *words: Any, **more: Any) -> Any:
        assert folder.parent == place
        assert folder.stat().st_mode & 0o777 == 0o700
        seen.update(files_of(folder))
        return verify(folder, *words, **more)

    monkeypatch.setattr("core.service.backup.checking.verify_folder", look)
    before = sorted(os.listdir(memory_path))
    description = checked(backup)
    assert description.entries == 5
    assert {name.partition("/")[0] for name in seen} == {
        "journal.db",
        "journal.head",
        "journal.spool",
        "blobs",
    }
    assert not os.listdir(place)
    assert sorted(os.listdir(memory_path)) == before
    refused(backup, Home(memory_path / "new"), key=OTHER_KEY)
    assert not os.listdir(place)


async def test_checking_that_is_stopped_leaves_nothing(
    backup: Path, memory_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = memory_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    stop = threading.Event()
    with BackupFile(backup) as file, pytest.raises(BadInput) as stopped:
        check(file, KEY, lambda done, total: stop.set(), stop)
    assert stopped.value.code is ErrorCode.CANCELLED
    assert not os.listdir(place)


def test_tar_unpacks_a_backup_and_its_journal_verifies_without_the_passphrase(
    backup: Path, memory_path: Path
):
    with tarfile.open(backup) as archive:
        archive.extractall(memory_path / "by-tar", filter="data")
    home = memory_path / "by-tar" / "home"
    report = verify_folder(home, load_public_key(home / "keys" / "journal.pub"))
    assert report.ok, report
    sums = (memory_path / "by-tar" / "SHA256SUMS").read_text()
    assert sorted(line.split("  ")[1] for line in sums.splitlines()) == sorted(
        name for name in files_of(memory_path / "by-tar") if name.startswith(("home/", "secrets"))
    )
    assert not (home / "keys" / "journal.key").exists()


def test_no_secret_is_in_the_file_in_any_of_its_forms(original: Home, backup: Path):
    secrets = [OLD_CONTENT, bytes(range(32))]
    for name in ("journal.key", "operator-anna.pem"):
        pem = (original.keys / name).read_bytes()
        key = load_pem_private_key(pem, None)
        secrets += [key.private_bytes_raw(), pem.splitlines()[1]]
    data = backup.read_bytes()
    for secret in secrets:
        for form in (secret, secret.hex().encode(), base64.b64encode(secret), base64.b64encode(secret)[:20]):
            assert form not in data
    assert b"PRIVATE KEY" not in data
    assert bytes.fromhex(KEY.key) not in data
    assert KEY.key.encode() not in data
    assert b"line 3" in data


def places(data: bytes) -> dict[str, list[int]]:
    """The places of each kind of byte in a backup: of the headers, the padding, the end, and each file."""
    found: dict[str, list[int]] = {"header": [], "padding": []}
    source = io.BytesIO(data)
    while True:
        start = source.tell()
        member = read_member(source)
        if member is None:
            break
        content = source.tell()
        for _ in read_content(source, member.size):
            pass
        kind = "blob" if "/blobs/" in member.name else member.name
        found["header"] += range(start, content)
        found.setdefault(kind, []).extend(range(content, content + member.size))
        found["padding"] += range(content + member.size, source.tell())
    found["end"] = list(range(len(data) - len(END), len(data)))
    return {kind: at for kind, at in found.items() if at}


def test_each_flipped_byte_of_a_backup_is_noticed(backup: Path, new: Home):
    data = backup.read_bytes()
    kinds = places(data)
    assert len(kinds) >= 10
    assert sum(map(len, kinds.values())) == len(data)
    changed = backup.with_name("changed.tar")
    for kind, at in kinds.items():
        for place in spread(at, 6):
            changed.write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
            try:
                refused(changed, new)
            except BaseException as error:
                raise AssertionError(f"byte {place} of {kind}") from error


def test_a_backup_that_ends_early_or_late_is_noticed(backup: Path, new: Home):
    data = backup.read_bytes()
    changed = backup.with_name("changed.tar")
    for length in spread(range(0, len(data), 1 if PROFILE == "full" else 97), 30):
        changed.write_bytes(data[:length])
        refused(changed, new)
    changed.write_bytes(data + b"\0")
    refused(changed, new, "was changed: It has")


def test_files_that_changed_places_are_noticed(backup: Path, new: Home):
    """Whole members, each with its own header: moved, left out, or there twice."""
    data = backup.read_bytes()
    source, members = io.BytesIO(data), []
    while True:
        start = source.tell()
        member = read_member(source)
        if member is None:
            break
        list(read_content(source, member.size))
        members.append(data[start : source.tell()])
    changed = backup.with_name("changed.tar")
    for number in range(3, len(members)):
        for others in (
            members[:number] + members[number + 1 :],
            members[: number + 1] + members[number:],
            [*members[: number - 1], members[number], members[number - 1], *members[number + 1 :]],
        ):
            changed.write_bytes(b"".join(others) + END)
            refused(changed, new)


def test_a_file_that_was_changed_together_with_its_digest_is_noticed(original: Home, backup: Path, new: Home):
    """As by a program that can write the backup and does not know the passphrase."""
    was, now = original.policy.read_bytes(), b'profile = "trusted"\n'
    data = backup.read_bytes()
    assert len(was) == len(now)
    assert data.count(was) == data.count(sha256_hex(was).encode()) == 1
    data = data.replace(was, now).replace(sha256_hex(was).encode(), sha256_hex(now).encode())
    backup.write_bytes(data)
    refused(backup, new, "Its list of files is another")


def test_another_passphrase_opens_nothing(backup: Path, new: Home):
    assert "the passphrase is wrong" in refused(backup, new, key=OTHER_KEY).message


async def test_what_was_sealed_in_another_backup_is_not_taken(
    original: Home, backup: Path, new: Home, memory_path: Path
):
    """Of the same home under the same key: the secrets of one in the place of those of the other."""
    (original.keys / "masking.salt").write_bytes(bytes(32))
    await made(original, memory_path / "later.tar")

    def sealed(data: bytes) -> int:
        return data.index(b"secrets.sealed\0")

    earlier, later = files_of(memory_path)["desk.tar"], files_of(memory_path)["later.tar"]
    mixed = earlier[: sealed(earlier)] + later[sealed(later) :]
    (memory_path / "mixed.tar").write_bytes(mixed)
    refused(memory_path / "mixed.tar", new)


def content_of(original: Home) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of a home, and those that are secrets."""
    files = files_of(original.path)
    secret = {name: files.pop(name) for name in list(files) if name.startswith("keys/") and name[-1] != "b"}
    return files, secret


def described(original: Home) -> dict[str, object]:
    key = load_public_key(original.keys / "journal.pub")
    report = verify_folder(original.path, key)
    return {
        "home_key": key.public_bytes_raw().hex(),
        "entries": report.entries,
        "checkpoint": report.checkpoint,
    }


def test_a_forged_backup_without_fault_is_restored(original: Home, new: Home, memory_path: Path):
    """Without this, the attacks below could be refused for another reason than theirs."""
    plain, secret = content_of(original)
    forged(memory_path / "forged.tar", plain, secret, more=described(original))
    assert restored(memory_path / "forged.tar", new).entry == 6


@pytest.mark.parametrize("name", ["../outside", "/outside", "keys/../../outside", "..", "a//b", "a\\..\\b"])
@pytest.mark.parametrize("place", ["plain", "secret"])
def test_a_file_that_would_leave_the_home_is_not_written(
    original: Home, new: Home, memory_path: Path, name: str, place: str
):
    plain, secret = content_of(original)
    (plain if place == "plain" else secret)[name] = b"x"
    forged(memory_path / "forged.tar", plain, secret, more=described(original))
    refused(memory_path / "forged.tar", new, "leads out of the home")
    assert not (memory_path / "outside").exists()
    assert not Path("/outside").exists()


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.LNKTYPE,
        tarfile.SYMTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.DIRTYPE,
        tarfile.FIFOTYPE,
        tarfile.GNUTYPE_SPARSE,
        tarfile.XHDTYPE,
    ],
)
@pytest.mark.parametrize("victim", ["policy.toml", "keys/masking.salt"])
def test_a_link_or_a_device_is_not_made(
    original: Home, new: Home, memory_path: Path, kind: bytes, victim: str
):
    plain, secret = content_of(original)

    def header_of(member: Member) -> bytes:
        if not member.name.endswith(victim):
            return header(member)
        info = tarfile.TarInfo(member.name)
        info.type, info.linkname, info.size, info.mtime = kind, "/etc/passwd", member.size, member.time
        return info.tobuf(tarfile.GNU_FORMAT)

    forged(memory_path / "forged.tar", plain, secret, header_of, described(original))
    refused(memory_path / "forged.tar", new, "is not a header of a backup|A number in a header")


@pytest.mark.parametrize("victim", ["policy.toml", "keys/masking.salt"])
def test_a_file_cannot_be_larger_than_the_backup(original: Home, new: Home, memory_path: Path, victim: str):
    plain, secret = content_of(original)

    def header_of(member: Member) -> bytes:
        return header(member._replace(size=1 << 60) if member.name.endswith(victim) else member)

    forged(memory_path / "forged.tar", plain, secret, header_of, described(original))
    refused(memory_path / "forged.tar", new, "It ends early")


def test_a_description_cannot_be_large(new: Home, memory_path: Path):
    size = 1 << 20
    data = header(Member("quarterdeck-backup.json", size, 0)) + b"{" * size + padding(size) + END
    (memory_path / "forged.tar").write_bytes(data)
    refused(memory_path / "forged.tar", new, "It has no quarterdeck-backup.json at its place")


@pytest.mark.parametrize("place", ["plain", "secret"])
def test_a_file_that_is_there_already_is_not_written_over(
    original: Home, new: Home, memory_path: Path, place: str
):
    plain, secret = content_of(original)
    secret["policy.toml"] = b'profile = "trusted"\n'
    if place == "plain":
        del secret["policy.toml"]
        plain["policy.toml/x"] = b""
    forged(memory_path / "forged.tar", plain, secret, more=described(original))
    refused(memory_path / "forged.tar", new, "twice|cannot be made")


CHANGES: dict[str, tuple[Callable[[dict[str, bytes], dict[str, bytes]], object], str]] = {
    "an entry": (
        lambda plain, _: plain.update({"journal.db": plain["journal.db"].replace(b"line 3", b"line 4")}),
        "does not verify",
    ),
    "a blob": (
        lambda plain, _: plain.update({name: b"pixture" for name in plain if plain[name] == b"picture"}),
        "does not verify",
    ),
    "no blob": (
        lambda plain, _: plain.pop(next(name for name in plain if plain[name] == b"picture")),
        "does not verify",
    ),
    "no head": (lambda plain, _: plain.pop("journal.head"), "does not verify"),
    "no spool": (lambda plain, _: plain.pop("journal.spool"), "does not verify"),
    "no key": (lambda _, secret: secret.pop("keys/journal.key"), "has no key"),
    "another public key": (lambda plain, _: plain.update({"keys/journal.pub": b"x"}), "public key"),
    "a log": (lambda plain, _: plain.update({"journal.db-wal": b"x" * 4096}), "does not verify"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_journal_that_does_not_verify_is_not_restored(
    original: Home, new: Home, memory_path: Path, change: str
):
    plain, secret = content_of(original)
    about = described(original)
    alter, words = CHANGES[change]
    alter(plain, secret)
    forged(memory_path / "forged.tar", plain, secret, more=about)
    refused(memory_path / "forged.tar", new, words)


@pytest.mark.parametrize("value", [{"entries": 4}, {"home_key": "11" * 32}, {"checkpoint": "another"}])
def test_a_journal_that_is_not_the_described_one_is_not_restored(
    original: Home, new: Home, memory_path: Path, value: dict[str, object]
):
    plain, secret = content_of(original)
    forged(memory_path / "forged.tar", plain, secret, more=described(original) | value)
    error = refused(memory_path / "forged.tar", new)
    assert isinstance(error, JournalCorrupt)


@pytest.mark.parametrize(
    "data",
    [b"", b"x" * 2000, bytes(1024), gzip.compress(b"x" * 5000), b"PK\x03\x04" + bytes(600)],
    ids=["empty", "text", "no members", "gzip", "zip"],
)
def test_another_file_is_no_backup(new: Home, memory_path: Path, data: bytes):
    (memory_path / "other").write_bytes(data)
    refused(memory_path / "other", new, "is not a backup that can be read")


def test_a_later_format_is_named(new: Home, memory_path: Path):
    data = json.dumps({"format": "quarterdeck.backup/2"}).encode()
    member = Member("quarterdeck-backup.json", len(data), 0)
    (memory_path / "later").write_bytes(header(member) + data + padding(len(data)) + END)
    refused(memory_path / "later", new, "quarterdeck.backup/2")


def test_a_fifo_and_a_folder_are_no_backups(new: Home, memory_path: Path):
    os.mkfifo(memory_path / "fifo")
    (memory_path / "folder").mkdir()
    for name in ("fifo", "folder", "missing"):
        refused(memory_path / name, new)


@pytest.mark.parametrize("name", [".hidden", "keys", "notes.txt"])
def test_a_used_home_is_left_as_it_is(backup: Path, new: Home, name: str):
    new.path.mkdir()
    (new.path / name).write_text("mine")
    refused(backup, new, "is used")
    assert files_of(new.path) == {name: b"mine"}


def test_an_empty_folder_is_a_new_home(backup: Path, new: Home):
    new.path.mkdir(mode=0o755)
    restored(backup, new)
    assert new.path.stat().st_mode & 0o777 == 0o700


def test_a_home_that_is_begun_meanwhile_is_left_as_it_is(
    backup: Path, new: Home, monkeypatch: pytest.MonkeyPatch
):
    from core.service.backup import restoring

    place = restoring._place

    def begun(folder: Path, home: Home) -> None:
        home.path.mkdir()
        (home.path / "lock").write_text("1")
        place(folder, home)

    monkeypatch.setattr(restoring, "_place", begun)
    with pytest.raises(BadInput, match="cannot be made"):
        restored(backup, new)
    assert files_of(new.path) == {"lock": b"1"}
    assert not list(new.path.parent.glob(".new.*"))


async def test_a_file_that_is_there_is_not_overwritten(original: Home, memory_path: Path):
    target = memory_path / "desk.tar"
    (memory_path / "elsewhere").mkdir()
    for make in (
        lambda: target.write_text("mine"),
        lambda: target.symlink_to(memory_path / "elsewhere" / "x"),
        lambda: target.symlink_to(memory_path / "elsewhere"),
        lambda: target.mkdir(),
    ):
        make()
        with pytest.raises(BadInput, match="is there already"):
            await made(original, target)
        assert target.is_symlink() or target.is_dir() or target.read_text() == "mine"
        target.rmdir() if target.is_dir() and not target.is_symlink() else target.unlink()
    assert sorted(os.listdir(memory_path)) == ["elsewhere", "original"]
    assert not os.listdir(memory_path / "elsewhere")


@pytest.mark.parametrize("what", ["file", "symlink"])
async def test_a_file_that_is_made_meanwhile_is_not_overwritten(original: Home, memory_path: Path, what: str):
    target = memory_path / "desk.tar"
    journal = await open_journal(original)

    def tell(done: int, total: int) -> None:
        if not os.path.lexists(target):
            target.write_text("mine") if what == "file" else target.symlink_to(memory_path / "x")

    with pytest.raises(BadInput, match="is there already"):
        await back_up(original, journal, str(target), KEY, tell)
    await journal.close()
    assert target.is_symlink() or target.read_text() == "mine"
    assert sorted(os.listdir(memory_path)) == ["desk.tar", "original"]


@pytest.mark.parametrize("place", ["", "batches", "new/../batches"])
async def test_a_backup_is_not_written_into_its_home(original: Home, place: str):
    (original.path / "new").mkdir()
    with pytest.raises(BadInput, match="would be lost with it"):
        await made(original, original.path / place / "desk.tar")


async def test_there_is_no_folder_for_it(original: Home, memory_path: Path):
    with pytest.raises(BadInput, match="make it first"):
        await made(original, memory_path / "nowhere" / "desk.tar")


async def test_what_is_no_file_is_left_out_and_named(original: Home, new: Home, memory_path: Path):
    (original.path / "link.toml").symlink_to("/etc/passwd")
    (original.keys / "operator-eve.pem").symlink_to("/etc/passwd")
    os.mkfifo(original.path / "fifo")
    (original.path / "batches" / "up").symlink_to("/etc", target_is_directory=True)
    (original.path / "service.log").write_text("log")
    (original.path / ".policy.toml.0123abcd").write_text("half")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(original.path / "service.sock"))
        report = await made(original, memory_path / "desk.tar")
    assert report.left_out == ["batches/up", "fifo", "keys/operator-eve.pem", "link.toml"]
    restored(memory_path / "desk.tar", new)
    assert not {"link.toml", "fifo", "service.log", ".policy.toml.0123abcd"} & set(os.listdir(new.path))
    assert b"root:" not in (memory_path / "desk.tar").read_bytes()


async def test_a_damaged_blob_is_named_and_nothing_is_left(original: Home, memory_path: Path):
    blob = next(path for path in (original.path / "blobs").rglob("*") if path.is_file())
    blob.write_bytes(blob.read_bytes()[::-1])
    with pytest.raises(JournalCorrupt, match=blob.name):
        await made(original, memory_path / "desk.tar")
    assert os.listdir(memory_path) == ["original"]


async def test_without_its_journal_s_key_no_backup_is_made(original: Home, memory_path: Path):
    journal = await open_journal(original)
    (original.keys / "journal.key").unlink()
    with pytest.raises(BadInput, match=r"journal\.key is missing"):
        await back_up(original, journal, str(memory_path / "desk.tar"), KEY, lambda done, total: None)
    await journal.close()


async def test_what_waits_for_the_journal_is_not_left_out_in_silence(
    original: Home, memory_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from core.audit.store import Store

    journal = await open_journal(original)

    def fails(*_: object) -> int:
        raise JournalUnavailable("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "commit", fails)
        journal.note_late([entry(7)])
        with pytest.raises(JournalUnavailable, match="The disk is full"):
            await back_up(original, journal, str(memory_path / "desk.tar"), KEY, lambda done, total: None)
    assert not (memory_path / "desk.tar").exists()
    await journal.close()


async def test_a_cancelled_backup_leaves_nothing(original: Home, memory_path: Path):
    journal = await open_journal(original)
    loop, cancelled = asyncio.get_running_loop(), threading.Event()

    def cancel() -> None:
        task.cancel()
        # After the task, which stops the work when it is cancelled.
        loop.call_soon(loop.call_soon, cancelled.set)

    def tell(done: int, total: int) -> None:
        if not cancelled.is_set():
            assert list(memory_path.glob(".desk.tar.*"))
            loop.call_soon_threadsafe(cancel)
            assert cancelled.wait(PATIENCE_S)

    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(asyncio.CancelledError):
        await back_up(original, journal, str(memory_path / "desk.tar"), KEY, tell)
    task.uncancel()
    assert cancelled.is_set()
    assert os.listdir(memory_path) == ["original"]
    await journal.close()


def test_a_stopped_restoring_leaves_nothing(backup: Path, new: Home, memory_path: Path):
    before = sorted(os.listdir(memory_path))
    for after in range(1, 50):
        stop, told = threading.Event(), 0

        def tell(done: int, total: int, stop: threading.Event = stop, after: int = after) -> None:
            nonlocal told
            told += 1
            if told == after:
                stop.set()

        with BackupFile(backup) as file:
            try:
                restore(new, file, KEY, "cli:anna", tell, stop)
            except BadInput as error:
                code = error.code
            else:
                break
        assert code is ErrorCode.CANCELLED
        assert sorted(os.listdir(memory_path)) == before
    # It came to its end before it was to be stopped.
    assert told < after
    assert after > 3


@pytest.mark.parametrize("room", [0, 40_000, 120_000, 160_000])
async def test_a_full_disk_leaves_nothing_of_a_backup(original: Home, tmp_path: Path, room: int):
    with small_disk_at(tmp_path / "disk", "2m") as disk:
        filler = fill(disk)
        os.truncate(filler, filler.stat().st_size - room)
        with pytest.raises(BadInput, match=r"cannot be written: .*(full|No space left)"):
            await made(original, disk / "desk.tar")
        assert os.listdir(disk) == ["filler"]


@pytest.mark.parametrize("room", [0, 40_000, 120_000])
def test_a_full_disk_leaves_nothing_of_a_home(
    backup: Path, tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
):
    with small_disk_at(tmp_path / "disk", "2m") as disk:
        filler = fill(disk)
        os.truncate(filler, filler.stat().st_size - room)
        if room < backup.stat().st_size:
            refused(backup, Home(disk / "new"), "too little room")
        # As if another program took the room while the home is unpacked.
        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1 << 40))
        refused(backup, Home(disk / "new"), r"cannot be made: .*(full|No space left)")
        assert os.listdir(disk) == ["filler"]

"""A home is backed up while its service works, and restored, by the program itself."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from core.approvals.operator_keys import create_operator_key
from core.audit.entries import Kind
from core.canonical_json import sha256_hex
from core.fleet.models import DeviceSettings
from core.home import Home
from core.service import exit_codes
from core.service.console import Console
from tests.fakes.backups import PASSPHRASE
from tests.fakes.program import Ended, Terminal, make_home, run
from tests.fakes.service_process import served, service_process, until_online
from tests.fakes.signing import anna

CALLERS = 4
CALLS = 250
BACKUPS = 3
LISTENING = 'listen = "127.0.0.1:0"\n'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = make_home(tmp_path / "home")
    with (home.path / "settings.toml").open("a") as settings:
        settings.write(LISTENING)
    return home


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


@pytest.fixture
def passphrase(tmp_path: Path) -> str:
    path = tmp_path / "passphrase"
    path.write_text(f"{PASSPHRASE}\n")
    return str(path)


def rows(home: Home) -> list[tuple[int, bytes, bytes]]:
    with closing(sqlite3.connect(home.path / "journal.db")) as database:
        return database.execute("SELECT seq, entry, leaf FROM entries ORDER BY seq").fetchall()


async def command(home: Home, *words: str) -> Ended:
    return await asyncio.to_thread(run, home, *words)


async def call_often(console: Console, number: int, until: asyncio.Event | None = None) -> None:
    """Call a tool so many times, and on until the event is set."""
    called = 0
    while called < number or (until is not None and not until.is_set()):
        called += 1
        started = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
        await console.runs.wait(started.summary.id, 30.0)


@pytest.mark.slow
async def test_backups_of_a_home_at_work_are_prefixes_of_its_journal(
    home: Home, disk: Path, tmp_path: Path, passphrase: str
):
    # This computer's device is a process, which writes to its own database meanwhile.
    (home.path / "settings.toml").write_text(LISTENING)
    async with service_process(home) as service:
        console = await service.console()
        await until_online(console)
        await console.approvals.register_operator(anna(home).operator)
        callers = [await service.console(f"operator:caller-{number}") for number in range(CALLERS)]
        taken, enough = [], asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for caller in callers:
                group.create_task(call_often(caller, CALLS, enough))
            for number in range(BACKUPS):
                before = (await console.journal.entries(limit=1)).entries[0].seq
                words = ("backup", str(disk / f"{number}.tar"), "--passphrase-file", passphrase, "--json")
                made = await command(home, *words)
                assert made.code == 0, made
                # All that had happened when it was asked for is in it.
                assert made.json["entries"] >= before
                taken.append(made.json["entries"])
            enough.set()
        assert taken == sorted(set(taken))
    assert sorted(os.listdir(disk)) == ["0.tar", "1.tar", "2.tar"]
    everything = rows(home)
    assert len(everything) > 2 * CALLERS * CALLS
    for number, entries in enumerate(taken):
        new = Home(tmp_path / f"new-{number}")
        words = ("restore", str(disk / f"{number}.tar"), "--passphrase-file", passphrase, "--json")
        restored = await command(new, *words)
        assert restored.code == 0, restored
        assert restored.json["seq"] == entries + 1
        assert rows(new)[:-1] == everything[:entries]
        verified = await command(new, "audit", "verify", "--json")
        assert (verified.code, verified.json["entries"]) == (0, entries + 1), verified


async def test_a_restored_home_works_and_says_where_it_comes_from(
    home: Home, disk: Path, tmp_path: Path, passphrase: str
):
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(anna(home).operator)
        await console.devices.pair("lab-1", DeviceSettings(tags=["lab"]))
        await call_often(console, 2)
        made = await command(home, "backup", str(disk / "desk.tar"), "--passphrase-file", passphrase)
        assert made.code == 0, made
        assert "without the passphrase it cannot be restored" in made.out
        # After the backup: the restored home knows nothing of it.
        await console.devices.revoke("lab-1")
    new = Home(tmp_path / "new")
    restored = await command(new, "restore", str(disk / "desk.tar"), "--passphrase-file", passphrase)
    assert restored.code == 0, restored
    assert "Never start the home again that the backup was taken of" in restored.out
    assert "is not known here" in restored.out
    found = (await command(new, "audit", "find", "kind:home_restored", "--json")).json["entries"]
    [entry] = found
    assert entry["kind"] == Kind.HOME_RESTORED
    assert entry["seq"] == entry["body"]["entries"] + 1
    assert f"Entry {entry['seq']:,} says so" in restored.out
    async with service_process(new) as service:
        console = await service.console()
        state = await console.service.state()
        assert [operator.name for operator in state.operators] == ["anna"]
        assert {device.name for device in state.devices} == {"this-computer", "lab-1"}
        assert not state.policy.notes
        await call_often(console, 1)
        # Anna's key came with the home, and signs.
        await console.devices.pair("lab-2", DeviceSettings())
    assert (await command(new, "audit", "verify")).code == 0


def test_a_home_without_a_service_is_backed_up_too(home: Home, disk: Path, tmp_path: Path, passphrase: str):
    create_operator_key(home, "anna", PASSPHRASE)
    made = run(home, "backup", str(disk / "desk.tar"), "--passphrase-file", passphrase, "--json")
    assert made.code == 0, made
    new = Home(tmp_path / "new")
    restored = run(new, "restore", str(disk / "desk.tar"), "--passphrase-file", passphrase, "--json")
    assert restored.code == 0, restored
    assert restored.json["backup"]["entries"] == made.json["entries"]
    assert restored.json["home"] == str(new.path)
    assert (new.keys / "operator-anna.pem").read_bytes() == (home.keys / "operator-anna.pem").read_bytes()
    assert run(new, "service", "status").code == 0
    for path in (new.path, *new.path.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_backup_is_checked_without_a_home_and_without_making_one(
    home: Home, disk: Path, tmp_path: Path, passphrase: str
):
    assert run(home, "backup", str(disk / "desk.tar"), "--passphrase-file", passphrase).code == 0
    nowhere = Home(tmp_path / "nowhere")
    words = ("backup", "--check", str(disk / "desk.tar"), "--passphrase-file", passphrase)
    good = run(nowhere, *words)
    assert good.code == 0, good
    assert "can be restored" in good.out
    told = run(nowhere, *words, "--json").json
    assert (told["ok"], told["backup"]["format"]) == (True, "quarterdeck.backup/1")
    assert "salt" not in told["backup"]
    data = bytearray((disk / "desk.tar").read_bytes())
    data[len(data) // 2] ^= 1
    (disk / "desk.tar").write_bytes(data)
    bad = run(nowhere, *words, "--json")
    assert bad.code == exit_codes.BAD_INPUT, bad
    assert "was changed" in bad.json["error"]["message"]
    (tmp_path / "other").write_text("another passphrase\n")
    wrong = run(nowhere, *words[:3], "--passphrase-file", str(tmp_path / "other"))
    assert "the passphrase is wrong" in wrong.err
    assert run(nowhere, "backup", "--check", str(disk / "none.tar")).code == exit_codes.BAD_INPUT
    assert not nowhere.path.exists()
    assert os.listdir(disk) == ["desk.tar"]


def test_no_private_key_of_a_home_at_work_is_in_the_file(home: Home, disk: Path, passphrase: str):
    with served(home):
        run(home, "operators", "add", "bert")
        # Makes the console's certificate and its key.
        run(home, "pair", "lab-1", "--json")
        assert run(home, "backup", str(disk / "desk.tar"), "--passphrase-file", passphrase).code == 0
    data = (disk / "desk.tar").read_bytes()
    secrets = [path for path in home.keys.rglob("*") if path.is_file() and path.suffix != ".pub"]
    assert {path.name for path in secrets} >= {"journal.key", "masking.salt"}
    for path in secrets:
        secret = path.read_bytes()
        assert secret not in data
        assert secret.hex().encode() not in data
        for line in secret.splitlines():
            assert len(line) < 20 or b"-----" in line or line not in data, path
    assert b"PRIVATE KEY" not in data
    assert PASSPHRASE.encode() not in data
    assert (home.log).exists()
    assert PASSPHRASE not in home.log.read_text()


def test_refusals_leave_everything_as_it_is(home: Home, disk: Path, tmp_path: Path, passphrase: str):
    target = disk / "desk.tar"
    assert run(home, "backup", str(target), "--passphrase-file", passphrase).code == 0
    before = target.read_bytes()
    again = run(home, "backup", str(target), "--passphrase-file", passphrase)
    assert (again.code, target.read_bytes()) == (exit_codes.BAD_INPUT, before)
    assert "is there already" in again.err
    (disk / "link.tar").symlink_to(disk / "nowhere")
    assert run(home, "backup", str(disk / "link.tar"), "--passphrase-file", passphrase).code == 2
    assert not (disk / "nowhere").exists()
    used = run(home, "restore", str(target), "--passphrase-file", passphrase)
    assert used.code == exit_codes.BAD_INPUT
    assert "is used" in used.err
    (tmp_path / "other").write_text("another passphrase\n")
    new = Home(tmp_path / "new")
    wrong = run(new, "restore", str(target), "--passphrase-file", str(tmp_path / "other"), "--json")
    assert wrong.code == exit_codes.BAD_INPUT
    assert "the passphrase is wrong" in wrong.json["error"]["message"]
    (tmp_path / "short").write_text("short\n")
    short = run(home, "backup", str(disk / "b.tar"), "--passphrase-file", str(tmp_path / "short"))
    assert "at least 10 characters" in short.err
    for words in (("backup", str(disk / "b.tar")), ("restore", str(target))):
        piped = run(new if words[0] == "restore" else home, *words, input=f"{PASSPHRASE}\n{PASSPHRASE}\n")
        assert piped.code == exit_codes.BAD_INPUT
        assert "give --passphrase-file" in piped.err
    assert not new.path.exists()
    assert sorted(os.listdir(disk)) == ["desk.tar", "link.tar"]


def test_a_terminal_is_asked_twice_and_shows_no_passphrase(home: Home, disk: Path, tmp_path: Path):
    terminal = Terminal(home, "backup", str(disk / "desk.tar"), warm=True)
    try:
        terminal.sees("Passphrase for the backup: ")
        terminal.types(f"{PASSPHRASE}\n")
        terminal.sees("The same once more: ")
        terminal.types("another passphrase\n")
        assert terminal.ends() == exit_codes.BAD_INPUT
        assert "The two passphrases differ" in terminal.seen
        assert not os.listdir(disk)
        assert PASSPHRASE not in terminal.seen
    finally:
        terminal.leave()
    for at, words, answers in (
        (home, ("backup",), ("Passphrase for the backup: ", "The same once more: ")),
        (Home(tmp_path / "new"), ("restore",), ("Passphrase of the backup: ",)),
    ):
        terminal = Terminal(at, *words, str(disk / "desk.tar"), warm=True)
        try:
            for question in answers:
                terminal.sees(question)
                terminal.types(f"{PASSPHRASE}\n")
            assert terminal.ends() == 0, terminal.seen
            assert PASSPHRASE not in terminal.seen
        finally:
            terminal.leave()
    assert run(Home(tmp_path / "new"), "audit", "verify").code == 0


def put_large_blob(home: Home, size: int = 1 << 28) -> None:
    """A blob that takes its time, and no room on the disk."""
    whole = bytes(size)
    sha = sha256_hex(whole)
    path = home.path / "blobs" / sha[:2] / sha
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


@pytest.mark.parametrize("by", ["service", "this command"])
def test_an_interrupted_backup_leaves_no_file(home: Home, disk: Path, passphrase: str, by: str):
    def interrupted() -> None:
        terminal = Terminal(home, "backup", str(disk / "desk.tar"), "--passphrase-file", passphrase)
        try:
            terminal.sees("Backup: ")
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.ends() == exit_codes.INTERRUPTED, terminal.seen
        finally:
            terminal.leave()

    if by == "service":
        with served(home):
            put_large_blob(home)
            # Its end waits for the call that was cancelled.
            interrupted()
    else:
        put_large_blob(home)
        interrupted()
    assert not os.listdir(disk)
    assert run(home, "audit", "verify").code == 0


def test_an_interrupted_restoring_leaves_no_home(home: Home, disk: Path, tmp_path: Path, passphrase: str):
    run(home, "audit", "find")
    put_large_blob(home)
    assert run(home, "backup", str(disk / "desk.tar"), "--passphrase-file", passphrase).code == 0
    new = Home(tmp_path / "homes" / "new")
    terminal = Terminal(new, "restore", str(disk / "desk.tar"), "--passphrase-file", passphrase)
    try:
        terminal.sees("Restore: ")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.ends() == exit_codes.INTERRUPTED, terminal.seen
    finally:
        terminal.leave()
    assert not os.listdir(new.path.parent)


async def test_a_service_that_is_killed_meanwhile_leaves_no_backup_by_that_name(
    home: Home, disk: Path, passphrase: str
):
    async with service_process(home) as service:
        await service.console()
        put_large_blob(home)
        terminal = Terminal(home, "backup", str(disk / "desk.tar"), "--passphrase-file", passphrase)
        try:
            await asyncio.to_thread(terminal.sees, "Backup: ")
            await service.kill()
            assert await asyncio.to_thread(terminal.ends) == exit_codes.HOME_OWNED, terminal.seen
        finally:
            terminal.leave()
    assert not (disk / "desk.tar").exists()
    assert (await command(home, "audit", "verify")).code in (0, exit_codes.JOURNAL_BAD)


def test_tar_and_sha256sum_check_a_backup(home: Home, disk: Path, passphrase: str):
    run(home, "backup", str(disk / "desk.tar"), "--passphrase-file", passphrase)
    for tool in ("tar", "sha256sum"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    subprocess.run(["tar", "xf", "desk.tar"], cwd=disk, check=True)
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=disk, check=False, text=True
    )
    assert checked.returncode == 0
    assert run(Home(disk / "home"), "audit", "verify").code == 0
    described = json.loads((disk / "quarterdeck-backup.json").read_text())
    assert described["format"] == "quarterdeck.backup/1"

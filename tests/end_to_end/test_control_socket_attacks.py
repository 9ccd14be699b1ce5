"""Another user of this machine stands where the service should be: nothing is said to their process."""

from __future__ import annotations

import os
import select
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from core.errors import ErrorCode, ServiceError
from core.home import Home
from core.service.control import MOST_STARTS, ensure_service, lock_owner, stop_service
from core.service.rpc import transport
from core.service.rpc.client import RemoteConsole
from tests.fakes.program import environment, run

STRANGER = 54_322
LONG = "a-home-with-a-name-of-many-letters" * 4
needs_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root can be another user"
)

# As user argv[2], listens at argv[1] and says on its standard output what it was sent; makes the folder.
LISTENER = """
import os, socket, sys
path, user = sys.argv[1], int(sys.argv[2])
os.setgroups([])
os.setgid(user)
os.setuid(user)
folder = os.path.dirname(path)
os.umask(0)
if not os.path.isdir(folder):
    os.mkdir(folder, 0o777)
listening = socket.socket(socket.AF_UNIX)
folder = os.open(folder, os.O_RDONLY)
listening.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
listening.listen(8)
print("ready", flush=True)
while True:
    connection, _ = listening.accept()
    print("connected", flush=True)
    print("sent", connection.recv(4096), flush=True)
    connection.close()
"""


@dataclass
class Stranger:
    """A process of another user that listens where a service should."""

    process: subprocess.Popen[str]

    def heard(self) -> list[str]:
        """What it was sent so far; it has read all that was there before it is asked."""
        said: list[str] = []
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], 0)[0]:
            line = os.read(self.process.stdout.fileno(), 65536).decode()
            if not line:
                break
            said += line.splitlines()
        return [line for line in said if line.startswith("sent") and line != "sent b''"]


@pytest.fixture
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Starts a stranger at a path."""
    running: list[subprocess.Popen[str]] = []

    def listen_at(path: Path, user: int = STRANGER) -> Stranger:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LISTENER, str(path), str(user)],
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return Stranger(process)

    yield listen_at
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def open_to_all(path: Path) -> Path:
    """Let another user reach a folder of a test."""
    for folder in path.parents:
        if folder != Path("/") and folder.stat().st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    return path


def by_hash(home: Home, folder: Path) -> Path:
    """Where an earlier version of this program put the socket of a home with a long path."""
    name = sha256(os.fsencode(home.path)).hexdigest()[:16]
    return folder / f"quarterdeck-{os.getuid()}" / f"{name}.sock"


@needs_root
async def test_who_was_first_in_the_temporary_folder_neither_hears_anything_nor_keeps_the_owner_out(
    tmp_path: Path, stranger, monkeypatch: pytest.MonkeyPatch
):
    shared = tmp_path / "t"
    shared.mkdir()
    shared.chmod(0o1777)
    open_to_all(shared)
    monkeypatch.setenv("TMPDIR", str(shared))
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    home = Home(tmp_path / LONG).create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    waiting = stranger(by_hash(home, shared))
    console = await ensure_service(home, "cli", "cli:anna")
    assert console.welcome.pid != waiting.process.pid
    assert lock_owner(home) == str(console.welcome.pid)
    await console.close()
    assert run(home, "service", "status").code == 0
    await stop_service(home, cancel_work=True)
    assert waiting.heard() == []


@needs_root
async def test_a_socket_that_another_user_laid_into_a_home_is_not_spoken_to(tmp_path: Path, stranger):
    home = Home(tmp_path / "home").create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    open_to_all(home.path).chmod(0o777)
    waiting = stranger(home.path / "service.sock")
    for mode, words in ((0o777, "may write in"), (0o700, f"belongs to user {STRANGER}")):
        home.path.chmod(mode)
        with pytest.raises(ServiceError, match=words) as refusal:
            await RemoteConsole.connect(home, "cli", "cli:anna")
        assert refusal.value.code is ErrorCode.HOME_UNSAFE
    # The file may be made to look right; the process behind it cannot.
    os.chown(home.path / "service.sock", os.getuid(), os.getgid())
    for words in (("approvals", "list"), ("service", "status"), ("call", "this-computer", "list_tools")):
        ended = run(home, *words, "--json")
        assert ended.code == 9, ended
        assert f"belongs to user {STRANGER}" in ended.json["error"]["message"]
    assert waiting.heard() == []


@needs_root
def test_a_home_of_another_user_is_neither_attached_to_nor_served(tmp_path: Path, stranger):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    open_to_all(theirs / "x")
    os.chown(theirs, STRANGER, STRANGER)
    waiting = stranger(theirs / "service.sock")
    ended = run(Home(theirs), "approvals", "list", "--json")
    assert ended.code == 9, ended
    assert f"belongs to user {STRANGER}" in ended.json["error"]["message"]
    (theirs / "service.sock").unlink()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "core.service", "--home", str(theirs)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 9, done
    assert f"belongs to user {STRANGER}" in done.stderr
    # Nor does a command work in it by itself, as it does where no service runs.
    hosted = run(Home(theirs), "devices", "--json")
    assert hosted.code == 9, hosted
    assert not (theirs / "journal.db").exists()
    assert waiting.heard() == []


async def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path):
    real = Home(tmp_path / "real").create()
    (tmp_path / "way").symlink_to(real.path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(real.socket))
        listening.listen()
        with pytest.raises(ServiceError, match="is a link") as refusal:
            await transport.dial(Home(tmp_path / "way"), 1, 1024)
        assert refusal.value.code is ErrorCode.HOME_UNSAFE


@pytest.mark.parametrize("name", ["short", f"{LONG}/{LONG}"])
async def test_the_socket_lies_in_its_home_however_long_its_path_is(tmp_path: Path, name: str):
    home = Home(tmp_path / name).create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    console = await ensure_service(home, "cli", "cli:anna", stay=True)
    try:
        seen = (home.path / "service.sock").stat()
        assert stat.S_ISSOCK(seen.st_mode)
        assert stat.S_IMODE(seen.st_mode) == 0o600
        assert run(home, "devices", "--json").code == 0
    finally:
        await console.close()
        await stop_service(home, cancel_work=True)
    assert not (home.path / "service.sock").exists()


async def test_a_home_that_is_a_link_is_the_folder_that_it_leads_to(tmp_path: Path):
    real = Home(tmp_path / "real").create()
    (real.path / "settings.toml").write_text('this_computer = "in-process"\n')
    (tmp_path / "way").symlink_to(real.path)
    way = Home.choose(str(tmp_path / "way"))
    assert way.path == real.path
    started = run(Home(tmp_path / "way"), "service", "start")
    assert started.code == 0, started
    assert (real.path / "service.sock").exists()
    assert lock_owner(real) is not None
    assert run(real, "service", "status", "--json").json["running"] is True
    assert run(Home(tmp_path / "way"), "service", "stop").code == 0


async def test_a_service_that_cannot_own_its_socket_is_not_started_over_and_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real = Home(tmp_path / "real").create()
    (tmp_path / "way").symlink_to(real.path)
    home = Home(tmp_path / "way")
    starts: list[object] = []
    spawn = ensure_service.__globals__["_spawn"]
    monkeypatch.setitem(
        ensure_service.__globals__, "_spawn", lambda *words: starts.append(words) or spawn(*words)
    )
    # A folder where the socket should be: no start can mend that.
    (real.path / "service.sock").mkdir()
    (real.path / "service.sock" / "x").touch()
    for one, words in ((real, "not a socket"), (home, "is a link")):
        with pytest.raises(ServiceError, match=words) as refusal:
            await ensure_service(one, "window", "operator:anna")
        assert refusal.value.code is ErrorCode.HOME_UNSAFE
    assert starts == []
    # One that was owned each time that it was started is given up as well.
    (real.path / "service.sock" / "x").unlink()
    (real.path / "service.sock").rmdir()

    def ends_at_once(at: Home, *how: object) -> tuple[subprocess.Popen[bytes], int]:
        starts.append(at)
        return subprocess.Popen([sys.executable, "-S", "-c", "raise SystemExit(9)"]), 0

    monkeypatch.setitem(ensure_service.__globals__, "_spawn", ends_at_once)
    real.log.touch()
    with pytest.raises(ServiceError, match="ended with code 9"):
        await ensure_service(real, "window", "operator:anna", timeout=60)
    assert len(starts) == MOST_STARTS

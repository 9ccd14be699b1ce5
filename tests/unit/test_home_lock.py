"""A home has one owner; whoever only looks changes nothing, and its files are its owner's alone."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import core.home
from core.approvals.operators import Operators
from core.errors import BadInput, ErrorCode, ServiceError
from core.fleet.tool_pins import Claims, Pin, Pins
from core.home import Home, HomeLock
from tests.fakes.on_windows import files_on_windows
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signing import anna

HOLDER = (
    "import sys; from core.home import Home, HomeLock; "
    "HomeLock(Home(__import__('pathlib').Path(sys.argv[1]))).acquire(); "
    "print('held', flush=True); sys.stdin.read()"
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The least careful system there is."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def holder(home: Home) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the home."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.stdin.close()
    process.stdout.close()
    process.wait(PATIENCE_S)


class TestLock:
    def test_the_second_owner_is_refused_and_told_who_was_first(self, home, holder):
        with pytest.raises(ServiceError, match=f"Process {holder.pid} owns") as busy:
            HomeLock(home).acquire()
        assert busy.value.code is ErrorCode.HOME_BUSY
        assert (home.path / "lock").read_text() == str(holder.pid)

    def test_the_lock_goes_with_its_owner_however_that_ends(self, home, holder):
        holder.kill()
        holder.wait(PATIENCE_S)
        assert HomeLock(home).probe() is None
        with HomeLock(home):
            assert (home.path / "lock").read_text() == str(os.getpid())

    def test_a_shorter_number_leaves_nothing_of_a_longer_one(self, home):
        (home.path / "lock").write_text("12345678901234567890")
        with HomeLock(home):
            assert HomeLock(home).probe() == str(os.getpid())

    def test_releasing_twice_is_harmless_and_lets_the_next_one_in(self, home):
        lock = HomeLock(home).acquire()
        lock.release()
        lock.release()
        HomeLock(home).acquire().release()

    def test_an_owner_that_could_not_write_its_number_leaves_no_lock(self, home, monkeypatch):
        def full(handle: int, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(core.home.os, "write", full)
            with pytest.raises(OSError, match="No space"):
                HomeLock(home).acquire()
        HomeLock(home).acquire().release()


class TestProbe:
    def test_looking_names_the_owner(self, home, holder):
        assert HomeLock(home).probe() == str(holder.pid)

    def test_looking_where_nobody_was_makes_no_file(self, home):
        assert HomeLock(home).probe() is None
        assert not (home.path / "lock").exists()

    def test_looking_never_changes_the_lock(self, home):
        path = home.path / "lock"
        path.write_text("4711")
        path.chmod(0o400)
        before = (path.read_bytes(), path.stat().st_mtime_ns)
        assert HomeLock(home).probe() is None
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before

    def test_two_who_look_at_once_do_not_take_each_other_for_the_owner(self, home):
        (home.path / "lock").touch()
        seen: list[str | None] = []
        lookers = [
            threading.Thread(target=lambda: seen.extend(HomeLock(home).probe() for _ in range(300)))
            for _ in range(4)
        ]
        for looker in lookers:
            looker.start()
        for looker in lookers:
            looker.join(PATIENCE_S)
        assert seen == [None] * 1200

    def test_who_only_looks_keeps_no_owner_out(self, home):
        (home.path / "lock").touch()
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                HomeLock(home).probe()

        lookers = [threading.Thread(target=look) for _ in range(3)]
        for looker in lookers:
            looker.start()
        try:
            for _ in range(100):
                HomeLock(home).acquire().release()
        finally:
            over.set()
            for looker in lookers:
                looker.join(PATIENCE_S)


class TestPrivateFiles:
    def test_what_says_who_may_approve_and_what_is_trusted_is_the_owner_s_alone(self, home, open_umask):
        asyncio.run(Pins(home.contracts).pin("bench", {"x": Pin("00", Claims(None, ours=True))}))
        operator = anna(home)
        Operators(home.operators).add(operator.operator)
        with HomeLock(home):
            assert mode_of(home.path / "lock") == 0o600
        assert mode_of(home.contracts) == 0o600
        assert mode_of(home.operators) == 0o600

    def test_the_folders_of_a_home_are_the_owner_s_alone(self, tmp_path, open_umask):
        home = Home(tmp_path / "deep" / "home").create()
        for folder in (home.path, home.keys, home.batches, home.device_state):
            assert mode_of(folder) == 0o700


class TestNames:
    def test_a_socket_lies_in_its_home(self, tmp_path):
        for name in ("short", "long" * 30):
            assert Home(tmp_path / name).socket == tmp_path / name / "service.sock"

    def test_where_folders_have_no_numbers_a_long_home_uses_a_folder_of_this_user_s(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("core.home_folder.FOLDERS_BY_NUMBER", tmp_path / "not there")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        homes = [Home(tmp_path / ("long" * 30) / name) for name in ("one", "other")]
        assert all(one.socket.parent == tmp_path / "quarterdeck" for one in homes)
        assert len({one.socket for one in homes}) == 2
        assert Home(Path("/tmp/short")).socket == Path("/tmp/short/service.sock")
        tmp_path.chmod(0o777)
        assert homes[0].socket == homes[0].path / "service.sock"

    def test_the_option_wins_over_the_environment_which_wins_over_the_platform(self, tmp_path, monkeypatch):
        monkeypatch.setenv("QUARTERDECK_HOME", str(tmp_path / "environment"))
        assert Home.choose(str(tmp_path / "option")).path == tmp_path / "option"
        assert Home.choose().path == tmp_path / "environment"
        monkeypatch.delenv("QUARTERDECK_HOME")
        assert "quarterdeck" in str(Home.choose().path).lower()

    def test_a_home_that_is_a_file_is_said_so(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(BadInput, match="cannot be used"):
            Home(tmp_path / "file").create()


class TestWindows:
    def test_the_home_s_lock_works_there_too(self, home, monkeypatch):
        windows = files_on_windows(monkeypatch)
        monkeypatch.setattr(core.home, "FileLock", windows.FileLock)
        first = HomeLock(home).acquire()
        assert HomeLock(home).probe() == str(os.getpid())
        with pytest.raises(ServiceError, match=str(os.getpid())):
            HomeLock(home).acquire()
        sys.modules["msvcrt"].held.clear()  # type: ignore[attr-defined]
        first.release()
        assert HomeLock(home).probe() is None
        with HomeLock(home):
            pass

"""Files are written whole or not at all and private from the start, links are not followed, locks hold."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.errors import BadInput
from core.files import FileLock, create_new, read_own_text, write_atomic
from tests.fakes.on_windows import files_on_windows
from tests.fakes.small_disk import fill, small_disk_at

ROOT = Path(__file__).parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="only there files have modes and folders can be synced")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def fails(code: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The least careful system."""
    before = os.umask(0)
    yield
    os.umask(before)


class TestAtomicWrite:
    @pytest.mark.parametrize("data", [b"new\r\n\0", "neü\n"])
    def test_the_file_has_exactly_what_was_written(self, tmp_path, data):
        path = tmp_path / "devices.json"
        path.write_text("an older and longer text")
        write_atomic(path, data)
        assert path.read_bytes() == (data if isinstance(data, bytes) else data.encode())
        assert os.listdir(tmp_path) == ["devices.json"]

    @posix
    @pytest.mark.parametrize("mode", [0o600, 0o644])
    def test_it_has_its_mode_from_the_start_whatever_the_umask(self, tmp_path, open_umask, monkeypatch, mode):
        modes: list[int] = []
        sync = os.fsync

        def fsync(handle: int) -> None:
            modes.append(stat.S_IMODE(os.fstat(handle).st_mode))
            sync(handle)

        monkeypatch.setattr(os, "fsync", fsync)
        path = tmp_path / "key"
        path.write_text("readable by every user")
        path.chmod(0o666)
        write_atomic(path, b"secret", mode)
        assert modes[0] == mode_of(path) == mode

    def test_a_link_at_the_name_is_replaced_and_not_followed(self, tmp_path):
        victim = tmp_path / "victim"
        victim.write_text("mine")
        path = tmp_path / "devices.json"
        path.symlink_to(victim)
        write_atomic(path, "new")
        assert victim.read_text() == "mine"
        assert not path.is_symlink()
        assert path.read_text() == "new"

    def test_a_link_at_the_temporary_name_is_not_followed(self, tmp_path, monkeypatch):
        """An attacker cannot know the name; here it is known."""
        victim = tmp_path / "victim"
        victim.write_text("mine")
        path = tmp_path / "devices.json"
        path.write_text("old")
        monkeypatch.setattr("core.files.secrets.token_hex", lambda size: "0" * 2 * size)
        (tmp_path / ".devices.json.00000000").symlink_to(victim)
        with pytest.raises(FileExistsError):
            write_atomic(path, "new")
        assert (victim.read_text(), path.read_text()) == ("mine", "old")

    @pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
    def test_a_step_that_fails_leaves_the_old_file_and_nothing_else(self, tmp_path, monkeypatch, step):
        path = tmp_path / "devices.json"
        path.write_text("old")
        with monkeypatch.context() as patch:
            patch.setattr(step, fails(errno.ENOSPC))
            with pytest.raises(OSError, match="No space"):
                write_atomic(path, "new")
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["devices.json"]

    def test_on_a_full_disk_the_old_file_stays(self, tmp_path):
        with small_disk_at(tmp_path / "disk", "64k") as folder:
            path = folder / "devices.json"
            write_atomic(path, "old")
            filler = fill(folder)
            with pytest.raises(OSError, match="No space"):
                write_atomic(path, b"x" * 100_000)
            assert path.read_text() == "old"
            assert sorted(os.listdir(folder)) == ["devices.json", "filler"]
            filler.unlink()
            write_atomic(path, "new")
            assert path.read_text() == "new"

    @posix
    @pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
    def test_a_process_that_is_killed_before_the_replacement_leaves_the_old_file(self, tmp_path, step):
        path = tmp_path / "devices.json"
        path.write_text("old")
        killed = (
            "import os, pathlib, sys; from core.files import write_atomic\n"
            f"{step} = lambda *_: os.kill(os.getpid(), 9)\n"
            "write_atomic(pathlib.Path(sys.argv[1]), 'new')"
        )
        process = subprocess.run([sys.executable, "-c", killed, str(path)], cwd=ROOT, check=False)
        assert process.returncode == -9
        assert path.read_text() == "old"
        write_atomic(path, "newer")
        assert path.read_text() == "newer"

    def test_writers_at_once_never_mix_their_texts(self, tmp_path):
        path = tmp_path / "draft.json"
        texts = [str(number) * 50_000 for number in range(4)]

        def write(text: str) -> None:
            for _ in range(20):
                write_atomic(path, text)

        with ThreadPoolExecutor(len(texts)) as threads:
            writers = [threads.submit(write, text) for text in texts]
            while not all(writer.done() for writer in writers):
                assert not path.exists() or path.read_text() in texts
            for writer in writers:
                writer.result()
        assert os.listdir(tmp_path) == ["draft.json"]

    @posix
    def test_the_folder_is_synced_after_the_new_name_is_in_it(self, tmp_path, monkeypatch):
        """Else the old file could be back after a power cut."""
        done: list[str] = []
        sync, replace = os.fsync, Path.replace

        def fsync(handle: int) -> None:
            done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
            sync(handle)

        def replaced(self: Path, target: Path) -> Path:
            done.append("replaced")
            return replace(self, target)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Path, "replace", replaced)
        write_atomic(tmp_path / "devices.json", "{}")
        assert done == ["file", "replaced", "folder"]

    @pytest.mark.parametrize("name", ["x" * 255, "ä" * 127])
    def test_the_longest_name_of_a_file_can_be_written(self, tmp_path, name):
        write_atomic(tmp_path / name, "new")
        assert os.listdir(tmp_path) == [name]

    def test_without_replace_an_existing_file_stays(self, tmp_path):
        path = tmp_path / "operator.pem"
        write_atomic(path, "first", replace=False)
        for number in range(2):
            with pytest.raises(FileExistsError):
                write_atomic(path, "second", replace=False)
            assert path.read_text() == "first", number
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        with pytest.raises(FileExistsError):
            write_atomic(tmp_path / "link", "second", replace=False)
        assert sorted(os.listdir(tmp_path)) == ["link", "operator.pem"]

    @pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
    def test_without_replace_an_existing_file_stays_on_a_disk_without_links(
        self, tmp_path, monkeypatch, code
    ):
        monkeypatch.setattr(os, "link", fails(code))
        path = tmp_path / "operator.pem"
        write_atomic(path, "first", replace=False)
        with pytest.raises(FileExistsError):
            write_atomic(path, "second", replace=False)
        assert path.read_text() == "first"
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        with pytest.raises(FileExistsError):
            write_atomic(tmp_path / "link", "second", replace=False)
        assert sorted(os.listdir(tmp_path)) == ["link", "operator.pem"]

    def test_a_name_that_was_only_taken_is_given_back(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "link", fails(errno.EPERM))
        monkeypatch.setattr(Path, "replace", fails(errno.EIO))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            write_atomic(tmp_path / "operator.pem", "first", replace=False)
        assert not os.listdir(tmp_path)


class TestNewFile:
    @posix
    def test_it_is_private_and_complete(self, tmp_path, open_umask):
        path = tmp_path / "token"
        create_new(path, "secret\n")
        assert path.read_bytes() == b"secret\n"
        assert mode_of(path) == 0o600

    @pytest.mark.parametrize("taken", ["file", "folder", "link", "broken link"])
    def test_what_has_the_name_stays(self, tmp_path, taken):
        path, other = tmp_path / "new", tmp_path / "other"
        if taken == "file":
            path.write_text("mine")
        elif taken == "folder":
            path.mkdir()
        else:
            path.symlink_to(other)
        if taken == "link":
            other.write_text("mine")
        before = (path.lstat().st_ino, other.exists() and other.read_text())
        with pytest.raises(FileExistsError):
            create_new(path, "theirs")
        assert (path.lstat().st_ino, other.exists() and other.read_text()) == before
        assert taken != "file" or path.read_text() == "mine"

    def test_a_write_that_fails_leaves_no_file(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "fsync", fails(errno.EIO))
        with pytest.raises(OSError, match="Input/output"):
            create_new(tmp_path / "new", "data")
        assert os.listdir(tmp_path) == []


@posix
class TestOwnText:
    def test_a_file_that_others_can_write_is_refused(self, tmp_path):
        path = tmp_path / "policy.toml"
        path.write_text("text")
        path.chmod(0o602)
        with pytest.raises(BadInput, match="can be written by other users"):
            read_own_text(path, 100)

    def test_a_pipe_does_not_block(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(BadInput, match="not a regular file"):
            read_own_text(tmp_path / "pipe", 100)


OWNER = """
import pathlib, sys; from core.files import FileLock
lock = FileLock(pathlib.Path(sys.argv[1]))
print(lock.take(shared=sys.argv[2] == "shared"), flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(path: Path, how: str = "exclusive") -> Iterator[subprocess.Popen[str]]:
    """A process that has locked the file; it ends when its input does."""
    command = [sys.executable, "-c", OWNER, str(path), how]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        try:
            yield process
        finally:
            process.kill()


class TestLock:
    def test_one_process_owns_the_file_until_it_ends_however_it_ends(self, tmp_path):
        path = tmp_path / "lock"
        with FileLock(path) as lock:
            assert lock.is_free()
            with another_process(path):
                assert not lock.take()
                assert not lock.take(shared=True)
                assert not lock.is_free()
            assert lock.is_free()
            assert lock.take()

    def test_it_ends_when_it_is_closed_which_may_happen_twice(self, tmp_path):
        first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
        assert first.take()
        assert not second.take()
        first.close()
        first.close()
        assert second.take()
        second.close()

    @posix
    def test_a_shared_lock_excludes_owners_only(self, tmp_path):
        path = tmp_path / "lock"
        with another_process(path, "shared"), FileLock(path) as lock:
            assert lock.take(shared=True)
            assert lock.is_free()
            lock.close()
            with FileLock(path) as owner:
                assert not owner.take()

    @posix
    def test_a_process_that_this_one_started_does_not_keep_the_lock(self, tmp_path):
        lock = FileLock(tmp_path / "lock")
        assert lock.take()
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            lock.close()
            with FileLock(tmp_path / "lock") as next_one:
                assert next_one.take()
            child.kill()

    @posix
    def test_its_file_is_private_and_its_content_stays(self, tmp_path, open_umask):
        path = tmp_path / "lock"
        FileLock(path).close()
        assert mode_of(path) == 0o600
        path.write_text("4711")
        with FileLock(path) as lock:
            assert lock.take()
        assert path.read_text() == "4711"

    @posix
    def test_a_file_system_without_locks_is_an_error_and_nobody_s_lock(self, tmp_path, monkeypatch):
        monkeypatch.setattr("fcntl.flock", fails(errno.ENOLCK))
        with FileLock(tmp_path / "lock") as lock, pytest.raises(OSError, match="locks"):
            lock.take()

    def test_on_windows_one_byte_far_behind_the_content_is_locked(self, tmp_path, monkeypatch):
        windows = files_on_windows(monkeypatch)
        first, second = windows.FileLock(tmp_path / "lock"), windows.FileLock(tmp_path / "lock")
        assert first.take()
        assert [at for _, at in sys.modules["msvcrt"].held] == [1 << 40]  # type: ignore[attr-defined]
        assert not second.take()
        assert not second.is_free()
        assert os.fstat(first.handle).st_size == 0

"""Files: atomic and durable writes, private files, locks, reading what only this user can have written."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TextIO

from core.errors import BadInput

_BINARY: int = getattr(os, "O_BINARY", 0)
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
# How a file system says that it has no hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
# File systems limit a name to 255 bytes; this leaves room for the rest of a temporary name.
_NAME_BYTES = 200
# A process that only looks at a lock holds it for less than a millisecond; an owner holds it until its end.
_MOST_LOOKS = 50
_BETWEEN_LOOKS_S = 0.002
# On Windows, other processes cannot read locked bytes, so the locked byte is far behind the file's content.
_LOCKED_BYTE = 1 << 40


def write_atomic(path: Path, data: bytes | str, mode: int = 0o600, *, replace: bool = True) -> None:
    """Write a file atomically and durably: a crash or a full disk leaves the old file or the whole new one.

    The data is written to a temporary file in the same folder. Its name is random, so that writers in several
    threads or processes do not disturb each other, and no file laid in the way stops the write. A symlink at
    `path` is replaced, not followed. Text is written as UTF-8, with its line ends unchanged.

    `mode` is the new file's mode from the start, less the umask. With `replace` False, an existing file of
    that name is never overwritten, even if another process created it just now.

    Raises:
        FileExistsError: `replace` is False, and the name is taken.
        OSError: the file cannot be written, and the old file is unchanged; or, as the last step, its folder
            cannot be synchronised to disk after the replacement.
    """
    temporary = temporary_name(path)
    create_new(temporary, data, mode)
    try:
        if replace:
            temporary.replace(path)
        else:
            give_name(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    # Otherwise a power cut could restore the old file, for example with a revoked device.
    sync_folder(path.parent)


@contextlib.contextmanager
def writing_atomic(path: Path, mode: int = 0o600, *, replace: bool = True) -> Iterator[TextIO]:
    """A text file that is written piece by piece, and is at `path` once all of it is on the disk.

    As with `write_atomic`, an error leaves the old file or none, and with `replace` False an existing file is
    never overwritten.

    Raises:
        FileExistsError: `replace` is False, and the name is taken by now.
        OSError: the file cannot be written.
    """
    temporary = temporary_name(path)
    create_new(temporary, b"", mode)
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replace:
            temporary.replace(path)
        else:
            give_name(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def give_name(temporary: Path, path: Path) -> None:
    """Give a complete file the name `path`, which is never overwritten. The folder is not synchronised.

    The temporary name may be left; it is the caller's to remove.

    Raises:
        FileExistsError: the name is taken, if only by a symlink that leads nowhere.
        OSError: the file cannot be given that name.
    """
    try:
        # Unlike a rename, a link fails if the name is taken.
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without links, such as that of a USB stick: the name is taken first, then replaced.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600))
        try:
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise


def temporary_name(path: Path) -> Path:
    """A name in the same folder that no other file has."""
    name = path.name.encode("utf-8", "ignore")[:_NAME_BYTES].decode("utf-8", "ignore")
    return path.with_name(f".{name}.{secrets.token_hex(4)}")


def create_new(path: Path, data: bytes | str, mode: int = 0o600) -> None:
    """Create a file with `mode` (less the umask) from the start, and bring its content to the disk.

    A failed write leaves no file, a crash may leave a part of it. The folder is not synchronised: its caller
    may have more to change there first.

    Raises:
        FileExistsError: the name is taken, if only by a symlink that leads nowhere.
        OSError: the file cannot be written.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _BINARY, mode)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make new and changed names in `folder` survive a power cut, if the system supports it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_own_text(path: Path, most_bytes: int) -> str | None:
    """Read a file that only this user (or root) can have written; None if it does not exist.

    Opening never blocks: a FIFO or a device is refused, like everything that is not a regular file.

    Raises:
        BadInput: the file cannot be read, is a broken link, is not a regular file, belongs to another user,
            can be written by others, is larger than `most_bytes`, or is not UTF-8; names the reason.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError as error:
        if path.is_symlink():
            raise BadInput(f"{path.name} is a link that leads nowhere.") from error
        return None
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}.") from error
    try:
        _check_own(os.fstat(handle), path.name)
        with open(handle, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}.") from error
    finally:
        os.close(handle)
    if len(data) > most_bytes:
        raise BadInput(f"{path.name} is larger than {most_bytes // 1024:,} KiB.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path.name} cannot be read: it is not UTF-8 ({error.reason}).") from error


def _check_own(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(f"{name} is not a regular file.")
    # Windows' modes say nothing of other users.
    if sys.platform != "win32":
        if status.st_uid not in (os.geteuid(), 0):
            raise BadInput(f"{name} belongs to another user (number {status.st_uid}).")
        # A group with the user's own number is taken as the user's private group, which has no other members.
        by_group = status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid
        if status.st_mode & stat.S_IWOTH or by_group:
            raise BadInput(f"{name} can be written by other users (mode {stat.S_IMODE(status.st_mode):o}).")


class FileLock:
    """An open file that one process at a time can own, or several can share.

    The lock is on the open file: it ends with `close` or with the process, however that ends. Processes that
    this process starts do not inherit it. It excludes only those who ask for it; the content can be read and
    written by every process that has opened the file.
    """

    def __init__(self, path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> None:
        """Open the file, unlocked; where `flags` allow, it is created with mode 0600.

        Raises:
            OSError: the file cannot be opened.
        """
        self.handle = os.open(path, flags | _BINARY, 0o600)
        self._open = True

    def take(self, shared: bool = False) -> bool:
        """Lock the file, without waiting for an owner; False if another process owns it.

        A shared lock excludes only owners. Windows has no shared locks here: there it is like any other.

        Raises:
            OSError: the file system has no locks.
        """
        if shared:
            return try_lock(self.handle, shared=True)
        for _ in range(_MOST_LOOKS):
            if try_lock(self.handle, shared=False):
                return True
            # A process that only looks must not make this one fail: try again.
            if not self.is_free():
                return False
            time.sleep(_BETWEEN_LOOKS_S)
        return False

    def is_free(self) -> bool:
        """Whether no other process owns the file. The lock must not be held by this object.

        Raises:
            OSError: the file system has no locks.
        """
        return _is_free(self.handle)

    def close(self) -> None:
        """Close the file, which releases the lock; safe to call twice."""
        if self._open:
            self._open = False
            os.close(self.handle)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


if sys.platform == "win32":
    import msvcrt

    def try_lock(handle: int, *, shared: bool = False) -> bool:
        """As on other systems, but a shared lock is like any other."""
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _is_free(handle: int) -> bool:
        # Without shared locks, two processes that only look exclude each other for a moment.
        for _ in range(_MOST_LOOKS):
            if try_lock(handle, shared=True):
                os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
                msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
                return True
            time.sleep(_BETWEEN_LOOKS_S)
        return False

else:
    import fcntl

    def try_lock(handle: int, *, shared: bool = False) -> bool:
        """Lock an open file until it is closed; False if another open file has locked it.

        Raises:
            OSError: the file system has no locks.
        """
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_free(handle: int) -> bool:
        if not try_lock(handle, shared=True):
            return False
        fcntl.flock(handle, fcntl.LOCK_UN)
        return True

"""Resolved paths that cannot be redirected between their check and their use.

A path is resolved once, symlinks and `..` included, and must then lie below a root. To use it, its folder is
opened from the root downwards, component by component, without following symlinks. If another program swaps a
folder for a symlink between check and use, the result is an error, not access to a file outside the roots.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import BadInput, ErrorCode
from core.text import sentences

# Windows has no such functions: there the path is resolved again when its folder is needed.
HAS_FOLDER_DESCRIPTORS = {os.open, os.stat, os.rename, os.link, os.unlink} <= os.supports_dir_fd
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)
# With O_PATH a folder can be traversed without the right to list it.
_PASS = getattr(os, "O_PATH", os.O_RDONLY)
# Errors of file systems that cannot fsync a folder.
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOTTY, errno.ENOSYS, errno.EBADF}


def shown(name: str) -> str:
    """A file name as valid Unicode for JSON: bytes that are not UTF-8 become `\\xNN`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _changed(path: Path, error: OSError | None = None) -> BadInput:
    reason = f" ({error.strerror})" if error else ""
    return BadInput(
        sentences(f"{path} changed while it was being opened{reason}"), ErrorCode.PATH_NOT_ALLOWED
    )


@dataclass(frozen=True, slots=True)
class SafePath:
    """A resolved path and the root that it is below."""

    path: Path
    root: Path

    @contextlib.contextmanager
    def folder(self) -> Iterator[DirHandle]:
        """Open the folder that holds the path's last component.

        Raises:
            BadInput: the folder does not exist, or a component became a symlink since the check.
        """
        parent = self.path.parent if self.path != self.root else self.root.parent
        if not HAS_FOLDER_DESCRIPTORS:
            if Path(os.path.realpath(parent)) != parent:
                raise _changed(self.path)
            yield DirHandle(parent, None, self.path.name)
            return
        descriptor = self._open_folder(parent)
        try:
            yield DirHandle(parent, descriptor, self.path.name)
        finally:
            os.close(descriptor)

    def open(self) -> int:
        """Open the path itself, a folder; the caller closes the descriptor. Linux and macOS only.

        Raises:
            BadInput: it does not exist, is not a folder, or a component became a symlink since the check.
        """
        if self.path == self.root:
            return self._open_folder(self.path, to_list=True)
        with self.folder() as folder:
            try:
                return folder.open(folder.name, os.O_RDONLY | _FOLDER)
            except OSError as error:
                raise _not_opened(self.path, error) from error

    def _open_folder(self, parent: Path, to_list: bool = False) -> int:
        flags = _FOLDER | _NO_FOLLOW | _CLOSE_ON_EXEC
        descriptor = -1
        try:
            if not parent.is_relative_to(self.root):
                return _open_last(parent, flags, None, to_list)
            parts = parent.relative_to(self.root).parts
            names: tuple[str | Path, ...] = (self.root, *parts)
            for place, part in enumerate(names):
                above = None if place == 0 else descriptor
                if place < len(parts):
                    below = os.open(part, flags | _PASS, dir_fd=above)
                else:
                    below = _open_last(part, flags, above, to_list)
                _close(descriptor)
                descriptor = below
        except OSError as error:
            _close(descriptor)
            raise _not_opened(parent, error) from error
        return descriptor


def _open_last(name: str | Path, flags: int, above: int | None, to_list: bool) -> int:
    try:
        return os.open(name, flags | os.O_RDONLY, dir_fd=above)
    except PermissionError:
        if to_list or not _PASS:
            raise
        # A folder that may be traversed but not listed: enough for all but fsync.
        return os.open(name, flags | _PASS, dir_fd=above)


def _not_opened(folder: Path, error: OSError) -> BadInput:
    if isinstance(error, FileNotFoundError):
        return BadInput(f"{folder} does not exist.", ErrorCode.NOT_FOUND)
    if isinstance(error, PermissionError):
        return BadInput(sentences(f"{folder}: {error.strerror}"), ErrorCode.DENIED_BY_DEVICE)
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        # When it was resolved it was a folder and no symlink.
        return _changed(folder, error)
    return BadInput(sentences(f"{folder}: {error.strerror}"))


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class DirHandle:
    """An open folder; names are single components inside it, and symlinks are never followed."""

    path: Path
    descriptor: int | None
    name: str

    def _at(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open `name` in this folder, without following a symlink or waiting for a FIFO's other end."""
        more = _NO_FOLLOW | _NO_WAIT | _BINARY | _CLOSE_ON_EXEC
        return os.open(self._at(name), flags | more, mode, dir_fd=self.descriptor)

    def stat(self, name: str) -> os.stat_result | None:
        """The status of `name`, symlinks not followed; None where it does not exist."""
        try:
            return os.stat(self._at(name), dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def replace(self, source: str, target: str) -> None:
        """Rename `source` over `target`."""
        os.replace(self._at(source), self._at(target), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def link(self, source: str, target: str) -> None:
        """Give `source` the second name `target`, which must be free."""
        os.link(self._at(source), self._at(target), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def unlink(self, name: str) -> None:
        """Remove `name`."""
        os.unlink(self._at(name), dir_fd=self.descriptor)

    def sync(self) -> None:
        """Make renames in this folder durable, where its file system supports this."""
        if self.descriptor is None:
            return
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise

    def may_write(self, name: str) -> bool:
        """Whether this process may write to `name`; replacing the file would not check this."""
        effective = os.access in os.supports_effective_ids
        return os.access(self._at(name), os.W_OK, dir_fd=self.descriptor, effective_ids=effective)

    def open_file(self) -> tuple[int, os.stat_result]:
        """Open the path's own file for reading; the caller closes the descriptor.

        Raises:
            BadInput: it does not exist, is not a regular file, or may not be read.
        """
        full = self.path / self.name
        # Checked first, since opening can have effects: it wakes a process that waits at a FIFO, and starts
        # a watchdog device.
        try:
            known = self.stat(self.name)
            if known is not None and not stat.S_ISREG(known.st_mode) and not stat.S_ISLNK(known.st_mode):
                raise BadInput(f"{full} is not a regular file.")
            descriptor = self.open(self.name, os.O_RDONLY)
        except FileNotFoundError as error:
            raise BadInput(f"{full} does not exist.", ErrorCode.NOT_FOUND) from error
        except PermissionError as error:
            raise BadInput(sentences(f"{full}: {error.strerror}"), ErrorCode.DENIED_BY_DEVICE) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _changed(full, error) from error
            raise BadInput(sentences(f"{full}: {error.strerror}")) from error
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            raise BadInput(f"{full} is not a regular file.")
        return descriptor, facts

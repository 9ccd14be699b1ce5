"""Reading, atomically writing and restoring files through a held folder. All of it blocks on the disk."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from core.device.held_paths import Folder, HeldPath
from core.device.undo import UndoStore
from core.errors import BadInput, DeviceError, ErrorCode

WriteMode = Literal["create", "overwrite", "append"]
# Without setuid and setgid: content that somebody writes must not run with the rights of the file's owner.
_PERMISSIONS = 0o777
# The ceiling of `Limits.max_argument_bytes`: no write adds more, however a device was configured then.
MOST_WRITTEN = 32 * 1024 * 1024
_CHUNK = 1024 * 1024


@contextlib.contextmanager
def told_as_failure(path: Path) -> Iterator[None]:
    """Turn the system's errors about `path` into ours."""
    try:
        yield
    except PermissionError as error:
        raise BadInput(f"{path}: {error.strerror}", ErrorCode.DENIED_BY_DEVICE) from error
    except OSError as error:
        raise DeviceError(f"{path}: {error.strerror or error}", ErrorCode.TOOL_FAILED) from error


def read(held: HeldPath, encoding: str, offset: int, most: int) -> dict[str, Any]:
    """Read at most `most` bytes from `offset` on.

    Raises:
        BadInput: missing, not a regular file, not readable, or not text where text is asked for.
    """
    with told_as_failure(held.path), held.folder() as folder:
        descriptor, facts = folder.open_file()
        with os.fdopen(descriptor, "rb") as file:
            file.seek(offset)
            data = file.read(most)
            truncated = bool(file.read(1))
    if encoding == "base64":
        content = base64.b64encode(data).decode("ascii")
    else:
        data, content = _as_text(data, truncated, held.path)
    return {
        "content": content,
        "size": max(facts.st_size, offset + len(data)),
        "sha256": hashlib.sha256(data).hexdigest(),
        "truncated": truncated,
    }


def _as_text(data: bytes, truncated: bool, path: Path) -> tuple[bytes, str]:
    try:
        return data, data.decode("utf-8")
    except UnicodeDecodeError as error:
        # A bound can fall inside a character; that character belongs to the next part.
        if truncated and error.reason == "unexpected end of data":
            whole = data[: error.start]
            return whole, whole.decode("utf-8")
        raise BadInput(
            f'{path} is not UTF-8 text at byte {error.start} of this part; read it with encoding "base64"'
        ) from error


def write(held: HeldPath, data: bytes, mode: WriteMode, undo: UndoStore) -> dict[str, Any]:
    """Write a file as one step that happens wholly or not at all, and keep the old content.

    Raises:
        BadInput: it exists and `mode` is create, or it is not a regular file.
        Refused: the old content is more than the device keeps for undo.
    """
    with told_as_failure(held.path), held.folder() as folder:
        facts = folder.stat(folder.name)
        if facts is not None and not stat.S_ISREG(facts.st_mode):
            raise BadInput(f"{held.path} is not a regular file")
        if facts is not None and mode == "create":
            raise BadInput(f"{held.path} exists; mode overwrite or append would change it")
        if facts is not None:
            undo.refuse_too_large(held.path, facts.st_size)
        old = None if facts is None else _content(folder, undo)
        new = (old or b"") + data if mode == "append" else data
        digest = hashlib.sha256(new).hexdigest()
        permissions = 0 if facts is None else facts.st_mode & _PERMISSIONS
        undo_id = undo.keep(held.path, old, permissions, digest)
        try:
            _put(folder, new, facts)
        except (OSError, BadInput):
            undo.forget(undo_id)
            raise
    return {"bytes_written": len(data), "sha256": digest, "undo": undo_id}


def restore(held: HeldPath, undo_id: str, undo: UndoStore) -> dict[str, Any]:
    """Undo one write; `held` is the path that its entry names, checked again.

    Raises:
        BadInput: the entry is gone, or the file is no longer what the write left.
    """
    entry, old = undo.claim(undo_id)
    try:
        with told_as_failure(held.path), held.folder() as folder:
            facts = folder.stat(folder.name)
            if facts is None or _digest(folder, entry.old_size + MOST_WRITTEN) != entry.new_sha256:
                raise _changed_since(held.path)
            if old is None:
                folder.unlink(folder.name)
                folder.sync()
            else:
                _put(folder, old, facts, entry.mode)
    except (OSError, BadInput, DeviceError):
        undo.give_back(undo_id)
        raise
    undo.forget(undo_id)
    return {"file_path": str(held.path), "existed": entry.existed, "sha256": entry.old_sha256}


def _content(folder: Folder, undo: UndoStore) -> bytes:
    descriptor, _ = folder.open_file()
    with os.fdopen(descriptor, "rb") as file:
        # Somebody may make it larger while it is read.
        data = file.read(undo.most_bytes + 1)
    undo.refuse_too_large(folder.path / folder.name, len(data))
    return data


def _digest(folder: Folder, most: int) -> str:
    """The digest of a file that the write left with at most `most` bytes, and that anyone may have changed.

    Raises:
        BadInput: it holds more, or comes to while it is read.
    """
    descriptor, facts = folder.open_file()
    with os.fdopen(descriptor, "rb") as file:
        if facts.st_size > most:
            raise _changed_since(folder.path / folder.name, f"it holds {facts.st_size} bytes")
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            # A sparse file grows by terabytes at once, and reading those takes hours.
            if file.tell() > most:
                raise _changed_since(folder.path / folder.name, f"it holds more than {most} bytes")
            digest.update(chunk)
    return digest.hexdigest()


def _changed_since(path: Path, how: str = "") -> BadInput:
    shown = f": {how}" if how else ""
    return BadInput(
        f"{path} has changed since{shown}; restoring would lose that change", ErrorCode.CONTRACT_CHANGED
    )


def _put(folder: Folder, data: bytes, before: os.stat_result | None, mode: int | None = None) -> None:
    """Write beside, make durable, then rename; a file that was there keeps its permissions and owner."""
    temporary = f".{folder.name[:100]}.{secrets.token_hex(6)}.tmp"
    # For a new file the kernel applies the umask; an old file's mode is set before anyone can open it.
    descriptor = folder.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None and hasattr(os, "fchmod"):
                _keep_owner(file.fileno(), before)
                # What is kept for undo may come from a client that kept more of the mode.
                os.fchmod(file.fileno(), (before.st_mode if mode is None else mode) & _PERMISSIONS)
            file.flush()
            os.fsync(file.fileno())
        _unchanged(folder, before)
        if before is None:
            _name_new(folder, temporary)
        else:
            folder.replace(temporary, folder.name)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            folder.unlink(temporary)
        raise
    folder.sync()


def _keep_owner(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, before.st_uid, before.st_gid)


def _unchanged(folder: Folder, before: os.stat_result | None) -> None:
    """Refuse when somebody else wrote in the meantime: what is kept for undo would not be what is lost."""
    now = folder.stat(folder.name)
    if now is None and before is None:
        return
    if now is None or before is None or (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
        raise BadInput(f"{folder.path / folder.name} was changed by another program just now")


def _name_new(folder: Folder, temporary: str) -> None:
    """Give a new file its name without ever replacing one that appeared meanwhile."""
    try:
        folder.link(temporary, folder.name)
    except FileExistsError as error:
        raise BadInput(f"{folder.path / folder.name} was made by another program just now") from error
    except OSError:
        # This file system has no hard links; the check just before has to do.
        folder.replace(temporary, folder.name)
        return
    folder.unlink(temporary)

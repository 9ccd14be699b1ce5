"""Reading, atomically writing and restoring files through a held folder. All of it blocks on the disk.

What a file has beside its content and mode, carried over to the file that takes its place.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from core.device.fs.safe_path import Folder, HeldPath
from core.device.guard import result_size
from core.device.tool import FailedWithResult
from core.device.undo import UndoStore, temporary_name
from core.errors import BadInput, DeviceError, ErrorCode
from core.text_encodings import decoded

_ACL = "system.posix_acl_access"
# A label that cannot be set is the system's to give; a list of who may do what must not get lost.
_LABELS = {"security.selinux", "security.SMACK64"}
_LISTS = {_ACL, "system.nfs4_acl"}


def keep_owner(descriptor: int, before: os.stat_result) -> bool:
    """Give the new file the old one's owner and group, as far as this user may; False: not its group."""
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) == (before.st_uid, before.st_gid):
        return True
    for owner in (before.st_uid, -1):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, owner, before.st_gid)
            return True
    return now.st_gid == before.st_gid


if sys.platform == "linux":

    def keep_attributes(old: int, new: int) -> None:
        """Give the new file the old one's access control list, labels and notes, and none of its folder's.

        Not its capabilities, nor hashes of its content: those were the old content's.

        Raises:
            OSError: an access control list or a note cannot be carried over.
        """
        try:
            had = set(os.listxattr(old))
        except OSError:
            # This file system knows of none.
            return
        for name in had:
            if name in _LABELS:
                with contextlib.suppress(OSError):
                    os.setxattr(new, name, os.getxattr(old, name))
            elif name in _LISTS or name.startswith("user."):
                os.setxattr(new, name, os.getxattr(old, name))
        if _ACL not in had and _ACL in os.listxattr(new):
            # Its folder gave it one, by which more may come in than the old file let.
            os.removexattr(new, _ACL)

else:

    def keep_attributes(old: int, new: int) -> None:
        """Nothing: here the standard library has no word for them."""


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
        if error.errno == errno.ENAMETOOLONG:
            raise BadInput(f"{path}: {error.strerror}") from error
        raise DeviceError(f"{path}: {error.strerror or error}", ErrorCode.TOOL_FAILED) from error


def read(held: HeldPath, encoding: str, offset: int, most: int, room: int) -> dict[str, Any]:
    """Read at most `most` bytes from `offset` on, and no more than `room` bytes of JSON can say.

    Raises:
        BadInput: missing, not a regular file, not readable, or not text in the encoding that is asked for.
    """
    # Base64 makes four bytes of three.
    most = min(most, room // 4 * 3 if encoding == "base64" else room)
    with told_as_failure(held.path), held.folder() as folder:
        descriptor, facts = folder.open_file()
        with os.fdopen(descriptor, "rb") as file:
            # None: a kernel's own file that has nothing to say just now.
            data = (file.read(most) if _seek(file, offset) else b"") or b""
            truncated = bool(data and file.read(1))
    if encoding == "base64":
        content = base64.b64encode(data).decode("ascii")
    else:
        name = str(held.path)
        content, used = decoded(data, encoding, offset, cut=truncated, name=name)
        # In JSON a control character takes six bytes, and a character of one byte up to three.
        while result_size(content) > room:
            used, truncated = used // 2, True
            content, used = decoded(data[:used], encoding, offset, cut=True, name=name)
        data = data[:used]
    return {
        "content": content,
        # A file may grow while it is read, and those of /proc say 0.
        "size": max(facts.st_size, offset + len(data) if data else 0),
        "sha256": hashlib.sha256(data).hexdigest(),
        "truncated": truncated,
    }


def _seek(file: BinaryIO, offset: int) -> bool:
    """Go to `offset`; False where no file of this file system reaches that far."""
    try:
        file.seek(offset)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.EOVERFLOW}:
            return False
        raise
    return True


def write(held: HeldPath, data: bytes, mode: WriteMode, undo: UndoStore) -> dict[str, Any]:
    """Write a file as one step that happens wholly or not at all, and keep the old content.

    Raises:
        BadInput: it exists and `mode` is create, is not a regular file, or may not be written.
        Refused: the old content is more than the device keeps for undo.
        FailedWithResult: it was written, but may not outlive a power cut.
    """
    with told_as_failure(held.path), held.folder() as folder:
        facts = folder.stat(folder.name)
        if facts is not None and not stat.S_ISREG(facts.st_mode):
            raise BadInput(f"{held.path} is not a regular file")
        if facts is not None and mode == "create":
            raise BadInput(f"{held.path} exists; mode overwrite or append would change it")
        if facts is not None:
            undo.refuse_too_large(held.path, facts.st_size)
            _refuse_read_only(folder)
        old = None if facts is None else _content(folder, undo)
        # Not joined: what is kept for undo may be half of this device's memory.
        new = (old, data) if mode == "append" and old else (data,)
        digest = _sha256(new)
        permissions = 0 if facts is None else facts.st_mode & _PERMISSIONS
        undo_id = undo.keep(held.path, old, permissions, digest)
        try:
            _put(folder, new, facts, temporary_name(undo_id))
        except BaseException:
            undo.forget(undo_id)
            raise
        done = {"bytes_written": len(data), "sha256": digest, "undo": undo_id}
        _make_durable(folder, done)
    return done


def _refuse_read_only(folder: Folder) -> None:
    """Renaming asks nobody but the folder; a file that is read-only, or another's, says no all the same."""
    if not folder.may_write(folder.name):
        raise BadInput(f"{folder.path / folder.name} is read-only for this user", ErrorCode.DENIED_BY_DEVICE)


def _make_durable(folder: Folder, done: dict[str, Any]) -> None:
    try:
        folder.sync()
    except OSError as error:
        # It did happen, and can be undone: neither must be lost with the bad news.
        raise FailedWithResult(
            f"{folder.path / folder.name} was changed, but may not outlive a power cut: {error.strerror}",
            ErrorCode.PARTIAL_FAILURE,
            done,
        ) from error


def restore(held: HeldPath, undo_id: str, undo: UndoStore) -> dict[str, Any]:
    """Undo one write; `held` is the path that its entry names, checked again.

    Raises:
        BadInput: the entry is gone, or the file is no longer what the write left.
        FailedWithResult: it was undone, but that may not outlive a power cut.
    """
    entry, old = undo.claim(undo_id)
    done = {"file_path": str(held.path), "existed": entry.existed, "sha256": entry.old_sha256}
    with told_as_failure(held.path):
        try:
            with held.folder() as folder:
                facts = folder.stat(folder.name)
                if facts is None or _digest(folder, entry.old_size + MOST_WRITTEN) != entry.new_sha256:
                    raise _changed_since(held.path)
                if old is None:
                    _unchanged(folder, facts)
                    folder.unlink(folder.name)
                else:
                    _refuse_read_only(folder)
                    _put(folder, (old,), facts, temporary_name(undo_id), entry.mode)
                undo.forget(undo_id)
                _make_durable(folder, done)
        except FailedWithResult:
            raise
        except BaseException:
            undo.give_back(undo_id)
            raise
    return done


def _content(folder: Folder, undo: UndoStore) -> bytes:
    descriptor, facts = folder.open_file()
    with os.fdopen(descriptor, "rb") as file:
        # Python takes at once as much memory as it is told to read; most files hold what they say they do.
        parts = [file.read(min(facts.st_size, undo.most_bytes) + 1)]
        size = len(parts[0])
        # Somebody may make it larger while it is read.
        while parts[-1] and size <= undo.most_bytes:
            parts.append(file.read(_CHUNK))
            size += len(parts[-1])
    undo.refuse_too_large(folder.path / folder.name, size)
    return b"".join(parts) if len(parts) > 2 else parts[0]


def _sha256(parts: tuple[bytes, ...]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


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


def _put(
    folder: Folder,
    data: tuple[bytes, ...],
    before: os.stat_result | None,
    temporary: str,
    mode: int | None = None,
) -> None:
    """Write beside, make durable, then rename; a file that was there keeps what it had beside its content.

    Either all of it happened, or an error is raised and nothing did. The folder's `sync` makes it durable.
    """
    # For a new file the kernel applies the umask; an old file's mode is set before anyone can open it.
    descriptor = folder.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(data)
            if before is not None and hasattr(os, "fchmod"):
                # What is kept for undo may come from a client that kept more of the mode.
                wanted = (before.st_mode if mode is None else mode) & _PERMISSIONS
                _keep_all_but_content(folder, file.fileno(), before, wanted)
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


def _keep_all_but_content(folder: Folder, descriptor: int, before: os.stat_result, mode: int) -> None:
    if not keep_owner(descriptor, before):
        # Another group must not be let in by what was meant for the old one.
        mode &= ~0o070 | (mode & 0o007) << 3
    old, _ = folder.open_file()
    try:
        keep_attributes(old, descriptor)
    finally:
        os.close(old)
    if os.fstat(descriptor).st_mode & 0o7777 != mode:
        os.fchmod(descriptor, mode)


def _unchanged(folder: Folder, before: os.stat_result | None) -> None:
    """Refuse when somebody else wrote in the meantime: what is kept for undo would not be what is lost."""
    now = folder.stat(folder.name)
    if now is None and before is None:
        return
    if now is None or before is None or _version(now) != _version(before):
        raise BadInput(f"{folder.path / folder.name} was changed by another program just now")


def _version(facts: os.stat_result) -> tuple[int, ...]:
    # Whoever sets the time of change back cannot set this one: on Windows it is when the file was made.
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


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
    with contextlib.suppress(OSError):
        folder.unlink(temporary)

"""Reads, atomically writes and restores files through an open folder. All functions block on the disk.

A write replaces the file and copies the old file's owner, access control list and attributes to the new one.
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

from core.device.fs.safe_path import DirHandle, SafePath
from core.device.guard import result_size
from core.device.tool import FailedWithResult
from core.device.undo import UndoStore, temporary_name
from core.errors import BadInput, DeviceError, ErrorCode
from core.text import sentences
from core.text_encodings import decoded

_ACL = "system.posix_acl_access"
# Labels may fail to be copied: the system sets its own. An access control list must not be lost.
_LABELS = {"security.selinux", "security.SMACK64"}
_LISTS = {_ACL, "system.nfs4_acl"}


if sys.platform != "win32":

    def keep_owner(descriptor: int, before: os.stat_result) -> bool:
        """Give the new file the old owner and group, as far as this user may; False if the group differs."""
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
        """Copy the access control list, security labels and `user.` attributes of the old file to the new.

        A list that the new file inherited from its folder is removed. Capabilities and hashes of the content
        are not copied, since they belong to the old content.

        Raises:
            OSError: an access control list or a `user.` attribute cannot be copied.
        """
        try:
            had = set(os.listxattr(old))
        except OSError:
            # This file system has no extended attributes.
            return
        for name in had:
            if name in _LABELS:
                with contextlib.suppress(OSError):
                    os.setxattr(new, name, os.getxattr(old, name))
            elif name in _LISTS or name.startswith("user."):
                os.setxattr(new, name, os.getxattr(old, name))
        if _ACL not in had and _ACL in os.listxattr(new):
            # Inherited from the folder: it may grant more access than the old file did.
            os.removexattr(new, _ACL)

else:

    def keep_attributes(old: int, new: int) -> None:
        """Does nothing: the standard library has no extended attributes on this platform."""


WriteMode = Literal["create", "overwrite", "append"]
# Without setuid and setgid: content that a console writes must not run with the rights of the file's owner.
_PERMISSIONS = 0o777
# The upper bound of `Limits.max_argument_bytes`: no write adds more, under any configuration.
MOST_WRITTEN = 32 * 1024 * 1024
_CHUNK = 1024 * 1024


@contextlib.contextmanager
def told_as_failure(path: Path) -> Iterator[None]:
    """Convert OSErrors about `path` to `BadInput` or `DeviceError`."""
    try:
        yield
    except PermissionError as error:
        raise BadInput(sentences(f"{path}: {error.strerror}"), ErrorCode.DENIED_BY_DEVICE) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise BadInput(sentences(f"{path}: {error.strerror}")) from error
        raise DeviceError(sentences(f"{path}: {error.strerror or error}"), ErrorCode.TOOL_FAILED) from error


def read(held: SafePath, encoding: str, offset: int, most: int, room: int) -> dict[str, Any]:
    """Read at most `most` bytes from `offset` on, and no more than fit into `room` bytes of JSON.

    Raises:
        BadInput: the file is missing, not a regular file, not readable, or not text in the given encoding.
    """
    # Base64 encodes three bytes as four.
    most = min(most, room // 4 * 3 if encoding == "base64" else room)
    with told_as_failure(held.path), held.folder() as folder:
        descriptor, facts = folder.open_file()
        with os.fdopen(descriptor, "rb") as file:
            # `read` returns None for a file of the kernel (/proc, /sys) that has no data now.
            data = (file.read(most) if _seek(file, offset) else b"") or b""
            truncated = bool(data and file.read(1))
    if encoding == "base64":
        content = base64.b64encode(data).decode("ascii")
    else:
        name = str(held.path)
        content, used = decoded(data, encoding, offset, cut=truncated, name=name)
        # JSON may be longer than the data: a control character takes six bytes, and a character that is one
        # byte in the file's encoding up to three.
        while result_size(content) > room:
            used, truncated = used // 2, True
            content, used = decoded(data[:used], encoding, offset, cut=True, name=name)
        data = data[:used]
    return {
        "content": content,
        # A file may grow while it is read, and the size of files in /proc is 0.
        "size": max(facts.st_size, offset + len(data) if data else 0),
        "sha256": hashlib.sha256(data).hexdigest(),
        "truncated": truncated,
    }


def _seek(file: BinaryIO, offset: int) -> bool:
    """Seek to `offset`; False where it is beyond the largest file of this file system."""
    try:
        file.seek(offset)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.EOVERFLOW}:
            return False
        raise
    return True


def write(held: SafePath, data: bytes, mode: WriteMode, undo: UndoStore) -> dict[str, Any]:
    """Write a file atomically (wholly or not at all) and keep the old content for undo.

    Raises:
        BadInput: the file exists and `mode` is create, is not a regular file, or may not be written.
        Refused: the old content is larger than the device keeps for undo.
        FailedWithResult: the file was written, but the change may be lost in a power failure.
    """
    with told_as_failure(held.path), held.folder() as folder:
        facts = folder.stat(folder.name)
        if facts is not None and not stat.S_ISREG(facts.st_mode):
            raise BadInput(f"{held.path} is not a regular file.")
        if facts is not None and mode == "create":
            raise BadInput(f"{held.path} exists; mode overwrite or append would change it.")
        if facts is not None:
            undo.refuse_too_large(held.path, facts.st_size)
            _refuse_read_only(folder)
        old = None if facts is None else _content(folder, undo)
        # Not joined into one bytes object: the old content may take half of this machine's memory.
        new = (old, data) if mode == "append" and old else (data,)
        digest = _sha256(new)
        permissions = 0 if facts is None else facts.st_mode & _PERMISSIONS
        undo_id = undo.keep(held.path, old, permissions, digest)
        try:
            _put(folder, new, facts, temporary_name(undo_id))
        except BaseException:
            undo.forget(undo_id)
            raise
        done = {"bytes_written": len(data), "sha256": digest, "undo": undo_id, **_other_names(facts)}
        _make_durable(folder, done)
    return done


def _other_names(facts: os.stat_result | None) -> dict[str, str]:
    """The note about a file with hard links: replacing it gives only the written name the new content.

    Writing in place would reach them, but a crash could leave half of the content.
    """
    others = 0 if facts is None else facts.st_nlink - 1
    if others < 1:
        return {}
    names = "1 other name, which keeps" if others == 1 else f"{others} other names, which keep"
    return {"note": f"The file had {names} the content from before"}


def _refuse_read_only(folder: DirHandle) -> None:
    """Refuse to replace a file that this user may not write: renaming checks only the folder's rights."""
    if not folder.may_write(folder.name):
        raise BadInput(f"{folder.path / folder.name} is read-only for this user.", ErrorCode.DENIED_BY_DEVICE)


def _make_durable(folder: DirHandle, done: dict[str, Any]) -> None:
    try:
        folder.sync()
    except OSError as error:
        # The change has been made and can be undone: the error must carry the result with its undo id.
        raise FailedWithResult(
            sentences(
                f"{folder.path / folder.name} was changed, but may not outlive a power cut: {error.strerror}"
            ),
            ErrorCode.PARTIAL_FAILURE,
            done,
        ) from error


def restore(held: SafePath, undo_id: str, undo: UndoStore) -> dict[str, Any]:
    """Undo one write; `held` is the path in its entry, checked again.

    Raises:
        BadInput: the entry does not exist any more, or the file has changed since the write.
        FailedWithResult: the write was undone, but this may be lost in a power failure.
    """
    entry, old = undo.claim(undo_id)
    done = {"file_path": str(held.path), "existed": entry.existed, "sha256": entry.old_sha256}
    with told_as_failure(held.path):
        try:
            with held.folder() as folder:
                facts = folder.stat(folder.name)
                done |= _other_names(facts)
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


def _content(folder: DirHandle, undo: UndoStore) -> bytes:
    descriptor, facts = folder.open_file()
    with os.fdopen(descriptor, "rb") as file:
        # Python allocates the full size of a `read` at once, so no more is asked for than the file's size.
        parts = [file.read(min(facts.st_size, undo.most_bytes) + 1)]
        size = len(parts[0])
        # Another program may make the file larger while it is read.
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


def _digest(folder: DirHandle, most: int) -> str:
    """The digest of a file that had at most `most` bytes after the write; other programs may have changed it.

    Raises:
        BadInput: it has more bytes, or grows beyond them while it is read.
    """
    descriptor, facts = folder.open_file()
    with os.fdopen(descriptor, "rb") as file:
        if facts.st_size > most:
            raise _changed_since(folder.path / folder.name, f"it holds {facts.st_size} bytes")
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            # A sparse file can grow by terabytes at once, which would take hours to read.
            if file.tell() > most:
                raise _changed_since(folder.path / folder.name, f"it holds more than {most} bytes")
            digest.update(chunk)
    return digest.hexdigest()


def _changed_since(path: Path, how: str = "") -> BadInput:
    shown = f": {how}" if how else ""
    return BadInput(
        f"{path} has changed since{shown}; restoring would lose that change.", ErrorCode.CHANGED_SINCE
    )


def _put(
    folder: DirHandle,
    data: tuple[bytes, ...],
    before: os.stat_result | None,
    temporary: str,
    mode: int | None = None,
) -> None:
    """Write a temporary file, fsync it, then rename it; an old file's owner, mode and attributes stay.

    If an error is raised, nothing has changed. The folder's `sync` makes the rename durable.
    """
    # For a new file the kernel applies the umask. A replacement is opened with 0600, and gets its mode before
    # it gets its name.
    descriptor = folder.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(data)
            if before is not None and sys.platform != "win32":
                # The entry may come from a client version that kept more bits of the mode.
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


if sys.platform != "win32":

    def _keep_all_but_content(folder: DirHandle, descriptor: int, before: os.stat_result, mode: int) -> None:
        if not keep_owner(descriptor, before):
            # The group differs: its members get only what the permissions give to others.
            mode &= ~0o070 | (mode & 0o007) << 3
        old, _ = folder.open_file()
        try:
            keep_attributes(old, descriptor)
        finally:
            os.close(old)
        if os.fstat(descriptor).st_mode & 0o7777 != mode:
            os.fchmod(descriptor, mode)


def _unchanged(folder: DirHandle, before: os.stat_result | None) -> None:
    """Refuse when another program wrote in the meantime: undo would not have the content that is lost."""
    now = folder.stat(folder.name)
    if now is None and before is None:
        return
    if now is None or before is None or _version(now) != _version(before):
        raise BadInput(f"{folder.path / folder.name} was changed by another program just now.")


def _version(facts: os.stat_result) -> tuple[int, ...]:
    # A program can set st_mtime back, but not st_ctime (inode change time; on Windows, creation time).
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _name_new(folder: DirHandle, temporary: str) -> None:
    """Give a new file its name without replacing a file that appeared meanwhile."""
    try:
        folder.link(temporary, folder.name)
    except FileExistsError as error:
        raise BadInput(f"{folder.path / folder.name} was made by another program just now.") from error
    except OSError:
        # This file system has no hard links: only the check just before protects a file made meanwhile.
        folder.replace(temporary, folder.name)
        return
    with contextlib.suppress(OSError):
        folder.unlink(temporary)

"""Reading a backup: nothing of it is used before its description is authenticated by the passphrase.

`unpack` then reads exactly the files that are listed, and compares each with its digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from core.canonical_json import sha256_hex
from core.errors import BadInput
from core.service.backup import sealing
from core.service.backup.archive import (
    END,
    Damaged,
    Member,
    Source,
    padding,
    read_content,
    read_member,
)
from core.service.backup.description import (
    DESCRIPTION,
    HOME,
    MAC,
    SECRETS,
    SUMS,
    read_description,
    read_sums,
)
from core.service.backup.models import BackupKey
from core.service.backup.progress import Progress
from core.service.backup.sealing import SealReader
from core.text import clause

# What may be read before anything is authenticated.
_LARGEST_DESCRIPTION = 64 * 1024
_MAC_BYTES = 65

Put = Callable[[str, Iterator[bytes]], None]
"""Takes a file of the home: its name, and its content in pieces, all of which it reads."""


class BackupFile:
    """An open backup, of which only the description was read; nothing is authenticated yet."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            BadInput: it cannot be read, or is no backup that this version reads.
        """
        self.path = path
        try:
            # Opening a FIFO would wait for its other end.
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            os.close(handle)
            raise BadInput(f"{path} is not a backup: it is not a regular file.")
        self._file = open(handle, "rb")  # noqa: SIM115  # closed by `close`
        try:
            self.size = seen.st_size
            with self.faults("is not a backup that can be read"):
                self._time: int | None = None
                self._bytes = self._read(DESCRIPTION, _LARGEST_DESCRIPTION)
                self.description = read_description(self._bytes)
                self._mac = self._read(MAC, _MAC_BYTES)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def faults(self, what: str) -> Iterator[None]:
        """Name the file in the error about it.

        Raises:
            BadInput: the file is damaged, or cannot be read.
        """
        try:
            yield
        except Damaged as error:
            raise BadInput(
                f"{self.path} {what}: {clause(error.message)}. Nothing was restored; take another backup."
            ) from error

    @property
    def source(self) -> Source:
        """Where the rest of the archive is read from."""
        return self._file

    def unlock(self, key: BackupKey) -> list[tuple[str, str]]:
        """Authenticate the description; returns the names of all files, and their digests.

        Raises:
            BadInput: it is another passphrase's key, or the file was changed.
        """
        if not hmac.compare_digest(sealing.mac(key, self._bytes).encode() + b"\n", self._mac):
            raise BadInput(
                f"{self.path} does not open: the passphrase is wrong, or the file was changed."
                " Nothing was restored."
            )
        with self.faults("was changed"):
            if self._time != int(datetime.fromisoformat(self.description.made_at).timestamp()):
                raise Damaged("Its files have the time of another backup.")
            sums = self._read(SUMS, self.size)
            if sha256_hex(sums) != self.description.sums:
                raise Damaged("Its list of files is another.")
            expected = self._file.tell() + self.description.size + len(END)
            if self.size != expected:
                raise Damaged(f"It has {self.size:,} bytes, and had {expected:,}.")
            return read_sums(sums)

    def next_member(self) -> Member | None:
        """The next file of the archive; None at its end.

        Raises:
            Damaged: it is not one, or has another time than those before it.
        """
        member = read_member(self._file)
        if self._time is None and member is not None:
            self._time = member.time
        if member is not None and member.time != self._time:
            raise Damaged("Its files have different times.")
        return member

    def _read(self, name: str, most: int) -> bytes:
        member = self.next_member()
        if member is None or member.name != name or member.size > most:
            raise Damaged(f"It has no {name} at its place.")
        return b"".join(read_content(self._file, member.size))


def unpack(
    backup: BackupFile, sums: list[tuple[str, str]], key: BackupKey, put: Put, progress: Progress
) -> None:
    """Give `put` exactly the files that are listed; `sums` is what `BackupFile.unlock` returned.

    Raises:
        Damaged: a file is not the one that was backed up, or there is one more or less. What was given to
            `put` is not to be used then.
    """
    found = _Found(put, progress)
    for name, digest in sums:
        member = backup.next_member()
        if member is None or member.name != name:
            raise Damaged(f"{name!r:.200} is not at its place.")
        if name == SECRETS:
            reader = SealReader(backup.source, member.size, key)
            while (secret := read_member(reader)) is not None:
                found.take(reader, secret.name, secret.size)
            got = reader.digest.hexdigest()
            if backup.source.read(len(padding(member.size))) != padding(member.size):
                raise Damaged("There is something between its files.")
        elif name.startswith(HOME):
            got = found.take(backup.source, name.removeprefix(HOME), member.size)
        else:
            raise Damaged(f"It has a file {name!r:.200}, which belongs to no home.")
        if got != digest:
            raise Damaged(f"{name!r:.200} does not have its digest.")
    if backup.next_member() is not None:
        raise Damaged("It has more files than it lists.")
    if len(found.files) != backup.description.files:
        raise Damaged(f"It has {len(found.files):,} files, and had {backup.description.files:,}.")


class _Found:
    """The files that were found, each once."""

    def __init__(self, put: Put, progress: Progress) -> None:
        self.files: set[str] = set()
        self._folders: set[str] = set()
        self._put = put
        self._progress = progress

    def take(self, source: Source, name: str, size: int) -> str:
        """Give a file on; returns its digest."""
        parts = name.split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if name in self.files:
            raise Damaged(f"It has {name!r:.200} twice.")
        if name in self._folders or above & self.files:
            raise Damaged(f"It has a part of {name!r:.200} twice: as a file and as a folder.")
        self.files.add(name)
        self._folders |= above
        digest = hashlib.sha256()

        def content() -> Iterator[bytes]:
            for data in read_content(source, size):
                digest.update(data)
                self._progress.step(len(data))
                yield data

        self._put(name, content())
        return digest.hexdigest()

"""Stores blobs (large values) as files named by their SHA-256, in `blobs/ab/<sha256>`.

Blobs are written atomically (temporary file, fsync, rename), and their hash is checked at every read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from core.canonical_json import sha256_hex
from core.errors import BadInput, ErrorCode, JournalCorrupt, JournalUnavailable
from core.files import sync_folder, write_atomic

_NAME = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """The blobs of one journal. Every method blocks: call it in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path_of(self, sha: str) -> Path:
        """The path of a blob.

        Raises:
            BadInput: `sha` is not a SHA-256 in lower-case hexadecimal.
        """
        if not _NAME.fullmatch(sha):
            raise BadInput(f"{sha!r} is not the name of a blob; expected 64 lower-case hexadecimal digits.")
        return self.folder / sha[:2] / sha

    def put(self, data: bytes) -> str:
        """Store bytes durably; returns their SHA-256. The same bytes are stored only once.

        Raises:
            JournalUnavailable: the bytes could not be written.
        """
        sha = sha256_hex(data)
        path = self.path_of(sha)
        try:
            # A blob that was changed on the disk is written again: the next entry names the original bytes.
            if path.exists() and path.read_bytes() == data:
                return sha
            new_folder = not path.parent.exists()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(path, data)
            if new_folder:
                sync_folder(self.folder)
                sync_folder(self.folder.parent)
        except OSError as error:
            raise JournalUnavailable(
                f"A blob of {len(data):,} bytes cannot be stored in {self.folder}: {error.strerror}."
                " Check disk space and permissions."
            ) from error
        return sha

    def get(self, sha: str) -> bytes:
        """Read a blob.

        Raises:
            BadInput: there is no such blob (code `not_found`), or `sha` is not a valid name.
            JournalCorrupt: the bytes do not have this hash.
            JournalUnavailable: the file cannot be read.
        """
        path = self.path_of(sha)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise BadInput(f"There is no blob {sha}.", ErrorCode.NOT_FOUND) from None
        except OSError as error:
            raise JournalUnavailable(f"The blob {path} cannot be read: {error.strerror}.") from error
        if sha256_hex(data) != sha:
            raise JournalCorrupt(f"The blob {path} was changed: it does not have the hash it is named by.")
        return data

    def problem_with(self, sha: str) -> str | None:
        """Describe what is wrong with a blob; None if it is intact."""
        try:
            self.get(sha)
        except (BadInput, JournalCorrupt, JournalUnavailable) as error:
            return error.message
        return None

    def names(self) -> Iterator[str]:
        """The names of all stored blobs."""
        try:
            folders = sorted(entry.path for entry in os.scandir(self.folder) if entry.is_dir())
        except FileNotFoundError:
            return
        for folder in folders:
            yield from sorted(entry.name for entry in os.scandir(folder) if _NAME.fullmatch(entry.name))

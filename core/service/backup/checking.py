"""Checking a backup: everything that restoring checks, without making a home.

The journal and its blobs, which are in clear in the backup, are unpacked into a temporary folder and verified
there. The secrets are decrypted and compared with what was sealed, and never written.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit import journal_copy
from core.audit.checkpoint import public_pem, read_journal_key
from core.audit.journal import BLOBS
from core.audit.spool import SpoolKey
from core.audit.store import DATABASE
from core.audit.verify import verify_folder
from core.errors import BadInput, JournalCorrupt
from core.service.backup.description import JOURNAL_KEY, PUBLIC_KEY, Description
from core.service.backup.models import BackupKey
from core.service.backup.progress import Progress, Tell
from core.service.backup.reading import BackupFile, unpack
from core.text import clause


def check(backup: BackupFile, key: BackupKey, tell: Tell, stop: threading.Event) -> Description:
    """Check that a home can be made of a backup; returns what the backup is. Blocks.

    `tell` gets the bytes that are done and those in total. Setting `stop` ends it; nothing is left then.

    Raises:
        BadInput: the passphrase is wrong, the backup was changed, or there is no room for its journal.
        JournalError: the journal in the backup does not verify.
    """
    sums = backup.unlock(key)
    progress = Progress(tell, stop)
    progress.total = backup.size
    try:
        with tempfile.TemporaryDirectory(prefix="quarterdeck-check-") as name:
            folder = Path(name)
            if shutil.disk_usage(folder).free < backup.size:
                raise BadInput(
                    f"There is too little room in {folder.parent} to check the backup: it takes up to"
                    f" {backup.size:,} bytes; name another folder with TMPDIR."
                )
            parts = _Parts(folder)
            with backup.faults("was changed"):
                unpack(backup, sums, key, parts.put, progress)
            journal = journal_key(folder / JOURNAL_KEY, parts.key)
            if parts.public not in (None, public_pem(journal.public_key())):
                raise JournalCorrupt("The public key in the backup is not that of the journal; take another.")
            check_journal(folder, journal, backup.description, progress)
    except OSError as error:
        raise BadInput(
            f"{backup.path} cannot be checked: {error.strerror or error}. Nothing was restored."
        ) from error
    return backup.description


class _Parts:
    """Keeps the journal in a folder and its key in memory, and drops the rest."""

    def __init__(self, folder: Path) -> None:
        self.key: bytes | None = None
        self.public: bytes | None = None
        self._folder = folder

    def put(self, name: str, content: Iterator[bytes]) -> None:
        """Take a file; its name is safe (`read_member`)."""
        if name == JOURNAL_KEY:
            self.key = b"".join(content)
        elif name == PUBLIC_KEY:
            self.public = b"".join(content)
        # A log beside the database would be a part of it.
        elif name in journal_copy.FILES or name.startswith(DATABASE) or name.startswith(f"{BLOBS}/"):
            path = self._folder.joinpath(*name.split("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.writelines(content)
        else:
            for _ in content:
                pass


def journal_key(path: Path, data: bytes | None) -> Ed25519PrivateKey:
    """The journal's key in a backup, whose place in a home is `path`.

    Raises:
        BadInput: there is none.
        JournalCorrupt: it is not a key.
    """
    if data is None:
        raise BadInput("The backup has no key of the journal; take another one.")
    return read_journal_key(path, data)


def check_journal(folder: Path, key: Ed25519PrivateKey, description: Description, progress: Progress) -> None:
    """Check that the unpacked journal verifies, and is the one that was backed up.

    Raises:
        JournalCorrupt: it is not.
        BadInput: it was stopped (code `cancelled`).
    """
    if key.public_key().public_bytes_raw().hex() != description.home_key:
        raise JournalCorrupt("The key of the journal in the backup is another home's; take another backup.")
    report = verify_folder(folder, key.public_key(), stop=progress.stop, spool_key=SpoolKey(key))
    progress.check()
    if not report.ok:
        raise JournalCorrupt(f"The journal in the backup does not verify: {clause(report.problem)}.")
    if (report.entries, report.checkpoint) != (description.entries, description.checkpoint):
        raise JournalCorrupt("The journal in the backup is not the one that was backed up.")

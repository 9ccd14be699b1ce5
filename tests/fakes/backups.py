"""Backups of a small home, and forged ones: whole and authentic, with something in them that has no place."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from core.approvals.operator_keys import create_operator_key
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.canonical_json import sha256_hex
from core.home import Home
from core.service.backup import sealing
from core.service.backup.archive import END, Member, header, padding
from core.service.backup.description import DESCRIPTION, HOME, MAC, SECRETS, SUMS, Description, sum_line
from core.service.backup.making import back_up
from core.service.backup.models import BackupKey, BackupMade
from core.service.backup.reading import BackupFile
from core.service.backup.restoring import Restored, restore
from core.service.backup.sealing import SealWriter

# Derived of no passphrase, which takes half a second.
KEY = BackupKey(salt="5a" * 32, key="c3" * 32)
OTHER_KEY = BackupKey(salt="5a" * 32, key="c4" * 32)
PASSPHRASE = "correct horse battery"
MADE_AT = "2026-11-28T12:00:00.000000Z"
TIME = int(datetime.fromisoformat(MADE_AT).timestamp())
# A text that stands in what a device keeps and in nothing else.
OLD_CONTENT = b"the password was hunter2-hunter2"
LONG_NAME = "ü" * 90
HeaderOf = Callable[[Member], bytes]


def entry(number: int, blobs: list[str] | None = None) -> NewEntry:
    return NewEntry(
        kind=Kind.RESULT_RECORDED, actor="cli:anna", body={"text": f"line {number}"}, blobs=blobs or []
    )


async def open_journal(home: Home) -> Journal:
    key = load_or_create_journal_key(home.keys / "journal.key")
    return await Journal.open(home.path, key, "quarterdeck")


async def small_home(path: Path, entries: int = 5) -> Home:
    """A home with a file of each kind, and no service."""
    home = Home(path).create()
    journal = await open_journal(home)
    blob = await journal.put_blob(b"picture")
    await journal.put_blob(b"a picture that no entry names")
    await journal.append_many([entry(number, [blob]) for number in range(entries)])
    await journal.close()
    create_operator_key(home, "anna", None)
    home.policy.write_text('profile = "guarded"\n')
    (home.batches / f"{LONG_NAME}.yaml").write_text("name: long\n")
    (home.keys / "masking.salt").write_bytes(bytes(range(32)))
    (home.device_state / "undo").mkdir(mode=0o700)
    (home.device_state / "undo" / "u1.old").write_bytes(OLD_CONTENT)
    return home


async def made(home: Home, target: Path, key: BackupKey = KEY) -> BackupMade:
    """A backup of a home that no service owns."""
    journal = await open_journal(home)
    try:
        return await back_up(home, journal, str(target), key, lambda done, total: None)
    finally:
        await journal.close()


def restored(file: Path, home: Home, key: BackupKey = KEY) -> Restored:
    with BackupFile(file) as backup:
        return restore(home, backup, key, "cli:anna", lambda done, total: None, threading.Event())


def forged(
    path: Path,
    plain: Mapping[str, bytes],
    secret: Mapping[str, bytes],
    header_of: HeaderOf = header,
    more: Mapping[str, object] | None = None,
) -> None:
    """Write an authentic backup with just these files; `header_of` may write a header of another form."""

    def archived(name: str, data: bytes) -> bytes:
        return header_of(Member(name, len(data), TIME)) + data + padding(len(data))

    sealed = io.BytesIO()
    writer = SealWriter(sealed, KEY)
    for name, data in secret.items():
        writer.write(archived(name, data))
    writer.write(END)
    writer.close()
    files = {**{HOME + name: data for name, data in plain.items()}, SECRETS: sealed.getvalue()}
    body = b"".join(archived(name, data) for name, data in files.items())
    sums = "".join(sum_line(sha256_hex(data), name) for name, data in files.items()).encode()
    values = {
        "program": "0",
        "made_at": MADE_AT,
        "home_key": "00" * 32,
        "entries": 0,
        "checkpoint": "",
        "salt": KEY.salt,
        "files": len(plain) + len(secret),
        "size": len(body),
        "sums": sha256_hex(sums),
        **(more or {}),
    }
    description = Description.model_validate(values).to_bytes()
    code = sealing.mac(KEY, description).encode() + b"\n"
    first = ((DESCRIPTION, description), (MAC, code), (SUMS, sums))
    head = b"".join(header(Member(name, len(data), TIME)) + data + padding(len(data)) for name, data in first)
    path.write_bytes(head + body + END)

"""Signed checkpoints of the journal's tree, in the C2SP signed-note and tlog-checkpoint formats, and the key.

A checkpoint is a few lines of text (origin, size, root) with an Ed25519 signature below a blank line; anybody
with the public key can check it with the tools that transparency logs use. The head's checkpoint carries one
extension line, `spool N`: the number of the last spool record that is in the journal.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.audit.merkle import HASH_BYTES
from core.errors import BadInput, JournalCorrupt, JournalUnavailable

_ED25519 = b"\x01"
_SIGNATURE_LINE = re.compile(r"\u2014 (\S+) (\S+)")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_RESTORE = "put the original back from a backup"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint says. `spool` is only in the head's."""

    origin: str
    size: int
    root: bytes
    spool: int | None = None

    def text(self) -> str:
        """The part that is signed."""
        lines = [self.origin, str(self.size), base64.b64encode(self.root).decode()]
        if self.spool is not None:
            lines.append(f"spool {self.spool}")
        return "\n".join(lines) + "\n"


def origin_of(name: str) -> str:
    """The checkpoint origin of a journal called `name`.

    Raises:
        BadInput: the name cannot stand in a signature line.
    """
    if not name or "+" in name or any(letter.isspace() or not letter.isprintable() for letter in name):
        raise BadInput(f"A journal cannot be called {name!r}: no spaces, plus or control characters, please.")
    return f"{name}/journal"


def key_id(origin: str, key: Ed25519PublicKey) -> bytes:
    """The four bytes that tell, in a signature line, which key signed."""
    return hashlib.sha256(origin.encode() + b"\n" + _ED25519 + key.public_bytes_raw()).digest()[:4]


class Signer:
    """Signs checkpoints of one journal."""

    def __init__(self, key: Ed25519PrivateKey, origin: str) -> None:
        self.origin = origin
        self.public_key = key.public_key()
        self._key = key
        self._id = key_id(origin, self.public_key)

    def sign(self, size: int, root: bytes, spool: int | None = None) -> str:
        """The signed note over a tree of `size` entries."""
        text = Checkpoint(self.origin, size, root, spool).text()
        signature = base64.b64encode(self._id + self._key.sign(text.encode())).decode()
        return f"{text}\n\u2014 {self.origin} {signature}\n"


def read_checkpoint(note: str, key: Ed25519PublicKey, origin: str | None = None) -> Checkpoint:
    """Read a signed note and check it: shape, origin (when one is given) and signature.

    Raises:
        JournalCorrupt: says which of these is wrong.
    """
    text, blank, signatures = note.partition("\n\n")
    text += "\n"
    match = _SIGNATURE_LINE.fullmatch(signatures.removesuffix("\n"))
    if not blank or not signatures.endswith("\n") or match is None:
        raise JournalCorrupt("A checkpoint is not a signed note.")
    checkpoint = _parse(text)
    if checkpoint.text() != text:
        raise JournalCorrupt("A checkpoint is not written the way checkpoints are.")
    if match[1] != checkpoint.origin or (origin is not None and checkpoint.origin != origin):
        raise JournalCorrupt(f"A checkpoint belongs to {checkpoint.origin!r}, which is another journal.")
    signature = _from_base64(match[2])
    if signature[:4] != key_id(checkpoint.origin, key):
        raise JournalCorrupt("A checkpoint was signed with another key than this home's journal key.")
    try:
        key.verify(signature[4:], text.encode())
    except InvalidSignature:
        raise JournalCorrupt(f"The signature of the checkpoint at {checkpoint.size} is wrong.") from None
    return checkpoint


def _parse(text: str) -> Checkpoint:
    lines = text.split("\n")
    if len(lines) not in {4, 5} or not _NUMBER.fullmatch(lines[1]):
        raise JournalCorrupt("A checkpoint does not consist of origin, size and root.")
    root = _from_base64(lines[2])
    if len(root) != HASH_BYTES:
        raise JournalCorrupt("A checkpoint's root is not a SHA-256 digest.")
    spool = None
    if len(lines) == 5:
        word, _, number = lines[3].partition(" ")
        if word != "spool" or not _NUMBER.fullmatch(number):
            raise JournalCorrupt("A checkpoint has an extension line that is not known.")
        spool = int(number)
    return Checkpoint(lines[0], int(lines[1]), root, spool)


def _from_base64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise JournalCorrupt("A checkpoint holds text that is not base64.") from None
    # Unused bits at the end would let two texts mean the same bytes.
    if base64.b64encode(data).decode() != text:
        raise JournalCorrupt("A checkpoint holds base64 that is not in its one proper form.")
    return data


def load_or_create_journal_key(path: Path) -> Ed25519PrivateKey:
    """The journal's signing key at `path` (PEM, 0600), made at first use.

    Its public half is written beside it as `journal.pub`.

    Raises:
        JournalCorrupt: the file is there but is not an Ed25519 key.
        JournalUnavailable: it cannot be read or written.
    """
    try:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            key = Ed25519PrivateKey.generate()
            data = key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            _write_new(path, data, 0o600)
        key = _key_from(path, data)
        public = path.with_name("journal.pub")
        if not public.exists():
            _write_new(public, public_pem(key.public_key()), 0o644)
    except OSError as error:
        raise JournalUnavailable(
            f"The journal key {path} cannot be read or written: {error.strerror}."
        ) from error
    return key


def public_pem(key: Ed25519PublicKey) -> bytes:
    """A public key as it stands in `journal.pub`."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def load_public_key(path: Path) -> Ed25519PublicKey:
    """The key of a `journal.pub`.

    Raises:
        JournalCorrupt: it cannot be read as an Ed25519 public key.
    """
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise JournalCorrupt(f"The journal's public key {path} cannot be read; {_RESTORE}.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise JournalCorrupt(f"The journal's public key {path} is not an Ed25519 key; {_RESTORE}.")
    return key


def _key_from(path: Path, data: bytes) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise JournalCorrupt(f"The journal key {path} cannot be read as a key; {_RESTORE}.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise JournalCorrupt(f"The journal key {path} is not an Ed25519 key; {_RESTORE}.")
    return key


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a small file so that it is there whole or not at all, with `mode` from its first moment."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise

"""Signed checkpoints of the journal's Merkle tree (C2SP signed-note, tlog-checkpoint), and the journal's key.

A checkpoint is a text of origin, size and root, with an Ed25519 signature below a blank line; with the public
key, the tools of transparency logs can verify it. The head's checkpoint has two extension lines: `spool N`,
the number of the last spool record that is in the journal, and `checkpoints N DIGEST`, which covers all
permanent checkpoints.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.audit.merkle import HASH_BYTES
from core.errors import BadInput, JournalCorrupt, JournalUnavailable
from core.files import write_atomic

_ED25519 = b"\x01"
_SIGNATURE_LINE = re.compile(r"\u2014 (\S+) (\S+)")
# A paragraph of three to five lines, a blank line, and a signature line.
_NOTE = re.compile(r"(?:\A|\n\n)((?:[^\n]+\n){3,5}\n\u2014 \S+ \S+\n)")
# Another spelling of a number, such as 01, is refused later: its text is not that of the parsed checkpoint.
_NUMBER = re.compile(r"[0-9]{1,19}")
# The errors that `cryptography` raises for damaged keys; `InternalError` if OpenSSL's parser fails.
_NOT_A_KEY = (ValueError, TypeError, UnsupportedAlgorithm, InternalError)
_RESTORE = "put the original back from a backup"


@dataclass(frozen=True, slots=True)
class Kept:
    """The permanent checkpoints: their number, and a hash chain over their notes, oldest first.

    Removing, adding or replacing a checkpoint changes the digest.
    """

    count: int = 0
    digest: bytes = bytes(HASH_BYTES)

    def add(self, note: str) -> Kept:
        """A copy with `note` added at the end."""
        return Kept(self.count + 1, hashlib.sha256(self.digest + note.encode()).digest())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint. `spool` and `kept` are set only in the head's checkpoint."""

    origin: str
    size: int
    root: bytes
    spool: int | None = None
    kept: Kept | None = None

    def text(self) -> str:
        """The signed text."""
        lines = [self.origin, str(self.size), to_base64(self.root)]
        if self.spool is not None:
            lines.append(f"spool {self.spool}")
        if self.kept is not None:
            lines.append(f"checkpoints {self.kept.count} {to_base64(self.kept.digest)}")
        return "\n".join(lines) + "\n"


def origin_of(name: str) -> str:
    """The checkpoint origin of a journal called `name`.

    Raises:
        BadInput: the name is not allowed in a signature line.
    """
    if not name or "+" in name or any(letter.isspace() or not letter.isprintable() for letter in name):
        raise BadInput(f"A journal cannot be called {name!r}: no spaces, plus or control characters, please.")
    return f"{name}/journal"


def key_id(origin: str, key: Ed25519PublicKey) -> bytes:
    """The four bytes that identify the signing key in a signature line."""
    return hashlib.sha256(origin.encode() + b"\n" + _ED25519 + key.public_bytes_raw()).digest()[:4]


class Signer:
    """Signs checkpoints of one journal."""

    def __init__(self, key: Ed25519PrivateKey, origin: str) -> None:
        self.origin = origin
        self.public_key = key.public_key()
        self._key = key
        self._id = key_id(origin, self.public_key)

    def sign(self, size: int, root: bytes, spool: int | None = None, kept: Kept | None = None) -> str:
        """The signed note over a tree of `size` entries."""
        return self.sign_checkpoint(Checkpoint(self.origin, size, root, spool, kept))

    def sign_checkpoint(self, checkpoint: Checkpoint) -> str:
        """The signed note of a checkpoint of this journal."""
        text = checkpoint.text()
        signature = to_base64(self._id + self._key.sign(text.encode()))
        return f"{text}\n\u2014 {self.origin} {signature}\n"


def read_checkpoint(note: str, key: Ed25519PublicKey, origin: str | None = None) -> Checkpoint:
    """Read a signed note and check its form, its origin (if given) and its signature.

    Raises:
        JournalCorrupt: one of these checks fails; the message says which.
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
    signature = from_base64(match[2])
    if signature[:4] != key_id(checkpoint.origin, key):
        raise JournalCorrupt("A checkpoint was signed with another key than the journal's.")
    try:
        key.verify(signature[4:], text.encode())
    except InvalidSignature:
        raise JournalCorrupt(f"The signature of the checkpoint at {checkpoint.size} is wrong.") from None
    return checkpoint


def find_note(text: str) -> str | None:
    """The last signed checkpoint in a text, such as the output of a verification; None if there is none."""
    notes: list[str] = _NOTE.findall(text.replace("\r\n", "\n").rstrip("\n") + "\n")
    return notes[-1] if notes else None


def names_key(note: str, key: Ed25519PublicKey) -> bool:
    """Whether a note from `find_note` has the key id of `key`; `read_checkpoint` verifies the signature."""
    origin, signature = note.splitlines()[-1].split(" ")[1:]
    try:
        return base64.b64decode(signature)[:4] == key_id(origin, key)
    except ValueError:
        return False


def _parse(text: str) -> Checkpoint:
    lines = text.split("\n")
    if len(lines) not in (4, 6) or not _NUMBER.fullmatch(lines[1]):
        raise JournalCorrupt("A checkpoint does not consist of origin, size and root.")
    origin, size, root = lines[0], int(lines[1]), _digest(lines[2])
    if len(lines) == 4:
        return Checkpoint(origin, size, root)
    [spool] = _extension(lines[3], "spool", 1)
    count, digest = _extension(lines[4], "checkpoints", 2)
    return Checkpoint(origin, size, root, int(spool), Kept(int(count), _digest(digest)))


def _extension(line: str, name: str, values: int) -> list[str]:
    """The values of an extension line; the first must be a number."""
    word, *rest = line.split(" ")
    if word != name or len(rest) != values or not _NUMBER.fullmatch(rest[0]):
        raise JournalCorrupt("A checkpoint has an extension line that is not known.")
    return rest


def _digest(text: str) -> bytes:
    data = from_base64(text)
    if len(data) != HASH_BYTES:
        raise JournalCorrupt("A checkpoint holds a root that is not a SHA-256 digest.")
    return data


def to_base64(data: bytes) -> str:
    """Bytes in base64, in its one proper form."""
    return base64.b64encode(data).decode()


def from_base64(text: str) -> bytes:
    """The bytes of base64 in its one proper form.

    Raises:
        JournalCorrupt: it is not base64, or in another form.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise JournalCorrupt("A checkpoint holds text that is not base64.") from None
    # Unused bits at the end would allow different texts for the same bytes.
    if to_base64(data) != text:
        raise JournalCorrupt("A checkpoint holds base64 that is not in its one proper form.")
    return data


def load_or_create_journal_key(path: Path) -> Ed25519PrivateKey:
    """Load the journal's signing key at `path` (PEM, mode 0600), or create it at first use.

    The public key is written beside it as `journal.pub`.

    Raises:
        JournalCorrupt: the file is not an Ed25519 key, does not match the `journal.pub` beside it, or is
            missing although `journal.pub` exists: a new key cannot continue what the old key signed.
        JournalUnavailable: a key file cannot be read or written.
    """
    public = path.with_name("journal.pub")
    try:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            if public.exists():
                raise JournalCorrupt(f"The journal key {path} is missing; {_RESTORE}.") from None
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            data = _private_pem(Ed25519PrivateKey.generate())
            # As durable as the checkpoints that it signs.
            write_atomic(path, data)
        key = read_journal_key(path, data)
        if not public.exists():
            write_atomic(public, public_pem(key.public_key()), 0o644)
        elif load_public_key(public) != key.public_key():
            raise JournalCorrupt(
                f"{public} is not the public half of {path.name}. Remove {public.name}, and it is made again;"
                " if the journal then does not open, the key is the one that was exchanged."
            )
    except OSError as error:
        raise JournalUnavailable(
            f"The journal key {path} cannot be read or written: {error.strerror}."
        ) from error
    return key


def public_pem(key: Ed25519PublicKey) -> bytes:
    """A public key in the form of `journal.pub`."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Load the public key from a `journal.pub`.

    Raises:
        JournalCorrupt: the file cannot be read, or is not an Ed25519 public key in the exact form of
            `public_pem`.
    """
    try:
        data = path.read_bytes()
        key = serialization.load_pem_public_key(data)
    except (OSError, *_NOT_A_KEY) as error:
        raise JournalCorrupt(f"The journal's public key {path} cannot be read; {_RESTORE}.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise JournalCorrupt(f"The journal's public key {path} is not an Ed25519 key; {_RESTORE}.")
    if public_pem(key) != data:
        raise JournalCorrupt(f"The journal's public key {path} was changed; {_RESTORE}.")
    return key


def _private_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def read_journal_key(path: Path, data: bytes) -> Ed25519PrivateKey:
    """The journal's signing key in the content of its file; `path` is for the error.

    Raises:
        JournalCorrupt: it is not an Ed25519 key in the exact form that it is written in.
    """
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except _NOT_A_KEY as error:
        raise JournalCorrupt(f"The journal key {path} cannot be read as a key; {_RESTORE}.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise JournalCorrupt(f"The journal key {path} is not an Ed25519 key; {_RESTORE}.")
    if _private_pem(key) != data:
        raise JournalCorrupt(f"The journal key {path} was changed; {_RESTORE}.")
    return key

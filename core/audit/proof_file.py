"""A proof of one entry as a file: a C2SP tlog-proof, whose extra data is the entry itself.

https://c2sp.org/tlog-proof: a header, the extra data, the entry's index (from 0), the inclusion path from
the leaf up, a blank line, and the signed checkpoint. The extra data is authenticated here: its leaf hash
must lead to the root that the checkpoint signs. A file has one form, so that every changed byte is noticed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.audit.checkpoint import Checkpoint, from_base64, read_checkpoint, to_base64
from core.audit.merkle import HASH_BYTES, leaf_hash, root_from_path
from core.audit.models import InclusionProof
from core.errors import JournalCorrupt

HEADER = "c2sp.org/tlog-proof@v1"
# An entry has at most 8 MiB, a third more in base64.
LARGEST = 12 * 1024 * 1024
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})")
# A tree has less than 2^63 leaves.
_LONGEST_PATH = 64


@dataclass(frozen=True, slots=True)
class ProvenEntry:
    """What a proof has shown: `entry` is the journal's entry `seq`, under the signed `checkpoint`."""

    seq: int
    entry: dict[str, Any]
    text: str
    checkpoint: Checkpoint


def proof_file(proof: InclusionProof) -> str:
    """The file of a proof."""
    path = [bytes.fromhex(node) for node in proof.path]
    return _text(proof.entry.encode(), proof.seq - 1, path, proof.checkpoint)


def check_proof_file(data: bytes, key: Ed25519PublicKey) -> ProvenEntry:
    """Check a file, every step of it, with the journal's public key alone.

    Raises:
        JournalCorrupt: it proves nothing; the message says what does not fit.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise JournalCorrupt("It is not text in UTF-8.") from None
    entry, index, path, note = _parts(text)
    checkpoint = read_checkpoint(note, key)
    if index >= checkpoint.size:
        raise JournalCorrupt(
            f"It is about entry {index + 1:,}, and its checkpoint is over {checkpoint.size:,} entries."
        )
    if root_from_path(leaf_hash(entry), index, checkpoint.size, path) != checkpoint.root:
        raise JournalCorrupt("Its path does not lead from the entry to the root that the checkpoint signs.")
    return ProvenEntry(index + 1, _entry(entry, index + 1), entry.decode(), checkpoint)


def _entry(data: bytes, seq: int) -> dict[str, Any]:
    """The entry that was proven; not by its model, so that one of a later version is shown, too."""
    try:
        entry = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise JournalCorrupt("What it proves is not an entry.") from None
    if not isinstance(entry, dict) or entry.get("seq") != seq:
        raise JournalCorrupt(f"The entry in it does not have the number {seq:,} that its index means.")
    return entry


def _parts(text: str) -> tuple[bytes, int, list[bytes], str]:
    """The entry, its index, the path and the checkpoint's note."""
    head, blank, note = text.partition("\n\n")
    header, *rest = head.split("\n")
    if header != HEADER:
        raise JournalCorrupt(f"It is not a proof: its first line is not {HEADER!r}.")
    if not blank or not note:
        raise JournalCorrupt("It ends before its checkpoint.")
    if not rest or not rest[0].startswith("extra "):
        raise JournalCorrupt("It does not have the entry's text in its line 'extra'.")
    index = _INDEX.fullmatch(rest[1]) if len(rest) > 1 else None
    if index is None:
        raise JournalCorrupt("It does not have the entry's place in its line 'index'.")
    try:
        entry = from_base64(rest[0].removeprefix("extra "))
        path = [from_base64(line) for line in rest[2:]]
    except JournalCorrupt:
        raise JournalCorrupt("It has a line that is not base64 in its one proper form.") from None
    if len(path) > _LONGEST_PATH or any(len(node) != HASH_BYTES for node in path):
        raise JournalCorrupt("Its path has a line that is not a SHA-256 hash.")
    return entry, int(index[1]), path, note


def _text(entry: bytes, index: int, path: list[bytes], note: str) -> str:
    lines = [HEADER, f"extra {to_base64(entry)}", f"index {index}", *map(to_base64, path)]
    return "\n".join(lines) + f"\n\n{note}"

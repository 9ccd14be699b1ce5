"""Checks an inclusion proof (RFC 6962) without trusting the service that returned it."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import ValidationError

from core.audit.entries import Entry
from core.audit.prove import fault_of
from core.service.api.models import Proof

VERIFY_ALL = (
    "Verify the whole journal (quarterdeck audit verify, or V in the window's journal), and keep a copy of "
    "the home before anything else."
)


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A sibling on the path to the root: its side, and the entries below it."""

    side: str
    first: int
    last: int
    digest: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of the check as a sentence; `what_now` is its meaning or the next step."""

    ok: bool
    words: str
    what_now: str


def steps_of(proof: Proof) -> list[ProofStep]:
    """The path with sides and ranges, from the leaf up; empty if the path's length is wrong."""
    ranges: list[tuple[str, int, int]] = []
    start, end, index = 0, proof.size, proof.seq - 1
    while end - start > 1:
        middle = start + (1 << ((end - start - 1).bit_length() - 1))
        if index < middle:
            ranges.append(("right", middle + 1, end))
            end = middle
        else:
            ranges.append(("left", start + 1, middle))
            start = middle
    ranges.reverse()
    if len(ranges) != len(proof.path):
        return []
    return [ProofStep(*place, digest) for place, digest in zip(ranges, proof.path, strict=True)]


def check_proof(shown: Entry, proof: Proof, asked: int | None = None) -> Finding:
    """Check that the signed checkpoint covers the entry that is shown.

    `asked` is the number of the requested entry, needed if `shown` arrived together with the proof.

    Every step is computed here: the leaf hash of the entry's text, the path to the root, the checkpoint's
    root and size, its signature by the journal's key, and that the text is equal to the shown entry.
    """
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(proof.public_key))
    except ValueError:
        return _bad("The journal's public key is missing or is not a key.")
    if fault := fault_of(proof, key):
        return _bad(fault)
    try:
        proven = Entry.model_validate_json(proof.entry)
    except ValidationError:
        return _bad("The text that is proved is not an entry.")
    if proven != shown or proof.seq != shown.seq or asked not in (None, shown.seq):
        return _bad("The proof holds, but for other words than are shown.")
    return Finding(
        True, "In the journal, unchanged.", "Checked here, from the entry's text to the signature."
    )


def _bad(words: str) -> Finding:
    return Finding(False, words, VERIFY_ALL)

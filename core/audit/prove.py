"""Makes and verifies inclusion proofs: an entry is in the tree whose root a checkpoint signs."""

from __future__ import annotations

import sqlite3

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.audit.checkpoint import read_checkpoint
from core.audit.merkle import SUBTREE_LEAVES, Frontier, inclusion_path, leaf_hash, root_from_path
from core.audit.models import InclusionProof
from core.errors import BadInput, ErrorCode, JournalCorrupt


def prove(connection: sqlite3.Connection, seq: int) -> InclusionProof:
    """The proof for entry `seq` under the head's checkpoint.

    Raises:
        BadInput: there is no such entry (code `not_found`).
        JournalCorrupt: the journal has no head.
    """
    row = connection.execute("SELECT entry FROM entries WHERE seq = ?", (seq,)).fetchone()
    if row is None:
        raise BadInput(f"There is no journal entry {seq}.", ErrorCode.NOT_FOUND)
    head = connection.execute("SELECT note FROM head").fetchone()
    size = connection.execute("SELECT max(seq) FROM entries").fetchone()[0]
    if head is None:
        raise JournalCorrupt("The journal has no head.")
    path = inclusion_path(seq - 1, size, lambda start, end: _subtree(connection, start, end))
    leaf = leaf_hash(row[0])
    root = root_from_path(leaf, seq - 1, size, path) or b""
    return InclusionProof(
        seq=seq,
        entry=row[0].decode(),
        leaf=leaf.hex(),
        path=[node.hex() for node in path],
        root=root.hex(),
        size=size,
        checkpoint=head[0],
    )


def verify_inclusion(proof: InclusionProof, key: Ed25519PublicKey) -> bool:
    """Whether a proof is valid: entry to leaf, path to root, root and size as in a checkpoint of `key`."""
    return not fault_of(proof, key)


def fault_of(proof: InclusionProof, key: Ed25519PublicKey) -> str:
    """The first step of a proof, from the leaf up, that fails, as a sentence; empty if the proof is valid."""
    try:
        leaf = leaf_hash(proof.entry.encode())
    except UnicodeEncodeError:
        return "The entry's text is not text in Unicode."
    if leaf.hex() != proof.leaf:
        return "The entry's text does not give the hash it is filed under."
    try:
        path = [bytes.fromhex(node) for node in proof.path]
    except ValueError:
        return "The path holds something that is not a hash."
    root = root_from_path(leaf, proof.seq - 1, proof.size, path)
    if root is None or root.hex() != proof.root:
        return "The path does not lead from this entry to the root."
    try:
        checkpoint = read_checkpoint(proof.checkpoint, key)
    except JournalCorrupt as error:
        return error.message
    if checkpoint.root != root or checkpoint.size != proof.size:
        return "The checkpoint signs another root than this path leads to."
    return ""


def _subtree(connection: sqlite3.Connection, start: int, end: int) -> bytes:
    """The root over the leaves from `start` up to `end`, from stored subtrees where they are complete.

    RFC 6962 splits at powers of two, so a part larger than a stored subtree begins at the start of a subtree.
    """
    frontier = Frontier()
    whole = (end - start) // SUBTREE_LEAVES if start % SUBTREE_LEAVES == 0 else 0
    if whole:
        first = start // SUBTREE_LEAVES
        rows = connection.execute(
            "SELECT root FROM subtrees WHERE number >= ? AND number < ? ORDER BY number",
            (first, first + whole),
        )
        for (root,) in rows:
            frontier.append(root)
        frontier = _grown(frontier)
    rows = connection.execute(
        "SELECT leaf FROM entries WHERE seq > ? AND seq <= ? ORDER BY seq",
        (start + whole * SUBTREE_LEAVES, end),
    )
    for (leaf,) in rows:
        frontier.append(leaf)
    return frontier.root()


def _grown(frontier: Frontier) -> Frontier:
    """Convert a tree of subtree roots to the tree of all leaves below them: same edge, larger size."""
    return Frontier.from_bytes(frontier.size * SUBTREE_LEAVES, frontier.to_bytes())

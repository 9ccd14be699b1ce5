"""The RFC 6962 Merkle tree: leaf and node hashes, the growing right edge, inclusion proofs.

Appending and computing the root need only the right edge (the "frontier": the roots of the perfect subtrees
that make up the tree, largest first), so appending costs O(log n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

HASH_BYTES = 32
# The root of each complete subtree of this many leaves is stored, so that a proof need not read all leaves.
SUBTREE_LEAVES = 1024
_SUBTREE_LEVEL = SUBTREE_LEAVES.bit_length() - 1


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a tree of `size` leaves."""

    def __init__(self, size: int = 0, edge: Sequence[bytes] = ()) -> None:
        """Continue a tree from its stored edge.

        Raises:
            ValueError: the edge does not fit a tree of this size.
        """
        if len(edge) != size.bit_count() or any(len(node) != HASH_BYTES for node in edge):
            raise ValueError(f"a tree of {size} leaves has an edge of {size.bit_count()} hashes")
        self.size = size
        self._edge = list(edge)

    @classmethod
    def from_bytes(cls, size: int, data: bytes) -> Frontier:
        """Continue a tree from `to_bytes`.

        Raises:
            ValueError: the bytes are not the edge of a tree of this size.
        """
        return cls(size, [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)])

    def to_bytes(self) -> bytes:
        """The edge, largest subtree first."""
        return b"".join(self._edge)

    def copy(self) -> Frontier:
        """An independent tree that continues from the same edge."""
        return Frontier(self.size, self._edge)

    def append(self, leaf: bytes) -> bytes | None:
        """Add a leaf hash; returns the root to store if this leaf completes a subtree of `SUBTREE_LEAVES`."""
        edge = self._edge
        carry = self.size
        level = 0
        complete = None
        while carry & 1:
            leaf = sha256(b"\x01" + edge.pop() + leaf).digest()
            carry >>= 1
            level += 1
            if level == _SUBTREE_LEVEL:
                complete = leaf
        edge.append(leaf)
        self.size += 1
        return complete

    def nodes(self) -> list[tuple[int, bytes]]:
        """The edge as (leaves below the node, its hash), from the first leaf to the last."""
        counts = [1 << bit for bit in reversed(range(self.size.bit_length())) if self.size >> bit & 1]
        return list(zip(counts, self._edge, strict=True))

    def root(self) -> bytes:
        """The root of the tree so far."""
        if not self._edge:
            return sha256(b"").digest()
        root = self._edge[-1]
        for node in reversed(self._edge[:-1]):
            root = node_hash(node, root)
        return root


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root()


def inclusion_path(index: int, size: int, subtree: Callable[[int, int], bytes]) -> list[bytes]:
    """The audit path of leaf `index` (from 0) in a tree of `size`, nearest sibling first.

    `subtree(start, end)` returns the root over the leaves from `start` up to `end`.

    Raises:
        ValueError: the tree has no such leaf.
    """
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has no leaf {index}")
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(subtree(middle, end))
            end = middle
        else:
            path.append(subtree(start, middle))
            start = middle
    path.reverse()
    return path


def root_from_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that an audit path leads to; None when the path does not fit this index and size."""
    if not 0 <= index < size:
        return None
    node, place, last = leaf, index, size - 1
    for sibling in path:
        if last == 0 or len(sibling) != HASH_BYTES:
            return None
        if place & 1 or place == last:
            node = node_hash(sibling, node)
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            node = node_hash(node, sibling)
        place >>= 1
        last >>= 1
    return node if last == 0 else None


def _split(count: int) -> int:
    """The largest power of two below `count`."""
    return 1 << ((count - 1).bit_length() - 1)

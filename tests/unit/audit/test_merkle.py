from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.audit.merkle import (
    SUBTREE_LEAVES,
    Frontier,
    inclusion_path,
    leaf_hash,
    root_from_path,
    root_of,
)

# The eight leaves, the roots over the first N of them and the audit paths that certificate-transparency
# implementations test RFC 6962 with.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
PATHS = {
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
}


def naive_root(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1, word for word, over leaf data."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    cut = 1
    while cut * 2 < len(leaves):
        cut *= 2
    return sha256(b"\x01" + naive_root(leaves[:cut]) + naive_root(leaves[cut:])).digest()


def naive_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """RFC 6962 section 2.1.1, word for word."""
    if len(leaves) == 1:
        return []
    cut = 1
    while cut * 2 < len(leaves):
        cut *= 2
    if index < cut:
        return [*naive_path(index, leaves[:cut]), naive_root(leaves[cut:])]
    return [*naive_path(index - cut, leaves[cut:]), naive_root(leaves[:cut])]


def path_of(index: int, leaves: list[bytes]) -> list[bytes]:
    hashes = [leaf_hash(leaf) for leaf in leaves]
    return inclusion_path(index, len(leaves), lambda start, end: root_of(hashes[start:end]))


def test_the_empty_tree_has_the_hash_of_nothing_as_its_root():
    assert root_of([]) == sha256(b"").digest()


@pytest.mark.parametrize("count", range(1, 9))
def test_roots_are_those_of_the_known_vectors(count):
    assert root_of([leaf_hash(leaf) for leaf in LEAVES[:count]]).hex() == ROOTS[count - 1]


@pytest.mark.parametrize("place", PATHS)
def test_audit_paths_are_those_of_the_known_vectors(place):
    index, size = place
    assert [node.hex() for node in path_of(index, LEAVES[:size])] == PATHS[place]


@given(st.lists(st.binary(max_size=8), max_size=70))
def test_the_growing_tree_agrees_with_the_definition(leaves):
    assert root_of([leaf_hash(leaf) for leaf in leaves]) == naive_root(leaves)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=70), st.data())
def test_every_leaf_can_be_proven_and_nothing_else(leaves, data):
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = path_of(index, leaves)
    assert path == naive_path(index, leaves)
    leaf, root = leaf_hash(leaves[index]), naive_root(leaves)
    assert root_from_path(leaf, index, len(leaves), path) == root
    assert root_from_path(leaf_hash(leaves[index] + b"!"), index, len(leaves), path) != root
    assert root_from_path(leaf, index, len(leaves), [*path, root]) is None
    if path:
        assert root_from_path(leaf, index, len(leaves), path[:-1]) is None
        broken = [bytes([path[0][0] ^ 1]) + path[0][1:], *path[1:]]
        assert root_from_path(leaf, index, len(leaves), broken) != root


@given(st.lists(st.binary(max_size=4), max_size=70), st.integers(0, 70))
def test_a_tree_continues_from_its_stored_edge(leaves, cut):
    hashes = [leaf_hash(leaf) for leaf in leaves]
    first = Frontier()
    for leaf in hashes[:cut]:
        first.append(leaf)
    second = Frontier.from_bytes(first.size, first.to_bytes())
    for leaf in hashes[cut:]:
        second.append(leaf)
    assert second.root() == root_of(hashes)
    assert second.size == len(hashes)


def test_an_edge_that_does_not_fit_its_size_is_refused():
    with pytest.raises(ValueError, match="3 leaves"):
        Frontier.from_bytes(3, b"x" * 32)
    with pytest.raises(ValueError, match="1 leaves"):
        Frontier.from_bytes(1, b"x" * 31)


def test_a_completed_subtree_is_told_once_with_its_root():
    frontier = Frontier()
    hashes = [leaf_hash(str(number).encode()) for number in range(2 * SUBTREE_LEAVES + 5)]
    told = [
        (number, root) for number, leaf in enumerate(hashes) if (root := frontier.append(leaf)) is not None
    ]
    assert told == [
        (SUBTREE_LEAVES - 1, root_of(hashes[:SUBTREE_LEAVES])),
        (2 * SUBTREE_LEAVES - 1, root_of(hashes[SUBTREE_LEAVES : 2 * SUBTREE_LEAVES])),
    ]


def test_a_path_of_a_smaller_tree_proves_nothing_of_a_larger_one():
    leaf, path = leaf_hash(LEAVES[0]), path_of(0, LEAVES[:2])
    assert root_from_path(leaf, 0, 2, path) is not None
    assert root_from_path(leaf, 0, 8, path) is None


def test_no_path_leads_beyond_the_tree():
    assert root_from_path(b"x" * 32, 3, 3, []) is None
    assert root_from_path(b"x" * 32, -1, 3, []) is None
    with pytest.raises(ValueError, match="no leaf 3"):
        inclusion_path(3, 3, lambda start, end: b"")

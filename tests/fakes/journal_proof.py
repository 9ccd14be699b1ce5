"""Queries and proofs over entries in memory, by the rules of the real journal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit.checkpoint import Signer, origin_of
from core.audit.encode import encode_parts
from core.audit.entries import Entry
from core.audit.merkle import inclusion_path, leaf_hash, root_of
from core.audit.query import DurationTerm, FreeTerm, Query, SeqTerm, Term, TextTerm, parse_query
from core.service.console import Proof

SIGNER = Signer(
    Ed25519PrivateKey.from_private_bytes(b"quarterdeck fakes sign with this"), origin_of("qd-desk-1")
)


def matches(entry: Entry, query: Query) -> bool:
    """Whether an entry is what a query asks for."""
    if query.since is not None and entry.time < query.since:
        return False
    if query.until is not None and entry.time >= query.until:
        return False
    return all(_holds(entry, term) for term in query.terms)


def parse(text: str) -> Query:
    """Read a query as the journal does."""
    return parse_query(text)


def _holds(entry: Entry, term: Term) -> bool:
    match term:
        case TextTerm(column=column, patterns=patterns):
            value = getattr(entry, column)
            found = value is not None and any(pattern.matches(str(value)) for pattern in patterns)
        case SeqTerm(low=low, high=high):
            found = low <= entry.seq <= high
        case DurationTerm():
            found = _within(entry.duration_ms, term)
        case FreeTerm(text=text):
            found = text.casefold() in entry.model_dump_json().casefold()
    return found != term.negated


def _within(value: float | None, term: DurationTerm) -> bool:
    if value is None:
        return False
    if term.low is not None and (value < term.low or (term.low_open and value == term.low)):
        return False
    return not (term.high is not None and (value > term.high or (term.high_open and value == term.high)))


def entry_bytes(entry: Entry) -> bytes:
    """An entry as the journal hashes it."""
    return encode_parts(entry, entry.time).with_seq(entry.seq)


@lru_cache(maxsize=4)
def _unknown_leaves(count: int) -> tuple[bytes, ...]:
    """Leaves of the entries before the first one that is known here."""
    return tuple(leaf_hash(b"an entry before: %d" % number) for number in range(1, count + 1))


def prove_entry(entries: Sequence[Entry], entry: Entry) -> Proof:
    """A proof that holds, in a tree whose earlier leaves stand for entries that are not here."""
    leaves = [*_unknown_leaves(entries[0].seq - 1), *(leaf_hash(entry_bytes(one)) for one in entries)]
    size, root = len(leaves), root_of(leaves)
    path = inclusion_path(entry.seq - 1, size, lambda start, end: root_of(leaves[start:end]))
    return Proof(
        seq=entry.seq,
        entry=entry_bytes(entry).decode(),
        leaf=leaves[entry.seq - 1].hex(),
        path=[node.hex() for node in path],
        root=root.hex(),
        size=size,
        checkpoint=SIGNER.sign(size, root),
        public_key=SIGNER.public_key.public_bytes_raw().hex(),
    )

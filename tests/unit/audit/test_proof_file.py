"""A proof as a file proves its entry with the journal's key alone; with a changed byte it proves nothing."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit.checkpoint import Signer, from_base64, to_base64
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.audit.merkle import leaf_hash
from core.audit.proof_file import HEADER, check_proof_file, proof_file
from core.errors import JournalCorrupt

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key()
COUNT = 37


@dataclass(frozen=True)
class Made:
    files: dict[int, bytes]

    def __getitem__(self, seq: int) -> bytes:
        return self.files[seq]


@pytest.fixture
async def made(memory_path: Path) -> Made:
    """The proofs of all entries of a journal."""
    journal = await Journal.open(memory_path / "home", KEY, "desk")
    await journal.append_many(
        [
            NewEntry(kind=Kind.RESULT_RECORDED, actor="device:lab-1", body={"text": f"Größe {number}"})
            for number in range(COUNT)
        ]
    )
    files = {seq: proof_file(await journal.prove(seq)).encode() for seq in range(1, COUNT + 1)}
    await journal.close()
    return Made(files)


def refused(data: bytes, match: str | None = None) -> None:
    with pytest.raises(JournalCorrupt, match=match):
        check_proof_file(data, PUBLIC)


def replaced(data: bytes, number: int, line: str) -> bytes:
    lines = data.decode().split("\n")
    lines[number] = line
    return "\n".join(lines).encode()


def line_of(data: bytes, number: int) -> str:
    return data.decode().split("\n")[number]


async def test_every_entry_is_proven(made: Made):
    for seq, data in made.files.items():
        proven = check_proof_file(data, PUBLIC)
        assert (proven.seq, proven.entry["seq"], proven.checkpoint.size) == (seq, seq, COUNT)
        assert proven.entry["body"] == {"text": f"Größe {seq - 1}"}


async def test_it_has_the_form_of_the_specification(made: Made):
    """As another program reads it: C2SP tlog-proof, the RFC 6962 path, the checkpoint verbatim."""
    header, extra, index, *rest = made[5].decode().split("\n")
    assert header == "c2sp.org/tlog-proof@v1"
    assert index == "index 4"
    entry = from_base64(extra.removeprefix("extra "))
    path = rest[: rest.index("")]
    assert [len(from_base64(line)) for line in path] == [32] * 6
    origin, size, *_ = rest[rest.index("") + 1 :]
    assert (origin, size) == ("desk/journal", str(COUNT))
    assert json.loads(entry)["seq"] == 5
    assert made[5].endswith(b"\n")


@pytest.mark.parametrize("seq", [1, 5, COUNT])
async def test_a_flipped_byte_at_any_place_is_noticed(made: Made, seq: int):
    data = made[seq]
    chance = random.Random(seq)
    for place in range(len(data)):
        for change in (1, 0x20, chance.randrange(1, 256)):
            refused(data[:place] + bytes([data[place] ^ change]) + data[place + 1 :])


async def test_a_file_that_was_cut_or_grew_at_any_place_is_noticed(made: Made):
    data = made[5]
    for place in range(len(data)):
        refused(data[:place])
        refused(data[:place] + b"\n" + data[place:])
    for more in (b"\n", b" ", b"A", data, b"\xe2\x80\x94 witness AAAA\n"):
        refused(data + more)


async def test_another_key_is_named(made: Made):
    with pytest.raises(JournalCorrupt, match="another key than the journal's"):
        check_proof_file(made[5], Ed25519PrivateKey.generate().public_key())


async def test_a_checkpoint_signed_anew_with_another_key_is_not_taken(made: Made):
    """The whole file is right in itself, only not the journal's."""
    entry = from_base64(line_of(made[5], 1).removeprefix("extra "))
    other = Signer(Ed25519PrivateKey.generate(), "desk/journal").sign(1, leaf_hash(entry))
    forged = f"{HEADER}\nextra {to_base64(entry)}\nindex 0\n\n{other}".encode()
    refused(forged, "another key")
    # With the id of the right key, the signature is still not its own.
    ours = Signer(KEY, "desk/journal").sign(1, leaf_hash(entry)).splitlines()[-1].split(" ")[2]
    theirs = other.splitlines()[-1].split(" ")[2]
    mixed = to_base64(from_base64(ours)[:4] + from_base64(theirs)[4:])
    refused(forged.replace(theirs.encode(), mixed.encode()), "signature .* is wrong")


async def test_an_entry_cannot_be_swapped(made: Made):
    refused(replaced(made[5], 1, line_of(made[6], 1)), "path does not lead")
    refused(replaced(made[5], 2, line_of(made[6], 2)), "path does not lead")
    both = replaced(replaced(made[5], 1, line_of(made[6], 1)), 2, line_of(made[6], 2))
    refused(both, "path does not lead")
    # Entries 5 and 20 have only the sibling of their common subtree in common.
    different = [number for number in range(3, 9) if line_of(made[5], number) != line_of(made[20], number)]
    assert len(different) == 5
    for number in different:
        refused(replaced(made[5], number, line_of(made[20], number)), "path does not lead")
    refused(replaced(made[5], 2, f"index {COUNT}"), f"over {COUNT} entries")


async def test_an_inner_node_is_not_taken_for_an_entry(made: Made):
    """The second preimage that RFC 6962 prevents: two hashes as the text of a leaf, under a shorter path."""
    lines = made[1].decode().split("\n")
    entry = from_base64(lines[1].removeprefix("extra "))
    node = leaf_hash(entry) + from_base64(lines[3])
    refused("\n".join([HEADER, f"extra {to_base64(node)}", "index 0", *lines[4:]]).encode(), "path does not")


async def test_what_is_signed_and_is_no_entry_of_that_number_is_refused():
    signer = Signer(KEY, "desk/journal")
    for entry, words in (
        (b'{"seq":2}', "does not have the number 1"),
        (b"[]", "does not have the number 1"),
        (b"\xff", "not an entry"),
        (b"not JSON", "not an entry"),
    ):
        note = signer.sign(1, leaf_hash(entry))
        refused(f"{HEADER}\nextra {to_base64(entry)}\nindex 0\n\n{note}".encode(), words)


async def test_what_does_not_fit_is_named(made: Made):
    data = made[5]
    refused(b"", "not a proof")
    refused(b"\xff\xfe", "not text in UTF-8")
    refused(replaced(data, 0, "c2sp.org/tlog-proof@v2"), "not a proof")
    refused(data.split(b"\n\n")[0], "ends before its checkpoint")
    refused(replaced(data, 1, "index 4"), "line 'extra'")
    refused(replaced(data, 2, "index 04"), "line 'index'")
    refused(replaced(data, 2, "index -1"), "line 'index'")
    refused(replaced(data, 3, "AAAA"), "not a SHA-256 hash")
    refused(replaced(data, 3, "not base64"), "not base64")
    refused(replaced(data, 1, line_of(data, 1) + "="), "not base64")
    refused(b"\n".join([data.split(b"\n\n")[0]] + [b"A" * 43 + b"="] * 100) + b"\n\nx", "path")

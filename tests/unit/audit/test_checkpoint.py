from __future__ import annotations

import base64
import contextlib
import os
import stat

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from core.audit.checkpoint import (
    Checkpoint,
    Kept,
    Signer,
    find_note,
    key_id,
    load_or_create_journal_key,
    load_public_key,
    names_key,
    origin_of,
    read_checkpoint,
)
from core.errors import BadInput, JournalCorrupt, JournalUnavailable

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SIGNER = Signer(KEY, "desk/journal")


numbers = st.integers(0, 2**62)
digests = st.binary(min_size=32, max_size=32)


@given(numbers, digests, st.none() | st.tuples(numbers, st.builds(Kept, numbers, digests)))
def test_what_was_signed_is_read_back(size, root, of_the_head):
    spool, kept = of_the_head or (None, None)
    read = read_checkpoint(SIGNER.sign(size, root, spool, kept), KEY.public_key(), "desk/journal")
    assert read == Checkpoint("desk/journal", size, root, spool, kept)


def test_a_checkpoint_has_the_form_that_transparency_logs_use():
    note = SIGNER.sign(17, b"\x00" * 32)
    lines = note.split("\n")
    assert lines[:4] == ["desk/journal", "17", "A" * 43 + "=", ""]
    assert lines[4].startswith("\u2014 desk/journal ")
    assert note.endswith("\n")


def test_the_key_id_is_that_of_the_signed_note_specification():
    # The example key of the Go module checksum database, as published in its verifier key.
    verifier = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"
    name, wanted, key = verifier.split("+", 2)
    raw = base64.b64decode(key)
    assert raw[:1] == b"\x01"
    assert key_id(name, Ed25519PublicKey.from_public_bytes(raw[1:])).hex() == wanted


@given(st.data())
def test_no_changed_byte_of_a_checkpoint_passes(data):
    note = SIGNER.sign(123_456, bytes(range(32)), 78, Kept(9, bytes(range(32, 64)))).encode()
    at = data.draw(st.integers(0, len(note) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = note[:at] + bytes([note[at] ^ flip]) + note[at + 1 :]
    with pytest.raises((JournalCorrupt, UnicodeDecodeError)):
        read_checkpoint(changed.decode(), KEY.public_key(), "desk/journal")


@pytest.mark.parametrize("text", ["", "\n\n", "a\n\nb\n", "desk/journal\n1\n\n\u2014 desk/journal AAAA\n"])
def test_what_is_no_signed_note_is_refused(text):
    with pytest.raises(JournalCorrupt):
        read_checkpoint(text, KEY.public_key())


@pytest.mark.parametrize(
    ("old", "new"),
    [("\n17\n", "\n017\n"), ("spool 4\n", "spool 04\n"), ("checkpoints 2", "checkpoints 0002")],
)
def test_a_checkpoint_has_one_text_even_if_another_is_signed(old, new):
    note = SIGNER.sign(17, bytes(32), 4, Kept(2, bytes(range(32))))
    text = note.partition("\n\n")[0] + "\n"
    assert old in text
    text = text.replace(old, new)
    signature = base64.b64encode(key_id("desk/journal", KEY.public_key()) + KEY.sign(text.encode())).decode()
    with pytest.raises(JournalCorrupt, match="not written the way"):
        read_checkpoint(f"{text}\n\u2014 desk/journal {signature}\n", KEY.public_key())


def test_another_key_and_another_journal_are_told_apart():
    note = SIGNER.sign(1, b"\x00" * 32)
    with pytest.raises(JournalCorrupt, match="another key"):
        read_checkpoint(note, Ed25519PrivateKey.generate().public_key())
    with pytest.raises(JournalCorrupt, match="another journal"):
        read_checkpoint(note, KEY.public_key(), "other/journal")


@pytest.mark.parametrize("name", ["", "two words", "a+b", "line\nbreak", "bell\x07"])
def test_a_name_that_would_break_a_signature_line_is_refused(name):
    with pytest.raises(BadInput, match="cannot be called"):
        origin_of(name)


def test_the_key_is_made_once_for_its_owner_only_with_the_public_half_beside_it(memory_path):
    path = memory_path / "keys" / "journal.key"
    key = load_or_create_journal_key(path)
    again = load_or_create_journal_key(path)
    assert again.private_bytes_raw() == key.private_bytes_raw()
    assert load_public_key(path.with_name("journal.pub")) == key.public_key()
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["journal.key", "journal.pub"]
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_broken_key_is_named_and_not_replaced(memory_path):
    path = memory_path / "journal.key"
    path.write_text("not a key")
    with pytest.raises(JournalCorrupt, match=r"journal\.key"):
        load_or_create_journal_key(path)
    assert path.read_text() == "not a key"
    pem = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(pem)
    with pytest.raises(JournalCorrupt, match="not an Ed25519 key"):
        load_or_create_journal_key(path)


def test_a_key_that_cannot_be_stored_is_said(memory_path):
    (memory_path / "keys").write_text("a file where a folder should be")
    with pytest.raises(JournalUnavailable, match="cannot be read or written"):
        load_or_create_journal_key(memory_path / "keys" / "journal.key")


def test_a_broken_public_key_is_named(memory_path):
    (memory_path / "journal.pub").write_text("nothing")
    with pytest.raises(JournalCorrupt, match=r"journal\.pub"):
        load_public_key(memory_path / "journal.pub")


def test_each_changed_byte_of_either_key_file_is_noticed(memory_path):
    path = memory_path / "journal.key"
    key = load_or_create_journal_key(path)
    public = path.with_name("journal.pub")
    for changed in (path, public):
        whole = changed.read_bytes()
        for at in range(len(whole)):
            for flip in (0x01, 0x20, 0xFF):
                changed.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
                with pytest.raises(JournalCorrupt):
                    load_or_create_journal_key(path)
                if changed is public:
                    # Another key may be what it says now; then the journal's signatures tell.
                    with contextlib.suppress(JournalCorrupt):
                        assert load_public_key(public) != key.public_key()
        changed.write_bytes(whole)
    load_or_create_journal_key(path)


def test_a_key_that_was_taken_away_is_not_made_anew_beside_what_it_signed_with(memory_path):
    path = memory_path / "journal.key"
    load_or_create_journal_key(path)
    path.unlink()
    with pytest.raises(JournalCorrupt, match=r"journal\.key is missing"):
        load_or_create_journal_key(path)
    assert not path.exists()


def test_a_public_key_that_was_exchanged_is_noticed_and_made_again_once_it_is_gone(memory_path):
    mine, other = memory_path / "mine" / "journal.key", memory_path / "other" / "journal.key"
    key = load_or_create_journal_key(mine)
    load_or_create_journal_key(other)
    public = mine.with_name("journal.pub")
    public.write_bytes(other.with_name("journal.pub").read_bytes())
    with pytest.raises(JournalCorrupt, match="not the public half"):
        load_or_create_journal_key(mine)
    public.unlink()
    assert load_or_create_journal_key(mine).public_key() == key.public_key() == load_public_key(public)


def test_a_note_is_found_in_what_was_printed_around_it():
    note = SIGNER.sign(17, bytes(32), 4, Kept(2, bytes(range(32))))
    for text in (
        note,
        note.rstrip(),
        f"The journal verifies.\nEntries  17\n\nNewest checkpoint:\n\n{note}",
        f"{SIGNER.sign(3, bytes(32))}\n\n{note}\n",
        note.replace("\n", "\r\n"),
    ):
        assert find_note(text) == note
    assert find_note("nothing\n\nhere") is None
    assert names_key(note, KEY.public_key())
    assert not names_key(note, Ed25519PrivateKey.generate().public_key())
    assert not names_key("desk/journal\n1\n\n\u2014 desk/journal !\n", KEY.public_key())

"""`audit prove` writes a proof of one entry; `audit verify FILE` checks it without home and service."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.home import Home
from core.service import exit_codes
from tests.fakes.program import make_home, run
from tests.fakes.service_process import served


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = make_home(tmp_path_factory.mktemp("proofs") / "home")
    with served(home):
        yield home


@pytest.fixture
def elsewhere(home: Home, tmp_path: Path) -> Path:
    """A folder of another machine, with the journal's public key and a proof."""
    assert run(home, "audit", "prove", "2", "--output", str(tmp_path / "2.tlog-proof")).code == 0
    shutil.copy(home.keys / "journal.pub", tmp_path / "journal.pub")
    return tmp_path


def verified(folder: Path, *words: str, name: str = "2.tlog-proof"):
    no_home = Home(folder / "no-home")
    ended = run(no_home, "audit", "verify", str(folder / name), *words, "--json")
    assert not no_home.path.exists()
    return ended


def test_a_stranger_with_the_key_alone_is_convinced(home: Home, elsewhere: Path):
    ended = verified(elsewhere, "--key", str(elsewhere / "journal.pub"))
    assert ended.code == 0, ended
    shown = run(home, "audit", "show", "2", "--json").json
    shown.pop("proof")
    assert ended.json["entry"] == shown
    assert (ended.json["ok"], ended.json["seq"]) == (True, 2)
    text = run(Home(elsewhere / "n"), "audit", "verify", str(elsewhere / "2.tlog-proof"),
               "--key", str(elsewhere / "journal.pub")).out  # fmt: skip
    assert "holds: entry 2 is in the journal, unchanged" in text


def test_it_is_printed_where_no_file_is_named(home: Home, elsewhere: Path):
    printed = run(home, "audit", "prove", "2")
    (elsewhere / "3.tlog-proof").write_text(printed.out, "utf-8")
    again = verified(elsewhere, "--key", str(elsewhere / "journal.pub"), name="3.tlog-proof")
    assert again.code == 0, again
    # In its own home it needs no key.
    assert run(home, "audit", "verify", str(elsewhere / "3.tlog-proof")).code == 0
    assert run(home, "audit", "prove", "2", "--json").json["proof"].startswith("c2sp.org/tlog-proof@v1\n")


@pytest.mark.parametrize("attack", ["flipped", "cut", "swapped", "other key", "empty"])
def test_a_forged_proof_ends_with_8_and_says_why(home: Home, elsewhere: Path, attack: str):
    path, key = elsewhere / "2.tlog-proof", elsewhere / "journal.pub"
    data = path.read_bytes()
    match attack:
        case "flipped":
            path.write_bytes(data[:60] + bytes([data[60] ^ 1]) + data[61:])
            words = "path does not lead"
        case "cut":
            path.write_bytes(data[:-20])
            words = "not a signed note"
        case "swapped":
            other = run(home, "audit", "prove", "3").out.split("\n")
            lines = data.decode().split("\n")
            path.write_text("\n".join([lines[0], other[1], *lines[2:]]))
            words = "path does not lead"
        case "other key":
            other_home = make_home(elsewhere / "other")
            assert run(other_home, "audit", "find").code == 0
            key = other_home.keys / "journal.pub"
            words = "another key than the journal's"
        case "empty":
            path.write_bytes(b"")
            words = "not a proof"
    ended = verified(elsewhere, "--key", str(key))
    assert ended.code == exit_codes.JOURNAL_BAD, ended
    assert ended.json["ok"] is False
    assert words in ended.json["error"]["message"]
    assert "proves nothing" in ended.json["error"]["message"]


def test_what_cannot_be_checked_is_bad_input(home: Home, elsewhere: Path):
    proof, key = str(elsewhere / "2.tlog-proof"), str(elsewhere / "journal.pub")
    assert "by --key" in verified(elsewhere).json["error"]["message"]
    for words, told in (
        (("--key", proof), "is not the public key"),
        (("--key", str(elsewhere / "none")), "is not the public key"),
        (("--key", key, "--checkpoint", proof), "--checkpoint"),
    ):
        ended = verified(elsewhere, *words)
        assert ended.code == exit_codes.BAD_INPUT, ended
        assert told in ended.json["error"]["message"]
    assert verified(elsewhere, "--key", key, name="none").code == exit_codes.BAD_INPUT
    assert run(home, "audit", "verify", "--key", key).code == exit_codes.BAD_INPUT
    (elsewhere / "large").write_bytes(bytes(13 << 20))
    assert "too large" in verified(elsewhere, "--key", key, name="large").json["error"]["message"]


def test_no_proof_is_written_over_and_none_of_what_there_is_not(home: Home, elsewhere: Path):
    before = (elsewhere / "2.tlog-proof").read_bytes()
    words = ("audit", "prove", "3", "--output", str(elsewhere / "2.tlog-proof"))
    assert run(home, *words).code == exit_codes.BAD_INPUT
    assert (elsewhere / "2.tlog-proof").read_bytes() == before
    assert run(home, *words, "--force").code == 0
    none = run(home, "audit", "prove", "999999", "--output", str(elsewhere / "none"), "--json")
    assert (none.code, none.json["error"]["code"]) == (exit_codes.BAD_INPUT, "not_found")
    assert "none" not in os.listdir(elsewhere)

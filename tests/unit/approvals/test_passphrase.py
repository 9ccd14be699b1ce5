"""The passphrase of an operator's key is changed whole or not at all, and the key stays the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.approvals.operator_keys import (
    SHORTEST_PASSPHRASE,
    change_passphrase,
    create_operator_key,
    list_operator_keys,
    load_operator_key,
)
from core.errors import BadInput
from core.home import Home
from core.statements import verify_signature

OLD, NEW = "the old passphrase", "the new passphrase"
ROOT = Path(__file__).parents[3]
# Ends itself by SIGKILL before its N-th touch of a file, from the beginning of the change on.
VICTIM = """
import os, signal, sys
from pathlib import Path
from core.approvals import operator_keys
from core.home import Home

home, last = Home(Path(sys.argv[1])), int(sys.argv[2])
operator_keys.load_operator_key(home, "anna", sys.argv[3])
touches = 0

def touch():
    global touches
    touches += 1
    if touches == last:
        os.kill(os.getpid(), signal.SIGKILL)

def before(event, arguments):
    if event in ("open", "os.rename", "os.remove", "os.link"):
        touch()

fsync = os.fsync

def synced(handle):
    touch()
    fsync(handle)
    touch()

os.fsync = synced
sys.addaudithook(before)
operator_keys.change_passphrase(home, "anna", sys.argv[3], sys.argv[4])
os._exit(0)
"""


def opens(home: Home) -> str:
    """The passphrase that the key opens with, one of the two."""
    found = []
    for passphrase in (OLD, NEW):
        try:
            load_operator_key(home, "anna", passphrase)
        except BadInput:
            continue
        found.append(passphrase)
    [one] = found
    return one


def test_the_same_key_opens_with_the_new_passphrase_only(home: Home):
    before = create_operator_key(home, "anna", OLD)
    signed = before.sign_identity("home", "challenge")
    after = change_passphrase(home, "anna", OLD, NEW)
    assert opens(home) == NEW
    assert (after.public_key, after.has_passphrase) == (before.public_key, True)
    assert load_operator_key(home, "anna", NEW).sign_identity("home", "challenge") == signed
    assert verify_signature(signed.identity, signed.signature, after.public_key)
    assert [(file.name, file.public_key) for file in list_operator_keys(home)] == [
        ("anna", before.public_key)
    ]
    path = home.keys / "operator-anna.pem"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(home.keys)) == ["operator-anna.pem", "operator-anna.pub"]
    for passphrase in (OLD, NEW):
        assert passphrase.encode() not in path.read_bytes()


def test_a_key_without_a_passphrase_gets_one(home: Home):
    before = create_operator_key(home, "anna", None)
    assert change_passphrase(home, "anna", None, NEW).public_key == before.public_key
    assert list_operator_keys(home)[0].has_passphrase
    assert opens(home) == NEW


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("a wrong passphrase", NEW, "does not open"),
        (None, NEW, "it was not given"),
        (OLD, "x" * (SHORTEST_PASSPHRASE - 1), "at least 10"),
        (OLD, "x" * 1024, "at most 1,023"),
    ],
)
def test_what_is_refused_changes_nothing(home: Home, old: str | None, new: str, words: str):
    create_operator_key(home, "anna", OLD)
    path = home.keys / "operator-anna.pem"
    before = path.read_bytes()
    with pytest.raises(BadInput, match=words) as refused:
        change_passphrase(home, "anna", old, new)
    assert path.read_bytes() == before
    for secret in (old, new):
        assert secret is None or secret not in refused.value.message


def test_no_name_leads_out_of_the_home(home: Home):
    with pytest.raises(BadInput, match="cannot be an operator's name"):
        change_passphrase(home, "../anna", None, NEW)


def test_a_link_is_replaced_and_what_it_leads_to_is_not_written(tmp_path: Path):
    home = Home(tmp_path / "home").create()
    create_operator_key(home, "anna", OLD)
    path = home.keys / "operator-anna.pem"
    kept = tmp_path / "elsewhere.pem"
    path.rename(kept)
    path.symlink_to(kept)
    before = kept.read_bytes()
    change_passphrase(home, "anna", OLD, NEW)
    assert kept.read_bytes() == before
    assert not path.is_symlink()
    assert opens(home) == NEW


def test_a_kill_at_any_moment_leaves_the_old_key_or_the_new_one(tmp_path: Path):
    home = Home(tmp_path / "home").create()
    public = create_operator_key(home, "anna", OLD).public_key
    path = home.keys / "operator-anna.pem"
    left, touch = [], 0
    while True:
        touch += 1
        now = opens(home)
        words = [sys.executable, "-c", VICTIM, str(home.path), str(touch), now, NEW if now == OLD else OLD]
        code = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False).returncode
        after = opens(home)
        assert load_operator_key(home, "anna", after).public_key == public
        assert path.stat().st_mode & 0o777 == 0o600
        assert [file.name for file in list_operator_keys(home)] == ["anna"]
        if code == 0:
            break
        assert code == -signal.SIGKILL
        left.append(after == now)
    # Before the rename the old one, after it the new one.
    assert left == sorted(left, reverse=True)
    assert {True, False} == set(left)
    assert after != now

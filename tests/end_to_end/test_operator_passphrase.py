"""`operators passphrase`: at a terminal without echo, or by files; nothing of it reaches journal or log."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.approvals.operator_keys import create_operator_key, load_operator_key
from core.errors import BadInput
from core.home import Home
from core.service import exit_codes
from tests.fakes.program import Terminal, ask, make_home, run
from tests.fakes.service_process import served

OLD, NEW = "the old passphrase", "the new passphrase"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = make_home(tmp_path / "home")
    create_operator_key(home, "anna", OLD)
    return home


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    for name, passphrase in (("old", OLD), ("new", NEW)):
        (tmp_path / name).write_text(f"{passphrase}\n")
    return str(tmp_path / "old"), str(tmp_path / "new")


def typed(home: Home, *answers: tuple[str, str]) -> tuple[int, str]:
    terminal = Terminal(home, "operators", "passphrase", "anna", warm=True)
    try:
        for question, answer in answers:
            terminal.sees(question)
            terminal.types(f"{answer}\n")
        return terminal.ends(), terminal.seen
    finally:
        terminal.leave()


def test_a_terminal_asks_three_times_and_shows_no_passphrase(home: Home):
    code, seen = typed(
        home, ("Passphrase of anna: ", OLD), ("New passphrase of anna: ", NEW), ("Once more: ", NEW)
    )
    assert code == 0, seen
    assert "it is the same key" in seen
    assert OLD not in seen
    assert NEW not in seen
    load_operator_key(home, "anna", NEW)


def test_a_wrong_or_different_answer_changes_nothing(home: Home):
    code, seen = typed(home, ("Passphrase of anna: ", "something else"))
    assert code == exit_codes.BAD_INPUT
    assert "New passphrase" not in seen
    code, seen = typed(
        home, ("Passphrase of anna: ", OLD), ("New passphrase of anna: ", NEW), ("Once more: ", NEW + "x")
    )
    assert code == exit_codes.BAD_INPUT
    assert "not the same" in seen
    load_operator_key(home, "anna", OLD)
    with pytest.raises(BadInput):
        load_operator_key(home, "anna", NEW)


def test_files_do_without_a_terminal(home: Home, files: tuple[str, str], tmp_path: Path):
    old, new = files
    words = ("operators", "passphrase", "anna", "--passphrase-file", old)
    alone = run(home, *words)
    assert alone.code == exit_codes.BAD_INPUT
    assert "--new-passphrase-file" in alone.err
    none = run(home, "operators", "passphrase", "ana", "--json")
    assert "Did you mean anna" in none.json["error"]["message"] or "anna" in none.json["error"]["message"]
    done = run(home, *words, "--new-passphrase-file", new, "--json")
    assert done.code == 0, done
    assert done.json == {
        "changed": "anna",
        "public_key": load_operator_key(home, "anna", NEW).public_key,
        "had_passphrase": True,
    }
    again = run(home, *words, "--new-passphrase-file", new)
    assert again.code == exit_codes.BAD_INPUT
    assert "passphrase is wrong" in again.err


def test_what_was_signed_before_holds_and_the_key_signs_on(home: Home, files: tuple[str, str]):
    old, new = files
    with served(home):
        first, _ = ask(home)
        signed = run(home, "approvals", "approve", first, "--passphrase-file", old)
        assert signed.code == 0, signed
        changed = run(
            home, "operators", "passphrase", "anna", "--passphrase-file", old, "--new-passphrase-file", new
        )
        assert changed.code == 0, changed
        second, _ = ask(home)
        refused = run(home, "approvals", "approve", second, "--passphrase-file", old)
        assert refused.code == exit_codes.BAD_INPUT
        assert run(home, "approvals", "approve", second, "--passphrase-file", new).code == 0
    # The service starts again on what the key signed before and after.
    with served(home):
        assert [one["name"] for one in run(home, "operators", "list", "--json").json["operators"]] == ["anna"]
    for path in home.path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert OLD.encode() not in data, path
            assert NEW.encode() not in data, path

"""`audit export`: from the running service, to a file or standard output, whole or not at all."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.audit.merkle import leaf_hash
from core.home import Home
from core.service import exit_codes
from tests.fakes.program import Terminal, environment, make_home, program, run
from tests.fakes.service_process import served

MANY = 60_000
SECRET = "kept-from-every-journal"
BATCH = """
name: ask
inputs:
  token: {type: string, secret: true}
steps:
  - {id: echo, tool: shell_execute, with: {command: "echo a line with ${{ inputs.token }}"}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path / "home")


@pytest.fixture(scope="module")
def long_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A served home with a journal that takes many pages."""
    home = make_home(tmp_path_factory.mktemp("long") / "home")
    assert run(home, "audit", "find").code == 0
    key = load_pem_private_key((home.keys / "journal.key").read_bytes(), None)

    async def fill() -> None:
        journal = await Journal.open(home.path, key, "quarterdeck")
        for start in range(0, MANY, 1000):
            await journal.append_many(
                [
                    NewEntry(kind=Kind.PROGRESS_REPORTED, actor="device:x", body={"number": number})
                    for number in range(start, start + 1000)
                ]
            )
        await journal.close()

    asyncio.run(fill())
    with served(home):
        yield home


def leaves(home: Home) -> list[bytes]:
    with closing(sqlite3.connect(home.path / "journal.db")) as database:
        return [leaf for (leaf,) in database.execute("SELECT leaf FROM entries ORDER BY seq")]


def test_lines_hash_to_the_leaves_of_the_journal(long_home: Home, tmp_path: Path):
    path = tmp_path / "journal.jsonl"
    ended = run(long_home, "audit", "export", "--output", str(path), "--json")
    assert ended.code == 0, ended
    lines = path.read_bytes().splitlines()
    assert len(lines) == ended.json["entries"] == ended.json["through"] > MANY
    assert [leaf_hash(line) for line in lines] == leaves(long_home)[: len(lines)]
    assert ended.json["checkpoint"].splitlines()[1] == str(len(lines))
    assert os.listdir(tmp_path) == ["journal.jsonl"]


def test_a_file_is_written_over_only_when_it_is_said(long_home: Home, tmp_path: Path):
    path = tmp_path / "found.csv"
    path.write_text("kept")
    words = (
        "audit",
        "export",
        "kind:progress_reported",
        "seq:..200",
        "--format",
        "csv",
        "--output",
        str(path),
    )
    refused = run(long_home, *words)
    assert (refused.code, path.read_text()) == (exit_codes.BAD_INPUT, "kept")
    assert "there already" in refused.err
    ended = run(long_home, *words, "--force")
    assert ended.code == 0, ended
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert f"{len(rows)}" in ended.out
    assert {row["kind"] for row in rows} == {"progress_reported"}
    assert run(long_home, *words, "--replace").code == 0


def test_standard_output_has_the_lines_alone(long_home: Home):
    words = program(long_home, "audit", "export", "seq:5..9", "--output", "-")
    # In a locale that has no ü, the bytes are still those that are hashed.
    done = subprocess.run(
        words,
        env={**environment(), "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == [5, 6, 7, 8, 9]
    assert [leaf_hash(line) for line in done.stdout.splitlines()] == leaves(long_home)[4:9]
    assert b"5 entries" in done.stderr
    both = run(long_home, "audit", "export", "--output", "-", "--json")
    assert both.code == exit_codes.BAD_INPUT
    assert "both be on standard output" in both.json["error"]["message"]


def test_a_reader_that_has_seen_enough_is_no_fault(long_home: Home):
    line = " ".join(program(long_home, "audit", "export", "--output", "-")) + " | head -n 2"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done
    assert len(done.stdout.splitlines()) == 2
    assert b"Traceback" not in done.stderr


def test_a_full_standard_output_is_a_fault(long_home: Home):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            program(long_home, "audit", "export", "--output", "-"),
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == exit_codes.FAULT
    assert b"could not be written: No space left" in done.stderr
    assert b"Traceback" not in done.stderr


def test_an_interrupted_export_leaves_nothing(long_home: Home, tmp_path: Path):
    path = tmp_path / "journal.jsonl"
    terminal = Terminal(long_home, "audit", "export", "--output", str(path))
    try:
        terminal.sees("Export: ")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.ends() == exit_codes.INTERRUPTED, terminal.seen
    finally:
        terminal.leave()
    assert not os.listdir(tmp_path)


def test_no_text_of_an_entry_writes_to_a_terminal(home: Home):
    asked = run(home, "call", "this-computer", "shell_execute", "command=echo \x9b2J\u202e", "--wait", "0")
    assert asked.code != 0
    terminal = Terminal(home, "audit", "export", "tool:shell_execute", "--output", "-", warm=True)
    try:
        assert terminal.ends() == 0, terminal.seen
    finally:
        terminal.leave()
    assert "U+202E" in terminal.seen
    assert "\u202e" not in terminal.seen
    assert "\x9b" not in terminal.seen


def test_what_the_journal_masks_stays_masked(home: Home, tmp_path: Path):
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "ask.yaml").write_text(BATCH)
    words = ("run", str(tmp_path / "ask.yaml"), "--input", f"token=@{tmp_path / 'token'}", "--wait", "0")
    assert run(home, *words).code == exit_codes.NOT_APPROVED
    for wanted in ("jsonl", "csv"):
        path = tmp_path / f"out.{wanted}"
        assert run(home, "audit", "export", "--format", wanted, "--output", str(path)).code == 0
        text = path.read_text("utf-8")
        assert "a line with" in text
        assert SECRET not in text

"""Bytes that are no text, and numbers that no parser reads, at every door of the program: plain words."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from core.home import Home
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import environment, make_home, program, run

LONG = b"9" * 5_000
BATCH = b"name: x\ntargets: 'name:this-computer'\nsteps:\n- {id: a, tool: list_processes, with: {n: %b}}\n"
STEP = b'{"name":"x","targets":"name:this-computer","steps":[{"id":"a","tool":"t","with":{"p":"\\ud83d"}}]}'
HEAD = b"name: x\ntargets: 'name:this-computer'\n"
INPUT = HEAD + b"inputs: {n: {type: integer}}\nsteps:\n- {id: a, tool: screenshot}\n"
RULE = b'[[rule]]\nid = "a"\ndecision = "deny"\ntool = "x"\n[rule.parameters.a]\nmin = %b\n'
# Words of Python's own, which say nothing to a person.
JARGON = ("Traceback", "codec", "surrogates", "int_max_str_digits", "ordinal", "UnicodeEncodeError")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path / "home")


def told(code: int, text: str, *words: str) -> None:
    assert code == 2, text
    assert not [word for word in JARGON if word in text], text
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("command", "data", "says"),
    [
        ("run {}", b"name: x\xff\n", "UTF-8"),
        ("run {}", BATCH % LONG, "too long"),
        ("run {}", STEP, "not valid Unicode"),
        ("call this-computer read_file file_path=@{}", b"\xff", "UTF-8"),
        ("call this-computer read_file file_path:=@{}", b'"\xff"', "UTF-8"),
        ("call this-computer read_file file_path:=@{}", b'"\\udfff"', "not valid Unicode"),
        ("call this-computer read_file file_path:=@{}", LONG, "4,300 digits"),
        ("policy check {}", b"# \xff\n", "UTF-8"),
        ("policy check {}", RULE % LONG, "4,300 digits"),
        ("gateway --as claude --token-file {}", b"claude.\xff", "not a token"),
    ],
)
def test_a_file_that_is_no_text_is_refused_in_plain_words(
    home: Home, tmp_path: Path, command: str, data: bytes, says: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    file.chmod(0o600)
    done = run(home, *command.format(file).split())
    told(done.code, done.err, says)


@pytest.mark.parametrize(
    "words", [["call", "x\udcff", "y"], ["search", "\udcff"], ["audit", "find", "\udcff"]]
)
def test_a_word_of_the_command_line_that_is_no_text_is_refused_in_plain_words(
    home: Home, words: list[str]
) -> None:
    done = run(home, *words)
    told(done.code, done.err, "is not text in UTF-8")


@pytest.mark.parametrize(("given", "says"), [(b"\xff", "not text in UTF-8"), (LONG, "4,300 digits")])
def test_standard_input_that_is_no_text_is_refused_in_plain_words(
    home: Home, tmp_path: Path, given: bytes, says: str
) -> None:
    file = tmp_path / "batch.yaml"
    file.write_bytes(INPUT)
    done = _with(home, "run", str(file), "--input-stdin", "n", given=given)
    told(done.returncode, done.stderr.decode(), says)


def test_a_token_in_the_environment_that_is_no_text_is_refused_in_plain_words(home: Home) -> None:
    done = _with(home, "gateway", "--as", "claude", token=b"claude.\xff")
    told(done.returncode, done.stderr.decode(), "not a token")


def _policy(home: Home) -> Path:
    return home.policy


def _settings(home: Home) -> Path:
    return home.path / "settings.toml"


@pytest.mark.parametrize("data", [b"# \xff\n", b"x = " + LONG, b"x = " + b"[" * 5_000])
@pytest.mark.parametrize("place", [_policy, _settings])
def test_a_file_of_the_home_that_cannot_be_read_ends_nothing_in_a_traceback(
    home: Home, place: Callable[[Home], Path], data: bytes
) -> None:
    place(home).write_bytes(data)
    done = run(home, "devices")
    assert not [word for word in JARGON if word in done.err], done
    if place is _settings:
        told(done.code, done.err, "settings.toml cannot be read")
    else:
        # A policy that cannot be read has everything ask.
        assert (done.code, "this-computer" in done.out) == (0, True), done


@pytest.mark.parametrize("data", [b"# \xff\n", b"x = " + LONG, b"x = " + b"[" * 5_000])
def test_a_device_file_that_cannot_be_read_is_named(home: Home, data: bytes) -> None:
    state = home.path / "this-computer"
    state.mkdir(exist_ok=True)
    (state / "device.toml").write_bytes(data)
    done = run(home, "devices")
    assert not [word for word in JARGON if word in done.out + done.err], done
    assert "this-computer" in done.out + done.err


def _with(
    home: Home, *words: str, given: bytes = b"", token: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    env = {**{name.encode(): os.fsencode(value) for name, value in environment().items()}}
    return subprocess.run(
        program(home, *words),
        env=env | ({b"QUARTERDECK_TOKEN": token} if token else {}),
        input=given,
        capture_output=True,
        timeout=PATIENCE_S * 3,
        check=False,
    )

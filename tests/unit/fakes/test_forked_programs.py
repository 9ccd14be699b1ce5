"""A fork of a loaded program is what a start of it is: a process with everything of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import Terminal, environment, make_home
from tests.fakes.run_size import spread
from tests.fakes.warm import COMMANDS, DEVICES, SERVICES, Warm

STATUS = ["service", "status", "--json"]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    for program in (COMMANDS, SERVICES, DEVICES):
        program.loaded_in(environment())


def test_it_says_what_a_start_says_with_the_same_code(tmp_path: Path):
    for words in spread([["nonsense"], ["version"], ["call"], ["audit", "verify"]], 2):
        started = subprocess.run(
            [sys.executable, "-m", "app", "--home", "a home", *words],
            env={**environment(), "COLUMNS": "80"},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        forked = COMMANDS.run(["--home", "a home", *words], {**environment(), "COLUMNS": "80"}, tmp_path)
        assert forked == (started.returncode, started.stdout, started.stderr)


def test_environment_and_folder_are_the_ones_given_and_nothing_of_the_last_stays(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        here = {**environment(), "QUARTERDECK_HOME": str(tmp_path / name / "by name")}
        for words, place in ((STATUS, "by name"), (["--home", "by word", *STATUS], "by word")):
            code, out, err = COMMANDS.run(words, here, tmp_path / name)
            assert (code, err) == (0, "")
            assert json.loads(out)["home"] == str(tmp_path / name / place)


def test_on_a_terminal_it_shows_what_a_start_shows_there(tmp_path: Path):
    home = make_home(tmp_path / "home")
    shown = []
    for warm in (False, True):
        terminal = Terminal(home, "service", "status", warm=warm)
        assert terminal.ends() == 0
        shown.append(terminal.seen)
    assert shown[0] == shown[1] != ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_as_it_ends_any(tmp_path: Path, number: int):
    words = ["--connect", "ws://127.0.0.1:9/ws", "--name", "x", "--state", str(tmp_path), "--token-stdin"]
    # It waits for a token that never comes, with no handler of its own yet.
    process = DEVICES.start(words, environment(), tmp_path, held=True)
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == -number
    process.kill()


def test_what_only_a_start_reads_is_not_pretended():
    other = {**environment(), "PYTHONIOENCODING": "ascii"}
    assert COMMANDS.suits(environment())
    assert not COMMANDS.suits(other)
    once = Warm("app")
    once.loaded_in(environment())
    once.loaded_in(other)
    assert once.suits(other)
    once.close()


ENDING = """
import atexit, threading
from tests.fakes.warm import end
atexit.register(print, "exit function")
threading.Thread(target=lambda: (threading.main_thread().join(), print("thread"))).start()
print("main")
{}
"""


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "nobody reads"])
def test_it_ends_as_python_does(is_read: bool):
    ends = []
    for line in ("end(3)", "raise SystemExit(3)"):
        process = subprocess.Popen(
            [sys.executable, "-c", ENDING.format(line)],
            # What is printed waits for the end.
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        if not is_read:
            process.stdout.close()
        said = process.stdout.read() if is_read else b""
        ends.append((process.wait(PATIENCE_S), said))
        process.stdout.close()
    assert ends[0] == ends[1]
    assert ends[0] == ((3, b"main\nthread\nexit function\n") if is_read else (120, b""))

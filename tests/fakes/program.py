"""The program itself, as a test drives it: one command at a time, or on a terminal of its own."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.home import Home
from tests.fakes.patience import PATIENCE_S
from tests.fakes.warm import COMMANDS, Fork

ROOT = Path(__file__).resolve().parents[2]
LINE = "printf hello"
CALL = ("call", "this-computer", "shell_execute", f"command={LINE}")


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def program(home: Home, *words: str) -> list[str]:
    return [sys.executable, "-m", "app", "--home", str(home.path), *words]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": ""}


def run(home: Home, *words: str, **options: Any) -> Ended:
    """One command to its end, nothing on its standard input but an `input`; in a fork of a loaded program
    unless `options` say how it is to be started."""
    if not options and COMMANDS.suits(environment()):
        return Ended(*COMMANDS.run(program(home, *words)[3:], environment(), Path.cwd()))
    done = subprocess.run(
        program(home, *words),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **(options if "input" in options else {"stdin": subprocess.DEVNULL, **options}),
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def make_home(path: Path) -> Home:
    home = Home(path).create()
    # The device's process is another story's; in here it would only make each command slower.
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    return home


def ask(home: Home) -> tuple[str, str]:
    """Ask for a command that needs approval; its request and run."""
    asked = run(home, *CALL, "--json")
    assert asked.code == 10, asked
    return asked.json["approval"], asked.json["run"]


def until(look: Callable[[], Any], wanted: Callable[[Any], Any], timeout: float = 30) -> Any:
    """Ask the program again until it answers as wanted; each look is a whole process, so none is in haste."""
    deadline = time.monotonic() + timeout
    while not wanted(seen := look()):
        assert time.monotonic() < deadline, seen
    return seen


class Terminal:
    """The program on a terminal of its own: what it shows, and what is typed."""

    def __init__(self, home: Home, *words: str, warm: bool = False) -> None:
        """`warm`: forked from a program that is loaded, where neither its start nor its signals matter."""
        self._master, slave = pty.openpty()
        self.process: subprocess.Popen[bytes] | Fork
        if warm and COMMANDS.suits(environment()):
            self.process = COMMANDS.start_on(slave, program(home, *words)[3:], environment(), Path.cwd())
        else:
            self.process = subprocess.Popen(
                program(home, *words),
                env=environment(),
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
            )
        os.close(slave)
        self.seen = ""

    def sees(self, text: str, timeout: float = 30) -> None:
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} was not shown: {self.seen}"
            data = self._read()
            assert data, f"{text!r} was not shown: {self.seen}"

    def _read(self) -> bytes:
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return b""
        self.seen += data.decode("utf-8", "replace")
        return data

    def types(self, text: str) -> None:
        os.write(self._master, text.encode())

    def leave(self) -> None:
        """Whatever a failed test has left running ends with it."""
        if self.process.poll() is None:
            self.process.kill()
            self.ends()

    def ends(self) -> int:
        reader = threading.Thread(target=self._drain)
        reader.start()
        code = self.process.wait(timeout=PATIENCE_S)
        reader.join(timeout=10)
        os.close(self._master)
        return code

    def _drain(self) -> None:
        while self._read():
            pass

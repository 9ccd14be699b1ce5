"""Ctrl+C at any moment of a command: it ends with its exit code, without a traceback, not by the signal.

The command presses at itself, so that the moment is the same on a machine that is slow.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.home import Home
from core.service import exit_codes
from core.service.rpc.server import ControlServer
from tests.fakes.control_socket import HERE, FakeHost

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process there cannot be sent Ctrl+C alone")

AT_AN_IMPORT = '''
import os, signal, sys
moment = sys.argv.pop(1)

class Presser:
    """A finder of modules that finds none."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        global moment
        if name == moment:
            moment = ""
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Presser)
from app.__main__ import main
code = main(sys.argv[1:])
assert not moment, f"{moment} is not imported by this command"
sys.exit(code)
'''
# Presses at a call of a Python function, by its number since the start; says how many there were.
AT_A_CALL = """
import os, signal, sys
from app.__main__ import main
moment = int(sys.argv.pop(1))
calls = 0

def press(frame, event, _argument, kill=os.kill, me=os.getpid(), number=signal.SIGINT):
    global calls
    if event == "call":
        calls += 1
        if calls == moment:
            kill(me, number)

sys.setprofile(press)
code = main(sys.argv[1:])
if not moment:
    sys.setprofile(None)
    print(calls, file=sys.stderr)
sys.exit(code)
"""
# Presses when the interpreter frees the last objects, after it has given up its handlers of signals.
AT_THE_VERY_END = """
import os, signal, sys
from app.__main__ import main

class Last:
    def __init__(self):
        self.press = os.kill, os.getpid(), signal.SIGINT

    def __del__(self):
        kill, *whom = self.press
        kill(*whom)

sys.last = Last()
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Ended:
    """How a command has ended."""

    code: int | None
    out: str
    err: str

    def is_interrupted(self) -> bool:
        """Whether it has ended as an interrupted command does, whatever it had printed by then."""
        return self.code == exit_codes.INTERRUPTED and self.err in ("", "Interrupted.\n")


async def ended(program: str, *words: str) -> Ended:
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, *words),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await started.communicate()
    return Ended(started.returncode, out.decode(), err.decode())


@pytest.fixture
async def devices(tmp_path: Path) -> AsyncIterator[tuple[str, ...]]:
    """The words of a command whose service runs already."""
    home = Home(tmp_path / "served").create()
    server = ControlServer(FakeHost(), home)
    await server.open()
    yield ("--home", str(home.path), "devices")
    await server.close()


@pytest.mark.parametrize(
    "moment",
    [
        "core.cli",
        "typer.models",
        "pydantic",
        "core.cli.output",
        "core.cli.app",
        "core.cli.devices",
        "core.service.rpc.client",
        "core.service.service",
    ],
)
async def test_ctrl_c_while_a_command_starts_ends_it_without_a_traceback(tmp_path: Path, moment: str) -> None:
    home = Home(tmp_path / "home").create()
    seen = await ended(AT_AN_IMPORT, moment, "--home", str(home.path), "devices")
    assert seen.is_interrupted(), seen
    assert seen.out == ""


async def test_ctrl_c_at_any_call_of_a_command_ends_it_without_a_traceback(devices: tuple[str, ...]) -> None:
    whole = await ended(AT_A_CALL, "0", *devices)
    assert (whole.code, HERE in whole.out) == (exit_codes.DONE, True), whole
    calls = int(whole.err)
    # The second call is the first that the program makes. The others are before, in and after the work.
    for moment in (2, 5, 10, 20, *(calls * part // 16 for part in (1, 5, 10, 13, 14, 15)), calls - 25):
        seen = await ended(AT_A_CALL, str(moment), *devices)
        assert seen.is_interrupted(), (moment, calls, seen)


async def test_ctrl_c_after_the_answer_leaves_a_command_its_exit_code(devices: tuple[str, ...]) -> None:
    seen = await ended(AT_THE_VERY_END, *devices)
    assert (seen.code, HERE in seen.out, seen.err) == (exit_codes.DONE, True, ""), seen

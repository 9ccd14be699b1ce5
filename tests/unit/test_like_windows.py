"""The core where only what Windows has is there: what is imported, and what is offered and said then."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.fakes.like_windows import modules_of_core, run_like_windows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux is made like Windows")
# The folder of Linux' desktop is marked by its name: its libraries are installed here, and not on Windows.
DESKTOP = ".desktop.linux"
SOURCE = """
import contextlib, ctypes, dataclasses, importlib, io, json, os, signal, socket, subprocess, tempfile
from pathlib import Path
from types import SimpleNamespace

def problem_of(name):
    try:
        importlib.import_module(name)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"

def printed_by(program, *words):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            program(list(words))
        except SystemExit:
            pass
    return printed.getvalue()

found = {"imports": {name: problem_of(name) for name in IMPORTED}}
found["others"] = {name: problem_of(name) for name in OTHERS}
modules = ("resource", "fcntl", "pwd", "grp", "termios", "tty", "pty")
left = [name for name in modules if problem_of(name) is None]
left += [name for name in ("O_NONBLOCK", "O_CLOEXEC", "geteuid", "fork", "set_blocking") if hasattr(os, name)]
left += [name for name in ("SIGKILL", "SIGHUP") if hasattr(signal, name)]
left += [name for name in ("AF_UNIX", "send_fds") if hasattr(socket, name)]
with contextlib.suppress(TypeError):
    ctypes.CDLL(None)
    left.append("CDLL")
found["left"] = left

from core.cli.app import run
from core.device.__main__ import main
found["help"] = [printed_by(main, "--help"), printed_by(run, "--help")]

from core.device.config import DeviceConfig
from core.device.tools import read_shell
offered, unavailable = read_shell.offer(SimpleNamespace(config=DeviceConfig()))
found["sandbox"] = [len(offered), *(dataclasses.asdict(row) for row in unavailable)]

from core.home import Home
from core.service import control
class Started:
    def __init__(self, command, **options):
        found["flags"] = options["creationflags"]
subprocess.Popen = Started
control._spawn(Home(Path(tempfile.mkdtemp())), False, "cli")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What one such process found; it takes seconds, since it imports every library first."""
    known = modules_of_core("win32")
    # First the programs, in the order in which they import.
    programs = ["core.device", "core.device.__main__", "core.cli.app", "core.service.__main__"]
    imported = [*programs, *(name for name, is_for_windows in known.items() if is_for_windows)]
    others = [name for name, is_for_windows in known.items() if not is_for_windows and DESKTOP not in name]
    done = run_like_windows(f"IMPORTED, OTHERS = {imported!r}, {others!r}\n{SOURCE}")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_every_module_that_is_not_marked_for_another_system_imports(found: dict[str, Any]):
    assert {name: problem for name, problem in found["imports"].items() if problem} == {}
    assert {"core.device", "core.cli.prompt", "core.service.control", "core.files"} <= found["imports"].keys()


def test_a_module_is_marked_for_other_systems_only_where_it_needs_one(found: dict[str, Any]):
    assert "core.device.sandbox.sandbox_init" in found["others"]
    assert [name for name, problem in found["others"].items() if problem is None] == []


def test_what_only_posix_has_was_gone(found: dict[str, Any]):
    """Otherwise the imports would prove nothing."""
    assert found["left"] == []


def test_both_programs_say_how_they_are_called(found: dict[str, Any]):
    device, console = found["help"]
    assert "--pair" in device
    assert "devices" in console


def test_the_read_only_shell_advises_nothing_that_does_not_exist_there(found: dict[str, Any]):
    offered, row = found["sandbox"]
    assert offered == 0
    assert row["tool"] == "shell_execute_read"
    assert "not for Windows" in row["reason"]
    assert "nstall" not in row["how_to_fix"]


def test_a_service_gets_a_console_of_its_own(found: dict[str, Any]):
    """Else Ctrl+C at the terminal that started it would reach it, and that terminal's end would end it."""
    # CREATE_NEW_PROCESS_GROUP and CREATE_NO_WINDOW (CreateProcess, Process Creation Flags).
    assert found["flags"] == 0x00000200 | 0x08000000

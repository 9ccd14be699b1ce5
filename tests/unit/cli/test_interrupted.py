"""Ctrl+C in the first moments of a command: it ends with its exit code and without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.home import Home
from core.service import exit_codes
from tests.fakes.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
LOADED = "import time:"


@pytest.mark.skipif(sys.platform == "win32", reason="a process there cannot be sent Ctrl+C alone")
@pytest.mark.parametrize(
    "moment",
    [
        "core.cli",
        "typer.models",
        "pydantic",
        "core.cli.output",
        "core.cli.app",
        "core.cli.certificates",
        "core.service.rpc.client",
        "core.service.service",
    ],
)
def test_ctrl_c_while_a_command_starts_ends_it_without_a_traceback(tmp_path: Path, moment: str) -> None:
    home = Home(tmp_path / "home").create()
    # The interpreter itself says which module it has just loaded: the moments of a start, in order.
    starting = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "app", "--home", str(home.path), "devices"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said: list[str] = []
    with starting:
        assert starting.stderr is not None
        for line in starting.stderr:
            if not line.startswith(LOADED):
                said.append(line)
            elif line.rsplit("|", 1)[1].strip() == moment:
                starting.send_signal(signal.SIGINT)
                break
        else:
            pytest.fail(f"{moment} is not loaded by this command")
        out, rest = starting.communicate(timeout=PATIENCE_S)
    said += [line for line in rest.splitlines(keepends=True) if not line.startswith(LOADED)]
    assert "".join(said) in ("", "Interrupted.\n")
    assert (starting.returncode, out) == (exit_codes.INTERRUPTED, "")

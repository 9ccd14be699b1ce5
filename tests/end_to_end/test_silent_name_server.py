"""A device whose name server is a black hole: a real UDP socket, in a network namespace of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.device.client import Ending
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import ROOT, environment

UNSHARE = [shutil.which("unshare") or "unshare", "-rmn"]


def can_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_unshare(), reason="no namespaces may be made here (unshare -rmn)")
def test_it_is_the_look_up_that_is_named_and_not_the_console(tmp_path: Path) -> None:
    config = tmp_path / "device.toml"
    config.write_text(f'roots = ["{tmp_path}"]\n[link]\nconnect_timeout_s = 1\n')
    client = [sys.executable, "-m", "core.device", "--connect", "wss://console.example:5000/ws", "--once"]
    client += ["--state", str(tmp_path / "state"), "--config", str(config)]
    ended = subprocess.run(
        [*UNSHARE, sys.executable, "-m", "tests.fakes.silent_name_server", str(tmp_path), *client],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert ended.returncode == Ending.UNKNOWN_HOST, ended.stderr
    assert "no name server answered within 1 s (DNS of this machine)" in ended.stderr
    assert int((tmp_path / "questions").read_text()) > 0

"""The device client as a service of its user, as far as this machine can check it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from core.device.client import Ending

PACKAGING = Path(__file__).resolve().parents[3] / "packaging"
SERVICE = PACKAGING / "quarterdeck-device.service"
DESKTOP = PACKAGING / "quarterdeck-device.desktop"


def settings(path: Path) -> dict[str, str]:
    lines = path.read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_it_comes_back_unless_only_a_person_can_help() -> None:
    unit = settings(SERVICE)
    assert unit["Restart"] == "always"
    assert unit["RestartPreventExitStatus"].split() == [str(int(Ending.BAD_INPUT)), str(int(Ending.REFUSED))]
    assert (unit["StartLimitIntervalSec"], int(unit["RestartMaxDelaySec"]) > int(unit["RestartSec"])) == (
        "0",
        True,
    )


def test_nothing_in_it_takes_away_what_a_tool_needs() -> None:
    breaks = ("NoNewPrivileges", "RestrictNamespaces", "PrivateTmp", "ProtectHome", "SystemCallFilter")
    assert not set(breaks) & set(settings(SERVICE))
    assert settings(SERVICE)["KillMode"] == "process"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_it(tmp_path: Path) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", str(SERVICE)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # These two are younger than some systemds that are still in use.
    newer = ("RestartSteps", "RestartMaxDelaySec")
    complaints = [line for line in done.stderr.splitlines() if SERVICE.name in line]
    assert [line for line in complaints if not any(word in line for word in newer)] == []


@pytest.mark.skipif(shutil.which("desktop-file-validate") is None, reason="needs desktop-file-validate")
@pytest.mark.parametrize("entry", [DESKTOP, DESKTOP.with_name("quarterdeck.desktop")])
def test_desktops_understand_the_entries(entry: Path) -> None:
    done = subprocess.run(
        ["desktop-file-validate", str(entry)], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")

"""The tour: the whole story in the real window, on a display, with real processes; a missed step fails it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_main_job_is_played_in_the_real_window_with_a_picture_of_each_screen(tmp_path: Path):
    out = tmp_path / "tour"
    # Its own display and platform: the tests' choice of an off-screen one is not for it.
    environment = {name: value for name, value in os.environ.items() if name != "QT_QPA_PLATFORM"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.tour", "--out", str(out)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = [path.stem.split("-", 1)[1] for path in sorted(out.glob("*.png"))]
    for screen in (
        "first-run",
        "fleet",
        "pairing",
        "fleet-wall",
        "device-page",
        "device-revoked",
        "batch",
        "approvals",
        "approvals-file",
        "approvals-click",
        "approvals-group",
        "approvals-grant",
        "approvals-edited",
        "approvals-second",
        "policy-time-machine",
        "policy-why",
        "settings-grants",
        "agents",
        "agents-paused",
        "runs-picture",
        "replay",
        "journal",
        "palette",
    ):
        assert screen in names
    sheet = (out / "index.html").read_text("utf-8")
    for path in out.glob("*.png"):
        assert f'src="{path.name}"' in sheet
        with Image.open(path) as picture:
            assert picture.width >= 1280
            # A window that was never painted has one colour.
            assert len(picture.convert("P").getcolors() or []) > 8, path.name

"""An error in an override of one of Qt's methods ends no window."""

from __future__ import annotations

import os
import subprocess
import sys


def test_what_c_code_raises_in_an_override_is_told_and_ends_nothing() -> None:
    # In a process of its own: where it is not guarded against, it is a segmentation fault.
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fakes.broken_overrides"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        check=False,
    )
    lines = ended.stdout.splitlines()
    assert (ended.returncode, lines[-2:]) == (0, ["unguarded: []", "alive"])
    assert set(lines[:-2]) == {
        "TypeError object of type 'Widget' has no len()",
        "IndexError list index out of range",
        "AttributeError 'PySide6.QtGui.QKeyEvent' object has no attribute 'no_such_thing'",
    }

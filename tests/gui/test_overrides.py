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
    # Each once, however often Qt asks.
    assert ended.stdout.splitlines() == [
        "TypeError object of type 'Widget' has no len() in Widget.sizeHint, which Qt called",
        "IndexError list index out of range in Model.data, which Qt called",
        "AttributeError 'PySide6.QtGui.QKeyEvent' object has no attribute 'no_such_thing' "
        "in KeyMixin.keyPressEvent, which Qt called",
        "IndexError list index out of range in Widget.paintEvent, which Qt called",
        "references lost: False",
        "raised: not now",
        "unguarded: []",
        "alive",
    ]
    assert (ended.returncode, ended.stderr) == (0, "")

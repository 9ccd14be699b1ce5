"""The tests' own folders in memory: each process of tests has one, and none is left for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import memory_folder as folders
from tests.fakes.memory_folder import PREFIX, memory_folder
from tests.fakes.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.fakes.memory_folder import memory_folder
with memory_folder(Path(sys.argv[1])) as folder:
    (folder / "left").write_text("by a failure")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_killed_tests_left_goes_when_the_next_ones_begin(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, timeout=PATIENCE_S, check=False)
    (left,) = tmp_path.iterdir()
    with memory_folder(tmp_path):
        assert left.exists(), "it may be about to be locked"
    os.utime(left, (0, 0))
    with memory_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_what_other_tests_still_use_and_what_is_nobody_of_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "somebody").mkdir()
    with memory_folder(tmp_path) as first:
        assert first is not None
        (first / "used").touch()
        os.utime(first, (0, 0))
        with memory_folder(tmp_path) as second:
            assert second is not None
            assert (first / "used").exists()
            assert {one.name for one in tmp_path.iterdir()} == {"somebody", first.name, second.name}
            assert second.name.startswith(PREFIX)


@pytest.mark.parametrize("lack", ["folder", "room"])
def test_without_enough_memory_there_is_no_folder_in_it(
    lack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lack == "room":
        monkeypatch.setattr(folders, "LEAST_FREE", 1 << 60)
    with memory_folder(tmp_path / "none" if lack == "folder" else tmp_path) as folder:
        assert folder is None
    assert list(tmp_path.iterdir()) == []

"""What assistive technology was given lets go of its widgets, and does not crash the end of the program."""

from __future__ import annotations

import subprocess
import sys

from tests.fakes.program import ROOT, environment


def test_a_program_that_was_looked_at_lets_go_of_its_buttons_and_ends_in_order():
    words = [sys.executable, "-m", "tests.fakes.accessible_end"]
    ended = subprocess.run(words, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "let go\n"), ended.stderr[-2_000:]

"""The tests whose bounds are in seconds, held to them: a process for each file, and the yardstick."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.bench.journal_bench import Figures
from tests.fakes.pace import slowness

ROOT = Path(__file__).parents[2]
_TIMED = re.compile(r"^from tests\.fakes\.pace import .*\b(once_)?within\b", re.MULTILINE)
_ENDS = re.compile(r"^(FAILED|ERROR) (\S+)", re.MULTILINE)
_MOST_S = 300


def run() -> Figures:
    """Measure; gives names and figures to print."""
    figures: Figures = []
    for file in sorted(ROOT.glob("tests/**/test_*.py")):
        if not _TIMED.search(file.read_text()) or file.name == "test_pace.py":
            continue
        words = [sys.executable, "-m", "pytest", "--pace", "-q", "-p", "no:cacheprovider", str(file)]
        slow = slowness()
        ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=_MOST_S, check=False)
        failed = [name.partition("::")[2] for _, name in _ENDS.findall(ended.stdout)]
        kept = "kept" if ended.returncode == 0 else f"not kept: {', '.join(failed) or ended.stdout[-200:]}"
        figures.append((file.name, f"{kept} (machine {slow:.2f} times as slow as the reference)"))
    return figures

"""The table of ARCHITECTURE.md of what is read back from a home: each row names attacks that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_file_of_a_home_has_its_attack() -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text().split("## What is read back from the home")[1]
    rows = [
        line
        for line in section.split("\n## ")[0].splitlines()
        if line.startswith("| `") or "| entries" in line
    ]
    assert len(rows) > 12
    files = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    functions = {name for path in files.values() for name in re.findall(r"def (test_\w+)", path.read_text())}
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row.split("|")[-2])
        assert named, row
        assert [name for name in named if name not in files and name not in functions] == []

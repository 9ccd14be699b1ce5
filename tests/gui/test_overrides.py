"""No error in an override of one of Qt's methods ends the window, and the guard goes once it can."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import app
from app.overrides import ANSWERS, CALLED_BY_PYTHON, IS_NEEDED, SAFE_PYSIDE, SAFE_PYTHON
from tests.fakes.broken_overrides import overrides_of_the_window

ROOT = Path(__file__).resolve().parents[2]


def run_broken(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own: without the guard it is a segmentation fault."""
    return subprocess.run(
        [sys.executable, "-m", "tests.fakes.broken_overrides", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        check=False,
    )


def test_what_c_code_raises_in_an_override_is_reported_and_ends_nothing() -> None:
    ended = run_broken()
    assert ended.stdout.splitlines() == [
        "TypeError object of type 'Widget' has no len() in Widget.sizeHint, which Qt called",
        "IndexError list index out of range in Model.data, which Qt called",
        "AttributeError 'PySide6.QtGui.QKeyEvent' object has no attribute 'no_such_thing' "
        "in KeyMixin.keyPressEvent, which Qt called",
        "IndexError list index out of range in Widget.paintEvent, which Qt called",
        "references lost: False",
        "raised: not now",
        "unguarded: []",
        "foreign guarded: False",
        "alive",
    ]
    assert (ended.returncode, ended.stderr) == (0, "")


def test_without_the_guard_the_program_ends_exactly_where_the_guard_is_needed() -> None:
    try:
        survived = run_broken("unguarded").stdout.endswith("alive\n")
    except subprocess.TimeoutExpired:
        survived = False  # before PySide6 6.10, Qt does not come back
    assert survived is not IS_NEEDED, "IS_NEEDED in app/overrides.py is wrong for these versions"


def test_the_guard_is_deleted_once_no_supported_version_needs_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    lines = [line for group in groups for line in group if line.startswith("PySide6")]
    assert lines
    python = lowest(project["requires-python"])
    pyside = min(lowest(line) for line in lines)
    assert python < SAFE_PYTHON or pyside < SAFE_PYSIDE, "delete app/overrides.py, its calls and these tests"


def lowest(requirement: str) -> tuple[int, ...]:
    """The version after the first `>=`."""
    match = re.search(r">=\s*([\d.]+)", requirement)
    assert match is not None, requirement
    return tuple(map(int, match.group(1).split(".")))


def test_each_override_of_the_window_has_an_answer_for_qt_or_is_called_by_python_only() -> None:
    names = {name for _, name, _ in overrides_of_the_window()}
    tables = ANSWERS.keys() | CALLED_BY_PYTHON
    assert names - tables == set(), "add these to a table in app/overrides.py"
    assert tables - names == set(), "no class of the window overrides these any more"
    assert ANSWERS.keys().isdisjoint(CALLED_BY_PYTHON)


def test_no_method_of_an_instance_is_replaced_which_the_guard_does_not_see() -> None:
    for path in Path(app.__path__[0]).rglob("*.py"):
        assert "ignore[method-assign]" not in path.read_text(), path

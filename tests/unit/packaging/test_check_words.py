"""The check of the English: hidden actors, and messages of errors without a full stop."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ERRORS = """
class QuarterdeckError(Exception): ...
class BadInput(QuarterdeckError): ...
class Empty(BadInput): ...
"""


def checked(folder: Path, code: str) -> list[str]:
    """The lines that the check prints of `code`, which stands in a project of its own."""
    (folder / "packaging").mkdir()
    (folder / "core").mkdir()
    shutil.copy(ROOT / "packaging" / "check_words.py", folder / "packaging")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "core" / "it.py").write_text(ERRORS + code)
    command = [sys.executable, folder / "packaging" / "check_words.py", "core"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == (1 if done.stdout else 0), done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "raised",
    [
        'BadInput("The name is empty")',
        'errors.Empty(f"{name} is empty")',
        'BadInput(f"The name is {name}")',
        'BadInput("It is empty." if one else "It is too long")',
    ],
)
def test_a_message_without_full_stop_is_named(tmp_path: Path, raised: str) -> None:
    [told] = checked(tmp_path, f"raise {raised}")
    assert told.startswith("core/it.py:5: an error's message ends with a full stop: ")


@pytest.mark.parametrize(
    "raised",
    [
        'BadInput("The name is empty.")',
        'BadInput(sentences(f"The name cannot be used: {error}"))',
        'BadInput(f"The name cannot be used: {error.message}")',
        'ValueError("it is empty")',
    ],
)
def test_other_messages_pass(tmp_path: Path, raised: str) -> None:
    assert checked(tmp_path, f"raise {raised}") == []


def test_a_word_that_hides_the_actor_is_named_with_what_to_write(tmp_path: Path) -> None:
    [told] = checked(tmp_path, "# " + "who" + "ever asks")
    assert told.startswith("core/it.py:5: 'whoever': name the actor")

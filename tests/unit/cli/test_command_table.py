"""The table of commands: help shows a command's own line, and a command imports no other command's module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.cli.command_table import COMMANDS, command, listed

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("word", COMMANDS)
def test_help_shows_the_line_that_the_command_itself_has(word: str) -> None:
    for width in (20, 45, 70, 200):
        assert listed(word).get_short_help_str(width) == command(word).get_short_help_str(width)


def test_a_module_of_commands_has_no_command_that_is_not_in_the_table() -> None:
    for place in set(COMMANDS.values()):
        words = sys.modules[f"core.cli.{place.module}"].commands
        named = {one.name for one in (*words.registered_commands, *words.registered_groups)}
        named |= {one.callback.__name__ for one in words.registered_commands if one.name is None}
        assert named - {None} <= COMMANDS.keys()


def test_a_command_imports_no_module_of_another_command() -> None:
    code = (
        "import sys; from core.cli import main; main(['devices', '--help']);"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {f"core.cli.{place.module}" for place in COMMANDS.values()} & set(done.stderr.split())
    assert "Usage: quarterdeck devices" in done.stdout
    assert loaded == {"core.cli.devices", "core.cli.device_commands"}

"""Every command prints what was kept: its text, its colours, its JSON, its errors, and its exit code.

After a change that is meant: `python -m tests.golden --commands`, and read the difference.
"""

from __future__ import annotations

import pytest

from tests.golden.cli import playing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def differences() -> dict[str, str]:
    """What is not as it was kept, by file, after one play of the story."""
    return playing.differences(playing.play())


@pytest.mark.parametrize("name", sorted(playing.files()))
def test_the_commands_print_what_was_kept(differences: dict[str, str], name: str) -> None:
    assert not differences[name], differences[name]


def test_nothing_else_was_kept(differences: dict[str, str]) -> None:
    assert differences.keys() == playing.files()

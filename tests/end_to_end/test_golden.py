"""The story of `tests.golden` is told as it was kept, and leaves out no method of the door."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.service.wire import methods
from tests.golden import recordings
from tests.golden.story import play_story, read_play

pytestmark = pytest.mark.slow


async def test_what_is_written_and_said_is_as_it_was_kept(tmp_path: Path):
    play = await play_story(tmp_path)
    now, _ = read_play(play, recordings.fixed_strings())
    for name, lines in now.items():
        assert not (text := recordings.difference(name, recordings.kept(name), lines)), text


def test_every_method_of_the_door_is_in_the_story():
    called = {json.loads(line).get("method") for line in recordings.kept("door")}
    assert not set(methods()) - called

"""The story of `tests.golden` is told as it was kept, and leaves out no method of the door."""

from __future__ import annotations

import json

import pytest

from core.service.rpc.protocol import methods
from tests.golden import recordings
from tests.golden.story import play_story, read_play, short_folder

pytestmark = pytest.mark.slow


async def test_what_is_written_and_said_is_as_it_was_kept():
    with short_folder() as folder:
        play = await play_story(folder)
    now, _ = read_play(play, recordings.fixed_strings())
    for name, lines in now.items():
        assert not (text := recordings.difference(name, recordings.kept(name), lines)), text


def test_every_method_of_the_door_is_in_the_story():
    called = {json.loads(line).get("method") for line in recordings.kept("door")}
    assert not set(methods()) - called

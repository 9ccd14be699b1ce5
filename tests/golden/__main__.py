"""`python -m tests.golden [--write | --commands | --home]`: what the program says, against what was kept.

`--write` keeps what is said now, `--commands` of it only what the commands print, which takes a minute.
`--home` keeps the home that the story leaves, which every later version must be able to open.
"""

from __future__ import annotations

import asyncio
import sys
import tarfile

from tests.golden import recordings
from tests.golden.cli import playing as commands
from tests.golden.story import play_story, read_play, short_folder


def _played(fixed: frozenset[str]) -> tuple[dict[str, list[str]], set[str]]:
    with short_folder() as folder:
        return read_play(asyncio.run(play_story(folder)), fixed)


def write() -> int:
    """Keep what is said now; what differs between two plays is refused."""
    return max(write_frames(), commands.write())


def write_frames() -> int:
    """Keep the journal and the frames."""
    _, first = _played(frozenset())
    _, second = _played(frozenset())
    fixed = frozenset(first & second)
    one, _ = _played(fixed)
    other, _ = _played(fixed)
    unsteady = [text for name in one if (text := recordings.difference(name, one[name], other[name]))]
    print("\n\n".join(unsteady))
    if not unsteady:
        recordings.write(one, fixed)
    return 1 if unsteady else 0


def compare() -> int:
    """Say what is not as it was kept."""
    now, _ = _played(recordings.fixed_strings())
    texts = [*_frame_differences(now), *filter(None, commands.differences(commands.play()).values())]
    print("\n\n".join(texts) or "All is as it was kept.")
    return 1 if texts else 0


def _frame_differences(now: dict[str, list[str]]) -> list[str]:
    return [
        text
        for name, lines in now.items()
        if (text := recordings.difference(name, recordings.kept(name), lines))
    ]


def keep_home() -> int:
    """Keep the home of one play."""
    with short_folder() as folder:
        play = asyncio.run(play_story(folder))
        with tarfile.open(recordings.HOME, "w:xz") as archive:
            archive.add(play.home.path, "home", filter=_kept)
    return 0


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    passing = member.name.endswith((".sock", ".log", "/lock"))
    return None if passing or not (member.isfile() or member.isdir()) else member


if __name__ == "__main__":
    chosen = {"--write": write, "--commands": commands.write, "--home": keep_home}
    sys.exit(chosen.get(" ".join(sys.argv[1:]), compare)())

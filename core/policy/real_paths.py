"""Where paths of this computer lead once their symbolic links are followed.

Rules, grants and findings are decided without waiting for anything. So what they may ask is read before, in a
thread: a folder of a network share that does not answer must not keep the service from its other work. What
was not read is undecided, which counts against the call (`core.policy.constraints.Unsure`).

Not told apart: hard links and bind mounts, which are other names of a file without a link between them, and
names that differ in letters only, which some file systems (those of macOS above all) take for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.errors import ErrorCode, Refused
from core.policy.constraints import LONGEST_PATH, Unsure, normal_path

WITHIN_S = 5.0
# Of one call; what else is in it counts against it.
MOST_PATHS = 1_000
# Threads that wait for a disk at once; each that hangs stays until its disk answers.
MOST_THREADS = 8
_PATH = re.compile(r"/|~|[A-Za-z]:[\\/]|\\\\")


@dataclass(frozen=True, slots=True)
class Leads:
    """Paths as they are written, each with the path that it leads to."""

    known: Mapping[str, str] = field(default_factory=dict)

    def real(self, path: str) -> str:
        """Where a path leads.

        Raises:
            Unsure: it was not followed.
        """
        try:
            return self.known[path]
        except KeyError:
            raise Unsure from None


NOT_FOLLOWED = Leads()


def paths_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value that may be a path of a disk: absolute ones, and those below a home.

    At most `MOST_PATHS` of them.
    """
    return itertools.islice(_paths_in(value), MOST_PATHS)


def _paths_in(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if len(part) <= LONGEST_PATH and _PATH.match(part):
                yield part
        elif isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)


def real_path(path: str) -> str | None:
    """A path of this computer with its links followed as far as it exists, in normal form; None for none.

    Blocks on the disk.
    """
    try:
        whole = os.path.expanduser(path)
        # A user who is not known here has no home; a relative path starts from nowhere that is known.
        return normal_path(os.path.realpath(whole)) if os.path.isabs(whole) else None
    except (OSError, ValueError):
        return None


class Links:
    """Follows the links of this computer's disk."""

    def __init__(self, resolve: Callable[[str], str | None] = real_path, within_s: float = WITHIN_S) -> None:
        """`resolve` may block; what takes longer than `within_s` seconds is an error."""
        self._resolve = resolve
        self._within_s = within_s
        self._slots = asyncio.Semaphore(MOST_THREADS)

    async def follow(self, paths: Iterable[str]) -> Leads:
        """Follow paths as they are written.

        Raises:
            Refused: the disk did not answer in time.
        """
        wanted = list(dict.fromkeys(paths))
        if not wanted:
            return Leads()
        try:
            async with asyncio.timeout(self._within_s):
                await self._slots.acquire()
                return await self._start(wanted)
        except TimeoutError:
            raise Refused(
                f"Where its paths lead could not be read within {self._within_s:g} s: a disk of this "
                "computer does not answer. So no rule about folders can be applied, and nothing was sent.",
                ErrorCode.PATH_NOT_ALLOWED,
            ) from None

    def _start(self, wanted: list[str]) -> asyncio.Future[Leads]:
        """Follow in a thread of its own, which nothing waits for when the program ends."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Leads] = loop.create_future()

        def done(leads: Leads) -> None:
            self._slots.release()
            if not answer.done():
                answer.set_result(leads)

        def work() -> None:
            known: dict[str, str] = {}
            try:
                for path in wanted:
                    if (place := self._resolve(path)) is not None:
                        known[path] = place
            finally:
                # The service may have ended while a disk did not answer.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(done, Leads(known))

        threading.Thread(target=work, name="follow links", daemon=True).start()
        return answer

"""Resolves the symbolic links in paths of this computer.

Rules, grants and findings are decided without blocking. So the paths they need are resolved beforehand in a
thread, because a network share that does not answer must not block the service. A path that was not resolved
is undecided, which counts against the call (`core.policy.constraints.Undecidable`).

Not recognised as the same file: hard links and bind mounts, which are further names without a symbolic link,
and names that differ only in case, which some file systems (mainly on macOS) treat as equal.
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
from core.json_walk import values_in
from core.policy.constraints import LONGEST_PATH, Undecidable, normal_path

WITHIN_S = 5.0
# Per call; further paths are undecided and so count against the call.
MOST_PATHS = 1_000
# Threads that may wait for a disk at once. A thread that hangs keeps its slot until its disk answers.
MOST_THREADS = 8
_PATH = re.compile(r"/|~|[A-Za-z]:[\\/]|\\\\")


@dataclass(frozen=True, slots=True)
class ResolvedPaths:
    """A map from paths as written in the arguments to the resolved paths.

    `undone` has the file that an undo writes, by device: its arguments do not name it.
    """

    known: Mapping[str, str] = field(default_factory=dict)
    undone: Mapping[str, str] = field(default_factory=dict)

    def real(self, path: str) -> str:
        """The resolved path.

        Raises:
            Undecidable: the path was not resolved.
        """
        try:
            return self.known[path]
        except KeyError:
            raise Undecidable from None


NOT_FOLLOWED = ResolvedPaths()


def paths_in(value: Any) -> Iterator[str]:
    """The texts in a JSON value that may be paths: absolute paths, and paths below a home (`~`).

    At most `MOST_PATHS`, each of at most `LONGEST_PATH` characters.
    """
    texts = (part for part in values_in(value) if isinstance(part, str))
    return itertools.islice(
        (text for text in texts if len(text) <= LONGEST_PATH and _PATH.match(text)), MOST_PATHS
    )


def real_path(path: str) -> str | None:
    """The normal form of a path of this computer, with links followed as far as the path exists.

    None if the path is not absolute after expanding `~`, or cannot be resolved. Blocks on the disk.
    """
    try:
        expanded = os.path.expanduser(path)
        # The `~` of an unknown user stays unexpanded, and a relative path has no known start.
        return normal_path(os.path.realpath(expanded)) if os.path.isabs(expanded) else None
    except (OSError, ValueError):
        return None


class Links:
    """Resolves symbolic links on this computer's disk, in at most `MOST_THREADS` threads."""

    def __init__(self, resolve: Callable[[str], str | None] = real_path, within_s: float = WITHIN_S) -> None:
        """`resolve` may block. A call of `follow` that takes longer than `within_s` seconds fails."""
        self._resolve = resolve
        self._within_s = within_s
        self._slots = asyncio.Semaphore(MOST_THREADS)

    async def follow(self, paths: Iterable[str]) -> ResolvedPaths:
        """Resolve paths as written in the arguments. Paths that cannot be resolved are left out.

        Raises:
            Refused: the disk did not answer in time (PATH_NOT_ALLOWED).
        """
        unresolved = list(dict.fromkeys(paths))
        if not unresolved:
            return ResolvedPaths()
        try:
            async with asyncio.timeout(self._within_s):
                await self._slots.acquire()
                return await self._start(unresolved)
        except TimeoutError:
            raise Refused(
                f"Where its paths lead could not be read within {self._within_s:g} s: a disk of this "
                "computer does not answer. So no rule about folders can be applied, and nothing was sent.",
                ErrorCode.PATH_NOT_ALLOWED,
            ) from None

    def _start(self, unresolved: list[str]) -> asyncio.Future[ResolvedPaths]:
        """Resolve in a new daemon thread, so that a hanging disk does not delay the end of the program."""
        loop = asyncio.get_running_loop()
        resolving: asyncio.Future[ResolvedPaths] = loop.create_future()

        def done(leads: ResolvedPaths) -> None:
            self._slots.release()
            if not resolving.done():
                resolving.set_result(leads)

        def work() -> None:
            known: dict[str, str] = {}
            try:
                for path in unresolved:
                    if (target := self._resolve(path)) is not None:
                        known[path] = target
            finally:
                # The event loop may have been closed while the disk did not answer.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(done, ResolvedPaths(known))

        threading.Thread(target=work, name="follow links", daemon=True).start()
        return resolving

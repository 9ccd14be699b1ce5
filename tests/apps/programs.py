"""Programs that nobody here wrote: what installs them, how a test starts and ends them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.apps.screen import Screen, until
from tests.fakes.patience import PATIENCE_S


def needs(program: str, package: str = "") -> pytest.MarkDecorator:
    """Skips where a program is not installed, and says what installs it."""
    why = f"{program} is not installed; `apt-get install {package or program}` lets these tests run"
    return pytest.mark.skipif(shutil.which(program) is None, reason=why)


@dataclass(slots=True)
class Started:
    """A program that runs, in a process group of its own."""

    process: asyncio.subprocess.Process
    home: Path

    async def line(self) -> str:
        """Its next line on stdout."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            return (await self.process.stdout.readline()).decode().rstrip("\n")

    async def ends(self, seconds: float = PATIENCE_S) -> tuple[int, str]:
        """Its exit code and the rest of its output, when it has ended by itself."""
        async with asyncio.timeout(seconds):
            out, _ = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, out.decode()


@asynccontextmanager
async def started(
    environment: dict[str, str], home: Path, screen: Screen, *words: str, title: str | None = None
) -> AsyncIterator[Started]:
    """Start a program with a home folder of its own, and wait until one more window has `title` in its title.

    It is killed afterwards, with all that it started.
    """
    await asyncio.to_thread(home.mkdir, parents=True, exist_ok=True)
    before = {one.id for one in screen.windows()}
    with (home / "stderr.txt").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *words,
            env={**environment, "HOME": str(home), "LC_ALL": "C.UTF-8", "LANGUAGE": "en"},
            cwd=home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    family = {process.pid}
    try:
        if title is not None:
            await until(
                lambda: any(title in one.title for one in screen.windows() if one.id not in before),
                f"{words[0]} shows a window {title!r}",
            )
        yield Started(process, home)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            family.update(one.pid for one in psutil.Process(process.pid).children(recursive=True))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await until(
            lambda: all(one.process_id not in family for one in screen.windows()),
            f"the windows of {words[0]} are gone",
        )

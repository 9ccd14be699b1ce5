"""A thousand devices are more sockets than systems let a program begin with."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from core.home import Home
from core.service.__main__ import ENOUGH
from tests.fakes.service_process import service_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
HERE = Path(__file__).parents[3]
# One interpreter that has loaded the service, and a fork of it for each pair of limits.
ASK = """
import os, resource, sys
from core.service.__main__ import allow_many
for pair in sys.argv[1:]:
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, tuple(map(int, pair.split(":"))))
        print(allow_many(), *resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)
        os._exit(0)
    os.wait()
"""


def limits_after(*pairs: tuple[int, int]) -> list[list[int]]:
    asked = [sys.executable, "-c", ASK, *(f"{soft}:{hard}" for soft, hard in pairs)]
    said = subprocess.run(asked, capture_output=True, text=True, cwd=HERE, check=True).stdout
    return [[int(word) for word in line.split()] for line in said.splitlines()]


def test_the_limit_is_raised_to_what_is_allowed_and_not_beyond() -> None:
    assert limits_after((128, 512), (512, 512)) == [[512, 512, 512], [512, 512, 512]]


def test_what_is_more_than_enough_stays_as_it_is() -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard <= ENOUGH:
        pytest.skip("this machine allows no more than enough")
    most = ENOUGH + 1
    assert limits_after((most, most)) == [[most, most, most]]


@pytest.mark.skipif(sys.platform != "linux", reason="limits are read in /proc")
async def test_the_service_raises_its_own(home: Home) -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))  # noqa: E731
    async with service_process(home, preexec=few) as service:
        await service.console()
        told = await asyncio.to_thread(Path(f"/proc/{service.pid}/limits").read_text)
    [line] = [one for one in told.splitlines() if one.startswith("Max open files")]
    assert int(line.split()[3]) == (min(ENOUGH, hard) if hard != resource.RLIM_INFINITY else ENOUGH)

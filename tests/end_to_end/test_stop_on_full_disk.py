"""What an operator stops on a full disk stays stopped after kill -9, or the answer says that it does not."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.audit.entries import Kind
from core.errors import JournalUnavailable
from core.home import Home
from core.policy.agent_models import AgentSettings
from core.service.console import Console
from core.service.reserve import MARK, SIZE
from tests.fakes.agents import add_agent
from tests.fakes.desk import choose_channel
from tests.fakes.service_process import ServiceProcess, service_process, until
from tests.fakes.signing import anna
from tests.fakes.small_disk import fill, small_disk_at

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and mounts of POSIX systems")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk", "8m") as folder:
        yield folder


@pytest.fixture
def home(disk: Path) -> Home:
    home = Home(disk / "home").create()
    choose_channel(home, "in-process")
    return home


async def ready(service: ServiceProcess) -> Console:
    """A console of a service with the agent night and an operator."""
    console = await service.console()
    await console.approvals.register_operator(anna(service.home).operator)
    if not any(agent.name == "night" for agent in await console.agents.list()):
        await add_agent(console, anna(service.home), "night", AgentSettings())
    return console


async def filled(console: Console, disk: Path) -> Path:
    """Fill the disk until the journal has noticed it; removing the file frees it."""
    filler = fill(disk)
    events = console.events()
    with contextlib.suppress(JournalUnavailable):
        await console.service.accept_settings()
    await until(console, lambda: is_writable(console, False), events)
    return filler


async def is_writable(console: Console, wanted: bool) -> bool:
    return (await console.service.state()).journal.writable is wanted


async def paused(console: Console) -> bool:
    [agent] = [one for one in await console.agents.list() if one.name == "night"]
    return agent.settings.paused


async def stopped(console: Console) -> bool:
    return bool((await console.service.state()).stopped)


async def test_stop_all_and_a_paused_agent_hold_after_kill_9_on_a_full_disk(home: Home, disk: Path):
    async with service_process(home) as service:
        console = await ready(service)
        filler = await filled(console, disk)
        assert "it holds after a restart, too" in await console.service.stop_all()
        await console.agents.pause("night")
        await service.kill()
    filler.unlink()
    async with service_process(home) as service:
        console = await service.console()
        assert await stopped(console)
        assert await paused(console)
        kinds = [one.kind for one in (await console.journal.entries("")).entries]
        assert Kind.ALL_STOPPED in kinds
        [entry] = (await console.journal.entries("kind:all_stopped")).entries
        assert entry.actor.startswith("window:")
        await console.service.resume()
        await service.kill()
    async with service_process(home) as service:
        # What the journal has taken over does not come back.
        assert not await stopped(await service.console())


async def test_once_the_journal_can_be_written_the_reserve_is_empty_again(home: Home, disk: Path):
    async with service_process(home) as service:
        console = await ready(service)
        filler = await filled(console, disk)
        await console.service.stop_all()
        assert home.reserve.read_bytes().startswith(MARK)
        events = console.events()
        filler.unlink()
        await until(console, lambda: is_writable(console, True), events)
        await console.service.resume()
        assert not home.reserve.read_bytes().startswith(MARK)
        await service.kill()
    async with service_process(home) as service:
        assert not await stopped(await service.console())


async def test_where_the_reserve_cannot_be_written_either_the_answer_says_so(home: Home):
    async with service_process(home) as service:
        console = await ready(service)
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        assert "NOT after a restart" in await console.service.stop_all()
        with pytest.raises(JournalUnavailable, match="NOT after a restart"):
            await console.agents.pause("night")
        assert await paused(console)


async def test_a_reserve_that_another_program_wrote_stops_nothing_and_adds_nothing(home: Home, disk: Path):
    async with service_process(home) as service:
        console = await ready(service)
        filler = await filled(console, disk)
        await console.service.stop_all()
        forged = bytearray(home.reserve.read_bytes())
        await service.kill()
    filler.unlink()
    at = forged.index(b'"actor":"window:')
    forged[at : at + 16] = b'"actor":"winner:'
    home.reserve.write_bytes(forged)
    async with service_process(home) as service:
        console = await service.console()
        assert (await console.journal.entries("kind:all_stopped")).entries == []
        assert home.reserve.stat().st_size == SIZE

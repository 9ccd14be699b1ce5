"""The service as a process: started once, found by all, ended in order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from core.errors import BadInput, ErrorCode, JournalCorrupt, ServiceError
from core.home import Home, HomeLock
from core.service.console import WorkProgressed
from core.service.control import ensure_service, lock_owner, service_status, stop_service
from core.service.rpc.client import RemoteConsole
from tests.fakes.ended import all_ended
from tests.fakes.patience import PATIENCE_S

ACTOR = "operator:anna"


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    home = Home(tmp_path / "h").create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    yield home
    await stop_service(home, cancel_work=True)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose service runs, for tests that neither start nor end one.

    It was started from a folder that offers a `core` of its own.
    """
    folder = tmp_path_factory.mktemp("running")
    home = Home(folder / "h").create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    trap = folder / "trap"
    (trap / "core" / "service").mkdir(parents=True)
    for name in ("core/__init__.py", "core/service/__init__.py", "core/service/__main__.py"):
        (trap / name).write_text(f"open({str(folder / 'sprung')!r}, 'w').close()\n")

    async def start() -> None:
        await (await ensure_service(home, "window", ACTOR, stay=True)).close()

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(trap)
        asyncio.run(start())
    yield home
    asyncio.run(stop_service(home, cancel_work=True))


async def test_it_is_found_when_there_is_one(running):
    first = await ensure_service(running, "window", ACTOR)
    second = await ensure_service(running, "window", ACTOR)
    assert first.welcome.pid == second.welcome.pid != os.getpid()
    assert (await second.service.state()).service_pid == first.welcome.pid
    await first.close()
    await second.close()


async def test_long_work_tells_other_clients_too_how_far_it_has_come(running):
    asks = await ensure_service(running, "window", ACTOR)
    watches = await ensure_service(running, "window", ACTOR)
    wanted = {"verify", "try_policy"}
    async with asyncio.timeout(PATIENCE_S), aclosing(watches.events()) as events:
        # Answered after the subscription before it was taken, which comes over another socket than the work.
        await watches.service.state()
        assert (await asks.journal.verify()).ok
        run = await asks.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
        await asks.runs.wait(run.summary.id, PATIENCE_S)
        assert (await asks.policy.backtest('profile = "observe"')).commands >= 1
        async for event in events:
            if isinstance(event, WorkProgressed):
                assert 0 < event.done <= event.total
                wanted.discard(event.what)
            if not wanted:
                break
    await asks.close()
    await watches.close()


async def test_several_that_start_at_once_end_with_one_service(home):
    consoles = await asyncio.gather(*(ensure_service(home, "window", ACTOR) for _ in range(3)))
    assert len({console.welcome.pid for console in consoles}) == 1
    for console in consoles:
        await console.close()


async def test_a_socket_that_a_killed_service_left_behind_does_not_matter(home):
    console = await ensure_service(home, "window", ACTOR)
    os.kill(console.welcome.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        await console.closed.wait()
    assert home.socket.exists()
    with pytest.raises(ServiceError) as gone:
        await console.service.state()
    assert gone.value.code is ErrorCode.SERVICE_UNAVAILABLE
    again = await ensure_service(home, "window", ACTOR)
    assert again.welcome.pid != console.welcome.pid
    await again.close()


async def test_an_owner_that_does_not_answer_is_named_and_its_socket_left_alone(home):
    with HomeLock(home), socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(home.socket))
        with pytest.raises(ServiceError, match=str(os.getpid())) as busy:
            await ensure_service(home, "window", ACTOR, timeout=1.5)
        assert busy.value.code is ErrorCode.HOME_BUSY
        assert home.socket.exists()
        assert (await service_status(home)).owner == str(os.getpid())
        with pytest.raises(ServiceError) as unstoppable:
            await stop_service(home, cancel_work=True)
        assert unstoppable.value.code is ErrorCode.HOME_BUSY


async def test_why_it_could_not_start_reaches_whoever_started_it(home):
    (home.path / "settings.toml").write_text("approval_expiry = -1\n")
    with pytest.raises(BadInput, match="approval_expiry"):
        await ensure_service(home, "window", ACTOR)
    (home.path / "settings.toml").unlink()
    (home.path / "journal.db").write_bytes(b"nonsense" * 1000)
    with pytest.raises(JournalCorrupt):
        await ensure_service(home, "window", ACTOR)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_in_order_and_leaves_no_process(tmp_path, how):
    # With the device in a process of its own: it must go too.
    home = Home(tmp_path / "own").create()
    console = await ensure_service(home, "window", ACTOR, stay=True)
    service = psutil.Process(console.welcome.pid)
    events = console.events()
    async with asyncio.timeout(PATIENCE_S):
        while not any(device.health == "online" for device in (await console.service.state()).devices):
            await anext(events)
    family = [service, *service.children(recursive=True)]
    assert len(family) == 2
    os.kill(console.welcome.pid, how)
    async with asyncio.timeout(PATIENCE_S):
        await console.closed.wait()
    assert console.closed_reason == "The service has ended."
    await all_ended(family, PATIENCE_S)
    assert lock_owner(home) is None
    assert not home.socket.exists()
    assert "Traceback" not in home.log.read_text()


async def test_without_anybody_it_ends_by_itself(home):
    console = await ensure_service(home, "window", ACTOR)
    service = psutil.Process(console.welcome.pid)
    await console.close()
    await all_ended([service], 20)
    assert "no client is attached" in home.log.read_text()


async def test_told_to_stop_it_stops_and_nothing_is_left_to_stop(home):
    console = await ensure_service(home, "window", ACTOR, stay=True)
    assert (await service_status(home)).running
    assert await stop_service(home, cancel_work=False) == "The service has ended."
    # Whoever started it has collected its end too: it is not even a zombie.
    assert not psutil.pid_exists(console.welcome.pid)
    async with asyncio.timeout(PATIENCE_S):
        await console.closed.wait()
    assert not (await service_status(home)).running
    assert await stop_service(home, cancel_work=False) == "No service was running."


def test_the_current_folder_cannot_offer_another_core(running):
    assert (running.path.parent / "trap" / "core").is_dir()
    assert not (running.path.parent / "sprung").exists()


async def test_a_service_that_was_started_outlives_a_client_that_is_dropped(running):
    first = await ensure_service(running, "window", ACTOR)
    run = await first.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
    first._connection.transport.abort()
    second = await RemoteConsole.connect(running, "window", ACTOR)
    assert second.welcome.pid == first.welcome.pid
    ended = await second.runs.wait(run.summary.id, PATIENCE_S)
    assert ended.summary.state == "done"
    await second.close()

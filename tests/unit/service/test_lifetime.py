"""When a service ends by itself, and what its log may hold."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from core.errors import ErrorCode
from core.home import Home
from core.log import Logger, silence
from core.service import exit_codes, log_setup
from core.service.console import RunChanged
from core.service.lifetime import until_not_needed, until_told_or_not_needed
from core.service.log_setup import MASK, logging_to
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from tests.fakes.control_socket import FakeHost
from tests.fakes.patience import PATIENCE_S

GRACE = 0.05


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "h").create()


@pytest.fixture
async def server(home: Home, host: FakeHost) -> AsyncIterator[ControlServer]:
    one = ControlServer(host, home)
    await one.open()
    yield one
    await one.close()


async def test_nobody_attached_and_nothing_running_ends_it_after_the_grace(host, server):
    async with asyncio.timeout(PATIENCE_S):
        await until_not_needed(host, server, GRACE)


async def test_it_stays_while_somebody_is_attached_and_ends_after_the_last_has_left(home, host, server):
    console = await RemoteConsole.connect(home, "window", "operator:anna")
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(until_not_needed(host, server, GRACE))
        done, _ = await asyncio.wait({ending}, timeout=GRACE * 4)
        assert not done
        await console.close()


async def test_it_stays_while_something_runs_and_notices_the_end_of_it(host, server):
    host.busy = True
    run = await host.console("cli:x").runs.call("this-computer", "change", {})
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(until_not_needed(host, server, GRACE))
        done, _ = await asyncio.wait({ending}, timeout=GRACE * 4)
        assert not done
        host.busy = False
        host.hub.publish(RunChanged(run=run.summary))


@pytest.mark.parametrize("stay", [True, False])
async def test_it_ends_when_it_is_told_to(host, server, stay):
    signalled = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        ending = group.create_task(until_told_or_not_needed(host, server, signalled, stay, grace=60))
        host.on_shutdown_asked.set()
    assert ending.result() == "a client asked for it"
    host.on_shutdown_asked.clear()
    signalled.set()
    assert await until_told_or_not_needed(host, server, signalled, stay, grace=60) == "a signal"


async def test_told_to_stay_it_outlives_its_clients(host, server):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(GRACE * 4):
            await until_told_or_not_needed(host, server, asyncio.Event(), True, GRACE)


class TestLog:
    def test_secrets_do_not_reach_it_at_any_depth(self, tmp_path):
        path = tmp_path / "service.log"
        with logging_to(path):
            structlog.get_logger("t").info(
                "told",
                passphrase="abc",
                nested={"auth_token": "abc", "list": [{"api_key": "abc", "db_pwd": "abc"}]},
                kept="yes",
            )
        text = path.read_text()
        assert "abc" not in text
        line = json.loads(text)
        assert line["passphrase"] == MASK
        assert line["kept"] == "yes"

    def test_it_is_for_its_owner_alone_and_turns_over(self, tmp_path, monkeypatch):
        monkeypatch.setattr(log_setup, "MAX_BYTES", 2000)
        path = tmp_path / "service.log"
        with logging_to(path):
            for number in range(200):
                structlog.get_logger("t").info("line", number=number)
        files = sorted(tmp_path.iterdir())
        assert len(files) == 1 + log_setup.KEPT
        assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
        assert all(file.stat().st_size <= 2000 for file in files)

    def test_an_error_keeps_its_trace_and_other_libraries_are_heard(self, tmp_path):
        path = tmp_path / "service.log"
        with logging_to(path):
            try:
                raise ValueError("odd")
            except ValueError:
                structlog.get_logger("t").exception("failed")
            logging.getLogger("some.library").warning("careful")
        first, second = map(json.loads, path.read_text().splitlines())
        assert "ValueError: odd" in first["exception"]
        assert second["event"] == "careful"

    def test_a_silent_command_prints_nothing_of_it(self, capsys):
        with silence():
            Logger("t").error("loud")
        assert capsys.readouterr() == ("", "")

    def test_a_silent_command_that_hosts_the_core_logs_to_the_file(self, tmp_path):
        path = tmp_path / "service.log"
        with silence():
            with logging_to(path):
                Logger("t").info("hosted", device="lab-1")
            Logger("t").error("loud")
        [line] = map(json.loads, path.read_text().splitlines())
        assert (line["event"], line["device"]) == ("hosted", "lab-1")


def test_every_error_code_has_an_exit_code_of_the_list():
    known = {exit_codes.FAULT, *range(2, 11), exit_codes.WRONG_STATE}
    assert {exit_codes.exit_code_of(code) for code in ErrorCode} <= known
    assert exit_codes.exit_code_of(ErrorCode.APPROVAL_EXPIRED) == 4
    assert exit_codes.exit_code_of(ErrorCode.APPROVAL_PENDING) == 10
    assert exit_codes.exit_code_of(ErrorCode.OUTCOME_UNKNOWN) == 7
    assert exit_codes.exit_code_of(ErrorCode.JOURNAL_CORRUPT) == 8
    assert exit_codes.exit_code_of(ErrorCode.UNKNOWN_TOOL) == 2

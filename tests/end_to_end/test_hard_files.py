"""Files of a home that are broken: a clear error or a stricter service, and never an open one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from core.approvals.operator_keys import statement_for
from core.batch.models import CellState
from core.errors import ErrorCode
from core.home import Home
from core.policy.models import Profile
from core.service.console import ControlChanged
from core.service.local_console import LocalConsole
from tests.fakes.desk import next_approval, open_service
from tests.fakes.kept_home import copy_of
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import make_home, run
from tests.fakes.service_process import service_process, until_online
from tests.fakes.signing import accepted

READ = {"info_type": "memory"}


def broken_toml(path: Path) -> None:
    path.write_text('profile = "trusted"\n[[rule\n')


def unknown_key(path: Path) -> None:
    path.write_text('profile = "trusted"\nopen_everything = true\n')


def unknown_profile(path: Path) -> None:
    path.write_text('profile = "yolo"\n')


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe profile \x00")


def a_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


BROKEN: list[Callable[[Path], None]] = [broken_toml, unknown_key, unknown_profile, no_text, a_folder]


@pytest.mark.parametrize("breaks", BROKEN, ids=lambda one: one.__name__)
async def test_with_a_broken_policy_at_the_start_even_reads_ask(tmp_path, breaks):
    home = make_home(tmp_path / "home")
    breaks(home.policy)
    async with open_service(home) as service:
        console = LocalConsole(service, "operator:anna")
        state = await console.service.state()
        assert state.policy.problem
        assert "policy" in state.policy.problem
        started = await console.runs.call("this-computer", "get_system_info", READ)
        approval = await next_approval(console)
        assert approval.run == started.summary.id
        assert "policy is broken" in approval.decision.reasons[0].text
        assert (await console.journal.entries("kind:policy_broken")).entries


async def test_a_policy_that_breaks_under_the_service_asks_from_then_on_until_it_is_mended(tmp_path):
    home = make_home(tmp_path / "home")
    operator = await accepted(home, 'profile = "trusted"\n')
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(operator.operator)
        await until_online(console)
        for breaks in BROKEN:
            target = tmp_path / breaks.__name__
            writes = {"file_path": str(target), "content": "x"}
            events = console.events()
            assert (await console.policy.explain("this-computer", "write_file", writes)).answer == "allow"
            breaks(home.policy)
            started = await console.runs.call("this-computer", "write_file", writes)
            approval = await next_approval(console)
            assert "policy is broken" in approval.decision.reasons[0].text, breaks
            assert not target.exists()
            async with asyncio.timeout(PATIENCE_S):
                async for event in events:
                    if isinstance(event, ControlChanged) and event.policy.problem:
                        break
            await console.approvals.decide(operator.sign(statement_for(approval, "deny", "anna", "")))
            [cell] = (await console.runs.wait(started.summary.id, PATIENCE_S)).cells
            assert cell.state is CellState.REFUSED, breaks
            if home.policy.is_dir():
                home.policy.rmdir()
            home.policy.write_text('profile = "trusted"\n')
            again = await console.runs.call("this-computer", "write_file", writes)
            assert (await console.runs.wait(again.summary.id, PATIENCE_S)).cells[0].state is CellState.DONE, (
                breaks
            )
            assert target.read_text() == "x"
            assert (await console.service.state()).policy.problem == ""


async def test_a_stricter_profile_in_the_file_counts_from_the_next_decision_on(tmp_path):
    home = make_home(tmp_path / "home")
    async with open_service(home) as service:
        console = LocalConsole(service, "operator:anna")
        assert (await console.policy.explain("this-computer", "get_system_info", READ)).answer == "allow"
        home.policy.write_text('profile = "lockdown"\n')
        assert (await console.policy.explain("this-computer", "get_system_info", READ)).answer == "ask"
        assert (await console.service.state()).policy.profile is Profile.LOCKDOWN


FILES = [
    ("settings.toml", "approval_expiry = ", 2),
    ("settings.toml", 'surprise = "key"\n', 2),
    ("keys/journal.key", "not a key", 8),
]


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was used once, and closed in order."""
    home = make_home(tmp_path_factory.mktemp("used") / "home")
    home.policy.write_text('profile = "trusted"\n')
    assert run(home, "devices").code == 0
    return home.path


@pytest.mark.parametrize(("name", "text", "expected"), FILES)
async def test_a_broken_file_of_the_home_is_named_and_nothing_is_sent(used, tmp_path, name, text, expected):
    home = copy_of(used, tmp_path / "home")
    target = tmp_path / "never"
    path = home.path / name
    path.write_text(text)
    async with service_process(home) as service:
        code, error = await service.ends()
    assert error is not None
    assert code == expected, error
    assert Path(name).name in error.message
    assert error.next
    done = run(home, "call", "this-computer", "write_file", f"file_path={target}", "content=x", "--json")
    assert done.code == expected, done
    assert Path(name).name in done.json["error"]["message"]
    assert not target.exists()
    assert path.read_text() == text


async def test_a_broken_device_toml_keeps_the_device_away_and_says_why(home: Home):
    """How it comes back, and other ways of breaking it, are in `test_broken_device_toml`."""
    (home.device_state / "device.toml").write_text('surprise = "key"\n')
    async with service_process(home) as service:
        console = await service.console()
        events = console.events()
        async with asyncio.timeout(PATIENCE_S):
            # The service reads the file, and may have done so before this client came.
            while not any("device.toml" in one.reason for one in (await console.service.state()).devices):
                await anext(events)
        started = await console.runs.call("this-computer", "get_system_info", READ)
        [cell] = (await console.runs.wait(started.summary.id, PATIENCE_S)).cells
        assert cell.result
        assert cell.result.error
        assert cell.result.error.code is ErrorCode.DEVICE_OFFLINE
        assert not (await console.journal.entries("kind:command_sent")).entries

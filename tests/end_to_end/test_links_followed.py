"""Symbolic links on this computer, attacked through the service and its device, in a process and without one.

A link leads from a folder where much is allowed into one that is denied. For each channel the tests share one
service, whose policy each of them saves anew; every test has folders of its own.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.approvals.operator_keys import OperatorKey
from core.batch.models import CellState
from core.errors import ErrorCode, QuarterdeckError
from core.home import Home
from core.policy.constraints import Constraint
from core.policy.models import Answer
from core.service.console import Console
from tests.end_to_end.test_grants import grant
from tests.fakes.desk import approve, choose_channel, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.service_process import service_process, until_online
from tests.fakes.signing import accepted

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANNELS = ["process", "in-process"]
NAME = "this-computer"
RULES = """
profile = "{profile}"

[[rule]]
id = "closed"
decision = "deny"
tool = ["read_file", "write_file", "list_directory", "shell_execute"]
[rule.parameters.{argument}]
below = "{closed}"

[[rule]]
id = "open"
decision = "allow"
tool = "write_file"
[rule.parameters.file_path]
below = "{opened}"
"""


@dataclass
class Desk:
    """A service whose device may read and write everywhere, and its operator; `user` is their home folder."""

    console: Console
    key: OperatorKey
    user: Path

    async def judge_by(self, policy: str) -> None:
        """Save a policy, signed."""
        await self.console.policy.save(policy, (await self.console.policy.text()).digest)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CHANNELS)
async def desk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Desk]:
    folder = tmp_path_factory.mktemp("links")
    home = Home(folder / "home").create()
    choose_channel(home, request.param)
    (home.device_state / "device.toml").write_text('roots = ["/"]\n')
    key = await accepted(home)
    (folder / "user").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "user"))
        async with console_of(home) as console:
            yield Desk(console, key, folder / "user")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """`closed` with a secret in it, and `open`, where `way` leads to `closed`."""
    top = tmp_path / "x"
    (top / "closed").mkdir(parents=True)
    (top / "open").mkdir()
    (top / "closed" / "secret").write_text("the secret")
    (top / "open" / "plain").write_text("plain")
    (top / "open" / "way").symlink_to(top / "closed")
    return top


def rules(tree: Path, profile: str = "guarded", argument: str = "file_path", closed: str = "") -> str:
    return RULES.format(
        profile=profile, argument=argument, closed=closed or tree / "closed", opened=tree / "open"
    )


@asynccontextmanager
async def console_of(home: Home) -> AsyncIterator[Console]:
    async with service_process(home) as service:
        console = await service.console()
        await until_online(console)
        yield console


async def refusal(console: Console, tool: str, **parameters: Any) -> ErrorCode | None:
    """Why a call was refused before it left, None when it ran; a call that asks is cancelled."""
    decision = await _decision(console, tool, parameters)
    run = await console.runs.call(NAME, tool, parameters)
    if decision is Answer.ASK:
        await next_approval(console)
        await console.runs.stop(run.summary.id)
        await console.runs.wait(run.summary.id, PATIENCE_S)
        return ErrorCode.APPROVAL_EXPIRED
    [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S)).cells
    if cell.state is CellState.DONE:
        return None
    assert cell.result is not None
    assert cell.result.error is not None
    sent = await console.journal.entries(f"kind:command_sent call:{cell.call_id}")
    assert not sent.entries, "it was sent to the device"
    return cell.result.error.code


async def _decision(console: Console, tool: str, parameters: dict[str, Any]) -> Answer | None:
    try:
        return (await console.policy.explain(NAME, tool, parameters)).answer
    except QuarterdeckError:
        return None


LINKS_OF_THE_SYSTEM = [
    (one, os.path.realpath(one)) for one in ("/lib", "/bin", "/var/run") if os.path.islink(one)
]
ASKED = ErrorCode.APPROVAL_EXPIRED
DENIED = ErrorCode.DENIED_BY_POLICY


async def test_a_rule_that_denies_a_folder_denies_it_through_a_link(desk: Desk, tree: Path):
    await desk.judge_by(rules(tree))
    console = desk.console
    for way in (
        tree / "closed" / "secret",
        tree / "open" / "way" / "secret",
        f"{tree}/open/./way//secret",
        f"{tree}/open/way/../closed/secret",
    ):
        assert await refusal(console, "read_file", file_path=str(way)) is DENIED, way
    for way in (tree / "open" / "way", f"{tree}/open/way/"):
        assert await refusal(console, "write_file", file_path=str(way), content="x") is DENIED, way
    assert await refusal(console, "read_file", file_path=str(tree / "open" / "plain")) is None


async def test_a_rule_that_allows_a_folder_does_not_allow_what_a_link_in_it_leads_to(desk: Desk, tree: Path):
    (tree / "elsewhere").mkdir()
    (tree / "open" / "out").symlink_to(tree / "elsewhere")
    (tree / "open" / "later").symlink_to(tree / "elsewhere" / "not there yet")
    await desk.judge_by(rules(tree))
    console = desk.console
    for way in ("out/owned", "later", "out/../elsewhere/owned"):
        assert await refusal(console, "write_file", file_path=f"{tree}/open/{way}", content="x") is ASKED
    assert await refusal(console, "write_file", file_path=f"{tree}/open/way/owned", content="x") is DENIED
    assert await refusal(console, "write_file", file_path=f"{tree}/open/new", content="x") is None
    assert not list((tree / "elsewhere").iterdir())
    assert [one.name for one in (tree / "closed").iterdir()] == ["secret"]


async def test_a_grant_for_a_folder_does_not_cover_what_a_link_in_it_leads_to(desk: Desk, tree: Path):
    await desk.judge_by("")
    console = desk.console
    first = await console.runs.call(NAME, "write_file", {"file_path": f"{tree}/open/a", "content": "x"})
    scope = {"file_path": Constraint(below=f"{tree}/open"), "content": "any"}
    await grant(console, desk.key, await next_approval(console), arguments=scope, uses=20)
    await console.runs.wait(first.summary.id, PATIENCE_S)
    assert await refusal(console, "write_file", file_path=f"{tree}/open/b", content="x") is None
    assert await refusal(console, "write_file", file_path=f"{tree}/open/way/b", content="x") is ASKED
    assert [one.name for one in (tree / "closed").iterdir()] == ["secret"]


async def test_a_link_that_is_turned_while_an_operator_thinks_is_seen_before_the_command_leaves(
    desk: Desk, tree: Path
):
    (tree / "open" / "turned").symlink_to(tree / "open")
    await desk.judge_by(rules(tree).split('[[rule]]\nid = "open"')[0])
    console = desk.console
    sent = {"file_path": f"{tree}/open/turned/owned", "content": "x"}
    run = await console.runs.call(NAME, "write_file", sent)
    waiting = await next_approval(console)
    (tree / "open" / "turned").unlink()
    (tree / "open" / "turned").symlink_to(tree / "closed")
    await approve(console, waiting, desk.key)
    [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S)).cells
    assert cell.result is not None
    assert cell.result.error is not None
    assert cell.result.error.code is DENIED
    assert [one.name for one in (tree / "closed").iterdir()] == ["secret"]


async def test_a_rules_own_folder_that_becomes_a_link_denies_where_it_then_leads(desk: Desk, tree: Path):
    await desk.judge_by(rules(tree))
    console = desk.console
    assert await refusal(console, "read_file", file_path=f"{tree}/closed/secret") is DENIED
    (tree / "closed").rename(tree / "moved")
    (tree / "closed").symlink_to(tree / "moved")
    assert await refusal(console, "read_file", file_path=f"{tree}/moved/secret") is DENIED


async def test_paths_in_lists_and_in_other_arguments_are_followed_as_well(desk: Desk, tree: Path):
    await desk.judge_by(rules(tree, argument="working_directory"))
    sent = {"command": "true", "working_directory": f"{tree}/open/way"}
    assert await refusal(desk.console, "shell_execute", **sent) is DENIED
    sent["working_directory"] = f"{tree}/open"
    assert await refusal(desk.console, "shell_execute", **sent) is ASKED


async def test_a_home_folder_is_followed_however_rule_and_call_write_it(desk: Desk, tree: Path):
    (desk.user / "way").symlink_to(tree / "closed")
    for folder in ("~/way", f"{tree}/closed"):
        await desk.judge_by(rules(tree, closed=folder))
        for way in ("~/way/secret", f"{desk.user}/way/secret", f"{tree}/closed/secret"):
            assert await refusal(desk.console, "read_file", file_path=way) is DENIED, (folder, way)
    (desk.user / "second").symlink_to(desk.user / "way")
    await desk.judge_by(rules(tree, closed="~/way"))
    assert await refusal(desk.console, "read_file", file_path="~/second/secret") is DENIED


async def test_names_that_the_system_has_for_one_folder_are_one_place(desk: Desk, tree: Path):
    assert LINKS_OF_THE_SYSTEM, "this machine has none of the usual links"
    for name, place in LINKS_OF_THE_SYSTEM:
        for closed, asked in ((place, name), (name, place)):
            await desk.judge_by(rules(tree, closed=closed))
            assert await refusal(desk.console, "read_file", file_path=f"{asked}/some file") is DENIED


@pytest.mark.parametrize("channel", CHANNELS)
async def test_what_leads_out_of_the_roots_through_a_link_is_not_even_sent(
    home: Home, channel: str, tree: Path
):
    choose_channel(home, channel)
    (home.device_state / "device.toml").write_text(f'roots = ["{tree}/open"]\n')
    async with console_of(home) as console:
        code = await refusal(console, "read_file", file_path=f"{tree}/open/way/secret")
        assert code is ErrorCode.PATH_NOT_ALLOWED
        assert await refusal(console, "read_file", file_path=f"{tree}/open/plain") is None


async def test_the_card_says_where_a_link_leads_and_its_risk_is_that_of_the_place(
    home: Home, tree: Path, monkeypatch: pytest.MonkeyPatch
):
    """The service alone says that: no command is sent to a device."""
    choose_channel(home, "in-process")
    monkeypatch.setenv("HOME", "/home/anna")
    (home.device_state / "device.toml").write_text('roots = ["/"]\n')
    await accepted(home, 'profile = "trusted"\n')
    (tree / "open" / "bob").symlink_to("/home/bob")
    (tree / "open" / "system").symlink_to("/etc")
    (tree / "open" / "keys").symlink_to("/home/anna/.ssh")
    async with console_of(home) as console:
        for name, said in (
            ("bob", "In another user's home: bob"),
            ("system", "Writes under /etc"),
            ("keys", "Touches keys or passwords"),
        ):
            sent = {"file_path": f"{tree}/open/{name}/owned", "content": "x"}
            decision = await console.policy.explain(NAME, "write_file", sent)
            assert decision.answer is Answer.ASK, name
            assert any(said in finding.text for finding in decision.findings), decision.findings
        plain = await console.policy.explain(
            NAME, "write_file", {"file_path": f"{tree}/open/a", "content": "x"}
        )
        assert plain.answer is Answer.ALLOW

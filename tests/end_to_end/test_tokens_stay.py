"""Tokens stay with the program that needs them: attacks that look for them in everything else."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from core.environment import TOKEN_VARIABLE, USUAL_PATH
from core.home import Home
from core.service.control import ensure_service, stop_service
from core.tokens import new_token
from tests.fakes.agents import add_agent
from tests.fakes.desk import approve, next_approval
from tests.fakes.gateway import HERE, asked, over_stdio
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run as run_program
from tests.fakes.service_process import service_process, until_online
from tests.fakes.signing import anna, signing

KEY_OF_THE_AGENTS_PROGRAM = "sk-the-key-of-its-own-model"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


async def _registered(home: Home) -> str:
    """The token of an agent of this home, whose service has ended again."""
    async with service_process(home) as process:
        console = await process.console()
        await console.approvals.register_operator(anna(home).operator)
        return await add_agent(console, anna(home), "claude")


def _environments(service: int) -> list[str]:
    """What the service and every process below it were started with."""
    processes = [psutil.Process(service), *psutil.Process(service).children(recursive=True)]
    assert len(processes) > 1, "the device client is a process of its own"
    return [Path(f"/proc/{process.pid}/environ").read_text(errors="replace") for process in processes]


async def test_what_an_agents_gateway_starts_has_neither_its_token_nor_its_other_keys(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home.create()
    token = await _registered(home)
    monkeypatch.setenv("AGENT_PROGRAM_API_KEY", KEY_OF_THE_AGENTS_PROGRAM)
    seen = tmp_path / "environment"
    line = {"tool": "shell_execute", "arguments": {"command": f"env > {seen}"}}
    try:
        async with over_stdio(home, token) as client:
            await asked(client, "list_devices")
            console = signing(await ensure_service(home, "window", "operator:anna"), home)
            await until_online(console)
            ticket = (await asked(client, "run_commands", devices=HERE, commands=[line]))["ticket"]
            await approve(console, await next_approval(console), anna(home))
            assert (await asked(client, "wait_run", ticket=ticket, seconds=60))["state"] == "done"
            environments = _environments((await console.service.state()).service_pid)
    finally:
        await stop_service(home, cancel_work=True)
    for environment in [seen.read_text(), *environments]:
        assert "PATH=" in environment
        for secret in (token, TOKEN_VARIABLE, KEY_OF_THE_AGENTS_PROGRAM):
            assert secret not in environment


async def test_what_an_operators_command_starts_does_not_have_a_token_from_its_environment(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    home.create()
    token = new_token("claude.")
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    try:
        console = await ensure_service(home, "cli", "cli:anna")
        await until_online(console)
        environments = _environments((await console.service.state()).service_pid)
        await console.close()
    finally:
        await stop_service(home, cancel_work=True)
    assert not [environment for environment in environments if token in environment]


async def test_commands_have_a_usual_path_where_the_service_was_started_without_one(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home.create()
    with monkeypatch.context() as without:
        without.delenv("PATH")
        await ensure_service(home, "cli", "cli:anna", stay=True)
    seen = tmp_path / "path"
    try:
        console = signing(await ensure_service(home, "window", "operator:anna"), home)
        await console.approvals.register_operator(anna(home).operator)
        await until_online(console)
        run = await console.runs.call(HERE, "shell_execute", {"command": f"echo $PATH > {seen}"})
        await approve(console, await next_approval(console), anna(home))
        await console.runs.wait(run.summary.id, PATIENCE_S)
    finally:
        await stop_service(home, cancel_work=True)
    assert seen.read_text().strip() == USUAL_PATH


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o666])
def test_a_token_file_that_other_users_can_read_is_refused_with_the_way_to_mend_it(
    home: Home, tmp_path: Path, mode: int
):
    file = tmp_path / "token"
    token = new_token("claude.")
    file.write_text(token)
    file.chmod(mode)
    refused = run_program(home, "gateway", "--as", "claude", "--token-file", str(file))
    assert refused.code == 2
    assert f"chmod 600 {file}" in refused.err
    assert token not in refused.err


async def test_an_agent_that_reads_a_file_with_anothers_token_does_not_see_the_token(
    home: Home, tmp_path: Path
):
    home.create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    other = new_token("other.")
    file = tmp_path / "notes"
    file.write_text(f"the token is {other}, keep it\n")
    read = {"tool": "read_file", "arguments": {"file_path": str(file)}}
    async with service_process(home) as process:
        console = await process.console()
        await console.approvals.register_operator(anna(home).operator)
        await until_online(console)
        token = await add_agent(console, anna(home))
        async with over_stdio(home, token) as client:
            answer = await asked(client, "run_commands", devices=HERE, commands=[read])
            if answer["state"] == "waiting":
                await approve(console, await next_approval(console), anna(home))
                answer = await asked(client, "wait_run", ticket=answer["ticket"], seconds=60)
    assert answer["state"] == "done"
    assert "the token is other.•••, keep it" in str(answer)
    kept = [path for path in home.path.rglob("*") if path.is_file()]
    assert not [path for path in kept if other.encode() in path.read_bytes()]

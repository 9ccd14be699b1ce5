"""A secret input hides no command and no path: by an agent, from a terminal, and on the control socket.

Service, control socket, agents' gateway, command line and shell are real. The profile is `trusted` and the
device reaches the whole disk, so that nothing but the judgement of what is sent stands in the way.
"""

from __future__ import annotations

import asyncio
import base64
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from core.approvals.models import Approval
from core.approvals.operator_keys import OperatorKey
from core.batch.batch_file import read_batch
from core.batch.models import Batch
from core.commitments import commitments_in, readable
from core.errors import BadInput
from core.home import Home
from core.policy.models import Answer, Decision
from core.service.console import Console
from tests.fakes.agents import add_agent
from tests.fakes.desk import approve, choose_channel, deny, next_approval
from tests.fakes.gateway import asked, over_stdio
from tests.fakes.program import run
from tests.fakes.service_process import ServiceProcess, service_process, until_online
from tests.fakes.signing import accepted

DEPLOY = """
name: deploy
targets: name:this-computer
inputs:
  token: {type: string, secret: true}
steps:
  - id: a
    tool: shell_execute
    with: {command: "printf %s 'X-Token: ${{ inputs.token }}' > FOLDER/sent; true"}
"""
EVIL = """
name: evil
targets: name:this-computer
inputs:
  p: {type: string, secret: true}
steps:
  - {id: a, tool: write_file, with: {file_path: "${{ inputs.p }}", content: "x"}}
"""


@pytest.fixture
def token(tmp_path: Path) -> str:
    """A secret that ends the quotes around it, and runs two commands."""
    return f"tr0ub4dor' ; touch {tmp_path}/touched; rm -rf {tmp_path}/data; echo '"


@pytest.fixture
def system_file() -> Iterator[Path]:
    path = Path(f"/etc/quarterdeck-test-{uuid.uuid4().hex}")
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
async def key(home: Home) -> OperatorKey:
    # Before the first operator the file holds as it is found; later it would wait for a signature.
    home.device_state.mkdir(parents=True, exist_ok=True)
    (home.device_state / "device.toml").write_text('roots = ["/"]\n')
    key = await accepted(home, 'profile = "trusted"\n')
    choose_channel(home, "in-process")
    return key


@pytest.fixture
async def service(home: Home, key: OperatorKey) -> AsyncIterator[ServiceProcess]:
    async with service_process(home) as process:
        yield process


@pytest.fixture
async def console(service: ServiceProcess) -> Console:
    console = await service.console()
    await until_online(console)
    return console


@pytest.fixture
def deploy(tmp_path: Path) -> Batch:
    (tmp_path / "data").mkdir()
    return read_batch(DEPLOY.replace("FOLDER", str(tmp_path)), "deploy.yaml")


def is_nowhere(secret: str, home: Home) -> None:
    """No file of the home has the secret, plain, as JSON writes it, in base64 or in hex."""
    plain = secret.encode()
    forms = [plain, plain[:16], base64.b64encode(plain)[:20], plain.hex().encode()]
    for file in home.path.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert not any(form in data for form in forms), file


def shows_the_line(waiting: Approval, folder: Path) -> None:
    """The card has the whole line but for the secret, and says what the line does."""
    shown = waiting.model_dump_json()
    assert "tr0ub4dor" not in shown
    assert "touched" not in shown
    assert readable(waiting.request.parameters)["command"] == (
        f"printf %s 'X-Token: •••' > {folder}/sent; true"
    )
    assert len(commitments_in(waiting.request.parameters)) == 1
    assert "X-Token: •••" in waiting.decision.summary
    assert not any("no shell line" in finding.text for finding in waiting.decision.findings)


async def is_approved(console: Console, key: OperatorKey, folder: Path) -> None:
    waiting = await next_approval(console)
    shows_the_line(waiting, folder)
    await approve(console, waiting, key)


async def test_an_agent_hides_no_command_in_a_secret_input(
    home: Home, console: Console, key: OperatorKey, deploy: Batch, token: str, tmp_path: Path
):
    await console.runs.save_batch("deploy", deploy)
    async with over_stdio(home, await add_agent(console, key)) as client:
        ticket = await asked(client, "run_batch", batch="deploy", inputs={"token": token})
        await is_approved(console, key, tmp_path)
        assert (await asked(client, "wait_run", ticket=ticket["ticket"]))["state"] == "done"
    it_was_data(token, home, tmp_path)


async def test_a_terminal_hides_no_command_in_a_secret_input(
    home: Home, console: Console, key: OperatorKey, deploy: Batch, token: str, tmp_path: Path
):
    file = tmp_path / "deploy.yaml"
    file.write_text(DEPLOY.replace("FOLDER", str(tmp_path)))
    words = ("run", str(file), "--input-stdin", "token", "--json")
    async with asyncio.TaskGroup() as group:
        ended = group.create_task(asyncio.to_thread(run, home, *words, input=token))
        waiting = await next_approval(console)
        card = await asyncio.to_thread(run, home, "approvals", "show", waiting.id)
        shows_the_line(waiting, tmp_path)
    assert "X-Token: •••" in card.out
    assert "1 secret" in card.out
    assert "tr0ub4dor" not in card.out + ended.result().out + ended.result().err
    await approve(console, waiting, key)
    await console.runs.wait(waiting.run or "", 60)
    it_was_data(token, home, tmp_path)


async def test_a_client_of_the_control_socket_hides_no_command_in_a_secret_input(
    home: Home, console: Console, key: OperatorKey, deploy: Batch, token: str, tmp_path: Path
):
    started = await console.runs.start(deploy, inputs={"token": token})
    await is_approved(console, key, tmp_path)
    await console.runs.wait(started.summary.id, 60)
    it_was_data(token, home, tmp_path)


def it_was_data(token: str, home: Home, folder: Path) -> None:
    assert (folder / "sent").read_text() == f"X-Token: {token}"
    assert (folder / "data").exists()
    assert not (folder / "touched").exists()
    is_nowhere(token, home)


async def test_a_secret_path_is_judged_as_the_path_that_it_is(
    home: Home, console: Console, key: OperatorKey, system_file: Path, tmp_path: Path
):
    file = tmp_path / "evil.yaml"
    file.write_text(EVIL)
    plain = await console.policy.explain(
        "this-computer", "write_file", {"file_path": str(system_file), "content": "x"}
    )
    planned = await asyncio.to_thread(
        run, home, "run", str(file), "--plan", "--input-stdin", "p", input=str(system_file)
    )
    assert system_file.name not in planned.out + planned.err
    words = ("run", str(file), "--input-stdin", "p", "--json")
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(run, home, *words, input=str(system_file)))
        await is_asked_about(plain, console, key, system_file)
    batch = read_batch(EVIL, "evil.yaml")
    await console.runs.start(batch, inputs={"p": str(system_file)})
    await is_asked_about(plain, console, key, system_file)
    await console.runs.save_batch("evil", batch)
    async with over_stdio(home, await add_agent(console, key)) as client:
        await asked(client, "run_batch", batch="evil", inputs={"p": str(system_file)})
        await is_asked_about(plain, console, key, system_file)
    is_nowhere(str(system_file), home)
    assert system_file.name not in os.listdir("/etc")


async def is_asked_about(plain: Decision, console: Console, key: OperatorKey, file: Path) -> None:
    waiting = await next_approval(console)
    assert waiting.decision.answer is plain.answer is Answer.ASK
    assert waiting.decision.risk is plain.risk
    assert "Writes under /etc" in [finding.text for finding in waiting.decision.findings]
    assert file.name not in waiting.model_dump_json()
    await deny(console, waiting, key, "No.")


@pytest.mark.parametrize(
    "command",
    [
        "${{ inputs.token }}",
        "ls; ${{ inputs.token }}",
        "sh -c 'ls ${{ inputs.token }}'",
        "ls ${{ raw(inputs.token) }}",
        "cat <<EOF\n${{ inputs.token }}\nEOF",
    ],
)
def test_a_secret_that_would_be_more_than_one_word_of_a_line_is_refused_when_the_file_is_read(command: str):
    line = command.replace("\n", "\\n")
    text = (
        "name: x\ninputs:\n  token: {type: string, secret: true}\nsteps:\n"
        f'  - {{id: a, tool: shell_execute, with: {{command: "{line}"}}}}\n'
    )
    with pytest.raises(BadInput, match=r"b\.yaml:5:"):
        read_batch(text, "b.yaml")

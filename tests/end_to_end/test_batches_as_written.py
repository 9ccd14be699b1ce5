"""Batch files as people write them, each run by a service on a real device process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.batch.batch_file import read_batch
from core.batch.models import AskedExpression, Cell, Run, RunState
from core.errors import BadInput, ErrorCode, Refused
from core.home import Home
from core.service import exit_codes, result_codes
from core.service.console import DeviceChanged
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import approve, next_approval, open_service
from tests.fakes.signing import accepted, anna

PATIENCE = 120.0
EVERYTHING_RUNS = """
profile = "trusted"

[[rule]]
id = "lab"
decision = "allow"
risk = ["low", "medium", "high"]
reason = "These batches change nothing but the folder of their test."
"""
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
async def service(home: Home, work: Path) -> AsyncIterator[Service]:
    place = home.create().device_state
    place.mkdir(parents=True, exist_ok=True)
    (place / "device.toml").write_text(f'roots = ["{work}"]\n')
    await accepted(home, EVERYTHING_RUNS)
    async with open_service(home) as service:
        yield service


def console_of(service: Service) -> LocalConsole:
    return LocalConsole(service, "operator:anna")


async def ran(service: Service, work: Path, text: str, **inputs: Any) -> Run:
    """Run a batch file to its end; `WORK` in it is the folder of the test."""
    batch = read_batch(text.replace("WORK", str(work)), "batch.yaml")
    console = console_of(service)
    run = await console.runs.start(batch, inputs=inputs)
    return await console.runs.wait(run.summary.id, PATIENCE)


def cells(run: Run) -> dict[str, Cell]:
    return {cell.step: cell for cell in run.cells}


def states(run: Run) -> dict[str, str]:
    return {cell.step: cell.state.value for cell in run.cells}


def failure(run: Run, step: str) -> tuple[ErrorCode, str]:
    result = cells(run)[step].result
    assert result is not None
    assert result.error is not None
    return result.error.code, result.error.message


COPY = """
name: copy
steps:
  - {id: r, tool: read_file, with: {file_path: "WORK/big.conf"}}
  - id: w
    tool: write_file
    with: {file_path: "WORK/copy2.conf", content: "# copy\\n${{ steps.r.result.content }}", mode: overwrite}
  - id: whole
    tool: write_file
    with: {file_path: "WORK/copy3.conf", content: "${{ steps.r.result.content }}", mode: overwrite}
"""


class TestLargeTexts:
    async def test_a_file_that_a_batch_copies_is_the_file_at_any_size_up_to_a_megabyte(self, service, work):
        lines = "".join(f"line {number} ä\n" for number in range(11_000))
        assert len(lines.encode()) > 130_000
        for content in (lines, lines[:40_000], lines[:70_000]):
            (work / "big.conf").write_text(content)
            run = await ran(service, work, COPY)
            assert states(run) == {"r": "done", "w": "done", "whole": "done"}
            assert (work / "copy2.conf").read_text() == "# copy\n" + content
            assert (work / "copy3.conf").read_text() == content

    async def test_an_expectation_looks_into_the_whole_text(self, service, work):
        (work / "big.conf").write_text("".join(f"line {number}\n" for number in range(9_000)))
        check = "name: check\nsteps:\n  - id: a\n    tool: shell_execute\n"
        check += "    with: {command: 'cat WORK/big.conf'}\n"
        found = await ran(
            service, work, f"""{check}    expect: "${{{{ result.stdout.contains('line 8999') }}}}"\n"""
        )
        assert states(found) == {"a": "done"}
        missing = await ran(
            service, work, f"""{check}    expect: "${{{{ result.stdout.contains('line 9000') }}}}"\n"""
        )
        assert failure(missing, "a")[0] is ErrorCode.EXPECTATION_FAILED

    async def test_a_text_beyond_what_an_expression_reads_is_an_error_and_never_its_reference(
        self, service, work
    ):
        run = await ran(
            service,
            work,
            """
name: size
steps:
  - {id: a, tool: shell_execute, with: {command: "head -c 3000000 /dev/zero | tr '\\\\0' x"}}
  - {id: b, tool: shell_execute, with: {command: "echo ${{ size(steps.a.result.stdout) }} > WORK/size.txt"}}
""",
        )
        code, message = failure(run, "b")
        assert code is ErrorCode.INVALID_ARGUMENTS
        assert "it reads" in message
        assert "allowed are 1,048,576" in message
        assert not (work / "size.txt").exists()

    async def test_a_resumed_run_reads_the_text_of_the_first_run_also_after_a_restart(
        self, home, service, work
    ):
        content = "".join(f"line {number}\n" for number in range(9_000))
        (work / "big.conf").write_text(content)
        text = COPY.replace("WORK/copy2.conf", "WORK/none/copy2.conf")
        run = await ran(service, work, text)
        assert states(run) == {"r": "done", "w": "failed", "whole": "not_started"}
        await service.close()
        (work / "none").mkdir()
        (work / "big.conf").write_text("another file by now")
        async with open_service(home) as again:
            console = console_of(again)
            resumed = await console.runs.resume(run.summary.id)
            resumed = await console.runs.wait(resumed.summary.id, PATIENCE)
        assert resumed.summary.state is RunState.DONE
        assert (work / "none" / "copy2.conf").read_text() == "# copy\n" + content

    async def test_the_builder_tries_expressions_on_the_whole_text(self, service, work):
        (work / "big.conf").write_text("".join(f"line {number}\n" for number in range(9_000)))
        await ran(service, work, COPY)
        batch = read_batch(COPY.replace("WORK", str(work)), "batch.yaml")
        asked = [
            AskedExpression(place="with", text="${{ size(steps.r.result.content) }}"),
            AskedExpression(place="when", text="${{ steps.r.result.content.contains('line 8999') }}"),
        ]
        answer = await console_of(service).runs.try_expressions(batch, "w", asked)
        assert [trial.value for trial in answer.trials] == [
            str((work / "big.conf").stat().st_size),
            "true",
        ]
        shown = {readable.path: readable for readable in answer.readable}
        assert shown["steps.r.result.content"].value.startswith('"line 0\\nline 1')


class TestMasks:
    @pytest.mark.parametrize("padding", [0, 70_000])
    async def test_a_masked_secret_is_never_written_into_a_file(self, service, work, padding):
        secret = f"token={TOKEN}\nurl=postgres://u:secretpw@h/db\n"
        (work / "app.env").write_text(secret + "x\n" * padding)
        run = await ran(
            service,
            work,
            """
name: env
steps:
  - {id: r, tool: read_file, with: {file_path: "WORK/app.env"}}
  - id: w
    tool: write_file
    with:
      file_path: "WORK/app.env.new"
      content: "${{ steps.r.result.content }}debug=true\\n"
      mode: overwrite
""",
        )
        assert states(run) == {"r": "done", "w": "failed"}
        code, message = failure(run, "w")
        assert code is ErrorCode.INVALID_ARGUMENTS
        assert "steps.r.result holds a masked secret (•••)" in message
        assert not (work / "app.env.new").exists()

    async def test_a_part_without_a_mask_goes_on_and_conditions_read_what_is_shown(self, service, work):
        (work / "app.env").write_text(f"token={TOKEN}\n")
        run = await ran(
            service,
            work,
            """
name: env
steps:
  - {id: r, tool: shell_execute, with: {command: "cat WORK/app.env"}}
  - id: w
    tool: write_file
    when: "${{ steps.r.result.stdout.startsWith('token=') }}"
    with: {file_path: "WORK/code.txt", content: "code ${{ steps.r.result.exit_code }}", mode: overwrite}
""",
        )
        assert states(run) == {"r": "done", "w": "done"}
        assert (work / "code.txt").read_text() == "code 0"


class TestStepIds:
    async def test_a_step_id_with_a_dash_or_a_word_of_cel_is_read_in_brackets(self, service, work):
        run = await ran(
            service,
            work,
            """
name: dashes
steps:
  - {id: check-disk, tool: get_system_info, with: {info_type: disk}}
  - {id: in, tool: get_system_info, with: {info_type: memory}}
  - id: b
    tool: shell_execute
    when: '${{ steps["in"].result.total_bytes > 0 }}'
    with: {command: "echo ${{ steps['check-disk'].result.filesystems[0].mount_point }} > WORK/mount.txt"}
""",
        )
        assert states(run) == {"check-disk": "done", "in": "done", "b": "done"}
        filesystems = cells(run)["check-disk"].result.result["filesystems"]
        assert (work / "mount.txt").read_text().strip() == filesystems[0]["mount_point"]

    def test_an_id_that_cannot_stand_behind_a_dot_is_said_to_be_written_in_brackets(self):
        for written, name in (("steps.check-disk.result.x", "check-disk"), ("steps.in.result.x", "in")):
            text = f"""
name: dashes
steps:
  - {{id: {name}, tool: look}}
  - {{id: b, tool: look, when: "${{{{ {written} == 1 }}}}"}}
"""
            with pytest.raises(BadInput) as refused:
                read_batch(text, "dashes.yaml")
            assert (
                f'the name {name} cannot stand behind a dot; write steps["{name}"]' in refused.value.message
            )
            assert refused.value.message.startswith("dashes.yaml:5:")


class TestFailuresThatArePartOfThePlan:
    async def test_a_probe_may_fail_and_the_run_is_done(self, service, work):
        run = await ran(
            service,
            work,
            """
name: probe
on_failure: continue
steps:
  - {id: look, tool: EXEC_CLI, allow_failure: true, with: {command: "ls WORK/made.tar.gz"}}
  - id: make
    tool: EXEC_CLI
    when: "${{ steps.look.result.exit_code != 0 }}"
    with: {command: "touch WORK/made.tar.gz"}
""",
        )
        assert states(run) == {"look": "done", "make": "done"}
        assert (run.summary.state, result_codes.of_run(run)) == (RunState.DONE, exit_codes.DONE)
        assert (work / "made.tar.gz").exists()
        assert cells(run)["look"].note.startswith("Its failure is allowed.")
        code, _ = failure(run, "look")
        assert code is ErrorCode.TOOL_FAILED

    async def test_an_expectation_decides_also_for_a_tool_that_failed(self, service, work):
        batch = """
name: codes
steps:
  - id: a
    tool: shell_execute
    with: {command: "exit CODE"}
    expect: "${{ result.exit_code in [0, 2] }}"
"""
        expected = await ran(service, work, batch.replace("CODE", "2"))
        assert (states(expected), expected.summary.state) == ({"a": "done"}, RunState.DONE)
        assert cells(expected)["a"].note.startswith("It failed as expected.")
        other = await ran(service, work, batch.replace("CODE", "3"))
        assert (states(other), other.summary.state) == ({"a": "failed"}, RunState.FAILED)
        assert failure(other, "a")[0] is ErrorCode.TOOL_FAILED
        # What was done as expected is not done again.
        with pytest.raises(Refused, match="is left to do"):
            await console_of(service).runs.resume(expected.summary.id)

    async def test_what_the_journal_tells_of_them_is_what_was(self, home, service, work):
        run = await ran(
            service,
            work,
            """
name: both
steps:
  - {id: a, tool: shell_execute, with: {command: "exit 2"}, expect: "${{ result.exit_code == 2 }}"}
  - {id: b, tool: shell_execute, with: {command: "exit 3"}, allow_failure: true}
  - {id: c, tool: read_file, with: {file_path: "WORK/none"}, allow_failure: true}
""",
        )
        assert states(run) == {"a": "done", "b": "done", "c": "done"}
        await service.close()
        async with open_service(home) as again:
            read = await console_of(again).runs.get(run.summary.id)
        assert [(cell.step, cell.state, cell.note) for cell in read.cells] == [
            (cell.step, cell.state, cell.note) for cell in run.cells
        ]
        assert read.summary.state is RunState.DONE

    async def test_a_fault_on_the_way_is_no_failure_that_is_allowed(self, service, work):
        run = await ran(
            service,
            work,
            """
name: faults
on_failure: continue
steps:
  - {id: a, tool: no_such_tool, allow_failure: true}
  - {id: b, tool: read_file, with: {file_path: "/etc/../etc/shadow"}, allow_failure: true}
""",
        )
        assert states(run)["a"] == "no_such_tool"
        assert states(run)["b"] != "done"
        assert run.summary.state is RunState.FAILED


HOSTED = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("alpha")


@server.tool()
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def names() -> list[str]:
    """The names."""
    return ["a", "b"]


server.run()
'''


class TestPlannedTypesAreThoseThatArrive:
    @pytest.fixture
    async def hosting(self, home: Home, work: Path) -> AsyncIterator[Service]:
        (work / "alpha.py").write_text(HOSTED)
        server = {"command": sys.executable, "args": [str(work / "alpha.py")]}
        place = home.create().device_state
        place.mkdir(parents=True, exist_ok=True)
        (place / "mcp.json").write_text(json.dumps({"mcpServers": {"alpha": server}}))
        (place / "device.toml").write_text(f'roots = ["{work}"]\nmcp_servers = "mcp.json"\n')
        await accepted(home, EVERYTHING_RUNS)
        async with open_service(home) as service:
            console = console_of(service)
            async with asyncio.timeout(PATIENCE):
                events = console.events()
                while "alpha_add" not in await self.offered(console):
                    async for event in events:
                        if isinstance(event, DeviceChanged):
                            break
            yield service

    async def offered(self, console: LocalConsole) -> set[str]:
        return {tool.tool_name for tool in await console.devices.tools("this-computer")}

    async def test_a_hosted_tool_is_planned_and_run_with_the_same_shape(self, hosting, work):
        text = """
name: hosted
on_failure: continue
steps:
  - {id: s, tool: alpha_add, with: {a: 40}, expect: "${{ result.structured.result == 42 }}"}
  - {id: n, tool: alpha_names, expect: "${{ size(result.structured.result) == 2 }}"}
"""
        plan = await console_of(hosting).runs.plan(read_batch(text, "hosted.yaml"))
        assert [cell.outcome for cell in plan.cells] == ["runs", "runs"], plan
        run = await ran(hosting, work, text)
        assert states(run) == {"s": "done", "n": "done"}
        wrong = text.replace("structured.result == 42", "result == 42")
        plan = await console_of(hosting).runs.plan(read_batch(wrong, "hosted.yaml"))
        assert plan.cells[0].outcome == "invalid"
        assert 'there is no field "result"; there are content, structured' in plan.cells[0].why


class TestWhatThePlanKnowsIsNotRun:
    async def test_a_step_that_is_wrong_on_every_device_is_refused_before_anything_runs(self, service, work):
        with pytest.raises(BadInput) as refused:
            await ran(
                service,
                work,
                """
name: typo
steps:
  - {id: ok, tool: shell_execute, with: {command: "echo ran >> WORK/e3.txt"}}
  - id: typo
    tool: get_system_info
    with: {info_type: memory}
    when: "${{ steps.ok.result.exit_cod == 0 }}"
""",
            )
        assert refused.value.message.startswith("Nothing was started: typo: when: there is no field")
        assert not (work / "e3.txt").exists()
        assert await console_of(service).runs.list() == []


class TestQuestions:
    QUESTION = """
name: asks
inputs: {text: {type: string}, token: {type: string, secret: true, default: hunter22}}
steps:
  - {id: go, approval: {question: "Write ${{ inputs.text }} …?"}}
"""

    async def test_a_question_is_shown_planned_and_signed_with_its_values(self, service):
        console = console_of(service)
        batch = read_batch(self.QUESTION, "asks.yaml")
        plan = await console.runs.plan(batch, {"text": "four words"})
        assert [(cell.outcome, cell.why) for cell in plan.cells] == [("question", "Write four words …?")]
        assert [cell.outcome for cell in (await console.runs.plan(batch)).cells] == ["not_known"]
        run = await console.runs.start(batch, inputs={"text": "four words"})
        approval = await next_approval(console)
        assert approval.request.parameters["question"] == "Write four words …?"
        assert approval.decision.summary == "Write four words …?"
        await approve(console, approval, anna(service.home))
        done = await console.runs.wait(run.summary.id, PATIENCE)
        assert states(done) == {"go": "done"}
        entries = await console.journal.entries(f"run:{run.summary.id} kind:approval_requested")
        assert [entry.body["question"] for entry in entries.entries] == ["Write four words …?"]

    async def test_a_question_that_becomes_too_long_fails_and_is_not_asked(self, service):
        console = console_of(service)
        batch = read_batch(self.QUESTION, "asks.yaml")
        run = await console.runs.start(batch, inputs={"text": "x" * 2_000})
        ended = await console.runs.wait(run.summary.id, PATIENCE)
        assert states(ended) == {"go": "failed"}
        assert "a question has at most 2,000 characters" in failure(ended, "go")[1]

    @pytest.mark.parametrize(
        ("read", "what"),
        [
            ("inputs.token", "the secret input token may only go into an argument"),
            ("device.name", "an approval is asked once for all devices"),
            ("inputs.nope", 'there is no input "nope"'),
        ],
    )
    def test_what_a_question_cannot_read_is_found_when_the_file_is_read(self, read, what):
        with pytest.raises(BadInput) as refused:
            read_batch(self.QUESTION.replace("inputs.text", read), "asks.yaml")
        assert what in refused.value.message
        assert refused.value.message.startswith("asks.yaml:5:")

"""A device behind a slow line, seen from the console: busy and not lost, its transfer told, and it stops."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from pathlib import Path

from core.approvals.operator_keys import create_operator_key
from core.audit.entries import Kind
from core.batch.models import Cell
from core.commands.results import Verdict
from core.fleet.models import CheckState
from core.home import Home
from core.models.devices import Health
from core.service.api.events import CellChanged
from tests.fakes.bad_line import bad_line
from tests.fakes.desk import approve, next_approval
from tests.fakes.device_process import forked_device
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import expecting, stands

NAME = "d1"
# Long enough that it is still under way whatever the test does meanwhile.
LARGE = "0123456789abcdef" * 200_000
BYTES_PER_S = 100_000
# Whole lines: the end of a word is not shown live while it may become a token.
PARTS, PART_LINES = 20, 130
PART = PART_LINES * 77
# A part is printed each time that a line comes through the pipe `go`; after the last it ends with the next.
STEPS = f"exec 3<go; for n in $(seq {PARTS}); do read -r _ <&3; cat part.$n; done; read -r _ <&3"


def stepping_parts(folder: Path) -> list[str]:
    """The files that `STEPS` prints, and its pipe."""
    parts = [base64.encodebytes(os.urandom(PART_LINES * 57)).decode() for _ in range(PARTS)]
    for number, part in enumerate(parts, 1):
        (folder / f"part.{number}").write_text(part)
    os.mkfifo(folder / "go")
    return parts


async def test_a_transfer_is_told_the_device_stays_busy_and_a_stop_ends_it(tmp_path: Path):
    home = Home(tmp_path / "home").create()
    key = create_operator_key(home, "anna", None)
    async with (
        expecting(home, key, NAME) as it,
        bad_line(it.port) as line,
        forked_device(f"ws://127.0.0.1:{line.port}/ws", tmp_path, it.token),
    ):
        await stands(it.console, NAME, Health.ONLINE)
        large = tmp_path / "root" / "large"
        large.write_text(LARGE)
        line.to_console.rate = BYTES_PER_S
        events = it.console.events()
        run = await it.console.runs.call(NAME, "read_file", {"file_path": str(large)}, PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            while "kB of the answer received" not in (cell := await _next_cell(events)).progress:
                pass
            assert cell.run == run.summary.id
            assert it.service.fleet.get(NAME).health is Health.BUSY
            reach = next(check for check in await it.console.devices.diagnose(NAME) if check.name == "reach")
            assert reach.state is CheckState.PASSED
            assert "; it sends " in reach.found
            # A small call of the same device does not wait for it.
            small = await it.console.runs.call(NAME, "get_system_info", {"info_type": "os"}, PATIENCE_S)
            [answered] = (await it.console.runs.wait(small.summary.id, PATIENCE_S)).cells
            assert answered.ended_at is not None
            [waiting] = (await it.console.runs.get(run.summary.id)).cells
            assert waiting.ended_at is None
            await it.console.runs.cancel_step(run.summary.id, NAME, cell.step)
            [ended] = (await it.console.runs.wait(run.summary.id, PATIENCE_S)).cells
        assert ended.result is not None
        assert ended.result.verdict is not Verdict.UNKNOWN
        assert ended.result.result == {
            "not_kept": "it had ended, and was cancelled while its answer was being sent"
        }
        assert line.to_console.passed < len(LARGE) / 2
        line.restore()


async def _next_cell(events: object) -> Cell:
    while True:
        event = await anext(events)  # type: ignore[call-overload]
        if isinstance(event, CellChanged):
            return event.cell


async def test_live_output_crosses_a_slow_line_once_and_the_journal_has_all_of_it(tmp_path: Path):
    home = Home(tmp_path / "home").create()
    key = create_operator_key(home, "anna", None)
    async with (
        expecting(home, key, NAME) as it,
        bad_line(it.port) as line,
        forked_device(f"ws://127.0.0.1:{line.port}/ws", tmp_path, it.token),
    ):
        await stands(it.console, NAME, Health.ONLINE)
        parts = stepping_parts(tmp_path / "root")
        output = "".join(parts)
        line.to_console.rate = BYTES_PER_S
        before = line.to_console.passed
        events = it.console.events()
        command = {"command": STEPS, "timeout": PATIENCE_S}
        run = await it.console.runs.call(NAME, "shell_execute", command, PATIENCE_S)
        await approve(it.console, await next_approval(it.console), key)
        go = await asyncio.to_thread((tmp_path / "root" / "go").open, "wb", buffering=0)
        async with asyncio.timeout(PATIENCE_S):
            seen = 0
            for part in parts:
                go.write(b"\n")
                seen += len(part)
                while (await _next_cell(events)).output_size < seen:
                    pass
            go.write(b"\n")
            go.close()
            [ended] = (await it.console.runs.wait(run.summary.id, PATIENCE_S)).cells
        used = line.to_console.passed - before
        line.restore()
        assert used <= 1.2 * len(output)
        assert ended.result is not None
        record = await it.console.journal.command(ended.result.call_id)
        [recorded] = [entry.body for entry in record.entries if entry.kind is Kind.RESULT_RECORDED]
        stdout = recorded["result"]["result"]["stdout"]
        assert (stdout["blob"], stdout["size"]) == (hashlib.sha256(output.encode()).hexdigest(), len(output))
        assert await it.console.journal.blob(stdout["blob"]) == output.encode()
        assert recorded["result"]["result"]["exit_code"] == 0


async def test_a_secret_that_frames_of_live_output_cut_is_redacted_in_the_result(tmp_path: Path):
    home = Home(tmp_path / "home").create()
    key = create_operator_key(home, "anna", None)
    token = "ghp_" + os.urandom(18).hex()
    async with (
        expecting(home, key, NAME) as it,
        bad_line(it.port) as line,
        forked_device(f"ws://127.0.0.1:{line.port}/ws", tmp_path, it.token),
    ):
        await stands(it.console, NAME, Health.ONLINE)
        folder = tmp_path / "root"
        parts = stepping_parts(folder)
        parts[3], parts[4] = parts[3] + "\n" + token[:20], token[20:] + "\n" + parts[4]
        for number in (3, 4):
            (folder / f"part.{number + 1}").write_text(parts[number])
        command = {"command": STEPS, "timeout": PATIENCE_S}
        run = await it.console.runs.call(NAME, "shell_execute", command, PATIENCE_S)
        await approve(it.console, await next_approval(it.console), key)
        go = await asyncio.to_thread((folder / "go").open, "wb", buffering=0)
        passed = line.to_console.passed
        for part in parts:
            go.write(b"\n")
            passed += len(part)
            await line.to_console.passed_in_all(passed)
        go.write(b"\n")
        go.close()
        [ended] = (await it.console.runs.wait(run.summary.id, PATIENCE_S)).cells
        assert ended.result is not None
        recorded = ended.result.result["stdout"]
        kept = (await it.console.journal.blob(recorded["blob"])).decode()
        before, after = "".join(parts).split(token)
        assert (kept[: len(before)], kept[-len(after) :]) == (before, after)
        assert token not in kept
        assert token[20:] not in kept
        # It came as progress, and not in the result.
        assert line.to_console.passed - passed < 4 * PART

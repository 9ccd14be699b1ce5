"""A shell's live output over both our ends: it crosses the line once, and the result is what it was."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.aip.device_link import DeviceLink
from core.aip.extensions import FEATURES
from core.aip.messages import Command, Result, ResultStatus
from core.device.build import build_router
from core.device.config import DeviceConfig, Limits
from core.tasks import TaskGroupOwner
from tests.fakes.both_ends import BothEnds, both_ends
from tests.fakes.link_console import device_in_process, link_console, welcome
from tests.fakes.patience import PATIENCE_S

PARTS, PART = 20, 10_000


def shell(line: str) -> Command:
    given = {"command": line, "timeout": PATIENCE_S}
    return Command(tool_name="shell_execute", tool_type="action", parameters=given, call_id="c1")


class Stepping:
    """A command that prints a part of its output each time that it is told to."""

    def __init__(self, folder: Path, parts: list[bytes], then: str = "") -> None:
        self.parts = parts
        for number, part in enumerate(parts):
            (folder / f"part.{number}").write_bytes(part)
        os.mkfifo(folder / "go")
        self._fifo = folder / "go"
        steps = f"for n in $(seq 0 {len(parts) - 1}); do read -r _ <&3 && cat part.$n; done"
        self.command = shell(f"exec 3<go; {steps}; read -r _ <&3; {then}")
        self._go: Any = None

    async def step(self) -> None:
        if self._go is None:
            self._go = await asyncio.to_thread(self._fifo.open, "wb", buffering=0)
        self._go.write(b"\n")

    @property
    def text(self) -> str:
        return b"".join(self.parts).decode("utf-8", "replace")

    def close(self) -> None:
        if self._go is not None:
            self._go.close()


class Run:
    """The command under way, and what was seen of it live."""

    def __init__(self, ends: BothEnds, stepping: Stepping, tasks: TaskGroupOwner) -> None:
        self.ends, self.stepping, self.live = ends, stepping, ""
        sending = ends.line.send_commands([stepping.command], PATIENCE_S)
        self.sending = tasks.spawn("call", sending)

    async def see(self, text: str) -> None:
        """Wait until this much was seen of the output."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.live.encode()) < len(text.encode()):
                self.live += (await self.ends.progress.get()).text
        assert self.live == text

    async def print_all(self) -> None:
        """Have every part printed, and see it before the next."""
        for number in range(len(self.stepping.parts)):
            await self.stepping.step()
            if number % 5 == 4:
                await self.see(b"".join(self.stepping.parts[: number + 1]).decode("utf-8", "replace"))

    async def result(self) -> Result:
        await self.stepping.step()
        async with asyncio.timeout(PATIENCE_S):
            [result] = await self.sending
        assert self.ends.line.link is not None
        assert self.ends.line.link.held["streamed_bytes"] == 0
        return result


@asynccontextmanager
async def run_of(tmp_path: Path, parts: list[bytes], then: str = "") -> AsyncIterator[tuple[Run, DeviceLink]]:
    tasks = TaskGroupOwner("test", lambda name, error: None)
    stepping = Stepping(tmp_path, parts, then)
    async with both_ends(tmp_path) as ends:
        try:
            link = await ends.link()
            yield Run(ends, stepping, tasks), link
        finally:
            ends.network.restore()
            stepping.close()
    await tasks.close()


def random_lines() -> list[bytes]:
    return [base64.encodebytes(os.urandom(PART))[:PART] for _ in range(PARTS)]


@pytest.fixture
def recalls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that were recalled."""
    asked: list[Any] = []
    recall = DeviceLink.recall

    async def counted(self: DeviceLink, call_ids: Any, timeout: float) -> Any:
        asked.append(call_ids)
        return await recall(self, call_ids, timeout)

    monkeypatch.setattr(DeviceLink, "recall", counted)
    return asked


async def test_live_output_crosses_the_line_once_and_the_result_has_all_of_it(
    tmp_path: Path, recalls: list[Any]
):
    async with run_of(tmp_path, random_lines()) as (run, _):
        before = run.ends.network.to_console.passed
        await run.print_all()
        result = await run.result()
        used = run.ends.network.to_console.passed - before
        assert result.result is not None
        assert (result.status, result.result["stdout"]) == (ResultStatus.SUCCESS, run.stepping.text)
        assert used <= 1.2 * PARTS * PART
        assert recalls == []


async def test_a_result_is_the_same_with_and_without_the_feature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    results = []
    parts = [b"line\n" * 2000, "Ä🙂 and \xff bytes\n".encode("latin-1", "replace") * 100, b"\xf0\x9f" * 600]
    for known in (FEATURES, FEATURES - {"streamed_output"}):
        monkeypatch.setattr("core.aip.extensions.FEATURES", known)
        folder = tmp_path / str(len(known))
        folder.mkdir()
        async with run_of(folder, parts, then="echo told >&2; exit 3") as (run, link):
            assert ("streamed_output" in link.features) == ("streamed_output" in known)
            await run.print_all()
            result = await run.result()
            assert result.result is not None
            result.result["execution_time"] = 0
            results.append(result)
    assert results[0] == results[1]
    assert results[0].result["stdout"] == b"".join(parts).decode("utf-8", "replace")
    assert results[0].result["stderr"] == "told\n"


async def test_a_cut_in_the_middle_brings_the_whole_result_over_the_next_link(
    tmp_path: Path, recalls: list[Any]
):
    async with run_of(tmp_path, random_lines()) as (run, link):
        for _ in range(5):
            await run.stepping.step()
        await run.see(b"".join(run.stepping.parts[:5]).decode())
        run.ends.network.reset()
        second = await run.ends.link()
        assert second is not link
        for _ in range(5, PARTS):
            await run.stepping.step()
        result = await run.result()
        assert result.result is not None
        assert result.result["stdout"] == run.stepping.text
        assert recalls


async def test_characters_that_chunks_cut_and_bytes_that_are_no_text_arrive_as_in_the_result(
    tmp_path: Path, recalls: list[Any]
):
    smile = "🙂".encode()
    parts = [b"a" * 4000 + smile[:1], smile[1:3], smile[3:] + b"\xff\xfe" * 900, smile[:2], b"", b"b" * 3000]
    async with run_of(tmp_path, parts) as (run, _):
        for _ in parts:
            await run.stepping.step()
        result = await run.result()
        assert result.result is not None
        assert result.result["stdout"] == run.stepping.text
        assert recalls == []


@pytest.mark.parametrize("most", [2_000, 50_000])
async def test_output_beyond_the_devices_limit_ends_where_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recalls: list[Any], most: int
):
    config = DeviceConfig(roots=(tmp_path,), limits=Limits(max_output_bytes=most))
    monkeypatch.setattr("tests.fakes.both_ends.DeviceConfig", lambda roots: config)
    async with run_of(tmp_path, random_lines()) as (run, _):
        for _ in range(PARTS):
            await run.stepping.step()
        result = await run.result()
        assert result.result is not None
        text = result.result["stdout"]
        assert run.stepping.text.startswith(text)
        assert most * 0.8 < len(text) < most
        assert result.result["truncated"] is True
        assert recalls == []


async def test_a_console_without_the_feature_gets_what_it_always_got(tmp_path: Path):
    known = FEATURES - {"streamed_output", "metrics", "chunks"}
    stepping = Stepping(tmp_path, [b"x" * 5000])
    config = DeviceConfig(roots=(tmp_path,))
    async with link_console(welcome(known)) as console:
        router = build_router(config, tmp_path / "state", "d1")
        async with device_in_process(console, router, config, tmp_path / "state"):
            wire = await console.link()
            await wire.send(stepping.command.model_dump())
            await stepping.step()
            frame = await wire.hear()
            assert (frame["type"], frame["text"]) == ("quarterdeck.progress", "x" * 5000)
            assert "span" not in frame
            await stepping.step()
            while (frame := await wire.hear())["type"] == "quarterdeck.progress":
                assert "span" not in frame
            assert frame["metadata"] is None
            assert frame["action_results"][0]["result"]["stdout"] == "x" * 5000
    stepping.close()

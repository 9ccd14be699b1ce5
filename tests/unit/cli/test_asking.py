"""A call that waits for its answer at a terminal, or whose service or device is not there for it."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.approvals.operator_keys import create_operator_key
from core.cli.answer import print_answer
from core.cli.approvals import granted_terms
from core.cli.call import call
from core.cli.prompt import ask_line
from core.cli.session import Session
from core.cli.signing import KeySource
from core.errors import BadInput, DeviceError, ErrorCode, Refused, ServiceError
from core.home import Home
from core.models.devices import Health
from core.models.tools import Risk
from core.service import exit_codes
from core.service.console import Console
from tests.fakes.control_socket import HERE, FakeHost
from tests.fakes.patience import PATIENCE_S

PASSPHRASE = "correct horse battery"


class Seat:
    """A terminal, with somebody at it who reads before they type."""

    def __init__(self, master: int) -> None:
        self.master = master
        self.seen = ""

    async def sees(self, text: str, times: int = 1) -> None:
        loop = asyncio.get_running_loop()
        news = asyncio.Event()
        loop.add_reader(self.master, news.set)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self.seen.count(text) < times:
                    await news.wait()
                    news.clear()
                    self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
        finally:
            loop.remove_reader(self.master)

    def types(self, text: str) -> None:
        os.write(self.master, text.encode())


@contextmanager
def seated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seat]:
    """The test's own standard input and error on a terminal."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as end, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", end)
        patch.setattr(sys, "stderr", end)
        yield Seat(master)
    os.close(master)


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def key(tmp_path: Path, host: FakeHost) -> Home:
    home = Home(tmp_path / "home").create()
    host.fake.operators = [create_operator_key(home, "anna", PASSPHRASE).operator]
    return home


async def made(
    console: Console,
    home: Home,
    tool: str,
    hosted: bool = True,
    wait: float = 0,
    json_wanted: bool = True,
) -> int:
    session = Session(home, console, hosted)
    unlocking = KeySource(operator="anna")
    answer = await call(
        session,
        "this-computer",
        tool,
        [],
        timeout=None,
        wait=wait,
        json_wanted=json_wanted,
        unlocking=unlocking,
    )
    await print_answer(answer, json_wanted)
    return answer.code


@pytest.mark.parametrize(
    ("method", "verdict", "code"), [("call", "unknown", 7), ("tools", "refused", 9)], ids=["asked", "not yet"]
)
async def test_a_service_that_does_not_answer_leaves_it_unknown_only_once_it_was_asked_for_the_call(
    host: FakeHost, key: Home, capsys: pytest.CaptureFixture[str], method: str, verdict: str, code: int
) -> None:
    host.fake.fail_next[method] = ServiceError("It did not answer within 30 s.", ErrorCode.SERVICE_SILENT)
    assert await made(host.console("cli:anna"), key, "change") == code
    envelope = json.loads(capsys.readouterr().out)
    assert envelope["verdict"] == verdict
    assert (envelope["basis"] == "nothing_sent") is (verdict == "refused")
    assert ("is not known" in envelope["error"]["message"]) is (verdict == "unknown")


async def test_a_passphrase_with_a_typing_error_decides_nothing_and_is_asked_for_again(
    host: FakeHost, key: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.TaskGroup() as tasks:
        with seated(monkeypatch) as seat:
            calling = tasks.create_task(made(host.console("cli:anna"), key, "change"))
            for number, passphrase in enumerate(("korrect horse battery", PASSPHRASE), 1):
                await seat.sees('Type "approve"', number)
                seat.types("approve\n")
                await seat.sees("Passphrase of anna", number)
                seat.types(f"{passphrase}\n")
            assert await calling == exit_codes.DONE
    assert host.asked["decide"] == 1
    assert "Nothing was decided." in seat.seen


async def test_a_terminal_that_is_closed_at_the_question_leaves_no_request_behind(
    host: FakeHost, key: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def until_refused() -> Refused:
        with pytest.raises(Refused) as refused:
            await made(host.console("cli:anna"), key, "change", hosted=False)
        return refused.value

    async with asyncio.TaskGroup() as tasks:
        with seated(monkeypatch) as seat:
            calling = tasks.create_task(until_refused())
            await seat.sees('Type "approve"')
            seat.types("\x04")
            refused = await calling
    assert exit_codes.exit_code_of(refused.code) == exit_codes.NOT_APPROVED
    assert "Run r-0001 was cancelled" in refused.message
    assert host.asked["cancel_run"] == 1


async def test_a_terminal_that_hangs_up_ends_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def fileno(self) -> int:
            return reading

    reading, writing = os.pipe()
    monkeypatch.setattr(sys, "stdin", Gone())
    real = os.read
    monkeypatch.setattr(os, "read", lambda n, size: hung_up() if n == reading else real(n, size))

    def hung_up() -> bytes:
        raise OSError(5, "Input/output error")

    os.write(writing, b"x")
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(Refused):
            await ask_line("? ")
    os.close(reading)
    os.close(writing)


async def test_a_service_that_dies_in_the_middle_leaves_an_unknown_outcome_and_says_of_which_run(
    host: FakeHost, key: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    host.fake.answer("run", ServiceError("The connection to the service was lost."))
    code = await made(host.console("cli:anna"), key, "change", hosted=False, wait=60)
    assert code == exit_codes.OUTCOME_UNKNOWN
    told = json.loads(capsys.readouterr().out)
    assert (told["run"], told["error"]["code"]) == ("r-0001", "outcome_unknown")
    assert "quarterdeck runs show r-0001" in told["error"]["next"]


async def test_a_call_to_a_device_that_is_away_is_left_to_the_service_to_refuse(
    host: FakeHost, key: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    host.fake.change_device(HERE, health=Health.OFFLINE, reason="it went home")
    host.fake.answer("tools", [])
    host.fake.answer("call", DeviceError(f"{HERE} is offline: it went home."))
    assert await made(host.console("cli:anna"), key, "change") == exit_codes.DEVICE_OFFLINE
    told = json.loads(capsys.readouterr().out)
    assert (told["device"], told["tool_name"], told["call_id"]) == ("this-computer", "change", None)
    assert told["error"]["code"] == ErrorCode.DEVICE_OFFLINE
    assert "is offline: it went home" in told["error"]["message"]
    code = await made(host.console("cli:anna"), key, "change", json_wanted=False)
    assert code == exit_codes.DEVICE_OFFLINE
    assert "is offline: it went home" in capsys.readouterr().err
    host.fake.change_device(HERE, health=Health.ONLINE)
    host.fake.answer("call", host.fake.on_call)
    host.fake.tools_of[HERE].clear()
    assert await made(host.console("cli:anna"), key, "change") == exit_codes.BAD_INPUT
    assert json.loads(capsys.readouterr().out)["error"]["code"] == ErrorCode.UNKNOWN_TOOL


@pytest.mark.parametrize("until", ["yesterday", "2020-01-01", "0001-01-01", "0h", "uses=0"])
def test_a_grant_that_would_be_over_at_once_is_not_signed(until: str) -> None:
    request: Any = SimpleNamespace(run=None, decision=SimpleNamespace(risk=Risk.HIGH))
    with pytest.raises(BadInput, match=r"is not understood|is not a date or time|is over already"):
        granted_terms(request, "anna", [until if "=" in until else f"until={until}"], for_run=False)


@pytest.mark.parametrize("length", [1024, 5_000])
async def test_a_passphrase_that_no_key_can_have_is_refused_and_never_cut(
    tmp_path: Path, length: int
) -> None:
    file = tmp_path / "passphrase"
    file.write_text("x" * length)
    with pytest.raises(BadInput, match="at most 1,023 bytes"):
        await KeySource(passphrase_file=file).passphrase("anna")
    file.write_text("x" * 1023 + "\nsecond line")
    key = create_operator_key(
        Home(tmp_path).create(), "anna", await KeySource(passphrase_file=file).passphrase("anna")
    )
    assert key.name == "anna"

"""No fake: a real service, a device client's process that wants signed approvals, and a proxy between them.

The proxy may alter what they say. Each command appends a line to a file: that is what counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.approvals.operator_keys import OperatorKey
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import ErrorCode
from core.home import Home
from core.ids import new_id
from core.models.devices import Device as KnownDevice
from core.models.devices import Health
from core.service.console import Console
from core.service.service import Service
from tests.fakes.altering_proxy import AlteringProxy, Frame, altering_proxy, honest
from tests.fakes.desk import approve, next_approval
from tests.fakes.device_process import forked_device
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import expecting, stands

NAME = "d1"
TOOL = "shell_execute"
ALLOWS_ALL = '[[rule]]\nid = "all"\ndecision = "allow"\nrisk = ["low", "medium", "high", "critical"]\n'


@dataclass
class Desk:
    """A service that listens, the operator's door to it, and whoever is in the middle."""

    service: Service
    console: Console
    key: OperatorKey
    proxy: AlteringProxy
    token: str
    folder: Path
    counted: str = "count"

    def begin_anew(self) -> None:
        """For another test: nothing is altered, nothing was seen, nothing has run."""
        self.proxy.attack = honest
        self.proxy.seen.clear()
        self.proxy.said.clear()
        self.counted = f"count-{new_id()}"

    @property
    def count(self) -> Path:
        return self.folder / "root" / self.counted

    @property
    def ran(self) -> list[str]:
        """Which commands ran on the device, in order."""
        return self.count.read_text().split() if self.count.exists() else []

    async def online(self) -> KnownDevice:
        return await stands(self.console, NAME, Health.ONLINE)

    async def begin(self, word: str = "x", timeout: float = PATIENCE_S) -> str:
        """Let a command start that leaves `word` in the file, and approve it."""
        run = await self.console.runs.call(NAME, TOOL, {"command": f"echo {word} >> '{self.count}'"}, timeout)
        await approve(self.console, await next_approval(self.console), self.key)
        return run.summary.id

    async def result(self, run: str) -> CommandResult:
        [cell] = (await self.console.runs.wait(run, PATIENCE_S)).cells
        assert cell.result is not None
        return cell.result

    async def call(self, word: str = "x", timeout: float = PATIENCE_S) -> CommandResult:
        return await self.result(await self.begin(word, timeout))

    async def still_works(self) -> None:
        """After an attack an honest approval is served as ever."""
        self.proxy.attack = honest
        before = self.ran
        assert (await self.call("honest")).error is None
        assert self.ran == [*before, "honest"]


def demanding(folder: Path, *keys: OperatorKey, approvers: int = 1) -> None:
    """A device.toml that pins these operators."""
    (folder / "root").mkdir(parents=True, exist_ok=True)
    pinned = "".join(
        f'[[pinned_operators]]\nname = "{key.name}"\npublic_key = "{key.public_key}"\n' for key in keys
    )
    (folder / "device.toml").write_text(
        f'roots = ["{folder}/root"]\ntools_off = ["shell_execute_read"]\n'
        f"require_signed_approval = true\napprovers = {approvers}\n{pinned}"
    )


@asynccontextmanager
async def open_desk(home: Home, key: OperatorKey, folder: Path) -> AsyncIterator[Desk]:
    async with expecting(home, key, NAME) as device, altering_proxy(device.port) as proxy:
        yield Desk(device.service, device.console, key, proxy, device.token, folder)


@asynccontextmanager
async def connected(desk: Desk) -> AsyncIterator[None]:
    async with forked_device(desk.proxy.url, desk.folder, desk.token):
        await desk.online()
        yield


def action(frame: Frame) -> dict[str, Any]:
    found: dict[str, Any] = frame["actions"][0]
    return found


def approval(frame: Frame) -> dict[str, Any]:
    found: dict[str, Any] = action(frame)["quarterdeck"]["approval"]
    return found


def refused_by_device(result: CommandResult) -> None:
    assert (result.verdict, result.basis) == (Verdict.REFUSED, Basis.DEVICE_REFUSED), result
    assert result.error is not None
    assert result.error.code is ErrorCode.DENIED_BY_DEVICE

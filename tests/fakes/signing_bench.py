"""A device with one action that wants signed approvals, what is sent to it, and operators who sign for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.aip.contract_digest import contract_digest
from core.aip.extensions import CommandOptions
from core.aip.frames import read_error_text
from core.aip.messages import Command, Result
from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.device import DeviceConfig, Router, build_router
from core.device.config import PinnedOperator
from core.device.tool import Contract, Tool, object_schema, text
from core.errors import ErrorCode
from core.home import Home
from core.statements import ApprovalProof, SignedStatement, Statement, make_request
from tests.fakes.read_shell import NO_READ_SHELL

DEVICE = "lab-1"
FACTS: dict[str, Any] = {"effect": {"value": "change", "source": "operator", "why": "It writes."}}


async def _unserved(call: Any) -> dict[str, Any]:
    return {}


NOTE = Tool(
    name="note",
    title="Note",
    tool_type="action",
    description="Notes a line.",
    input_schema=object_schema({"line": text("What.")}),
    output_schema={},
    contract=Contract("change", "low", reversible=False, idempotent=False),
    run=_unserved,
)
CONTRACT = contract_digest(NOTE.info(), FACTS)


class Keys:
    """Operators' keys by name, and statements that they have signed."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._keys: dict[str, OperatorKey] = {}

    def __getitem__(self, name: str) -> OperatorKey:
        if name not in self._keys:
            self._keys[name] = create_operator_key(self._home, name, None)
        return self._keys[name]

    def pinned(self, *names: str) -> tuple[PinnedOperator, ...]:
        return tuple(PinnedOperator(name=name, public_key=self[name].public_key) for name in names)

    def signs(self, command: Command, by: str = "anna", **changes: Any) -> SignedStatement:
        """What an operator signs who saw exactly this command, of a tool with the contract `over`; the other
        `changes` are to the statement."""
        contract = changes.pop("over", CONTRACT)
        request = make_request(
            device=changes.pop("on", DEVICE),
            contract=contract,
            tool_key=f"{command.tool_type}::{command.tool_name}",
            tool_name=command.tool_name,
            tool_type=command.tool_type,
            namespace=changes.pop("namespace", "builtin"),
            parameters=command.parameters or {},
            call_id=command.call_id or "",
        )
        usual = {
            "verdict": "approve",
            "approval": "a-1",
            "request_digest": request.digest,
            "contract": contract,
            "device": request.device,
            "call_id": request.call_id,
            "approver": by,
            "expires": (datetime.now(UTC) + timedelta(seconds=60)).isoformat(),
        }
        return self[by].sign(Statement.model_validate(usual | changes))


def command_of(call_id: str = "c1", line: str = "echo ran", **changes: Any) -> Command:
    usual = {"tool_name": "note", "tool_type": "action", "parameters": {"line": line}, "call_id": call_id}
    return Command.model_validate(usual | changes)


def terms_of(*signed: SignedStatement, **changes: Any) -> CommandOptions:
    leave = ApprovalProof(statements=list(signed), contract=CONTRACT, tool_key="action::note", facts=FACTS)
    return CommandOptions(deadline_s=10, approval=leave.model_dump(mode="json") | changes)


class Bench:
    """A device with one action, which remembers what it was run with."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.ran: list[str] = []

    async def run(self, command: Command, terms: CommandOptions | None) -> Result:
        return await self.router.run(command, 10, terms=terms)

    async def refused(
        self,
        command: Command,
        terms: CommandOptions | None,
        code: ErrorCode = ErrorCode.DENIED_BY_DEVICE,
    ) -> str:
        """Why it was refused; nothing was run."""
        before = list(self.ran)
        told = read_error_text((await self.run(command, terms)).error or "")
        assert told.code is code, told
        assert self.ran == before
        return told.message


def bench(folder: Path, keys: Keys, *names: str, **config: Any) -> AbstractAsyncContextManager[Bench]:
    """A device that pins these operators; its state outlives it."""
    return bench_of(folder, *(keys[name] for name in names), **config)


@asynccontextmanager
async def bench_of(folder: Path, *operators: OperatorKey, **config: Any) -> AsyncIterator[Bench]:
    """The same, by the keys themselves."""
    pinned = tuple(PinnedOperator(name=one.name, public_key=one.public_key) for one in operators)
    config = {"roots": (folder,), "tools_off": NO_READ_SHELL, "pinned_operators": pinned, **config}
    settings = DeviceConfig(require_signed_approval=True, **config)
    router = build_router(settings, folder / "state", DEVICE)
    made = Bench(router)

    async def note(call: Any) -> dict[str, Any]:
        made.ran.append(call.arguments["line"])
        return {"ok": True}

    router.offer(replace(NOTE, run=note))
    try:
        yield made
    finally:
        await router.close()

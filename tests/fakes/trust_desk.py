"""No fake: a home whose devices an operator pairs and signs for, over as many services as it wants."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from core.aip.pairing import Pairing, decode_pairing, encode_pairing
from core.approvals.operator_keys import (
    OperatorKey,
    create_operator_key,
    list_operator_keys,
    load_operator_key,
)
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Entry, NewEntry
from core.audit.journal import Journal
from core.changes import Change, ChangeKind, SignedChange, change_statement
from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.devices import Health
from core.models.tools import Tool
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.lab_device import AWAY, FEATURES
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.scripted_device import ScriptedDevice, scripted, tool


def operator_key(home: Home) -> OperatorKey:
    """The key of the operator anna."""
    known = any(file.name == "anna" for file in list_operator_keys(home))
    return (load_operator_key if known else create_operator_key)(home, "anna", None)


@dataclass
class TrustDesk:
    """One service that runs, with anna at it."""

    home: Home
    service: Service
    console: Console
    key: OperatorKey

    @property
    def url(self) -> str:
        """Where devices dial in."""
        return self.service.links.listening().url

    async def sign(self, wish: Change, text: str = "") -> SignedChange | None:
        """Anna's signature under what the service proposes for a wish, where it needs one."""
        proposal = await self.console.service.propose(wish, text)
        if not proposal.needs_signature:
            return None
        return self.key.sign_change(change_statement(proposal, self.key.name))

    async def pair(self, name: str, **settings: Any) -> str:
        """Pair a device that dials in; gives its token."""
        wish = Change(kind=ChangeKind.DEVICE_PAIRED, subject=name, after={"direction": "in", **settings})
        wanted = DeviceSettings.model_validate(settings)
        pairing = await self.console.devices.pair(name, wanted, await self.sign(wish))
        return decode_pairing(pairing.string).token

    async def pair_listening(self, name: str, url: str, token: str) -> None:
        """Pair a device that is dialled."""
        line = encode_pairing(Pairing(url, name, token))
        after = {"direction": "out", "url": url, "fingerprint": ""}
        wish = Change(kind=ChangeKind.DEVICE_PAIRED, subject=name, after=after)
        await self.console.devices.pair_listening(name, line, DeviceSettings(), await self.sign(wish, line))

    async def set_device(self, name: str, **settings: Any) -> None:
        """Set tags, production or agent."""
        wish = Change(kind=ChangeKind.DEVICE_SET, subject=name, after=settings)
        wanted = DeviceSettings.model_validate(settings)
        await self.console.devices.update(name, wanted, await self.sign(wish))

    async def review(self, name: str, found: Tool) -> Tool:
        """Trust a tool as it is now."""
        digest = found.contract.digest
        wish = Change(
            kind=ChangeKind.CONTRACT, subject=f"{name}/{found.tool_key}", after={"contract": digest}
        )
        return await self.console.devices.review_tool(name, found.tool_key, digest, await self.sign(wish))

    async def lets_in(self, token: str) -> bool:
        """Whether the listener takes this token."""
        try:
            async with connect(f"{self.url}?token={token}"):
                return True
        except InvalidStatus:
            return False

    @asynccontextmanager
    async def online(
        self, name: str, token: str, tools: list[dict[str, Any]] | None = None
    ) -> AsyncIterator[ScriptedDevice]:
        """The device, connected, its tools listed; away again afterwards."""
        async with scripted(self.url, token, name, features=FEATURES) as device:
            device.tools = tools if tools is not None else [tool("poke")]
            await stands(self.console, name, Health.ONLINE)
            yield device
        await stands(self.console, name, *AWAY)

    async def tools(self, name: str) -> dict[str, bool]:
        """By name of a tool, whether it is blocked."""
        return {found.tool_name: found.changed for found in await self.console.devices.tools(name)}

    async def entries(self, query: str) -> list[Entry]:
        """What the journal has, oldest first."""
        await self.service.journal.settle()
        return (await self.service.journal.query(query, after=0, limit=500)).entries

    def notes(self) -> str:
        """What a file says and does not count, as people are told."""
        return "\n".join(self.service.policy_status().notes)


@asynccontextmanager
async def trust_desk(home: Home) -> AsyncIterator[TrustDesk]:
    """A service on this home; it has ended afterwards."""
    service = await Service.open(make_listening_home(home.path))
    try:
        console = LocalConsole(service, "operator:anna")
        key = operator_key(home)
        await console.approvals.register_operator(key.operator)
        yield TrustDesk(home, service, console, key)
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await service.close()


async def write_journal(home: Home, *entries: NewEntry) -> None:
    """Append to the journal of a home that no service owns, with its own key."""
    key = load_or_create_journal_key(home.keys / "journal.key")
    journal = await Journal.open(home.path, key, "quarterdeck")
    try:
        await journal.append_many(list(entries))
    finally:
        await journal.close()


def edit_journal(home: Home, kind: str, old: str, new: str) -> None:
    """Exchange a text in the stored entries of one kind, as a program with SQLite would."""
    with closing(sqlite3.connect(home.path / "journal.db")) as database:
        found = database.execute("SELECT seq, entry FROM entries WHERE kind = ?", (kind,)).fetchall()
        changed = [
            (data.replace(old.encode(), new.encode()), seq) for seq, data in found if old.encode() in data
        ]
        assert changed
        database.executemany("UPDATE entries SET entry = ? WHERE seq = ?", changed)
        database.commit()


def edit_json(path: Path, **rows: dict[str, Any] | None) -> None:
    """Change rows of `devices.json` by name as another program would; None takes one out."""
    data = json.loads(path.read_text())
    found = {row["name"]: row for row in data["devices"]}
    for name, change in rows.items():
        key = name.replace("_", "-")
        if change is None:
            del found[key]
        else:
            row = {**found.get(key, {"name": key}), **change}
            found[key] = {field: value for field, value in row.items() if value is not None}
    path.write_text(json.dumps({"devices": list(found.values())}))

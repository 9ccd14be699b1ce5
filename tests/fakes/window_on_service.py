"""The real window on a real service over its real socket, all on one loop; for tests of what is signed.

    async def test_…(theme, tmp_path):
        async with open_on_service(theme, tmp_path) as bay:
            bay.desk.window.choose_profile(Profile.TRUSTED)
            …

The operator `harbour` is registered, and their key, without a passphrase unless one is given, is in the home.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication
from app.theme.theme import Theme
from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.approvals.operators import adding
from core.audit.entries import Entry, Kind
from core.changes import Change, SignedChange, change_statement
from core.home import Home
from core.service.console import Console
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from core.service.service import Service
from core.service.wishes import policy_change
from core.user import user_name
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.window import NO_SCREEN, begin_on, nothing_left, seen, uncaught_in

SETTINGS = 'this_computer = "in-process"\nlisten = "127.0.0.1:0"\n'


@dataclass
class Bay:
    """A window, the service behind it, and what a test does beside both."""

    desk: ConsoleApplication
    service: Service
    server: ControlServer
    home: Home
    keys: dict[str, OperatorKey]
    doors: list[Console] = field(default_factory=list)

    @property
    def beside(self) -> Console:
        """A client of this user that is not the window."""
        return LocalConsole(self.service, f"cli:{user_name()}")

    async def signed_by(self, name: str, wish: Change, text: str = "") -> SignedChange:
        """What another client of this operator signs."""
        proposal = await self.beside.service.propose(wish, text)
        return self.keys[name].sign_change(change_statement(proposal, name))

    def forget_run(self, run: str) -> None:
        """As after a restart: the service has this run in its journal alone."""
        del self.service.runs._runs[run]

    async def entries(self, *kinds: Kind) -> list[Entry]:
        """The journal's entries of these kinds, oldest first."""
        await self.service.journal.settle()
        page = await self.service.journal.query(f"kind:{','.join(kinds)}", after=0, limit=1_000)
        return page.entries

    async def signed_entry(self, kind: Kind) -> tuple[Entry, SignedChange]:
        """The newest entry of a kind, with the signature that it has to hold."""
        entry = (await self.entries(kind))[-1]
        return entry, SignedChange.model_validate(entry.body["signed"])


@asynccontextmanager
async def open_on_service(
    theme: Theme,
    folder: Path,
    operators: tuple[tuple[str, str | None], ...] = (("harbour", None),),
    policy: str = "",
    begins_on: str = NO_SCREEN,
) -> AsyncIterator[Bay]:
    """The window; `operators` are names and passphrases, `policy` the accepted text."""
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    home = Home(folder / "home").create()
    choose_channel(home, "in-process")
    (home.path / "settings.toml").write_text(SETTINGS)
    keys = {name: create_operator_key(home, name, phrase) for name, phrase in operators}
    app.setStyleSheet("")
    async with open_service(home) as service:
        await _begin(service, list(keys.values()), policy)
        server = ControlServer(LocalConsoles(service), home)
        await server.open()
        doors: list[Console] = []

        async def opened() -> Console:
            doors.append(await RemoteConsole.connect(home, "window", f"window:{user_name()}"))
            return doors[-1]

        desk = ConsoleApplication(home, theme, opened)
        desk.window.resize(1440, 900)
        uncaught = uncaught_in(desk)
        begin_on(desk, begins_on)
        try:
            await seen(lambda: desk.state.loaded and len(desk.keys.listed) == len(keys))
            desk.state.flush()
            yield Bay(desk, service, server, home, keys, doors)
        finally:
            await desk.end()
            await server.close()
    nothing_left()
    assert not uncaught, uncaught[0]


async def _begin(service: Service, keys: list[OperatorKey], policy: str) -> None:
    console = LocalConsole(service, "cli:test")
    for number, key in enumerate(keys):
        proposal = await console.service.propose(adding(key.operator))
        signed = keys[0].sign_change(change_statement(proposal, keys[0].name)) if number else None
        await console.approvals.register_operator(key.operator, signed)
    if policy:
        found = await console.policy.text()
        proposal = await console.service.propose(policy_change(policy), policy)
        signed = keys[0].sign_change(change_statement(proposal, keys[0].name))
        await console.policy.save(policy, found.digest, signed)

"""Programs of the operator's session try to loosen and to approve: a real window, service, bus and X server.

The attacker calls the accessibility bus as any program of the session can, and makes input with XTEST and
with sent events. The displays of tests have no devices that a hand could reach; where a hand is wanted,
XTEST's input in the name of the display's mouse and keyboard stands for it, and the window is told to
believe that.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from core.approvals.models import Approval
from core.approvals.operator_keys import create_operator_key
from core.batch.models import Run
from core.home import Home
from core.models.devices import Health
from core.service.console import Console
from tests.fakes.accessible_session import accessible_session
from tests.fakes.desk import next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import ROOT
from tests.fakes.remote_device import stands
from tests.fakes.service_process import service_process
from tests.fakes.session_attacker import BusAttacker, XAttacker, on_the_bus

NAME, OPERATOR = "this-computer", "anna"
PASSPHRASE = "calm seas and wind"
SIGN = "Sign and apply"
APPROVE, FIELD, GO_ON = "Approve once", "Passphrase", "Go on"
ASKS = "Type your passphrase to approve the request"
NO_HAND = "This press came from a program, not from your hand"
LOOSE = """profile = "trusted"

[[rule]]
id = "all"
decision = "allow"
risk = "<=critical"
"""


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with accessible_session("1600x1000") as environment:
        yield environment


@dataclass
class Desk:
    console: Console
    bus: BusAttacker
    x: XAttacker
    home: Home

    async def ask(self, tool: str, **parameters: object) -> tuple[Run, Approval]:
        run = await self.console.runs.call(NAME, tool, parameters)
        return run, await next_approval(self.console)

    async def still_waits(self, approval: Approval) -> None:
        assert [one.id for one in await self.console.approvals.list()] == [approval.id]

    async def ends(self, run: Run) -> None:
        """The run ends as it should."""
        [cell] = (await self.console.runs.wait(run.summary.id, PATIENCE_S)).cells
        assert cell.result is not None
        assert cell.result.error is None, cell.result.error

    async def point_at(self, name: str) -> tuple[int, int]:
        """Move the pointer to a control; where that is."""
        place = await self.bus.middle_of(await self.bus.find(name))
        self.x.move(place)
        return place

    def type_passphrase(self, words: str = PASSPHRASE) -> None:
        """As a remote desktop types it, with XTEST; and Enter."""
        for keycode in [*self.x.keycodes(words), self.x.enter]:
            self.x.keys(keycode, device=False)


@contextlib.asynccontextmanager
async def open_desk(
    home: Home, session: dict[str, str], passphrase: str | None = PASSPHRASE, believing: bool = False
) -> AsyncIterator[Desk]:
    """A service, an operator's key, a window on the approvals where it is unlocked, and the attacker."""
    (home.path / "settings.toml").write_text('listen = "127.0.0.1:0"\n')
    key = create_operator_key(home, OPERATOR, passphrase)
    words = ["-m", "tests.fakes.window_on_approvals", str(home.path), OPERATOR]
    words += [passphrase] if passphrase else []
    words += ["--devices"] if believing else []
    async with service_process(home) as service, contextlib.AsyncExitStack() as stack:
        console = await service.console()
        await console.approvals.register_operator(key.operator)
        await stands(console, NAME, Health.ONLINE)
        window = await asyncio.create_subprocess_exec(
            sys.executable, *words, cwd=ROOT, env=session, stdout=asyncio.subprocess.PIPE
        )
        stack.push_async_callback(window.wait)
        stack.callback(window.kill)
        assert window.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            assert await window.stdout.readline() == b"ready\n"
        bus = await stack.enter_async_context(on_the_bus(window.pid))
        x = XAttacker(session["DISPLAY"])
        stack.callback(x.close)
        yield Desk(console, bus, x, home)


@pytest.fixture(scope="module", autouse=True)
def in_the_session(session: dict[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for key, value in session.items():
            patch.setenv(key, value)
        for key in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE"):
            patch.delenv(key, raising=False)
        yield


@pytest.mark.slow
async def test_programs_on_the_bus_do_not_change_the_policy(home: Home, session: dict[str, str]):
    async with open_desk(home, session) as desk:
        bus = desk.bus
        await bus.act(await bus.find("Settings"))
        assert await bus.set_text(await bus.find("policy.toml"), LOOSE)
        await bus.act(await bus.find("Save"))
        # Whoever wants it saved has to sign for what it loosens.
        await bus.act(await bus.find(SIGN))
        await bus.reads(NO_HAND)
        assert not (home.path / "policy.toml").exists()
        explained = await desk.console.policy.explain(NAME, "shell_execute", {"command": "rm -rf ~"})
        assert explained.answer.value == "ask"
        # The registry's click asks for the passphrase, which the bus cannot give.
        await bus.click(await bus.middle_of(await bus.find(SIGN)))
        await bus.reads("Type your passphrase to sign this change")
        await bus.set_text(await bus.find(FIELD), PASSPHRASE)
        await bus.act(await bus.find(GO_ON))
        await bus.reads("Text that a program sets does not count")
        assert await bus.text_of(await bus.find(FIELD)) == ""
        assert not (home.path / "policy.toml").exists()


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def desk(session: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    """The desk of a class; each test leaves it with nothing asked."""
    async with open_desk(Home(tmp_path_factory.mktemp("desk") / "home").create(), session) as made:
        yield made


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="class")
class TestOneWindow:
    """What programs of the session try at one window; in the end of each test its request is approved."""

    async def test_a_press_on_the_bus_approves_nothing_of_medium_risk(self, desk: Desk, tmp_path: Path):
        written = tmp_path / "note.txt"
        run, approval = await desk.ask("write_file", file_path=str(written), content="x")
        assert approval.decision.risk.value == "medium"
        await desk.bus.act(await desk.bus.find(APPROVE))
        await desk.bus.reads(NO_HAND)
        await desk.still_waits(approval)
        assert not written.exists()
        await desk.point_at(APPROVE)
        desk.x.button(device=False)
        await desk.ends(run)

    async def test_input_of_the_registry_asks_for_the_passphrase_at_high_risk_and_typed_it_counts(
        self, desk: Desk, tmp_path: Path
    ):
        bus, ran = desk.bus, tmp_path / "ran"
        run, approval = await desk.ask("shell_execute", command=f"touch '{ran}'")
        assert approval.decision.risk.value == "high"
        button = await bus.find(APPROVE)
        await bus.click(await bus.middle_of(button))
        await bus.reads(ASKS)
        # What the bus sets is taken out, and a press of the answer finds nothing.
        await bus.set_text(await bus.find(FIELD), PASSPHRASE)
        await bus.act(await bus.find(GO_ON))
        await bus.reads("Text that a program sets does not count")
        await bus.act(await bus.find("Cancel"))
        # The chord, too.
        await bus.press_keys(desk.x.control, desk.x.enter)
        await bus.reads(ASKS)
        desk.type_passphrase("wrong words")
        await bus.reads("does not open")
        await desk.still_waits(approval)
        assert not ran.exists()
        desk.type_passphrase()
        await desk.ends(run)
        assert ran.exists()
        # It is asked for each time.
        run, approval = await desk.ask("shell_execute", command=f"rm '{ran}'")
        await bus.click(await bus.middle_of(await bus.find(APPROVE)))
        await bus.reads(ASKS)
        await desk.still_waits(approval)
        assert ran.exists()
        desk.type_passphrase()
        await desk.ends(run)

    async def test_input_made_with_xtest_approves_medium_risk_and_sent_events_nothing(
        self, desk: Desk, tmp_path: Path
    ):
        """A desk that is worked over x11vnc stays usable; the last lines show that the presses do press."""
        written = tmp_path / "note.txt"
        run, approval = await desk.ask("write_file", file_path=str(written), content="x")
        place = await desk.point_at(APPROVE)
        desk.x.send(place)
        desk.x.send(place, desk.x.enter)
        # What comes after them from the server is handled after them: D asks for a reason, Escape goes back.
        desk.x.keys(desk.x.keycode("d"), device=False)
        await desk.bus.find("Reason for denying")
        await desk.still_waits(approval)
        assert not written.exists()
        desk.x.keys(desk.x.keycode("Escape"), device=False)
        await desk.point_at(APPROVE)
        desk.x.button(device=False)
        await desk.ends(run)
        assert written.read_text() == "x"

    async def test_xtest_in_the_name_of_a_real_device_is_no_hand(self, desk: Desk, tmp_path: Path):
        ran = tmp_path / "ran"
        run, approval = await desk.ask("shell_execute", command=f"touch '{ran}'")
        await desk.point_at(APPROVE)
        desk.x.button(device=True)
        await desk.bus.reads(ASKS)
        await desk.bus.act(await desk.bus.find("Cancel"))
        desk.x.keys(desk.x.control, desk.x.enter, device=True)
        await desk.bus.reads(ASKS)
        await desk.still_waits(approval)
        assert not ran.exists()
        desk.type_passphrase()
        await desk.ends(run)


@pytest.mark.slow
async def test_without_a_passphrase_input_of_a_program_approves_no_high_risk(
    home: Home, session: dict[str, str], tmp_path: Path
):
    async with open_desk(home, session, passphrase=None) as desk:
        ran = tmp_path / "ran"
        _run, approval = await desk.ask("shell_execute", command=f"touch '{ran}'")
        await desk.bus.click(await desk.bus.middle_of(await desk.bus.find(APPROVE)))
        await desk.bus.reads("The key of anna has no passphrase that could take its place")
        await desk.still_waits(approval)
        assert not ran.exists()


@pytest.mark.slow
async def test_a_device_of_the_display_is_a_hand_and_a_chord_held_by_a_program_is_not(
    home: Home, session: dict[str, str], tmp_path: Path
):
    async with open_desk(home, session, believing=True) as desk:
        ran = tmp_path / "ran"
        run, approval = await desk.ask("shell_execute", command=f"touch '{ran}'")
        await desk.bus.find(APPROVE)
        # A program holds Ctrl and waits until the operator presses Enter for something else.
        desk.x.key(desk.x.control, down=True, device=False)
        desk.x.keys(desk.x.enter, device=True)
        desk.x.key(desk.x.control, down=False, device=False)
        await desk.bus.reads(ASKS)
        await desk.still_waits(approval)
        await desk.bus.act(await desk.bus.find("Cancel"))
        desk.x.keys(desk.x.control, desk.x.enter, device=True)
        await desk.ends(run)
        assert ran.exists()
        run, _approval = await desk.ask("shell_execute", command=f"rm '{ran}'")
        await desk.point_at(APPROVE)
        desk.x.button(device=True)
        await desk.ends(run)
        assert not ran.exists()

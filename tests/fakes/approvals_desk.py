"""No fake: the Approvals screen alone on a `FakeConsole`, and requests to show on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.input_origin import InputOrigin
from app.screens.approvals.screen import ApprovalsScreen
from app.screens.targets import Target
from app.service_client import ConsoleLink
from app.signing.change_signing import ChangeSigning
from app.signing.press_guard import PressGuard
from app.signing.signing_session import SigningSession
from app.state import AppState, Link
from app.theme.theme import theme_of
from core.approvals.models import Approval, ApprovalState
from core.approvals.operator_keys import create_operator_key
from core.home import Home
from core.models.tools import Effect, Risk
from core.policy.models import Answer, Decision, Finding, Profile, Reason
from core.service.console import Console
from core.statements import make_request
from tests.fakes.console import FakeConsole
from tests.fakes.hand import ScriptedHand
from tests.fakes.patience import PATIENCE_S
from tests.gui.approvals.page import end_guard

KEYS = Qt.Key
CTRL = Qt.KeyboardModifier.ControlModifier


_ASKED_FROM = datetime.now(UTC) - timedelta(minutes=1)


def stamp(seconds_from_now: float = 0.0) -> str:
    """A UTC stamp as the service writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds_from_now)).isoformat()


def make_approval(number: int = 1, **changes: Any) -> Approval:
    """A request of medium risk that waits; `tool`, `parameters`, `risk` and others replace its parts."""
    tool = changes.pop("tool", "shell_execute")
    parameters = changes.pop("parameters", {"command": f"echo {number}", "timeout": 20})
    request = make_request(
        device=changes.pop("device", "lab-lnx-01"),
        contract="c0ffee" + "0" * 58,
        tool_key=f"action::{tool}",
        tool_name=tool,
        tool_type="action",
        namespace="builtin",
        parameters=parameters,
        call_id=f"call-{number:04}",
    )
    risk = Risk(changes.pop("risk", "medium"))
    decision = Decision(
        answer=Answer.ASK,
        risk=risk,
        effect=Effect.CHANGE,
        profile=Profile.GUARDED,
        summary=changes.pop("summary", f"Runs shell line {number}"),
        reasons=changes.pop(
            "reasons", [Reason(text=f"Profile guarded: {risk.value} risk asks", origin="profile")]
        ),
        findings=changes.pop("findings", []),
        reversible=changes.pop("reversible", False),
        undo=changes.pop("undo", "Cannot be undone: what a shell line changes is not recorded."),
        approvers=changes.get("approvers", 1),
    )
    left = changes.pop("left", 600.0)
    values: dict[str, Any] = {
        "id": f"a-{number:04}",
        "request": request,
        "decision": decision,
        "actor": "agent:clerk",
        # By their numbers, however long it took to make one after the other.
        "asked_at": (_ASKED_FROM + timedelta(milliseconds=number)).isoformat(),
        "expires_at": stamp(left),
        "remaining_s": left,
    }
    return Approval(**{**values, **changes})


def find_in(text: str, part: str, risk: str, words: str, **more: Any) -> Finding:
    """A finding about a part of the argument `command`."""
    start = text.index(part)
    return Finding(
        text=words, risk=Risk(risk), argument="command", start=start, end=start + len(part), **more
    )


@dataclass
class FakeNav:
    """The window, as far as a screen sees it."""

    keys: SigningSession
    by_hand: PressGuard
    layout_store: QSettings
    opened: list[tuple[str, Target | None]] = field(default_factory=list)
    toasts: list[str] = field(default_factory=list)
    unlocks: int = 0

    def open(self, screen: str, target: Target | None = None) -> None:
        self.opened.append((screen, target))

    def toast(self, text: str) -> None:
        self.toasts.append(text)

    def fail(self, what: str, detail: str) -> None:
        raise AssertionError(f"{what} {detail}")

    def start_unlock(self) -> None:
        self.unlocks += 1

    def choose_profile(self, profile: Profile) -> None:
        raise AssertionError(profile)

    def accept_changes(self) -> None:
        raise AssertionError("the screen signs no changes")

    @property
    def signing(self) -> ChangeSigning:
        raise AssertionError("the screen signs no changes")

    def apply_density(self) -> None:
        raise AssertionError("the screen has no say in this")


class Uncaught:
    """Errors in answers and background work of a screen without a window, which has the banner for them."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []

    def report(self, _task: str, error: BaseException) -> None:
        """Keep an error for `check`."""
        self._errors.append(error)

    def check(self) -> None:
        """Raise the first error, so that the test fails."""
        if self._errors:
            raise self._errors[0]


@dataclass
class ApprovalsDesk:
    """One running screen and everything around it."""

    screen: ApprovalsScreen
    console: FakeConsole
    state: AppState
    nav: FakeNav

    async def until(self, true: Callable[[], object], what: str = "") -> None:
        """Let the loop run until something is so."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not true():  # noqa: ASYNC110  # widgets have no event for each thing a test looks at
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"it did not happen: {what or true}") from None

    async def guard_over(self) -> None:
        """Let the open card's guard end now; how long it lasts by itself has tests of its own."""
        if self.screen.bar.guarded:
            if self.screen.card.approval is not None:
                await self.until(lambda: "helpers" in self.console.asked, "what helps to judge is read")
            end_guard(self.screen.bar)
        await self.until(lambda: not self.screen.bar.guarded, "the guard ends")

    async def open(self, approval: Approval) -> None:
        """Put a request into the queue, open its card and wait until it may be answered."""
        self.console.request(approval)
        await self.until(lambda: approval.id in self.screen.queue.model.ids, "the request is in the queue")
        self.screen.open_card(approval.id)
        await self.guard_over()

    def shown(self) -> Approval:
        """The request on the card."""
        approval = self.screen.card.approval
        assert approval is not None
        return approval


# The fixture `desk_with` of the window tests: a screen of its own, opened as `open_desk` is told.
DeskWith = Callable[..., AbstractAsyncContextManager[ApprovalsDesk]]


def press(desk: ApprovalsDesk, key: Qt.Key, modifier: Qt.KeyboardModifier | None = None) -> None:
    """A key to whatever has the focus in the window."""
    target = desk.screen.focusWidget() or desk.screen
    QTest.keyClick(target, key, modifier or Qt.KeyboardModifier.NoModifier)


def state_of(desk: ApprovalsDesk, number: int = 1) -> ApprovalState:
    """What became of a request that `make_approval` made."""
    return desk.console.queue[f"a-{number:04}"].state


@asynccontextmanager
async def open_desk(
    folder: Path,
    requests: list[Approval] | None = None,
    size: tuple[int, int] = (1264, 830),
    unlocked: bool = True,
    passphrase: str | None = None,
    second: str | None = None,
    hand: InputOrigin = InputOrigin.REAL,
) -> AsyncIterator[ApprovalsDesk]:
    """The screen in a window of its own, attached, with an operator whose key is registered.

    `second` is the passphrase of another operator, anna, whose key lies in the home as well. `hand` makes the
    input.
    """
    home = Home(folder).create()
    keys = SigningSession(home)
    operator = await keys.create("harbour", passphrase)
    if not unlocked:
        keys.lock()
    operators = [operator]
    if second is not None:
        operators.append(create_operator_key(home, "anna", second).operator)
        await keys.refresh()
    console = FakeConsole(operators=operators)
    for request in requests or []:
        console.queue[request.id] = request
    state = AppState()

    async def open_console() -> Console:
        return console

    uncaught = Uncaught()
    link = ConsoleLink(open_console, state, uncaught.report)
    nav = FakeNav(
        keys, PressGuard(link, keys), QSettings(str(folder / "window.ini"), QSettings.Format.IniFormat)
    )
    screen = ApprovalsScreen()
    screen.input_source = ScriptedHand(hand)  # type: ignore[attr-defined]  # as the window has it
    screen.bind(state, link, nav)
    # As the window has it: the sheet is the screen's own, and the application has none.
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    application.setStyleSheet("")
    theme_of(screen).dress(screen)
    screen.resize(*size)
    screen.show()
    screen.activateWindow()
    desk = ApprovalsDesk(screen, console, state, nav)
    link.start()
    try:
        await desk.until(lambda: state.service.link is Link.CONNECTED, "the link is up")
        screen.enter(None)
        await desk.until(screen.isActiveWindow, "the window is active")
        yield desk
    finally:
        screen.leave()
        await link.close()
        screen.close()
        screen.deleteLater()
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    uncaught.check()

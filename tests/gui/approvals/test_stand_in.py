"""A program in the service's place shows one command and wants another signed: the window signs neither.

The window is real, and so are the control socket between the two and the key, which is unlocked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.input_origin import InputOrigin
from app.main import ConsoleApplication
from app.screens.approvals.screen import ApprovalsScreen
from app.theme.theme import Theme
from core.approvals.operator_keys import create_operator_key
from core.errors import Refused, ServiceError
from core.home import Home
from core.service.rpc.client import RemoteConsole
from core.statements import Request
from tests.fakes.stand_in import (
    HARMLESS,
    LIES,
    StandIn,
    lying_request,
    malformed_request,
    standing_in,
)
from tests.fakes.window import open_window, seen
from tests.gui.approvals.page import end_guard

PASSPHRASE = "correct horse battery"
FORGED: dict[str, Request] = {
    **{lie: lying_request(lie) for lie in LIES},
    "malformed": malformed_request(),
}


@pytest.mark.parametrize("lie", FORGED)
async def test_the_window_signs_nothing_for_another_command_than_the_one_shown(
    theme: Theme, tmp_path: Path, lie: str
) -> None:
    home = Home(tmp_path).create()
    key = create_operator_key(home, "anna", None)
    create_operator_key(home, "bert", PASSPHRASE)
    stages: list[Any] = []

    async def opened() -> RemoteConsole:
        if stages:
            raise ServiceError("It was there once; a slow window tries again before it has ended.")
        stand_in = standing_in(home, key.operator, FORGED[lie])
        stages.append((stand_in, await stand_in.__aenter__()))
        return await RemoteConsole.connect(home, "window", "operator:anna")

    async with open_window(theme, tmp_path, opened, begins_on="approvals", has_faults=True) as desk:
        [(stage, host)] = stages
        try:
            await _every_way_to_sign(desk, host)
        finally:
            await stage.__aexit__(None, None, None)


async def _every_way_to_sign(desk: ConsoleApplication, host: StandIn) -> None:
    await desk.keys.unlock("anna", None)
    desk.window.open("approvals")
    screen = desk.window.current
    assert isinstance(screen, ApprovalsScreen)
    await seen(lambda: screen.card.approval is not None)
    end_guard(screen.bar)
    await seen(lambda: not screen.bar.guarded)
    assert HARMLESS.encode() in screen.card.bytes.box.exact_bytes
    assert "digest does not fit" in screen.card.banner.words().lower()
    assert not screen.bar.approve.isEnabled()
    assert not screen.bar.deny.isEnabled()
    QTest.keyClick(screen, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    screen.bar.approve_asked.emit(InputOrigin.REAL)
    screen.bar.deny_asked.emit("no")
    for approve in (True, False):
        screen.pane.answer(approve=approve, reason="")
    screen.pane.ask_second()
    screen.pane.ask_grant()
    for verdict in ("approve", "deny"):
        with pytest.raises(Refused, match="nothing is signed"):
            desk.keys.sign(host.waiting(), verdict)
    with pytest.raises(Refused, match="nothing is signed"):
        await desk.keys.sign_once("bert", PASSPHRASE, [host.waiting()])
    assert host.harvest == []
    assert host.asked["decide"] == 0

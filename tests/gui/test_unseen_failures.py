"""Failures that nobody would see: each reaches the banner, also when what asked is gone by then."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QBuffer, QIODevice
from PySide6.QtGui import QImage

from app import images
from app.images import decode_picture, decoded
from app.main import Desk
from app.qt_loop import ended
from app.screens.fleet.device_dialogs import start_revoke
from app.screens.fleet.thumbnail import PictureStore
from app.screens.journal.attachments_tab import read_blob
from app.screens.replay.screen import ReplayScreen
from app.screens.targets import OpenReplay
from app.service_client import ConsoleLink
from app.state import Link
from app.theme.theme import Theme
from app.widgets.image_view import PictureView
from core.errors import BadInput, Refused
from core.service.console import Console, Proof
from tests.fakes.approvals_desk import ApprovalsDesk, Play
from tests.fakes.console import FakeConsole
from tests.fakes.pictures import desktop_png
from tests.fakes.sign_sheets import operator_of
from tests.fakes.story import story
from tests.fakes.window import play, seen


def broken(_answer: object) -> None:
    raise ValueError("nobody sees this")


async def broken_work() -> None:
    broken(None)


async def refused(_console: Console) -> None:
    raise Refused("The queue is closed.")


@pytest.mark.parametrize(
    "go_wrong",
    [
        pytest.param(lambda link: link.ask(lambda console: console.approvals.list(), broken), id="answer"),
        pytest.param(lambda link: link.ask(refused, on_error=broken), id="refusal"),
        pytest.param(lambda link: link.spawn("work", broken_work()), id="background work"),
    ],
)
def test_an_error_of_the_window_reaches_the_banner_and_fails_the_test(
    theme: Theme, tmp_path: Path, go_wrong: Callable[[ConsoleLink], object]
) -> None:
    async def scenario(desk: Desk) -> None:
        heard: list[str] = []
        desk.reporter.happened.connect(lambda words, _details: heard.append(words))
        go_wrong(desk.link)
        await seen(lambda: heard)
        assert heard == ["ValueError: nobody sees this"]

    with pytest.raises(AssertionError, match="ValueError: nobody sees this"):
        play(theme, tmp_path, FakeConsole(), scenario)


def test_an_error_in_an_answer_fails_the_test_of_a_screen_without_a_window(play: Play) -> None:
    async def story(desk: ApprovalsDesk) -> None:
        asked = desk.screen.link.ask(lambda console: console.approvals.list(), broken)
        await asyncio.wait([asked])

    with pytest.raises(ValueError, match="nobody sees this"):
        play(story)


def test_the_link_goes_on_after_an_error_that_nobody_expected(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    real, calls = console.service.state, list[int]()

    async def state() -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("a bug of the window")
        return await real()

    console.service.state = state  # type: ignore[method-assign]  # it fails once

    async def scenario(desk: Desk) -> None:
        await seen(lambda: desk.state.service.link is Link.CONNECTED)
        assert len(calls) == 2

    play(theme, tmp_path, console, scenario, has_faults=True)


def test_a_refused_act_is_told_although_its_dialog_was_closed(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])
    asked, answer = asyncio.Event(), asyncio.Event()

    async def revoke(_name: str) -> None:
        asked.set()
        await answer.wait()
        raise Refused("The disk is full.")

    console.devices.revoke = revoke  # type: ignore[method-assign]  # it is refused late

    async def scenario(desk: Desk) -> None:
        desk.window.open("fleet")
        device = next(iter(desk.state.devices.values()))
        sheet = start_revoke(desk.window, desk.link, device, desk.window.toast)
        sheet.answer("revoke").click()
        await asked.wait()
        sheet.dismissed.emit()
        await ended(sheet.destroyed)
        answer.set()
        await seen(lambda: "Could not revoke the device. The disk is full." in said(desk))

    play(theme, tmp_path, console, scenario)


def said(desk: Desk) -> str:
    """What the banners of the window say."""
    return " ".join(desk.window.notices.words())


def test_a_proof_of_another_entry_is_no_proof_of_the_one_that_was_asked_for(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    real = console.journal.prove

    async def proof(seq: int) -> Proof:
        return await real(seq - 1)

    console.journal.prove = proof  # type: ignore[method-assign]  # a service that answers with another entry's

    async def scenario(desk: Desk) -> None:
        desk.window.open("replay", OpenReplay(run="r-0418"))
        screen = desk.window.current
        assert isinstance(screen, ReplayScreen)
        await seen(lambda: screen.reel is not None and len(screen.reel))
        tab = screen.details.proof_tab
        tab.show_entry(18_204)
        tab.read()
        await seen(lambda: "does not match its proof" in tab.notice.accessibleName())
        assert not tab.holds.isVisible()

    play(theme, tmp_path, console, scenario)


def huge_png() -> bytes:
    """A file of some kB that claims 40,000 × 40,000 pixels."""
    image = QImage(1, 1, QImage.Format.Format_Mono)
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")
    data = bytearray(buffer.data().data())
    header = b"IHDR" + (40_000).to_bytes(4, "big") * 2 + bytes(data[24:29])
    data[12:29] = header
    data[29:33] = zlib.crc32(header).to_bytes(4, "big")
    return bytes(data)


def svg_bomb() -> bytes:
    """A drawing of a format that no device takes pictures in."""
    return b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'


@pytest.mark.parametrize("data", [huge_png(), svg_bomb(), b"", b"no picture", desktop_png("x")[:200]])
def test_what_is_no_picture_of_a_known_kind_and_size_is_none_anywhere(data: bytes) -> None:
    with pytest.raises(BadInput):
        decode_picture(data)
    assert read_blob(data).image is None


def test_pictures_are_decoded_outside_the_gui_thread(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[threading.Thread]()
    real = images.picture_or_none

    def picture_or_none(data: bytes, width: int | None = None) -> QImage:
        threads.append(threading.current_thread())
        return real(data, width)

    monkeypatch.setattr(images, "picture_or_none", picture_or_none)
    console = story()
    console.fake_journal.blobs["d" * 64] = desktop_png("x")

    async def scenario(desk: Desk) -> None:
        shown = list[QImage]()
        PictureStore(desk.link, desk.window).want("d" * 64, shown.append)
        await seen(lambda: shown)
        assert not shown[0].isNull()
        assert not (await decoded(desktop_png("y"))).isNull()
        assert threading.main_thread() not in threads
        # No widget takes encoded bytes any more.
        assert not hasattr(PictureView, "set_bytes")

    play(theme, tmp_path, console, scenario)


def test_a_theme_that_nothing_else_keeps_lives_as_long_as_the_application() -> None:
    program = (
        "import gc\n"
        "from PySide6.QtWidgets import QApplication\n"
        "from app.theme.theme import Theme, theme_of\n"
        "app = QApplication([])\n"
        "Theme().apply(app)\n"
        "gc.collect()\n"
        "print(theme_of().color('text').name())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "#e4eaee")

"""Programs whose toolkit caches or that answer in part, and displays that change or hang, over real ones."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
from Xlib import XK, X
from Xlib.display import Display
from Xlib.ext import xtest

from core.aip.messages import Command
from core.device import DeviceConfig, build_router
from core.device.desktop.interface import Bounds, Box, Scope
from core.device.desktop.key_chords import parse_chord
from core.device.desktop.linux import x11_connection, x11_display
from core.device.desktop.linux.backend import LinuxDesktop
from core.device.tools import screen as screen_tool
from core.errors import BadInput, DeviceError, ErrorCode
from tests.fakes.accessible_program import (
    APPLICATION,
    BUTTON,
    ENTRY,
    FRAME,
    PASSWORD,
    ROOT,
    TREE_TABLE,
    Program,
    Thing,
    accessible_program,
)
from tests.fakes.accessible_session import accessible_session
from tests.fakes.desktop_device import join_session
from tests.fakes.patience import PATIENCE_S

TEXT = ("Accessible", "Component", "Text", "EditableText")


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with accessible_session("640x480") as environment:
        yield environment


@pytest.fixture
async def program(session: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Program]:
    join_session(monkeypatch, session)
    things = {
        ROOT: Thing("notes", APPLICATION, ["/f"]),
        "/f": Thing("Frame", FRAME, ["/b", "/e", "/p", "/t"]),
        "/b": Thing("OK", BUTTON, interfaces=("Accessible", "Component", "Action")),
        "/e": Thing("Name", ENTRY, interfaces=TEXT, text="größer"),
        "/p": Thing("Word", PASSWORD, interfaces=TEXT, text="hunter2"),
        "/t": Thing("Rows", TREE_TABLE, ["/r"], counts_children=False),
        "/r": Thing("Row", BUTTON),
    }
    async with accessible_program(things) as running:
        yield running


@pytest.fixture
async def desktop() -> AsyncIterator[LinuxDesktop]:
    built = LinuxDesktop()
    yield built
    await built.close()


async def test_what_the_cache_told_is_not_asked_again(program: Program, desktop: LinuxDesktop) -> None:
    tree = await desktop.tree(Scope(), Bounds())
    controls = {one.name: one for one in tree.all()}
    assert list(controls) == ["notes", "Frame", "OK", "Name", "Word", "Rows", "Row"]
    assert (controls["OK"].actions, controls["OK"].box) == (("click",), Box(5, 6, 70, 20))
    assert (controls["Name"].value, controls["Name"].takes_text) == ("größer", True)
    assert not tree.truncated
    asked_of_cached = {member for path, member in program.asked if path != ROOT}
    assert asked_of_cached.isdisjoint({"GetRole", "GetState", "GetInterfaces", "Name"})


async def test_a_password_is_not_even_asked_for(program: Program, desktop: LinuxDesktop) -> None:
    tree = await desktop.tree(Scope(), Bounds())
    word = next(one for one in tree.all() if one.name == "Word")
    assert (word.value, word.states[-1]) == (None, "protected")
    assert (await desktop.control(word.id)).value is None
    assert (await desktop.hidden()).boxes == [Box(5, 6, 70, 20)]
    assert {member for path, member in program.asked if path == "/p"}.isdisjoint(
        {"GetText", "CharacterCount"}
    )


async def test_a_program_that_falls_silent_in_the_middle_leaves_what_it_told(
    program: Program, desktop: LinuxDesktop
) -> None:
    program.mute.add(("/e", "GetExtents"))
    async with asyncio.timeout(PATIENCE_S):
        tree = await desktop.tree(Scope(), Bounds())
    assert (tree.truncated, len(tree.not_answering)) == (True, 1)
    assert {"notes", "Frame", "OK"} <= {one.name for one in tree.all()}


async def test_an_id_outlives_a_look_and_dies_with_its_program(
    program: Program, desktop: LinuxDesktop
) -> None:
    button = next(one for one in (await desktop.tree(Scope(), Bounds())).all() if one.name == "OK")
    assert (await desktop.control(button.id)).name == "OK"
    program.leave()
    with pytest.raises(DeviceError) as caught:
        await desktop.control(button.id)
    assert caught.value.code is ErrorCode.STALE_OBSERVATION


async def test_a_layout_that_changes_later_is_the_one_that_counts(
    program: Program, desktop: LinuxDesktop
) -> None:
    with pytest.raises(BadInput):
        await desktop.press(parse_chord("F24"))
    display = Display()
    first, last = display.display.info.min_keycode, display.display.info.max_keycode
    codes = display.get_keyboard_mapping(first, last - first + 1)
    spare = next(first + at for at, keysyms in enumerate(codes) if not any(keysyms))
    display.change_keyboard_mapping(spare, [[XK.string_to_keysym("F24")] * len(codes[0])])
    display.sync()
    try:
        await desktop.press(parse_chord("F24"))
        # The server told of the change, and nothing of that is kept.
        assert not desktop._hands._display.display.event_queue
    finally:
        display.change_keyboard_mapping(spare, [[0] * len(codes[0])])
        display.close()


async def test_a_character_that_finds_no_key_is_in_no_error_and_keys_of_a_killed_client_are_free(
    program: Program, desktop: LinuxDesktop
) -> None:
    display = Display()
    first, last = display.display.info.min_keycode, display.display.info.max_keycode
    codes = display.get_keyboard_mapping(first, last - first + 1)
    spare = [first + at for at, keysyms in enumerate(codes) if not any(keysyms)]
    for code in spare:
        display.change_keyboard_mapping(code, [[XK.string_to_keysym("F24")] * len(codes[0])])
    display.sync()
    try:
        with pytest.raises(DeviceError) as caught:
            await desktop.type_keys("aЖ")
        assert "Ж" not in caught.value.message
        # A client that was killed left another character on one of them.
        display.change_keyboard_mapping(spare[0], [[0x0100042F] * len(codes[0])])
        display.sync()
        await desktop.type_keys("aЖ")
    finally:
        for code in spare:
            display.change_keyboard_mapping(code, [[0] * len(codes[0])])
        display.close()


async def test_a_modifier_that_somebody_left_pressed_turns_no_text_into_commands(
    program: Program, desktop: LinuxDesktop
) -> None:
    display = Display()
    xtest.fake_input(display, X.KeyPress, display.keysym_to_keycode(XK.string_to_keysym("Control_L")))
    display.sync()
    assert display.screen().root.query_pointer().mask & X.ControlMask
    await desktop.type_keys("a")
    assert not display.screen().root.query_pointer().mask & X.ControlMask
    display.close()


def server_process() -> psutil.Process:
    """The X server of this test's display: whoever listens at its socket."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(f"/tmp/.X11-unix/X{os.environ['DISPLAY'].removeprefix(':')}")
        peer = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return psutil.Process(struct.unpack("3i", peer)[0])


async def test_a_display_that_hangs_hangs_no_tool_and_what_was_done_is_not_known(
    program: Program, desktop: LinuxDesktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "desk")
    await desktop.press(parse_chord("shift"))
    for module, name in ((x11_connection, "ANSWER_S"), (x11_display, "CONNECT_S"), (screen_tool, "_GRAB_S")):
        monkeypatch.setattr(module, name, 0.2)
    server = server_process()
    server.suspend()
    try:
        with pytest.raises(DeviceError) as acted:
            await desktop.press(parse_chord("shift"))
        lack = desktop.lack("windows")
        picture = Command(tool_name="screenshot", tool_type="data_collection", parameters={}, call_id="c")
        shot = await router.run(picture, 20)
    finally:
        server.resume()
    await router.close()
    await desktop.close()
    for thread in threading.enumerate():
        if thread.name in ("desktop hands", "desktop eyes", "display", "screen"):
            thread.join(PATIENCE_S)
    assert acted.value.code is ErrorCode.OUTCOME_UNKNOWN
    assert lack is not None
    assert "does not answer" in lack.reason
    assert (shot.error or "").startswith("timeout: ")

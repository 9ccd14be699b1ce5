"""Programs whose toolkit caches, or that answer only in part, over a real accessibility bus."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from core.device.desktop.linux.desktop import LinuxDesktop
from core.device.desktop.model import Bounds, Box, Scope
from core.errors import DeviceError, ErrorCode
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

TEXT = ("Accessible", "Component", "Text", "EditableText")


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder, accessible_session(Path(folder), "640x480") as environment:
        yield environment


@pytest.fixture
async def program(session: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Program]:
    for key in ("DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(key, session[key])
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
    began = time.monotonic()
    tree = await desktop.tree(Scope(), Bounds())
    assert time.monotonic() - began < 4
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

"""A secret field is black where it can be seen, and nowhere over the windows that cover it.

On a real X server and bus. Where it is not certain that a window hides what is below it, all of the field's
place is black.
"""

from __future__ import annotations

import asyncio
import base64
import io
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from Xlib import X, Xatom
from Xlib.display import Display
from Xlib.ext import shape

from core.aip.messages import Command, ResultStatus
from core.device import DeviceConfig, Router, build_router
from core.device.desktop.interface import Box
from core.device.desktop.linux import atspi
from core.device.desktop.linux.backend import LinuxDesktop
from core.device.tools import screen as screen_tool
from tests.fakes.accessible_program import (
    APPLICATION,
    FRAME,
    PASSWORD,
    ROOT,
    Program,
    Thing,
    accessible_program,
)
from tests.fakes.accessible_session import accessible_session
from tests.fakes.desktop_device import join_session, show_window
from tests.fakes.patience import PATIENCE_S
from tests.fakes.read_shell import NO_READ_SHELL

Place = tuple[int, int, int, int]
TEXT = ("Accessible", "Component", "Text", "EditableText")
WINDOW, FIELD = (40, 30, 200, 100), Box(60, 70, 100, 20)
SECRET, COVER = (0xFF, 0x00, 0xFF), (0x00, 0x80, 0x00)
ALL = (0, 0, 300, 200)
"""A place over the whole window."""


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with accessible_session("640x480") as environment:
        yield environment


@pytest.fixture
def things() -> dict[str, Thing]:
    place = (FIELD.x, FIELD.y, FIELD.width, FIELD.height)
    return {
        ROOT: Thing("login", APPLICATION, ["/f"]),
        "/f": Thing("Log in", FRAME, ["/p"], extents=WINDOW),
        "/p": Thing("Word", PASSWORD, extents=place, interfaces=TEXT, text="hunter2"),
    }


@pytest.fixture
async def program(
    session: dict[str, str], things: dict[str, Thing], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Program]:
    join_session(monkeypatch, session)
    async with accessible_program(things) as running:
        running.has_cache = False
        yield running


@pytest.fixture
async def desktop(program: Program) -> AsyncIterator[LinuxDesktop]:
    built = LinuxDesktop()
    yield built
    await built.close()


@pytest.fixture
async def router(program: Program, tmp_path: Path) -> AsyncIterator[Router]:
    config = DeviceConfig(roots=(tmp_path,), tools_off=NO_READ_SHELL)
    built = build_router(config, tmp_path / "state", "screen")
    yield built
    await built.close()


class Windows:
    """The display, with windows of this process, which is the program's."""

    def __init__(self) -> None:
        self.display = Display()
        self.root = self.display.screen().root

    def show(
        self, box: tuple[int, int, int, int], title: str, color: tuple[int, int, int], **more: Any
    ) -> Any:
        """A new window on top of the others."""
        pixel = color[0] << 16 | color[1] << 8 | color[2]
        return show_window(self.display, box, title, background_pixel=pixel, border_pixel=0, **more)

    def cover(self, box: Place = ALL, **more: Any) -> Any:
        """A window over the one with the field."""
        return self.show(box, "Editor", COVER, **more)

    def listed(self) -> list[int]:
        """The windows that a window manager manages, the topmost last."""
        listed = self.display.intern_atom("_NET_CLIENT_LIST_STACKING")
        found = self.root.get_full_property(listed, X.AnyPropertyType)
        return list(found.value) if found is not None else []

    def set_longs(self, window: Any, name: str, kind: int, values: list[int]) -> None:
        window.change_property(self.display.intern_atom(name), kind, 32, values)
        self.display.sync()


@pytest.fixture
def windows(program: Program) -> Iterator[Windows]:
    built = Windows()
    built.show(WINDOW, "Log in", SECRET)
    yield built
    built.display.close()


async def visible(desktop: LinuxDesktop) -> list[Box]:
    hidden = await desktop.hidden()
    assert hidden.boxes == [FIELD]
    return hidden.visible(await desktop.stacking())


async def test_a_field_that_nothing_covers_is_hidden_whole(desktop: LinuxDesktop, windows: Windows) -> None:
    assert await visible(desktop) == [FIELD]
    windows.cover((300, 300, 50, 50))
    assert await visible(desktop) == [FIELD]


async def test_a_covered_field_hides_nothing_over_it(desktop: LinuxDesktop, windows: Windows) -> None:
    cover = windows.cover()
    assert await visible(desktop) == []
    cover.configure(stack_mode=X.Below)
    windows.display.sync()
    assert await visible(desktop) == [FIELD]


async def test_of_a_field_that_is_partly_covered_the_visible_part_is_hidden(
    desktop: LinuxDesktop, windows: Windows
) -> None:
    windows.cover((100, 0, 300, 300))
    # Two pixels at the edge of a window do not count as covered.
    assert await visible(desktop) == [Box(FIELD.x, FIELD.y, 42, FIELD.height)]
    windows.cover((0, 0, 110, 300))
    assert await visible(desktop) == []


async def test_two_windows_together_cover_a_field(desktop: LinuxDesktop, windows: Windows) -> None:
    windows.cover((0, 0, 300, 80))
    windows.cover((0, 70, 300, 80))
    assert await visible(desktop) == []


async def test_a_menu_does_not_count_as_cover(desktop: LinuxDesktop, windows: Windows) -> None:
    windows.cover(override_redirect=True)
    assert await visible(desktop) == [FIELD]


async def test_a_window_with_a_shape_does_not_count_as_cover(desktop: LinuxDesktop, windows: Windows) -> None:
    cover = windows.cover()
    part = [{"x": 0, "y": 0, "width": 10, "height": 10}]
    cover.shape_rectangles(shape.SO.Set, shape.SK.Bounding, 0, 0, 0, part)
    windows.display.sync()
    assert await visible(desktop) == [FIELD]


async def test_a_window_with_an_alpha_channel_does_not_count_as_cover(
    desktop: LinuxDesktop, windows: Windows
) -> None:
    screen = windows.display.screen()
    [visual, *_] = [
        visual
        for depth in screen.allowed_depths
        if depth.depth == 32
        for visual in depth.visuals
        if visual.visual_class == X.TrueColor
    ]
    colors = windows.root.create_colormap(visual.visual_id, X.AllocNone)
    windows.cover(depth=32, visual=visual.visual_id, colormap=colors)
    assert await visible(desktop) == [FIELD]


async def test_under_a_compositing_manager_nothing_counts_as_cover(
    desktop: LinuxDesktop, windows: Windows
) -> None:
    cover = windows.cover()
    cover.set_selection_owner(windows.display.intern_atom("_NET_WM_CM_S0"), X.CurrentTime)
    windows.display.sync()
    assert await desktop.stacking() is None
    assert await visible(desktop) == [FIELD]


async def test_a_window_of_a_program_that_does_not_answer_does_not_count_as_cover(
    desktop: LinuxDesktop, windows: Windows
) -> None:
    """It may not have been drawn yet, and then shows what was there before."""
    windows.set_longs(windows.cover(), "_NET_WM_PID", Xatom.CARDINAL, [1])
    assert await visible(desktop) == [FIELD]


async def test_a_shadow_around_a_window_does_not_count_as_cover(
    desktop: LinuxDesktop, windows: Windows
) -> None:
    cover = windows.cover((40, 50, 140, 60))
    assert await visible(desktop) == []
    windows.set_longs(cover, "_GTK_FRAME_EXTENTS", Xatom.CARDINAL, [30, 30, 30, 30])
    assert await visible(desktop) != []


async def test_a_field_that_may_be_in_either_of_two_windows_is_hidden_whole(
    desktop: LinuxDesktop, windows: Windows
) -> None:
    windows.show(WINDOW, "Log in", SECRET)
    windows.cover()
    assert await visible(desktop) == [FIELD]


async def test_a_field_of_a_frame_without_a_window_of_its_title_is_hidden_whole(
    desktop: LinuxDesktop, windows: Windows, things: dict[str, Thing]
) -> None:
    windows.cover()
    things["/f"].name = "Another"
    assert await visible(desktop) == [FIELD]


async def test_other_frames_of_the_program_do_not_matter(
    desktop: LinuxDesktop, windows: Windows, things: dict[str, Thing]
) -> None:
    """Chromium has some without a window, for its bubbles."""
    things[ROOT].children = ["/f", "/g"]
    things["/g"] = Thing("", FRAME, extents=WINDOW)
    windows.show((300, 300, 50, 50), "Editor", COVER)
    assert await visible(desktop) == [FIELD]
    windows.cover()
    assert await visible(desktop) == []


async def test_a_field_in_a_menu_over_all_windows_is_hidden(desktop: LinuxDesktop, windows: Windows) -> None:
    windows.root.query_tree().children[-1].unmap()
    windows.cover()
    windows.show(WINDOW, "Log in", SECRET, override_redirect=True)
    assert await visible(desktop) == [FIELD]


async def test_a_program_that_hangs_has_its_window_hidden_where_it_is_seen(
    desktop: LinuxDesktop, windows: Windows, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desktop.hidden()
    monkeypatch.setattr(atspi, "CALL_S", 0.3)
    program.mute.add(("/p", "GetExtents"))
    windows.cover()
    hidden = await desktop.hidden()
    assert Box(*WINDOW) in hidden.visible(await desktop.stacking())


async def shot(router: Router) -> tuple[Image.Image, list[dict[str, int]]]:
    command = Command(tool_name="screenshot", tool_type="data_collection", parameters={}, call_id="c")
    result = await router.run(command, PATIENCE_S)
    assert result.status is ResultStatus.SUCCESS, result.error
    data = result.result["image"].get("data_bytes") or base64.b64decode(result.result["image"]["data_base64"])
    return Image.open(io.BytesIO(data)).convert("RGB"), result.result["masked"]


def in_field(picture: Image.Image) -> set[tuple[int, ...]]:
    """The colours in the place of the field."""
    place = (FIELD.x, FIELD.y, FIELD.x + FIELD.width, FIELD.y + FIELD.height)
    return {color for _, color in picture.crop(place).getcolors(1 << 20) or []}  # type: ignore[misc]


async def test_a_picture_shows_the_window_that_covers_a_secret(router: Router, windows: Windows) -> None:
    picture, masked = await shot(router)
    assert (in_field(picture), masked) == ({(0, 0, 0)}, [FIELD.as_dict()])
    windows.cover()
    picture, masked = await shot(router)
    assert (in_field(picture), masked) == ({COVER}, [])


@pytest.mark.parametrize("late", [False, True])
async def test_a_window_that_moves_away_while_the_picture_is_taken_shows_no_secret(
    router: Router, windows: Windows, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    cover, grab, moves = windows.cover(), screen_tool._grab, iter((True, False, False))

    def moved(area: Any) -> Any:
        if next(moves):
            cover.configure(x=300)
            windows.display.sync()
        return grab(area)

    monkeypatch.setattr(screen_tool, "_grab", moved)
    if late:
        monkeypatch.setattr(screen_tool, "_RETAKE_S", 0.0)
    picture, masked = await shot(router)
    assert (in_field(picture), masked) == ({(0, 0, 0)}, [FIELD.as_dict()])


async def test_a_window_that_comes_during_the_search_does_not_count_as_cover(
    router: Router, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not have been drawn when the picture is taken."""
    covers: list[Any] = []
    search = LinuxDesktop.hidden

    async def hidden(desktop: LinuxDesktop) -> Any:
        found = await search(desktop)
        if not covers:
            covers.append(windows.cover())
        return found

    monkeypatch.setattr(LinuxDesktop, "hidden", hidden)
    monkeypatch.setattr(screen_tool, "_RETAKE_S", 0.0)
    _, masked = await shot(router)
    assert masked == [FIELD.as_dict()]
    assert (await shot(router))[1] == []


async def test_windows_that_never_rest_show_no_secret(
    router: Router, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    cover, grab = windows.cover(), screen_tool._grab

    def lowered(area: Any) -> Any:
        cover.configure(stack_mode=X.Below)
        windows.display.sync()
        picture = grab(area)
        windows.show((500, 400, 10, 10), "Clock", COVER)
        cover.configure(stack_mode=X.Above)
        windows.display.sync()
        return picture

    monkeypatch.setattr(screen_tool, "_grab", lowered)
    monkeypatch.setattr(screen_tool, "_RETAKE_S", 0.0)
    picture, _ = await shot(router)
    assert SECRET not in in_field(picture)


@pytest.fixture
def manager(session: dict[str, str], windows: Windows) -> Iterator[None]:
    """A window manager, which puts the windows into frames."""
    running = subprocess.Popen(["openbox", "--sm-disable"], env=session, stderr=subprocess.DEVNULL)
    yield
    running.terminate()
    running.wait(PATIENCE_S)


@pytest.mark.skipif(not shutil.which("openbox"), reason="openbox is not installed")
async def test_frames_of_a_window_manager_are_looked_through(
    desktop: LinuxDesktop, windows: Windows, manager: None
) -> None:
    cover = windows.cover()
    await until(lambda: windows.listed()[-1:] == [cover.id])
    assert cover.query_tree().parent.id != windows.root.id
    assert (await desktop.hidden()).visible(await desktop.stacking()) == []
    cover.unmap()
    await until(lambda: cover.id not in windows.listed())
    hidden = await desktop.hidden()
    assert hidden.boxes
    assert hidden.visible(await desktop.stacking()) == hidden.boxes


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.to_thread(int)

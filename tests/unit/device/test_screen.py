"""Pictures of a real screen: an X server of this test's own."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import io
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from PIL import Image

from core.aip.messages import Command, Result, ResultStatus
from core.device import DeviceConfig, Router, build_router
from core.device.config import Limits
from core.device.desktop.interface import Box, Hidden, NoDesktop, Window
from core.device.observations import LIFETIME_S, Observation, ObservationStore
from core.device.tools import screen
from core.errors import BadInput, DeviceError, ErrorCode
from tests.fakes.patience import PATIENCE_S
from tests.fakes.read_shell import NO_READ_SHELL


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """An Xvfb of 640 by 480, on a display number that it chose itself."""
    end, for_server = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(for_server), "-screen", "0", "640x480x24", "-noreset", "-nolisten", "tcp"],
        pass_fds=(for_server,),
        stderr=subprocess.DEVNULL,
    )
    os.close(for_server)
    with os.fdopen(end) as told:
        number = told.readline().strip()
    yield f":{number}"
    server.terminate()
    server.wait(PATIENCE_S)


@pytest.fixture
async def router(display: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Router]:
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("XDG_SESSION_TYPE", raising=False)
    config = DeviceConfig(roots=(tmp_path,), tools_off=NO_READ_SHELL)
    built = build_router(config, tmp_path / "state", "screen")
    yield built
    await built.close()


async def shot(router: Router, **arguments: Any) -> Result:
    command = Command(tool_name="screenshot", tool_type="data_collection", parameters=arguments, call_id="c")
    return await router.run(command, 20)


def picture_of(result: Result) -> Image.Image:
    assert result.status is ResultStatus.SUCCESS, result.error
    return Image.open(io.BytesIO(base64.b64decode(result.result["image"]["data_base64"])))


async def test_a_full_picture_has_the_screens_size_and_says_when_it_was_taken(router: Router) -> None:
    result = await shot(router)
    picture = picture_of(result)
    assert (picture.format, picture.size) == ("PNG", (640, 480))
    found = result.result
    assert (found["width"], found["height"], found["scale"], found["monitor"]) == (640, 480, 1.0, 1)
    assert found["masked"] == []
    (schema,) = (info.output_schema for info in router.tools() if info.tool_name == "screenshot")
    jsonschema.validate(found, schema or {})


def paint(display: str, colour: int) -> None:
    """Fill the whole screen with one colour, given as 0xRRGGBB."""
    x11 = ctypes.CDLL("libX11.so.6")
    x11.XOpenDisplay.restype = ctypes.c_void_p
    x11.XDefaultRootWindow.restype = ctypes.c_ulong
    connection = ctypes.c_void_p(x11.XOpenDisplay(display.encode()))
    root = ctypes.c_ulong(x11.XDefaultRootWindow(connection))
    x11.XSetWindowBackground(connection, root, ctypes.c_ulong(colour))
    x11.XClearWindow(connection, root)
    x11.XSync(connection, 0)
    x11.XCloseDisplay(connection)


async def test_the_picture_shows_what_is_on_the_screen(router: Router, display: str) -> None:
    for colour in (0xFF8000, 0x0040FF):
        paint(display, colour)
        pixel = picture_of(await shot(router)).getpixel((320, 240))
        assert pixel == (colour >> 16, colour >> 8 & 255, colour & 255)


@pytest.mark.parametrize(("name", "format_"), [("webp", "WEBP"), ("jpeg", "JPEG"), ("png", "PNG")])
async def test_formats_are_what_was_asked_for(router: Router, name: str, format_: str) -> None:
    result = await shot(router, format=name)
    assert picture_of(result).format == format_
    assert result.result["image"]["media_type"] == f"image/{name}"


async def test_a_region_and_a_width_give_a_smaller_picture_and_its_scale(router: Router) -> None:
    result = await shot(router, region={"x": 40, "y": 30, "width": 400, "height": 200}, max_width=100)
    assert picture_of(result).size == (100, 50)
    assert result.result["scale"] == 0.25
    seen = router.observations.consume(result.result["observation"])
    assert seen == Observation(1, 40, 30, 400, 200, 100, 50)
    assert result.result["screen_box"] == {"x": 40, "y": 30, "width": 400, "height": 200}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"region": {"x": 600, "y": 0, "width": 41, "height": 10}}, "640 × 480"),
        ({"region": {"x": -1, "y": 0, "width": 4, "height": 1}}, "region"),
        ({"region": {"x": 0, "y": 0, "width": 4}}, "region"),
        ({"region": "everything"}, "fullscreen"),
        ({"monitor": 9}, "Unknown monitor: 9. One of: 0, 1"),
        ({"format": "gif"}, "Unknown format: gif. One of: png, webp, jpeg"),
        ({"max_width": 0}, "max_width"),
    ],
)
async def test_what_cannot_be_shown_is_refused_in_words(
    router: Router, arguments: dict[str, Any], said: str
) -> None:
    result = await shot(router, **arguments)
    assert result.status is ResultStatus.FAILURE
    assert (result.error or "").startswith("invalid_arguments: ")
    assert said in (result.error or "")


async def test_a_window_that_is_not_there_is_a_stale_id(router: Router) -> None:
    for window_id in ("7", "0x7fffffff", "0x0", "window:1"):
        assert ((await shot(router, region=f"window:{window_id}")).error or "").startswith(
            "stale_observation: "
        )


async def test_without_an_accessibility_bus_a_picture_says_that_nothing_was_searched(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert (await shot(router)).result["not_searched"] == [
        "every program: the accessibility bus cannot be reached"
    ]


async def test_what_appears_while_the_picture_is_taken_is_hidden_in_it(
    router: Router, display: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paint(display, 0xFFFFFF)
    field, moved = Box(10, 10, 40, 20), Box(10, 200, 40, 20)
    looks = iter((Hidden(), Hidden([field]), Hidden([field])))
    desktop = router._context.desktop

    async def hidden() -> Hidden:
        return next(looks)

    monkeypatch.setattr(desktop, "hidden", hidden)
    result = await shot(router)
    assert result.result["masked"] == [field.as_dict()]
    assert picture_of(result).getpixel((20, 20)) == (0, 0, 0)
    # One that never rests is hidden wherever it may have been.
    monkeypatch.setattr(screen, "_RETAKE_S", 0.0)
    looks = iter((Hidden([field]), Hidden([moved])))
    picture = picture_of(await shot(router))
    assert {picture.getpixel((20, y)) for y in (20, 110, 210)} == {(0, 0, 0)}
    assert picture.getpixel((100, 110)) == (255, 255, 255)


async def test_a_picture_is_taken_where_nobody_knows_the_windows(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody, desktop = NoDesktop("plan9"), router._context.desktop
    for name in ("windows", "layers"):
        monkeypatch.setattr(desktop, name, getattr(nobody, name))
    result = await shot(router)
    assert (picture_of(result).size, result.result["windows"]) == ((640, 480), [])


async def test_a_picture_is_taken_where_the_desktop_fails_in_a_way_of_its_own(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> Any:
        raise AttributeError("module 'comtypes.gen.UIA' has no attribute 'IUIAutomation'")

    for name in ("windows", "layers"):
        monkeypatch.setattr(router._context.desktop, name, fails)
    result = await shot(router)
    assert (picture_of(result).size, result.result["windows"]) == ((640, 480), [])


async def test_a_window_whose_program_tells_nothing_is_named_as_not_searched(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = [
        Window("0x1", "Log in", 7, "xterm", Box(0, 0, 50, 50), True, True),
        Window("0x2", "Far away", 8, "wish", Box(300, 300, 50, 50), False, True),
    ]

    async def hidden() -> Hidden:
        return Hidden(blank=windows)

    monkeypatch.setattr(router._context.desktop, "hidden", hidden)
    part = {"x": 0, "y": 0, "width": 100, "height": 100}
    assert (await shot(router, region=part)).result["not_searched"] == ["xterm"]


async def test_a_picture_beyond_the_output_limit_is_refused_with_advice(
    display: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", display)
    config = DeviceConfig(roots=(tmp_path,), limits=Limits(max_output_bytes=1200))
    router = build_router(config, tmp_path / "state", "screen")
    result = await shot(router)
    assert (result.error or "").startswith("too_large: ")
    assert "max_width" in (result.error or "")
    await router.close()


async def test_a_display_that_cannot_be_opened_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":4711")
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "screen")
    missing = next(one for one in router.unavailable if one.tool == "screenshot")
    assert "cannot be opened" in missing.reason
    assert missing.how_to_fix
    await router.close()


async def test_wayland_is_said_to_be_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_SESSION_TYPE", "wayland")
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "screen")
    reasons = {one.tool: one.reason for one in router.unavailable}
    assert all("Wayland" in reasons[tool] for tool in ("screenshot", "click_point", "list_windows"))
    await router.close()


def test_an_observation_is_good_once_and_for_thirty_seconds() -> None:
    now = [0.0]
    store = ObservationStore(lambda: now[0])
    seen = Observation(1, 0, 0, 10, 10, 10, 10)
    first, second, third = (store.issue(seen) for _ in range(3))
    assert len({first, second, third}) == 3
    assert store.consume(first) == seen
    for ref, later in ((first, 0.0), (second, LIFETIME_S), ("invented", 0.0)):
        now[0] = later
        with pytest.raises(DeviceError) as caught:
            store.consume(ref)
        assert caught.value.code is ErrorCode.STALE_OBSERVATION
    now[0] = LIFETIME_S - 0.01
    assert store.consume(third) == seen


def test_old_observations_make_room() -> None:
    store = ObservationStore()
    refs = [store.issue(Observation(1, 0, 0, 1, 1, 1, 1)) for _ in range(1000)]
    usable = 0
    for ref in refs:
        with contextlib.suppress(DeviceError):
            store.consume(ref)
            usable += 1
    assert usable == 64


@pytest.mark.parametrize(
    ("seen", "pixel", "on_screen"),
    [
        (Observation(1, 0, 0, 1920, 1080, 1920, 1080), (0, 0), (0, 0)),
        (Observation(1, 0, 0, 1920, 1080, 1920, 1080), (1919, 1079), (1919, 1079)),
        (Observation(2, 1920, 200, 1280, 1024, 640, 512), (0, 0), (1921, 201)),
        (Observation(2, 1920, 200, 1280, 1024, 640, 512), (639.9, 511.2), (3199, 1223)),
        (Observation(1, -1280, 0, 1280, 800, 128, 80), (64, 40), (-635, 405)),
        # A picture with more pixels than the screen has points.
        (Observation(1, 0, 0, 800, 600, 1600, 1200), (1599, 1199), (799, 599)),
    ],
)
def test_a_pixel_of_a_picture_leads_to_the_middle_of_what_it_shows(
    seen: Observation, pixel: tuple[float, float], on_screen: tuple[int, int]
) -> None:
    assert seen.on_screen(*pixel) == on_screen


@pytest.mark.parametrize(
    "pixel", [(-0.1, 0), (0, -1), (10, 0), (0, 10), (float("nan"), 1), (float("inf"), 1)]
)
def test_a_pixel_outside_the_picture_is_refused(pixel: tuple[float, float]) -> None:
    with pytest.raises(BadInput) as caught:
        Observation(1, 0, 0, 10, 10, 10, 10).on_screen(*pixel)
    assert "outside the picture, which is 10 × 10" in caught.value.message

"""The desktop tools against a real program: an X server, buses and a Qt window that is new for each test."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from PIL import Image

from core.aip.messages import ResultStatus
from core.device import DeviceConfig, build_router
from core.device.desktop.linux import actions, atspi
from core.tasks import TaskGroupOwner
from tests.fakes.accessible_session import App, accessible_session, running_app
from tests.fakes.desktop_device import DesktopDevice, join_session
from tests.fakes.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROCESS = "desktop-under-test"
REAL_CALL_S = atspi.CALL_S
REAL_ACTION_S = actions._ACTION_S
SECRET = "s3cret-größer"


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with accessible_session() as environment:
        yield environment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def program(session: dict[str, str]) -> AsyncIterator[App]:
    async with running_app(session) as program:
        yield program


@pytest_asyncio.fixture(loop_scope="module")
async def app(program: App) -> App:
    await program.anew()
    return program


class Device(DesktopDevice):
    """A device that finds the controls of the program."""

    async def control(self, name: str) -> dict[str, Any]:
        """The control with a name, waiting until the program has told the bus about itself."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = await self.result("get_ui_tree", process_name=PROCESS, name=name)
                for one in (found.result or {}).get("tree", []):
                    return dict(one)


def flat(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield node
        yield from flat(node.get("children", []))


def picture_of(shot: dict[str, Any]) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(shot["image"]["data_base64"])))


def middle(box: dict[str, int]) -> tuple[int, int]:
    return box["x"] + box["width"] // 2, box["y"] + box["height"] // 2


@pytest_asyncio.fixture(loop_scope="module")
async def device(
    session: dict[str, str], app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Device]:
    join_session(monkeypatch, session)
    # On a busy machine our program may think for longer than a person would want to wait.
    monkeypatch.setattr(atspi, "CALL_S", 5.0)
    monkeypatch.setattr(actions, "_ACTION_S", 15.0)
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "desk")
    here = Device(router)
    await here.control("Count up")
    yield here
    await router.close()


async def test_the_tree_names_every_control_with_its_place_and_process(device: Device, app: App) -> None:
    found = await device.run("get_accessibility_tree", app_name=PROCESS, detail="full", showing=False)
    (program,) = found["tree"]
    controls = {one["name"]: one for one in flat([program])}
    assert {"Count up", "Your name", "Your password", "Colours", "red", "Remember"} <= controls.keys()
    button = controls["Count up"]
    assert (button["role"], button["box"]) == ("push button", app.boxes["button"])
    assert "Press" in button["actions"]
    assert {one["process_id"] for one in controls.values()} == {app.pid}
    assert button["id"] == (await device.control("Count up"))["id"]
    # 2,000 cells: only some are read, and that is said.
    assert found["truncated"]
    assert controls["Large table"]["truncated"]


async def test_bounds_on_depth_and_number_are_kept(device: Device) -> None:
    few = await device.run("get_ui_tree", process_name=PROCESS, max_nodes=5)
    assert (few["nodes"], few["truncated"]) == (6, True)
    flat_one = await device.run("get_ui_tree", process_name=PROCESS, depth=1)
    assert "children" not in flat_one["tree"][0]["children"][0]
    assert flat_one["truncated"]


async def test_a_window_is_listed_and_its_tree_is_read_by_its_id(device: Device, app: App) -> None:
    (window,) = (await device.run("list_windows", title="under test"))["windows"]
    assert (window["process_id"], window["visible"]) == (app.pid, True)
    found = await device.run("get_ui_tree", window_id=window["id"])
    assert "Count up" in {one["name"] for one in flat(found["tree"])}
    assert (await device.refused("get_ui_tree", window_id="0x7fffffff")).startswith("stale_observation: ")


async def test_a_button_is_pressed_through_accessibility_by_id_and_by_name(device: Device, app: App) -> None:
    button = await device.control("Count up")
    clicked = await device.run("click_element", control_id=button["id"])
    await app.told("pressed")
    assert (clicked["method"], clicked["control_name"], clicked["screen"]) == ("accessibility", "Count up", 1)
    assert (clicked["box"], clicked["process_id"]) == (app.boxes["button"], app.pid)
    await device.run("click_element", process_name=PROCESS, role="check box", name="remember")
    await app.told("toggled", on=True)


async def test_a_control_without_an_action_is_pressed_with_the_pointer(device: Device, app: App) -> None:
    line = await device.control("Your name")
    clicked = await device.run("click_element", control_id=line["id"])
    assert clicked["method"] == "pointer"
    assert "focused" in (await device.control("Your name"))["states"]


async def test_what_cannot_be_pressed_says_why_and_what_there_is(device: Device, app: App) -> None:
    several = await device.refused("click_element", process_name=PROCESS, name="Twin")
    assert several.startswith("control_ambiguous: 2 controls fit")
    assert several.count("(at-") == 2
    none = await device.refused("click_element", process_name=PROCESS, role="push button", name="Launch")
    assert none.startswith("control_not_found: ")
    assert "'Count up'" in none
    off = await device.control("Out of order")
    assert "is disabled" in await device.refused("click_element", control_id=off["id"])
    assert "control_id, or process_name" in await device.refused("click_element", name="Twin")
    nobody = await device.refused("click_element", process_name="nobody", name="x")
    assert f"No program 'nobody' shows controls. One of: {psutil.Process(app.pid).name()}" in nobody


async def test_an_id_whose_control_is_gone_or_that_was_made_up_is_stale(device: Device, app: App) -> None:
    button = await device.control("Count up")
    await app.obey("remove")
    await app.told("removed")
    made_up = "at-" + base64.urlsafe_b64encode(b"00000000 :1.99 /org/x").decode().rstrip("=")
    for control_id in (button["id"], made_up, "at-", "nonsense", "at-%%%%"):
        refusal = await device.refused("click_element", control_id=control_id)
        assert refusal.startswith("stale_observation: "), refusal


async def test_text_goes_in_at_the_caret_in_place_of_a_selection(device: Device, app: App) -> None:
    line = await device.control("Your name")
    typed = await device.run("type_text", text="größer ✓ 🙂", control_id=line["id"])
    assert (typed["typed"], typed["method"]) == (10, "accessibility")
    await app.told("line", text="größer ✓ 🙂")
    await device.run("type_text", text="!", control_id=line["id"])
    await app.told("line", text="größer ✓ 🙂!")
    await app.obey("focus line")
    await app.told("focused")
    await device.run("press_key", key="ctrl+a")
    async with asyncio.timeout(PATIENCE_S):
        while "focused" not in (await device.control("Your name"))["states"]:
            pass
    await device.run("type_text", text="new", control_id=line["id"])
    await app.told("line", text="new")
    assert (await device.control("Your name"))["value"] == "new"


async def test_keys_type_what_the_layout_lacks_and_put_it_back(device: Device, app: App) -> None:
    from Xlib.display import Display

    await app.obey("focus canvas")
    await app.told("focused")

    def layout() -> list[list[int]]:
        display = Display()
        try:
            first, last = display.display.info.min_keycode, display.display.info.max_keycode
            return [list(one) for one in display.get_keyboard_mapping(first, last - first + 1)]
        finally:
            display.close()

    before = layout()
    typed = await device.run("type_text", text="Aß ✓€größer")
    assert typed["method"] == "keys"
    heard = ""
    while len(heard) < len("Aß ✓€größer"):
        heard += (await app.told("key"))["text"]
    assert heard == "Aß ✓€größer"
    assert layout() == before


async def test_caps_lock_changes_no_text_and_stays_as_it_was(device: Device, app: App) -> None:
    await app.obey("focus canvas")
    await app.told("focused")
    await device.run("press_key", key="capslock")
    await app.told("key", key="Key_CapsLock")
    await device.run("type_text", text="aB")
    assert (await app.told("key", key="Key_A"))["text"] == "a"
    assert (await app.told("key", key="Key_B"))["text"] == "B"
    # It is on again, as somebody's own keys would show.
    await device.run("press_key", key="a")
    assert (await app.told("key", key="Key_A"))["text"] == "A"
    await device.run("press_key", key="capslock")


async def test_a_secret_typed_by_keys_hides_what_had_the_focus(device: Device, app: App) -> None:
    await app.obey("focus canvas")
    await app.told("focused")
    async with asyncio.timeout(PATIENCE_S):
        while app.boxes["canvas"] not in (await device.run("screenshot"))["masked"]:
            typed = await device.run("type_text", text="x", secret=True)
    assert typed["method"] == "keys"


async def test_a_cancelled_typing_stops_and_leaves_no_key_down_and_no_layout_changed(
    device: Device, app: App
) -> None:
    from Xlib.display import Display

    await app.obey("focus canvas")
    await app.told("focused")
    display = Display()
    first = display.display.info.min_keycode
    count = display.display.info.max_keycode - first + 1
    before = [list(one) for one in display.get_keyboard_mapping(first, count)]
    tasks = TaskGroupOwner("test")
    typing = tasks.spawn("typing", device.result("type_text", text="Ж" * 5_000))
    await app.told("key")
    assert device.router.executor.cancel("c")
    assert ((await typing).error or "").startswith("cancelled: ")
    assert [list(one) for one in display.get_keyboard_mapping(first, count)] == before
    assert not any(display.query_keymap())
    display.close()


async def test_chords_reach_the_program_and_unknown_keys_are_named(device: Device, app: App) -> None:
    await app.obey("focus canvas")
    await app.told("focused")
    done = await device.run("press_key", key="Ctrl+Shift+T")
    assert done["pressed"] == "ctrl+shift+t"
    assert done["window"]["title"] == "Desktop under test"
    heard = await app.told("key", key="Key_T")
    assert heard["held"] == 0x02000000 | 0x04000000
    for key, told in (("Enter", "Key_Return"), ("F5", "Key_F5"), ("é", "Key_Eacute")):
        await device.run("press_key", key=key, process_name=PROCESS)
        assert (await app.told("key", key=told))["held"] == 0
    refusal = await device.refused("press_key", key="ctrl+hyper")
    assert refusal.startswith("invalid_arguments: Unknown key: hyper. One of: enter, tab")


async def test_a_click_on_a_scaled_picture_meets_the_pixel_and_its_ref_is_good_once(
    device: Device, app: App
) -> None:
    shot = await device.run("screenshot", max_width=512)
    assert shot["scale"] == 0.4
    x, y = middle(app.boxes["canvas"])
    clicked = await device.run("click_point", x=x * 0.4, y=y * 0.4, observation=shot["observation"])
    heard = await app.told("canvas")
    # One pixel of the picture is 2.5 of the screen.
    assert abs(heard["x"] - x) <= 2
    assert abs(heard["y"] - y) <= 2
    assert (clicked["box"]["x"], clicked["box"]["y"]) == (heard["x"], heard["y"])
    assert (clicked["process_id"], clicked["method"], clicked["screen"]) == (app.pid, "pointer", 1)
    again = await device.refused("click_point", x=1, y=1, observation=shot["observation"])
    assert again.startswith("stale_observation: ")
    foreign = await device.refused("click_point", x=1, y=1, observation="of-another-device")
    assert foreign.startswith("stale_observation: ")
    part = await device.run("screenshot", region={"x": 50, "y": 20, "width": 100, "height": 50})
    beyond = await device.refused("click_point", x=100, y=10, observation=part["observation"])
    assert beyond.startswith("invalid_arguments: (100, 10) is outside the picture, which is 100 × 50")


async def test_a_picture_of_one_window_clicks_where_the_window_is(device: Device, app: App) -> None:
    (window,) = (await device.run("list_windows", title="under test"))["windows"]
    shot = await device.run("screenshot", region=f"window:{window['id']}")
    assert (shot["width"], shot["height"]) == (window["box"]["width"], window["box"]["height"])
    assert shot["windows"][0]["process_id"] == app.pid
    x, y = (at - corner for at, corner in zip(middle(app.boxes["canvas"]), (100, 10), strict=True))
    assert picture_of(shot).convert("RGB").getpixel((x, y)) == (0x20, 0x60, 0xC0)
    await device.run("click_point", x=x, y=y, observation=shot["observation"], button="right")
    heard = await app.told("canvas")
    assert ((heard["x"], heard["y"]), heard["button"]) == (middle(app.boxes["canvas"]), "RightButton")


async def test_the_wheel_turns_over_a_control(device: Device, app: App) -> None:
    shot = await device.run("screenshot")
    x, y = middle(app.boxes["canvas"])
    await device.run("click_point", x=x, y=y, observation=shot["observation"])
    await device.run("scroll", direction="down", amount=2)
    assert (await app.told("wheel"))["y"] < 0
    button = await device.control("Count up")
    done = await device.run("scroll", direction="up", control_id=button["id"])
    assert (done["scrolled"], done["direction"]) == (3, "up")
    assert done["control"] == {"role": "push button", "name": "Count up", "control_id": button["id"]}
    assert done["window"]["title"] == "Desktop under test"


async def test_a_password_is_in_no_tree_and_black_in_the_picture(device: Device, app: App) -> None:
    await app.obey(f"fill {SECRET}")
    await app.told("password")
    found = await device.run("get_ui_tree", process_name=PROCESS)
    assert SECRET not in json.dumps(found, ensure_ascii=False)
    field = await device.control("Your password")
    assert (field["value"], "protected" in field["states"]) == (None, True)
    shot = await device.run("screenshot")
    assert app.boxes["password"] in shot["masked"]
    assert is_black(picture_of(shot), app.boxes["password"])
    assert not is_black(picture_of(shot), app.boxes["line"])


async def test_a_secret_typed_into_an_ordinary_field_is_hidden_from_then_on(device: Device, app: App) -> None:
    field = await device.control("Your code")
    typed = await device.result("type_text", text=SECRET, control_id=field["id"], secret=True)
    assert SECRET not in typed.model_dump_json()
    assert (await device.control("Your code"))["value"] is None
    shot = await device.run("screenshot", max_width=640)
    box = app.boxes["code"]
    # Making a picture smaller lets its light parts shine three pixels into the black.
    assert is_black(picture_of(shot), {key: side // 2 for key, side in box.items()}, rim=4)
    found = await device.run("get_ui_tree", process_name=PROCESS)
    assert SECRET not in json.dumps(found, ensure_ascii=False)


async def test_a_program_that_hangs_hangs_no_tool(
    device: Device, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    button = await device.control("Count up")
    monkeypatch.setattr(atspi, "CALL_S", REAL_CALL_S)
    monkeypatch.setattr(actions, "_ACTION_S", REAL_ACTION_S)
    name = psutil.Process(app.pid).name()
    app.process.send_signal(signal.SIGSTOP)
    # Each call has a deadline of its own; one that the program holds up fails by it.
    tree = await device.run("get_ui_tree")
    assert (tree["truncated"], tree["not_answering"]) == (True, [name])
    shot = await device.run("screenshot")
    assert shot["not_searched"] == [name]
    refusal = await device.refused("click_element", control_id=button["id"])
    assert "does not answer" in refusal
    assert len((await device.run("list_windows"))["windows"]) == 1
    app.process.send_signal(signal.SIGCONT)
    async with asyncio.timeout(PATIENCE_S):
        while (
            await device.result("click_element", control_id=button["id"])
        ).status is not ResultStatus.SUCCESS:
            pass
    await app.told("pressed")


async def test_a_lost_display_is_an_error_and_the_next_call_finds_the_new_one(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with accessible_session("640x480") as other:
        monkeypatch.setenv("DISPLAY", other["DISPLAY"])
        await device.router._context.desktop.close()
        assert (await device.run("list_windows"))["windows"] == []
        gone = other["DISPLAY"]
    assert "display" in await device.refused("list_windows")
    assert gone == other["DISPLAY"]


def is_black(picture: Image.Image, box: dict[str, int], rim: int = 2) -> bool:
    """Whether the inside of a rectangle has no light in it."""
    right, bottom = box["x"] + box["width"] - rim, box["y"] + box["height"] - rim
    return picture.convert("L").crop((box["x"] + rim, box["y"] + rim, right, bottom)).getextrema() == (0, 0)

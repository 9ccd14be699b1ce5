"""Windows are brought forward, and text arrives, with a real window manager and programs of other makers."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from Xlib import X
from Xlib.display import Display
from Xlib.protocol import event

from core.device.desktop.interface import Bounds, Scope, Window
from core.device.desktop.linux.backend import LinuxDesktop
from core.device.desktop.ui_tools import UiTools
from core.device.observations import ObservationStore
from core.errors import DeviceError, ErrorCode
from tests.fakes.accessible_session import App, accessible_session, running_app
from tests.fakes.patience import PATIENCE_S

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("openbox") is None, reason="openbox is not installed"),
]
needs_mousepad = pytest.mark.skipif(shutil.which("mousepad") is None, reason="mousepad is not installed")
needs_zenity = pytest.mark.skipif(shutil.which("zenity") is None, reason="zenity is not installed")
needs_featherpad = pytest.mark.skipif(
    shutil.which("featherpad") is None, reason="featherpad is not installed"
)
needs_calculator = pytest.mark.skipif(
    shutil.which("gnome-calculator") is None, reason="gnome-calculator is not installed"
)
TITLE = "Desktop under test"


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        environment = stack.enter_context(accessible_session())
        manager = stack.enter_context(
            subprocess.Popen(["openbox"], env=environment, stderr=subprocess.DEVNULL)
        )
        stack.callback(manager.kill)
        has_manager(environment["DISPLAY"])
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"):
            patched.setenv(name, environment[name])
        for name in ("WAYLAND_DISPLAY", "AT_SPI_BUS_ADDRESS"):
            patched.delenv(name, raising=False)
        yield environment


def has_manager(name: str) -> None:
    """Wait until the window manager lists windows, as it does when it has taken over."""
    display = Display(name)
    root = display.screen().root
    root.change_attributes(event_mask=X.PropertyChangeMask)
    listing = display.intern_atom("_NET_CLIENT_LIST_STACKING")
    while root.get_full_property(listing, X.AnyPropertyType) is None:
        display.next_event()
    display.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def use(session: dict[str, str]) -> AsyncIterator[UiTools]:
    desktop = LinuxDesktop()
    yield UiTools(desktop, ObservationStore())
    await desktop.close()


class Programs:
    """Starts programs for one test, and ends them with it."""

    def __init__(self, use: UiTools, environment: dict[str, str], stack: AsyncExitStack) -> None:
        self._use = use
        self._environment = environment
        self._stack = stack

    async def start(self, *command: str) -> Window:
        """The active window of a program that is started."""
        before = {one.id for one in await self._use.desktop.windows()}
        process = await asyncio.create_subprocess_exec(
            *command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._stack.push_async_callback(process.wait)
        self._stack.callback(process.kill)
        return await self.window(lambda one: one.active and one.id not in before)

    async def window(self, fits: Callable[[Window], bool]) -> Window:
        """The first window that fits, once there is one."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for one in await self._use.desktop.windows():
                    if fits(one):
                        return one

    async def keyboard(self, role: str) -> str:
        """The id of the control that has the keyboard, once it has this role."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                control = await self._use.desktop.focused()
                if control is not None and control.role == role:
                    return control.id


@pytest_asyncio.fixture(loop_scope="module")
async def programs(use: UiTools, session: dict[str, str]) -> AsyncIterator[Programs]:
    async with AsyncExitStack() as stack:
        yield Programs(use, session, stack)


@pytest_asyncio.fixture(loop_scope="module")
async def app(session: dict[str, str]) -> AsyncIterator[App]:
    async with running_app(session) as program:
        yield program


async def refused(call: Any) -> DeviceError:
    with pytest.raises(DeviceError) as caught:
        await call
    return caught.value


async def test_an_empty_desk_has_no_window_and_no_active_one(use: UiTools, programs: Programs) -> None:
    # The window manager has a window of its own, beyond the corner of the screen.
    assert await use.windows(None, None) == {"windows": []}
    assert (await refused(use.type_text({"text": "x"}))).code is ErrorCode.KEYBOARD_ELSEWHERE


async def test_a_window_comes_back_from_its_icon_and_from_another_workspace(
    use: UiTools, app: App, programs: Programs
) -> None:
    window = await programs.window(lambda one: one.title == TITLE and one.active)
    display = Display()
    root = display.screen().root

    def tell(target: Any, name: str, *values: int) -> None:
        data = (32, [*values, 0, 0, 0, 0, 0][:5])
        told = event.ClientMessage(window=target, client_type=display.intern_atom(name), data=data)
        root.send_event(told, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
        display.sync()

    try:
        # 3 is the state of an icon.
        tell(display.create_resource_object("window", int(window.id, 16)), "WM_CHANGE_STATE", 3)
        icon = await programs.window(lambda one: one.id == window.id and one.minimized and not one.active)
        assert not icon.visible
        done = await use.activate_window({"window_id": window.id})
        assert done["window"]["title"] == TITLE
        await programs.window(lambda one: one.id == window.id and one.active and not one.minimized)
        tell(root, "_NET_CURRENT_DESKTOP", 1)
        away = await programs.window(lambda one: one.id == window.id and not one.on_this_workspace)
        assert (away.workspace, away.minimized, away.visible) == (1, False, False)
        control = await use.desktop.control((await name_field(use)).id)
        reason = await use.desktop.in_the_way(control, *control.box.centre) if control.box else ""
        assert reason == "not on the screen: its window is on workspace 1, which is not shown"
        told = await use.press_key({"key": "a", "window_id": window.id})
        assert told["window"]["window_id"] == window.id
    finally:
        tell(root, "_NET_CURRENT_DESKTOP", 0)
        display.close()


async def name_field(use: UiTools) -> Any:
    tree = await use.desktop.tree(Scope(), Bounds())
    return next(one for one in tree.all() if one.name == "Your name")


async def test_text_goes_to_no_button_and_a_line_end_is_enter_in_a_field(
    use: UiTools, app: App, programs: Programs
) -> None:
    await programs.window(lambda one: one.title == TITLE and one.active)
    await app.obey("focus button")
    await programs.keyboard("push button")
    error = await refused(use.type_text({"text": "abc"}))
    assert "The keyboard is in a button, 'Count up'" in error.message
    line = await name_field(use)
    told = await use.type_text({"text": "größer 🙂\n", "control_id": line.id})
    assert told["text_there"] == "größer 🙂"
    await app.told("line", text="größer 🙂")


@needs_mousepad
async def test_a_file_chooser_that_opens_a_field_at_the_first_letter_gets_the_whole_path(
    use: UiTools, programs: Programs, tmp_path: Path
) -> None:
    await programs.start("mousepad", "--disable-server")
    await programs.keyboard("text")
    await use.press_key({"key": "ctrl+o", "process_name": "mousepad"})
    await programs.window(lambda one: one.active and one.title.startswith("Open"))
    await programs.keyboard("table")
    told = await use.type_text({"text": str(tmp_path / "a.txt"), "process_name": "mousepad"})
    assert told["text_there"] == str(tmp_path / "a.txt")
    assert told["control"]["role"] == "text"


@needs_mousepad
async def test_what_is_typed_is_what_is_saved_and_a_menu_gets_no_text(
    use: UiTools, programs: Programs, tmp_path: Path
) -> None:
    await programs.start("mousepad", "--disable-server")
    await programs.keyboard("text")
    told = await use.type_text({"text": "größer\nzwei 漢\n", "process_name": "mousepad"})
    assert told["text_there"] == "größer\nzwei 漢\n"
    await use.press_key({"key": "alt+f"})
    error = await refused(use.type_text({"text": "lost"}))
    assert "The keyboard is in no field" in error.message
    await use.press_key({"key": "Escape"})
    await programs.keyboard("text")
    await use.press_key({"key": "ctrl+shift+s"})
    dialog = await programs.window(lambda one: one.active and one.title == "Save As")
    await programs.keyboard("text")
    await use.press_key({"key": "ctrl+a", "window_id": dialog.id})
    await use.type_text({"text": f"{tmp_path / 'saved.txt'}\n", "window_id": dialog.id})
    await programs.window(lambda one: one.active and "saved.txt" in one.title)
    saved = await asyncio.to_thread((tmp_path / "saved.txt").read_text)
    assert saved == "größer\nzwei 漢\n"


@needs_zenity
async def test_a_tab_leads_to_the_password_which_is_not_read(use: UiTools, programs: Programs) -> None:
    await programs.start("zenity", "--forms", "--add-entry=User", "--add-password=Pass")
    await programs.keyboard("text")
    told = await use.type_text({"text": "bob\thunter2", "process_name": "zenity"})
    assert (told["control"]["role"], told["text_there"]) == ("password text", None)
    assert "hunter2" not in str(told)


@needs_featherpad
async def test_a_menu_bar_that_keeps_the_keyboard_gets_no_text(use: UiTools, programs: Programs) -> None:
    await programs.start("featherpad", "--standalone")
    await programs.keyboard("text")
    await use.type_text({"text": "bez id ň"})
    await use.press_key({"key": "alt+e"})
    await programs.keyboard("menu item")
    await use.press_key({"key": "Escape"})
    error = await refused(use.type_text({"text": "undo"}))
    assert "The keyboard is in a menu" in error.message


@needs_calculator
async def test_a_line_end_works_a_sum_out(use: UiTools, programs: Programs) -> None:
    await programs.start("gnome-calculator")
    await programs.keyboard("text")
    told = await use.type_text({"text": "12*12\n", "process_name": "gnome-calculator"})
    assert told["text_there"] == "144"
    assert (await use.type_text({"text": "3+4"}))["text_there"] == "3+4"

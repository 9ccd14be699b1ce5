"""The Windows desktop against a double of `uiautomation` and of user32, in the shapes they really have."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from core.device.desktop.interface import Bounds, Box, Scope
from core.device.desktop.key_chords import parse_chord
from core.device.desktop.target_window import brought_forward
from core.device.desktop.win32 import WindowsDesktop
from core.errors import BadInput, DeviceError, ErrorCode
from tests.fakes.patience import PATIENCE_S

INVOKE, TOGGLE, SELECT, EXPAND, VALUE = 10000, 10015, 10010, 10005, 10002


@dataclass
class Rect:
    """As the library gives rectangles: with methods for the sides."""

    left: int
    top: int
    right: int
    bottom: int

    def width(self) -> int:
        return self.right - self.left

    def height(self) -> int:
        return self.bottom - self.top


@dataclass
class Element:
    """One element; `is_gone` has every property answer as COM does for one that vanished."""

    Name: str
    ControlTypeName: str = "PaneControl"
    rect: Rect = field(default_factory=lambda: Rect(10, 20, 110, 60))
    children: list[Element] = field(default_factory=list)
    patterns: dict[int, Any] = field(default_factory=dict)
    IsPassword: bool = False
    IsEnabled: bool = True
    IsOffscreen: bool = False
    IsKeyboardFocusable: bool = True
    HasKeyboardFocus: bool = False
    NativeWindowHandle: int = 0
    number: int = 0
    is_gone: bool = False
    parent: Any = None

    def __post_init__(self) -> None:
        for child in self.children:
            child.parent = self

    @property
    def ProcessId(self) -> int:
        if self.is_gone:
            raise OSError(-2147220991, "An event was unable to invoke any of the subscribers")
        return 4242

    @property
    def BoundingRectangle(self) -> Rect:
        return self.rect

    def GetRuntimeId(self) -> list[int]:
        return [42, self.number or id(self)]

    def GetChildren(self) -> list[Element]:
        return self.children

    def GetFirstChildControl(self) -> Element | None:
        return self.children[0] if self.children else None

    def GetNextSiblingControl(self) -> Element | None:
        siblings = self.parent.children
        at = siblings.index(self) + 1
        return siblings[at] if at < len(siblings) else None

    def GetPattern(self, number: int) -> Any:
        return self.patterns.get(number)

    def SetFocus(self) -> bool:
        self.HasKeyboardFocus = True
        return True


class Value:
    """A ValuePattern."""

    def __init__(self, value: str, *, read_only: bool = False) -> None:
        self.Value = value
        self.IsReadOnly = read_only

    def SetValue(self, value: str) -> bool:
        self.Value = value
        return True


class Machine:
    """The library and user32 in one, remembering what was sent."""

    PatternId = SimpleNamespace(
        InvokePattern=INVOKE,
        TogglePattern=TOGGLE,
        SelectionItemPattern=SELECT,
        ExpandCollapsePattern=EXPAND,
        ValuePattern=VALUE,
    )

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.front = 0x1F0
        self.icons: set[int] = set()
        invoke = SimpleNamespace(Invoke=lambda: self.sent.append("invoke"))
        self.button = Element("Save", "ButtonControl", patterns={INVOKE: invoke}, number=1)
        self.name = Element("Name", "EditControl", patterns={VALUE: Value("")}, number=2)
        self.password = Element(
            "Password",
            "EditControl",
            rect=Rect(5, 5, 50, 25),
            patterns={VALUE: Value("hunter2")},
            IsPassword=True,
            number=3,
        )
        inside = [self.button, self.name, self.password]
        self.window = Element("Form", "WindowControl", children=inside, NativeWindowHandle=0x1F0, number=4)
        self.root = Element("Desktop", children=[self.window])

    def UIAutomationInitializerInThread(self) -> object:
        return object()

    def GetRootControl(self) -> Element:
        return self.root

    def GetForegroundWindow(self) -> int:
        return self.front

    def IsIconic(self, handle: int) -> int:
        return int(handle in self.icons)

    def ShowWindow(self, handle: int, how: int) -> int:
        self.sent.append(("show", handle, how))
        self.icons.discard(handle)
        return 1

    def SetForegroundWindow(self, handle: int) -> int:
        self.front = handle
        return 1

    def GetFocusedControl(self) -> Element | None:
        return next((one for one in self.window.children if one.HasKeyboardFocus), None)

    def SendUnicodeChar(self, character: str) -> None:
        self.sent.append(character)

    def SetCursorPos(self, x: int, y: int) -> None:
        self.sent.append(("move", x, y))

    def mouse_event(self, flag: int, x: int, y: int, data: int, extra: int) -> None:
        self.sent.append(("mouse", flag, data))

    def keybd_event(self, key: int, scan: int, flags: int, extra: int) -> None:
        self.sent.append(("up" if flags else "down", key))

    def VkKeyScanW(self, character: int) -> int:
        return {ord("t"): 0x54, ord("T"): 0x154}.get(character, -1)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def desktop(machine: Machine) -> WindowsDesktop:
    return WindowsDesktop(machine, machine)


def test_tools_are_offered_once_ui_automation_has_answered(
    machine: Machine, desktop: WindowsDesktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its package also imports where there is no UI Automation, and then each call of it fails."""
    asked = []

    def fails() -> None:
        asked.append("failed")
        raise AttributeError("module 'comtypes.gen.UIA_wine_private' has no attribute 'IUIAutomation'")

    with monkeypatch.context() as patch:
        patch.setattr(machine, "GetRootControl", fails)
        for need in ("controls", "windows", "input"):
            lack = desktop.lack(need)  # type: ignore[arg-type]  # mypy widens the literal
            assert lack is not None
            assert "IUIAutomation" in lack.reason
        # An error of its own kind for callers, which they expect.
        with pytest.raises(DeviceError, match="IUIAutomation"):
            desktop.look_windows()
    assert desktop.lack("controls") is None
    monkeypatch.setattr(machine, "GetRootControl", fails)
    assert desktop.lack("controls") is None
    assert asked == ["failed"] * 4


async def test_the_tree_carries_roles_states_values_and_boxes_but_no_password(
    desktop: WindowsDesktop,
) -> None:
    tree = await desktop.tree(Scope(), Bounds())
    controls = {one.name: one for one in tree.all()}
    save, password = controls["Save"], controls["Password"]
    assert (save.role, save.actions, save.box) == ("push button", ("invoke",), Box(10, 20, 100, 40))
    assert save.states[:2] == ("enabled", "showing")
    assert (password.value, "protected" in password.states) == (None, True)
    assert controls["Name"].value == ""
    assert (await desktop.hidden()).boxes == [Box(5, 5, 45, 20)]
    assert save.id == (await desktop.control(save.id)).id
    await desktop.close()


async def test_what_held_a_secret_stays_hidden_when_it_is_shown_in_clear_or_another_window_is_in_front(
    desktop: WindowsDesktop, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desktop.hidden()
    machine.password.IsPassword = False
    password = next(one for one in (await desktop.tree(Scope(), Bounds())).all() if one.name == "Password")
    assert (password.value, "protected" in password.states) == (None, True)
    assert (await desktop.hidden()).boxes == [Box(5, 5, 45, 20)]
    desktop.protect(None)
    await desktop.type_keys("s")
    monkeypatch.setattr(machine, "GetForegroundWindow", lambda: 0)
    assert Box(10, 20, 100, 40) in (await desktop.hidden()).boxes
    await desktop.close()


async def test_bounds_and_scope_are_kept(desktop: WindowsDesktop) -> None:
    few = await desktop.tree(Scope(), Bounds(nodes=2))
    assert (len(few.all()), few.truncated) == (3, True)
    (window,) = await desktop.windows()
    assert (window.id, window.active, window.title) == ("0x1f0", True, "Form")
    assert len((await desktop.tree(Scope(window_id="0x1f0"), Bounds())).all()) == 5
    with pytest.raises(BadInput) as caught:
        await desktop.tree(Scope(process_name="nobody"), Bounds())
    assert "No program 'nobody'" in caught.value.message
    await desktop.close()


async def test_a_window_comes_back_from_its_icon_to_the_front(
    desktop: WindowsDesktop, machine: Machine
) -> None:
    machine.front, machine.icons = 0, {0x1F0}
    (window,) = await desktop.windows()
    assert (window.active, window.minimized) == (False, True)
    assert (await brought_forward(desktop, window)).active
    assert machine.sent == [("show", 0x1F0, 9)]
    await desktop.close()


async def test_keys_go_to_the_named_window_or_nowhere(desktop: WindowsDesktop, machine: Machine) -> None:
    (window,) = await desktop.windows()
    assert await desktop.type_keys("a", window) == 1
    machine.front = 0x99
    assert await desktop.type_keys("b", window) == 0
    with pytest.raises(DeviceError) as caught:
        await desktop.press(parse_chord("t"), window)
    assert caught.value.code is ErrorCode.KEYBOARD_ELSEWHERE
    assert machine.sent == ["a"]
    await desktop.close()


async def test_controls_are_pressed_filled_and_focused(desktop: WindowsDesktop, machine: Machine) -> None:
    controls = {one.name: one for one in (await desktop.tree(Scope(), Bounds())).all()}
    assert await desktop.perform(controls["Save"]) == "invoke"
    assert machine.sent == ["invoke"]
    assert await desktop.perform(controls["Name"]) is None
    assert await desktop.insert_text(controls["Name"], "größer")
    assert machine.name.patterns[VALUE].Value == "größer"
    # A second insertion would replace the first, so it goes by keys.
    assert not await desktop.insert_text(controls["Name"], "!")
    assert not await desktop.insert_text(controls["Password"], "x")
    await desktop.focus(controls["Name"])
    focused = await desktop.focused()
    assert focused is not None
    assert focused.id == controls["Name"].id
    await desktop.close()


async def test_a_control_that_vanished_is_stale(desktop: WindowsDesktop, machine: Machine) -> None:
    controls = {one.name: one for one in (await desktop.tree(Scope(), Bounds())).all()}
    machine.button.is_gone = True
    for control_id in (controls["Save"].id, "ui-invented"):
        with pytest.raises(DeviceError) as caught:
            await desktop.control(control_id)
        assert caught.value.code is ErrorCode.STALE_OBSERVATION
    await desktop.close()


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("ctrl+t", [("down", 0x11), ("down", 0x54), ("up", 0x54), ("up", 0x11)]),
        ("T", [("down", 0x10), ("down", 0x54), ("up", 0x54), ("up", 0x10)]),
        ("F5", [("down", 0x74), ("up", 0x74)]),
        ("✓", ["✓"]),
        ("win", [("down", 0x5B), ("up", 0x5B)]),
    ],
)
async def test_keys_go_down_and_up_again(
    desktop: WindowsDesktop, machine: Machine, key: str, sent: list[Any]
) -> None:
    await desktop.press(parse_chord(key))
    assert machine.sent == sent
    await desktop.close()


async def test_pointer_wheel_and_text(desktop: WindowsDesktop, machine: Machine) -> None:
    await desktop.click(3, 4, "right", 1)
    await desktop.scroll("down", 2, (5, 6))
    await desktop.type_keys("a\n✓")
    assert machine.sent == [
        *(("move", 3, 4), ("mouse", 0x8, 0), ("mouse", 0x10, 0)),
        *(("move", 5, 6), ("mouse", 0x800, -120), ("mouse", 0x800, -120)),
        *("a", ("down", 0x0D), ("up", 0x0D), "✓"),
    ]
    await desktop.close()


async def test_a_library_that_hangs_costs_its_time_out_and_no_more(
    desktop: WindowsDesktop, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    free = threading.Event()
    monkeypatch.setattr("core.device.desktop.threaded_backend.CALL_S", 0.05)
    monkeypatch.setattr(machine, "GetForegroundWindow", lambda: free.wait(PATIENCE_S) and 0)
    with pytest.raises(DeviceError) as caught:
        await desktop.windows()
    assert caught.value.code is ErrorCode.TIMEOUT
    assert len((await desktop.tree(Scope(), Bounds())).all()) == 5
    free.set()
    await asyncio.sleep(0)
    await desktop.close()

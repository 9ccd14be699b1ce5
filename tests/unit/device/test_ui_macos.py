"""The macOS desktop against doubles of Accessibility, Quartz and AppKit, in the shapes pyobjc gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from core.device.desktop.interface import Bounds, Box, Scope
from core.device.desktop.key_chords import parse_chord
from core.device.desktop.macos import MacDesktop
from core.errors import BadInput, DeviceError, ErrorCode

NO_VALUE, GONE, REFUSED = -25212, -25202, -25205


class Element:
    """An AXUIElement; its attributes by Apple's names."""

    def __init__(self, actions: tuple[str, ...] = (), **attributes: Any) -> None:
        self.attributes = attributes
        self.actions = actions
        self.is_gone = False


def place(x: float, y: float, width: float, height: float) -> dict[str, Any]:
    return {
        "AXPosition": SimpleNamespace(x=x, y=y),
        "AXSize": SimpleNamespace(width=width, height=height),
    }


class Accessibility:
    """ApplicationServices: functions with an out parameter return it beside the error."""

    kAXValueCGPointType, kAXValueCGSizeType = 1, 2

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.trusted = True
        self.button = Element(
            ("AXPress",), AXRole="AXButton", AXTitle="Save", AXEnabled=True, **place(10, 20, 100, 40)
        )
        text = {"AXRole": "AXTextField"}
        self.name = Element(AXDescription="Name", AXValue="Ann", **text, **place(10, 70, 100, 20))
        secure = {**text, "AXSubrole": "AXSecureTextField"}
        self.password = Element(AXTitle="Password", AXValue="hunter2", **secure, **place(5, 5, 45, 20))
        inside = [self.button, self.name, self.password]
        self.window = Element(AXRole="AXWindow", AXTitle="Form", AXChildren=inside, **place(0, 0, 400, 300))
        self.program = Element(AXRole="AXApplication", AXChildren=[self.window], AXWindows=[self.window])

    def AXIsProcessTrusted(self) -> bool:
        return self.trusted

    def AXUIElementCreateApplication(self, process_id: int) -> Element:
        return self.program

    def AXUIElementCreateSystemWide(self) -> Element:
        return Element(AXFocusedUIElement=self.name)

    def AXUIElementSetMessagingTimeout(self, element: Element, seconds: float) -> int:
        return 0

    def AXUIElementGetPid(self, element: Element, out: None) -> tuple[int, int]:
        return (GONE, 0) if element.is_gone else (0, 4242)

    def AXUIElementCopyAttributeValue(self, element: Element, name: str, out: None) -> tuple[int, Any]:
        if element.is_gone:
            return GONE, None
        return (0, element.attributes[name]) if name in element.attributes else (NO_VALUE, None)

    def AXUIElementCopyActionNames(self, element: Element, out: None) -> tuple[int, Any]:
        return 0, element.actions

    def AXUIElementPerformAction(self, element: Element, name: str) -> int:
        self.sent.append(name)
        return 0

    def AXUIElementSetAttributeValue(self, element: Element, name: str, value: Any) -> int:
        if name == "AXSelectedText" and element.attributes["AXRole"] != "AXTextField":
            return REFUSED
        element.attributes[name] = value
        return 0

    def AXValueGetValue(self, value: Any, kind: int, out: None) -> tuple[bool, Any]:
        return True, value


class Quartz:
    """Quartz' events as tuples."""

    kCGWindowListOptionOnScreenOnly, kCGWindowListExcludeDesktopElements, kCGNullWindowID = 1, 16, 0
    kCGEventLeftMouseDown, kCGEventLeftMouseUp = 1, 2
    kCGEventRightMouseDown, kCGEventRightMouseUp = 3, 4
    kCGEventOtherMouseDown, kCGEventOtherMouseUp = 25, 26
    kCGEventMouseMoved, kCGMouseEventClickState, kCGScrollEventUnitLine, kCGHIDEventTap = 5, 1, 1, 0

    def __init__(self) -> None:
        self.posted: list[Any] = []

    def CGWindowListCopyWindowInfo(self, option: int, window: int) -> list[dict[str, Any]]:
        def told(number: int, layer: int, name: str | None) -> dict[str, Any]:
            bounds = {"X": 0.0, "Y": 0.0, "Width": 400.0, "Height": 300.0}
            more = {"kCGWindowName": name} if name else {}
            owner = {"kCGWindowOwnerPID": 4242, "kCGWindowOwnerName": "Notes"}
            return {
                "kCGWindowNumber": number,
                "kCGWindowLayer": layer,
                "kCGWindowBounds": bounds,
                **owner,
                **more,
            }

        return [told(9, 25, "Menu bar"), told(7, 0, "Form"), told(6, 0, None)]

    def CGEventCreateMouseEvent(self, source: None, kind: int, at: tuple[int, int], button: int) -> list[Any]:
        return ["mouse", kind, at, button]

    def CGEventSetIntegerValueField(self, event: list[Any], field: int, value: int) -> None:
        event.append(value)

    def CGEventCreateKeyboardEvent(self, source: None, code: int, down: bool) -> list[Any]:
        return ["key", code, down]

    def CGEventKeyboardSetUnicodeString(self, event: list[Any], units: int, text: str) -> None:
        event.append((units, text))

    def CGEventSetFlags(self, event: list[Any], flags: int) -> None:
        event.append(flags)

    def CGEventCreateScrollWheelEvent(self, source: None, unit: int, wheels: int, *turns: int) -> list[Any]:
        return ["wheel", *turns]

    def CGEventPost(self, tap: int, event: list[Any]) -> None:
        self.posted.append(tuple(event))


class Workspace:
    """AppKit's NSWorkspace with one program."""

    def runningApplications(self) -> list[Any]:
        return [self.frontmostApplication()]

    def frontmostApplication(self) -> Any:
        return SimpleNamespace(
            activationPolicy=lambda: 0,
            processIdentifier=lambda: 4242,
            localizedName=lambda: "Notes",
            activateWithOptions_=lambda options: True,
        )


@pytest.fixture
def ax() -> Accessibility:
    return Accessibility()


@pytest.fixture
def quartz() -> Quartz:
    return Quartz()


@pytest.fixture
def desktop(ax: Accessibility, quartz: Quartz) -> MacDesktop:
    return MacDesktop(ax, quartz, Workspace())


async def test_the_tree_carries_roles_states_values_and_boxes_but_no_password(desktop: MacDesktop) -> None:
    tree = await desktop.tree(Scope(process_name="notes"), Bounds())
    controls = {one.name: one for one in tree.all()}
    save, password = controls["Save"], controls["Password"]
    assert (save.role, save.actions, save.box) == ("push button", ("AXPress",), Box(10, 20, 100, 40))
    assert save.states == ("enabled", "showing")
    assert (password.value, "protected" in password.states) == (None, True)
    assert controls["Name"].value == "Ann"
    assert (await desktop.hidden()).boxes == [Box(5, 5, 45, 20)]
    await desktop.close()


async def test_windows_are_told_the_topmost_last_without_the_menu_bar(desktop: MacDesktop) -> None:
    below, top = await desktop.windows()
    assert (top.id, top.title, top.process_name, top.active) == ("0x7", "Form", "Notes", True)
    assert (below.id, below.title, below.active) == ("0x6", "", False)
    assert len((await desktop.tree(Scope(window_id="0x7"), Bounds())).all()) == 5
    await desktop.close()


async def test_a_window_comes_back_from_the_dock_and_is_raised(
    desktop: MacDesktop, ax: Accessibility
) -> None:
    ax.window.attributes["AXMinimized"] = True
    await desktop.bring_forward((await desktop.windows())[-1])
    assert (ax.window.attributes["AXMinimized"], ax.sent) == (False, ["AXRaise"])
    await desktop.close()


async def test_controls_are_pressed_filled_and_focused(desktop: MacDesktop, ax: Accessibility) -> None:
    controls = {one.name: one for one in (await desktop.tree(Scope(), Bounds())).all()}
    assert await desktop.perform(controls["Save"]) == "AXPress"
    assert ax.sent == ["AXPress"]
    assert await desktop.perform(controls["Name"]) is None
    assert await desktop.insert_text(controls["Name"], "größer")
    assert ax.name.attributes["AXSelectedText"] == "größer"
    assert not await desktop.insert_text(controls["Save"], "x")
    await desktop.focus(controls["Name"])
    focused = await desktop.focused()
    assert focused is not None
    assert focused.id == controls["Name"].id
    await desktop.close()


async def test_a_control_that_vanished_is_stale(desktop: MacDesktop, ax: Accessibility) -> None:
    controls = {one.name: one for one in (await desktop.tree(Scope(), Bounds())).all()}
    ax.button.is_gone = True
    for control_id in (controls["Save"].id, "ui-invented"):
        with pytest.raises(DeviceError) as caught:
            await desktop.control(control_id)
        assert caught.value.code is ErrorCode.STALE_OBSERVATION
    await desktop.close()


@pytest.mark.parametrize(
    ("key", "posted"),
    [
        ("cmd+t", [("key", 17, True, 1 << 20), ("key", 17, False, 1 << 20)]),
        ("Enter", [("key", 36, True, 0), ("key", 36, False, 0)]),
        ("✓", [("key", 0, True, (1, "✓"), 0), ("key", 0, False, (1, "✓"), 0)]),
    ],
)
async def test_keys_go_down_and_up_again(
    desktop: MacDesktop, quartz: Quartz, key: str, posted: list[Any]
) -> None:
    await desktop.press(parse_chord(key))
    assert quartz.posted == posted
    await desktop.close()


async def test_a_key_that_apples_keyboards_lack_is_refused(desktop: MacDesktop, quartz: Quartz) -> None:
    for key in ("numlock", "altgr+e"):
        with pytest.raises(BadInput):
            await desktop.press(parse_chord(key))
    assert quartz.posted == []
    await desktop.close()


async def test_a_double_click_counts_its_presses(desktop: MacDesktop, quartz: Quartz) -> None:
    await desktop.click(3, 4, "left", 2)
    assert [event[1:] for event in quartz.posted] == [
        (5, (3, 4), 0),
        *((1, (3, 4), 0, 1), (2, (3, 4), 0, 1), (1, (3, 4), 0, 2), (2, (3, 4), 0, 2)),
    ]
    quartz.posted.clear()
    await desktop.scroll("down", 1, None)
    await desktop.type_keys("🙂")
    assert quartz.posted[0] == ("wheel", -1, 0)
    assert quartz.posted[1] == ("key", 0, True, (2, "🙂"), 0)
    await desktop.close()


def test_without_leave_only_windows_can_be_listed(ax: Accessibility, quartz: Quartz) -> None:
    ax.trusted = False
    desktop = MacDesktop(ax, quartz, Workspace())
    assert desktop.lack("windows") is None
    for need in ("controls", "input"):
        lack = desktop.lack(need)  # type: ignore[arg-type]  # mypy widens the literal
        assert lack is not None
        assert "Privacy & Security" in lack.how_to_fix

"""A program of the operator's session that attacks a window: on the accessibility bus, and as an X client."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus
from Xlib import XK, X, display
from Xlib.ext import xinput, xtest
from Xlib.protocol import event, rq

from core.device.desktop.linux.atspi import find_bus
from tests.fakes.patience import PATIENCE_S

_ATSPI = "org.a11y.atspi."
_ROOT = "/org/a11y/atspi/accessible/root"
_CONTROL = "/org/a11y/atspi/registry/deviceeventcontroller"
_PRESS, _RELEASE = 1, 2
_KEY_DOWN, _KEY_UP = 0, 1  # as AtspiKeySynthType has them


class Refused(Exception):
    """The bus, or the window on it, answered with an error."""


@dataclass(frozen=True, slots=True)
class Control:
    """One accessible object of the window."""

    bus: str
    path: str
    name: str


class BusAttacker:
    """Calls what any program on the session's accessibility bus can call."""

    def __init__(self, bus: MessageBus, window: int) -> None:
        self._bus, self._window = bus, window

    async def call(
        self,
        to: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        body: list[Any] | None = None,
    ) -> list[Any]:
        """One call; the answer's values.

        Raises:
            Refused: the answer is an error.
        """
        message = Message(to, path, interface, member, signature=signature, body=body or [])
        async with asyncio.timeout(PATIENCE_S):
            answer = await self._bus.call(message)
        assert answer is not None
        if answer.message_type is MessageType.ERROR:
            raise Refused(f"{member}: {answer.error_name} {answer.body}")
        return list(answer.body)

    async def _name(self, bus: str, path: str) -> str:
        properties = "org.freedesktop.DBus.Properties"
        (name,) = await self.call(bus, path, properties, "Get", "ss", [f"{_ATSPI}Accessible", "Name"])
        return str(name.value)

    async def _children(self, bus: str, path: str) -> list[tuple[str, str]]:
        (children,) = await self.call(bus, path, f"{_ATSPI}Accessible", "GetChildren")
        return [(str(child[0]), str(child[1])) for child in children]

    async def _programs(self) -> AsyncIterator[tuple[str, str]]:
        daemon = "org.freedesktop.DBus"
        for bus, path in await self._children("org.a11y.atspi.Registry", _ROOT):
            asked = [bus]
            (pid,) = await self.call(
                daemon, "/org/freedesktop/DBus", daemon, "GetConnectionUnixProcessID", "s", asked
            )
            if pid == self._window:
                yield bus, path

    async def controls(self) -> AsyncGenerator[Control]:
        """Everything in the window, from the outside in."""
        rest = [place async for place in self._programs()]
        while rest:
            bus, path = rest.pop(0)
            # What goes away meanwhile is not there.
            try:
                control = Control(bus, path, await self._name(bus, path))
            except Refused:
                continue
            yield control
            with contextlib.suppress(Refused):
                rest.extend(await self._children(bus, path))

    async def _seen(self, name: str, showing: bool) -> Control | None:
        async with contextlib.aclosing(self.controls()) as controls:
            async for control in controls:
                if control.name == name and (not showing or await self.is_showing(control)):
                    return control
        return None

    async def find(self, name: str, showing: bool = True) -> Control:
        """The control of that name, once it is there."""
        async with asyncio.timeout(PATIENCE_S):
            while (control := await self._seen(name, showing)) is None:
                pass
        return control

    async def is_showing(self, control: Control) -> bool:
        """Whether it can be seen and used."""
        with contextlib.suppress(Refused):
            (states,) = await self.call(control.bus, control.path, f"{_ATSPI}Accessible", "GetState")
            bits = states[0] | states[1] << 32
            enabled, showing = 8, 25
            return bool(bits >> enabled & 1 and bits >> showing & 1)
        return False

    async def reads(self, words: str) -> None:
        """Wait until the window says this somewhere."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                async with contextlib.aclosing(self.controls()) as controls:
                    async for control in controls:
                        if words in control.name:
                            return

    async def act(self, control: Control, action: str = "Press") -> None:
        """Do one of its actions."""
        interface = f"{_ATSPI}Action"
        (actions,) = await self.call(control.bus, control.path, interface, "GetActions")
        names = [str(one[0]) for one in actions]
        assert action in names, names
        await self.call(control.bus, control.path, interface, "DoAction", "i", [names.index(action)])

    async def set_text(self, control: Control, text: str) -> bool:
        """Set the contents of a field; whether the window says that it did."""
        interface = f"{_ATSPI}EditableText"
        (done,) = await self.call(control.bus, control.path, interface, "SetTextContents", "s", [text])
        return bool(done)

    async def text_of(self, control: Control) -> str:
        """The contents of a field, as the bus tells them."""
        (text,) = await self.call(control.bus, control.path, f"{_ATSPI}Text", "GetText", "ii", [0, -1])
        return str(text)

    async def middle_of(self, control: Control) -> tuple[int, int]:
        """Its middle on the screen."""
        (box,) = await self.call(control.bus, control.path, f"{_ATSPI}Component", "GetExtents", "u", [0])
        x, y, width, height = box
        return x + width // 2, y + height // 2

    async def click(self, place: tuple[int, int]) -> None:
        """Have the registry click there: `b1c` is a click of the first button."""
        await self._control("GenerateMouseEvent", "iis", [*place, "b1c"])

    async def press_keys(self, *keycodes: int) -> None:
        """Have the registry press keys together: the last is pressed while the others are held."""
        for keycode in keycodes:
            await self._control("GenerateKeyboardEvent", "isu", [keycode, "", _KEY_DOWN])
        for keycode in reversed(keycodes):
            await self._control("GenerateKeyboardEvent", "isu", [keycode, "", _KEY_UP])

    async def _control(self, member: str, signature: str, body: list[Any]) -> None:
        interface = f"{_ATSPI}DeviceEventController"
        await self.call("org.a11y.atspi.Registry", _CONTROL, interface, member, signature, body)


@contextlib.asynccontextmanager
async def on_the_bus(window: int) -> AsyncIterator[BusAttacker]:
    """An attacker of the window of that process."""
    bus = MessageBus(bus_address=await find_bus())
    await bus.connect()
    try:
        yield BusAttacker(bus, window)
    finally:
        bus.disconnect()


class _FakeInput(rq.Request):  # type: ignore[misc]  # python-xlib has no types
    """XTestFakeInput in the form that names a device, which python-xlib cannot write."""

    _request = rq.Struct(
        *(rq.Card8("opcode"), rq.Opcode(2), rq.RequestLength()),
        *(rq.Card8("event_type"), rq.Card8("detail"), rq.Pad(2), rq.Card32("time")),
        *(rq.Window("root"), rq.Pad(8), rq.Card16("x"), rq.Card16("y"), rq.Pad(7), rq.Card8("device")),
    )


class _ChangeHierarchy(rq.Request):  # type: ignore[misc]  # python-xlib has no types
    """XIChangeHierarchy, which python-xlib does not have."""

    _request = rq.Struct(
        *(rq.Card8("opcode"), rq.Opcode(43), rq.RequestLength()),
        *(rq.Card8("changes"), rq.Pad(3), rq.Binary("data")),
    )


class XAttacker:
    """Makes input on a display, as any client of it can."""

    def __init__(self, name: str) -> None:
        self._display = display.Display(name)
        extension = self._display.query_extension(xinput.extname)
        assert extension is not None
        self._device_events = int(extension.first_event)
        devices = self._display.xinput_query_device(xinput.AllDevices).devices
        named = {str(device.name): int(device.deviceid) for device in devices}
        self._mouse, self._keyboard = named["Xvfb mouse"], named["Xvfb keyboard"]
        self.control = self.keycode("Control_L")
        self.enter = self.keycode("Return")

    def close(self) -> None:
        """Leave the display."""
        self._display.close()

    def keycode(self, key: str) -> int:
        """The number of the key that writes this keysym."""
        return int(self._display.keysym_to_keycode(XK.string_to_keysym(key)))

    def keycodes(self, text: str) -> list[int]:
        """The keys for a text of small letters and spaces."""
        return [self.keycode("space" if letter == " " else letter) for letter in text]

    def move(self, place: tuple[int, int]) -> None:
        """Move the pointer there."""
        xtest.fake_input(self._display, X.MotionNotify, x=place[0], y=place[1])
        self._display.sync()

    def moves(self, count: int) -> None:
        """Move the pointer to and fro."""
        for number in range(count):
            xtest.fake_input(self._display, X.MotionNotify, x=number % 50, y=0)
        self._display.sync()

    def versions(self, count: int) -> None:
        """Ask for the version of XTEST."""
        for _ in range(count):
            self._display.xtest_get_version(2, 2)

    def button(self, *, device: bool, after_ms: int = 0) -> None:
        """Click the first button, by XTEST's own device, or in the name of the display's mouse."""
        if device:
            self._in_the_name_of(self._mouse, 3, 1, after_ms)
            self._in_the_name_of(self._mouse, 4, 1)
        else:
            xtest.fake_input(self._display, X.ButtonPress, 1)
            xtest.fake_input(self._display, X.ButtonRelease, 1)
            self._display.sync()

    def key(self, keycode: int, *, down: bool, device: bool) -> None:
        """Press or release a key, by XTEST's own device, or in the name of the display's keyboard."""
        if device:
            self._in_the_name_of(self._keyboard, 1 if down else 2, keycode)
        else:
            xtest.fake_input(self._display, X.KeyPress if down else X.KeyRelease, keycode)
            self._display.sync()

    def keys(self, *keycodes: int, device: bool) -> None:
        """Press keys together."""
        for keycode in keycodes:
            self.key(keycode, down=True, device=device)
        for keycode in reversed(keycodes):
            self.key(keycode, down=False, device=device)

    def leave_record(self, context: int) -> None:
        """Take this client out of another program's recording."""
        own = self._display.display.info.resource_id_base
        self._display.record_unregister_clients(context, [own])
        self._display.sync()

    def end_record(self, context: int) -> None:
        """End another program's recording."""
        self._display.record_disable_context(context)
        self._display.sync()

    def add_master(self) -> int:
        """Make another pointer and keyboard; the number of the keyboard that XTEST has for them."""
        name = b"other"
        opcode = self._display.display.get_extension_major(xinput.extname)
        change = struct.pack("=HHHBB", 1, 3, len(name), 1, 1) + name + b"\0" * (-len(name) % 4)
        _ChangeHierarchy(display=self._display.display, opcode=opcode, changes=1, data=change)
        devices = self._display.xinput_query_device(xinput.AllDevices).devices
        return next(int(one.deviceid) for one in devices if str(one.name) == "other XTEST keyboard")

    def _in_the_name_of(self, device: int, kind: int, detail: int, after_ms: int = 0) -> None:
        failed: list[object] = []
        _FakeInput(
            display=self._display.display,
            onerror=lambda error, _request: failed.append(error),
            opcode=self._display.display.get_extension_major("XTEST"),
            event_type=self._device_events + kind,
            detail=detail,
            **{"time": after_ms, "root": 0, "x": 0, "y": 0, "device": device},
        )
        self._display.sync()
        assert not failed, failed

    def send(self, place: tuple[int, int], *keys: int) -> None:
        """Send the window of the console a click, or a chord with Ctrl, as events of no device."""
        root = self._display.screen().root
        window = self._console(root)
        inside = root.translate_coords(root, *place)
        origin = window.translate_coords(root, *place)
        common = {
            **{"time": X.CurrentTime, "root": root, "window": window, "child": X.NONE, "same_screen": 1},
            **{"root_x": inside.x, "root_y": inside.y, "event_x": origin.x, "event_y": origin.y},
        }
        for keycode in keys:
            for kind in (event.KeyPress, event.KeyRelease):
                window.send_event(kind(state=X.ControlMask, detail=keycode, **common))
        if not keys:
            window.send_event(event.ButtonPress(state=0, detail=1, **common))
            window.send_event(event.ButtonRelease(state=X.Button1Mask, detail=1, **common))
        self._display.sync()

    def _console(self, root: Any) -> Any:
        for window in root.query_tree().children:
            if "Quarterdeck" in str(window.get_wm_name() or "") and window.get_attributes().map_state:
                return window
        raise AssertionError("the console has no window on this display")

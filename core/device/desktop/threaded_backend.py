"""The base of desktops with a blocking system API: calls run in a thread, with bounds and a time-out."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from core.device.desktop.interface import (
    PROTECTED,
    Bounds,
    Box,
    Button,
    Control,
    Desktop,
    Direction,
    Hidden,
    Scope,
    Tree,
    Window,
    monitors_now,
    stale,
)
from core.device.desktop.key_chords import Chord
from core.device.desktop.sensitive_fields import SensitiveFields
from core.device.desktop.thread_worker import OneThread
from core.errors import BadInput, DeviceError, ErrorCode

Answer = TypeVar("Answer")
CALL_S = 10.0
_REMEMBERED = 20_000
_HIDDEN = Bounds(depth=40, nodes=4_000, seconds=1.5)
_CHILDREN = 200


@dataclass(frozen=True, slots=True)
class Program:
    """A program with controls; `element` is the system's own object for it."""

    process_id: int
    name: str
    element: Any


class Vanished(Exception):
    """The requested control no longer exists."""


class BlockingDesktop(Desktop):
    """The common part of the Windows and macOS desktops, which implement the `look…` and `do…` methods.

    The system's objects are stored by id, because neither system can find an object by an id. These methods
    raise `Vanished` when an object no longer exists.
    """

    def __init__(self, name: str) -> None:
        self._thread = OneThread(name, "The desktop")
        self._elements: OrderedDict[str, Any] = OrderedDict()
        self._secrecy = SensitiveFields()

    @abstractmethod
    def look_programs(self) -> list[Program]:
        """The programs on the screen."""

    @abstractmethod
    def look_children(self, element: Any, most: int) -> list[Any]:
        """The children of a control, `most` at most."""

    @abstractmethod
    def look_at(self, element: Any, *, protected: Callable[[str], bool]) -> Control:
        """Read a control; the value of a password field or protected control is not read."""

    @abstractmethod
    def look_windows(self) -> list[Window]:
        """Windows, the topmost last."""

    @abstractmethod
    def look_window(self, window: Window, program: Program) -> list[Any]:
        """The controls that represent a window."""

    @abstractmethod
    def look_focused(self) -> Any | None:
        """The control with the focus."""

    @abstractmethod
    def do_bring_forward(self, window: Window) -> None:
        """See `Desktop.bring_forward`."""

    @abstractmethod
    def do_perform(self, element: Any) -> str | None:
        """See `Desktop.perform`."""

    @abstractmethod
    def do_focus(self, element: Any) -> None:
        """See `Desktop.focus`."""

    @abstractmethod
    def do_insert(self, element: Any, text: str) -> bool:
        """See `Desktop.insert_text`."""

    @abstractmethod
    def do_click(self, x: int, y: int, button: Button, count: int) -> None:
        """See `Desktop.click`."""

    @abstractmethod
    def do_type(self, text: str, stop: threading.Event) -> int:
        """Type the text until done or `stop` is set; leaves no key pressed. Returns how much was typed."""

    @abstractmethod
    def do_press(self, chord: Chord) -> None:
        """See `Desktop.press`."""

    @abstractmethod
    def do_scroll(self, direction: Direction, amount: int, at: tuple[int, int] | None) -> None:
        """See `Desktop.scroll`."""

    def remember(self, element: Any, *identity: object) -> str:
        """Store an object and return its id; equal identities get the same id."""
        told = "\0".join(str(part) for part in identity)
        control_id = "ui-" + hashlib.sha256(told.encode()).hexdigest()[:24]
        self._elements[control_id] = element
        self._elements.move_to_end(control_id)
        while len(self._elements) > _REMEMBERED:
            self._elements.popitem(last=False)
        return control_id

    async def monitors(self) -> list[Box]:
        """See `Desktop`."""
        return await self._run(monitors_now)

    async def windows(self) -> list[Window]:
        """See `Desktop`."""
        return await self._run(self.look_windows)

    async def bring_forward(self, window: Window) -> None:
        """See `Desktop`."""
        await self._run(self._bring_forward, window)

    async def tree(self, scope: Scope, bounds: Bounds) -> Tree:
        """See `Desktop`."""
        return await self._run(self._tree, scope, bounds)

    async def control(self, control_id: str) -> Control:
        """See `Desktop`."""
        return await self._run(self._look, control_id)

    async def perform(self, control: Control) -> str | None:
        """See `Desktop`."""
        return await self._run(self._on, control.id, self.do_perform)

    async def focus(self, control: Control) -> None:
        """See `Desktop`."""
        await self._run(self._on, control.id, self.do_focus)

    async def focused(self) -> Control | None:
        """See `Desktop`."""
        return await self._run(self._focused)

    async def insert_text(self, control: Control, text: str) -> bool:
        """See `Desktop`."""
        return await self._run(self._on, control.id, self.do_insert, text)

    async def hidden(self) -> Hidden:
        """See `Desktop`."""
        try:
            found = await self._run(self._tree, Scope(), _HIDDEN)
            windows = await self.windows()
        except DeviceError as error:
            return Hidden(not_searched=[f"every program: {error.message}"])
        boxes = [one.box for one in found.all() if PROTECTED in one.states and one.box is not None]
        boxes.extend(one.box for one in windows if self._secrecy.hides(one))
        return Hidden(boxes, ["some programs have too many controls"] if found.truncated else [])

    def protect(self, control_id: str | None) -> None:
        """See `Desktop`."""
        if control_id is None:
            self._secrecy.typed_somewhere()
        else:
            self._secrecy.typed_into(control_id)

    async def owner_at(self, x: int, y: int) -> Window | None:
        """See `Desktop`."""
        found = await self.windows()
        return next((one for one in reversed(found) if one.visible and one.box.holds(x, y)), None)

    async def click(self, x: int, y: int, button: Button, count: int) -> None:
        """See `Desktop`."""
        await self._run(self.do_click, x, y, button, count)

    async def type_keys(self, text: str, window: Window | None = None) -> int:
        """See `Desktop`."""
        stop = threading.Event()
        secret_in = None
        if self._secrecy.is_pending:
            secret_in = next((one.id for one in await self.windows() if one.active), None)
        self._secrecy.typed_in_window(secret_in)
        try:
            typed = await self._thread.run(
                self._only_in, window, self.do_type, text, stop, seconds=CALL_S + 0.05 * len(text)
            )
            # The time for which the window is redacted starts after the last key.
            self._secrecy.typed_in_window(secret_in)
            return typed or 0
        except (asyncio.CancelledError, DeviceError):
            stop.set()
            with contextlib.suppress(DeviceError):
                await self._run(lambda: None)
            raise

    async def press(self, chord: Chord, window: Window | None = None) -> None:
        """See `Desktop`."""
        pressed = await self._run(self._only_in, window, lambda: (self.do_press(chord), True))
        if pressed is None:
            raise DeviceError(
                "Another window took the keyboard before the key was pressed.", ErrorCode.KEYBOARD_ELSEWHERE
            )

    async def scroll(self, direction: Direction, amount: int, at: tuple[int, int] | None) -> None:
        """See `Desktop`."""
        await self._run(self.do_scroll, direction, amount, at)

    async def close(self) -> None:
        """See `Desktop`."""
        self._thread.abandon()
        self._elements.clear()

    async def _run(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        return await self._thread.run(work, *arguments, seconds=CALL_S)

    def _only_in(self, window: Window | None, act: Callable[..., Answer], *arguments: Any) -> Answer | None:
        """Act if `window`, where one is given, has the keyboard; None where it has not."""
        if window is not None:
            active = next((one.id for one in self.look_windows() if one.active), None)
            if active != window.id:
                return None
        return act(*arguments)

    def _is_protected(self, control_id: str) -> bool:
        return control_id in self._secrecy

    def _element(self, control_id: str) -> Any:
        if control_id not in self._elements:
            raise stale(f"The control {control_id[:60]}")
        return self._elements[control_id]

    def _on(self, control_id: str, act: Callable[..., Answer], *more: Any) -> Answer:
        try:
            return act(self._element(control_id), *more)
        except Vanished:
            raise stale(f"The control {control_id[:60]}") from None

    def _look(self, control_id: str) -> Control:
        return self._on(control_id, self._read)

    def _read(self, element: Any) -> Control:
        control = self.look_at(element, protected=self._is_protected)
        if PROTECTED in control.states:
            self._secrecy.saw_password(control.id)
        return control

    def _bring_forward(self, window: Window) -> None:
        try:
            self.do_bring_forward(window)
        except Vanished:
            raise stale(f"The window {window.id}") from None

    def _focused(self) -> Control | None:
        try:
            element = self.look_focused()
            return self._read(element) if element is not None else None
        except Vanished:
            return None

    def _tree(self, scope: Scope, bounds: Bounds) -> Tree:
        programs = self.look_programs()
        start: list[Any] | None = None
        if scope.below is not None:
            element = self._element(scope.below)
            at = self._on(scope.below, self._read)
            programs = [one for one in programs if one.process_id == at.process_id][:1]
            start = [element]
        elif scope.window_id is not None:
            window = next((one for one in self.look_windows() if one.id == scope.window_id), None)
            if window is None:
                raise stale(f"The window {scope.window_id[:60]}")
            programs = [one for one in programs if one.process_id == window.process_id][:1]
            start = self.look_window(window, programs[0]) if programs else []
        elif scope.process_name is not None:
            wanted = scope.process_name.lower()
            named = [
                one
                for one in programs
                if one.name.lower().removesuffix(".exe") == wanted.removesuffix(".exe")
            ]
            if not named:
                there = ", ".join(sorted({one.name for one in programs})[:10])
                raise BadInput(
                    f"No program {scope.process_name[:60]!r} shows controls. One of: {there}.",
                    ErrorCode.CONTROL_NOT_FOUND,
                )
            programs = named
        tree = Tree([])
        until, left = time.monotonic() + bounds.seconds, bounds.nodes
        for program in programs:
            left = self._grow(tree, program, start, bounds.depth, left, until)
        return tree

    def _grow(
        self, tree: Tree, program: Program, start: list[Any] | None, depth: int, left: int, until: float
    ) -> int:
        """Read a program level by level; returns the remaining budget of controls."""
        top = Control(
            id=self.remember(program.element, "program", program.process_id),
            role="application",
            name=program.name,
            process_id=program.process_id,
            process_name=program.name,
            states=("enabled", "showing"),
        )
        tree.roots.append(top)
        first = start if start is not None else self.look_children(program.element, _CHILDREN)
        level = [(top, element) for element in first]
        while level:
            if depth <= 0 or left <= 0 or time.monotonic() >= until:
                tree.truncated = top.truncated = True
                break
            depth -= 1
            below: list[tuple[Control, Any]] = []
            tree.truncated = tree.truncated or len(level) > left
            for parent, element in level[:left]:
                try:
                    control = self._read(element)
                    children = self.look_children(element, _CHILDREN)
                except Vanished:
                    continue
                left -= 1
                control.process_name = program.name
                parent.children.append(control)
                below.extend((control, child) for child in children)
                if time.monotonic() >= until:
                    tree.truncated = True
                    break
            level = below
        return left

"""A program on the accessibility bus as GTK's are: its cache tells of all its objects in one answer."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from core.device.desktop.linux.atspi import find_bus

ROOT = "/org/a11y/atspi/accessible/root"
APPLICATION, FRAME, BUTTON, PASSWORD, ENTRY, TREE_TABLE = 75, 23, 43, 40, 79, 66
CELL, LABEL, LIST, MENU, MENU_ITEM, PANEL, TABLE = 56, 29, 31, 33, 35, 39, 55
SHOWING, MANAGES_DESCENDANTS = 1 << 25, 1 << 31
# enabled, sensitive, showing, visible
STATES = 1 << 8 | 1 << 24 | 1 << 25 | 1 << 30
_ACCESSIBLE = "org.a11y.atspi."


@dataclass
class Thing:
    """One object; `counts_children` is false for what draws its own rows."""

    name: str
    role: int
    children: list[str] = field(default_factory=list)
    interfaces: tuple[str, ...] = ("Accessible", "Component")
    text: str = ""
    counts_children: bool = True
    states: int = STATES
    # From the corner of the screen, or from that of its window, as the toolkit has it.
    extents: tuple[int, int, int, int] = (5, 6, 70, 20)
    actions: tuple[str, ...] = ("click",)
    description: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    # The kind of a relation (1: label for, 2: labelled by), and the paths of its targets.
    relations: list[tuple[int, list[str]]] = field(default_factory=list)
    # Where members are answered with something else: signature and body.
    lies: dict[str, tuple[str, list[Any]]] = field(default_factory=dict)


def _nothing() -> None:
    pass


def _words(states: int) -> list[int]:
    return [states & 0xFFFFFFFF, states >> 32]


class Program:
    """Answers for its objects and remembers what it was asked; `mute` are members that get no answer."""

    def __init__(self, bus: MessageBus, things: dict[str, Thing]) -> None:
        self._bus = bus
        self._things = things
        self.asked: list[tuple[str, str]] = []
        self.on_call: Callable[[str, str], None] = lambda path, member: None
        self.mute: set[tuple[str, str]] = set()
        self.deaf = False
        # Name and version, and whether places inside the window are all it knows, as GTK 4.
        self.toolkit = ("", "")
        self.knows_no_screen = False
        self.has_cache = True
        self.done: list[tuple[str, int]] = []
        # What an action does, by its object; done before the action is answered, if it is.
        self.on_action: dict[str, Callable[[], None]] = {}
        # What scrolling to an object does; `ScrollTo` is not supported for others.
        self.on_scroll: dict[str, Callable[[], None]] = {}

    @property
    def name(self) -> str:
        """What the bus calls it."""
        return str(self._bus.unique_name)

    async def take_name(self, name: str) -> None:
        """Be known by a name of its own choice, too."""
        await self._bus.request_name(name)

    def leave(self) -> None:
        """End the program, as far as the bus can tell."""
        self._bus.disconnect()

    def hear(self, message: Message) -> Message | bool:
        """Answer one call."""
        if message.message_type is not MessageType.METHOD_CALL:
            return False
        path = str(message.path)
        member = str(message.body[1] if message.member == "Get" else message.member)
        self.asked.append((path, member))
        self.on_call(path, member)
        if member == "DoAction":
            self.done.append((path, message.body[0]))
            self.on_action.get(path, _nothing)()
        if (path, member) in self.mute or self.deaf:
            return True
        if member == "ScrollTo" and path in self.on_scroll:
            self.on_scroll[path]()
            return Message.new_method_return(message, "b", [True])
        if member == "GetItems" and self.has_cache:
            items = [self._item(path) for path in self._things]
            return Message.new_method_return(message, "a((so)(so)(so)iiassusau)", [items])
        thing = self._things.get(path)
        if thing is None:
            return Message.new_error(message, "org.freedesktop.DBus.Error.UnknownObject", "gone")
        signature, body = self._answer(message, thing, member)
        if not signature:
            return Message.new_error(message, "org.freedesktop.DBus.Error.UnknownMethod", member)
        if message.member == "Get":
            signature, body = "v", [Variant(signature, body[0])]
        return Message.new_method_return(message, signature, body)

    def _ref(self, path: str) -> list[str]:
        return [str(self._bus.unique_name), path]

    def _interfaces(self, thing: Thing) -> list[str]:
        return [_ACCESSIBLE + one for one in thing.interfaces]

    def _item(self, path: str) -> list[Any]:
        thing = self._things[path]
        count = len(thing.children) if thing.counts_children else -1
        rest = [self._interfaces(thing), thing.name, thing.role, "", _words(thing.states)]
        return [self._ref(path), self._ref(ROOT), self._ref(ROOT), 0, count, *rest]

    def _filtered(self, thing: Thing, wanted: list[int], most: int) -> tuple[str, list[Any]]:
        """The direct children that have the wanted states, as the Collection interface returns them."""
        if "Collection" not in thing.interfaces:
            return "", []
        fit = (path for path in thing.children if self._things[path].states & wanted[0] == wanted[0])
        return "a(so)", [[self._ref(path) for path in fit][:most]]

    def _parent(self, child: str) -> list[str]:
        return self._ref(next((path for path, one in self._things.items() if child in one.children), ROOT))

    def _answer(self, message: Message, thing: Thing, member: str) -> tuple[str, list[Any]]:
        if member in thing.lies:
            return thing.lies[member]
        if member == "GetMatches":
            rule, _, most, below = message.body
            assert not below, "a large table would hang its program"
            return self._filtered(thing, rule[0], most)
        if member == "GetChildAtIndex":
            return "(so)", [self._ref(thing.children[message.body[0]])]
        of_window = member == "GetExtents" and message.body[0] == 1
        extents = (0, 0, *thing.extents[2:]) if self.knows_no_screen and not of_window else thing.extents
        known: dict[str, tuple[str, list[Any]]] = {
            "GetRole": ("u", [thing.role]),
            "GetState": ("au", [_words(thing.states)]),
            "Parent": ("(so)", [self._parent(str(message.path))]),
            "ToolkitName": ("s", [self.toolkit[0]]),
            "Version": ("s", [self.toolkit[1]]),
            "DoAction": ("b", [True]),
            "NActions": ("i", [len(thing.actions)]),
            "GetName": ("s", [thing.actions[message.body[0]] if member == "GetName" else ""]),
            "GetInterfaces": ("as", [self._interfaces(thing)]),
            "Name": ("s", [thing.name]),
            "ChildCount": ("i", [len(thing.children)]),
            "GetChildren": ("a(so)", [[self._ref(path) for path in thing.children]]),
            "GetExtents": ("(iiii)", [list(extents)]),
            "GetActions": ("a(sss)", [[[name, "", ""] for name in thing.actions]]),
            "Description": ("s", [thing.description]),
            "GetAttributes": ("a{ss}", [thing.attributes]),
            "GetRelationSet": (
                "a(ua(so))",
                [[[kind, [self._ref(path) for path in paths]] for kind, paths in thing.relations]],
            ),
            "CharacterCount": ("i", [len(thing.text)]),
            "GetText": ("s", [thing.text]),
        }
        return known.get(member, ("", []))


@contextlib.asynccontextmanager
async def accessible_program(
    things: dict[str, Thing], *, joins: bool = True, kind: type[Program] | None = None
) -> AsyncIterator[Program]:
    """Be on the session's accessibility bus with these objects, the program itself at `ROOT`.

    One that does not join is known only to whoever has its objects below its own, as web pages are.
    """
    bus = await MessageBus(bus_address=await find_bus()).connect()
    program = (kind or Program)(bus, things)
    bus.add_message_handler(program.hear)
    plug = [[str(bus.unique_name), ROOT]]
    embed = Message(
        "org.a11y.atspi.Registry", ROOT, "org.a11y.atspi.Socket", "Embed", signature="(so)", body=plug
    )
    if joins:
        reply = await bus.call(embed)
        assert reply is not None
        assert reply.message_type is MessageType.METHOD_RETURN, reply.body
    program.asked.clear()
    try:
        yield program
    finally:
        if bus.connected:
            bus.disconnect()

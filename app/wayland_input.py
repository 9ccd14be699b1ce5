"""The origin of input in a Wayland session: whether any program of the session can make keys and clicks.

Wayland does not say of an event who made it. What can be known is whether the compositor hands out virtual
input to every program; then input counts as made by a program, and the passphrase confirms high risk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dbus_fast import BusType, Message, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.errors import DBusFastError

from app.input_origin import NOT_TOLD_APART, InputOrigin, Stroke
from app.wayland_registry import VIRTUAL_INPUT, Unanswered, global_interfaces
from core.log import Logger

log = Logger(__name__)

# GNOME's remote control for programs of the session; unlike the portal of that name it asks no one.
MUTTER_REMOTE_DESKTOP = "org.gnome.Mutter.RemoteDesktop"
_BUS_S = 2.0

UNKNOWN_YET = "Where input comes from is not known yet: until then high risk asks for the passphrase."
NOT_REPORTED = (
    "Wayland does not say whether a person or a program made a key or a click, and this compositor gives "
    "programs no means that are known: keys and clicks count as a person's."
)


class WaylandSource:
    """The `InputSource` of a window on Wayland. Input is synthetic until the compositor was asked."""

    def __init__(self, ask: Callable[[], frozenset[str]] = global_interfaces) -> None:
        """`ask` reads the interfaces of the compositor, in a thread."""
        self._ask = ask
        self._origin = InputOrigin.SYNTHETIC
        self._about = UNKNOWN_YET

    @property
    def about(self) -> str:
        """See `InputSource`."""
        return self._about

    @property
    def doubt(self) -> str:
        """See `InputSource`."""
        return NOT_TOLD_APART

    async def begin(self) -> None:
        """Ask the compositor and the session bus once; neither changes while the session lasts."""
        means = await virtual_input(self._ask)
        if means:
            self._about = about_virtual_input(means)
        else:
            self._origin, self._about = InputOrigin.UNKNOWN, NOT_REPORTED

    async def end(self) -> None:
        """Nothing to stop."""

    def hand_of(self, stroke: Stroke) -> InputOrigin:
        """The same for every event."""
        return self._origin


def about_virtual_input(means: str) -> str:
    """What an operator is told where programs can make input."""
    return (
        f"On this desk every program of the session can make keys and clicks ({means}), and Wayland does not "
        "say which ones are yours: high risk, and whatever lets more run, asks for the passphrase each time."
    )


async def virtual_input(ask: Callable[[], frozenset[str]] = global_interfaces) -> str:
    """By what every program of this session can make input; empty where no means is known."""
    try:
        offered = VIRTUAL_INPUT & await asyncio.to_thread(ask)
    except Unanswered as error:
        log.warning("input counts as made by a program", problem=str(error))
        return "the compositor could not be asked"
    if offered:
        return min(offered)
    return MUTTER_REMOTE_DESKTOP if await _is_on_the_bus(MUTTER_REMOTE_DESKTOP) else ""


async def _is_on_the_bus(name: str) -> bool:
    """Whether a program of the session has this name, or the bus would start one."""
    try:
        async with asyncio.timeout(_BUS_S):
            bus = await MessageBus(bus_type=BusType.SESSION).connect()
            try:
                answers = [await _ask_bus(bus, member) for member in ("ListNames", "ListActivatableNames")]
            finally:
                bus.disconnect()
    except (OSError, TimeoutError, EOFError, ValueError, DBusFastError) as error:
        # Without a session bus there is no such means.
        log.info("the session bus cannot be asked", problem=str(error))
        return False
    return any(name in names for names in answers)


async def _ask_bus(bus: MessageBus, member: str) -> list[str]:
    answer = await bus.call(
        Message(
            destination="org.freedesktop.DBus",
            path="/org/freedesktop/DBus",
            interface="org.freedesktop.DBus",
            member=member,
        )
    )
    if answer is None or answer.message_type is not MessageType.METHOD_RETURN:
        return []
    names: list[str] = answer.body[0]
    return names

"""Reading what a device lists, without keeping the service from all others.

A thousand devices with a few tools each are read at once; one that lists megabytes is read in a thread, a few
tools at a time, so that it can still be given up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from core.aip.messages import ToolInfo
from core.contract_digest import definition_of
from core.dispatch.channel import BasicCommandDispatcher
from core.errors import DeviceError, ErrorCode
from core.fleet.contracts import Offered, read_tool

# Parts of definitions, long texts counted as several: some milliseconds, even where each is unusual.
AT_ONCE = 2_000
_IN_A_THREAD = 20_000
_CHARACTERS = 200
_SLICE_S = 0.005


class Arrived(Protocol):
    """A device that has come: how it is asked, and whether our own client answers, as far as it says so."""

    @property
    def channel(self) -> BasicCommandDispatcher: ...
    @property
    def ours(self) -> bool: ...


class Pause:
    """Lets others have the loop once one has had it for some milliseconds."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def breathe(self) -> None:
        """Let them, if it is time."""
        if time.perf_counter() - self._began > _SLICE_S:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


async def read_tools(
    infos: list[ToolInfo], one_at_a_time: asyncio.Lock, still: Callable[[], bool]
) -> list[Offered]:
    """Read what a device lists, in its order.

    Raises:
        BadInput: a definition has no canonical form.
        DeviceError: `still` says that the device has gone meanwhile.
    """
    if _weight([definition_of(info) for info in infos], AT_ONCE) < AT_ONCE:
        return [read_tool(info) for info in infos]
    found: list[Offered] = []
    async with one_at_a_time:
        for part in _parts(infos):
            if not still():
                raise DeviceError("It went away while its tools were read.", ErrorCode.DEVICE_OFFLINE)
            found += await asyncio.to_thread(_read_all, part)
    return found


def _read_all(infos: list[ToolInfo]) -> list[Offered]:
    return [read_tool(info) for info in infos]


def _parts(infos: list[ToolInfo]) -> Iterator[list[ToolInfo]]:
    part: list[ToolInfo] = []
    weight = 0
    for info in infos:
        part.append(info)
        weight += _weight(definition_of(info), _IN_A_THREAD)
        if weight >= _IN_A_THREAD:
            yield part
            part, weight = [], 0
    if part:
        yield part


def _weight(value: Any, most: int) -> int:
    """How many parts a value has; looks at no more than `most` of them."""
    weight, stack = 0, [value]
    while stack and weight < most:
        one = stack.pop()
        weight += 1
        kind = type(one)
        if kind is str:
            weight += len(one) // _CHARACTERS
        elif kind is dict:
            weight += len(one)
            if weight < most:
                stack.extend(one.values())
        elif kind is list:
            if weight + len(one) >= most:
                return most
            stack.extend(one)
    return weight

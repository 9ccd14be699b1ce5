"""Attempts that were refused: counted, kept in bounded memory, and journalled without letting a flood in.

Like ones (same far host, name and reason) within a minute are one entry with a count. The first is written at
once, so that nothing is lost by a crash but a number; the rest of its minute follows as one entry.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from core.audit.entries import Kind, NewEntry
from core.errors import QuarterdeckError
from core.fleet.models import Refusal
from core.ids import now_utc

log = structlog.get_logger(__name__)

WINDOW_S = 60.0
MOST_KINDS_IN_A_WINDOW = 64
KEPT = 200
MOST_WORDS = 300
MOST_NAME = 64
OF_MANY = "different attempts beyond those that are listed"

_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Window:
    """What came in one minute under one key, beyond the first, which is in the journal already."""

    peer: str
    more: int = 0


class Refusals:
    """Every refused attempt of this service, as a bounded summary."""

    def __init__(
        self,
        write: Callable[[NewEntry], None],
        is_known: Callable[[str], bool],
        counted: Callable[[str, int], None],
    ) -> None:
        """`counted` hears how many there are in the name of a device that `is_known`."""
        self._write = write
        self._is_known = is_known
        self._counted = counted
        self._windows: dict[_Key, _Window] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._kept: OrderedDict[_Key, Refusal] = OrderedDict()
        self._by_name: dict[str, int] = {}
        self.total = 0

    def add(self, peer: str, name: str, reason: str) -> None:
        """Somebody was refused. `name` is what is known or claimed; it may be anything."""
        self.total += 1
        name, reason, peer = name[:MOST_NAME], reason[:MOST_WORDS], peer[:MOST_WORDS]
        key = (_host(peer), name, reason)
        self._keep(key, peer)
        if self._is_known(name):
            self._by_name[name] = self._by_name.get(name, 0) + 1
            self._counted(name, self._by_name[name])
        if key not in self._windows and len(self._windows) >= MOST_KINDS_IN_A_WINDOW:
            key = ("", "", OF_MANY)
        window = self._windows.get(key)
        if window is not None:
            window.more, window.peer = window.more + 1, peer
            return
        self._windows[key] = _Window(peer)
        self._record(key, peer, 1)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self.flush)

    def newest(self) -> list[Refusal]:
        """What was refused, newest first; like ones are one."""
        return list(reversed(self._kept.values()))

    def of(self, name: str) -> list[Refusal]:
        """What was refused in one device's name, oldest first."""
        return [one for one in self._kept.values() if one.name == name]

    def restore(self, earlier: list[Refusal]) -> None:
        """Take over what an earlier service wrote, oldest first; it is only shown, not counted."""
        newer, self._kept = self._kept, OrderedDict()
        for one in earlier:
            self._kept[_host(one.peer), one.name, one.reason] = one
        for key, one in newer.items():
            self._kept.pop(key, None)
            self._kept[key] = one
        self._trim()

    def forget(self, name: str) -> None:
        """Count anew for a name that is known no more."""
        self._by_name.pop(name, None)

    def flush(self) -> None:
        """Write down what has been counted, and begin a new minute."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        windows, self._windows = self._windows, {}
        for key, window in windows.items():
            if window.more:
                self._record(key, window.peer, window.more)

    def _keep(self, key: _Key, peer: str) -> None:
        before = self._kept.pop(key, None)
        count = (before.count if before else 0) + 1
        self._kept[key] = Refusal(at=now_utc(), peer=peer, name=key[1], reason=key[2], count=count)
        self._trim()

    def _trim(self) -> None:
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _record(self, key: _Key, peer: str, count: int) -> None:
        _, name, reason = key
        body = {"reason": reason, "peer": peer, "name": name, "count": count}
        device = name if self._is_known(name) else None
        try:
            self._write(NewEntry(kind=Kind.DEVICE_REFUSED, actor="service", device=device, body=body))
        except QuarterdeckError as error:
            log.error("a refused device could not be recorded", reason=reason, problem=error.message)


def _host(peer: str) -> str:
    """A far end without its port, which is another one at every attempt."""
    host, colon, port = peer.rpartition(":")
    return host if colon and port.isdecimal() else peer

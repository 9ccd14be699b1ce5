"""Counts and journals rejected connections, in bounded memory and with bounded journal growth.

The first of equal rejected connections (same far host, name and reason) is journalled at once, so that a
crash loses only a count; the others within the same minute follow as one entry with a count. If rejections
continue in successive windows, the window grows from a minute to an hour. Unknown hosts and known devices
have separate pools, with a bound per host or device, so that a flood from one source does not hide others.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from core.audit.entries import NewEntry
from core.audit.events import DeviceRefused
from core.errors import QuarterdeckError
from core.fleet.models import Refusal
from core.ids import now_utc
from core.log import Logger
from core.text import escape_hidden

log = Logger(__name__)

WINDOW_S, LONGEST_WINDOW_S = 60.0, 3600.0
# Distinct keys per window and pool, and per host or device within it.
MOST_KINDS_IN_A_WINDOW = 64
MOST_KINDS_OF_ONE = 8
KEPT = 200
MOST_WORDS = 300
MOST_NAME = 64
OF_MANY = "different attempts beyond those that are listed"

_Key = tuple[str, str, str]
_ALL_THE_REST: _Key = ("", "", OF_MANY)


@dataclass(slots=True)
class _Window:
    """The count of one key in the present window, beyond the first, which is in the journal already."""

    peer: str
    more: int = 0


class _Pool:
    """The rejected connections of unknown hosts, or of known devices. The owner of a key is the far host or
    the device, respectively."""

    def __init__(self, owner_at: int) -> None:
        """`owner_at`: the index of the owner in a key."""
        self.windows: dict[_Key, _Window] = {}
        self.kept: OrderedDict[_Key, tuple[int, Refusal]] = OrderedDict()
        self._owner_at = owner_at
        self._kinds: Counter[str] = Counter()

    def place_of(self, key: _Key) -> _Key:
        """The key to count under in this window: the key itself, its owner's remainder, or the common one."""
        owner = key[self._owner_at]
        rest = ("", owner, OF_MANY) if self._owner_at else (owner, "", OF_MANY)
        for place, most in ((key, MOST_KINDS_OF_ONE), (rest, MOST_KINDS_OF_ONE + 1)):
            if place in self.windows:
                return place
            if self._kinds[owner] < most and len(self.windows) < MOST_KINDS_IN_A_WINDOW:
                self._kinds[owner] += 1
                return place
        return _ALL_THE_REST

    def take_windows(self) -> dict[_Key, _Window]:
        """Return the present counts and begin a new window."""
        windows, self.windows = self.windows, {}
        self._kinds.clear()
        return windows

    def keep(self, key: _Key, order: int, peer: str) -> None:
        """Store a rejected connection as the newest."""
        before = self.kept.pop(key, None)
        count = (before[1].count if before else 0) + 1
        self.kept[key] = order, Refusal(at=now_utc(), peer=peer, name=key[1], reason=key[2], count=count)
        self.trim()

    def trim(self) -> None:
        """Drop rows beyond `KEPT`: the oldest row of an owner with the most rows."""
        while len(self.kept) > KEPT:
            of = Counter(key[self._owner_at] for key in self.kept)
            most = max(of.values())
            del self.kept[next(key for key in self.kept if of[key[self._owner_at]] == most)]


class RejectedConnections:
    """A bounded summary of all rejected connections of this service."""

    def __init__(
        self,
        write: Callable[[NewEntry], None],
        is_known: Callable[[str], bool],
        counted: Callable[[str, int], None],
    ) -> None:
        """`counted` is called with a known device's name and its number of rejected connections."""
        self._write = write
        self._is_known = is_known
        self._counted = counted
        self._strangers, self._devices = _Pool(owner_at=0), _Pool(owner_at=1)
        self._timer: asyncio.TimerHandle | None = None
        self._window_s, self._ended_at = WINDOW_S, float("-inf")
        self._by_name: dict[str, int] = {}
        self.total = 0

    def add(self, peer: str, name: str, reason: str) -> None:
        """Add a rejected connection. `name` is the known or claimed device name; it may be any text."""
        self.total += 1
        name, reason, peer = _plain(name, MOST_NAME), _plain(reason, MOST_WORDS), _plain(peer, MOST_WORDS)
        pool = self._strangers
        if self._is_known(name):
            pool = self._devices
            self._by_name[name] = self._by_name.get(name, 0) + 1
            self._counted(name, self._by_name[name])
        key = (_host(peer), name, reason)
        place = pool.place_of(key)
        pool.keep(key if place == _ALL_THE_REST else place, self.total, peer)
        window = pool.windows.get(place)
        if window is not None:
            window.more, window.peer = window.more + 1, peer
            return
        pool.windows[place] = _Window(peer)
        self._record(place, peer, 1)
        self._begin_window()

    def _begin_window(self) -> None:
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        goes_on = loop.time() - self._ended_at < WINDOW_S
        self._window_s = min(2 * self._window_s, LONGEST_WINDOW_S) if goes_on else WINDOW_S
        self._timer = loop.call_later(self._window_s, self._end_window)

    def _end_window(self) -> None:
        self.flush()
        self._ended_at = asyncio.get_running_loop().time()

    def newest(self) -> list[Refusal]:
        """All rejected connections, newest first; equal ones are one row."""
        kept = [*self._strangers.kept.values(), *self._devices.kept.values()]
        return [one for _, one in sorted(kept, key=lambda pair: pair[0], reverse=True)]

    def of(self, name: str) -> list[Refusal]:
        """The rejected connections in one device's name, oldest first."""
        return [one for one in reversed(self.newest()) if one.name == name]

    def restore(self, earlier: list[Refusal]) -> None:
        """Load rows that an earlier service journalled, oldest first; they are shown but not counted."""
        for order, one in enumerate(earlier, -len(earlier)):
            pool = self._devices if self._is_known(one.name) else self._strangers
            key = (_host(one.peer), one.name, one.reason)
            if pool.kept.get(key, (order, one))[0] <= order:
                pool.kept[key] = order, one
        for pool in (self._strangers, self._devices):
            pool.kept = OrderedDict(sorted(pool.kept.items(), key=lambda item: item[1][0]))
            pool.trim()

    def forget(self, name: str) -> None:
        """Reset the count of a device that was forgotten."""
        self._by_name.pop(name, None)

    def flush(self) -> None:
        """Journal the present counts and begin a new window."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for pool in (self._strangers, self._devices):
            for key, window in pool.take_windows().items():
                if window.more:
                    self._record(key, window.peer, window.more)

    def _record(self, key: _Key, peer: str, count: int) -> None:
        _, name, reason = key
        event = DeviceRefused(reason=reason, peer=peer, name=name, count=count)
        try:
            self._write(event.entry("service", device=name if self._is_known(name) else None))
        except QuarterdeckError as error:
            log.error("a refused device could not be recorded", reason=reason, problem=error.message)


def _host(peer: str) -> str:
    """A far end without its port, which differs at every attempt."""
    host, colon, port = peer.rpartition(":")
    return host if colon and port.isdecimal() else peer


def _plain(words: str, most: int) -> str:
    """A text that may come from the far end, shortened and escaped for storage and display."""
    return escape_hidden(words[:most], keep_lines=False)[:most]

"""Attempts that were refused: counted, kept in bounded memory, and journalled without letting a flood in.

Like ones (same far host, name and reason) within a minute are one entry with a count. The first is written at
once, so that nothing is lost by a crash but a number; the rest of its minute follows as one entry. Where it
goes on, minute after minute, the minute grows to an hour. Strangers and known devices are counted apart, and
each of them up to a bound of their own: whoever floods hides nobody else.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from core.audit.entries import Kind, NewEntry
from core.errors import QuarterdeckError
from core.fleet.models import Refusal
from core.ids import now_utc
from core.text import escape_hidden

log = structlog.get_logger(__name__)

WINDOW_S, LONGEST_WINDOW_S = 60.0, 3600.0
# Of strangers, and as many of known devices; of these, so many of one host or of one device.
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
    """What came in one minute under one key, beyond the first, which is in the journal already."""

    peer: str
    more: int = 0


class _Pool:
    """What is known of attempts by strangers, or by known devices. Each key belongs to somebody: to the far
    host of a stranger, or to the device."""

    def __init__(self, owner_at: int) -> None:
        """`owner_at`: which part of a key says whose it is."""
        self.windows: dict[_Key, _Window] = {}
        self.kept: OrderedDict[_Key, tuple[int, Refusal]] = OrderedDict()
        self._owner_at = owner_at
        self._kinds: Counter[str] = Counter()

    def place_of(self, key: _Key) -> _Key:
        """Under which key it counts in this window: its own, that of the rest of its owner, or of all."""
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
        """What was counted; a new window begins."""
        windows, self.windows = self.windows, {}
        self._kinds.clear()
        return windows

    def keep(self, key: _Key, order: int, peer: str) -> None:
        """Remember it as the newest."""
        before = self.kept.pop(key, None)
        count = (before[1].count if before else 0) + 1
        self.kept[key] = order, Refusal(at=now_utc(), peer=peer, name=key[1], reason=key[2], count=count)
        self.trim()

    def trim(self) -> None:
        """Remember no more than `KEPT`: whoever has most of them makes room, with the oldest."""
        while len(self.kept) > KEPT:
            of = Counter(key[self._owner_at] for key in self.kept)
            most = max(of.values())
            del self.kept[next(key for key in self.kept if of[key[self._owner_at]] == most)]


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
        self._strangers, self._devices = _Pool(owner_at=0), _Pool(owner_at=1)
        self._timer: asyncio.TimerHandle | None = None
        self._window_s, self._ended_at = WINDOW_S, float("-inf")
        self._by_name: dict[str, int] = {}
        self.total = 0

    def add(self, peer: str, name: str, reason: str) -> None:
        """Somebody was refused. `name` is what is known or claimed; it may be anything."""
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
        """What was refused, newest first; like ones are one."""
        kept = [*self._strangers.kept.values(), *self._devices.kept.values()]
        return [one for _, one in sorted(kept, key=lambda pair: pair[0], reverse=True)]

    def of(self, name: str) -> list[Refusal]:
        """What was refused in one device's name, oldest first."""
        return [one for one in reversed(self.newest()) if one.name == name]

    def restore(self, earlier: list[Refusal]) -> None:
        """Take over what an earlier service wrote, oldest first; it is only shown, not counted."""
        for order, one in enumerate(earlier, -len(earlier)):
            pool = self._devices if self._is_known(one.name) else self._strangers
            key = (_host(one.peer), one.name, one.reason)
            if pool.kept.get(key, (order, one))[0] <= order:
                pool.kept[key] = order, one
        for pool in (self._strangers, self._devices):
            pool.kept = OrderedDict(sorted(pool.kept.items(), key=lambda item: item[1][0]))
            pool.trim()

    def forget(self, name: str) -> None:
        """Count anew for a name that is known no more."""
        self._by_name.pop(name, None)

    def flush(self) -> None:
        """Write down what has been counted, and begin a new minute."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for pool in (self._strangers, self._devices):
            for key, window in pool.take_windows().items():
                if window.more:
                    self._record(key, window.peer, window.more)

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


def _plain(words: str, most: int) -> str:
    """What may be a far end's own words, so that they can be kept and shown: short, and all of it visible."""
    return escape_hidden(words[:most], keep_lines=False)[:most]

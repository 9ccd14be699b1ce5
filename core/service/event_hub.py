"""The event hub: distributes events to subscribers, with the newest state per object and bounded memory.

A publisher never waits. A subscriber that lags gets only the newest state of each object. If it lags too far,
it gets `Missed` instead of all pending events, and reads the snapshot again.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable

from core.service.api.events import (
    AgentChanged,
    AgentRemoved,
    ApprovalChanged,
    CellChanged,
    ControlChanged,
    DeviceChanged,
    DeviceForgotten,
    Event,
    JournalChanged,
    Missed,
    RunChanged,
    WorkProgressed,
)

MAX_PENDING = 4096

Key = tuple[str, ...]


def key_of(event: Event) -> Key:
    """The key of the object that an event describes; a later event replaces an earlier of the same key."""
    match event:
        case CellChanged(cell=cell):
            return ("cell", cell.run, cell.device, cell.step)
        case DeviceChanged(device=device):
            return ("device", device.name)
        case DeviceForgotten(name=name):
            return ("device", name)
        case AgentChanged(agent=agent):
            return ("agent", agent.name)
        case AgentRemoved(name=name):
            return ("agent", name)
        case ApprovalChanged(approval=approval):
            return ("approval", approval.id)
        case RunChanged(run=run):
            return ("run", run.id)
        case WorkProgressed(what=what):
            return ("work", what)
        case JournalChanged() | ControlChanged() | Missed():
            return (event.event,)


class Pending:
    """Events that wait for one reader: at most `bound`, one per object, in the order of first change.

    When the bound is exceeded, all pending events are dropped and counted, and so are later events until the
    reader has taken `Missed`. It then reads the snapshot, which is newer than all dropped events.
    """

    def __init__(self, bound: int = MAX_PENDING) -> None:
        self._bound = bound
        self._events: OrderedDict[Key, Event] = OrderedDict()
        self._missed = 0
        self.ready = asyncio.Event()

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: Event, key: Key | None = None) -> None:
        """Add an event, in place of a pending event about the same object. Never waits."""
        if isinstance(event, Missed):
            self._overflow(event.count)
        elif self._missed:
            self._missed += 1
        else:
            key = key or key_of(event)
            if key not in self._events and len(self._events) >= self._bound:
                self._overflow(1)
            else:
                self._events[key] = event
        self.ready.set()

    def _overflow(self, count: int) -> None:
        self._missed += len(self._events) + count
        self._events.clear()

    def pop(self) -> Event | None:
        """Remove and return the next event, or None."""
        if self._missed:
            event: Event | None = Missed(count=self._missed)
            self._missed = 0
        else:
            event = self._events.popitem(last=False)[1] if self._events else None
        if not self._events:
            self.ready.clear()
        return event

    def take(self, most: int = MAX_PENDING) -> list[Event]:
        """Remove and return the next events, in order; `most` of them if there are more."""
        if self._missed:
            taken: list[Event] = [Missed(count=self._missed)]
            self._missed = 0
        else:
            taken = [self._events.popitem(last=False)[1] for _ in range(min(most, len(self._events)))]
        if not self._events:
            self.ready.clear()
        return taken


class Subscription(AsyncIterator[Event]):
    """A stream of the events since its creation, for one reader. Ends when it or its hub is closed."""

    def __init__(
        self, bound: int = MAX_PENDING, forget: Callable[[Subscription], None] | None = None
    ) -> None:
        self._pending = Pending(bound)
        self._forget = forget
        self._closed = False

    def offer(self, event: Event, key: Key) -> None:
        """Add an event for the reader. Never waits."""
        if not self._closed:
            self._pending.add(event, key)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        while not self._closed:
            if (event := self._pending.pop()) is not None:
                return event
            await self._pending.ready.wait()
        raise StopAsyncIteration

    def close(self) -> None:
        """End the subscription and wake its reader."""
        self._closed = True
        self._pending.ready.set()
        if self._forget is not None:
            self._forget(self)

    async def aclose(self) -> None:
        """`close`, under the name that `contextlib.aclosing` calls."""
        self.close()


class EventHub:
    """Passes each event to every subscription. Not thread-safe: publish on the loop's own thread."""

    def __init__(self) -> None:
        # Weak references: a subscription that is dropped without closing must not fill up for ever. The tuple
        # is replaced, never changed, so that a subscription may end while `publish` iterates over it. Not a
        # `WeakSet`: iterating over that costs more than the publishing.
        self._watching: tuple[weakref.ref[Subscription], ...] = ()
        self._closed = False

    def __len__(self) -> int:
        return len(self._watching)

    def publish(self, event: Event) -> None:
        """Add an event to every subscription; costs a dictionary write for each, and never waits."""
        if not self._watching:
            return
        key = key_of(event)
        for watching in self._watching:
            subscription = watching()
            if subscription is not None:
                subscription.offer(event, key)

    def subscribe(self, bound: int = MAX_PENDING) -> Subscription:
        """Create a subscription to the events from now on."""
        subscription = Subscription(bound, self._forget)
        if self._closed:
            subscription.close()
        else:
            self._watching = (*self._watching, weakref.ref(subscription, self._gone))
        return subscription

    def close(self) -> None:
        """End every subscription; later subscriptions end at once."""
        self._closed = True
        for watching in self._watching:
            subscription = watching()
            if subscription is not None:
                subscription.close()

    def _forget(self, subscription: Subscription) -> None:
        self._watching = tuple(one for one in self._watching if one() is not subscription)

    def _gone(self, gone: weakref.ref[Subscription]) -> None:
        self._watching = tuple(one for one in self._watching if one is not gone)

"""The window's end of the door: attach to the service, follow it, and carry the operator's wishes to it.

`ConsoleLink` is the only writer of `AppState`. It attaches (the service is started when no process owns
the home), reads the state, follows the events, reads again when the window was too slow, and after a loss
tries again with growing pauses until the window closes. Screens read and act through `app/query.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Signal
from shiboken6 import isValid

from app.state import AppState, Link, ServiceStatus
from core.backoff import Backoff
from core.errors import ErrorCode, QuarterdeckError, ServiceError
from core.log import Logger
from core.service.console import Console, Event, Missed
from core.tasks import Reporter, TaskGroupOwner, set_within

log = Logger(__name__)

Answer = TypeVar("Answer")
OpenConsole = Callable[[], Awaitable[Console]]

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
JITTER = (0.8, 1.2)
ROUND_TRIP_EVERY_S = 5.0


class ConsoleLink(QObject):
    """Attaches to the service and stays attached.

    Signals:
        failed(what, error): a wish failed and its asker gave no `on_error`; `error` is a `QuarterdeckError`.
        attached: the state was read; emitted after each (re)connection.
    """

    failed = Signal(str, object)
    attached = Signal()

    def __init__(
        self,
        open_console: OpenConsole,
        state: AppState,
        report: Reporter,
        parent: QObject | None = None,
    ) -> None:
        """`open_console` starts or finds the service and returns the door; it raises `QuarterdeckError`.

        `report` is told of every error that nothing here expects, those of the askers' callbacks included.
        """
        super().__init__(parent)
        self._open_console = open_console
        self._state = state
        self._console: Console | None = None
        self._next: Console | None = None
        self._under_way: Counter[Console] = Counter()
        self._wish_ended = asyncio.Event()
        self._report = report
        self._tasks = TaskGroupOwner("window", report)
        self._try_now = asyncio.Event()
        self._measure_now = asyncio.Event()
        self._closed = False
        self._was_attached = False

    @property
    def connected(self) -> bool:
        """Whether wishes reach a service now."""
        return self._console is not None

    @property
    def busy(self) -> bool:
        """Whether an answer of the service is awaited."""
        return self._under_way.total() > 0

    def start(self) -> None:
        """Begin to attach; needs the running loop. Returns at once."""
        self._tasks.spawn("link", self._stay_attached())
        self._tasks.spawn("round trip", self._measure_round_trips())

    def try_now(self) -> None:
        """Do not wait for the next try."""
        self._try_now.set()

    def reattach(self) -> asyncio.Future[Any] | None:
        """Open a new connection, as when another operator is at the window; the link is never lost.

        New wishes go over the new connection as soon as it is open; those under way end in the old one first.
        When the new one does not open, the old one stays. The future's result is whether it opened;
        `attached` is emitted later, when its state was read. Returns None where the service is lost.
        """
        return self.spawn("change the door", self._change_door()) if self._console is not None else None

    async def close(self) -> None:
        """Cancel what is under way and leave the door; the service goes on."""
        self._closed = True
        await self._tasks.close()
        console, self._console = self._console, None
        if console is not None:
            await console.close()

    def ask(
        self,
        wish: Callable[[Console], Awaitable[Answer]],
        on_done: Callable[[Answer], None] | None = None,
        on_error: Callable[[QuarterdeckError], None] | None = None,
        what: str = "ask the service",
    ) -> asyncio.Future[Any]:
        """Carry one wish to the service in the background.

            self.link.ask(lambda console: console.devices.tools(name), self._show, what="read the tools")

        `on_error` shows the error where the wish was made; without it the window's banner does. `what` is a
        verb phrase for "Could not … ". A callback that is a method of a widget that is gone is not called.
        Cancel what is returned when the answer is no longer wanted; then neither callback is called. While
        the window ends, nothing is asked any more.
        """
        return self.carry(lambda: self.perform(wish), on_done, on_error, what)

    def carry(
        self,
        work: Callable[[], Awaitable[Answer]],
        on_done: Callable[[Answer], None] | None = None,
        on_error: Callable[[QuarterdeckError], None] | None = None,
        what: str = "ask the service",
    ) -> asyncio.Future[Any]:
        """As `ask`, for work of several steps with a question to the operator in between.

        Each step uses `perform`, so that no connection is held open while the operator reads.
        """
        return self.spawn(what, self._carry(work, on_done, on_error, what))

    async def perform(self, wish: Callable[[Console], Awaitable[Answer]]) -> Answer:
        """Carry one wish to the service and wait for the answer; for coroutines of the window.

        Raises:
            ServiceError: the service is not connected.
            QuarterdeckError: what the service answers.
        """
        console = self._console
        if console is None:
            raise ServiceError("The service is not connected; nothing was sent.")
        self._under_way[console] += 1
        try:
            return await wish(console)
        finally:
            self._under_way[console] -= 1
            self._wish_ended.set()

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run other background work of the window (awaited dialogs, keys in threads) until it closes."""
        if not self._closed:
            return self._tasks.spawn(name, work)
        # A timer of a screen may still fire while the window ends; its wish must not outlive the window.
        work.close()
        nothing: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        nothing.cancel()
        return nothing

    async def _carry(
        self,
        work: Callable[[], Awaitable[Answer]],
        on_done: Callable[[Answer], None] | None,
        on_error: Callable[[QuarterdeckError], None] | None,
        what: str,
    ) -> None:
        try:
            answer = await work()
        except QuarterdeckError as error:
            self.tell(on_error, what, error)
        except Exception as error:
            # The edge: whatever went wrong, a wish is answered on the screen.
            log.error("wish failed unexpectedly", what=what, exc_info=error)
            words = f"{type(error).__name__}: {error}"
            self.tell(on_error, what, QuarterdeckError(words, ErrorCode.INTERNAL))
        else:
            if on_done is not None and is_alive(on_done):
                on_done(answer)

    def tell(
        self, on_error: Callable[[QuarterdeckError], None] | None, what: str, error: QuarterdeckError
    ) -> None:
        """Show an error where the wish was made; without `on_error` the banner does."""
        if on_error is None:
            self.failed.emit(what, error)
        elif is_alive(on_error):
            on_error(error)

    async def _stay_attached(self) -> None:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, jitter=JITTER)
        while not self._closed:
            self._was_attached = False
            try:
                await self._attach_and_follow()
                problem = "The service ended."
            except QuarterdeckError as error:
                problem = error.message
            except OSError as error:
                problem = f"The line to the service broke: {error.strerror or error}."
            except Exception as error:  # noqa: BLE001
                # The edge, and reported: the window would else stay "connected" while nothing reaches it.
                self._report("window: link", error)
                problem = f"The window failed to follow the service: {type(error).__name__}."
            if self._next is not None:
                continue  # left for another door, which is open already
            if self._was_attached:
                backoff.reset()
            await self._let_go()
            backoff.fail()
            attempt, pause = backoff.failures, backoff.delay
            self._state.set_service(ServiceStatus(Link.LOST, problem, attempt, pause))
            log.warning("service lost", problem=problem, attempt=attempt, next_try_s=round(pause, 2))
            await _wait_for(self._try_now, backoff.wait())

    async def _attach_and_follow(self) -> None:
        console, self._next = self._next, None
        if console is None:
            console = await self._open_console()
        self._console = console
        # Events are asked for before the state is read: what happens in between is then in one or the other.
        events = console.events()
        await self._read_state(console)
        self._was_attached = True
        self.attached.emit()
        await self._follow(console, events)

    async def _read_state(self, console: Console) -> None:
        self._state.replace(await console.service.state())
        known = self._state.service.round_trip_ms
        self._state.set_service(ServiceStatus(Link.CONNECTED, round_trip_ms=known))
        self._measure_now.set()

    async def _follow(self, console: Console, events: AsyncIterator[Event]) -> None:
        async for event in events:
            if isinstance(event, Missed):
                log.info("events were missed; reading the state again", count=event.count)
                await self._read_state(console)
            else:
                self._state.apply(event)

    async def _change_door(self) -> bool:
        # The new one first: a service to which no client is attached any more may end.
        try:
            fresh = await self._open_console()
        except (OSError, QuarterdeckError) as error:
            log.warning("the door could not be opened again", problem=str(error))
            return False
        old = self._console
        if old is None or self._next is not None:
            await _leave(fresh)
            return False
        self._console = self._next = fresh
        try:
            while self._under_way[old]:
                self._wish_ended.clear()
                await self._wish_ended.wait()
        finally:
            del self._under_way[old]
            await _leave(old)
        return True

    async def _let_go(self) -> None:
        console, self._console = self._console, None
        if console is not None:
            await _leave(console)

    async def _measure_round_trips(self) -> None:
        """Keep the status bar's time honest with the cheapest question there is."""
        while True:
            await _wait_for(self._measure_now, ROUND_TRIP_EVERY_S)
            console = self._console
            if console is None:
                continue
            began = time.perf_counter()
            try:
                await console.approvals.list()
            except (OSError, QuarterdeckError):
                continue  # `_follow` sees the loss and says so
            if console is self._console:
                took = (time.perf_counter() - began) * 1000
                self._state.set_service(ServiceStatus(Link.CONNECTED, round_trip_ms=took))


async def _leave(console: Console) -> None:
    try:
        await console.close()
    except (OSError, QuarterdeckError) as error:
        log.info("leaving a lost service", problem=str(error))


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, at most `seconds`; it is cleared afterwards."""
    await set_within(event, seconds)
    event.clear()


def is_alive(callback: Callable[..., object]) -> bool:
    """Whether the QObject that a bound method belongs to still exists."""
    owner = getattr(callback, "__self__", None)
    return not isinstance(owner, QObject) or isValid(owner)

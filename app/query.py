"""Reading and doing through the console client, with the book-keeping of the round trip.

    self._tools = Query(self, link, self._show_tools, self._say_no_tools, "read the tools", pause_ms=90)
    self._tools.load(lambda console: console.devices.tools(name), key=name)

    self._revoke = Mutation(self, link, self._revoked, self._say_problem, "revoke the device", button)
    self._revoke.run(lambda console: console.devices.revoke(name))

A `Query` reads what a screen shows: the newest question counts, and an answer to an earlier one is not shown.
A `Mutation` does something: its button is off meanwhile, and its failure is always reported, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from app.service_client import ConsoleLink, is_alive
from app.widgets.util import debounce
from core.errors import QuarterdeckError, Refused
from core.service.console import Console

Answer = TypeVar("Answer")
Fetch = Callable[[Console], Awaitable[Answer]]
OnError = Callable[[QuarterdeckError], None]


def quietly(error: QuarterdeckError) -> None:
    """The `fail` of a query that is only a convenience: without its answer the screen stays as it is."""
    del error


class Query(Generic[Answer]):
    """Reads one thing at a time for its owner, and shows only the answer to what was asked last.

    `value` is the newest answer for the key that is loaded, None before it; `error` is the failure of the
    newest attempt, None when it succeeded. When the owner is deleted, the request is cancelled.
    """

    def __init__(
        self,
        owner: QObject,
        link: ConsoleLink,
        show: Callable[[Answer], None],
        fail: OnError | None = None,
        what: str = "ask the service",
        pause_ms: int = 0,
    ) -> None:
        """`pause_ms` is how long `load` waits for a newer `load` before it asks.

        `fail` shows the error; without it the banner does. `what` is a verb phrase for "Could not … ".
        """
        self._owner, self._link, self._show, self._fail, self._what = owner, link, show, fail, what
        self._pause: QTimer | None = debounce(owner, pause_ms, self._ask) if pause_ms else None
        self._later: QTimer | None = None
        self._fetch: Fetch[Answer] | None = None
        self._request: asyncio.Future[Any] | None = None
        self._ask_again = False
        self._number = 0
        self.key: Hashable = None
        self.value: Answer | None = None
        self.error: QuarterdeckError | None = None
        owner.destroyed.connect(self._cancel_request)

    @property
    def loading(self) -> bool:
        """Whether an answer is waited for, or will be after the pause."""
        return self._is_asking() or _is_active(self._pause)

    def load(self, fetch: Fetch[Answer], key: Hashable = None, now: bool = False) -> None:
        """Read with `fetch`, after the pause; with `now`, at once.

        `key` names what is read. For another key, or none, an earlier request is cancelled and its answer
        dropped. For the same key it is a re-read: an answer under way is still shown, and asked for once more
        afterwards, so that many changes in a row neither starve the screen nor load the service.
        """
        if not isValid(self._owner):
            return
        if key is None or key != self.key:
            self.cancel()
            self.key, self.value, self.error = key, None, None
        self._fetch = fetch
        if self._pause is None or now:
            self._ask()
        else:
            self._pause.start()

    def ensure(self, fetch: Fetch[Answer], key: Hashable) -> None:
        """Load this key, unless its answer is here or on its way. After a failure it is asked for again."""
        here = self._fetch is not None and self.error is None and (self.value is not None or self.loading)
        if not here or key != self.key:
            self.load(fetch, key)

    def refresh(self) -> None:
        """Read at once what was loaded last; nothing when nothing was."""
        if self._fetch is not None and isValid(self._owner):
            self._ask()

    def refresh_within(self, milliseconds: int) -> None:
        """Read again what was loaded last, so many milliseconds after the first of any number of calls."""
        if self._fetch is None or not isValid(self._owner):
            return
        if self._later is None:
            self._later = debounce(self._owner, milliseconds, self._ask_later)
        if not self._later.isActive():
            self._later.start(milliseconds)

    def stop_refreshing(self) -> None:
        """Take a `refresh_within` back; what is under way is still shown."""
        if self._later is not None and isValid(self._later):
            self._later.stop()

    def _ask_later(self) -> None:
        if self._later is not None and self._is_asking():
            # What is under way may have been read before the change; between two reads is a pause.
            self._later.start()
        else:
            self._ask()

    def cancel(self) -> None:
        """Want no answer any more; `key` and `value` stay as they are."""
        for timer in (self._pause, self._later):
            if timer is not None and isValid(timer):
                timer.stop()
        self._cancel_request()

    def forget(self) -> None:
        """Cancel, and know nothing: the next `ensure` reads."""
        self.cancel()
        self.key = self.value = self.error = self._fetch = None

    def _is_asking(self) -> bool:
        return self._request is not None and not self._request.done()

    def _cancel_request(self) -> None:
        self._ask_again = False
        # A fetch may go on in spite of being cancelled: its answer has another number than the next one's.
        self._number += 1
        request, self._request = self._request, None
        if request is not None and not request.done():
            request.cancel()

    def _ask(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        if self._is_asking():
            self._ask_again = True
            return
        assert self._fetch is not None
        answered, failed = partial(self._answered, self._number), partial(self._failed, self._number)
        self._request = self._link.ask(self._fetch, answered, failed, self._what)

    def _answered(self, number: int, answer: Answer) -> None:
        if self._end_request(number):
            self.value, self.error = answer, None
            self._show(answer)

    def _failed(self, number: int, error: QuarterdeckError) -> None:
        if self._end_request(number):
            self.error = error
            self._link.tell(self._fail, self._what, error)

    def _end_request(self, number: int) -> bool:
        """Be ready for the next request, also one that `show` makes; returns whether this answer is shown."""
        if number != self._number or not isValid(self._owner):
            return False
        self._request = None
        if self._ask_again:
            self._ask_again = False
            self._ask()
        return True


class Declined(Refused):
    """The operator answered no to a question in between; nothing was done, and it is no failure."""


class Trigger(Protocol):
    """What starts a mutation: a button."""

    def text(self) -> str:
        """Its label."""
        ...

    def set_words(self, text: str) -> None:
        """Change its label."""
        ...

    def set_working(self, words: str) -> None:
        """Be off, with `words` as the reason; on again when they are empty."""
        ...


class Buttons:
    """Buttons of which one acts at a time, as the trigger of one mutation: all are off while it runs."""

    def __init__(self, *buttons: Trigger) -> None:
        self._buttons = buttons

    def text(self) -> str:
        """The label of the first."""
        return self._buttons[0].text()

    def set_words(self, text: str) -> None:
        """Change the label of the first."""
        self._buttons[0].set_words(text)

    def set_working(self, words: str) -> None:
        """Be off, all of them; or on again."""
        for button in self._buttons:
            if isValid(button):
                button.set_working(words)


class Mutation(Generic[Answer]):
    """Does one thing at a time; says how it ended where it was started, or in the banner when that is gone.

    It goes on when its owner is deleted: what was asked of the service is done there, and a failure is news.
    """

    def __init__(
        self,
        owner: QObject,
        link: ConsoleLink,
        done: Callable[[Answer], None] | None = None,
        fail: OnError | None = None,
        what: str = "ask the service",
        trigger: Trigger | None = None,
        busy: str = "The service is asked.",
        label: str = "",
        declined: Callable[[], None] | None = None,
    ) -> None:
        """`owner` is the widget that says how it ended; once deleted or hidden, the banner says a failure.

        `trigger` is off with the reason `busy` while it runs, and named `label` if that is given. `done` and
        `declined` are called as long as the owner exists. `what` is a verb phrase for "Could not … ".
        """
        self._owner, self._link = owner, link
        self._done, self._fail, self._declined = done, fail, declined
        self._what, self._trigger, self._busy = what, trigger, busy
        self._label, self._own_label = label, ""
        self._request: asyncio.Future[Any] | None = None

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self._request is not None and not self._request.done()

    def run(self, act: Fetch[Answer], what: str = "") -> bool:
        """Do it, unless it runs already; returns whether it was started. `what` replaces the earlier one."""
        return self.carry(lambda: self._link.perform(act), what)

    def carry(self, work: Callable[[], Awaitable[Answer]], what: str = "") -> bool:
        """As `run`, for work of several steps with a question to the operator in between.

        Where `work` raises `Declined`, only `declined` is called.
        """
        if self.running:
            return False
        self._what = what or self._what
        if self._trigger is not None and self._label:
            self._own_label = self._trigger.text()
        self._show_running(self._busy, self._label)
        self._request = self._link.carry(work, self._succeeded, self._failed, self._what)
        if self._request.cancelled():  # the window ends
            self._end()
        return True

    def _succeeded(self, answer: Answer) -> None:
        self._end()
        if self._done is not None and isValid(self._owner) and is_alive(self._done):
            self._done(answer)

    def _failed(self, error: QuarterdeckError) -> None:
        self._end()
        if isinstance(error, Declined):
            if self._declined is not None and isValid(self._owner):
                self._declined()
        elif self._fail is None or not _is_there(self._owner) or not is_alive(self._fail):
            self._link.failed.emit(self._what, error)
        else:
            self._fail(error)

    def _end(self) -> None:
        self._request = None
        self._show_running("", self._own_label)

    def _show_running(self, busy: str, label: str) -> None:
        if self._trigger is not None and isValid(self._trigger):
            if self._label:
                self._trigger.set_words(label)
            self._trigger.set_working(busy)


def _is_there(owner: QObject) -> bool:
    """Whether an owner can still say how it ended: it exists, and was not put away."""
    return isValid(owner) and not (isinstance(owner, QWidget) and owner.isHidden())


def _is_active(timer: QTimer | None) -> bool:
    return timer is not None and isValid(timer) and timer.isActive()

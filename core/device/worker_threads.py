"""A thread pool for work that blocks on disks, which a disk that never answers cannot exhaust.

A call to a dead network mount never returns, and nothing can end its thread. After a while such a thread no
longer counts, and a new one replaces it. Unlike the standard library's, no thread keeps the process alive.
"""

from __future__ import annotations

import concurrent.futures
import functools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

# With this many stuck threads, no more are started and work waits.
_MOST_STUCK = 256
Answer = TypeVar("Answer")


class WorkerThreads(concurrent.futures.Executor):
    """At most `most` busy threads, not counting threads whose present call has taken `stuck_after_s`."""

    def __init__(self, most: int, name: str, stuck_after_s: float = 5.0) -> None:
        self._most = most
        self._name = name
        self._stuck_after_s = stuck_after_s
        self._changed = threading.Condition()
        self._waiting: deque[tuple[concurrent.futures.Future[Any], Callable[[], Any]]] = deque()
        # When each busy thread began its present call, on the monotonic clock.
        self._busy: dict[threading.Thread, float] = {}
        self._free = 0
        self._watch: threading.Timer | None = None
        self._closed = False

    def submit(
        self, fn: Callable[..., Answer], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Answer]:
        """Have `fn` called in a thread.

        Raises:
            RuntimeError: the executor was shut down.
        """
        future: concurrent.futures.Future[Answer] = concurrent.futures.Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the threads are closed")
            self._waiting.append((future, functools.partial(fn, *args, **kwargs)))
            self._staff()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; with `wait`, wait until all work has ended or is stuck."""
        with self._changed:
            self._closed = True
            while cancel_futures and self._waiting:
                self._waiting.popleft()[0].cancel()
            if self._watch is not None:
                self._watch.cancel()
            self._changed.notify_all()
            if wait:
                self._changed.wait_for(lambda: not (self._waiting or self._at_work()), self._stuck_after_s)

    def _at_work(self) -> int:
        since = time.monotonic() - self._stuck_after_s
        return sum(begun > since for begun in self._busy.values())

    def _staff(self) -> None:
        """Wake a thread, or start a new one, for waiting work. The caller holds the lock."""
        self._changed.notify()
        while len(self._waiting) > self._free:
            if self._at_work() + self._free >= self._most or len(self._busy) >= self._most + _MOST_STUCK:
                self._watch_those_at_work()
                return
            self._free += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _watch_those_at_work(self) -> None:
        if self._watch is None:
            self._watch = threading.Timer(self._stuck_after_s, self._look_again)
            self._watch.daemon = True
            self._watch.start()

    def _look_again(self) -> None:
        with self._changed:
            self._watch = None
            if self._waiting and not self._closed:
                self._staff()

    def _work(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._free -= 1
                if not self._waiting:
                    return
                future, work = self._waiting.popleft()
                self._busy[me] = time.monotonic()
            _run(future, work)
            del future, work
            with self._changed:
                del self._busy[me]
                self._changed.notify_all()
                if self._at_work() + self._free >= self._most:
                    # This thread was counted as stuck, and another has replaced it.
                    return
                self._free += 1


def _run(future: concurrent.futures.Future[Answer], work: Callable[[], Answer]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        answer = work()
    except BaseException as error:  # noqa: BLE001  # the caller that waits for the future handles it
        future.set_exception(error)
    else:
        future.set_result(answer)

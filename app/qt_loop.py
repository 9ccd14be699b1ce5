"""The one event loop of the window: Qt's, driven through qasync, with one orderly end.

Never call `exec()` or `processEvents()` from a coroutine: a nested loop loses the tasks that were running.
Show dialogs with `open()` and await their end with `ended`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Qt, QThread, QTimer, Signal, SignalInstance
from PySide6.QtWidgets import QApplication

from core.log import Logger

os.environ.setdefault("QT_API", "pyside6")

# It chooses its binding by QT_API when it is imported.
import qasync

log = Logger(__name__)

Result = TypeVar("Result")
END_TIMEOUT_S = 5.0
COLLECT_EVERY_MS = 250
# A collection longer than this puts aside what it has looked at.
SLOW_S = 0.004
# How often all is looked at while the window is not used, and when it becomes urgent: after so many seconds
# of collecting more than the last look at all took, which is some hundred thousand objects.
LOOK_EVERY_S = 60.0
MOST_ASIDE_S = 0.5
# What is painted may fail sixty times a second.
REPORT_AGAIN_S = 1.0


def run_on_qt(app: QApplication, main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end on Qt's loop; afterwards no task, timer or thread of the loop is left.

    Raises:
        BaseException: whatever `main` raised.
    """
    loop = QtEventLoop(app)
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)  # type: ignore[no-any-return]  # qasync has no types
    finally:
        _end(loop)


def _end(loop: Any) -> None:
    try:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=END_TIMEOUT_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class QtEventLoop(qasync.QEventLoop):  # type: ignore[misc]  # qasync has no types
    """Qt's loop for asyncio; while it is open, garbage is collected only in the window's thread."""

    def __init__(self, app: QApplication) -> None:
        # Qt stops the loop when the last window closes, before our tasks have cleaned up; the window only
        # asks to close, and what runs on the loop does the closing.
        app.setQuitOnLastWindowClosed(False)
        super().__init__(app)
        self._collector = GuiThreadGarbageCollector()

    def close(self) -> None:
        """End the loop for good."""
        try:
            super().close()
        finally:
            # Only now: no thread of the loop is left that could collect in the wrong place.
            self._collector.stop()


class GuiThreadGarbageCollector(QObject):
    """Collects cyclic garbage in the window's thread, and nowhere else.

    Python collects in whatever thread happens to allocate, at any moment. In a worker thread
    (`asyncio.to_thread`) that takes widgets apart there, timers and all, and the program crashes; while Qt
    destroys one object, taking another apart can wait for a lock that is held already.

    With a thousand devices on show a full collection walks hundreds of thousands of objects, which is longer
    than a frame. What lives long is therefore put aside as soon as a collection takes its time, and looked at
    again only while the window is not used, or when it has doubled.
    """

    def __init__(self) -> None:
        super().__init__()
        self._was_on = gc.isenabled()
        gc.disable()
        # What the imports made stays for good.
        gc.freeze()
        self._looked_at = time.monotonic()
        # Seconds spent on collections whose survivors were put aside since then, and on looking at all: how
        # many objects that was. To count those that are aside would take as long as a collection.
        self._aside_s = self._look_s = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(COLLECT_EVERY_MS)
        self._timer.timeout.connect(self.collect)
        self._timer.start()

    def collect(self) -> None:
        """Collect the oldest generation that is due, by Python's own thresholds."""
        if self._may_look_at_all():
            self.look_at_all()
            return
        due = [
            generation
            for generation, (count, most) in enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True))
            if count > most
        ]
        if not due:
            return
        began = time.perf_counter()
        gc.collect(due[-1])
        took = time.perf_counter() - began
        if took > SLOW_S:
            gc.freeze()
            self._aside_s += took

    def _may_look_at_all(self) -> bool:
        if self._aside_s > self._look_s + MOST_ASIDE_S:
            return True
        in_use = QApplication.applicationState() == Qt.ApplicationState.ApplicationActive
        return not in_use and time.monotonic() - self._looked_at > LOOK_EVERY_S

    def look_at_all(self) -> None:
        """Collect whatever is garbage among all there is, what was put aside included."""
        began = time.perf_counter()
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._aside_s, self._look_s = 0.0, time.perf_counter() - began
        self._looked_at = time.monotonic()

    def stop(self) -> None:
        """Let Python collect by itself again."""
        self._timer.stop()
        gc.unfreeze()
        if self._was_on:
            gc.enable()


async def ended(finished: SignalInstance) -> Any:
    """Wait for a signal such as `QDialog.finished` and return its argument, without a nested loop."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def take(*arguments: Any) -> None:
        if not future.done():
            future.set_result(arguments[0] if arguments else None)

    finished.connect(take)
    try:
        return await future
    finally:
        # Sheets delete themselves when they end: then there is nothing left to disconnect from.
        with contextlib.suppress(RuntimeError):
            finished.disconnect(take)


class ErrorReporter(QObject):
    """Catches what was not caught, in slots, tasks and threads: it is logged and shown, never a crash.

    Signals:
        happened(words, details): one sentence, and the traceback to copy. Emitted in the window's thread.
    """

    happened = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._old_hook = sys.excepthook
        self._old_thread_hook = threading.excepthook
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reported: dict[tuple[type[BaseException], str, str], float] = {}

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to catch, until `remove`."""
        self._loop = loop
        sys.excepthook = self._uncaught
        threading.excepthook = self._uncaught_in_thread
        loop.set_exception_handler(self._uncaught_in_loop)

    def remove(self) -> None:
        """Put back what was there before."""
        sys.excepthook = self._old_hook
        threading.excepthook = self._old_thread_hook
        if self._loop is not None and not self._loop.is_closed():
            self._loop.set_exception_handler(None)

    def report(self, where: str, error: BaseException) -> None:
        """Log one error and show it. KeyboardInterrupt and SystemExit are not errors."""
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            return
        log.error("uncaught error in the window", where=where, exc_info=error)
        details = "".join(traceback.format_exception(error))
        self.happened.emit(f"{type(error).__name__}: {error}", f"{where}\n\n{details}")

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            self._old_hook(kind, error, trace)
            return
        if self._is_new(kind, error, trace):
            self.report("a slot of the window", error.with_traceback(trace))

    def _is_new(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> bool:
        """Whether the same error of the same line was not reported in the last `REPORT_AGAIN_S`."""
        now = time.monotonic()
        self._reported = {key: at for key, at in self._reported.items() if now - at < REPORT_AGAIN_S}
        last = traceback.extract_tb(trace, -1)
        key = (kind, str(error), f"{last[0].filename}:{last[0].lineno}" if last else "")
        is_new = key not in self._reported
        self._reported.setdefault(key, now)
        return is_new

    def _uncaught_in_thread(self, arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            name = arguments.thread.name if arguments.thread else QThread.currentThread().objectName()
            self.report(f"thread {name}", arguments.exc_value)

    def _uncaught_in_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.report(str(context.get("message", "the event loop")), error)
        else:
            log.error("event loop", **{key: str(value) for key, value in context.items()})

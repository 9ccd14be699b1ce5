"""Holding arguments against schemas without keeping the window from anything.

What is quick for certain is done at once. The rest is done in a process of its own
(`core.schema_forms.worker` says why): one for the whole window, started when it is first needed and ended
when it was not for a while.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal
from PySide6.QtWidgets import QApplication
from shiboken6 import isValid

import core
from app.widgets.util import debounce
from core.json_walk import is_small
from core.schema_forms.document import serialized
from core.schema_forms.json_values import UNSET, same_json
from core.schema_forms.validator import (
    STEPS_AT_ONCE,
    TOO_MUCH,
    FieldError,
    is_light,
    validator_for,
    with_defaults,
)
from core.schema_forms.worker import errors_in, question

NOT_CHECKED = "The arguments cannot be checked now, because the process that does it ended; try again."
STILL_CHECKED = "The arguments are still being checked."
IDLE_END_MS = 30_000
_FAILED = [FieldError((), NOT_CHECKED)]
LONGEST_MS = 60_000
# Parts of a value (`is_small`) that are checked in the window itself.
_MOST_PARTS = 2_000
"""For one answer; the worst schema takes three seconds to be read, and its arguments half a second."""
_PROPERTY = "quarterdeck_checking"

Errors = list[FieldError]


class SchemaHandle:
    """A schema as arguments are held against it; `schema` must not be changed afterwards."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._is_quick = self._is_light = is_light(schema)

    @cached_property
    def broken(self) -> Errors:
        """Why nothing is valid under it, where that is seen without reading it."""
        return [] if self._is_light or self.text else validator_for(self.schema).errors(None)

    @property
    def text(self) -> str:
        """The schema written down; empty where it cannot be."""
        return serialized(self.schema).text

    @cached_property
    def key(self) -> str:
        """What only this schema has."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def errors_at_once(self, value: Any) -> Errors | None:
        """What is wrong with a value, where that is quick to be said."""
        if self.broken:
            return self.broken
        if not self._is_quick or not is_small(value, _MOST_PARTS):
            return None
        found = validator_for(self.schema).errors_within(value, STEPS_AT_ONCE)
        # What took too long once does so again with the next letter.
        self._is_quick = found is not None
        return found


@dataclass(eq=False)
class PendingValidation:
    """One value that was asked about."""

    subject: SchemaHandle
    value: Any
    tell: Callable[[Errors], None] | None

    def drop(self) -> None:
        """The answer is of no interest any more."""
        self.tell = None

    def answer(self, found: Errors) -> None:
        """Tell the caller, if it still wants to know."""
        tell, self.tell = self.tell, None
        if tell is not None:
            tell(found)


class ValidatorProcess(QObject):
    """Asks the process, one question after the other."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: deque[PendingValidation] = deque()
        self._now: PendingValidation | None = None
        self._process: QProcess | None = None
        self._soon = debounce(self, 0, self._go_on)
        self._idle = debounce(self, IDLE_END_MS, self.stop)
        self._too_long = debounce(self, LONGEST_MS, self._give_up)

    @property
    def pid(self) -> int:
        """The process's number; 0 while there is none."""
        return self._process.processId() if self._process is not None else 0

    def ask(self, subject: SchemaHandle, value: Any, tell: Callable[[Errors], None]) -> PendingValidation:
        """Find out what is wrong with a value; `tell` is called with it, never before this returns."""
        asked = PendingValidation(subject, value, tell)
        self._waiting.append(asked)
        self._soon.start()
        return asked

    def _go_on(self) -> None:
        while self._now is None and self._waiting:
            asked = self._waiting.popleft()
            if asked.tell is not None:
                self._now = asked
                self._send(asked, None)
        if self._now is None:
            self._idle.start()

    def _send(self, asked: PendingValidation, schema: str | None) -> None:
        try:
            line = question(asked.subject.key, asked.value, schema)
        except RecursionError:
            self._finish(TOO_MUCH)
            return
        self._idle.stop()
        self._too_long.start()
        if self._process is None:
            self._process = self._start()
        self._process.write(line)

    def _start(self) -> QProcess:
        process = QProcess(self)
        # -P and the path by name: the current folder must not be able to offer another `core`.
        source = str(Path(core.__file__).resolve().parents[1])
        environment = QProcessEnvironment.systemEnvironment()
        known = environment.value("PYTHONPATH", "")
        environment.insert("PYTHONPATH", os.pathsep.join(filter(None, (source, known))))
        process.setProcessEnvironment(environment)
        process.setStandardErrorFile(QProcess.nullDevice())
        process.readyReadStandardOutput.connect(lambda: self._read(process))
        process.finished.connect(lambda *_: self._ended(process))
        process.errorOccurred.connect(lambda _error: self._ended(process))
        process.start(sys.executable, ["-P", "-m", "core.schema_forms.worker"])
        return process

    def _read(self, process: QProcess) -> None:
        if process is not self._process or not process.canReadLine() or self._now is None:
            return
        found = errors_in(bytes(process.readLine().data()))
        if found is None:
            self._send(self._now, self._now.subject.text)
        else:
            self._finish(found)

    def _finish(self, found: Errors) -> None:
        asked, self._now = self._now, None
        self._too_long.stop()
        if asked is not None:
            asked.answer(found)
        self._go_on()

    def _ended(self, process: QProcess) -> None:
        """It ended by itself, or could not be started: who waits for it is told; the next one tries again."""
        if process is self._process and isValid(process):
            self._let_go()
            self._finish(_FAILED)

    def _give_up(self) -> None:
        self._let_go()
        self._finish(_FAILED)

    def stop(self) -> None:
        """End the process, and forget what was asked; it is started again when it is needed."""
        self._waiting.clear()
        self._now = None
        self._too_long.stop()
        if (process := self._process) is not None:
            self._let_go()
            process.waitForFinished(1_000)

    def _let_go(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.state() == QProcess.ProcessState.NotRunning:
            process.deleteLater()
        else:
            process.finished.connect(process.deleteLater)
            process.kill()


def validator_process() -> ValidatorProcess:
    """The one of this window."""
    app = QApplication.instance()
    assert app is not None, "there are no forms before there is an application"
    known = app.property(_PROPERTY)
    if not isinstance(known, ValidatorProcess):
        known = ValidatorProcess(app)
        app.setProperty(_PROPERTY, known)
        app.aboutToQuit.connect(known.stop)
        # Where Qt never says so, as in tests.
        atexit.register(_stop, known)
    return known


def _stop(process: ValidatorProcess) -> None:
    if isValid(process):
        process.stop()


class Validator(QObject):
    """What is wrong with one value that changes, such as the arguments in a form.

    Signals:
        known: it was not known at once, and is now; not sent for a value that is not looked at any more.
    """

    known = Signal()

    def __init__(self, schema: Any = True, parent: QObject | None = None) -> None:
        """`schema` may be a `SchemaHandle`, of which others have checks, too."""
        super().__init__(parent)
        self._asked: PendingValidation | None = None
        self._value: Any = UNSET
        self._found: Errors | None = None
        self.set_schema(schema)

    def set_schema(self, schema: Any) -> None:
        """Hold values against another schema from now on."""
        self.drop()
        self._subject = schema if isinstance(schema, SchemaHandle) else SchemaHandle(schema)

    def errors(self, value: Any, at_once: bool = True) -> Errors | None:
        """What is wrong with `value`; None while that is not known, and then `known` is sent.

        What was asked of another value before is given up. Without `at_once`, what is quick is not done now.
        """
        if self._value is UNSET or not same_json(self._value, value):
            self.drop()
            self._value = value
            # The dispatcher fills in what is required and has a default, as the field's hint says.
            filled = with_defaults(self._subject.schema, value)
            self._found = self._subject.broken or (self._subject.errors_at_once(filled) if at_once else None)
            if self._found is None:
                self._asked = validator_process().ask(self._subject, filled, self._take)
        return self._found

    def try_again(self) -> None:
        """Ask once more, where the answer was that nothing could be found out."""
        if self._found == _FAILED:
            self.drop()

    def drop(self) -> None:
        """Forget the value, and give up what was asked of it."""
        if self._asked is not None:
            self._asked.drop()
        self._asked, self._value, self._found = None, UNSET, None

    def _take(self, found: Errors) -> None:
        if isValid(self):
            self._asked, self._found = None, found
            self.known.emit()

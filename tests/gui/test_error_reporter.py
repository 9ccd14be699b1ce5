"""What nobody caught is reported, and what is raised again and again is not reported each time."""

from __future__ import annotations

import asyncio
import sys

import pytest
from PySide6.QtWidgets import QApplication

from app import qt_loop
from app.qt_loop import REPORT_AGAIN_S, ErrorReporter


def test_an_error_of_one_line_that_repeats_is_reported_once_in_a_while(
    qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(qt_loop.time, "monotonic", lambda: now)
    loop = asyncio.new_event_loop()
    reporter, heard = ErrorReporter(), list[str]()
    reporter.happened.connect(lambda words, _details: heard.append(words))
    reporter.install(loop)

    def fail(text: str) -> None:
        try:
            raise ValueError(text)
        except ValueError as error:
            sys.excepthook(type(error), error, error.__traceback__)

    try:
        for _ in range(60):
            fail("not painted")
        fail("another")
        assert heard == ["ValueError: not painted", "ValueError: another"]
        now += REPORT_AGAIN_S
        fail("not painted")
        assert heard[2:] == ["ValueError: not painted"]
    finally:
        reporter.remove()
        loop.close()

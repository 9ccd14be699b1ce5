"""The service's event loop is uvloop's where it is installed, and asyncio's elsewhere."""

from __future__ import annotations

import asyncio
import sys
import types

import pytest

from core.event_loop import new_event_loop


def test_without_uvloop_it_is_asyncios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    loop.close()
    assert type(loop).__module__.startswith("asyncio.")


def test_with_uvloop_it_is_uvloops(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loop(asyncio.SelectorEventLoop):
        pass

    stand_in = types.ModuleType("uvloop")
    stand_in.new_event_loop = Loop  # type: ignore[attr-defined]  # uvloop is no dependency
    monkeypatch.setitem(sys.modules, "uvloop", stand_in)
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, Loop)

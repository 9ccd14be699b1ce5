"""Modules as Windows would load them."""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

import pytest

import core.files
from tests.fakes.msvcrt_double import FakeMsvcrt


def files_on_windows(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load `core.files` once more, with Windows' locks."""
    return loaded_on_windows(monkeypatch, core.files, FakeMsvcrt())


def loaded_on_windows(monkeypatch: pytest.MonkeyPatch, original: types.ModuleType, msvcrt: FakeMsvcrt) -> Any:
    """Load a module once more, as Windows would."""
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    assert original.__file__ is not None
    spec = importlib.util.spec_from_file_location(f"{original.__name__}_on_windows", original.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        spec.loader.exec_module(module)
    return module

"""The fakes of the console answer every method of the API, with the arguments that it declares."""

from __future__ import annotations

import inspect

import pytest

from core.service.console import api_methods
from tests.fakes.console import FakeConsole
from tests.fakes.handler_console import HandlerConsole
from tests.fakes.memory_console import MemoryConsole


@pytest.mark.parametrize("fake", [FakeConsole, MemoryConsole])
@pytest.mark.parametrize("wire", sorted(api_methods()))
def test_a_fake_takes_what_the_method_takes(fake: type[HandlerConsole], wire: str):
    handler = getattr(fake, f"on_{wire}")
    assert inspect.signature(handler) == inspect.signature(api_methods()[wire].function)

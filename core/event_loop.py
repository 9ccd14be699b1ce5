"""The event loop of the service: uvloop's where it is installed, otherwise asyncio's.

uvloop is the extra `fast`. It has no wheel for Windows, and nothing depends on it.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop, for `asyncio.Runner(loop_factory=new_event_loop)`."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop

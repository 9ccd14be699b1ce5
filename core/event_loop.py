"""The event loop of the service: uvloop's where it is installed, otherwise asyncio's.

uvloop is the extra `fast`. It has no wheel for Windows, and nothing depends on it.
"""

from __future__ import annotations

import asyncio
import importlib


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop, for `asyncio.Runner(loop_factory=new_event_loop)`."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop

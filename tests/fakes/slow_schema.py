"""A schema that is too large to be read on the window's loop, and its checking made to stand still."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from app.forms.validator import validator_process

LARGE: dict[str, Any] = {
    "type": "object",
    "properties": {"command": {"type": "string", "minLength": 3}, "timeout": {"type": "integer"}},
    "required": ["command"],
    "$defs": {f"d{number}": {"type": "string", "maxLength": number} for number in range(400)},
}


async def while_checking(act: Callable[[], Awaitable[None]]) -> None:
    """Do something while the process stands still."""
    process = validator_process().pid
    assert process
    os.kill(process, signal.SIGSTOP)
    try:
        await act()
    finally:
        os.kill(process, signal.SIGCONT)

"""Quarterdeck without a window: dispatcher, policy, journal, device links, service, command line.

Nothing below this package may import Qt or `app`; `tests/unit/test_boundary.py` holds it to that.
"""

from __future__ import annotations

import sys


def _structlog_without_rich() -> None:
    """Load structlog as it is where `rich` is not installed.

    It would load `rich` for coloured traces, which no log of ours has: 70 ms of the start of every process.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # how the import system says "not there"
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


_structlog_without_rich()

__version__ = "0.1.0"

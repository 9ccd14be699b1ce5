"""The core of Quarterdeck, without the window: dispatcher, policy, journal, device links, service, CLI.

No module of this package may import Qt or `app`; `tests/unit/test_boundary.py` enforces this.
"""

from __future__ import annotations

import sys


def _structlog_without_rich() -> None:
    """Import structlog as if `rich` were not installed.

    It would import `rich` for coloured traces, which Quarterdeck's logs do not use: 70 ms per process start.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # marks the module as not found
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


_structlog_without_rich()

__version__ = "0.1.0"

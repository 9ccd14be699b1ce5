"""structlog, imported as if `rich` were not installed.

It would import `rich` for coloured traces, which Quarterdeck's logs do not use: 70 ms per process start.
"""

from __future__ import annotations

import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # marks the module as not found
    try:
        import structlog
    finally:
        del sys.modules["rich"]
else:
    import structlog

__all__ = ["structlog"]

"""The core of Quarterdeck, without the window: dispatcher, policy, journal, device links, service, CLI.

No module of this package may import Qt or `app`; `tests/unit/test_boundary.py` enforces this.
"""

from __future__ import annotations

__version__ = "0.1.0"

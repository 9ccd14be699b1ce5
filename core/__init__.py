"""Quarterdeck without a window: dispatcher, policy, journal, device links, service, command line.

Nothing below this package may import Qt or `app`; `tests/unit/test_boundary.py` holds it to that.
"""

__version__ = "0.1.0"

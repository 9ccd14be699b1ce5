"""How long tests wait for what has to come, so that one that fails does not hang."""

from __future__ import annotations

PATIENCE_S = 60.0
"""Only a test that fails waits so long. On a busy machine one that passes may need some of it."""

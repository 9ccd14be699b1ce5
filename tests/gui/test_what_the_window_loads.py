"""The window opens on the fleet without what the service decides and stores by."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OF_THE_SERVICE = {
    "cel_expr_python",
    "core.audit.events",
    "core.audit.store",
    "core.batch.expressions",
    "core.policy.analysis",
    "core.policy.rules",
    "core.service.service",
    "cryptography",
    "sqlite3",
    "structlog",
    "tree_sitter",
}


def test_the_window_opens_without_what_only_the_service_needs() -> None:
    code = "import sys, app.main, app.screens.fleet.screen; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "app.window" in loaded
    assert not loaded & OF_THE_SERVICE

"""Command line: `devices`, `call`, `approvals`, `audit`, … through the same console API as the window."""

from __future__ import annotations

# As in `core.service.exit_codes`, which is itself one of the slow imports.
_INTERRUPTED = 130


def main(argv: list[str]) -> int:
    """Run one command; returns its exit code (the list is in `core.service.exit_codes`)."""
    # The commands import typer, a cost that starting the window avoids.
    try:
        from core.cli.app import run
    except KeyboardInterrupt:
        # Ctrl+C came during the imports, which take a third of a second.
        return _INTERRUPTED
    return run(argv)

"""Command line: `devices`, `call`, `approvals`, `audit`, … through the same console API as the window."""

from __future__ import annotations

from core.cli.phases import INTERRUPTED, starting


def main(argv: list[str]) -> int:
    """Run one command; returns its exit code (the list is in `core.service.exit_codes`)."""
    try:
        with starting():
            # The commands import typer, a cost that starting the window avoids.
            from core.cli.app import run

            return run(argv)
    except KeyboardInterrupt:
        # Ctrl+C came before the command had begun.
        return INTERRUPTED

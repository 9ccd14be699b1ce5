"""The command line: `devices`, `call`, `approvals`, `audit`, … through the same door as the window."""

from __future__ import annotations

# As in `core.service.exit_codes`, which is itself one of the slow imports.
_INTERRUPTED = 130


def main(argv: list[str]) -> int:
    """Run one command; returns its exit code (the list is in `core.service.exit_codes`)."""
    # The commands pull in typer; whoever only wants the window does not pay for it.
    try:
        from core.cli.app import run
    except KeyboardInterrupt:
        # Ctrl+C was quicker than a third of a second of imports.
        return _INTERRUPTED
    return run(argv)

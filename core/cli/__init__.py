"""The command line: `devices`, `call`, `approvals`, `audit`, … through the same door as the window."""

from __future__ import annotations


def main(argv: list[str]) -> int:
    """Run one command; returns its exit code (the list is in `core.service.exit_codes`)."""
    # The commands pull in typer; whoever only wants the window does not pay for it.
    from core.cli.commands import run

    return run(argv)

"""What a fault is, and all of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One fault: `old`, which `file` holds exactly once, becomes `new`.

    `breaks` says what goes wrong then. `tests` are the test files that should notice, the likeliest first;
    paths are relative to the root of the repository.
    """

    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]


def all_faults() -> list[Fault]:
    """Every fault, in the order in which they are tried."""
    # Here, because each of the lists needs `Fault`.
    from tests.mutations import (
        approvals_faults,
        audit_faults,
        backup_faults,
        dispatch_faults,
        policy_faults,
    )

    return [
        *dispatch_faults.FAULTS,
        *approvals_faults.FAULTS,
        *policy_faults.FAULTS,
        *audit_faults.FAULTS,
        *backup_faults.FAULTS,
    ]

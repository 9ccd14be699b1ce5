"""The keys of the Approvals screen, as F1 lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.screens.screen import Shortcut

if TYPE_CHECKING:
    from app.screens.approvals.screen import ApprovalsScreen


def approvals_keys(screen: ApprovalsScreen) -> list[Shortcut]:
    """Letters act only when no text field has the focus."""
    return [
        Shortcut("J", "Next request", screen.step_on),
        Shortcut("K", "Request before", screen.step_back),
        Shortcut(
            "Ctrl+Return",
            "Approve once; first to what is still to be read or typed",
            act_by=screen.bar.press_approve,
        ),
        Shortcut("Ctrl+Enter", "Approve once (number pad)", act_by=screen.bar.press_approve),
        Shortcut("D", "Deny, with a reason", screen.bar.open_reason),
        Shortcut("E", "Edit, then approve", screen.bar.press_edit),
        Shortcut("G", "Approve for this run, or for a scope", screen.bar.press_grant),
        Shortcut("F", "Next finding in the bytes", screen.card.next_finding),
        Shortcut("B", "Before you decide: to the helpers", screen.focus_helpers),
        Shortcut("/", "Filter the queue", screen.queue.focus_filter),
        Shortcut("Up", "Request before, in the queue"),
        Shortcut("Down", "Next request, in the queue"),
        Shortcut("Return", "From the queue into the card, to what is to be read to its end"),
        Shortcut("Ctrl+End", "In the card: to the end of the box that has the keyboard"),
    ]

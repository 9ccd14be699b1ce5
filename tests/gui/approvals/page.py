"""The Approvals screen as a person meets it: a card that takes no answer yet, and one that does."""

from __future__ import annotations

from PySide6.QtCore import QTimer

from app.screens.approvals.decision_bar import DecisionBar
from app.screens.approvals.screen import TICK_MS, ApprovalsScreen


def guard_of(bar: DecisionBar) -> QTimer:
    """What keeps a new card from taking an answer: for how long, and how exactly."""
    [guard] = [one for one in bar.children() if isinstance(one, QTimer)]
    return guard


def keep_guarded(bar: DecisionBar) -> None:
    """Let the card that is open take no answer for the rest of the test."""
    guard_of(bar).start(60_000)


def end_guard(bar: DecisionBar) -> None:
    """Let the card take an answer now."""
    guard = guard_of(bar)
    guard.stop()
    guard.timeout.emit()


def tick_of(screen: ApprovalsScreen) -> QTimer:
    """What counts the seconds while the screen is open."""
    [tick] = [one for one in screen.children() if isinstance(one, QTimer) and one.interval() == TICK_MS]
    return tick

"""A decision of the policy: every view of it says the same facts."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.records.decision import (
    DecisionCard,
    DecisionView,
    ReasonsSection,
    conditions_text,
    decision_properties,
)
from app.theme.theme import Theme
from app.widgets.labels import Label
from core.models.tools import Effect, Risk
from core.policy.models import Answer, Decision, Moment, Profile, Reason

DECISION = Decision(
    answer=Answer.ASK,
    risk=Risk.HIGH,
    effect=Effect.CHANGE,
    profile=Profile.GUARDED,
    summary="Deletes recursively",
    reasons=[Reason(text="Folders are emptied by hand", origin="rule no-delete")],
    approvers=2,
    evidence=[Moment.BEFORE, Moment.AFTER],
)
CONDITIONS = "2 operators have to approve it. Pictures are taken before and after it."


def words_in(widget: QWidget) -> str:
    return "\n".join(label.text() for label in widget.findChildren(Label))


def test_what_a_decision_demands_is_said_wherever_it_is_shown(theme: Theme, qtbot: QtBot) -> None:
    assert conditions_text(DECISION) == CONDITIONS
    views = [DecisionView(), DecisionView(beforehand=True)]
    for view in views:
        view.show_decision(DECISION)
    card, reasons = DecisionCard(), ReasonsSection("Why you are asked")
    card.show_decision(DECISION, "As judged for lab-1.")
    reasons.show_reasons(DECISION)
    for widget in (*views, card, reasons):
        qtbot.addWidget(widget)
        assert CONDITIONS in words_in(widget), widget
        assert "Folders are emptied by hand" in words_in(widget), widget
    assert CONDITIONS in card.text()
    assert CONDITIONS in [fact.value for fact in decision_properties(DECISION)]

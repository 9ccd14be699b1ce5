"""Asks what the expressions of the open step may read, what is wrong with them, and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from PySide6.QtCore import QObject, Signal

from app.query import Query, quietly
from app.screens.batch.document import BatchDocument, DraftStep
from app.service_client import ConsoleLink
from core.batch.models import MOST_ASKED, AskedExpression, ExpressionTrials, Place
from core.service.console import Console

PAUSE_MS = 250
Asked: TypeAlias = tuple[Place, str]
Answer: TypeAlias = tuple[ExpressionTrials, list[Asked]]


class ExpressionQuery(QObject):
    """Follows the open step, a moment after each change; nothing is ever sent to a device.

    Signals:
        known(trials, asked): `ExpressionTrials`, and the places and texts of which they are.
    """

    known = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link: ConsoleLink | None = None
        self._query: Query[Answer] | None = None

    def bind(self, link: ConsoleLink) -> None:
        """Where to ask."""
        self._link = link
        self._query = Query(
            self, link, lambda answer: self.known.emit(*answer), quietly, "try the expressions", PAUSE_MS
        )

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way."""
        return self._query is not None and self._query.loading

    def show_step(self, content: BatchDocument, step: DraftStep, expressions: Sequence[Asked]) -> None:
        """The open step, or what its expressions say, is another one now."""
        self.stop()
        if self._link is None or self._query is None or not self._link.connected:
            return
        asked = list(expressions)[:MOST_ASKED]

        async def ask(console: Console) -> Answer:
            batch = content.as_batch()  # what is wrong with it stands on its card
            wanted = [AskedExpression(place=place, text=text) for place, text in asked]
            return await console.runs.try_expressions(batch, step.id, wanted), asked

        self._query.load(ask)

    def stop(self) -> None:
        """What was asked is of no interest any more."""
        if self._query is not None:
            self._query.cancel()

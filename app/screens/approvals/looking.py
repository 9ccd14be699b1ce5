"""Reads what helps to judge the open card, and gives it to the card: preview, helpers, what was edited."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QImage

from app.images import ImageCache, ImageError, ImageKey, images_of
from app.link import ConsoleLink
from app.screens.approvals.card import RequestCard
from app.screens.approvals.preview_part import Looked, has_preview, look
from core.approvals.models import Approval, ApprovalState
from core.approvals.preview_models import Helper
from core.dispatch.models import CommandResult
from core.errors import QuarterdeckError
from core.service.console import Console


class Looking(QObject):
    """Asks through the door; an answer that comes when another card is open is dropped."""

    def __init__(self, card: RequestCard, link: ConsoleLink) -> None:
        super().__init__(card)
        self._card, self._link, self._images = card, link, images_of(link)
        card.helpers.run_asked.connect(self._run)

    def begin(self, one: Approval) -> None:
        """Read what there is to a card that was newly opened."""
        self._card.helpers.show_helpers([])
        if one.edited_from:
            self._link.ask(
                lambda console: console.approvals.get(one.edited_from),
                lambda before: self._show_edited(one.id, before),
                lambda error: None,  # the banner says that it was edited; what it was is in the journal
                what="read what was edited",
            )
        if one.state is not ApprovalState.WAITING:
            return
        if has_preview(one):
            self._link.ask(
                lambda console: look(console, one, self._images),
                self._show_looked,
                lambda error: self._say_no_preview(one.id, error),
                what="read what is there now",
            )
        self._link.ask(
            lambda console: console.approvals.helpers(one.id),
            lambda helpers: self._show_helpers(one.id, helpers),
            lambda error: None,  # without helpers the card is as it was; nothing depends on them
            what="read what helps to decide",
        )

    def _is_open(self, approval: str) -> bool:
        return self._card.approval is not None and self._card.approval.id == approval

    def _show_looked(self, looked: Looked) -> None:
        if self._is_open(looked.approval):
            self._card.show_looked(looked)

    def _say_no_preview(self, approval: str, error: QuarterdeckError) -> None:
        if self._is_open(approval):
            self._card.say_no_preview(error.message)

    def _show_edited(self, approval: str, before: Approval) -> None:
        if self._is_open(approval):
            self._card.show_edited(before)

    def _show_helpers(self, approval: str, helpers: list[Helper]) -> None:
        if self._is_open(approval):
            self._card.show_helpers(helpers)

    # A helper that was pressed

    def _run(self, helper: Helper) -> None:
        shown = self._card.approval
        if shown is None:
            return
        self._link.ask(
            lambda console: _run_helper(console, shown.id, helper, self._images),
            lambda found: self._show_found(shown.id, helper, *found),
            lambda error: self._show_failed(shown.id, helper, error),
            what=helper.title,
        )

    def _show_found(
        self, approval: str, helper: Helper, result: CommandResult, picture: QImage | None
    ) -> None:
        if self._is_open(approval):
            self._card.helpers.show_result(helper, result, picture)

    def _show_failed(self, approval: str, helper: Helper, error: QuarterdeckError) -> None:
        if self._is_open(approval):
            self._card.helpers.show_error(helper, error)


async def _run_helper(
    console: Console, approval: str, helper: Helper, images: ImageCache
) -> tuple[CommandResult, QImage | None]:
    result = await console.approvals.run_helper(approval, helper.id)
    for one in result.evidence:
        if one.media_type.startswith("image/"):
            try:
                return result, await images.load(console, ImageKey(one.blob))
            except ImageError:
                return result, QImage()
    return result, None

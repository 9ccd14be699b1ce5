"""Reads what helps to judge the open card, and gives it to the card: preview, helpers, what was edited."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QImage

from app.images import ImageCache, ImageError, ImageKey, images_of
from app.query import Query, quietly
from app.screens.approvals.preview_section import PreviewData, has_preview, look
from app.screens.approvals.request_view import RequestView
from app.service_client import ConsoleLink
from core.approvals.models import Approval, ApprovalState
from core.approvals.preview_models import Helper
from core.commands.results import CommandResult
from core.errors import QuarterdeckError
from core.models.tool_names import SCREENSHOT
from core.service.console import Console

MOST_LOOKED = 30


class PreviewLoader(QObject):
    """Asks through the door; an answer that comes when another card is open is dropped."""

    def __init__(self, card: RequestView, link: ConsoleLink) -> None:
        super().__init__(card)
        self._card, self._link, self._images = card, link, images_of(link)
        # By request: the change of a file as it was shown last while it waited.
        self._looked: dict[str, PreviewData] = {}
        # Without what was edited and without helpers the card is as it was; nothing depends on them.
        self._edited = Query(self, link, card.show_edited, quietly, "read what was edited")
        self._helpers = Query(self, link, card.show_helpers, quietly, "read what helps to decide")
        self._scope = Query(self, link, card.show_scope, quietly, "describe the tool")
        self._preview = Query(
            self,
            link,
            self._show_looked,
            lambda error: card.say_no_preview(error.message),
            "read what is there now",
        )
        card.helpers.run_asked.connect(self._run)

    def begin(self, one: Approval) -> None:
        """Read what there is to a card that was newly opened."""
        self.stop()
        self._card.helpers.show_helpers([])
        if one.edited_from:
            self._edited.load(lambda console: console.approvals.get(one.edited_from))
        if one.state is not ApprovalState.WAITING:
            # What is there now is what it made of it; the card shows the change that was asked for.
            if (looked := self._looked.get(one.id)) is not None:
                self._card.show_looked(looked)
            return
        self._load_preview(one)
        self._helpers.load(lambda console: console.approvals.helpers(one.id))
        asked = one.request
        self._scope.load(lambda console: console.devices.describe(asked.device, asked.tool_name))

    def _load_preview(self, one: Approval) -> None:
        if has_preview(one):
            self._preview.load(lambda console: look(console, one, self._images))

    def _show_looked(self, looked: PreviewData) -> None:
        if looked.diff is not None:
            self._looked[looked.approval] = looked
            while len(self._looked) > MOST_LOOKED:
                del self._looked[next(iter(self._looked))]
        self._card.show_looked(looked)

    def end(self) -> None:
        """The open request was answered: what is read of its target from now on is no preview."""
        self._preview.cancel()

    def stop(self) -> None:
        """No card is open, or another one."""
        for query in (self._edited, self._helpers, self._scope, self._preview):
            query.cancel()

    def _is_open(self, approval: str) -> bool:
        return self._card.approval is not None and self._card.approval.id == approval

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
        if not self._is_open(approval):
            return
        self._card.helpers.show_result(helper, result, picture)
        if helper.tool == SCREENSHOT and (shown := self._card.approval) is not None:
            # The operator looks at a newer screen now, which the card has to show and the answer to mean.
            self._load_preview(shown)

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

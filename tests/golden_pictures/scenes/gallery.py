"""The pages of the gallery: every component with content that stretches it."""

from __future__ import annotations

from functools import partial

from PySide6.QtWidgets import QWidget

from app.widgets.focus import FocusFrame
from tests.gallery.pages import PAGES
from tests.golden_pictures.studio import Studio


async def _play(page: str, studio: Studio) -> None:
    def make() -> QWidget:
        maker, size = PAGES[page]
        widget = maker()
        studio.theme.dress(widget)
        widget.resize(*size)
        FocusFrame(widget)
        widget.show()
        widget.activateWindow()
        if widget.focusProxy() is not None:
            widget.setFocus()
        return widget

    await studio.take_page(make, f"gallery-{page}")


SCENES = {f"gallery-{page}": partial(_play, page) for page in PAGES}

"""Picture: what the device showed, zoomable, in the drawer or over the whole window."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from app.images import ImageError, images_of
from app.records.run_text import size_words
from app.screens.runs.save_as import Saver
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.buttons import Button, IconButton
from app.widgets.dialog import Overlay
from app.widgets.fields import DropDown
from app.widgets.image_view import STEP, ImageView
from app.widgets.labels import Label, Link, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from core.commands.results import CommandResult, Evidence
from core.errors import QuarterdeckError
from core.service.console import Console


def pictures_of(result: CommandResult | None) -> list[Evidence]:
    """The pictures among a result's evidence."""
    return [one for one in result.evidence if one.media_type.startswith("image/")] if result else []


class ZoomBar(QWidget):
    """Fit, 100 %, closer, farther, and how large the picture is drawn."""

    def __init__(self, view: ImageView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.zoom = Label("", "meta", "text2")
        self.zoom.setMinimumWidth(44)
        fit = Button("Fit", icon="fit")
        fit.clicked.connect(lambda *_: view.fit())
        actual = Button("100 %")
        actual.clicked.connect(lambda *_: view.show_actual_size())
        closer = IconButton("add", "Closer", framed=True, key="+")
        closer.clicked.connect(lambda *_: view.zoom_to(view.zoom() * STEP))
        farther = IconButton("remove", "Farther", framed=True, key="−")
        farther.clicked.connect(lambda *_: view.zoom_to(view.zoom() / STEP))
        hbox(fit, actual, farther, closer, self.zoom, parent=self, spacing=SPACE.tight)
        view.zoom_changed.connect(self._say)

    def _say(self, zoom: float) -> None:
        self.zoom.setText(f"{zoom:.0%}".replace("%", " %"))


class PictureWindow(Overlay):
    """One picture as large as the window allows; Stop all above it stays in reach."""

    closed = Signal()

    def __init__(self, window: QWidget, image: QImage, title: str) -> None:
        super().__init__(window)
        self.setAccessibleName(title)
        self.dismissed.connect(self._close)
        panel = set_surface(QWidget(), "base")
        self.view = ImageView("Picture")
        close = Button("Close", icon="close", key="Esc")
        close.clicked.connect(lambda *_: self._close())
        row = hbox(Label(title, "head"), STRETCH, ZoomBar(self.view), close, spacing=SPACE.medium)
        vbox(
            row,
            (self.view, 1),
            parent=panel,
            margins=(SPACE.medium, SPACE.small, SPACE.medium, SPACE.medium),
            spacing=SPACE.small,
        )
        vbox(panel, parent=self, spacing=None)
        self.view.set_image(image, title)

    def open(self) -> None:
        """Come up with the keyboard on the picture."""
        self.cover()
        self.view.fit()
        self.view.setFocus(Qt.FocusReason.TabFocusReason)

    def dismiss(self) -> None:
        """Another screen was opened."""
        self._close()

    def _close(self) -> None:
        if self.isVisible():
            self.uncover()
            self.closed.emit()
            self.deleteLater()


class PictureTab(QWidget):
    """The pictures of one result."""

    def __init__(self, link: ConsoleLink, nav: Navigator, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._images = images_of(link)
        self._saver = Saver(self, link, nav.toast)
        self._shown: list[Evidence] = []
        self._title = ""
        self.full: PictureWindow | None = None
        self.view = ImageView("Picture", "No picture")
        self.chooser = DropDown("Which picture")
        self.chooser.currentIndexChanged.connect(lambda _at: self._read())
        self.zoom = ZoomBar(self.view)
        self.size_words = Label("", "meta", "text2")
        self.full_act = Action(
            "Picture over the whole window", "picture", self.open_window, "F", off=self._why_no_picture
        )
        self.open_full = ActionButton(self.full_act, words="Open full window", icon="", with_key=True)
        self.save = Link("Save as…", "meta_strong")
        self.save.clicked.connect(lambda *_: self._save())
        foot = hbox(
            self.zoom, self.chooser, self.size_words, STRETCH, self.save, self.open_full, spacing=SPACE.medium
        )
        vbox(
            (self.view, 1),
            foot,
            parent=self,
            margins=(SPACE.pane, SPACE.medium, SPACE.pane, SPACE.small),
            spacing=SPACE.small,
        )

    def show_result(self, result: CommandResult | None) -> None:
        """Show the first picture of a result; the one on show stays while the pictures are the same."""
        pictures = pictures_of(result)
        if pictures == self._shown:
            return
        self._shown = pictures
        self._title = f"{one_line(result.device)}, {one_line(result.tool_name)}" if result else ""
        self.chooser.blockSignals(True)
        self.chooser.clear()
        for number, one in enumerate(pictures, 1):
            self.chooser.addItem(f"{number} of {len(pictures)}: {one_line(one.what) or 'picture'}")
        self.chooser.blockSignals(False)
        self.chooser.setVisible(len(pictures) > 1)
        self._read()

    def _current(self) -> Evidence | None:
        at = max(0, self.chooser.currentIndex())
        return self._shown[at] if at < len(self._shown) else None

    def _read(self) -> None:
        self._images.cancel(self)
        one = self._current()
        self.full_act.refresh()
        self.save.set_off("" if one is not None else "There is no picture.")
        if one is None:
            self.view.set_image(QImage())
            return
        self.view.set_empty_text("Reading the picture…")
        size = f"{one.width} × {one.height}, " if one.width and one.height else ""
        self.size_words.setText(f"{size}{size_words(one.size)}")
        self._images.want(self, one.blob, self._show_picture, self._say_not_read)

    def _show_picture(self, image: QImage) -> None:
        self.view.set_image(image, self._title)
        self.full_act.refresh()

    def _say_not_read(self, error: QuarterdeckError) -> None:
        self.view.set_empty_text(error.message if isinstance(error, ImageError) else error.info.sentences)
        self.view.set_image(QImage())

    def _why_no_picture(self) -> str:
        if not self.isVisible():
            return "No picture is open."
        return "The picture was not read." if self.view.image().isNull() else ""

    def open_window(self) -> None:
        """Show the picture over the whole window."""
        self.full = PictureWindow(self.window(), self.view.image(), self._title)
        self.full.closed.connect(self._full_closed)
        self.full.open()

    def _full_closed(self) -> None:
        self.full = None

    def _save(self) -> None:
        one = self._current()
        if one is None:
            return
        ending = {"image/jpeg": "jpg", "image/webp": "webp"}.get(one.media_type, "png")

        async def get(console: Console) -> bytes:
            return await console.journal.blob(one.blob)

        self._saver.save(f"{self._title.replace(', ', '-')}.{ending}", get, self._say_not_read)

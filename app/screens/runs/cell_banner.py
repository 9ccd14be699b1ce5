"""The line in the drawer that says what a person must know of this cell before anything else."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.records.run_text import who_refused
from app.text import clock, count_words, one_line
from app.theme.shapes import paint_glyph
from app.theme.state_looks import StateLook, cell_look
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.action_buttons import ActionLink
from app.widgets.labels import Label, Link
from app.widgets.layouts import hbox, vbox
from core.audit.entries import Entry
from core.batch.models import Cell
from core.commands.results import Basis
from core.text import sentences

UNKNOWN = "This may have happened. Nothing was sent again."
_OPEN_REQUEST, _OPEN_ORIGIN = "Open the request", "Open {}"


def banner_words(cell: Cell, look: str, denied_by: str, late: Entry | None = None) -> tuple[str, str, str]:
    """A fact, a detail and the words of a link; an empty fact when there is nothing to say.

    `late` is the journal's entry of an answer that came when it was not waited for any more.
    """
    error = cell.result.error if cell.result else None
    why = one_line(error.message if error else cell.note)
    match look:
        case "unknown" if late is not None:
            said = f"It says {late.status}" if late.status else "It cannot be read"
            return (
                f"An answer came too late, at {clock(late.time)}.",
                f"{said}: entry {count_words(late.seq)}. The outcome stays unknown; look at the device.",
                "",
            )
        case "unknown":
            asked = cell.result is not None and cell.result.basis is Basis.NO_ANSWER
            again = "The device is asked again when it is back." if asked else ""
            look_first = f"Look at {'it' if again else 'the device'} before you run it again."
            return UNKNOWN, " ".join(filter(None, (why, again, look_first))), ""
        case "refused":
            return (*who_refused(cell, denied_by), "")
        case "interrupted":
            detail = "Nothing was sent again. The journal has what is known of it."
            return "The service ended while this was going on.", detail, ""
        case "waiting":
            return "It waits for you.", "Nothing is sent before an operator approves it.", _OPEN_REQUEST
        case "no_effect":
            return (
                "It ran, but nothing changed.",
                "The console looked afterwards and did not find its effect.",
                "",
            )
        case "skipped" | "not_started":
            return _not_begun(cell, look)
        case _:
            return _other_words(cell, look)


def _not_begun(cell: Cell, look: str) -> tuple[str, str, str]:
    """Why a step was not begun: by a condition, a switch, an earlier failure, a stop of the run."""
    fact = "Skipped: nothing was sent." if look == "skipped" else "Not started: nothing was sent."
    why = sentences(one_line(cell.note or "the run ended before it was its turn"))
    return (
        fact,
        why[:1].upper() + why[1:],
        _OPEN_ORIGIN.format(cell.carried_from) if cell.carried_from else "",
    )


def _other_words(cell: Cell, look: str) -> tuple[str, str, str]:
    """Of a step that was cancelled or is tried again, or was done in another way than by its own command."""
    if look == "cancel_asked":
        asked = "The device was asked to stop it, and has not confirmed."
        return asked, "Without an answer its outcome is unknown.", ""
    if look == "cancelled":
        if cell.result is not None and cell.result.basis is Basis.DEVICE_CONFIRMED_CANCEL:
            return "The device confirmed that it stopped.", "What it did until then stays.", ""
        return "Cancelled before anything was sent.", sentences(one_line(cell.note)), ""
    if look == "retrying":
        tried = f"It failed {count_words(cell.attempts)} times" if cell.attempts > 1 else "It failed"
        return f"{tried} and is tried again.", sentences(one_line(cell.note)), ""
    if cell.recovered_by:
        return "Done by its recovery.", sentences(one_line(cell.note)), ""
    if cell.settled:
        return "An operator's word.", sentences(one_line(cell.note)), ""
    if cell.carried_from:
        fact = f"{cell.carried_from} did it; it was not repeated."
        return fact, "Its result is in that run.", _OPEN_ORIGIN.format(cell.carried_from)
    return "", "", ""


class CellBanner(QWidget):
    """Tint, shape, fact and detail in the look of the cell; hidden while there is nothing to say.

    At its right are a link, and what an operator's word can settle.

    Signals:
        acted: the operator followed the link.
    """

    acted = Signal()

    def __init__(self, settling: tuple[Action, ...], parent: QWidget | None = None) -> None:
        """`settling` are offered where nothing is in their way."""
        super().__init__(parent)
        self._settling = [(action, _link(action)) for action in settling]
        self._look: StateLook = cell_look("unknown")
        self.fact = Label("", "head", wrap=True)
        self.detail = Label("", "body", "text2", wrap=True)
        self.link = Link("")
        self.link.clicked.connect(lambda *_: self.acted.emit())
        words = vbox(self.fact, self.detail)
        hbox(
            (words, 1),
            *((link, 0, Qt.AlignmentFlag.AlignVCenter) for _, link in self._settling),
            (self.link, 0, Qt.AlignmentFlag.AlignVCenter),
            parent=self,
            margins=(SPACE.pane + 28, 8, SPACE.pane, 8),
            spacing=SPACE.medium,
        )
        self.hide()

    def show_cell(self, cell: Cell, look: str, denied_by: str, late: Entry | None = None) -> None:
        """Say what there is to say of a cell."""
        fact, detail, link = banner_words(cell, look, denied_by, late)
        if not fact and any(not action.reason for action, _ in self._settling):
            fact = f"{cell_look(look).word.capitalize()}."
        self._look = cell_look(look)
        self.fact.setText(fact)
        self.detail.setText(detail)
        self.detail.setVisible(bool(detail))
        self.link.setText(link)
        self.link.setAccessibleName(link)
        self.link.setVisible(bool(link))
        self.link.updateGeometry()
        for action, settling in self._settling:
            settling.setVisible(not action.reason)
        self.setAccessibleName(f"{fact} {detail}".strip())
        self.setVisible(bool(fact))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw tint and shape."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        painter.fillRect(rect, theme.color(self._look.tint or "raised"))
        painter.fillRect(QRectF(0, rect.height() - 1, rect.width(), 1), theme.color("border"))
        place = QRectF(SPACE.pane, 9, 18, 18)
        paint_glyph(painter, place, self._look.glyph, theme.color(self._look.color))
        painter.end()


def _link(action: Action) -> Link:
    link = ActionLink(action)
    link.hide()
    return link

"""The bar that answers a request: deny with a reason, approve once. It asks; the screen signs and sends."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, QTimer, QVariantAnimation, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QResizeEvent, QTextLayout, QTextOption
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QWidget

from app.input_origin import InputOrigin
from app.screens.approvals.decision_rules import (
    TOO_SOON,
    DecisionContext,
    approve_blocker,
    deny_blocker,
    edit_blocker,
    grant_blocker,
    operator_blocker,
    second_operator_blocker,
)
from app.text import one_line
from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.theme.tokens import SPACE, TYPE
from app.widgets import painting
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.banner import Notice
from app.widgets.buttons import Button
from app.widgets.fields import TextField, TypedField
from app.widgets.labels import ElidedLabel, Label, escaped_tooltip, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from core.approvals.answering_rules import part_of_asker
from core.approvals.models import Approval, ApprovalState
from core.approvals.operator_keys import valid_seconds
from core.errors import QuarterdeckError
from core.statements import short_code

GUARD_MS = 700
PRESS_AGAIN = "pressed too soon after it appeared: press again"
HEIGHT = 62
NARROW = 880
_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class ApproveButton(Button):
    """Approves on a click of the pointer. Enter and Space do nothing: the chord does."""

    takes_enter = False

    def __init__(self) -> None:
        super().__init__("Approve once", "primary", "approve", "Ctrl+Enter", large=True)
        # A click must not leave the keyboard here, where the next card's approval would be one key away.
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Let Enter and Space pass without effect."""
        if event.key() not in (*_ENTER, Qt.Key.Key_Space, Qt.Key.Key_Select):
            super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """As for the press."""
        if event.key() not in (*_ENTER, Qt.Key.Key_Space, Qt.Key.Key_Select):
            super().keyReleaseEvent(event)


class DecisionBar(QWidget):
    """62 px at the bottom of a card, always in sight; errors stand above it.

    Signals:
        approve_asked(hand): to approve, by a press of this hand; `approve_blocker` is empty at this moment.
        deny_asked(reason): the operator wants to deny, with this reason (perhaps empty).
        reading_wanted: the operator wants to approve, and has not read all of it.
        edit_asked: the operator wants to change the arguments and see the request again.
        grant_asked: the operator wants like requests to run without asking.
        second_asked: another operator is here and wants to approve with a key of their own.
        unlock_asked: the operator wants to unlock a key.
        situation_changed: the guard ended, or the typed name changed.
        focus_to_park: what has the focus is about to be disabled; it belongs somewhere harmless.
    """

    approve_asked = Signal(object)
    deny_asked = Signal(str)
    edit_asked = Signal()
    reading_wanted = Signal()
    grant_asked = Signal()
    second_asked = Signal()
    unlock_asked = Signal()
    situation_changed = Signal()
    focus_to_park = Signal()

    def __init__(self, go_on: Action) -> None:
        """`go_on` leads to the next request."""
        super().__init__()
        self.setAccessibleName("Decision")
        self.situation = DecisionContext()
        self._pressed_too_soon = False
        self._make_actions()
        self._filled = 0.0
        self.error = AnswerError()
        self._stack = QStackedWidget()
        self._stack.setFixedHeight(HEIGHT)
        set_surface(self._stack, "raised")
        self._stack.addWidget(self._answers(go_on))
        self._stack.addWidget(self._reason_row())
        self._line = GuardLine(self)
        vbox(self.error, self._line, self._stack, parent=self)
        self._guard = QTimer(self)
        self._guard.setSingleShot(True)
        self._guard.setTimerType(Qt.TimerType.PreciseTimer)
        self._guard.setInterval(GUARD_MS)
        self._guard.timeout.connect(self._guard_ended)
        self._fill = QVariantAnimation(self)
        self._fill.setStartValue(0.0)
        self._fill.setEndValue(1.0)
        self._fill.setDuration(GUARD_MS)
        self._fill.valueChanged.connect(self._line.fill)

    def _make_actions(self) -> None:
        """To approve is not among them: who presses that has to be known, which no action tells."""
        self.deny_act = Action(
            "Deny, with a reason", "deny", self._open_reason, "D", off=lambda: deny_blocker(self.situation)
        )
        self.edit_act = Action(
            "Edit, then approve", "edit", self.edit_asked.emit, "E", off=lambda: edit_blocker(self.situation)
        )
        self.grant_act = Action(
            "Approve for this run, or for a scope",
            "grant",
            self.grant_asked.emit,
            "G",
            off=lambda: grant_blocker(self.situation),
        )

    def _answers(self, go_on: Action) -> QWidget:
        row = QWidget()
        self.deny = ActionButton(self.deny_act, "danger", "Deny…", with_key=True, large=True)
        self.edit = ActionButton(self.edit_act, words="Edit, then approve…", with_key=True, large=True)
        self.slots = Slots()
        self.code = CodeWords()
        self.hint = BlockerLabel()
        self.name_label = Label("", "body", "text2")
        self.name_field = TypedField("Name of the device, to approve", mono=True)
        self.name_field.setFixedWidth(180)
        self.grant = ActionButton(self.grant_act, words="Approve for…", with_key=True, large=True)
        self.second = Button("Another operator…", "normal", "operator", large=True)
        self.approve = ApproveButton()
        self.unlock = Button("Unlock…", "normal", "key", large=True)
        self.next = ActionButton(go_on, icon="down", with_key=True, large=True)
        hbox(
            self.deny,
            self.edit,
            STRETCH,
            self.slots,
            self.hint,
            self.code,
            self.name_label,
            self.name_field,
            self.grant,
            self.second,
            self.approve,
            self.unlock,
            self.next,
            parent=row,
            margins=(SPACE.pane, 0, SPACE.pane, 0),
            spacing=SPACE.small,
        )
        self.second.clicked.connect(lambda *_: self.press_second())
        self.approve.clicked.connect(lambda *_: self.press_approve(self.approve.hand))
        self.unlock.clicked.connect(lambda *_: self.unlock_asked.emit())
        self.name_field.textChanged.connect(lambda *_: self.situation_changed.emit())
        return row

    def _reason_row(self) -> QWidget:
        row = QWidget()
        self.reason = TextField("Reason for denying", "Why not? The asker reads this (optional)")
        self.back = Button("Back", "ghost", "", "Esc", large=True)
        self.deny_now = Button("Deny", "danger", "deny", "Enter", large=True)
        line = hbox(parent=row, margins=(SPACE.pane, 0, SPACE.pane, 0), spacing=SPACE.small)
        label = Label("Reason", "name")
        label.setBuddy(self.reason)
        line.addWidget(label)
        line.addWidget(self.reason, 1)
        line.addWidget(self.back)
        line.addWidget(self.deny_now)
        self.reason.installEventFilter(self)
        self.back.clicked.connect(lambda *_: self.close_reason())
        self.deny_now.clicked.connect(lambda *_: self._deny())
        return row

    # The guard of a newly shown card

    @property
    def guarded(self) -> bool:
        """True for the first 700 ms of a card."""
        return self._guard.isActive()

    def start_guard(self, is_new: bool = True) -> None:
        """A card has newly appeared, or come back to the eye: nothing approves it yet.

        Why it is denied can be typed at once; one that only comes back leaves what was typed of that.
        """
        self._pressed_too_soon = False
        if is_new:
            self.error.hide()
            self._close_reason_quietly()
        self.name_field.clear()
        self._guard.start()
        if theme_of(self).reduced_motion:
            self._line.fill(1.0)
        else:
            self._fill.stop()
            self._fill.start()

    def stop_guard(self) -> None:
        """No card is shown."""
        self._guard.stop()
        self._fill.stop()
        self._line.fill(0.0)

    def _guard_ended(self) -> None:
        self._fill.stop()
        self._line.fill(0.0)
        self.situation_changed.emit()

    # What it shows

    def show_situation(self, now: DecisionContext, key_words: str) -> None:
        """Enable what is possible now, and say why the rest is not. `key_words` are on the unlock button."""
        self.situation = now
        approval = now.approval
        final = approval is not None and approval.state is not ApprovalState.WAITING
        deny_why, approve_why = deny_blocker(now), approve_blocker(now)
        edit_why, grant_why = edit_blocker(now), grant_blocker(now)
        if final or now.busy:
            self._close_reason_quietly()
        self._park(
            (self.deny, bool(deny_why)),
            (self.approve, bool(approve_why)),
            (self.edit, bool(edit_why)),
            (self.grant, bool(grant_why)),
            (self.name_field, final),
        )
        self.approve.set_off(approve_why)
        for action in (self.deny_act, self.edit_act, self.grant_act):
            action.refresh()
        self.second.set_off(second_operator_blocker(now))
        locked = not now.key and not final
        uncounted = not locked and bool(operator_blocker(now, now.key))
        self.approve.setVisible(not locked and not final and not uncounted)
        self.unlock.setVisible(locked)
        self.unlock.set_words(key_words)
        self.next.show_action()
        self.next.setVisible(final)
        self.deny.setVisible(not final)
        self.edit.setVisible(not final and not now.asks)
        self.second.setVisible(not final and now.approvers > 1)
        self._show_words(now)
        self._show_name(now, locked or final)
        self._say_hint(now, approve_why)
        self._show_beside(now, locked or final)

    def _show_words(self, now: DecisionContext) -> None:
        count = 1 + len(now.others)
        self.approve.set_kind("normal" if now.needs_name else "primary")
        words = "Approve once" if count == 1 else f"Approve all {count} once"
        self.approve.set_words("Sending…" if now.busy else words, key="" if now.busy else "Ctrl+Enter")
        self.deny.set_words("Deny…" if count == 1 else f"Deny all {count}…")
        tight = self.width() < NARROW or now.needs_name or now.approvers > 1
        self.edit.set_words("Edit…" if tight else "Edit, then approve…")

    def _show_beside(self, now: DecisionContext, quiet: bool) -> None:
        """What stands between the answers where there is room: slots, the code, a scope for later."""
        several, group = now.approvers > 1, now.several_devices
        narrow = self.width() < NARROW
        self.slots.setVisible(several and not quiet)
        self.second.set_words("Another…" if narrow else "Another operator…")
        if narrow and several:
            self.hint.hide()
        room = not narrow and self.hint.isHidden() and not now.needs_name and not several
        self.code.setVisible(room and not quiet and not now.asks and now.approval is not None)
        crowded = narrow and not self.hint.isHidden()
        of_run = now.approval is not None and now.approval.run is not None
        alone = not several and not now.needs_name and not now.asks and (not group or of_run)
        self.grant.setVisible(alone and not quiet and not crowded)
        if now.approval is not None:
            self.slots.show_request(now.approval)
            self.code.show_request(now.approval, 1 + len(now.others))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Short words where it is narrow."""
        super().resizeEvent(event)
        if (event.oldSize().width() < NARROW) != (event.size().width() < NARROW):
            self.situation_changed.emit()

    def _show_name(self, now: DecisionContext, hidden: bool) -> None:
        asks = now.needs_name and not hidden
        device = one_line(now.approval.request.device) if now.approval is not None else ""
        self.name_label.setText(f"Type {device}" if not now.several_devices else "Type every device's name")
        narrow = self.width() < NARROW
        self.name_label.setVisible(asks and not narrow)
        self.name_field.setVisible(asks)
        wanted = "the device's name" if not now.several_devices else "all names, with spaces"
        self.name_field.setPlaceholderText(f"type {device}" if narrow and not now.several_devices else wanted)

    def _say_hint(self, now: DecisionContext, why: str) -> None:
        if self._pressed_too_soon and why in ("", TOO_SOON):
            why, too_soon = PRESS_AGAIN, True
        else:
            too_soon = False
        quiet = now.guarded and not now.busy and not too_soon
        named = now.needs_name and now.end_seen and not why.endswith(".")
        uncounted = bool(now.key) and why == operator_blocker(now, now.key)
        words = "" if quiet or named else _short_of(now) if uncounted and why else why
        self.hint.set_text(words)
        self.hint.setVisible(bool(words))

    def _park(self, *soon: tuple[QWidget, bool]) -> None:
        """Qt hands the focus of a disabled widget to its neighbour; it must not land on an answer."""
        if any(widget.hasFocus() and off for widget, off in soon):
            self.focus_to_park.emit()

    def say_error(self, fact: str, error: QuarterdeckError) -> None:
        """Say above the bar what went wrong and what to do."""
        self.error.tell(fact, one_line(error.info.sentences))

    # What the operator wants

    def press_approve(self, hand: InputOrigin) -> None:
        """Ctrl+Enter or a click; while something is still to be read or typed, the keyboard goes there."""
        now = self.situation
        if not approve_blocker(now):
            self._pressed_too_soon = False
            self.approve_asked.emit(hand)
        elif deny_blocker(now) or operator_blocker(now, now.key):
            return  # nothing that the operator could read or type here would change that
        elif now.guarded:
            self._pressed_too_soon = True
            self.situation_changed.emit()
        elif now.needs_end and not now.end_seen:
            self.reading_wanted.emit()
        elif self.name_field.isVisible():
            self.name_field.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def press_second(self) -> None:
        """A click: another operator is here."""
        if self.situation.approvers > 1 and not second_operator_blocker(self.situation):
            self.second_asked.emit()

    def _open_reason(self) -> None:
        """Ask for a reason; Enter denies, Esc goes back."""
        self.reason.clear()
        self._stack.setCurrentIndex(1)
        self.reason.setFocus(Qt.FocusReason.OtherFocusReason)

    @property
    def asks_reason(self) -> bool:
        """True while the reason is asked for."""
        return self._stack.currentIndex() == 1

    def close_reason(self) -> bool:
        """Go back without denying; False when no reason was asked for."""
        if not self.asks_reason:
            return False
        self._close_reason_quietly()
        return True

    def _close_reason_quietly(self) -> None:
        if self.asks_reason:
            self.focus_to_park.emit()
            self._stack.setCurrentIndex(0)

    def _deny(self) -> None:
        if self.asks_reason and not deny_blocker(self.situation):
            self.deny_asked.emit(self.reason.text().strip())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Enter in the reason denies, but not a key that is still held down from before."""
        key = event if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress else None
        if watched is self.reason and key is not None and _plain_enter(key):
            if not key.isAutoRepeat():
                self._deny()
            return True
        return super().eventFilter(watched, event)


def _short_of(now: DecisionContext) -> str:
    """Why the unlocked key's approval would not count, in few words; the tooltip has the sentence."""
    if now.approval is None or now.key in now.approval.approved_by:
        return "you have approved"
    return f"you {part_of_asker(now.approval)}, so you do not count"


def _plain_enter(event: QKeyEvent) -> bool:
    plain = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
    return event.key() in _ENTER and event.modifiers() in plain


_SLOT = 14
MOST_LINES = 3
NARROWEST = 120


class BlockerLabel(ElidedLabel):
    """Why an answer is not possible now: whole, in up to three lines where the bar is narrow."""

    def __init__(self) -> None:
        super().__init__("", "body", "text3")

    def sizeHint(self) -> QSize:
        """As wide as its words on one line, as high as three."""
        return QSize(super().sizeHint().width(), MOST_LINES * TYPE["body"].line)

    def minimumSizeHint(self) -> QSize:
        """Some words a line."""
        return QSize(min(NARROWEST, self.sizeHint().width()), self.sizeHint().height())

    def lines(self) -> list[str]:
        """What stands on each line at the width it has; what is beyond the last one is cut there."""
        layout = QTextLayout(self.text(), theme_of(self).font("body"))
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WordWrap)
        layout.setTextOption(option)
        layout.beginLayout()
        found: list[str] = []
        while (line := layout.createLine()).isValid():
            line.setLineWidth(self.width())
            words = self.text()[line.textStart() : line.textStart() + line.textLength()]
            if len(found) == MOST_LINES:
                found[-1] += words
            else:
                found.append(words)
        layout.endLayout()
        return [words.rstrip() for words in found]

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the lines, in the middle."""
        theme, lines, high = theme_of(self), self.lines(), TYPE["body"].line
        painter = QPainter(self)
        top = (self.height() - high * len(lines)) / 2
        for number, words in enumerate(lines):
            place = QRectF(0, top + number * high, self.width(), high)
            painting.text(painter, place, words, theme, "body", "text3")
        painter.end()
        cut = any(painting.text_width(words, theme) > self.width() for words in lines)
        self.setToolTip(escaped_tooltip(self.text()) if cut else "")


class CodeWords(QWidget):
    """`code on device 9f3c e210`, and how long the signature is worth anything."""

    def __init__(self) -> None:
        super().__init__()
        self._code, self._below = "", ""
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_request(self, approval: Approval, count: int) -> None:
        """Show the code of a request; several requests have one each, on their devices' list."""
        self._code = short_code(approval.request.digest) if count == 1 else ""
        self._above = "code on device" if count == 1 else f"{count} signatures, one each"
        self._below = f"valid {valid_seconds(approval):.0f} s, used once"
        self.setAccessibleName(f"{self._above} {self._code}, {self._below}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Two lines."""
        theme = theme_of(self)
        above = painting.text_width("code on device", theme, "meta") + 6
        wide = above + painting.text_width(self._code, theme, "code") if self._code else 156.0
        return QSize(round(max(wide, painting.text_width(self._below, theme, "meta"))) + 2, 38)

    def minimumSizeHint(self) -> QSize:
        """It is never cut."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw both lines, at the right."""
        theme = theme_of(self)
        painter = QPainter(self)
        right = Qt.AlignmentFlag.AlignRight
        first = QRectF(0, 0, self.width(), 20)
        if self._code:
            code = painting.text_width(self._code, theme, "code")
            painting.text(painter, first, self._code, theme, "code", "text", right)
            first.setWidth(self.width() - code - 6)
        if self._below:
            painting.text(painter, first, self._above, theme, "meta", "text3", right)
            painting.text(
                painter, QRectF(0, 20, self.width(), 17), self._below, theme, "meta", "text3", right
            )
        painter.end()


class Slots(QWidget):
    """One mark for each operator who must approve, filled for those who have, and words."""

    def __init__(self) -> None:
        super().__init__()
        self._given, self._wanted, self._words = 0, 1, ""
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_request(self, approval: Approval) -> None:
        """Show how many have approved."""
        self._given, self._wanted = len(approval.approved_by), approval.approvers
        self._words = slot_words(approval)
        names = ", ".join(map(one_line, approval.approved_by))
        self.setAccessibleName(f"{self._words}. Approved by {names}." if names else self._words)
        self.setToolTip(f"Approved by {names}" if names else "")
        self.updateGeometry()
        self.update()

    def words(self) -> str:
        """What it says."""
        return self._words

    def sizeHint(self) -> QSize:
        """Marks and words."""
        words = painting.text_width(self._words, theme_of(self), "name")
        return QSize(round(self._wanted * (_SLOT + 4) + 4 + words) + 2, 24)

    def minimumSizeHint(self) -> QSize:
        """It is never cut."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw marks and words."""
        theme = theme_of(self)
        painter = QPainter(self)
        top = (self.height() - _SLOT) / 2
        for number in range(self._wanted):
            place = QRectF(number * (_SLOT + 4), top, _SLOT, _SLOT)
            if number < self._given:
                paint_glyph(painter, place, "check_disc", theme.color("ok"))
            else:
                painting.box(painter, place.adjusted(1, 1, -1, -1), 6, None, theme.color("waiting"), 1.5)
        left = self._wanted * (_SLOT + 4) + 4
        room = QRectF(left, 0, self.width() - left, self.height())
        painting.text(painter, room, self._words, theme, "name", "waiting")
        painter.end()


def slot_words(approval: Approval) -> str:
    """`1 of 2, needs another operator`."""
    given, wanted = len(approval.approved_by), approval.approvers
    if given >= wanted:
        return f"{given} of {wanted}"
    rest = "needs another operator" if wanted - given == 1 and given else f"needs {wanted - given} operators"
    return f"{given} of {wanted}, {rest}"


class AnswerError(QWidget):
    """What went wrong with an answer and what to do, whole, until it is closed or another card comes."""

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self._notice = Notice("fail", "", "", "Close")
        vbox(
            self._notice,
            parent=self,
            margins=(SPACE.pane, SPACE.small, SPACE.pane, SPACE.small),
            spacing=None,
        )
        self._notice.acted.connect(self.hide)
        self.hide()

    def tell(self, fact: str, detail: str) -> None:
        """Say it."""
        self._notice.say("fail", fact, detail, "Close")
        self.show()

    def words(self) -> str:
        """What it says."""
        return self._notice.accessibleName()


class GuardLine(QWidget):
    """Two pixels at the bar's top: a border, filling with accent while the card is new."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._part = 0.0
        self.setFixedHeight(2)

    def fill(self, part: float) -> None:
        """Fill this part of the width, 0 to 1."""
        self._part = float(part)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the line."""
        theme = theme_of(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.color("raised"))
        painter.fillRect(0, 0, self.width(), 1, theme.color("border"))
        if self._part > 0:
            painter.fillRect(0, 0, round(self.width() * self._part), 2, theme.color("accent"))
        painter.end()

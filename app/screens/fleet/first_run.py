"""First run: this computer is there, make your key, take one picture. Three steps on one page, no tour."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QSizePolicy, QWidget

from app.images import images_of
from app.input_origin import InputOrigin, Stake
from app.query import Mutation
from app.screens.fleet.thumbnail import Thumbnail
from app.screens.screen import Navigator
from app.screens.targets import OpenBatch, OpenDevice
from app.service_client import ConsoleLink
from app.state import AppState
from app.state import Link as LinkState
from app.text import one_line, plural
from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.buttons import Button
from app.widgets.empty_state import WIDTH
from app.widgets.fields import Field, TextField
from app.widgets.icon_label import IconLabel
from app.widgets.labels import Label, Link, set_surface
from app.widgets.layouts import STRETCH, Gap, hbox, vbox
from app.widgets.primary_key import PrimaryKey
from app.widgets.section import Card
from app.widgets.util import ScrollArea
from core.approvals.models import Operator
from core.batch.models import Run, RunState
from core.errors import QuarterdeckError
from core.models.devices import NOT_CONNECTED_YET, Device, Health
from core.service.console import Console

THIS_COMPUTER = "this-computer"
PICTURE_TIMEOUT_S = 30.0
_STARTS = "The service starts its device client."


class FirstRunPage(ScrollArea):
    """Leads from an empty home to the first picture.

    Signals:
        dismissed: the operator goes on to the fleet.
    """

    dismissed = Signal()

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._state, self._link, self._nav = state, link, nav
        self._images = images_of(link)
        self._picture_shown: str | None = None
        self._is_built = False
        state.devices_changed.connect(self.show_state)
        state.control_changed.connect(self.show_state)
        nav.keys.changed.connect(self.show_state)
        self.show_state()

    # Whether it is shown

    def needed(self) -> bool:
        """Until an operator exists and one picture was taken, or the operator went on."""
        store = self._nav.layout_store
        if not self._state.loaded or str(store.value("first_run/done", "false")).lower() == "true":
            return False
        if not self._state.operators:
            return True
        # Homes that had an operator before this window ever saw them need no introduction.
        return str(store.value("first_run/begun", "false")).lower() == "true"

    def focus_first(self) -> None:
        """Put the focus where the current step wants something."""
        self._build_once()
        if self._key_form.isVisibleTo(self):
            field = self.secret_field if self.name_field.text() else self.name_field
            field.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            (self.take if self.take.isVisibleTo(self) else self.go_on).setFocus(
                Qt.FocusReason.OtherFocusReason
            )

    def dismiss(self) -> None:
        """Do not show it again."""
        self._nav.layout_store.setValue("first_run/done", True)

    # How it is made

    def _build_once(self) -> None:
        # Only a fresh home needs the page, and Fleet is what most windows open first.
        if not self._is_built:
            self._is_built = True
            self._build()
            self._making = Mutation(
                self,
                self._link,
                self._key_made,
                self._key_failed,
                "make the operator key",
                self.create_button,
                "One moment.",
                "Making the key…",
            )
            self._shooting = Mutation(
                self,
                self._link,
                self._picture_done,
                self._picture_failed,
                "take a picture",
                self.take,
                "The device was asked.",
                "Taking…",
            )

    def _build(self) -> None:
        self._title = Label("This console is ready, and it has one device: this computer.", "hero", wrap=True)
        line = Label(
            "Reading works at once. What changes something asks you first, and your answer is signed.",
            "large",
            "text2",
            wrap=True,
        )
        self.device_step = self._build_device_step()
        self.key_step = self._build_key_step()
        self.picture_step = self._build_picture_step()
        self.go_on = Button("Open the fleet", icon="fleet")
        self.go_on.clicked.connect(self._go_on)
        inner = QWidget()
        inner.setMaximumWidth(WIDTH)
        vbox(
            self._title,
            line,
            Gap(12),
            StepList([self.device_step, self.key_step, self.picture_step]),
            Gap(8),
            (self.go_on, 0, Qt.AlignmentFlag.AlignLeft),
            Gap(10),
            Label("Then", "label", "text3"),
            self._build_ways(),
            STRETCH,
            parent=inner,
            margins=(0, 44, 0, 24),
            spacing=6,
        )
        outer = QWidget()
        set_surface(outer, "base")
        hbox(STRETCH, (inner, 1000), STRETCH, parent=outer, margins=(16, 0, 16, 0), spacing=None)
        self.setWidget(outer)

    def _build_device_step(self) -> Step:
        step = Step(1, f"{THIS_COMPUTER} is starting", wrap=False)
        self._reasons = Label("", "meta", "text2", wrap=True, selectable=True)
        self._reasons.hide()
        self._why = Link("Say why")
        self._why.clicked.connect(lambda: self._reasons.setVisible(not self._reasons.isVisible()))
        step.words_row.addWidget(self._why)
        step.words_row.addStretch(1)
        step.body.addWidget(self._reasons)
        return step

    def _build_key_step(self) -> Step:
        step = Step(2, "Make your operator key")
        self._key_form = QWidget()
        form = vbox(parent=self._key_form, spacing=4)
        self.name_field = TextField("Your name on approvals")
        self.name_field.setMaxLength(64)
        self.name_field.setMinimumWidth(180)
        self.secret_field = TextField("Passphrase", "at least 10 characters")
        self.secret_field.setEchoMode(QLineEdit.EchoMode.Password)
        self.secret_field.setMinimumWidth(210)
        self.create_button = Button("Create key", "primary", key="Enter")
        self.create_button.clicked.connect(lambda *_: self._press_create(self.create_button.hand, True))
        PrimaryKey(self._key_form, lambda: self.create_button)
        row = hbox(
            (Field("Your name on approvals", self.name_field), 0, Qt.AlignmentFlag.AlignBottom),
            (Field("Passphrase", self.secret_field), 0, Qt.AlignmentFlag.AlignBottom),
            (self.create_button, 0, Qt.AlignmentFlag.AlignBottom),
            STRETCH,
            spacing=12,
        )
        form.addLayout(row)
        below = hbox(
            Label("The key stays in this home; the service never sees it.", tone="text2"), spacing=10
        )
        self.without = Link("Without a passphrase")
        self.without.setToolTip(
            "Any program that can read this home's files can then sign as you; it is marked so"
        )
        self.without.clicked.connect(lambda *_: self._press_create(self.without.hand, False))
        below.addWidget(self.without)
        below.addStretch(1)
        form.addLayout(below)
        step.body.addWidget(self._key_form)
        self.key_problem = Label("", "meta", "fail", wrap=True)
        self.key_problem.hide()
        step.body.addWidget(self.key_problem)
        return step

    def _build_picture_step(self) -> Step:
        step = Step(3, "Try one read")
        self.take = Button("Take a picture", icon="picture")
        self.take.clicked.connect(self._take_picture)
        self.picture = Thumbnail(256, 160)
        self.picture.hide()
        self.picture_problem = Label("", "meta", "fail", wrap=True)
        self.picture_problem.hide()
        step.body.addWidget(self.take, 0, Qt.AlignmentFlag.AlignLeft)
        step.body.addWidget(self.picture, 0, Qt.AlignmentFlag.AlignLeft)
        step.body.addWidget(self.picture_problem)
        return step

    def _build_ways(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(12)
        ways = (
            ("tool", "See what it can do", "Each tool with its risk, and who says so.", "Open its tools",
             lambda: self._nav.open("fleet", OpenDevice(THIS_COMPUTER, "tools"))),
            ("batch", "Build a batch", "Steps with forms; a plan before anything runs.", "Open Batch",
             lambda: self._nav.open("batch", OpenBatch())),
            ("journal", "Look at the journal", "All that happened, signed and provable.", "Open Journal",
             lambda: self._nav.open("journal")),
        )  # fmt: skip
        for icon, title, words, link, act in ways:
            card = Card()
            head = hbox(IconLabel(icon), spacing=8)
            head.addWidget(Label(title, "head"))
            head.addStretch(1)
            card.body.addLayout(head)
            card.add(Label(words, tone="text2", wrap=True))
            follow = Link(link)
            follow.clicked.connect(lambda _checked=False, go=act: go())
            card.body.addWidget(follow, 0, Qt.AlignmentFlag.AlignLeft)
            row.addWidget(card, 1)
        return row

    # State

    def showEvent(self, event: QShowEvent) -> None:
        """Show how far the steps are by now."""
        super().showEvent(event)
        self._nav.layout_store.setValue("first_run/begun", True)
        self.show_state()

    def device(self) -> Device | None:
        """This computer, or the only device there is."""
        devices = self._state.devices
        return devices.get(THIS_COMPUTER) or next(iter(devices.values()), None)

    def show_state(self) -> None:
        """Show how far each step is; nothing is done while the page is not needed."""
        if not self.isVisible() and not self.needed():
            return
        self._build_once()
        device = self.device()
        online = device is not None and device.health in (Health.ONLINE, Health.BUSY)
        self._show_device(device, online)
        operators = self._state.operators
        has_key = bool(operators)
        if has_key:
            name = operators[0].name
            marked = "" if operators[0].has_passphrase else " It has no passphrase, and is marked so."
            self.key_step.set_state(
                "done", f"Approvals are signed by {name}.{marked}", "Your operator key is made"
            )
        else:
            words = "Approvals are signed with it. You can add operators later."
            self.key_step.set_state("current", words)
            if not self.name_field.text() and not self.name_field.isModified():
                self._propose_name()
        self._key_form.setVisible(not has_key)
        self._show_picture(device, online, has_key)
        count = len(self._state.devices)
        if count > 1:
            self._title.setText(f"This console is ready, and it has {plural(count, 'device')}.")

    def _propose_name(self) -> None:
        from core.approvals.operator_keys import login_name

        self.name_field.setText(login_name())

    def _show_device(self, device: Device | None, online: bool) -> None:
        if device is None:
            lost = self._state.service.link is LinkState.LOST
            words = "The service is lost; see below." if lost else _STARTS
            self.device_step.set_state("current", words, f"{THIS_COMPUTER} is starting")
            self._why.hide()
            return
        missing = len(device.unavailable)
        words = f"{one_line(device.system or device.platform)}, {plural(device.tool_count, 'tool')}"
        words += f", {missing} not available." if missing else "."
        starts = not online and device.reason == NOT_CONNECTED_YET
        if starts:
            words = _STARTS
        elif not online:
            words = one_line(device.reason) or "It is not connected."
        state = f"{device.name} is {'starting' if starts else device.health.value}"
        self.device_step.set_state("done" if online else "current", words, state)
        self._why.setVisible(online and missing > 0)
        self._reasons.setText(
            "\n".join(
                one_line(f"{one.tool}: {one.reason} {one.how_to_fix}".strip()) for one in device.unavailable
            )
        )

    def _show_picture(self, device: Device | None, online: bool, has_key: bool) -> None:
        taken = device is not None and device.picture is not None
        words = "Take a picture of this screen. It is low risk, runs without asking, and shows up in Replay."
        if taken:
            self.picture_step.set_state(
                "done", "It is in the journal, and shows up in Replay.", "The first picture"
            )
        else:
            self.picture_step.set_state("current" if has_key else "later", words, "Try one read")
        self.take.setVisible(not taken)
        self.take.set_off("" if online else "The device is not online yet.")
        self.take.set_kind("primary" if has_key else "normal")
        self.picture.setVisible(taken)
        done = taken and has_key
        self.go_on.set_kind("primary" if done else "ghost")
        self.go_on.set_words(*("Open the fleet", "fleet") if done else ("Skip this", ""))
        if device is not None and device.picture is not None and device.picture != self._picture_shown:
            self._picture_shown = device.picture
            fail = self._picture_cannot_be_read
            self._images.want(self, device.picture, self._picture_came, fail)

    def _picture_came(self, image: QImage) -> None:
        self.picture.show_picture(image, "The first picture of this computer")

    def _picture_cannot_be_read(self, _error: QuarterdeckError) -> None:
        self._picture_came(QImage())

    # Wishes

    def _press_create(self, hand: InputOrigin, with_passphrase: bool) -> None:
        # No passphrase can take the place of a hand yet, so input that a program made counts, too.
        self._nav.by_hand.ask(
            self, hand, Stake.MEDIUM, "make the first operator",
            self._say_key, lambda: self._create_key(with_passphrase),
        )  # fmt: skip

    def _create_key(self, with_passphrase: bool) -> None:
        if self._making.running or self._shooting.running:
            return
        name, secret = self.name_field.text().strip(), self.secret_field.text()
        if with_passphrase and not secret:
            self._say_key("Type a passphrase of at least 10 characters, or choose to go without one.")
            self.secret_field.setFocus()
            return
        self._say_key("")

        async def make(console: Console) -> Operator:
            keys = self._nav.keys
            # A key that was made, but not taken in by the service, is not made twice.
            if keys.unlocked == name and keys.operator is not None:
                return await console.approvals.register_operator(keys.operator)
            made = await keys.create(name, secret if with_passphrase else None)
            return await console.approvals.register_operator(made)

        self._making.run(make)

    def _say_key(self, problem: str) -> None:
        self.key_problem.setText(problem)
        self.key_problem.setVisible(bool(problem))

    def _key_made(self, operator: Operator) -> None:
        self.secret_field.clear()
        self._nav.toast(f"{operator.name} can approve now")
        self.take.setFocus(Qt.FocusReason.TabFocusReason)

    def _key_failed(self, error: QuarterdeckError) -> None:
        self._say_key(error.info.sentences)

    def _take_picture(self) -> None:
        device = self.device()
        if device is None or self._making.running:
            return
        name = device.name
        self.picture_problem.hide()

        async def shoot(console: Console) -> Run:
            run = await console.runs.call(name, "screenshot", {})
            return await console.runs.wait(run.summary.id, PICTURE_TIMEOUT_S)

        self._shooting.run(shoot)

    def _picture_done(self, run: Run) -> None:
        if run.summary.state is not RunState.DONE:
            errors = [cell.result.error for cell in run.cells if cell.result is not None]
            said = next((error.sentences for error in errors if error is not None), "")
            self._say_picture(said or f"The run is {run.summary.state.value}.")
        self.show_state()

    def _picture_failed(self, error: QuarterdeckError) -> None:
        self._say_picture(error.info.sentences)

    def _say_picture(self, problem: str) -> None:
        self.picture_problem.setText(f"No picture was taken. {problem}")
        self.picture_problem.show()

    def _go_on(self) -> None:
        self.dismiss()
        self.dismissed.emit()


StepState = Literal["done", "current", "later"]
CIRCLE = 20


class StepNumber(QWidget):
    """A number in a circle; a check once the step is done."""

    def __init__(self, number: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._number = number
        self._state: StepState = "later"
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def set_state(self, state: StepState) -> None:
        """Show how far the step is."""
        self._state = state
        self.setAccessibleName(f"Step {self._number}, {state}")
        self.update()

    def sizeHint(self) -> QSize:
        """A small square."""
        return QSize(CIRCLE, CIRCLE)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw circle and number, or the check."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        if self._state == "done":
            paint_glyph(painter, rect, "check_disc", theme.color("ok"))
        else:
            current = self._state == "current"
            fill = theme.color("accent_fill") if current else None
            edge = None if current else theme.color("text3")
            painting.box(painter, rect.adjusted(1, 1, -1, -1), (CIRCLE - 2) / 2, fill, edge, 1.5)
            ink = "on_accent" if current else "text2"
            middle = Qt.AlignmentFlag.AlignHCenter
            painting.text(painter, rect, str(self._number), theme, "badge", ink, middle)
        painter.end()


class Step(QWidget):
    """Number, title, words, and what the step needs below them."""

    def __init__(self, number: int, title: str, wrap: bool = True, parent: QWidget | None = None) -> None:
        """`wrap` off keeps the words in one line, so that something can stand right after them."""
        super().__init__(parent)
        self.number = StepNumber(number)
        self.title = Label(title, "step")
        self.words = Label("", tone="text2", wrap=wrap)
        self.state: StepState = "later"
        self.body = vbox(margins=(0, 6, 0, 0), spacing=8)
        column = vbox(self.title, spacing=1)
        self.words_row = hbox(self.words, spacing=6)
        column.addLayout(self.words_row)
        column.addLayout(self.body)
        hbox(
            (self.number, 0, Qt.AlignmentFlag.AlignTop),
            (column, 1),
            parent=self,
            margins=(20, 16, 20, 16),
            spacing=14,
        )
        self.set_state("later", "")

    def set_state(self, state: StepState, words: str, title: str = "") -> None:
        """Show how far it is, and say so."""
        self.state = state
        self.number.set_state(state)
        if title:
            self.title.setText(title)
        self.words.setText(words)
        self.words.setVisible(bool(words))
        # The style sheet gives fields another background on the tint; polishing is what makes it look again.
        self.setProperty("surface", "accent_tint" if state == "current" else "base")
        for field in self.findChildren(QLineEdit):
            field.style().unpolish(field)
            field.style().polish(field)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The current step stands on the accent's tint."""
        if self.state == "current":
            painter = QPainter(self)
            painter.fillRect(self.rect().adjusted(1, 1, -1, -1), theme_of(self).color("accent_tint"))
            painter.end()


class StepList(QFrame):
    """The steps in one box, with hairlines between them."""

    def __init__(self, steps: list[Step], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._steps = steps
        vbox(*steps, parent=self)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the box; the steps draw themselves on it."""
        theme = theme_of(self)
        painter = QPainter(self)
        edge = theme.color("border2")
        rect = QRectF(self.rect())
        painting.box(painter, rect, RADIUS.card, theme.color("base"), edge)
        for step in self._steps[1:]:
            painter.fillRect(1, step.y(), self.width() - 2, 1, theme.color("border"))
        painter.end()

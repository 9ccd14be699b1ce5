"""The doctor: looks for why a device cannot be reached, check by check, each with what to do."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.query import Query
from app.service_client import ConsoleLink
from app.text import milliseconds
from app.theme.state_looks import StateLook
from app.widgets.badges import StateBadge
from app.widgets.buttons import Button
from app.widgets.labels import Label
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.line_breaks import breakable
from app.widgets.progress import Progress
from app.widgets.property_list import copies_whole
from app.widgets.section import SectionHead
from app.widgets.util import clear_layout
from core.errors import QuarterdeckError
from core.fleet.models import Check, CheckName, CheckState

INTRODUCTION = "Looks up the name, knocks, checks certificate, token and protocol. It changes nothing."
LOOKS = {
    CheckState.PASSED: StateLook("passed", "check_disc", "ok"),
    CheckState.FAILED: StateLook("failed", "cross_octagon", "fail", "fail"),
    CheckState.SKIPPED: StateLook("skipped", "step_over", "text3", "text3"),
}
TITLES: dict[CheckName, str] = {
    "dns": "Name", "reach": "Answers", "tls": "Certificate", "token": "Token", "version": "Version",
    "protocol": "Protocol", "pairing": "Pairing", "listening": "This console", "refused": "Refused attempts",
    "heard": "Last heard", "clock": "Clock", "process": "Process", "tools": "Tools", "name": "Its name",
    "duplicate": "Name in use", "flapping": "Losses", "browser": "Web page", "address": "Address",
    "machine": "Machine",
}  # fmt: skip


class CheckRow(QWidget):
    """One check: how it ended, what was found, what to do."""

    def __init__(self, check: Check) -> None:
        super().__init__()
        self.check = check
        badge = StateBadge(LOOKS[check.state], check.name)
        badge.setFixedWidth(84)
        title = Label(TITLES[check.name], "name")
        took = Label(milliseconds(check.took_ms) if check.took_ms else "", "meta", "text3")
        head = hbox(badge, title, STRETCH, took, spacing=8)
        column = vbox(head, parent=self, margins=(0, 4, 0, 4))
        for words, tone in ((check.found, "text2"), (check.next, "text")):
            if words:
                label = Label(breakable(words), tone=tone, wrap=True, selectable=True)
                copies_whole(label)
                label.setContentsMargins(92, 0, 0, 0)
                column.addWidget(label)
        spoken = f"{title.text()}: {check.state.value}. {check.found} {check.next}"
        self.setAccessibleName(spoken.strip())


class Diagnostics(QWidget):
    """Runs the checks of one device and lists how they ended."""

    def __init__(self, link: ConsoleLink) -> None:
        super().__init__()
        self._name = self._state = ""
        self._checks = Query(self, link, self._show_checks, self._say_failed, "look at the device")
        self.start = Button("Run the doctor", icon="verified")
        self.start.clicked.connect(self.run)
        head = SectionHead("Doctor")
        head.add(self.start)
        self.progress = Progress("Doctor", cancellable=True)
        self.progress.cancelled.connect(self.cancel)
        self.progress.hide()
        self.summary = Label(
            INTRODUCTION,
            tone="text2",
            wrap=True,
        )
        self._rows = QVBoxLayout()
        self._rows.setSpacing(0)
        vbox(head, self.summary, self.progress, self._rows, parent=self, spacing=6)

    def show_device(self, name: str, state: str = "") -> None:
        """Take another device, or the same in another state; findings about the one before go."""
        if name != self._name:
            self.cancel()
        elif state == self._state or self._checks.loading:
            return
        self._name, self._state = name, state
        self._clear()
        self.summary.setText(INTRODUCTION)

    def rows(self) -> list[CheckRow]:
        """The checks on show."""
        items = (self._rows.itemAt(n) for n in range(self._rows.count()))
        found = (item.widget() for item in items if item is not None)
        return [widget for widget in found if isinstance(widget, CheckRow)]

    def run(self) -> None:
        """Ask the service to look."""
        name = self._name
        if not name or self._checks.loading:
            return
        self._clear()
        self.summary.setText("")
        self.start.set_working("The doctor is looking.")
        self.progress.show_progress(None, f"Looking at {name} …")
        self.progress.show()
        self._checks.load(lambda console: console.devices.diagnose(name))

    def cancel(self) -> None:
        """Stop waiting for an answer."""
        if self._checks.loading:
            self._checks.cancel()
            self._end("Cancelled; nothing was found out.")

    def _show_checks(self, checks: list[Check]) -> None:
        failed = [check for check in checks if check.state is CheckState.FAILED]
        if failed:
            words = f"{TITLES[failed[0].name]} fails. {failed[0].next}".strip()
        else:
            words = "Everything that could be checked is as it should be."
        self._end(words)
        for check in checks:
            self._rows.addWidget(CheckRow(check))

    def _say_failed(self, error: QuarterdeckError) -> None:
        self._end(f"The doctor could not look. {error.info.sentences}")

    def _end(self, words: str) -> None:
        self.start.set_working("")
        if self.progress.cancel.hasFocus():
            self.start.setFocus(Qt.FocusReason.OtherFocusReason)
        self.progress.hide()
        self.summary.setText(breakable(words))

    def _clear(self) -> None:
        clear_layout(self._rows)

"""The fields of an agent's profile, targets and limits."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.widgets.fields import DropDown, Field, TextField
from app.widgets.layouts import hbox, vbox
from core.errors import BadInput
from core.models.device_filter import LONGEST
from core.policy.agent_models import MOST_A_MINUTE, MOST_WAITING, AgentSettings, parse_targets
from core.policy.models import Profile

_PROFILES = {
    Profile.OBSERVE: "observe: reads run, the rest is denied",
    Profile.GUARDED: "guarded: low risk runs, the rest asks",
    Profile.TRUSTED: "trusted: low and medium risk run, the rest asks",
    Profile.LOCKDOWN: "lockdown: everything asks",
}


class SettingsForm(QWidget):
    """Profile, devices, commands a minute, requests that may wait.

    Signals:
        changed: a field is another.
    """

    changed = Signal()

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__()
        self._before = settings
        self.profile = DropDown("Profile")
        for profile, words in _PROFILES.items():
            self.profile.addItem(words, profile)
        self.profile.setCurrentIndex(list(_PROFILES).index(settings.profile))
        self.targets = TextField("Devices", "every device", mono=True)
        self.targets.setText(settings.targets)
        self.targets.setMaxLength(LONGEST)
        help_text = "A filter, such as os:linux tag:lab; other devices do not exist for it."
        self.targets_row = Field("Devices", self.targets, help_text=help_text)
        self.per_minute = TextField("Commands a minute")
        self.per_minute.setText(str(settings.per_minute))
        self.per_minute_row = Field("Commands a minute", self.per_minute)
        self.waiting = TextField("Requests that may wait")
        self.waiting.setText(str(settings.waiting))
        self.waiting_row = Field("Requests that may wait", self.waiting)
        top = Qt.AlignmentFlag.AlignTop
        profile_row = Field("Profile", self.profile, help_text="The device's own profile limits it too.")
        numbers = hbox((self.per_minute_row, 1, top), (self.waiting_row, 1, top), spacing=12)
        vbox(profile_row, self.targets_row, numbers, parent=self, spacing=12)
        self.profile.currentIndexChanged.connect(lambda _row: self.check())
        for field in self.fields:
            field.textChanged.connect(lambda _text: self.check())

    @property
    def fields(self) -> tuple[TextField, ...]:
        """The fields in which something is typed."""
        return self.targets, self.per_minute, self.waiting

    def check(self) -> str:
        """Say at each field what is wrong; returns the first problem, empty when there is none."""
        self.targets_row.set_error(_filter_problem(self.targets.text()))
        self.per_minute_row.set_error(_number_problem(self.per_minute.text(), MOST_A_MINUTE))
        self.waiting_row.set_error(_number_problem(self.waiting.text(), MOST_WAITING))
        self.changed.emit()
        return self.problem

    @property
    def problem(self) -> str:
        """The first problem that is said; empty when there is none."""
        return self.targets_row.error or self.per_minute_row.error or self.waiting_row.error

    def settings(self) -> AgentSettings:
        """What is set; only while there is no problem."""
        return AgentSettings(
            profile=self.profile.currentData(),
            targets=self.targets.text().strip(),
            per_minute=int(self.per_minute.text()),
            waiting=int(self.waiting.text()),
            paused=self._before.paused,
        )


def _filter_problem(text: str) -> str:
    try:
        parse_targets(text)
    except BadInput as error:
        return error.message
    return ""


def _number_problem(text: str, most: int) -> str:
    number = text.strip()
    within = number.isascii() and number.isdecimal() and len(number) < 9 and 1 <= int(number) <= most
    return "" if within else f"A whole number from 1 to {most:,}."

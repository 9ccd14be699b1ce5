"""The sections of Settings, each a column of at most 640."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal

from app.screens.screen import Navigator
from app.screens.settings.backup_bar import BackupBar
from app.screens.settings.section import SettingsSection
from app.screens.targets import OpenQuery
from app.service_client import ConsoleLink
from app.state import AppState
from app.state import Link as LinkState
from app.text import clock, milliseconds, one_line
from app.theme.theme import theme_of
from app.widgets.buttons import Segmented
from app.widgets.fields import CheckBox, Field
from app.widgets.labels import Label, Link
from app.widgets.property_list import Property, PropertyList

THIS_COMPUTER = "this-computer"


class Appearance(SettingsSection):
    """Theme, density, motion; kept in this home's window.ini.

    Signals:
        changed: something was chosen; the window applies the density by its own size too.
    """

    changed = Signal()

    def __init__(self, nav: Navigator) -> None:
        super().__init__("Appearance", "These hold for this window only, and at once.")
        self._nav = nav
        theme = theme_of(self)
        self.mode = Segmented([("dark", "Dark"), ("light", "Light")], "Theme")
        self.mode.choose(theme.mode)
        self.mode.chosen.connect(self._choose_mode)
        # The palette switches the theme as well.
        theme.changed.connect(self._show_mode)
        self.density = Segmented([("comfortable", "Comfortable"), ("compact", "Compact")], "Density")
        self.density.choose(str(nav.layout_store.value("appearance/density", "comfortable")))
        self.density.chosen.connect(self._choose_density)
        self.still = CheckBox("Nothing slides or turns")
        self.still.setChecked(theme.reduced_motion)
        self.still.toggled.connect(self._choose_motion)
        self.column.addWidget(Field("Theme", self.mode))
        compact = "A window lower than 800 is always compact."
        self.column.addWidget(Field("Density", self.density, help_text=compact))
        self.column.addWidget(Field("Motion", self.still))

    def _show_mode(self) -> None:
        self.mode.choose(theme_of(self).mode)

    def _choose_mode(self, mode: str) -> None:
        self._nav.layout_store.setValue("appearance/mode", mode)
        theme_of(self).set_mode("light" if mode == "light" else "dark")

    def _choose_density(self, density: str) -> None:
        self._nav.layout_store.setValue("appearance/density", density)
        self.changed.emit()

    def _choose_motion(self, still: bool) -> None:
        self._nav.layout_store.setValue("appearance/reduced_motion", still)
        theme_of(self).set_reduced_motion(still)


class ThisComputer(SettingsSection):
    """How the console reaches this computer."""

    def __init__(self, state: AppState, nav: Navigator) -> None:
        super().__init__("This computer", "The device that is here without pairing.")
        self._state = state
        self.facts = PropertyList(140, "This computer")
        self.column.addWidget(self.facts)
        words = (
            "A device client in a process of its own is the usual way: if it dies, it is started again. "
            'With this_computer = "in-process" in settings.toml its tools run inside the service.'
        )
        self.column.addWidget(Label(words, "meta", "text3", wrap=True))
        look = Link("What happened to it")
        look.clicked.connect(lambda: nav.open("journal", OpenQuery(f"device:{THIS_COMPUTER}")))
        self.column.addWidget(look, 0, Qt.AlignmentFlag.AlignLeft)
        state.devices_changed.connect(self.show_state)
        self.show_state()

    def show_state(self) -> None:
        """Show the channel and how it is."""
        device = self._state.devices.get(THIS_COMPUTER)
        if device is None:
            self.facts.show_facts([Property("State", "not connected yet")])
            return
        self.facts.show_facts(
            [
                Property("State", f"{device.health.value}, since {clock(device.since)}"),
                Property("Channel", device.channel or "not known"),
                Property("Client", one_line(device.client) or "not known"),
                Property("Restarted", f"{device.restarts} times since the service started"),
                Property("Round trip", milliseconds(device.round_trip_ms)),
                Property("Tags", ", ".join(device.tags) or "none"),
            ]
        )


class About(SettingsSection):
    """Version, service, home, and its backup."""

    def __init__(self, state: AppState, link: ConsoleLink) -> None:
        super().__init__("About", "Quarterdeck, an operator console for device agents. MIT licence.")
        self._state = state
        self.facts = PropertyList(140, "About")
        self.column.addWidget(self.facts)
        self.backup = BackupBar(state, link)
        self.column.addWidget(self.backup)
        state.service_changed.connect(self.show_state)
        state.reset.connect(self.show_state)
        self.show_state()

    def show_state(self) -> None:
        """Show what answers."""
        state = self._state
        service = {
            LinkState.CONNECTED: f"connected, {milliseconds(state.service.round_trip_ms)} a round trip",
            LinkState.CONNECTING: "starting",
            LinkState.LOST: f"lost. {state.service.problem}",
        }[state.service.link]
        self.facts.show_facts(
            [
                Property("Version", state.version or "not known"),
                Property("Service", service),
                Property("Process", f"{state.service_pid}, since {clock(state.service_started_at)}"),
                Property("Home", state.home or "not known", mono=True),
            ]
        )

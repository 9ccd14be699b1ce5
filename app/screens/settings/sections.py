"""The sections of Settings, each a column of at most 640."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from app.components.banner import Banner
from app.components.buttons import Button, Segmented
from app.components.facts import Fact, Facts, short_digest
from app.components.inputs import CheckBox, Field, TextField
from app.components.label import Label, Link
from app.components.section import Card, SectionHead
from app.link import ConsoleLink
from app.look.theme import theme_of
from app.screens.base import Navigator, OpenQuery
from app.shell.top_bar import PROFILE_WORDS
from app.shell.words import clock, milliseconds
from app.state import AppState
from app.state import Link as LinkState
from core.errors import QuarterdeckError
from core.policy.models import Operator, Profile
from core.service.console import Console

THIS_COMPUTER = "this-computer"


class SettingsSection(QWidget):
    """A titled column."""

    def __init__(self, title: str, words: str = "") -> None:
        super().__init__()
        self.setMaximumWidth(640)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(12)
        self.column.addWidget(Label(title, "title"))
        if words:
            self.column.addWidget(Label(words, tone="text2", wrap=True))
        self.setAccessibleName(title)


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

    def _choose_mode(self, mode: str) -> None:
        self._nav.layout_store.setValue("appearance/mode", mode)
        theme_of(self).set_mode("light" if mode == "light" else "dark")

    def _choose_density(self, density: str) -> None:
        self._nav.layout_store.setValue("appearance/density", density)
        self.changed.emit()

    def _choose_motion(self, still: bool) -> None:
        self._nav.layout_store.setValue("appearance/reduced_motion", still)
        theme_of(self).set_reduced_motion(still)


class Operators(SettingsSection):
    """Who may approve, which keys lie in this home, which one is unlocked, and making one."""

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__(
            "Operators",
            "An approval is a signature by an operator's key. Keys lie in this home; the unlocked one is "
            "held in this window only, and the service never sees it.",
        )
        self._state, self._link, self._nav = state, link, nav
        self.column.addWidget(SectionHead("Known to the service"))
        self._rows = QVBoxLayout()
        self._rows.setSpacing(8)
        self.column.addLayout(self._rows)
        self.lock = Button("Lock", icon="key")
        self.lock.clicked.connect(self._toggle)
        line = QHBoxLayout()
        self._unlocked = Label("", tone="text2")
        line.addWidget(self._unlocked, 1)
        line.addWidget(self.lock)
        self.column.addWidget(SectionHead("The key of this window"))
        self.column.addLayout(line)
        self.column.addWidget(SectionHead("Make a key"))
        self._build_form()
        self._problem = Label("", "meta", "fail", wrap=True)
        self._problem.hide()
        self.column.addWidget(self._problem)
        state.control_changed.connect(self.show_state)
        nav.keys.changed.connect(self.show_state)
        self.show_state()

    def _build_form(self) -> None:
        self.name_field = TextField("Name", "letters and digits")
        self.name_field.setMaxLength(64)
        self.secret_field = TextField("Passphrase", "at least 10 characters")
        self.secret_field.setEchoMode(QLineEdit.EchoMode.Password)
        self.make = Button("Create key")
        self.make.clicked.connect(lambda: self._create(with_passphrase=True))
        self.secret_field.returnPressed.connect(self.make.click)
        row = QHBoxLayout()
        row.setSpacing(12)
        bottom = Qt.AlignmentFlag.AlignBottom
        row.addWidget(Field("Name on approvals", self.name_field), 1, bottom)
        row.addWidget(Field("Passphrase", self.secret_field), 1, bottom)
        row.addWidget(self.make, 0, bottom)
        self.column.addLayout(row)
        self.without = Link("Without a passphrase")
        self.without.clicked.connect(lambda: self._create(with_passphrase=False))
        self.column.addWidget(self.without, 0, Qt.AlignmentFlag.AlignLeft)

    def show_state(self) -> None:
        """Show who is known, and what is unlocked."""
        while (item := self._rows.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.setParent(None)
                widget.deleteLater()
        for operator in self._state.operators:
            self._rows.addWidget(self._card(operator))
        if not self._state.operators:
            self._rows.addWidget(Label("Nobody yet: the first key that is made is taken in.", tone="text2"))
        keys = self._nav.keys
        names = ", ".join(file.name for file in keys.listed) or "none"
        unlocked = (
            f"{keys.unlocked} is unlocked, …{keys.fingerprint}." if keys.unlocked else "No key is unlocked."
        )
        self._unlocked.setText(f"{unlocked} Keys in this home: {names}.")
        self.lock.set_words("Lock" if keys.unlocked else "Unlock…")
        self.lock.set_off("" if keys.listed else "There is no key in this home.")

    def _card(self, operator: Operator) -> Card:
        card = Card()
        row = QHBoxLayout()
        row.addWidget(Label(operator.name, "name"))
        row.addWidget(Label(short_digest(operator.public_key, "ed25519"), "mono_small", "text2"), 1)
        marked = "has a passphrase" if operator.has_passphrase else "no passphrase"
        row.addWidget(Label(marked, "meta", "text3" if operator.has_passphrase else "warn"))
        card.body.addLayout(row)
        if operator.registered_at:
            card.add(Label(f"registered {clock(operator.registered_at)}", "meta", "text3"))
        return card

    def _toggle(self) -> None:
        if self._nav.keys.unlocked:
            self._nav.keys.lock()
        else:
            self._nav.start_unlock()

    def _create(self, with_passphrase: bool) -> None:
        name, secret = self.name_field.text().strip(), self.secret_field.text()
        if with_passphrase and not secret:
            self._say("Type a passphrase of at least 10 characters, or choose to go without one.")
            return
        self._say("")
        self.make.set_off("Making the key.")

        async def create(console: Console) -> Operator:
            made = await self._nav.keys.create(name, secret if with_passphrase else None)
            return await console.register_operator(made)

        self._link.ask(create, self._made, self._failed, what="make an operator key")

    def _made(self, operator: Operator) -> None:
        self.make.set_off("")
        self.name_field.clear()
        self.secret_field.clear()
        self._nav.toast(f"{operator.name} can approve now")

    def _failed(self, error: QuarterdeckError) -> None:
        self.make.set_off("")
        self._say(f"{error.message} {error.info.next}")

    def _say(self, problem: str) -> None:
        self._problem.setText(problem)
        self._problem.setVisible(bool(problem))


class ThisComputer(SettingsSection):
    """How the console reaches this computer."""

    def __init__(self, state: AppState, nav: Navigator) -> None:
        super().__init__("This computer", "The device that is here without pairing.")
        self._state = state
        self.facts = Facts(140, "This computer")
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
            self.facts.show_facts([Fact("State", "not connected yet")])
            return
        self.facts.show_facts(
            [
                Fact("State", f"{device.health.value}, since {clock(device.since)}"),
                Fact("Channel", device.channel or "not known"),
                Fact("Client", device.client or "not known"),
                Fact("Restarted", f"{device.restarts} times since the service started"),
                Fact("Round trip", milliseconds(device.round_trip_ms)),
                Fact("Tags", ", ".join(device.tags) or "none"),
            ]
        )


class Policy(SettingsSection):
    """The profile, where policy.toml is, and what is wrong with it."""

    profile_chosen = Signal(object)

    def __init__(self, state: AppState) -> None:
        super().__init__(
            "Policy", "What runs without asking. Devices and tags may have profiles of their own."
        )
        self._state = state
        self.banner = Banner()
        self.column.insertWidget(0, self.banner)
        self.profile = Segmented([(one.value, one.value) for one in Profile], "Profile")
        self.profile.chosen.connect(self._choose)
        self.field = Field("Profile", self.profile)
        self.column.addWidget(self.field)
        self.facts = Facts(140, "Policy file")
        self.column.addWidget(self.facts)
        self.folder = Link("Open the folder")
        self.folder.clicked.connect(self._open_folder)
        self.column.addWidget(self.folder, 0, Qt.AlignmentFlag.AlignLeft)
        state.control_changed.connect(self.show_state)
        self.show_state()

    def show_state(self) -> None:
        """Show the profile that holds."""
        policy = self._state.policy
        if policy is None:
            self.facts.show_facts([Fact("File", "not known until the service answers")])
            return
        self.profile.choose(policy.profile.value)
        self.field.set_help(PROFILE_WORDS[policy.profile])
        self.facts.show_facts([Fact("File", policy.path or "the built-in default", mono=True)])
        self.folder.setVisible(bool(policy.path))
        if policy.problem:
            self.banner.say("warn", "The policy cannot be read: everything asks.", policy.problem)
        else:
            self.banner.hide()

    def _choose(self, profile: str) -> None:
        self.profile_chosen.emit(Profile(profile))
        # The choice holds when the service says so; until then the old one is shown.
        self.show_state()

    def _open_folder(self) -> None:
        policy = self._state.policy
        if policy is not None and policy.path:
            QDesktopServices.openUrl(QUrl.fromLocalFile(policy.path.rpartition("/")[0]))


class About(SettingsSection):
    """Version, service, home."""

    def __init__(self, state: AppState) -> None:
        super().__init__("About", "Quarterdeck, an operator console for device agents. MIT licence.")
        self._state = state
        self.facts = Facts(140, "About")
        self.column.addWidget(self.facts)
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
                Fact("Version", state.version or "not known"),
                Fact("Service", service),
                Fact("Process", f"{state.service_pid}, since {clock(state.service_started_at)}"),
                Fact("Home", state.home or "not known", mono=True),
            ]
        )

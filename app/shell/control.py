"""What the top bar can do: Stop all and Resume, the profile, locking and unlocking the operator's key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QComboBox, QLineEdit

from app.components.label import Label
from app.event_loop import ended
from app.hand import Stake
from app.link import ConsoleLink
from app.screens.base import OpenSection
from app.shell.notices import Notices
from app.shell.operator import OperatorKeys
from app.shell.sheet import Sheet
from app.shell.top_bar import PROFILE_WORDS
from app.state import AppState
from core.errors import QuarterdeckError
from core.policy.models import Profile

if TYPE_CHECKING:
    from app.window import MainWindow
    from core.policy.operator_keys import KeyFile


# Under which profiles nothing runs that asked before, and nothing asks that was denied. `observe` denies what
# `lockdown` asks about, and lets reads run that `lockdown` asks about: neither is the stricter one.
STRICTER: dict[Profile, frozenset[Profile]] = {
    Profile.OBSERVE: frozenset(),
    Profile.LOCKDOWN: frozenset(),
    Profile.GUARDED: frozenset({Profile.OBSERVE, Profile.LOCKDOWN}),
    Profile.TRUSTED: frozenset({Profile.OBSERVE, Profile.LOCKDOWN, Profile.GUARDED}),
}
_QUESTIONS: dict[Profile, str] = {
    Profile.OBSERVE: "Let reads run without asking?",
    Profile.GUARDED: "Let low risk run without asking?",
    Profile.TRUSTED: "Let medium risk run without asking?",
    Profile.LOCKDOWN: "Let everything be asked about, also what is denied now?",
}


class Control(QObject):
    """Carries out the top bar's wishes and shows their errors in the window's banners."""

    def __init__(
        self, window: MainWindow, state: AppState, link: ConsoleLink, keys: OperatorKeys, notices: Notices
    ) -> None:
        super().__init__(window)
        self._window, self._state, self._link = window, state, link
        self._keys, self._notices = keys, notices
        self._stopped_words = ""
        self._asking = False
        state.control_changed.connect(self.show_control)
        self.show_control()

    # Stop all

    def stop_all(self) -> None:
        """Stop everything at once; the banner then says what was stopped."""
        self._link.ask(
            lambda console: console.stop_all(), self._say_stopped, self._say_not_stopped, "stop all"
        )

    def _say_stopped(self, words: str) -> None:
        self._stopped_words = words
        self._show_stopped(words)

    def _say_not_stopped(self, error: QuarterdeckError) -> None:
        self._notices.fail(f"Stop all did not reach the service. {error.message}", error.info.next)

    def show_control(self) -> None:
        """Show or take back the standing banners: stopped, and a policy that could not be read."""
        if self._state.stopped:
            self._show_stopped(self._state.stopped_note or self._stopped_words)
        else:
            self._stopped_words = ""
            self._notices.standing("stopped")
        policy = self._state.policy
        problem = policy.problem if policy is not None else ""
        fact = "The policy cannot be read: everything asks." if problem else ""
        self._notices.standing("policy", "warn", fact, problem, ("Show", self._show_policy))

    def _show_policy(self) -> None:
        policy = self._state.policy
        found = re.search(r"\bline (\d+)", policy.problem) if policy is not None else None
        self._window.open("settings", OpenSection("policy", line=int(found[1]) if found else 0))

    def _show_stopped(self, words: str) -> None:
        detail = words or "Nothing is sent."
        self._notices.standing(
            "stopped", "fail", "Everything is stopped.", detail, ("Resume…", self.start_resume)
        )

    def start_resume(self) -> None:
        """Ask before commands may leave again."""
        self._link.spawn("resume", self._resume())

    async def _resume(self) -> None:
        sheet = Sheet(
            self._window,
            "Let commands leave again?",
            "What was stopped stays stopped: its runs have ended and its requests were withdrawn.",
        )
        sheet.add_answer("stay", "Stay stopped")
        resume = sheet.add_answer("resume", "Resume", "primary", closes=False)
        self._window.by_hand.guard(
            resume, Stake.HIGH, "let commands leave again", sheet.say, lambda: sheet.finish("resume")
        )
        sheet.open()
        if await ended(sheet.finished) == "resume":
            self._link.ask(lambda console: console.resume(), what="resume")

    # Profile

    def choose_profile(self, profile: Profile) -> None:
        """Set the profile; one that lets more run or ask than the present one is asked about first."""
        now = self._state.policy.profile if self._state.policy is not None else None
        if profile is now:
            return
        if now is not None and profile in STRICTER[now]:
            self._set_profile(profile)
        else:
            self._link.spawn("profile", self._ask_for_laxer(profile))

    async def _ask_for_laxer(self, profile: Profile) -> None:
        sheet = Sheet(
            self._window,
            _QUESTIONS[profile],
            f"With the profile {profile.value}, {PROFILE_WORDS[profile]}. It holds for every device that has "
            "no profile of its own, for agents too, and is written to policy.toml.",
        )
        sheet.add_answer("stay", "Leave it as it is")
        use = sheet.add_answer("use", f"Use {profile.value}", closes=False)
        what = f"use the profile {profile.value}"
        self._window.by_hand.guard(use, Stake.HIGH, what, sheet.say, lambda: sheet.finish("use"))
        sheet.open()
        if await ended(sheet.finished) == "use":
            self._set_profile(profile)

    def _set_profile(self, profile: Profile) -> None:
        self._link.ask(lambda console: console.set_profile(profile), what=f"use the profile {profile.value}")

    # Operator key

    def toggle_key(self) -> None:
        """Lock the unlocked key; else ask to unlock one, or lead to where one is made."""
        if self._keys.unlocked:
            self._keys.lock()
        else:
            self.start_unlock()

    def start_unlock(self) -> None:
        """Ask for a passphrase; without any key, open the place where one is made."""
        if not self._keys.listed:
            self._window.open("settings", OpenSection("operators"))
        elif not self._asking:
            self._asking = True
            self._link.spawn("unlock the operator key", self._unlock())

    async def _unlock(self) -> None:
        try:
            listed = self._keys.listed
            if len(listed) == 1 and not listed[0].has_passphrase:
                await self._keys.unlock(listed[0].name, None)
                return
            await self._ask_passphrase(listed)
        except QuarterdeckError as error:
            self._notices.fail(f"The key could not be unlocked. {error.message}", error.info.next)
        finally:
            self._asking = False

    async def _ask_passphrase(self, listed: list[KeyFile]) -> None:
        sheet = Sheet(
            self._window, "Unlock your operator key", "It is held in this window until you lock it."
        )
        who = QComboBox()
        who.setAccessibleName("Operator")
        for file in listed:
            who.addItem(f"{file.name}  …{file.public_key[-4:]}", file.name)
        who.setVisible(len(listed) > 1)
        secret = QLineEdit()
        secret.setEchoMode(QLineEdit.EchoMode.Password)
        secret.setAccessibleName("Passphrase")
        sheet.add(who)
        sheet.add(Label("Passphrase" if len(listed) > 1 else f"Passphrase of {listed[0].name}", "name"))
        sheet.add(secret)
        sheet.add_answer("cancel", "Cancel")
        unlock = sheet.add_answer("unlock", "Unlock", "primary", closes=False)

        async def attempt() -> None:
            unlock.set_working("Opening the key…")
            try:
                await self._keys.unlock(str(who.currentData()), secret.text() or None)
            except QuarterdeckError as error:
                sheet.say(error.message)
                unlock.set_working("")
                secret.selectAll()
                secret.setFocus()
            else:
                sheet.finish("unlock")

        unlock.clicked.connect(lambda: self._link.spawn("open the key", attempt()))
        secret.returnPressed.connect(unlock.click)
        sheet.open(secret)
        await ended(sheet.finished)

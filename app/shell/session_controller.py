"""What the top bar and the window's banners can do: Stop all and Resume, the profile, accepting what another
program changed, locking and unlocking the operator's key."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.form_dialog import FormDialog
from app.qt_loop import ended
from app.query import Mutation
from app.screens.targets import OpenSection
from app.service_client import ConsoleLink
from app.shell.message_bars import MessageBars
from app.shell.shell_window import ShellWindow
from app.signing.change_signing import ChangeSigning
from app.signing.signing_session import SigningSession
from app.signing.unlock_section import UnlockSection
from app.state import AppState
from app.text import PROFILE_WORDS, plural
from app.widgets.dialog import Dialog
from app.widgets.sentences import Sentences
from core.errors import QuarterdeckError
from core.policy.models import Profile
from core.policy.profiles import is_as_strict
from core.service.console import PolicyStatus
from core.service.wishes import RESUME, policy_change, settings_change

if TYPE_CHECKING:
    from core.approvals.operator_keys import KeyFile


class SessionController(QObject):
    """Carries out the top bar's wishes and shows their errors in the window's banners."""

    def __init__(
        self,
        window: ShellWindow,
        state: AppState,
        link: ConsoleLink,
        keys: SigningSession,
        signing: ChangeSigning,
        notices: MessageBars,
    ) -> None:
        super().__init__(window)
        self._window, self._state, self._link = window, state, link
        self._keys, self._signing, self._notices = keys, signing, notices
        self._stopped_words = ""
        self._notes_put_away: list[str] = []
        self._asking = False
        state.control_changed.connect(self.show_control)
        self.show_control()

    # Stop all

    def stop_all(self) -> None:
        """Stop everything at once; the banner then says what was stopped."""
        self._link.ask(
            lambda console: console.service.stop_all(), self._say_stopped, self._say_not_stopped, "stop all"
        )

    def _say_stopped(self, words: str) -> None:
        self._stopped_words = words
        self._show_stopped(words)

    def _say_not_stopped(self, error: QuarterdeckError) -> None:
        self._notices.fail(f"Stop all did not reach the service. {error.message}", error.info.next)

    def show_control(self) -> None:
        """Show or take back the standing banners: stopped, the policy, what does not count."""
        if self._state.stopped:
            self._show_stopped(self._state.stopped_note or self._stopped_words)
        else:
            self._stopped_words = ""
            self._notices.standing("stopped")
        policy = self._state.policy
        if policy is not None:
            self._show_policy_problem(policy)
            self._show_pending(policy)
            self._show_notes(policy)

    def _show_stopped(self, words: str) -> None:
        resume = ("Resume…", self.start_resume)
        fact = words or "Everything is stopped."
        self._notices.standing("stopped", "fail", fact, "Nothing is sent until you resume.", resume)

    def start_resume(self) -> None:
        """Let commands leave again, once an operator has signed that."""
        words = "The runs that were stopped have ended, and their requests were withdrawn."
        Mutation[None](self, self._link, what="resume").carry(
            lambda: self._signing.carry_out(
                RESUME, lambda console, signed: console.service.resume(signed), words=words
            )
        )

    # The policy, as another program left it

    def _show_policy_problem(self, policy: PolicyStatus) -> None:
        fact = "The policy cannot be read: everything asks." if policy.problem else ""
        show = ("Show in Settings", self._open_policy)
        self._notices.standing("policy", "warn", fact, policy.problem, show)

    def _show_pending(self, policy: PolicyStatus) -> None:
        fact, detail = pending_words(policy)
        self._notices.standing(
            "pending",
            "warn",
            fact,
            detail,
            ("Look and accept…", self.start_accept),
            ("Show in Settings", self._open_policy),
        )

    def _show_notes(self, policy: PolicyStatus) -> None:
        notes = list(policy.notes)
        if not notes or notes == self._notes_put_away:
            self._notices.standing("notes")
            return
        fact = f"{plural(len(notes), 'thing')} in the files of this home {_does(len(notes))} not count."
        show = ("Show…", lambda: self._open_notes(notes))
        self._notices.standing(
            "notes", "warn", fact, notes[0], show, on_close=lambda: self._put_notes_away(notes)
        )

    def _put_notes_away(self, notes: list[str]) -> None:
        self._notes_put_away = notes

    def _open_notes(self, notes: list[str]) -> None:
        sheet = Dialog(
            self._window,
            "What does not count",
            "It stands in files of this home, which any program of this user can write, and not, or not "
            "signed, in the journal.",
            width=560,
        )
        card = Sentences("What does not count")
        card.show_sentences(notes)
        sheet.add(card)
        sheet.add_answer("close", "Close", primary=True)
        sheet.open()

    def _open_policy(self) -> None:
        policy = self._state.policy
        found = re.search(r"\bline (\d+)", policy.problem) if policy is not None else None
        tab = "accepted" if policy is not None and policy.pending else ""
        self._window.open("settings", OpenSection("policy", line=int(found[1]) if found else 0, tab=tab))

    def start_accept(self) -> None:
        """Look at what another program changed in policy.toml and settings.toml, and accept it signed."""
        Mutation(self, self._link, self._accepted, what="accept what was changed").carry(self._accept)

    async def _accept(self) -> PolicyStatus | None:
        perform, status = self._link.perform, self._state.policy
        found = await perform(lambda console: console.policy.text())
        if found.text != found.accepted:
            signed = await self._signing.sign_change(policy_change(found.text), found.text)
            status = await perform(lambda console: console.policy.accept(found.digest, signed))
        if status is not None and status.pending_settings:
            words = "The settings hold when the service starts next."
            wish = await asyncio.to_thread(settings_change, self._keys.home)
            settings_signed = await self._signing.sign_change(wish, words=words)
            status = await perform(lambda console: console.service.accept_settings(settings_signed))
        return status

    def _accepted(self, status: PolicyStatus | None) -> None:
        if status is not None and not (status.pending or status.pending_settings):
            self._window.toast("Accepted")

    # Profile

    def choose_profile(self, profile: Profile) -> None:
        """Set the profile. A stricter one holds at once; one under which more runs is signed."""
        policy = self._state.policy
        if policy is not None and profile is policy.profile:
            return
        what = f"use the profile {profile.value}"
        if policy is not None and is_as_strict(profile, policy.profile):
            Mutation[object](self, self._link, what=what).run(
                lambda console: console.policy.set_profile(profile)
            )
        else:
            Mutation[None](self, self._link, what=what).carry(lambda: self._set_profile(profile))

    async def _set_profile(self, profile: Profile) -> None:
        found = await self._link.perform(lambda console: console.policy.text())
        # It imports rules and shell analysis: 100 ms that the window starts without.
        from core.policy.policy_file import with_profile

        text = with_profile(found.text, profile)
        words = (
            f"With the profile {profile.value}, {PROFILE_WORDS[profile]}. It holds for every device that has "
            "no profile of its own, for agents too, and is written to policy.toml."
        )
        signed = await self._signing.sign_change(policy_change(text), text, words)
        await self._link.perform(lambda console: console.policy.set_profile(profile, signed))

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
            here = self._window.current.name
            back = "" if here == "settings" else here
            self._window.open("settings", OpenSection("operators", back=back))
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
        sheet = FormDialog(
            self._window,
            self._link,
            "Unlock your operator key",
            "It is held in this window until you lock it.",
        )
        part = UnlockSection(self._keys, listed)
        sheet.add(part)
        sheet.add_act("unlock", "Unlock", part.unlock, "unlock the key", busy="Opening the key…")
        sheet.open(part.first)
        await ended(sheet.finished)


def pending_words(policy: PolicyStatus) -> tuple[str, str]:
    """What another program changed and does not hold: a fact and what to do; empty where there is nothing."""
    files = [
        name
        for name, pending in (("policy.toml", policy.pending), ("settings.toml", policy.pending_settings))
        if pending
    ]
    if not files:
        return "", ""
    count = len(policy.pending) + len(policy.pending_settings)
    waits = "waits" if count == 1 else "wait"
    fact = f"{' and '.join(files)} {'was' if len(files) == 1 else 'were'} changed by another program."
    things = plural(count, "thing")
    return fact, f"What it tightens holds; {things} it would loosen {waits} for your signature."


def _does(count: int) -> str:
    return "does" if count == 1 else "do"

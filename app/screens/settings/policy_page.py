"""Settings, Policy: the editor at the left; beside it check, examples, time machine, reasons, acceptance."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QEvent, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.screens.screen import Navigator
from app.screens.settings.accepted_policy_tab import AcceptedPolicyTab, stand_words
from app.screens.settings.explain_tab import ExplainTab
from app.screens.settings.merge_dialog import KEEP, TAKE, compare
from app.screens.settings.policy_diagnostics import CheckTab, ExamplesTab, bare_message, placed
from app.screens.settings.policy_document import PolicyDocument
from app.screens.settings.rule_dialog import ask_for_rule
from app.screens.settings.simulation_tab import SimulationTab
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import PROFILE_WORDS, plural
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.banner import Banner
from app.widgets.buttons import IconButton, Segmented
from app.widgets.code_edit import CodeEdit
from app.widgets.fields import SearchField
from app.widgets.highlighters import TomlHighlighter
from app.widgets.labels import ElidedLabel, Label, separator, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.master_detail import MasterDetail
from core.policy.models import PolicyCheck, Profile

TABS = (
    ("check", "Check"),
    ("examples", "Examples"),
    ("time", "Time machine"),
    ("why", "Why?"),
    ("accepted", "Accepted"),
)
_LINE = re.compile(r"\bline (\d+)")


def line_of(problem: str) -> int:
    """The line that the words of a problem name; 0 when they name none."""
    match = _LINE.search(problem)
    return int(match[1]) if match else 0


_NOT_READ = "The policy is not read yet."


class PolicyActions(NamedTuple):
    """What the screen can do with the policy."""

    save: Action
    check: Action
    insert: Action
    run: Action


class PolicyPage(QWidget):
    """The whole of the section; wide as the screen.

    Signals:
        profile_chosen(Profile): the operator wants another profile.
        grant_wanted(grant): show this grant.
    """

    profile_chosen = Signal(object)
    grant_wanted = Signal(str)

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator, acts: PolicyActions) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Policy")
        self._state, self._link, self._nav, self._acts = state, link, nav, acts
        self.why_not_saved = _NOT_READ
        self._comparing = False
        self._wanted_line = 0
        self.editor = CodeEdit("policy.toml")
        self._colors = TomlHighlighter(self.editor.document(), self.editor)
        folder = Path(nav.layout_store.fileName()).parent
        self.work = PolicyDocument(self, link, nav.signing, folder, self.editor.text)
        self.banner = Banner()
        self.check = CheckTab(acts.check)
        self.examples = ExamplesTab()
        self.time_machine = SimulationTab(state, link, nav, self.editor.text, acts.run)
        self.why = ExplainTab(state, link)
        self.accepted = AcceptedPolicyTab(link)
        self.tabs = Segmented(TABS, "Beside the editor", in_bar=True)
        self.stack = QStackedWidget()
        for tab in (self.check, self.examples, self.time_machine, self.why, self.accepted):
            self.stack.addWidget(tab)
        self._build()
        self._connect()
        self.show_state()
        self._show_stand()

    # How it is built

    def _build(self) -> None:
        column = vbox(self._head(), separator(), self.banner, parent=self)
        self.split = MasterDetail(self._left(), self._right(), (500, 500))
        column.addWidget(self.split, 1)

    def _head(self) -> QWidget:
        head = QWidget()
        head.setFixedHeight(48)
        row = hbox(parent=head, margins=(SPACE.pane, 0, SPACE.pane, 0), spacing=SPACE.small)
        self.path = ElidedLabel("", "mono_small", "text3", Qt.TextElideMode.ElideMiddle)
        self.folder = IconButton("open", "Open the folder of policy.toml")
        self.folder.clicked.connect(self._open_folder)
        self.profile = Segmented([(one.value, one.value) for one in Profile], "Profile", in_bar=True)
        self.profile.setToolTip("What runs without asking where no rule speaks of it")
        self.insert = ActionButton(self._acts.insert)
        self.save = ActionButton(self._acts.save, "primary", icon="", with_key=True)
        row.addWidget(Label("Policy", "title"))
        row.addWidget(self.path, 1)
        row.addWidget(self.folder)
        row.addSpacing(SPACE.small)
        row.addWidget(Label("Profile", "meta", "text3"))
        row.addWidget(self.profile)
        row.addSpacing(SPACE.small)
        row.addWidget(self.insert)
        row.addWidget(self.save)
        return head

    def _left(self) -> QWidget:
        left = QWidget()
        self.stand = Label("", "meta", "text2")
        self.place = Label("", "meta", "text3")
        self.search = SearchField("Find in the policy", "find", keys="Ctrl+F")
        self.search.setFixedWidth(180)
        bar = hbox(
            (self.stand, 1),
            self.place,
            self.search,
            margins=(SPACE.pane, 5, SPACE.pane, 5),
            spacing=SPACE.medium,
        )
        vbox(bar, separator(), (self.editor, 1), parent=left)
        return left

    def _right(self) -> QWidget:
        right = QWidget()
        bar = hbox(self.tabs, STRETCH, margins=(SPACE.pane, 7, SPACE.pane, 7), spacing=None)
        vbox(bar, separator(), (self.stack, 1), parent=right)
        return right

    def _connect(self) -> None:
        self.editor.textChanged.connect(self._edited)
        self.editor.line_chosen.connect(lambda line: self.place.setText(f"line {line}"))
        self.work.loaded.connect(self._show_text)
        self.work.checked.connect(self._show_check)
        self.work.stands_changed.connect(self._show_stand)
        self.work.failed.connect(self._say_failed)
        self.work.came_back.connect(self.banner.hide)
        self.work.saved.connect(self._saved)
        self.tabs.chosen.connect(self.show_tab)
        for tab in (self.check, self.examples, self.why):
            tab.line_wanted.connect(self.go_to)
        self.why.grant_wanted.connect(self.grant_wanted)
        self.time_machine.rule_wanted.connect(self.show_rule)
        self.accepted.accept_wanted.connect(self._nav.accept_changes)
        self.accepted.restore_wanted.connect(self._restore)
        self.profile.chosen.connect(self._choose_profile)
        self.banner.acted.connect(lambda _key: self.compare())
        self.search.returnPressed.connect(lambda: self.editor.find_next(self.search.text()))
        self.search.textChanged.connect(self._find_typed)
        self.search.down_pressed.connect(self.editor.setFocus)
        self._state.control_changed.connect(self._control_changed)
        self._state.reset.connect(self._control_changed)

    # What the screen asks

    def begin(self, line: int = 0, tab: str = "") -> None:
        """The section comes to the front; `line` is what to show once the text is there, `tab` beside it."""
        self._wanted_line = line
        if tab:
            self.show_tab(tab)
        self.work.read()
        if self.work.base is not None:
            self._go_to_wanted()
        if self.tabs.current() == "why":
            self.why.begin()

    def leave(self) -> None:
        """Another section or screen comes to the front; nothing that was typed is lost."""
        self.work.keep_now()

    def show_tab(self, key: str) -> None:
        """Show one of the tabs at the right."""
        self.tabs.choose(key)
        self.stack.setCurrentIndex([name for name, _ in TABS].index(key))
        if key == "why":
            self.why.begin()

    def set_narrow(self, narrow: bool) -> None:
        """In a narrow window the tabs are under the editor."""
        wanted = Qt.Orientation.Vertical if narrow else Qt.Orientation.Horizontal
        if self.split.orientation() != wanted:
            self.split.setOrientation(wanted)
            self.split.setSizes([480, 520])
            other = Qt.Orientation.Horizontal if narrow else Qt.Orientation.Vertical
            self.why.split.setOrientation(other)
            self.why.split.setSizes([460, 540])

    def check_now(self) -> None:
        """Check at once, and show what came of it."""
        self.show_tab("check")
        self.work.check_now()

    def go_to(self, line: int, keyboard: bool = True) -> None:
        """Show a line in the editor; `keyboard` off leaves the focus where it is."""
        self.editor.go_to(line, keyboard)

    def show_rule(self, name: str) -> None:
        """Show the rule with this id."""
        pattern = re.compile(rf"^\s*id\s*=\s*([\"']){re.escape(name)}\1", re.MULTILINE)
        text = self.editor.text()
        if (match := pattern.search(text)) is not None:
            self.go_to(text.count("\n", 0, match.start()) + (1 if match[0][:1] != "\n" else 2))

    def insert_rule(self) -> None:
        """Ask for a rule in a form, and write it at the end of the text."""
        self._link.spawn("insert a rule", self._insert_rule())

    async def _insert_rule(self) -> None:
        known = {device.name for device in self._state.devices.values()}
        tags = {tag for device in self._state.devices.values() for tag in device.tags}
        text = await ask_for_rule(self.window(), self.editor.text(), sorted(known), sorted(tags))
        if text:
            line = self.editor.append_text(f"\n{text}" if self.editor.text().strip() else text)
            self.go_to(line + 1 if self.editor.text().strip() != text.strip() else line)

    def compare(self) -> None:
        """Show the file as it is now beside what was typed, and let the operator choose."""
        if self.work.conflict is not None and not self._comparing:
            self._comparing = True
            self._link.spawn("compare the policy", self._compare())

    async def _compare(self) -> None:
        try:
            disk = self.work.conflict
            if disk is None:
                return
            answer = await compare(self.window(), disk.text, self.editor.text())
            if answer == TAKE:
                self.work.take_disk()
            elif answer == KEEP:
                self.work.keep_mine()
        finally:
            self._comparing = False

    # What happens

    def _edited(self) -> None:
        self.work.edited()
        self.time_machine.show_edited()
        if self.work.found is None:
            self.editor.show_faults({})

    def _show_text(self, text: str) -> None:
        line = self.editor.current_line()
        if self.work.base is not None and self.editor.text():
            # As one step of the undo history: what was typed before can still be brought back.
            self.editor.replace_text(text)
            self.editor.go_to(line, False)
        else:
            self.editor.show_text(text)
        self.time_machine.show_edited()
        self._go_to_wanted()

    def _go_to_wanted(self) -> None:
        line, self._wanted_line = self._wanted_line, 0
        if line:
            self.go_to(line)

    def _show_check(self, checked: PolicyCheck) -> None:
        found = placed(checked, self.editor.text())
        self.check.show_check(found, self.editor.text())
        self.examples.show_check(found)
        self.editor.show_faults({one.line: bare_message(one.message) for one in found.problems if one.line})
        faults = len(found.problems) or (0 if found.ok else 1)
        self.tabs.set_words("check", f"Check {faults}" if faults else "Check")
        count = len(found.examples)
        self.tabs.set_words("examples", f"Examples {count}" if count else "Examples")

    def _pending(self) -> list[str]:
        return self._state.policy.pending if self._state.policy is not None else []

    def _restore(self, text: str) -> None:
        """The accepted text, as one step of the undo history; it holds already, so nothing is signed."""
        self.editor.replace_text(text)
        self.editor.setFocus()

    def _show_stand(self) -> None:
        work, found = self.work, self.work.found
        pending = self._pending()
        self.accepted.show_state(work.conflict or work.base, pending)
        self.tabs.set_words("accepted", self.accepted.tab_words(pending))
        faults = 0 if found is None or found.ok else max(1, len(found.problems))
        if work.base is None:
            stand, tone, off = "Reading the policy…", "text3", _NOT_READ
        elif work.saving:
            stand, tone, off = "Saving…", "text2", "It is being saved."
        elif not work.dirty:
            stand, tone, off = "Saved; this is in force", "text3", "There is nothing to save."
            if not work.base.text.strip():
                stand = "Empty: the built-in default is in force"
            if pending:
                stand, tone = stand_words(pending), "warn"
            if work.base.problem:
                stand, tone = "As on the disk, which is broken", "warn"
        else:
            stand, tone, off = "Edited, not in force", "warn", ""
        if work.base is not None and work.dirty and faults:
            stand, tone = f"{plural(faults, 'fault')}: cannot be saved", "fail"
            off = "The policy has a fault: see Check."
        if work.conflict is not None and not work.saving:
            off = "The file was changed by another program: compare first."
        self.stand.setText(stand)
        self.stand.set_tone(tone)
        self.why_not_saved = off
        self._acts.save.refresh()
        self.why.set_edited(work.dirty)
        self._show_banner()

    def _show_banner(self) -> None:
        disk = self.work.conflict
        if disk is not None:
            fact = "policy.toml was changed by another program meanwhile."
            detail = "Yours was begun from an older file and is not saved."
            if self.banner.words() != f"{fact} {detail}" or not self.banner.isVisible():
                self.banner.say("warn", fact, detail, (("compare", "Compare…"),))
        elif self.banner.kind == "warn":
            self.banner.hide()

    def _say_failed(self, what: str, next_step: str) -> None:
        self.banner.say("fail", what, next_step)

    def _saved(self) -> None:
        self.banner.hide()
        self._nav.toast("The policy is saved and in force")

    def _find_typed(self, words: str) -> None:
        if words:
            cursor = self.editor.textCursor()
            cursor.setPosition(cursor.selectionStart())
            self.editor.setTextCursor(cursor)
            self.editor.find_next(words)

    # The profile and the file

    def _control_changed(self) -> None:
        self.show_state()
        self._show_stand()
        if self.isVisible():
            self.work.read()

    def show_state(self) -> None:
        """Show the profile that holds, and where the file is."""
        policy = self._state.policy
        if policy is None:
            return
        self.profile.choose(policy.profile.value)
        self.profile.setAccessibleDescription(PROFILE_WORDS[policy.profile])
        self.path.set_text(policy.path or "the built-in default")
        self.folder.setVisible(bool(policy.path))

    def _choose_profile(self, profile: str) -> None:
        self.profile_chosen.emit(Profile(profile))
        # The choice holds when the service says so; until then the old one is shown.
        self.show_state()

    def _open_folder(self) -> None:
        policy = self._state.policy
        if policy is not None and policy.path:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(Path(policy.path).parent)))

    def changeEvent(self, event: QEvent) -> None:
        """Take the other mode's colours."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "_colors"):
            self._colors.refresh()

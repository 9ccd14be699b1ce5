"""The time machine: what the edited policy would have said of everything that the journal has."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.items.table_model import Cell, Column, Kind, RowStyle, TableModel
from app.items.table_view import TableView
from app.query import Query
from app.records.decision import plan_word
from app.screens.screen import Navigator
from app.screens.targets import OpenEntry
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import clock, count_words, plural, short_clock
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.badges import Chip
from app.widgets.banner import Notice
from app.widgets.empty_state import EmptyState
from app.widgets.labels import Label, Link
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.progress import Progress
from core.errors import QuarterdeckError
from core.policy.models import Answer, Trial, TrialRow
from core.text import escape_hidden

MOST_ROWS = 1_000


def _human(row: TrialRow) -> str | Cell:
    return Cell(row.human, tone="fail" if row.human == "denied" else "") if row.human else "—"


COLUMNS: tuple[Column[TrialRow], ...] = (
    Column("time", "Time", Kind.TIME, 106, cell=lambda row: short_clock(row.time), sort=attrgetter("time")),
    Column("device", "Device", Kind.NAME, 100, cell=attrgetter("device")),
    Column("tool", "Tool", Kind.MONO, 104, stretch=True, cell=attrgetter("tool")),
    Column("was", "Was", Kind.PLAN, 76, cell=lambda row: plan_word(row.was)),
    Column("now", "Now", Kind.PLAN, 76, cell=lambda row: plan_word(row.now)),
    Column("human", "Human", Kind.TEXT, 76, cell=_human),
    Column("rule", "Rule", Kind.MONO, 130, drop=1, cell=lambda row: row.rule or "profile"),
    Column(
        "summary", "What it does", Kind.TEXT, 220, drop=2,
        cell=lambda row: escape_hidden(row.summary, keep_lines=False),
    ),
)  # fmt: skip


def _style(row: TrialRow) -> RowStyle:
    """What a person denied then and would run now is tinted."""
    against = row.now is Answer.ALLOW and row.human == "denied"
    return RowStyle(tint="fail_tint" if against else "")


FILTERS: tuple[tuple[str, str, Callable[[TrialRow], bool]], ...] = (
    ("all", "All", lambda row: True),
    ("allow", "Would run", lambda row: row.now is Answer.ALLOW),
    ("ask", "Would ask", lambda row: row.now is Answer.ASK),
    ("deny", "Denied", lambda row: row.now is Answer.DENY),
    ("against", "A person said no", lambda row: row.now is Answer.ALLOW and row.human == "denied"),
)


def trial_words(trial: Trial) -> str:
    """`Would have allowed 412, asked 31, denied 2.`"""
    return (
        f"Would have allowed {count_words(trial.allowed)}, asked {count_words(trial.asked)}, "
        f"denied {count_words(trial.denied)}."
    )


def against_words(trial: Trial) -> str:
    """What of the allowed a person denied then; empty when nothing."""
    count = trial.allowed_but_denied_by_human
    if not count:
        return ""
    return f"{count_words(count)} of the allowed {'was' if count == 1 else 'were'} denied by a human then."


def glimpses_words(trial: Trial) -> str:
    """`1,240 live pictures not counted.`, and how many would be refused; empty when there is none."""
    if not trial.glimpses:
        return ""
    words = f"{plural(trial.glimpses, 'live picture')} not counted"
    refused = trial.glimpses_refused
    return f"{words}; {count_words(refused)} of them would be refused." if refused else f"{words}."


class SimulationTab(QWidget):
    """Runs the text over the journal and lists what would be answered otherwise.

    Signals:
        rule_wanted(rule): show this rule in the editor.
        ran: a trial came back.
    """

    rule_wanted = Signal(str)
    ran = Signal()

    def __init__(
        self, state: AppState, link: ConsoleLink, nav: Navigator, text: Callable[[], str], run: Action
    ) -> None:
        """`run` shows this tab and starts it."""
        super().__init__()
        self._state, self._link, self._nav, self._text = state, link, nav, text
        self._tried = ""
        self._trial: Trial | None = None
        self._rows: dict[str, TrialRow] = {}
        self._problem = ""
        self._trying = Query(self, link, self._show_trial, self._say_failed, "run the policy")
        self._sent = ""
        self.sentence = Label("", "step", wrap=True)
        self.against = Label("", "head", "fail", wrap=True)
        self.more = Label("", tone="text2", wrap=True)
        self.glimpses = Label("", tone="text2", wrap=True)
        self.stale = Notice("note", "The text was edited since.", "Run it again for what stands there now.")
        self.run = ActionButton(run, "primary", "Run over the journal")
        self.progress = Progress("Time machine", cancellable=True)
        self.progress.cancelled.connect(self.cancel)
        self.chips = {key: Chip(words, checkable=True) for key, words, _ in FILTERS}
        self.table = TableView(
            TableModel(COLUMNS, lambda row: str(row.seq), _style), "Commands that would be answered otherwise"
        )
        self.details = TrialDetails()
        self.details.entry_wanted.connect(lambda seq: nav.open("journal", OpenEntry(seq)))
        self.details.rule_wanted.connect(self.rule_wanted)
        self.table.current_changed.connect(lambda key: self.details.show_row(self._rows.get(key)))
        self.table.opened.connect(self._open)
        state.work_changed.connect(self._show_work)
        self._build()
        self._show()

    def _build(self) -> None:
        words = vbox(margins=(SPACE.pane, 14, SPACE.pane, 10), spacing=SPACE.small)
        line = hbox((self.sentence, 1), (self.run, 0, Qt.AlignmentFlag.AlignTop), spacing=SPACE.medium)
        words.addLayout(line)
        for widget in (self.against, self.more, self.glimpses, self.progress, self.stale):
            words.addWidget(widget)
        self._filters = QWidget()
        self._filters.setAccessibleName("Which changes are shown")
        row = hbox(parent=self._filters, margins=(SPACE.pane, 0, SPACE.pane, 8), spacing=SPACE.snug)
        for key, chip in self.chips.items():
            chip.setAutoExclusive(True)
            row.addWidget(chip)
            chip.setChecked(key == "all")
            chip.toggled.connect(lambda on: self._show_rows() if on else None)
        row.addStretch(1)
        column = vbox(words, self._filters, (self.table, 1), self.details, parent=self)
        self._rest = EmptyState()
        column.addWidget(self._rest, 1)

    # Running

    @property
    def running(self) -> bool:
        """Whether a trial is under way."""
        return self._trying.loading

    def start(self) -> None:
        """Run the text as it stands; nothing is changed by it."""
        self._sent = text = self._text()
        self._problem = ""
        self._trying.load(lambda console: console.policy.backtest(text, MOST_ROWS))
        self._show()

    def _show_trial(self, trial: Trial) -> None:
        self._trial, self._tried = trial, self._sent
        self._show()
        self.ran.emit()

    def _say_failed(self, error: QuarterdeckError) -> None:
        self._problem = error.info.sentences
        self._show()

    def cancel(self) -> None:
        """The answer is not wanted any more."""
        if self.running:
            self._trying.cancel()
            self._problem = "The run was cancelled."
            self._show()

    def _show_work(self) -> None:
        done, total = self._state.work.get("try_policy", (0, 0))
        if self.running and total:
            words = f"Judged the commands of {count_words(done)} of {plural(total, 'entry', 'entries')}"
            self.progress.show_progress(done / total, words)

    def shown_keys(self) -> list[str]:
        """The rows as they are listed."""
        return list(self._rows)

    def show_edited(self) -> None:
        """Say whether the result is of the text as it stands."""
        self.stale.setVisible(self._trial is not None and self._text() != self._tried and not self.running)

    # Showing

    def _show(self) -> None:
        trial, running = self._trial, self.running
        if running:
            entries = self._state.journal.entries if self._state.journal is not None else 0
            self.progress.show_progress(
                None, f"Judging the commands of {plural(entries, 'entry', 'entries')}"
            )
        self.run.set_working("It is being run." if running else "")
        self.run.action.refresh()
        if not running and self.progress.cancel.hasFocus():
            self.run.setFocus(Qt.FocusReason.OtherFocusReason)
        self.progress.setVisible(running)
        self.run.set_words("Run again" if trial is not None else "Run over the journal")
        if trial is None:
            self.sentence.setText("What would this policy have said until today?")
            self.more.setText(
                "It is run over every command of the journal, as it stands in the editor, saved or not. "
                "Nothing is sent and nothing changes. Grants are left as they were."
            )
        else:
            self.sentence.setText(trial_words(trial))
            self.more.setText(_more_words(trial))
        against = against_words(trial) if trial is not None else ""
        self.against.setText(self._problem or against)
        self.against.setVisible(bool(self._problem or against))
        glimpses = glimpses_words(trial) if trial is not None else ""
        self.glimpses.setText(glimpses)
        self.glimpses.set_tone("warn" if trial is not None and trial.glimpses_refused else "text2")
        self.glimpses.setVisible(bool(glimpses))
        self.show_edited()
        self._show_rows()

    def _show_rows(self) -> None:
        known = self._trial.rows if self._trial is not None else []
        for key, words, fits in FILTERS:
            count = sum(map(fits, known))
            self.chips[key].set_words(f"{words} {count_words(count)}" if known else words)
            self.chips[key].setEnabled(bool(count) or key == "all")
            self.chips[key].setToolTip("" if self.chips[key].isEnabled() else "No command is of this kind.")
        chosen = next((fits for key, _, fits in FILTERS if self.chips[key].isChecked()), FILTERS[0][2])
        shown = [row for row in known if chosen(row)]
        self._rows = {str(row.seq): row for row in shown}
        self.table.show_rows(shown)
        self.table.fit_widths()
        has = bool(known)
        for widget in (self._filters, self.table):
            widget.setVisible(has)
        self._rest.setVisible(not has)
        if self._trial is None:
            line = "Commands that would be answered otherwise are listed here."
            self._rest.say("Nothing was judged yet.", line)
        elif not has:
            line = "Every command would be answered as it was."
            self._rest.say("No command would be answered otherwise.", line)
        self.details.show_row(self._rows.get(self.table.current_key()))

    def _open(self, key: str) -> None:
        if (row := self._rows.get(key)) is not None:
            self._nav.open("journal", OpenEntry(row.seq))


def _more_words(trial: Trial) -> str:
    judged = plural(trial.looked_at, "command")
    parts = [f"{judged} judged in {trial.took_s:.2f} s, {count_words(trial.changed)} answered otherwise."]
    if len(trial.rows) < trial.changed:
        parts.append(f"The newest {count_words(len(trial.rows))} of them are listed.")
    if trial.skipped:
        parts.append(
            f"{count_words(trial.skipped)} left out: judging them needs more than the journal has of them."
        )
    return " ".join(parts)


class TrialDetails(QWidget):
    """The chosen command below the table.

    Signals:
        entry_wanted(seq): look at its decision in the journal.
        rule_wanted(rule): show the rule that speaks of it now.
    """

    entry_wanted = Signal(int)
    rule_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._row: TrialRow | None = None
        self.setAccessibleName("The chosen command")
        self.head = Label("", "head", wrap=True)
        self.words = Label("", tone="text2", wrap=True, selectable=True)
        self.entry = Link("Open in the journal")
        self.entry.clicked.connect(self._want_entry)
        self.rule = Link("Show the rule")
        self.rule.clicked.connect(self._want_rule)
        links = hbox(self.entry, self.rule, STRETCH, spacing=SPACE.medium)
        vbox(
            self.head,
            self.words,
            links,
            parent=self,
            margins=(SPACE.pane, 10, SPACE.pane, 10),
            spacing=SPACE.tight,
        )
        self.hide()

    def show_row(self, row: TrialRow | None) -> None:
        """Show one command, or nothing."""
        self._row = row
        self.setVisible(row is not None)
        if row is None:
            return
        self.head.setText(escape_hidden(row.summary, keep_lines=False))
        then = f", and a person {row.human} it" if row.human else ""
        now = f"rule {row.rule}" if row.rule else "the profile"
        verb = {Answer.ALLOW: "lets it run", Answer.ASK: "asks", Answer.DENY: "denies it"}
        was = {Answer.ALLOW: "It ran", Answer.ASK: "It asked", Answer.DENY: "It was denied"}
        self.words.setText(
            f"{row.actor} asked {row.device} for {row.tool}, {clock(row.time)}. {was[row.was]}{then}; "
            f"now {now} {verb[row.now]}."
        )
        self.rule.setVisible(bool(row.rule))

    def _want_entry(self) -> None:
        if self._row is not None:
            self.entry_wanted.emit(self._row.seq)

    def _want_rule(self) -> None:
        if self._row is not None:
            self.rule_wanted.emit(self._row.rule)

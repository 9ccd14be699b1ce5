"""What was found in the policy's text: faults with their lines, and what came of each example."""

from __future__ import annotations

import re

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.items.table_view import Cell, Column, Kind, Row, TableView
from app.text import plural
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.labels import Label
from app.widgets.layouts import vbox
from app.widgets.section import SectionHead
from core.policy.models import PolicyCheck, PolicyProblem, PolicyWarning
from core.text import escape_hidden, hidden_characters

PROBLEM_COLUMNS: tuple[Column[Row], ...] = (
    Column("line", "Line", Kind.NUMBER, 56),
    Column("what", "What is wrong", Kind.TEXT, 240, stretch=True, tone="text"),
)
EXAMPLE_COLUMNS: tuple[Column[Row], ...] = (
    Column("rule", "Rule", Kind.MONO, 168),
    Column("example", "Example", Kind.TEXT, 96),
    Column("outcome", "What came of it", Kind.TEXT, 180, stretch=True),
)
MOST_HIDDEN = 50
MOST_SHOWN = 12
_KEY = re.compile(r": rule [^:]+: (?:[A-Za-z0-9_]+\.)*([A-Za-z0-9_-]+): ")
_WHERE = re.compile(r"^policy\.toml(?: line \d+)?(?: is not TOML)?: ")


def bare_message(message: str) -> str:
    """A problem's words without the file and line, which stand beside them."""
    bare = _WHERE.sub("", message)
    if "is not TOML" in message:
        bare = f"not TOML: {bare}"
    return escape_hidden(bare, keep_lines=False)


def precise_line(text: str, problem: PolicyProblem) -> int:
    """The line of the key that a problem names; where its rule begins when the key is not found there."""
    match = _KEY.search(problem.message)
    if match is None or problem.line < 1:
        return problem.line
    key = re.compile(rf"^\s*[\"']?{re.escape(match[1])}[\"']?\s*=")
    for number, line in enumerate(text.split("\n")[problem.line :], problem.line + 1):
        if line.lstrip().startswith("[["):
            break
        if key.match(line):
            return number
    return problem.line


def placed(found: PolicyCheck, text: str) -> PolicyCheck:
    """The same, each problem at the line of the very key it is about."""
    exact = [one.model_copy(update={"line": precise_line(text, one)}) for one in found.problems]
    return found.model_copy(update={"problems": exact})


def hidden_problems(text: str) -> list[PolicyProblem]:
    """Where the text has characters that are not seen, or not what they look like."""
    found = []
    for offset, name in hidden_characters(text)[:MOST_HIDDEN]:
        line = text.count("\n", 0, offset) + 1
        found.append(PolicyProblem(line=line, message=f"hidden or misleading character {name}"))
    return found


def _loose_words(warning: PolicyWarning) -> str:
    allows = f" It allows: {warning.slips!r}" if warning.slips else ""
    return f"{warning.about}: {warning.message}{allows}"


def _crossed(fault: str) -> Cell:
    words = escape_hidden(fault, keep_lines=False)
    return Cell(words, glyph="cross_octagon", tone="fail", tip=words)


class CheckTab(QWidget):
    """Faults of the text. Going through them with the arrows shows each in the editor; Enter goes there.

    Signals:
        line_wanted(line, go): show this line; with `go`, put the keyboard there.
    """

    line_wanted = Signal(int, bool)

    def __init__(self, check: Action) -> None:
        """`check` checks the text now."""
        super().__init__()
        self._check = check
        self._lines: dict[str, int] = {}
        self._messages: dict[str, str] = {}
        self.sentence = Label("", "step", wrap=True)
        self.more = Label("", tone="text2", wrap=True)
        self.table = TableView(PROBLEM_COLUMNS, "What is wrong with the policy", sortable=False)
        self.whole = Label("", tone="text2", wrap=True, selectable=True)
        self.table.current_changed.connect(lambda key: self._chosen(key, go=False))
        self.table.opened.connect(lambda key: self._chosen(key, go=True))
        self.table.clicked.connect(lambda _index: self._chosen(self.table.current_key(), go=False))
        words = vbox(self.sentence, self.more, margins=(SPACE.pane, 14, SPACE.pane, 10), spacing=SPACE.tight)
        found = QWidget()
        column = vbox(words, self.table, parent=found)
        detail = QVBoxLayout()
        # A label with a style sheet has no margins of its own.
        detail.setContentsMargins(SPACE.pane, 8, SPACE.pane, 12)
        detail.addWidget(self.whole)
        column.addLayout(detail)
        column.addStretch(1)
        self.place = ContentOrEmpty(found)
        vbox(self.place, parent=self, spacing=None)
        self.say_unknown()

    def say_unknown(self) -> None:
        """The text was not checked yet."""
        self.sentence.setText("Not checked yet.")
        self.more.setText("F5 checks now; while you type it is checked by itself.")
        self._show([], [])
        self.place.say(self.sentence.text(), self.more.text(), (self._check, "Check now", "check"))

    def show_check(self, found: PolicyCheck, text: str) -> None:
        """Show what was found in this text."""
        hidden = hidden_problems(text)
        loose = [PolicyProblem(line=one.line, message=_loose_words(one)) for one in found.warnings]
        if found.ok:
            rules, examples = plural(found.rules, "rule"), plural(len(found.examples), "example")
            holds = "holds" if len(found.examples) == 1 else "hold"
            self.sentence.setText("Nothing is wrong with this policy.")
            self.more.setText(f"{rules}, {examples} that {holds}.")
        else:
            self.sentence.setText(
                f"{plural(len(found.problems), 'fault')}: this cannot be saved."
                if found.problems
                else "This cannot be saved."
            )
            self.more.setText("Saved like this, everything would ask, and only denials would still count.")
        if hidden:
            self.more.setText(f"{self.more.text()} {plural(len(hidden), 'hidden character')}.")
        patterns = sum(bool(warning.slips) for warning in found.warnings)
        if patterns:
            lets = "lets" if patterns == 1 else "let"
            self.more.setText(f"{self.more.text()} {plural(patterns, 'pattern')} {lets} more through.")
        if others := len(found.warnings) - patterns:
            self.more.setText(f"{self.more.text()} {plural(others, 'other warning')}.")
        self._show(found.problems, [*loose, *hidden])

    def _show(self, problems: list[PolicyProblem], doubtful: list[PolicyProblem]) -> None:
        rows = []
        self._lines.clear()
        self._messages.clear()
        for number, one in enumerate([*problems, *doubtful]):
            key = f"p{number}"
            fault = number < len(problems)
            message = bare_message(one.message)
            self._lines[key], self._messages[key] = one.line, message
            mark = Cell(
                message, glyph="cross_octagon" if fault else "help_rhombus", tone="fail" if fault else "warn"
            )
            rows.append(Row(key, (str(one.line) if one.line else "—", mark), order=(one.line, None)))
        self.table.show_rows(rows)
        if rows:
            self.place.show_content()
        else:
            self.place.say(self.sentence.text(), self.more.text())
        self.table.setFixedHeight(self.table.row_height() * (min(len(rows), MOST_SHOWN) + 1) + 8)
        self._show_whole(self.table.current_key())

    def _show_whole(self, key: str) -> None:
        message = self._messages.get(key, "")
        self.whole.setText(message)
        self.whole.setVisible(bool(message))

    def _chosen(self, key: str, go: bool) -> None:
        self._show_whole(key)
        if line := self._lines.get(key, 0):
            self.line_wanted.emit(line, go)


class ExamplesTab(QWidget):
    """Every `match` and `not_match` of the text, and whether it holds.

    Signals:
        line_wanted(line, go): show the rule that begins there.
    """

    line_wanted = Signal(int, bool)

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[str, int] = {}
        self.head = SectionHead("Examples")
        self.table = TableView(EXAMPLE_COLUMNS, "Examples of the rules")
        self.table.current_changed.connect(lambda key: self._chosen(key, go=False))
        self.table.opened.connect(lambda key: self._chosen(key, go=True))
        words = vbox(self.head, margins=(SPACE.pane, 12, SPACE.pane, 10), spacing=None)
        shown = QWidget()
        vbox(words, (self.table, 1), parent=shown)
        self.place = ContentOrEmpty(shown)
        vbox(self.place, parent=self, spacing=None)
        self.show_check(PolicyCheck(ok=True))

    def show_check(self, found: PolicyCheck) -> None:
        """Show what came of the examples; those that fail first."""
        rows = []
        self._lines.clear()
        for place, one in sorted(enumerate(found.examples), key=lambda pair: (pair[1].ok, pair[0])):
            key = f"{one.rule}/{one.wanted}/{one.number}"
            self._lines[key] = one.line
            name = f"{'match' if one.wanted else 'not_match'} {one.number}"
            words = "matches" if one.wanted else "does not match"
            outcome = (
                Cell(f"{words}, as it must", glyph="check_disc", tone="ok") if one.ok else _crossed(one.fault)
            )
            rows.append(Row(key, (one.rule, name, outcome), order=(None, None, place if one.ok else -1)))
        self.table.show_rows(rows)
        if rows:
            self.place.show_content()
        else:
            self.place.say(
                "No rule has an example.",
                "Give a rule [[rule.match]] and [[rule.not_match]]: calls that it must, and must not, match. "
                "They are run at every check, and a policy whose example fails is not saved.",
            )
        failed = sum(not one.ok for one in found.examples)
        self.head.set_hint(f"{failed} of {len(found.examples)} fail" if failed else "all hold")

    def _chosen(self, key: str, go: bool) -> None:
        if line := self._lines.get(key, 0):
            self.line_wanted.emit(line, go)


__all__ = ["CheckTab", "ExamplesTab", "hidden_problems"]

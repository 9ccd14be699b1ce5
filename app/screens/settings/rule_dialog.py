"""A form for the common kinds of rules; what comes of it is TOML, shown before it is inserted."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from PySide6.QtWidgets import QWidget

from app.qt_loop import ended
from app.theme.tokens import SPACE
from app.widgets.buttons import Segmented
from app.widgets.code_view import CodeView
from app.widgets.dialog import Dialog
from app.widgets.fields import DropDown, Field, TextField
from app.widgets.labels import Label
from app.widgets.layouts import hbox
from core.errors import BadInput
from core.policy.policy_file import parse_policy

CONDITIONS = (
    ("equals", "is exactly"),
    ("one_of", "is one of (commas between)"),
    ("below", "is a path below"),
    ("pattern", "matches the expression"),
)
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class DraftRule:
    """What was filled in. Empty fields are left out of the rule."""

    decision: str = "ask"
    name: str = ""
    where: str = ""
    by_tag: bool = False
    tool: str = ""
    argument: str = ""
    condition: str = "equals"
    value: str = ""
    approvers: int = 1
    reason: str = ""
    taken: frozenset[str] = field(default_factory=frozenset)


def rule_id(draft: DraftRule) -> str:
    """The id that was typed, or one made of the rule's parts that no other rule has."""
    if draft.name.strip():
        return draft.name.strip()
    parts = [draft.decision, draft.where if draft.where != "*" else "", draft.tool, draft.argument]
    joined = _UNFIT.sub("-", "-".join(part.strip() for part in parts if part.strip()))
    base = re.sub(r"-{2,}", "-", joined).strip("-.")[:56]
    name, number = base or draft.decision, 2
    while name in draft.taken:
        name, number = f"{base}-{number}", number + 1
    return name


def rule_text(draft: DraftRule) -> str:
    """The rule as TOML."""
    lines = ["[[rule]]", f"id = {_text(rule_id(draft))}", f"decision = {_text(draft.decision)}"]
    if draft.where.strip() and draft.where.strip() != "*":
        lines.append(f"{'tag' if draft.by_tag else 'device'} = {_texts(draft.where)}")
    if draft.tool.strip():
        lines.append(f"tool = {_texts(draft.tool)}")
    if draft.decision == "ask" and draft.approvers > 1:
        lines.append(f"approvers = {draft.approvers}")
    if draft.reason.strip():
        lines.append(f"reason = {_text(draft.reason.strip())}")
    if draft.argument.strip() and draft.value.strip():
        lines.append(f"  [rule.parameters.{_key(draft.argument.strip())}]")
        if draft.condition == "one_of":
            values = ", ".join(_text(one.strip()) for one in draft.value.split(",") if one.strip())
            lines.append(f"  one_of = [{values}]")
        else:
            lines.append(f"  {draft.condition} = {_text(draft.value.strip())}")
    return "\n".join(lines) + "\n"


def rule_problem(draft: DraftRule) -> str:
    """What is wrong with the rule as it is filled in; empty when nothing is."""
    if draft.name.strip() in draft.taken and draft.name.strip():
        return f"There is a rule {draft.name.strip()} already."
    if bool(draft.argument.strip()) is not bool(draft.value.strip()):
        return "An argument needs both its name and its value."
    if draft.decision == "allow" and not (
        draft.tool.strip() or draft.where.strip() or draft.argument.strip()
    ):
        return "A rule that allows everything everywhere is not written here: name a tool or a device."
    try:
        parse_policy(rule_text(draft))
    except BadInput as error:
        return error.message
    return ""


def _text(value: str) -> str:
    # A JSON text is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _texts(value: str) -> str:
    parts = [part.strip() for part in value.split(",") if part.strip()]
    return _text(parts[0]) if len(parts) == 1 else "[" + ", ".join(map(_text, parts)) + "]"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def rule_ids(text: str) -> frozenset[str]:
    """The ids of the rules in a text, as far as they can be seen; the text may be broken."""
    return frozenset(re.findall(r"^\s*id\s*=\s*[\"']([^\"']+)[\"']", text, re.MULTILINE))


class RuleDialog(Dialog):
    """The form, the TOML that comes of it, Insert."""

    def __init__(self, window: QWidget, taken: frozenset[str], devices: list[str], tags: list[str]) -> None:
        super().__init__(
            window, "Insert a rule", "It is written at the end of the text; nothing is saved yet.", 600
        )
        self._taken = taken
        self.text = ""
        self.decision = Segmented(
            [("deny", "Deny"), ("ask", "Ask"), ("allow", "Allow")], "What the rule decides"
        )
        self.decision.choose("ask")
        self.by = Segmented([("device", "Devices"), ("tag", "Tag")], "By device or by tag")
        some = ", ".join((devices or ["lab-1"])[:2])
        self.where = TextField("Where", f"everywhere; or {some}, lab-*", mono=True)
        self._some_tags = ", ".join((tags or ["lab"])[:3])
        self.tool = TextField("Tool", "every tool; or shell_execute, write_file", mono=True)
        self.argument = TextField("Argument", "command", mono=True)
        self.condition = DropDown("Condition")
        for key, words in CONDITIONS:
            self.condition.addItem(words, key)
        self.value = TextField("Value", "uptime", mono=True)
        self.approvers = DropDown("Approvers")
        for number in range(1, 6):
            self.approvers.addItem("one operator" if number == 1 else f"{number} operators", number)
        self.reason = TextField("Reason", "Shown to the operator who decides")
        self.name_field = TextField("Id", "made of the rest", mono=True)
        self.preview = CodeView("The rule as TOML", most_lines=9, numbers=False)
        self._lay_out()
        for field_ in (self.where, self.tool, self.argument, self.value, self.reason, self.name_field):
            field_.textChanged.connect(self._show)
        self.decision.chosen.connect(self._show)
        self.by.chosen.connect(self._show)
        self.condition.currentIndexChanged.connect(self._show)
        self.approvers.currentIndexChanged.connect(self._show)
        self.add_answer("cancel", "Cancel")
        self.insert = self.add_answer("insert", "Insert", "primary")
        self._show()

    def _lay_out(self) -> None:
        def row(*widgets: tuple[QWidget, int]) -> None:
            holder = QWidget()
            line = hbox(parent=holder, spacing=SPACE.medium)
            for widget, stretch in widgets:
                line.addWidget(widget, stretch)
            self.add(holder)

        self._approvers_field = Field("Needs", self.approvers)
        row(
            (Field("Decision", self.decision), 0),
            (self._approvers_field, 1),
            (Field("Id", self.name_field), 2),
        )
        row((Field("Where", self.by), 0), (Field("Names or patterns", self.where), 1))
        row((Field("Tool", self.tool), 1))
        row(
            (Field("Argument", self.argument), 2),
            (Field("Condition", self.condition), 2),
            (Field("Value", self.value), 3),
        )
        row((Field("Reason", self.reason), 1))
        self.add(Label("What is inserted", "label", "text3"))
        self.add(self.preview)

    def draft(self) -> DraftRule:
        """What is filled in."""
        return DraftRule(
            decision=self.decision.current(),
            name=self.name_field.text(),
            where=self.where.text(),
            by_tag=self.by.current() == "tag",
            tool=self.tool.text(),
            argument=self.argument.text(),
            condition=str(self.condition.currentData()),
            value=self.value.text(),
            approvers=int(self.approvers.currentData()),
            reason=self.reason.text(),
            taken=self._taken,
        )

    def _show(self, *_args: object) -> None:
        draft = self.draft()
        self._approvers_field.setVisible(draft.decision == "ask")
        hint = self._some_tags if draft.by_tag else ""
        if hint:
            self.where.setPlaceholderText(f"everywhere; or {hint}")
        self.text = rule_text(draft)
        self.preview.show_text(self.text.rstrip("\n"))
        problem = rule_problem(draft)
        self.insert.set_off(problem)
        self.say(problem)


async def ask_for_rule(window: QWidget, text: str, devices: list[str], tags: list[str]) -> str:
    """Show the form; the rule as TOML, or nothing when the operator let it be."""
    sheet = RuleDialog(window, rule_ids(text), devices, tags)
    sheet.open(sheet.where)
    answer = await ended(sheet.finished)
    # Its fields are gone by now; what they made is kept beside them.
    return sheet.text if answer == "insert" else ""

"""Agents as a person sees it: the list, the details of one agent, and what is asked over them."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton

from app.items.table_view import TableView
from app.main import ConsoleApplication
from app.screens.agents.screen import AgentsScreen
from app.screens.targets import Target
from app.widgets.copyable_text import CopyableText
from app.widgets.dialog import Dialog
from app.widgets.fields import TextField
from app.widgets.labels import Label
from tests.gui.page import button_named, part_of, problem_in, visible

Part = TypeVar("Part")


class AgentsPage:
    """The screen in front."""

    def __init__(self, desk: ConsoleApplication, target: Target | None = None) -> None:
        desk.window.open("agents", target)
        screen = desk.window.current
        assert isinstance(screen, AgentsScreen)
        self.desk, self.screen = desk, screen

    # The list

    def rows(self) -> list[str]:
        """The agents as they stand in the list, a line each, with tabs between."""
        return rows_of(self.screen.table)

    def choose(self, agent: str) -> None:
        """Move the cursor to an agent."""
        assert self.screen.table.choose(agent)

    def filter(self, words: str) -> None:
        """Type into the field above the list."""
        self.screen.field.setFocus()
        self.screen.field.selectAll()
        QTest.keyClicks(self.screen.field, words)

    @property
    def detail(self) -> str:
        """The words beside the title."""
        return self.screen.head.detail.text()

    @property
    def in_place_of_the_list(self) -> str:
        """What stands there while no agent does; empty while one does."""
        return self.screen.place.words

    # The details

    @property
    def name(self) -> str:
        """The agent on show; empty for none."""
        return self.screen.panel.name.text() if self.screen.panel.isVisible() else ""

    @property
    def standing(self) -> str:
        """How it stands, as it is read aloud."""
        return self.screen.panel.standing.accessibleName()

    @property
    def problem(self) -> str:
        """What could not be done; empty while nothing went wrong."""
        label = self.screen.panel.problem
        return label.text() if label.isVisible() else ""

    def press(self, words: str) -> None:
        """Press a button of the details."""
        click(button_named(self.screen.panel, words))

    def is_on(self, words: str) -> bool:
        """Whether a button of the details can be pressed."""
        return bool(button_named(self.screen.panel, words).isEnabled())

    def tab(self, words: str) -> None:
        """Choose a part of the details."""
        click(part_of(self.screen.panel.tabs, words))

    def commands(self) -> list[str]:
        """What it asked for, a line each."""
        return rows_of(self.screen.panel.commands.table)

    def choose_command(self, call: str) -> None:
        """Move the cursor to a command."""
        assert self.screen.panel.commands.table.choose(call)

    def said(self) -> str:
        """What the agent said it would do."""
        detail = self.screen.panel.commands.detail
        return detail.said.accessibleName() if detail.said.isVisible() else detail.nothing_said.text()

    def sent(self) -> str:
        """What was sent, or asked for: head, effect, facts and arguments."""
        detail = self.screen.panel.commands.detail
        facts = [detail.sent_facts.value("Tool").text(), detail.sent_facts.value("Device").text()]
        parts = (detail.sent_head.title.text(), detail.effect.text(), *facts, detail.sent.toPlainText())
        return "\n".join(parts)

    def done(self) -> str:
        """What came of it."""
        detail = self.screen.panel.commands.detail
        why = detail.why.text() if detail.why.isVisible() else ""
        outcome = detail.outcome.toPlainText() if detail.outcome.isVisible() else ""
        return "\n".join((detail.state.accessibleName(), detail.answer.text(), why, outcome))

    def tickets(self) -> list[str]:
        """Its open tickets, a line each."""
        return rows_of(self.screen.panel.tickets.table)

    def facts(self) -> dict[str, str]:
        """Its limits and connections, by their labels."""
        tab = self.screen.panel.limits
        shown = (*tab.limits.facts, *tab.connections.facts)
        return {fact.label: fact.value for fact in shown}

    # What is asked

    def sheet(self) -> Dialog:
        """The dialog in front."""
        sheets = visible(self.desk.window, Dialog)
        assert sheets
        return sheets[-1]

    def type(self, field: str, words: str) -> None:
        """Type into a field of the dialog."""
        [found] = [one for one in visible(self.sheet(), TextField) if one.accessibleName() == field]
        found.selectAll()
        QTest.keyClicks(found, words)

    def answer(self, words: str) -> None:
        """Press a button of the dialog."""
        buttons = [one for one in visible(self.sheet(), QAbstractButton) if one.text() == words]
        assert len(buttons) == 1, words
        click(buttons[0])

    def press_in_sheet(self, name: str) -> None:
        """Press a button of the dialog by its accessible name."""
        click(button_named(self.sheet(), name))

    @property
    def words_in_sheet(self) -> str:
        """All that the dialog says."""
        return "\n".join(label.text() for label in visible(self.sheet(), Label))

    def answer_is_on(self, words: str) -> bool:
        """Whether a button of the dialog can be pressed."""
        return bool(button_named(self.sheet(), words).isEnabled())

    @property
    def problem_in_sheet(self) -> str:
        """What the dialog says is wrong."""
        return problem_in(self.sheet())

    def to_copy(self) -> dict[str, str]:
        """What the dialog offers to copy, by its label."""
        boxes = visible(self.sheet(), CopyableText)
        return {box.box.accessibleName(): box.text() for box in boxes}


def rows_of(table: TableView) -> list[str]:
    """The rows of a table as they are copied."""
    return [table.rows_model.words(row) for row in range(table.rows_model.rowCount())]


def click(button: QAbstractButton) -> None:
    """Press with the pointer."""
    assert button.isEnabled(), button.text()
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)

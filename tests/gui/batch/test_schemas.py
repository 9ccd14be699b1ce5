"""Batch with tools whose schemas take long: nothing stands still, and every step is judged in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtTest import QTest

from app.screens.batch.document import content_of
from app.screens.batch.screen import BatchScreen
from app.theme.theme import Theme
from core.batch.models import Batch
from core.schema_forms import validator
from tests.fakes.batch_screen import batch_of
from tests.fakes.console import FakeConsole
from tests.fakes.qt_turns import most_calls_a_turn
from tests.fakes.window import open_frame, opened_screens, seen

# So many that they are read in the process for slow schemas.
PARTS = {f"d{number}": {"type": "string", "maxLength": number} for number in range(800)}
SHELL: dict[str, Any] = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "integer", "maximum": 600}},
    "required": ["command"],
}
LARGE = {**SHELL, "$defs": PARTS}
SECRET = {**SHELL, "properties": {**SHELL["properties"], "token": {"$ref": "#/$defs/secret"}}}
MANY = 60
# About three times what was counted; what the schema adds is a tenth of it.
MOST_IN_A_TURN, MOST_ADDED = 65_000, 20_000


def console_with(shell_execute: dict[str, Any], **more: dict[str, Any]) -> FakeConsole:
    console = FakeConsole()
    schemas = {"shell_execute": shell_execute, **more}
    for tools in console.tools_of.values():
        for place, tool in enumerate(tools):
            if (schema := schemas.get(tool.tool_name)) is not None:
                tools[place] = tool.model_copy(update={"input_schema": schema})
    return console


def batch(*parameters: dict[str, Any], tool: str = "shell_execute") -> Batch:
    steps = [{"id": f"s{n}", "tool": tool, "with": given} for n, given in enumerate(parameters)]
    return Batch.model_validate({"name": "Many", "targets": "name:lab-lnx-01", "steps": steps})


def problems(screen: BatchScreen) -> list[str]:
    rows = screen.notes.rows(screen.editor.content.steps, screen.shelf.offer, None, (0, ""))
    return [row.note.problem for row in rows if row.step is not None]


async def most_calls_in_a_turn(screen: BatchScreen, tool: str) -> int:
    """The calls of the longest turn while three steps of a tool are opened, judged and typed in."""
    given: list[dict[str, Any]] = [{"command": "ls", "timeout": 700}, {"command": "df"}, {"timeout": 1}]
    with most_calls_a_turn(MOST_IN_A_TURN) as turns:
        screen.editor.load(content_of(batch(*given, tool=tool)))
        await seen(lambda: [bool(words) for words in problems(screen)] == [True, False, True])
        screen.step.focus_first()
        QTest.keyClicks(screen.step.form.inputs()[0], "x")
        await seen(lambda: screen.step.form.is_checked)
    return turns.most


async def test_steps_of_a_slow_schema_are_judged_and_the_window_goes_on(theme: Theme, tmp_path: Path) -> None:
    console = console_with(SHELL, write_file=LARGE)

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk)
        validator.compiled_schemas.clear()
        # Another batch is shown anyway, and takes its calls: what counts is what the schema adds.
        usual = await most_calls_in_a_turn(screen, "shell_execute")
        slow = await most_calls_in_a_turn(screen, "write_file")
        assert slow < usual + MOST_ADDED
        # The last letter that was typed has the step judged once more.
        await seen(lambda: problems(screen)[0].startswith("timeout must be at most 600"))
        assert problems(screen)[2] == "command is required."


async def test_very_many_steps_are_judged_a_few_at_a_time(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Any] = []
    known = validator.Validator.errors_within

    def slow(self: validator.Validator, value: Any, most_steps: int) -> Any:
        judged.append(value)
        QTest.qSleep(5)
        return known(self, value, most_steps)

    async with open_frame(theme, tmp_path, console_with(SHELL)) as desk:
        screen = await batch_of(desk)
        await seen(lambda: not screen.shelf.offer.reading)
        monkeypatch.setattr(validator.Validator, "errors_within", slow)
        screen.editor.load(
            content_of(batch(*({"command": f"echo {n}", "timeout": 601} for n in range(MANY))))
        )
        assert len(judged) < MANY / 2
        await seen(lambda: all(problems(screen)))
        assert len(problems(screen)) == MANY


async def test_a_run_is_asked_for_while_steps_are_still_checked(theme: Theme, tmp_path: Path) -> None:
    """What the window knows of the arguments decides nothing: the service plans and validates by itself."""
    console = console_with(LARGE)

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, batch({"command": "ls"}))
        opened = opened_screens(desk)
        await seen(lambda: screen.head.run.isEnabled())
        screen.editor.load(content_of(batch({"command": "uptime"})))
        assert not screen.step.form.is_checked
        await seen(lambda: screen.head.run.isEnabled())
        screen.head.run.click()
        await seen(lambda: opened)
        assert [step.parameters for step in console.calls_of("start_run")[0]["batch"].steps] == [
            {"command": "uptime"}
        ]  # type: ignore[union-attr]  # one step


async def test_text_that_is_not_sent_is_known_without_any_schema(theme: Theme, tmp_path: Path) -> None:
    console = console_with({**LARGE, "properties": {**SHELL["properties"], "more": {}}})

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, batch({"command": "ls"}))
        row = screen.step.form.row(("more",))
        assert row is not None
        QTest.keyClicks(row.own_inputs()[0], "[1,")
        assert screen.step.unsent().startswith("more is not JSON yet")
        screen.head.run.click()
        assert "start_run" not in console.asked
        assert screen.notice.isVisible()


async def test_a_secret_behind_a_reference_is_masked_in_the_steps_and_their_text(
    theme: Theme, tmp_path: Path
) -> None:
    hidden = {**LARGE, **SECRET, "$defs": {**PARTS, "secret": {"type": "string", "writeOnly": True}}}

    async with open_frame(theme, tmp_path, console_with(hidden)) as desk:
        screen = await batch_of(desk, batch({"command": "ls", "token": "hunter2"}))
        [step] = screen.editor.content.steps
        assert screen.notes.secrets(step, screen.shelf.offer.find("shell_execute")) == {"token"}
        assert "hunter2" not in problems_and_words(screen)


def problems_and_words(screen: BatchScreen) -> str:
    rows = screen.notes.rows(screen.editor.content.steps, screen.shelf.offer, None, (0, ""))
    return "\n".join(f"{row.note.summary} {row.note.problem}" for row in rows)

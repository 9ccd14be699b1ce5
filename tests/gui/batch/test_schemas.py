"""Batch with tools whose schemas take long: nothing stands still, and every step is judged in the end."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtTest import QTest

from app.forms.validator import validator_process
from app.main import ConsoleApplication
from app.screens.batch.document import content_of
from app.screens.batch.screen import BatchScreen
from app.theme.theme import Theme
from core.batch.models import Batch
from core.schema_forms import validator
from tests.fakes import pace
from tests.fakes.batch_screen import Recorder, batch_of, opened_screens
from tests.fakes.pace import within
from tests.fakes.window import play_frame, seen
from tests.fakes.work_watch import WorkWatch

# As many as a device may send, where it is measured how long the loop stands; else enough for the process.
PARTS = {
    f"d{number}": {"type": "string", "maxLength": number} for number in range(3_800 if pace.strict else 800)
}
SHELL: dict[str, Any] = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "integer", "maximum": 600}},
    "required": ["command"],
}
LARGE = {**SHELL, "$defs": PARTS}
SECRET = {**SHELL, "properties": {**SHELL["properties"], "token": {"$ref": "#/$defs/secret"}}}
MANY = 60


def console_with(shell_execute: dict[str, Any], **more: dict[str, Any]) -> Recorder:
    console = Recorder()
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


async def longest_stall(desk: ConsoleApplication, screen: BatchScreen, tool: str, number: int) -> float:
    """How long the loop stands while three steps of a tool are opened, judged and typed in; in seconds."""
    given: list[dict[str, Any]] = [
        {"command": "ls", "timeout": 700 + number},
        {"command": f"df {number}"},
        {"timeout": 1},
    ]
    watch = WorkWatch()
    await asyncio.sleep(5 * WorkWatch.EVERY)
    watch.take()
    screen.editor.load(content_of(batch(*given, tool=tool)))
    await seen(lambda: [bool(words) for words in problems(screen)] == [True, False, True])
    screen.step.focus_first()
    await asyncio.sleep(5 * WorkWatch.EVERY)
    QTest.keyClicks(screen.step.form.inputs()[0], "x")
    await seen(lambda: screen.step.form.is_checked)
    await asyncio.sleep(5 * WorkWatch.EVERY)
    watch.close()
    return watch.take() / 1000


def test_steps_of_a_slow_schema_are_judged_and_the_window_goes_on(theme: Theme, tmp_path: Path) -> None:
    console = console_with(SHELL, write_file=LARGE)

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await batch_of(desk)
        for number, one in enumerate(within(0.05, clock=time.thread_time)):
            with one:
                # Another batch is shown anyway, and takes its time: what counts is what the schema adds.
                validator._cache.clear()
                if number:
                    validator_process().stop()
                usual = await longest_stall(desk, screen, "shell_execute", number)
                one.seconds = await longest_stall(desk, screen, "write_file", number) - usual
        # The last letter that was typed has the step judged once more.
        await seen(lambda: problems(screen)[0].startswith("timeout must be at most 600"))
        assert problems(screen)[2] == "command is required."

    play_frame(theme, tmp_path, console, scenario)


def test_very_many_steps_are_judged_a_few_at_a_time(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Any] = []
    known = validator.Validator.errors_within

    def slow(self: validator.Validator, value: Any, most_steps: int) -> Any:
        judged.append(value)
        QTest.qSleep(5)
        return known(self, value, most_steps)

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await batch_of(desk)
        await seen(lambda: not screen.shelf.offer.reading)
        monkeypatch.setattr(validator.Validator, "errors_within", slow)
        screen.editor.load(
            content_of(batch(*({"command": f"echo {n}", "timeout": 601} for n in range(MANY))))
        )
        assert len(judged) < MANY / 2
        await seen(lambda: all(problems(screen)))
        assert len(problems(screen)) == MANY

    play_frame(theme, tmp_path, console_with(SHELL), scenario)


def test_a_run_is_asked_for_while_steps_are_still_checked(theme: Theme, tmp_path: Path) -> None:
    """What the window knows of the arguments decides nothing: the service plans and validates by itself."""
    console = console_with(LARGE)

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await batch_of(desk, batch({"command": "ls"}))
        opened = opened_screens(desk)
        await seen(lambda: screen.head.run.isEnabled())
        screen.editor.load(content_of(batch({"command": "uptime"})))
        assert not screen.step.form.is_checked
        await seen(lambda: screen.head.run.isEnabled())
        screen.head.run.click()
        await seen(lambda: opened)
        assert [step.parameters for step in console.started[0][0].steps] == [{"command": "uptime"}]  # type: ignore[union-attr]  # one step

    play_frame(theme, tmp_path, console, scenario)


def test_text_that_is_not_sent_is_known_without_any_schema(theme: Theme, tmp_path: Path) -> None:
    console = console_with({**LARGE, "properties": {**SHELL["properties"], "more": {}}})

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await batch_of(desk, batch({"command": "ls"}))
        row = screen.step.form.row(("more",))
        assert row is not None
        QTest.keyClicks(row.own_inputs()[0], "[1,")
        assert screen.step.unsent().startswith("more is not JSON yet")
        screen.head.run.click()
        assert not console.started
        assert screen.notice.isVisible()

    play_frame(theme, tmp_path, console, scenario)


def test_a_secret_behind_a_reference_is_masked_in_the_steps_and_their_text(
    theme: Theme, tmp_path: Path
) -> None:
    hidden = {**LARGE, **SECRET, "$defs": {**PARTS, "secret": {"type": "string", "writeOnly": True}}}

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await batch_of(desk, batch({"command": "ls", "token": "hunter2"}))
        [step] = screen.editor.content.steps
        assert screen.notes.secrets(step, screen.shelf.offer.find("shell_execute")) == {"token"}
        assert "hunter2" not in problems_and_words(screen)

    play_frame(theme, tmp_path, console_with(hidden), scenario)


def problems_and_words(screen: BatchScreen) -> str:
    rows = screen.notes.rows(screen.editor.content.steps, screen.shelf.offer, None, (0, ""))
    return "\n".join(f"{row.note.summary} {row.note.problem}" for row in rows)

"""Batch: what the plan and the policy say, the form and the text that say the same, secrets on neither."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.screens.batch.text import why_not
from app.theme.theme import Theme
from core.batch.models import PlannedCell
from core.policy.models import Answer, Profile
from tests.fakes.batch_screen import batch_of, risky
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices
from tests.fakes.window import open_frame, seen

Key = Qt.Key


async def test_the_plan_says_what_runs_asks_and_is_denied_and_its_counts_stand_on_the_steps(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk, risky("os:linux tag:lab,prod"))
        await seen(lambda: screen.dock.plan is not None)
        assert screen.dock.counts.words() == "10 run, 10 ask"
        rows = screen.steps.view.steps.items
        assert [row.note.counts for row in rows] == [{"runs": 10}, {"asks": 10}]
        assert "nothing was sent" in screen.dock.state.text()
        desk.window.choose_profile(Profile.OBSERVE)
        await seen(lambda: screen.dock.counts.words() == "10 run, 10 denied")
        model = screen.dock.matrix.plan_model
        assert "Profile observe: reads only." in model.why(0)
        screen.dock.as_text.click()
        copied = QApplication.clipboard().text()
        assert "build-lnx-03 (Production)\truns\tdenied\tclean: Profile observe: reads only." in copied


async def test_planning_and_judging_send_nothing(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, risky("name:this-computer"))
        await seen(lambda: screen.dock.plan is not None and "explain" in console.asked)
        assert not {"call", "start_run", "decide"} & set(console.asked)


async def test_above_fifty_devices_a_plan_is_made_on_f5_only(theme: Theme, tmp_path: Path) -> None:
    one = make_devices()[10]
    console = FakeConsole([one.model_copy(update={"name": f"d{number:03}"}) for number in range(60)])

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, risky("name:d*"))
        assert not screen.planner.busy
        assert "F5" in screen.dock.nothing.words()
        QTest.keyClick(desk.window, Key.Key_F5)
        await seen(lambda: screen.dock.plan is not None and len(screen.dock.plan.devices) == 60)


async def test_the_open_step_is_judged_while_it_is_typed(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk, risky("name:this-computer", "true"))
        screen.editor.choose(screen.editor.content.steps[1].key)
        judged = screen.step.judgement
        await seen(lambda: judged.decision is not None)
        screen.step.focus_first()
        focus = QApplication.focusWidget()
        assert focus is not None
        QTest.keyClick(focus, Key.Key_End)
        QTest.keyClicks(focus, "; rm -rf /srv")
        await seen(lambda: "Deletes recursively" in judged.text())
        assert judged.decision is not None
        assert judged.decision.answer is Answer.ASK
        assert "Profile guarded" in judged.text()
        for _ in range(30):
            QTest.keyClick(focus, Key.Key_Backspace)
        await seen(lambda: "Not judged yet" in judged.text())
        assert "command" in judged.text()


async def test_what_the_form_says_is_in_the_text_and_the_other_way_round(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk, risky("name:this-computer", "true"))
        screen.editor.choose(screen.editor.content.steps[1].key)
        screen.step.focus_first()
        focus = QApplication.focusWidget()
        assert focus is not None
        QTest.keyClick(focus, Key.Key_End)
        QTest.keyClicks(focus, " # x")
        assert '"command": "true # x"' in screen.text.json.text()
        screen.text.show_notation("yaml")
        assert 'command: "true # x"' in screen.text.yaml.text()
        screen.step.timeout.setFocus()
        QTest.keyClicks(screen.step.timeout, "15")
        assert "timeout: 15" in screen.text.yaml.text()
        QTest.keyClicks(screen.step.timeout, "x")
        assert screen.step.timeout_field.error
        assert screen.editor.content.steps[1].timeout == 15


async def test_words_of_a_device_are_never_taken_for_markup(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    tools = console.tools_of["this-computer"]
    tools[0] = tools[0].model_copy(update={"description": "<b>Harmless</b><img src=x>"})

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk)
        model = screen.tools.list.tools
        place = next(n for n, row in enumerate(model.items) if row.offered and row.offered.tool == tools[0])
        tip = model.data(model.index(place, 0), Qt.ItemDataRole.ToolTipRole)
        assert "&lt;b&gt;Harmless" in tip


async def test_secrets_are_neither_on_the_card_nor_in_its_words(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    tools = console.tools_of["this-computer"]
    schema = {
        "type": "object",
        "properties": {"token": {"type": "string", "format": "password"}, "deep": {"type": "object"}},
    }
    tools[0] = tools[0].model_copy(update={"input_schema": schema})

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk)
        secret = {"token": "hunter2", "deep": {"password": "hunter2"}}
        screen.editor.add(tools[0].tool_name, parameters=secret)
        row = screen.steps.view.steps.items[0]
        assert row.note.summary == "token •••, deep •••"
        assert "hunter2" not in str(screen.steps.view.steps.data(screen.steps.view.steps.index(0, 0)))


def test_reasons_of_a_plan_name_their_steps() -> None:
    def cell(step: str, outcome: str, why: str = "") -> PlannedCell:
        return PlannedCell.model_validate({"device": "d", "step": step, "outcome": outcome, "why": why})

    mixed = [
        cell("look", "invalid", "info_type is required."),
        cell("ask", "asks", "The policy asks."),
        cell("clean", "invalid", "command is required."),
        cell("sweep", "invalid", "command is required."),
    ]
    assert why_not(mixed) == "look: info_type is required. clean, sweep: command is required."
    away = [cell("look", "offline", "d is offline"), cell("clean", "offline", "d is offline")]
    assert why_not(away) == "d is offline."
    assert why_not([cell("look", "runs")]) == ""

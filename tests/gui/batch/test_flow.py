"""Batch: conditions, retries, expectations, recovery, questions and the batch itself, edited and undone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit

from app.screens.batch.document import (
    BatchDocument,
    DraftStep,
    Steps,
    content_of,
    doubled,
    grouped,
    inserted,
    moved,
    moved_by_one,
    recovering,
    removed,
    switched,
    tidy,
    units_of,
)
from app.screens.batch.inputs_dialog import InputsDialog
from app.screens.targets import OpenBatch, OpenRun
from app.theme.theme import Theme
from core.batch.batch_file import batch_to_yaml, read_batch
from core.batch.models import ApprovalStep, Batch, Parallel, Step
from core.schema_forms.json_values import UNSET
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame, opened_screens, seen
from tests.gui.batch.page import BatchPage, hidden_in_text
from tests.gui.page import link_in, problem_in

Key, Mod = Qt.Key, Qt.KeyboardModifier


def three() -> Batch:
    steps = [
        {"id": "a", "tool": "get_system_info", "with": {"info_type": "memory"}},
        {"id": "b", "tool": "list_processes"},
        {"id": "c", "tool": "shell_execute", "with": {"command": "true"}},
    ]
    return Batch.model_validate({"name": "Three", "targets": "name:this-computer", "steps": steps})


# Steps as plain data


@st.composite
def some_steps(draw: st.DrawFn) -> Steps:
    kinds = draw(st.lists(st.tuples(st.integers(-1, 2), st.sampled_from("srra")), min_size=1, max_size=9))
    return tidy(
        DraftStep(
            f"s{place}",
            "" if kind == "a" else "tool",
            group=group,
            recovers=kind == "r",
            flow={"approval": {"question": "Go on?"}} if kind == "a" else {},
        )
        for place, (group, kind) in enumerate(kinds)
    )


@given(some_steps(), st.data())
def test_every_change_leaves_a_batch_that_is_read_back_the_same(steps: Steps, data: st.DataObject) -> None:
    keys = data.draw(st.sets(st.sampled_from([one.key for one in steps]), min_size=1))
    place = data.draw(st.integers(0, len(steps)))
    down = data.draw(st.booleans())
    for after in (
        moved(steps, keys, place),
        moved_by_one(steps, keys, down),
        doubled(steps, keys)[0],
        grouped(steps, keys),
        recovering(steps, keys),
        switched(steps, keys),
        inserted(steps, [DraftStep("new", "tool")], place),
        removed(steps, keys) or steps,
    ):
        batch = BatchDocument(steps=after).as_batch()
        again = content_of(read_batch(batch_to_yaml(batch), "test"))
        assert again.as_batch() == batch
        assert [(one.id, one.group, one.recovers) for one in again.steps] == [
            (one.id, one.group, one.recovers) for one in after
        ]


@given(some_steps(), st.data())
def test_moving_loses_no_step_and_a_moved_step_takes_its_recovery_along(
    steps: Steps, data: st.DataObject
) -> None:
    keys = data.draw(st.sets(st.sampled_from([one.key for one in steps]), min_size=1))
    after = moved(steps, keys, data.draw(st.integers(0, len(steps))))
    assert sorted(one.key for one in after) == sorted(one.key for one in steps)
    branches = {unit[0].key: [one.key for one in unit[1:]] for unit in units_of(after)}
    for unit in units_of(steps):
        kept = [one.key for one in unit[1:]]
        if unit[0].key in keys and kept and not set(kept) & keys:
            assert set(kept) <= set(branches[unit[0].key])


def made(shape: str) -> Steps:
    """`ab>c>d` for a, then b which c and d recover."""
    steps, recovers = [], False
    for sign in shape:
        if sign == ">":
            recovers = True
            continue
        steps.append(DraftStep(sign, "tool", recovers=recovers))
        recovers = False
    return tidy(steps)


def shape(steps: Steps) -> str:
    return "".join(f">{one.id}" if one.recovers else one.id for one in steps)


def key_of(steps: Steps, name: str) -> int:
    return next(one.key for one in steps if one.id == name)


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("abc", "b", "a>bc"),
        ("a>bc", "b", "abc"),
        ("abc", "a", "abc"),
        ("a>b>cd", "b", "a>cbd"),
        ("ab>c", "b", "a>b>c"),
    ],
)
def test_r_makes_a_step_recover_the_one_above_and_lets_it_go_behind_the_recovery(
    before: str, name: str, after: str
) -> None:
    steps = made(before)
    assert shape(recovering(steps, {key_of(steps, name)})) == after


@pytest.mark.parametrize(
    ("before", "name", "place", "after"),
    [
        ("abc>d", "a", 3, "bc>a>d"),  # dropped in the middle of a recovery
        ("abc>d", "a", 4, "bc>da"),  # dropped behind it
        ("a>bcd", "b", 3, "ac>bd"),  # a recovery step recovers what it comes behind
        ("a>bc>d", "a", 3, "c>da>b"),  # what has a recovery itself goes behind one
        ("a>bc", "b", 0, "bac"),
    ],
)
def test_a_step_is_dropped_into_a_recovery_and_out_of_it(
    before: str, name: str, place: int, after: str
) -> None:
    steps = made(before)
    assert shape(moved(steps, {key_of(steps, name)}, place)) == after


def test_a_key_moves_a_step_past_a_recovery_as_a_whole() -> None:
    steps = made("ab>c>d")
    assert shape(moved_by_one(steps, {key_of(steps, "a")}, True)) == "b>c>da"
    assert shape(moved_by_one(steps, {key_of(steps, "b")}, False)) == "b>c>da"
    assert shape(moved_by_one(steps, {key_of(steps, "d")}, False)) == "ab>d>c"


def test_removing_a_step_takes_its_recovery_along_and_doubling_copies_it() -> None:
    steps = made("a>bc")
    assert shape(removed(steps, {key_of(steps, "a")})) == "c"
    copied, keys = doubled(steps, {key_of(steps, "a")})
    assert [(one.id, one.recovers) for one in copied][:4] == [
        ("a", False),
        ("b", True),
        ("a_2", False),
        ("b_2", True),
    ]
    assert keys == [copied[2].key]


# In the window


async def test_a_condition_an_expectation_and_a_retry_are_typed_planned_and_undone(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, three())
        editor = page.screen.editor
        page.open_step("c")
        page.write(page.when, "device.name == 'no-such'")
        page.screen.step.flow.expect.add.click()
        page.type_text("result.exit_code == 0")
        row = page.flow_row("retry")
        await page.add_part(row)
        page.fill(page.flow_row("retry", "times"), "3")
        [_, _, step] = editor.content.as_batch().steps
        assert isinstance(step, Step)
        assert step.when == "${{ device.name == 'no-such' }}"
        assert step.expect == ["${{ result.exit_code == 0 }}"]
        assert step.retry is not None
        assert step.retry.times == 3
        card = page.card("c")
        assert "only if device.name == 'no-such'" in card
        assert "tried again 3 times, first after 1 s" in card
        await seen(lambda: "1 skipped" in page.screen.dock.counts.words())
        assert "is false" in page.screen.dock.matrix.plan_model.why(0)
        while editor.undo_stack.canUndo():
            page.press(Key.Key_Z, Mod.ControlModifier)
        assert editor.content.as_batch() == three()
        assert page.when.text() == ""
        assert page.expectations == []
        assert page.flow_row("retry").value() is UNSET


async def test_a_retry_that_would_not_be_made_says_so_until_a_reason_is_given(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, three())
        said = page.screen.step.flow.repeating
        for step, unsafe in (("b", False), ("c", True)):
            page.open_step(step)
            assert not said.isVisible()
            await page.add_part(page.flow_row("retry"))
            page.fill(page.flow_row("retry", "times"), "2")
            assert said.isVisible() == unsafe
        page.fill(page.flow_row("retry", "not_idempotent"), "It may be done twice.")
        assert not said.isVisible()


async def test_text_of_one_step_that_cannot_be_read_is_not_shown_for_another(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, three())
        for step in ("a", "b"):
            page.open_step(step)
            await page.add_part(page.flow_row("retry"))
            page.fill(page.flow_row("retry", "times"), "2")
        page.fill(page.flow_row("retry", "backoff"), "soon")
        await seen(lambda: "backoff" in page.card("b"))
        page.open_step("a")
        assert page.flow_row("retry", "backoff").value() is UNSET
        assert not page.screen.step.problem()


async def test_what_waits_for_a_result_is_not_known_yet_and_the_plan_names_the_step(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, three())
        page.open_step("c")
        page.write(page.when, "steps.a.result.free > 3")
        page.press(Key.Key_Escape)
        await seen(lambda: "1 not known yet" in page.screen.dock.counts.words())
        assert "c: depends on a." in page.screen.dock.matrix.plan_model.why(0)
        page.in_steps(Key.Key_Up)
        page.in_steps(Key.Key_R)
        await seen(lambda: "1 if a step fails" in page.screen.dock.counts.words())
        assert page.ids() == ["a", "→b", "c"]


async def test_a_wrong_expression_is_marked_with_its_line_and_column(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, three())
        page.open_step("c")
        page.write(page.when, "1 < steps.x.status")
        page.press(Key.Key_Escape)
        words = page.when.message
        await seen(
            lambda: words.text() == 'Line 1, column 10: no step "x" stands before this one; known are a, b.'
        )
        assert page.when.input.property("state") == "fail"
        page.write(page.when, "1 < 2")
        await seen(lambda: words.text() == "Gives true.")
        assert not page.when.input.property("state")


async def test_expressions_follow_the_new_id_of_a_step_once_it_is_typed(theme: Theme, tmp_path: Path) -> None:
    batch = read_batch(READS, "reads.yaml")

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, batch)
        page.open_step("a")
        field = page.screen.step.id_field
        field.setFocus()
        field.selectAll()
        page.press(Key.Key_Delete)
        page.type_text("ab")  # on the way it is `a`, before it is left
        page.press(Key.Key_Backspace)
        page.type_text("x")
        page.press(Key.Key_Return)
        [_, other, last] = page.screen.editor.content.as_batch().steps
        assert isinstance(other, Step)
        assert isinstance(last, Step)
        assert other.id == "aa"
        assert last.when == "${{ steps.ax.status == 'success' && steps.aa.status != \"steps\" }}"
        assert last.parameters == {"command": "echo steps.a ${{ steps.ax.result.n }} ${{ steps.aa.state }}"}
        assert last.expect == ["${{ result.steps.a == 1 }}"]
        page.screen.editor.undo_stack.undo()
        while page.screen.editor.undo_stack.canUndo():
            page.screen.editor.undo_stack.undo()
        assert page.screen.editor.content.as_batch() == batch


READS = """
name: Reads
targets: name:this-computer
steps:
  - {id: a, tool: list_processes}
  - {id: aa, tool: list_processes}
  - id: c
    tool: shell_execute
    when: ${{ steps.a.status == 'success' && steps.aa.status != "steps" }}
    with: {command: "echo steps.a ${{ steps.a.result.n }} ${{ steps.aa.state }}"}
    expect: ${{ result.steps.a == 1 }}
"""


async def test_expressions_in_arguments_show_what_they_give_but_none_of_a_secret_one(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()
    tools = console.tools_of["this-computer"]
    schema = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}, "a": {}}}
    tools[0] = tools[0].model_copy(update={"input_schema": schema})
    given = {"token": "hunter2${{ device.name }}", "a": "on ${{ device.name }}", "b": ["${{ 1 + }}"]}
    steps = [{"id": "x", "tool": tools[0].tool_name, "with": given}]
    batch = Batch.model_validate({"name": "Filled", "targets": "name:this-computer", "steps": steps})

    async with open_frame(theme, tmp_path, console) as desk:
        page = await BatchPage.on(desk, batch)
        form = page.screen.step.form
        await seen(lambda: form.notes)
        assert form.notes["a",] == 'Gives "on this-computer".'
        assert any("Line 1, column 6: " in words for path, words in form.notes.items() if path[0] == "b")
        assert not any("hunter2" in words for words in form.notes.values())
        assert "have expressions" in page.screen.step.judgement.text()
        page.screen.editor.set_parameters(page.screen.editor.content.steps[0].key, {"a": "plain"})
        await seen(lambda: not form.notes)


def filled() -> Batch:
    """A step whose tool takes a text, a number, a choice and a secret, after one that gave results."""
    tool = FakeConsole().tools_of["this-computer"][0].tool_name
    inputs = {"token": {"type": "string", "secret": True}}
    steps = [{"id": "a", "tool": "list_processes"}, {"id": "b", "tool": tool}]
    given = {"name": "Filled", "targets": "name:this-computer", "inputs": inputs, "steps": steps}
    return Batch.model_validate(given)


def console_for_filled() -> FakeConsole:
    console = FakeConsole()
    tools = console.tools_of["this-computer"]
    kinds = {"path": {"type": "string"}, "count": {"type": "integer"}, "kind": {"enum": ["x", "y"]}}
    schema = {"type": "object", "properties": {**kinds, "key": {"type": "string", "writeOnly": True}}}
    tools[0] = tools[0].model_copy(update={"input_schema": schema})
    return console


def parameters_of(page: BatchPage, step: str) -> dict[str, Any]:
    [found] = [one for one in page.screen.editor.content.steps if one.id == step]
    return found.parameters


async def test_an_argument_is_completed_between_brackets_only(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, console_for_filled()) as desk:
        page = await BatchPage.on(desk, filled())
        page.open_step("b")
        await seen(lambda: page.screen.step.completer.values)
        page.fill(page.argument_row("path"), "steps")
        assert page.offered() == []
        page.paste(" 😀 ")  # two units of Qt's count
        page.type_text("${{")
        assert page.offered()[:1] == ["device"]
        assert {"inputs", "steps"} <= set(page.offered())
        page.type_text(" st")
        assert page.offered() == ["steps"]
        page.press(Key.Key_Tab)
        page.type_text(".a.stat")
        assert set(page.offered()) == {"steps.a.status", "steps.a.state"}
        page.press(Key.Key_Escape)
        assert page.offered() == []
        page.type_text("us }}, st")
        assert page.offered() == []
        assert parameters_of(page, "b") == {"path": "steps 😀 ${{ steps.a.status }}, st"}
        # Its own result is not there yet.
        page.type_text(" ${{ res")
        assert page.offered() == []


async def test_ctrl_space_begins_an_expression_also_for_a_number_and_a_secret(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, console_for_filled()) as desk:
        page = await BatchPage.on(desk, filled())
        page.open_step("b")
        await seen(lambda: page.screen.step.completer.values)
        page.fill(page.argument_row("count"), "")
        page.press(Key.Key_Space, Mod.ControlModifier)
        page.type_text("steps.a.att")
        assert page.offered() == ["steps.a.attempts"]
        page.press(Key.Key_Return)
        page.fill(page.argument_row("key"), "")
        page.press(Key.Key_Space, Mod.ControlModifier)
        page.type_text("inputs.")
        # The value of a secret input may go into arguments, and into nothing else.
        assert page.offered() == ["inputs.token"]
        page.press(Key.Key_Return)
        expected = {"count": "${{ steps.a.attempts }}", "key": "${{ inputs.token }}"}
        assert parameters_of(page, "b") == expected
        await seen(lambda: not page.screen.expressions.busy)
        assert ("key",) not in page.screen.step.form.notes
        assert all(one.path != "inputs.token" for one in page.when.completer.values)


async def test_a_choice_is_given_by_expression_and_back(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, console_for_filled()) as desk:
        page = await BatchPage.on(desk, filled())
        page.open_step("b")
        await seen(lambda: page.screen.step.completer.values)
        row = page.argument_row("kind")
        link_in(row, "by expression").click()
        page.type_text("device.na")
        page.press(Key.Key_Return)
        assert parameters_of(page, "b") == {"kind": "${{ device.name }}"}
        await seen(lambda: page.screen.step.form.notes)
        assert page.screen.step.form.notes["kind",].startswith('Gives "this-computer"')
        page.open_step("a")
        page.open_step("b")
        row = page.argument_row("kind")
        assert row.value() == "${{ device.name }}"
        link_in(row, "not by expression").click()
        assert parameters_of(page, "b") == {}


async def test_a_condition_is_completed_name_by_name(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, three())
        page.open_step("c")
        await seen(lambda: page.when.completer.values)
        page.write(page.when, "st")
        assert page.when.completer.offered() == ["steps"]
        page.press(Key.Key_Tab)
        page.type_text(".")
        assert page.when.completer.offered() == ["steps.b", "steps.a"]
        page.press(Key.Key_Down)
        page.press(Key.Key_Return)
        page.type_text(".stat")
        assert set(page.when.completer.offered()) == {"steps.a.status", "steps.a.state"}
        page.press(Key.Key_Escape)
        assert page.when.completer.offered() == []
        assert page.screen.isVisible()
        page.type_text("us == 'success'")
        assert page.when.text() == "${{ steps.a.status == 'success' }}"


async def test_q_asks_operators_and_the_question_is_typed(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, three())
        page.open_step("b")
        page.in_steps(Key.Key_Q)
        assert page.ids() == ["a", "b", "go_on", "c"]
        assert "question" in page.card("go_on")
        page.type_text("Are the backups there?")
        page.fill(page.flow_row("approval", "approvers"), "2")
        entry = page.screen.editor.content.as_batch().steps[2]
        assert isinstance(entry, ApprovalStep)
        assert (entry.approval.question, entry.approval.approvers) == ("Are the backups there?", 2)
        await seen(lambda: "1 ask operators" in page.screen.dock.counts.words())


async def test_a_recovery_step_is_added_from_the_form_moved_by_key_and_let_go(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, three())
        page.open_step("b")
        page.in_steps(Key.Key_P)
        page.screen.step.flow.recover.click()
        page.screen.tools.list.setFocus()
        page.press(Key.Key_Return)
        added = page.screen.editor.current
        assert added is not None
        assert added.recovers
        assert page.ids() == ["a", "b", f"→{added.id}", "c"]
        group = page.screen.editor.content.as_batch().steps[1]
        assert isinstance(group, Parallel)
        assert [step.id for step in group.parallel[0].recover] == [added.id]
        assert f"if it fails: {added.id}" in page.card("b")
        page.in_steps(Key.Key_R)
        assert page.ids() == ["a", "b", added.id, "c"]
        page.press(Key.Key_Z, Mod.ControlModifier)
        assert page.ids() == ["a", "b", f"→{added.id}", "c"]


async def test_p_r_and_x_say_why_they_change_nothing(theme: Theme, tmp_path: Path) -> None:
    batch = batch_of_steps(
        [
            DraftStep("a", "t"),
            DraftStep("ask", "", flow={"approval": {"question": "Go on?"}}),
            DraftStep("b", "t"),
        ]
    )

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, batch)
        before = page.screen.editor.content.steps
        for step, key, words in (
            ("a", Key.Key_R, "There is no step above it that it could recover."),
            ("a", Key.Key_P, "There is no other step beside it that could run in parallel with it."),
            ("ask", Key.Key_P, "An approval step is asked by itself"),
            ("ask", Key.Key_R, "An approval step asks operators, and recovers nothing."),
            ("ask", Key.Key_X, "An approval step is always asked"),
            ("b", Key.Key_R, "The step above it asks operators"),
        ):
            page.open_step(step)
            page.in_steps(key)
            assert page.screen.notice.isVisible()
            assert page.screen.notice.accessibleName().startswith(words), page.screen.notice.accessibleName()
            assert page.screen.editor.content.steps == before
            screen = page.screen.steps_acts
            acts = {Key.Key_P: screen.group, Key.Key_R: screen.recover, Key.Key_X: screen.switch}
            assert acts[key].reason.startswith(words)  # as the palette and F1 show it


async def test_a_card_dragged_between_recovery_steps_becomes_one_and_dragged_behind_them_does_not(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, batch_of_steps(made("ab>c>d")))
        page.drag_card(0, above=3)
        assert page.ids() == ["b", "→c", "→a", "→d"]
        page.press(Key.Key_Z, Mod.ControlModifier)
        page.drag_card(3, above=1)
        assert page.ids() == ["a", "→d", "b", "→c"], "it recovers what it came behind"


def batch_of_steps(steps: Steps) -> Batch:
    return BatchDocument(steps=steps).as_batch()


async def test_a_batch_that_is_opened_leaves_the_keyboard_in_its_steps(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    console.saved["Three"] = three()

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("batch", OpenBatch("Three"))
        page = await BatchPage.on(desk)
        await seen(lambda: page.ids() == ["a", "b", "c"])
        assert page.screen.steps.view.hasFocus()


async def test_waves_and_when_to_stop_are_typed_into_the_form_of_the_batch(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, three())
        page.in_steps(Key.Key_B)
        await page.add_part(page.batch_row("rollout"))
        page.fill_first_kind(page.batch_row("rollout", "canary"), "1")
        page.fill_first_kind(page.batch_row("rollout", "wave"), "10")
        rollout = page.screen.editor.content.as_batch().rollout
        assert (rollout.canary, rollout.wave) == (1, 10)
        assert "canary of 1, waves of 10" in page.batch_line()
        page.press(Key.Key_Z, Mod.ControlModifier)
        assert "waves" not in page.batch_line()


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("string", '"hunter2"'),
        ("integer", "70707"),
        ("boolean", "true"),
        ("list", '["hunter2", 70707]'),
        ("object", '{"hunter2": [70707]}'),
    ],
)
async def test_the_default_of_a_secret_input_is_seen_neither_in_the_form_nor_in_the_text(
    theme: Theme, tmp_path: Path, kind: str, default: str
) -> None:
    text = f"inputs: {{token: {{type: {kind}, secret: true, default: {default}}}}}\n"
    batch = read_batch(f"name: Secret\n{text}steps: [{{id: a, tool: screenshot}}]", "secret.yaml")

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, batch)
        page.in_steps(Key.Key_B)
        row = page.batch_row("inputs", "token", "default")
        [field] = row.own_inputs()
        assert isinstance(field, QLineEdit)
        assert field.echoMode() is QLineEdit.EchoMode.Password
        assert default.strip('"') not in page.batch_line()
        assert [word for piece in hidden_in_text(page.screen) for word in re.findall(r"\w+", piece)] == (
            re.findall(r"\w+", default)
        )
        assert all(one.isHidden() for one in (page.batch_row("inputs", "token", "type"),))
        assert page.screen.editor.content.as_batch() == batch
        field.setFocus()
        field.selectAll()
        page.type_text("[")
        if kind in ("list", "object", "boolean"):
            assert page.screen.step.unsent().startswith("inputs.token.default is not JSON yet")
        assert page.screen.editor.content.as_batch().inputs["token"].secret


# Inputs of a run

WITH_INPUTS = """
name: Inputs
targets: name:this-computer
inputs:
  folder: {type: string, description: The folder}
  depth: {type: integer, default: 2}
  token: {type: string, secret: true}
steps:
  - {id: list, tool: list_processes}
"""


async def test_the_inputs_are_asked_for_checked_and_sent(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await BatchPage.on(desk, read_batch(WITH_INPUTS, "inputs.yaml"))
        opened = opened_screens(desk)

        async def asked() -> InputsDialog:
            page.in_steps(Key.Key_Return, Mod.ControlModifier)
            await seen(page.sheet)
            sheet = page.sheet()
            assert isinstance(sheet, InputsDialog)
            return sheet

        sheet = await asked()
        page.press(Key.Key_Return)
        assert "folder" in problem_in(sheet)
        assert "start_run" not in console.asked
        page.type_text("/srv")
        page.press(Key.Key_Tab)
        page.press(Key.Key_Tab)
        page.type_text("hunter2")
        assert "hunter2" not in "".join(label.text() for label in sheet.findChildren(type(page.when.message)))
        page.press(Key.Key_Return)
        await seen(lambda: opened)
        assert [call["inputs"] for call in console.calls_of("start_run")] == [
            {"folder": "/srv", "token": "hunter2"}
        ]
        assert isinstance(opened[0][1], OpenRun)
        sheet = await asked()
        assert sheet.form.value() == {"folder": "/srv"}, "secrets are typed again"
        page.press(Key.Key_Escape)
        await seen(lambda: page.sheet() is None and not page.screen.run_controller.busy)
        assert console.asked.count("start_run") == 1

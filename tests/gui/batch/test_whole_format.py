"""Batch builds all that a batch file can say: opened, edited, saved and read back, nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt

from app.screens.batch.document import content_of
from app.screens.batch.document_io import EXAMPLES
from app.screens.batch.draft import DraftOnDisk
from app.theme.theme import Theme
from core.batch.batch_file import batch_to_yaml, read_batch
from core.batch.models import Batch
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame, seen
from tests.gui.batch.page import BatchPage, is_ticked

Key, Mod = Qt.Key, Qt.KeyboardModifier

WHOLE = """
format: quarterdeck.batch/1
name: Everything
description: All that the format has.
targets: name:this-computer
inputs:
  threshold: {type: integer, default: 80, description: Percent}
  mode: {type: string, one_of: [a, b], default: a}
  nothing: {type: object, default: {}}
  token: {type: string, secret: true}
on_failure: continue
rollout:
  parallel: 3
  canary: 1
  wave: 10
  stop:
    run: {failed: 3, unknown: 1}
    wave: {offline: 20%, denied: 2}
notes: For people.
steps:
  - id: disk
    tool: get_system_info
    with: {info_type: disk}
    note: The first.
  - parallel:
      - id: one
        tool: list_processes
        retry: {times: 2, on: [timeout, tool_failed]}
      - id: two
        tool: shell_execute
        timeout: 12.5
        when: ${{ inputs.threshold > 3 }}
        with: {command: "echo ${{ inputs.mode }} ${{ steps.disk.status }}"}
        expect: ["${{ result.exit_code == 0 }}", "${{size(result.stdout) > 0}}"]
        retry: {times: 1, backoff: 0, jitter: 1, not_idempotent: An echo may be repeated.}
        recover:
          - {id: look, tool: list_processes, on_failure: continue}
          - {id: other, tool: shell_execute, with: {command: "true"}, enabled: false}
  - parallel:
      - {id: alone, tool: screenshot, on_failure: stop}
  - id: ask
    approval: {question: Go on?, approvers: 2, deadline: 600}
    when: ${{ inputs.threshold > 3 }}
    note: The second wave only.
  - id: last
    tool: list_processes
    on_failure: recover
    recover:
      - {id: after, tool: screenshot}
"""


def whole() -> Batch:
    return read_batch(WHOLE, "whole.yaml")


def test_every_key_of_the_format_comes_through_the_document_the_draft_and_the_file() -> None:
    batch = whole()
    content = content_of(batch)
    assert content.as_batch() == batch
    assert read_batch(batch_to_yaml(content.as_batch()), "again") == batch
    draft = DraftOnDisk.of(replace(content, name="Kept"), "Everything", True).model_dump_json()
    assert DraftOnDisk.model_validate_json(draft).content().as_batch().steps == batch.steps


def test_a_draft_of_an_earlier_window_is_read() -> None:
    earlier: dict[str, Any] = {
        "format": "quarterdeck.window-draft/1",
        "name": "Half",
        "description": "",
        "targets": "tag:lab",
        "on_failure": "continue",
        "parallel": 7,
        "steps": [{"id": "a", "tool": "screenshot", "parameters": {}, "group": 0}],
    }
    batch = DraftOnDisk.model_validate(earlier).content().as_batch()
    assert (batch.on_failure, batch.rollout.parallel, batch.targets) == ("continue", 7, "tag:lab")


async def test_every_example_is_opened_edited_and_saved_and_is_the_same_batch_again(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await BatchPage.on(desk)
        for path in sorted(EXAMPLES.glob("*.yaml")):
            batch = read_batch(path.read_text(), path.name)
            await page.open_named(batch.name)
            page.in_steps(Key.Key_X)
            await page.save()
            assert console.saved[batch.name] != batch, path.name
            page.in_steps(Key.Key_X)
            await page.save()
            assert console.saved[batch.name] == batch, path.name


async def test_each_card_says_in_plain_lines_how_its_step_goes_on(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, whole())
        two = page.card("two")
        assert "in parallel" in two
        assert "only if inputs.threshold > 3" in two
        assert "expects result.exit_code == 0, and 1 more" in two
        assert "tried again once, first after 0 s, although it is not idempotent" in two
        assert "if it fails: look, other" in two
        assert "if two fails" in page.card("look")
        assert "goes on if it fails" in page.card("look")
        assert "tried again 2 times on timeout, tool_failed, first after 1 s" in page.card("one")
        assert "in a parallel group of its own" in page.card("alone")
        assert "approval, Go on?, asks 2 operators in each wave, for 10 min" in page.card("ask")
        line = page.batch_line()
        assert "inputs threshold, mode, nothing, token, canary of 1, waves of 10, 3 at once" in line
        assert "stops at 3 failed, stops at 1 unknown, stops at 20% offline in a wave" in line


async def test_the_text_of_each_part_is_what_the_file_has_and_is_read_back(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, whole())
        screen, batch = page.screen, whole()
        screen.text.show_notation("yaml")
        for step in screen.editor.content.steps:
            page.open_step(step.id)
            text = screen.text.editor.text()
            # Typed again letter by letter it is the same step, and nothing to be undone.
            screen.text.editor.setPlainText("")
            screen.text.editor.setPlainText(text)
            assert not screen.text.problem, step.id
            assert screen.editor.content.as_batch() == batch, step.id
        page.open_step("two")
        text = screen.text.editor.text()
        screen.text.editor.setPlainText(text.replace("times: 1", "times: 11"))
        assert "times is out of range" in screen.text.problem
        assert not is_ticked(screen)
        screen.text.editor.setPlainText(f"{text}recover: []\n")
        assert "has a card of its own" in screen.text.problem
        assert screen.editor.content.as_batch() == batch


async def test_the_text_of_the_batch_itself_is_judged_by_the_format(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, whole())
        screen = page.screen
        page.in_steps(Key.Key_B)
        assert screen.step.batch.isVisible()
        screen.text.show_notation("yaml")
        text = screen.text.editor.text()
        screen.text.editor.setPlainText(text.replace("canary: 1", "canary: 2"))
        assert screen.editor.content.as_batch().rollout.canary == 2
        assert page.batch_row("rollout", "canary").value() == 2
        screen.text.editor.setPlainText(text.replace("canary: 1", "canaries: 1"))
        assert 'rollout has no key "canaries"' in screen.text.problem
        screen.text.editor.setPlainText(f"{text}name: Other\n")
        assert "name is set elsewhere" in screen.text.problem
        screen.editor.undo_stack.undo()
        assert screen.editor.content.as_batch() == whole()


def all_text_in(folder: Path) -> str:
    return "".join(one.read_text(errors="ignore") for one in folder.rglob("*") if one.is_file())


async def test_a_draft_keeps_all_but_the_default_of_a_secret_input(theme: Theme, tmp_path: Path) -> None:
    text = WHOLE.replace(
        "token: {type: string, secret: true}", "token: {type: string, secret: true, default: hunter2}"
    )

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk, read_batch(text, "whole.yaml"))
        page.screen.editor.rename("Half")
        page.screen.leave()
    assert "hunter2" not in all_text_in(tmp_path)
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk)
        await seen(lambda: page.screen.editor.content.name == "Half")
        again = page.screen.editor.content.as_batch()
        assert again == whole().model_copy(update={"name": "Half"})

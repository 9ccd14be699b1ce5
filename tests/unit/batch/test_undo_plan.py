"""The steps of an undo run: each device's calls in reverse order, whatever happened at the same time."""

from __future__ import annotations

from core.batch.models import Batch, UndoCell, UndoFate, flatten
from core.batch.undo_plan import plan_of, undo_calls

BATCH = Batch.model_validate(
    {
        "name": "writes",
        "targets": "tag:lab",
        "rollout": {"parallel": 3, "canary": 1},
        "steps": [{"id": "a", "tool": "write_file"}, {"id": "b", "tool": "write_file"}],
    }
)


def cell(device: str, step: str, undo_id: str) -> UndoCell:
    return UndoCell(
        device=device,
        step=step,
        tool="write_file",
        fate=UndoFate.UNDOES,
        inverse="restore_file",
        undo_id=undo_id,
    )


def orders(cells: list[UndoCell]) -> dict[str, list[str]]:
    """By device, the undo ids in the order in which its steps are run."""
    calls = undo_calls(plan_of("r-0001", cells), BATCH)
    steps = [step.id for step in flatten(calls.batch.steps)]
    return {
        device: [
            calls.arguments[device, step]["undo_id"] for step in steps if (device, step) in calls.arguments
        ]
        for device in {one.device for one in cells}
    }


def test_a_step_of_the_undo_has_the_name_of_the_step_that_it_undoes():
    calls = undo_calls(
        plan_of("r-0001", [cell("x", "b", "2"), cell("x", "a", "1"), cell("y", "a", "3")]), BATCH
    )
    assert [step.id for step in flatten(calls.batch.steps)] == ["b", "a"]
    assert calls.batch.targets == "tag:lab"
    assert (calls.batch.rollout.parallel, calls.batch.rollout.canary) == (3, None)


def test_devices_on_which_steps_ended_in_another_order_are_each_undone_in_their_own():
    cells = [cell("x", "b", "x-b"), cell("x", "a", "x-a"), cell("y", "a", "y-a"), cell("y", "b", "y-b")]
    assert orders(cells) == {"x": ["x-b", "x-a"], "y": ["y-a", "y-b"]}


def test_several_calls_of_one_step_are_steps_of_their_own():
    cells = [cell("x", "a", "third"), cell("x", "a", "second"), cell("x", "a", "first")]
    assert orders(cells) == {"x": ["third", "second", "first"]}


def test_a_plan_has_another_digest_when_other_calls_would_be_made():
    one, other = plan_of("r", [cell("x", "a", "1")]), plan_of("r", [cell("x", "a", "2")])
    assert one.digest != other.digest
    assert one.summary == "1 file restored"

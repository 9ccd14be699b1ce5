"""A step with a new id is read by it wherever it was read by the old one."""

from __future__ import annotations

import pytest

from app.screens.batch.document import content_of, with_references
from core.batch.models import Batch


@pytest.mark.parametrize(
    ("before", "now", "written"),
    [
        ("disk", "free", "steps.free.result.x == 1"),
        ("disk", "check-disk", 'steps["check-disk"].result.x == 1'),
        ("check-disk", "disk", "steps.disk.result.x == 1"),
        ("check-disk", "in", 'steps["in"].result.x == 1'),
    ],
)
def test_expressions_follow_the_new_id_as_it_can_be_written(before: str, now: str, written: str):
    spellings = [
        f'steps["{before}"]',
        f"steps[ '{before}' ]",
        *([f"steps.{before}"] if "-" not in before else []),
    ]
    for read in spellings:
        text = f"${{{{ {read}.result.x == 1 }}}}"
        batch = Batch.model_validate({"name": "b", "steps": [{"id": "later", "tool": "t", "when": text}]})
        [step] = with_references(content_of(batch).steps, before, now)
        assert step.flow["when"] == f"${{{{ {written} }}}}"

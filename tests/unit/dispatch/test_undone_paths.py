"""Rules about a file hold for the undo of a write to it, though its arguments name no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ErrorCode
from core.home import Home
from core.policy.analysis.summaries import short
from core.policy.models import Answer
from core.service.console import Console
from core.service.local_console import LocalConsole
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signing import accepted, signing

TRUSTED = 'profile = "trusted"\n'
DENY = (
    '[[rule]]\nid = "closed"\ndecision = "deny"\ntool = ["write_file", "restore_file"]\nreason = "Closed."\n'
    "[rule.parameters.file_path]\n{condition}\n"
)
THIS = "this-computer"


async def call(console: Console, tool: str, **parameters: str) -> tuple[ErrorCode | None, dict[str, str]]:
    run = await console.runs.call(THIS, tool, parameters)
    [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S)).cells
    assert cell.result is not None
    return (cell.result.error.code if cell.result.error else None), cell.result.result or {}


@pytest.mark.parametrize("condition", ["below", "equals", "pattern", "link"])
async def test_an_undo_is_denied_where_its_file_is(tmp_path: Path, home: Home, condition: str):
    choose_channel(home, "in-process")
    closed, opened = tmp_path / "closed", tmp_path / "open"
    for folder in (closed, opened):
        folder.mkdir()
        (folder / "a.txt").write_text("old")
    (tmp_path / "way").symlink_to(closed)
    await accepted(home, TRUSTED)
    through = tmp_path / "way" if condition == "link" else closed
    toml = {"equals": f'equals = "{closed}/a.txt"', "pattern": f'pattern = "^{closed}/"'}.get(
        condition, f'below = "{closed}"'
    )
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), home)
        marks = []
        for folder in (through, opened):
            error, result = await call(console, "write_file", file_path=f"{folder}/a.txt", content="new")
            assert error is None
            marks.append(result["undo"])
        text = TRUSTED + DENY.format(condition=toml)
        await console.policy.save(text, (await console.policy.text()).digest)
        explained = await console.policy.explain(THIS, "restore_file", {"undo_id": marks[0]})
        assert explained.answer is Answer.DENY
        assert explained.summary == f"Puts {short(through / 'a.txt')} back as it was before change {marks[0]}"
        assert (await call(console, "restore_file", undo_id=marks[0]))[0] is ErrorCode.DENIED_BY_POLICY
        assert (closed / "a.txt").read_text() == "new"
        assert (await call(console, "restore_file", undo_id=marks[1]))[0] is None
        assert (opened / "a.txt").read_text() == "old"
        # What the journal does not know counts against the call, and the reason says so.
        unknown = await console.policy.explain(THIS, "restore_file", {"undo_id": "A" * 24})
        assert unknown.answer is Answer.DENY
        assert unknown.summary == f"Puts a file back as it was before change {'A' * 24}"
        assert "does not say which file this undo writes" in unknown.reasons[0].text

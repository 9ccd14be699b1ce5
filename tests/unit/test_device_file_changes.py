"""What new content takes over from the file it replaces, and how much of a changed file is looked at."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from core.aip.messages import Command, Result
from core.device import DeviceConfig, Router, build_router, file_changes
from core.device.config import Limits
from core.device.held_paths import Folder
from tests.fakes.pace import within

_LARGE = 1 << 34


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
async def router(root: Path, tmp_path: Path) -> AsyncIterator[Router]:
    built = build_router(DeviceConfig(roots=(root,)), tmp_path / "state", "files")
    yield built
    await built.close()


async def call(router: Router, tool: str, **arguments: Any) -> Result:
    command = Command(tool_name=tool, tool_type="action", parameters=arguments, call_id="c")
    return await router.run(command, deadline_s=60)


async def good(router: Router, tool: str, **arguments: Any) -> Any:
    result = await call(router, tool, **arguments)
    assert result.error is None
    return result.result


def bits(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize(("before", "after"), [(0o4755, "0755"), (0o2750, "0750"), (0o7711, "0711")])
async def test_new_content_runs_with_nobody_elses_rights(
    router: Router, root: Path, mode: str, before: int, after: str
) -> None:
    path = root / "tool"
    path.write_text("old")
    path.chmod(before)
    undo = (await good(router, "write_file", file_path=str(path), content="new", mode=mode))["undo"]
    assert bits(path) == after
    await good(router, "undo", undo_id=undo)
    assert (path.read_text(), bits(path)) == ("old", after)


@pytest.mark.parametrize("tool", ["undo", "restore_file"])
async def test_restored_content_runs_with_nobody_elses_rights_whatever_was_kept_of_it(
    router: Router, root: Path, tmp_path: Path, tool: str
) -> None:
    path = root / "tool"
    path.write_text("old")
    path.chmod(0o755)
    undo = (await good(router, "write_file", file_path=str(path), content="new"))["undo"]
    # As an older device client kept it; and somebody gave the new file the bit as well.
    entry = tmp_path / "state" / "undo" / f"{undo}.json"
    entry.write_text(entry.read_text().replace(f'"mode":{0o755}', f'"mode":{0o6755}'))
    assert str(0o6755) in entry.read_text()
    path.chmod(0o4755)
    await good(router, tool, undo_id=undo)
    assert (path.read_text(), bits(path)) == ("old", "0755")


async def test_a_file_that_grew_beyond_what_was_written_is_not_read_before_undo_says_no(
    router: Router, root: Path
) -> None:
    path = root / "log"
    path.write_text("old")
    undo = (await good(router, "write_file", file_path=str(path), content="new"))["undo"]
    os.truncate(path, _LARGE)
    for one in within(0.5, tries=2):
        with one:
            said = (await call(router, "undo", undo_id=undo)).error or ""
    assert said.startswith("contract_changed: ")
    assert f"{path} has changed since: it holds {_LARGE} bytes" in said
    # Nothing is lost: what the write left can still be undone.
    os.truncate(path, 3)
    await good(router, "undo", undo_id=undo)
    assert path.read_text() == "old"


async def test_a_file_that_grows_while_it_is_read_is_not_read_to_its_end(
    router: Router, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "log"
    path.write_text("old")
    undo = (await good(router, "write_file", file_path=str(path), content="new"))["undo"]
    honest = Folder.open_file

    def opened(folder: Folder) -> tuple[int, os.stat_result]:
        found = honest(folder)
        os.truncate(path, _LARGE)
        return found

    monkeypatch.setattr(Folder, "open_file", opened)
    for one in within(0.5, tries=2):
        os.truncate(path, 3)
        with one:
            said = (await call(router, "restore_file", undo_id=undo)).error or ""
    assert said.startswith("contract_changed: ")
    assert "has changed since: it holds more than" in said


async def test_what_was_appended_to_a_large_file_can_be_undone(router: Router, root: Path) -> None:
    size = file_changes.MOST_WRITTEN + 5
    path = root / "log"
    path.touch()
    os.truncate(path, size)
    undo = (await good(router, "write_file", file_path=str(path), content="more", mode="append"))["undo"]
    assert path.stat().st_size == size + 4
    await good(router, "undo", undo_id=undo)
    assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(bytes(size)).digest()


def test_no_device_takes_a_write_larger_than_undo_expects() -> None:
    Limits(max_argument_bytes=file_changes.MOST_WRITTEN)
    with pytest.raises(ValidationError):
        Limits(max_argument_bytes=file_changes.MOST_WRITTEN + 1)

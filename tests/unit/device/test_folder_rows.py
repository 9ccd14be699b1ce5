"""What a folder's rows say of entries that other programs gave odd facts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.aip.messages import Command
from core.device import DeviceConfig, build_router
from core.device.fs.listing import list_folder, moment_text
from core.device.guard import Guard
from tests.fakes.rights import folder_without_privileges

_YEAR_10000 = 253_402_300_800
_BEFORE_YEAR_1 = -62_135_596_801
_SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder on a file system that keeps any time; others cut it to what their disk format holds."""
    if sys.platform != "linux" or not os.access(_SHARED_MEMORY, os.W_OK):
        pytest.skip("needs a tmpfs")
    with TemporaryDirectory(dir=_SHARED_MEMORY) as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (_YEAR_10000, "+010000-01-01T00:00:00+00:00"),
        (_BEFORE_YEAR_1, "+000000-12-31T23:59:59+00:00"),
        (2**63 - 1, "+292277026596-12-04T15:30:07+00:00"),
        (-(2**63), "-292277022657-01-27T08:29:52+00:00"),
    ],
)
async def test_one_file_from_beyond_the_calendar_does_not_hide_its_folder(
    root: Path, tmp_path: Path, seconds: int, shown: str
) -> None:
    for name in ("a", "odd", "z"):
        (root / name).write_text("text")
    os.utime(root / "odd", ns=(0, seconds * 10**9))
    assert (root / "odd").stat().st_mtime_ns == seconds * 10**9
    router = build_router(DeviceConfig(roots=(root,)), tmp_path / "state", "files")
    try:
        asked = Command(
            tool_name="list_directory", tool_type="data_collection", parameters={"path": str(root)}
        )
        answer = await router.run(asked, 20)
    finally:
        await router.close()
    assert answer.error is None
    rows: list[dict[str, Any]] = answer.result["entries"]
    assert [row["name"] for row in rows] == ["a", "odd", "z"]
    assert [(row["size_bytes"], row["kind"]) for row in rows] == [(4, "file")] * 3
    assert rows[1]["modified_at"] == shown
    assert rows[0]["modified_at"].startswith("20")


def test_an_entry_that_says_nothing_of_itself_does_not_hide_its_folder() -> None:
    with folder_without_privileges() as root:
        (root / "odd").mkdir()
        (root / "odd" / "file").touch()
        # Its names may be read, what they are may not; so it is with a mount whose server has gone.
        (root / "odd").chmod(0o400)
        found = list_folder(Guard(DeviceConfig(roots=(root,))).hold(str(root / "odd")), "*", 10)
        (root / "odd").chmod(0o700)
    unknown = dict.fromkeys(("size_bytes", "modified_at", "mode", "target"))
    assert found["entries"] == [{"name": "file", "kind": "other", **unknown}]


@given(st.integers(_BEFORE_YEAR_1 + 1, _YEAR_10000 - 1), st.integers(0, 10**9 - 1))
def test_an_ordinary_time_is_written_as_everybody_writes_it(seconds: int, nanoseconds: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    assert moment_text(seconds * 10**9 + nanoseconds) == moment.isoformat()

"""A home that cannot be written is searched and verified; what must write says so. No traceback anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.home import Home
from core.service import exit_codes
from tests.fakes.desk import choose_channel
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run
from tests.fakes.service_process import service_process
from tests.fakes.signing import anna
from tests.fakes.small_disk import small_disk_at

pytestmark = pytest.mark.skipif(os.name != "posix", reason="mounts of POSIX systems")
READS = [
    ("audit", "find", "kind:result_recorded"),
    ("audit", "show", "3"),
    ("audit", "prove", "3"),
    ("audit", "export", "--output", "-"),
    ("audit", "verify"),
    ("runs", "list"),
    ("runs", "show", "r-0001"),
    ("policy", "check"),
]
WRITES = [
    ("devices",),
    ("service", "start"),
    ("call", "this-computer", "get_system_info", "info_type=memory"),
    ("approvals", "list"),
    ("agents", "list"),
    ("policy", "explain", "this-computer", "get_system_info", "info_type=memory"),
    ("search", "memory"),
]


async def _work(home: Home, *, in_order: bool) -> None:
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(anna(home).operator)
        run = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
        await console.runs.wait(run.summary.id, PATIENCE_S)
        if not in_order:
            await service.kill()


@pytest.fixture(params=["ended in order", "killed"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    with small_disk_at(tmp_path / "disk", "16m") as disk:
        home = Home(disk / "home").create()
        choose_channel(home, "in-process")
        asyncio.run(_work(home, in_order=request.param == "ended in order"))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        yield home


def files(home: Home) -> dict[str, int]:
    return {str(path): path.lstat().st_size for path in home.path.rglob("*")}


def test_it_is_searched_and_verified(home: Home):
    before = files(home)
    for words in READS:
        ended = run(home, *words)
        assert ended.code == exit_codes.DONE, (words, ended)
        assert "Traceback" not in ended.err
    ended = run(home, "audit", "find", "kind:result_recorded", "--json")
    found = [entry["run"] for entry in json.loads(ended.out)["entries"]]
    # A service that was killed may have left the result in the spool.
    assert "r-0001" in found or "noted last are in journal.spool" in ended.err
    assert "r-0001" in run(home, "runs", "list").out
    assert files(home) == before


def test_what_has_to_write_ends_with_a_sentence_and_an_exit_code(home: Home):
    for words in WRITES:
        ended = run(home, *words)
        assert ended.code == exit_codes.BAD_INPUT, (words, ended)
        assert "cannot be written" in ended.err, (words, ended)
        assert "Traceback" not in ended.out + ended.err


def test_a_journal_that_was_cut_is_not_searched(home: Home):
    disk = home.path.parent
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    log = home.path / "journal.db-wal"
    if log.exists() and log.stat().st_size:
        os.truncate(log, log.stat().st_size // 2)
    else:
        (home.path / "journal.head").unlink()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    ended = run(home, "audit", "find", "kind:result_recorded")
    assert ended.code == exit_codes.JOURNAL_BAD, ended

"""A journal after kill -9 whose files are tampered with, and one that is rolled back as a whole."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import pytest_asyncio

from core.audit.checkpoint import load_public_key
from core.audit.head_file import read_head_file
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.kept_home import contents, copy_of
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import make_home, run
from tests.fakes.service_process import service_process, until_online

READ = ("call", "this-computer", "get_system_info", "info_type=memory")
MISSING = re.compile(r"([\d,]+) entr(?:y is|ies are) missing after ([\d,]+)")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept_killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was closed in order once, and whose service was killed later: the rest is in the log."""
    home = make_home(tmp_path_factory.mktemp("kept") / "killed")
    assert run(home, *READ).code == 0
    level = False
    while not level:
        async with service_process(home) as service:
            console = await service.console()
            await until_online(console)
            for _ in range(4):
                started = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
                await console.runs.wait(started.summary.id, PATIENCE_S)
            assert (await console.journal.verify()).ok
            await service.kill()
        # A kill in the middle of a commit leaves one that no caller was told of; losing it is no loss.
        known = read_head_file(home.path / "journal.head", load_public_key(home.keys / "journal.pub"))
        assert known is not None
        level = known.checkpoint.size == run(home, "audit", "verify", "--json").json["entries"]
    return home.path


@pytest.fixture
def killed(kept_killed: Path, tmp_path: Path) -> Home:
    return copy_of(kept_killed, tmp_path / "killed")


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home after its first command, `earlier`, and after its second, `later`."""
    folder = tmp_path_factory.mktemp("states")
    home = make_home(folder / "later")
    assert run(home, *READ).code == 0
    copy_of(home.path, folder / "earlier")
    assert run(home, *READ).code == 0
    return folder


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x5A
    path.write_bytes(bytes(data))


LOG = "journal.db-wal"
ATTACKS: dict[str, Callable[[Path], None]] = {
    "a byte at the beginning of the log": lambda home: flip(home / LOG, 3913),
    "a byte in the middle of the log": lambda home: flip(home / LOG, (home / LOG).stat().st_size // 2),
    "the last byte of the log": lambda home: flip(home / LOG, (home / LOG).stat().st_size - 1),
    "the log's header": lambda home: flip(home / LOG, 18),
    "no log": lambda home: (home / LOG).unlink(),
    "half a log": lambda home: (home / LOG).write_bytes((home / LOG).read_bytes()[: 32 + 4120 * 9]),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_entries_that_a_damaged_log_hides_are_counted_and_nothing_is_signed_over_them(killed, attack):
    home = killed
    entries = run(home, "audit", "verify", "--json").json["entries"]
    whole = contents(home)
    ATTACKS[attack](home.path)
    before = contents(home)

    verified = run(home, "audit", "verify", "--json")
    assert verified.code == 8, verified
    missing, have = (int(text.replace(",", "")) for text in MISSING.search(verified.json["problem"]).groups())
    assert missing > 0
    assert missing + have == entries
    assert verified.json["first_bad"] == have + 1
    assert verified.json["checkpoint"] == ""

    target = home.path.parent / "never"
    done = run(home, "call", "this-computer", "write_file", f"file_path={target}", "content=x", "--json")
    assert done.code == 8, done
    assert MISSING.search(done.json["error"]["message"])
    assert not target.exists()
    async with service_process(home) as service:
        code, error = await service.ends()
    assert (code, error.code if error else None) == (8, ErrorCode.JOURNAL_CORRUPT)
    assert MISSING.search(error.message)
    # Nothing was written, so with the files as they were it goes on without a human.
    assert contents(home) == before
    if attack != next(iter(ATTACKS)):
        return
    for name, data in whole.items():
        (home.path / name).write_bytes(data)
    async with service_process(home) as service:
        console = await service.console()
        report = await console.journal.verify()
        assert report.ok, report.problem
        assert report.entries > entries


async def test_a_running_service_says_that_a_crash_would_lose_what_is_in_a_damaged_log(killed):
    async with service_process(killed) as service:
        console = await service.console()
        assert (await console.journal.verify()).ok
        # The first frames after a start: they are the log's own, whatever else is behind them.
        flip(killed.path / LOG, 32 + 16)
        report = await console.journal.verify()
        assert not report.ok
        assert "journal.db-wal is damaged" in report.problem
        assert run(killed, "audit", "verify").code == 8
        await service.kill()
    assert MISSING.search(run(killed, "audit", "verify", "--json").json["problem"])


def test_without_the_head_file_a_journal_does_not_open(killed):
    (killed.path / "journal.head").unlink()
    for words in (("audit", "verify"), READ):
        done = run(killed, *words)
        assert done.code == 8
        assert "journal.head is missing" in done.out + done.err


def test_a_checkpoint_kept_elsewhere_finds_a_home_that_was_rolled_back_as_a_whole(states, tmp_path):
    home = copy_of(states / "earlier", tmp_path / "home")
    early = tmp_path / "early.txt"
    early.write_text(run(home, "audit", "verify").out)
    shutil.rmtree(home.path)
    copy_of(states / "later", home.path)
    printed = run(home, "audit", "verify")
    said = run(home, "audit", "verify", "--json").json
    assert said["checkpoint"] in printed.out + "\n"
    kept, bare = tmp_path / "kept.txt", tmp_path / "bare.txt"
    kept.write_text(printed.out)
    bare.write_text(said["checkpoint"])
    for file in (early, kept, bare):
        assert run(home, "audit", "verify", "--checkpoint", str(file)).code == 0

    shutil.rmtree(home.path)
    copy_of(states / "earlier", home.path)
    assert run(home, "audit", "verify").code == 0
    assert run(home, "audit", "verify", "--checkpoint", str(early)).code == 0
    for file in (kept, bare):
        done = run(home, "audit", "verify", "--checkpoint", str(file), "--json")
        assert done.code == 8
        missing, have = map(int, MISSING.search(done.json["problem"]).groups())
        assert missing + have == said["entries"]
        assert have == done.json["entries"]
        plain = run(home, "audit", "verify", "--checkpoint", str(file))
        assert plain.code == 8
        assert "kept elsewhere" in plain.out


async def test_a_running_service_compares_with_a_kept_checkpoint_as_well(states, tmp_path):
    home = copy_of(states / "later", tmp_path / "home")
    kept = tmp_path / "kept.txt"
    kept.write_text(run(home, "audit", "verify").out)
    async with service_process(home) as service:
        await service.console()
        assert run(home, "audit", "verify", "--checkpoint", str(kept)).code == 0
    # A service that was started on the earlier state writes entries of its own over what is gone.
    earlier = copy_of(states / "earlier", tmp_path / "earlier")
    async with service_process(earlier) as service:
        console = await service.console()
        size = int(kept.read_text().split("quarterdeck/journal\n")[1].split("\n")[0])
        while (await console.service.state()).journal.entries <= size:
            started = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
            await console.runs.wait(started.summary.id, PATIENCE_S)
        assert (await console.journal.verify()).ok
        done = run(earlier, "audit", "verify", "--checkpoint", str(kept), "--json")
        assert done.code == 8
        assert f"first {size} entries are not those" in done.json["problem"]


def test_what_is_no_checkpoint_of_this_journal_is_told_from_what_is_no_checkpoint(states, tmp_path):
    home, other = copy_of(states / "later", tmp_path / "home"), make_home(tmp_path / "other")
    assert run(other, *READ).code == 0
    file = tmp_path / "kept.txt"
    text = run(home, "audit", "verify").out

    def verify(text: str) -> int:
        file.write_text(text)
        done = run(home, "audit", "verify", "--checkpoint", str(file), "--json")
        assert done.code == 0 or done.json["error"]["message"]
        return done.code

    assert verify(text) == 0
    # Another journal's: this one may have been put in its place, so it does not pass.
    assert verify(run(other, "audit", "verify").out) == 8
    # So does none at all where there was one.
    file.write_text(text)
    empty = Home(tmp_path / "empty").create()
    assert run(empty, "audit", "verify", "--checkpoint", str(file)).code == 8
    assert run(empty, "audit", "verify").code == 2
    # A file that says nothing of any journal is bad input.
    assert verify("nothing") == 2
    assert verify("") == 2
    assert verify(text.replace("\nspool ", "\nspool 9")) == 2
    file.unlink()
    assert run(home, "audit", "verify", "--checkpoint", str(file)).code == 2
    assert run(home, "audit", "verify", "--checkpoint", str(tmp_path)).code == 2

"""Closed paths of the read-only shell: wherever the home lies, however they nest, and while a line runs."""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.aip.messages import Result
from core.device import DeviceConfig, Router, build_router
from core.device.tools import read_shell_linux
from core.home import Home
from core.tasks import TaskGroupOwner
from tests.fakes.device_process import run as device_command
from tests.fakes.patience import PATIENCE_S
from tests.fakes.plain_user import seen_folder
from tests.fakes.read_shell import NEEDS_BUBBLEWRAP, run
from tests.fakes.service_process import service_process, until_online

pytestmark = NEEDS_BUBBLEWRAP
SECRET = "WHAT-NOBODY-MAY-READ"
_EXCHANGE, _HERE = 2, -100


def exchange(one: Path, other: Path) -> None:
    """Let two paths change places in one step (renameat2(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2", str(one))


@pytest.fixture
def seen() -> Iterator[Path]:
    """A folder that is in no hidden one."""
    with seen_folder() as folder:
        yield folder


@asynccontextmanager
async def shell(root: Path, *closed: Path, **config: tuple[Path, ...]) -> AsyncIterator[Router]:
    """A device with this root; its state lies beside."""
    state = root.parent / f"{root.name}-state"
    router = build_router(DeviceConfig(roots=(root,), **config).closing(*closed), state, "closed")
    try:
        yield router
    finally:
        await router.close()
        shutil.rmtree(state, ignore_errors=True)


def out(result: Result) -> str:
    assert result.result is not None, result.error
    return str(result.result["stdout"])


@pytest.mark.parametrize("hidden", [False, True], ids=["seen", "in a hidden folder"])
@pytest.mark.parametrize("order", [1, -1], ids=["outer first", "inner first"])
async def test_closed_paths_may_lie_in_each_other_in_any_order(
    seen: Path, tmp_path: Path, hidden: bool, order: int
) -> None:
    root = (tmp_path if hidden else seen) / "root"
    (root / "outer" / "inner").mkdir(parents=True)
    for name in ("outer/file", "outer/inner/file", "outer/service.sock"):
        (root / name).write_text(SECRET)
    (root / "open").write_text("open\n")
    names = ["outer", "outer/inner", "outer/file", "outer/service.sock", "outer/none", "outer/inner/none"]
    async with shell(root, *(root / name for name in names[::order])) as router:
        result = await run(
            router, "cat open; ls outer outer/inner; cat outer/* outer/inner/*; find . -type f"
        )
    assert out(result).splitlines()[0] == "open"
    assert SECRET not in out(result)
    assert "inner" not in out(result)
    assert "file" not in out(result)


@pytest.mark.parametrize("place", ["home", "root/home"], ids=["beside the root", "below the root"])
async def test_the_read_only_shell_works_wherever_the_home_lies(
    seen: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (seen / "root").mkdir()
    # A person's home is the first root.
    monkeypatch.setenv("HOME", str(seen / "root"))
    home = Home(seen / place).create()
    (seen / "root" / "open").write_text("open\n")
    line = f"cat open; ls -A '{home.path}'; cat '{home.path}'/*; true"
    async with service_process(home) as service:
        console = await service.console()
        await until_online(console)
        run = await console.runs.call("this-computer", "shell_execute_read", {"command": line})
        [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S)).cells
    assert cell.result is not None
    assert cell.result.error is None
    assert cell.result.result["stdout"] == "open\n"


def test_a_sandbox_that_would_fail_for_each_call_is_not_offered_and_the_check_says_why(seen: Path) -> None:
    # The interpreter that is its first process is in a closed folder.
    config = seen / "device.toml"
    config.write_text(f'roots = ["{seen}"]\nclosed_paths = ["{sys.base_prefix}"]\n')
    words = ["--config", str(config), "--state", str(seen / "state"), "--check", "--json"]
    checked = json.loads(device_command(*words).out)
    assert checked["sandbox"] is False
    [missing] = [row for row in checked["unavailable"] if row["tool"] == "shell_execute_read"]
    assert missing["reason"].startswith("bubblewrap does not run here: ")
    config.write_text(f'roots = ["{seen}"]\nclosed_paths = ["{seen}/state", "{seen}/state/keys"]\n')
    assert json.loads(device_command(*words).out)["sandbox"] is True


def test_a_sandbox_that_shows_what_is_closed_is_not_offered(
    seen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (seen / "root").mkdir()
    (seen / "closed").mkdir()
    (seen / "closed" / "secret").write_text(SECRET)
    # It leaves out every folder that was to be empty but the usual ones.
    program = seen / "bwrap"
    program.write_text(
        "#!/usr/bin/env bash\nwords=()\nwhile (($#)); do\n"
        f'if [[ $1 == --tmpfs && $2 == {seen}* ]]; then shift 4; else words+=("$1"); shift; fi\ndone\n'
        f'exec {shutil.which("bwrap")} "${{words[@]}}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{seen}:{os.environ['PATH']}")
    router = build_router(DeviceConfig(roots=(seen / "root",)).closing(seen / "closed"), seen / "state", "x")
    [missing] = [row for row in router.unavailable if row.tool == "shell_execute_read"]
    assert missing.reason.startswith(f"The sandbox lets a command read {seen}/closed, which is closed")


# What becomes of the closed paths while a line runs; each waits until it is told that it has happened.
async def while_it_runs(router: Router, root: Path, line: str, deed: Callable[[], None]) -> Result:
    os.mkfifo(root / "go")
    running = TaskGroupOwner("test").spawn("read", run(router, f"read x < go; {line}"))
    # Opens when the other end does.
    with await asyncio.to_thread((root / "go").open, "w") as go:
        deed()
        go.write("on\n")
    return await running


def comes_to_be_a_file(root: Path) -> None:
    (root / "closed").write_text(SECRET)


def comes_to_be_a_folder(root: Path) -> None:
    (root / "closed").mkdir()
    (root / "closed" / "secret").write_text(SECRET)


def comes_from_elsewhere(root: Path) -> None:
    (root / "open" / "deep").rename(root / "closed")
    (root / "closed" / "secret").write_text(SECRET)


def comes_from_a_hidden_folder(root: Path) -> None:
    (root / "hidden").rename(root / "closed")


def is_exchanged_with_an_open_folder(root: Path) -> None:
    exchange(root / "closed", root / "open")
    (root / "closed" / "secret").write_text(SECRET)


def is_exchanged_with_a_new_folder(root: Path) -> None:
    (root / "new").mkdir()
    (root / "new" / "secret").write_text(SECRET)
    exchange(root / "closed", root / "new")


def is_exchanged_with_an_open_file(root: Path) -> None:
    exchange(root / "closed", root / "notes")
    (root / "closed").write_text(SECRET)


def becomes_a_link(root: Path) -> None:
    if (root / "closed").exists():
        shutil.rmtree(root / "closed")
    (root / "open" / "secret").write_text(SECRET)
    (root / "closed").symlink_to("open")


def is_made_anew(root: Path) -> None:
    shutil.rmtree(root / "closed")
    comes_to_be_a_folder(root)


def its_folder_is_exchanged(root: Path) -> None:
    (root / "open" / "closed").mkdir(exist_ok=True)
    exchange(root / "folder", root / "open")
    (root / "folder" / "closed" / "secret").write_text(SECRET)


@dataclasses.dataclass(frozen=True)
class Change:
    """What happens, whether the closed path is there before, and which one that is."""

    deed: Callable[[Path], None]
    is_there: bool
    path: str = "closed"


CHANGES = {
    "comes to be, a file": Change(comes_to_be_a_file, False),
    "comes to be, a folder": Change(comes_to_be_a_folder, False),
    "comes from an open folder": Change(comes_from_elsewhere, False),
    "is exchanged with an open folder": Change(is_exchanged_with_an_open_folder, True),
    "is exchanged with a new folder": Change(is_exchanged_with_a_new_folder, True),
    "is exchanged with an open file": Change(is_exchanged_with_an_open_file, True),
    "becomes a link": Change(becomes_a_link, True),
    "comes to be, a link": Change(becomes_a_link, False),
    "is made anew": Change(is_made_anew, True),
    "its folder is exchanged": Change(its_folder_is_exchanged, True, "folder/closed"),
}
READ = "cat {0} {0}/secret 2> /dev/null; ls {0} | grep secret; echo end"


@pytest.mark.parametrize("hidden", [False, True], ids=["seen", "in a hidden folder"])
@pytest.mark.parametrize("name", CHANGES)
async def test_what_is_closed_stays_so_while_a_line_runs(
    seen: Path, tmp_path: Path, name: str, hidden: bool
) -> None:
    root, change = (tmp_path if hidden else seen) / "root", CHANGES[name]
    for folder in ("open/deep", "folder", *([change.path] if change.is_there else [])):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "notes").write_text("open\n")
    async with shell(root, root / change.path) as router:
        result = await while_it_runs(router, root, READ.format(change.path), lambda: change.deed(root))
        again = await run(router, READ.format(change.path))
    assert SECRET not in result.model_dump_json()
    assert "secret" not in out(result) if result.result else True
    assert SECRET not in again.model_dump_json()


async def test_a_line_that_stands_in_a_folder_reads_nothing_there_once_it_is_closed(seen: Path) -> None:
    root = seen / "root"
    for folder in ("open", "closed"):
        (root / folder).mkdir(parents=True)
    line = "exec 3< open; cd open; read x < ../go; cat secret; cat /proc/self/fd/3/secret; cat ../*/secret"

    def deed() -> None:
        exchange(root / "closed", root / "open")
        (root / "closed" / "secret").write_text(SECRET)

    os.mkfifo(root / "go")
    async with shell(root, root / "closed") as router:
        running = TaskGroupOwner("test").spawn("read", run(router, line))
        with await asyncio.to_thread((root / "go").open, "w") as go:
            deed()
            go.write("on\n")
        result = await running
    assert SECRET not in result.model_dump_json()
    assert (result.error or "").startswith("cancelled: A protected path was replaced")


async def test_what_happens_beside_a_closed_path_ends_no_line(seen: Path) -> None:
    root = seen / "root"
    (root / "closed").mkdir(parents=True)
    (root / "open").mkdir()

    def deed() -> None:
        (root / "open" / "more").write_text("more\n")
        (root / "closed" / "secret").write_text(SECRET)
        (root / "beside").mkdir()
        (root / "notes").write_text("new\n")
        (root / "notes").replace(root / "other")
        shutil.rmtree(root / "beside")

    async with shell(root, root / "closed", root / "none" / "none") as router:
        result = await while_it_runs(router, root, "cat open/more; ls closed", deed)
    assert out(result) == "more\n"
    assert result.error is None


WITH_A_MOUNT = """
import asyncio, json, os, subprocess, sys
from pathlib import Path
from core.device import DeviceConfig, build_router
from tests.fakes.read_shell import run

async def main(root, elsewhere, state):
    for source, target in ((root / "home", elsewhere / "home"), (root / "home" / "keys", elsewhere / "keys")):
        subprocess.run(["mount", "--bind", source, target], check=True)
    closed = (root / "home" / "keys", root / "home" / "none")
    router = build_router(DeviceConfig(roots=(root, elsewhere)).closing(*closed), state, "mounted")
    line = f"cat {elsewhere}/home/open; cat {elsewhere}/home/keys/* {elsewhere}/keys/*; ls {elsewhere}/keys; "
    line += f"cat {root}/home/keys/*"
    print((await run(router, line)).model_dump_json())
    await router.close()

asyncio.run(main(*map(Path, sys.argv[1:])))
"""


def test_a_bind_mount_of_the_home_is_no_way_around(seen: Path) -> None:
    root, elsewhere = seen / "root", seen / "elsewhere"
    (root / "home" / "keys").mkdir(parents=True)
    (root / "home" / "keys" / "secret").write_text(SECRET)
    (root / "home" / "open").write_text("open\n")
    for name in ("home", "keys"):
        (elsewhere / name).mkdir(parents=True)
    own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*own, "true"], check=False).returncode != 0:
        pytest.skip("no mounts can be made here")
    done = subprocess.run(
        [*own, sys.executable, "-c", WITH_A_MOUNT, str(root), str(elsewhere), str(seen / "state")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    result = Result.model_validate_json(done.stdout.splitlines()[-1])
    assert out(result) == "open\n", done.stdout
    assert SECRET not in done.stdout


def bwrap_after(folder: Path, deed: str) -> None:
    """A `bwrap` before which something is done, once it was decided what is shown."""
    program = folder / "bwrap"
    program.write_text(
        f'#!/bin/sh\nif [ -e {folder}/armed ]; then {deed}; fi\nexec {shutil.which("bwrap")} "$@"\n'
    )
    program.chmod(0o755)


@pytest.mark.parametrize("by", ["a link", "a folder", "a link to what is hidden"])
@pytest.mark.parametrize("hidden", [False, True], ids=["seen", "in a hidden folder"])
async def test_a_working_directory_that_is_exchanged_meanwhile_is_neither_used_nor_shown(
    seen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, hidden: bool
) -> None:
    root = (tmp_path if hidden else seen) / "root"
    outside = (seen if by == "a link" else tmp_path) / "outside"
    for folder in (root / "work", root / "other", outside):
        folder.mkdir(parents=True)
    for folder in (root / "other", outside):
        (folder / "secret").write_text(SECRET)
    (root / "work" / "open").write_text("open\n")
    way = f"ln -s {outside} {root}/work" if by != "a folder" else f"mv {root}/other {root}/work"
    bwrap_after(seen, f"mv {root}/work {root}/was; {way}")
    monkeypatch.setenv("PATH", f"{seen}:{os.environ['PATH']}")
    async with shell(root) as router:
        before = await run(router, "cat *", working_directory=f"{root}/work")
        (seen / "armed").touch()
        result = await run(router, "pwd; cat *; ls; cat $PWD/*", working_directory=f"{root}/work")
    assert out(before) == "open\n"
    assert SECRET not in result.model_dump_json()
    assert result.error is not None
    assert result.error.startswith(("path_not_allowed: ", "tool_failed: The sandbox could not be made"))
    assert "Traceback" not in result.error


async def test_a_link_that_goes_while_it_is_followed_is_a_clear_error(
    seen: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = seen / "root"
    for name in ("work", "other", "closed"):
        (root / name).mkdir(parents=True)
    (root / "way").symlink_to("other")
    read_link, clean_environment = os.readlink, read_shell_linux.clean_environment

    def gone(path: str, **more: int) -> str:
        if str(path).startswith(str(root)):
            # What the system says of a folder that was a link a moment ago.
            raise OSError(errno.EINVAL, "Invalid argument", str(path))
        return read_link(path, **more)

    def after_the_check() -> dict[str, str]:
        if not (root / "work").is_symlink():
            (root / "work").rmdir()
            (root / "work").symlink_to("other")
        return clean_environment()

    async with shell(root, root / "closed") as router:
        (root / "closed").rmdir()
        (root / "closed").symlink_to("nowhere")
        monkeypatch.setattr(os, "readlink", gone)
        resolving = await run(router, "pwd", working_directory=f"{root}/way")
        beside = await run(router, "pwd", working_directory=f"{root}/other")
        monkeypatch.setattr(read_shell_linux, "clean_environment", after_the_check)
        starting = await run(router, "pwd", working_directory=f"{root}/work")
    assert (resolving.error or "").startswith("path_not_allowed: working_directory cannot be resolved")
    assert (starting.error or "").startswith(
        f"path_not_allowed: {root}/work changed while it was being opened"
    )
    assert (beside.error, out(beside)) == (None, f"{root}/other\n")
    assert "Traceback" not in caplog.text

"""An allowed root that the sandbox otherwise hides, such as /tmp: it is shown, and no secret with it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from core.aip.messages import Command, Result
from core.device import DeviceConfig, Router, build_router
from core.tasks import TaskGroupOwner
from tests.fakes.plain_user import seen_folder
from tests.fakes.read_shell import (
    NEEDS_BUBBLEWRAP,
    PYTHON,
    build_tree,
    listener,
    run,
    run_all,
    snapshot,
    succeeding,
)

pytestmark = NEEDS_BUBBLEWRAP
TMP = Path("/tmp")
SECRET = "WHAT-NOBODY-MAY-READ"
# Ways to a file, each with its place to be filled in.
WAYS = (
    "cat {path}",
    "cat /proc/self/root{path}",
    "cat /proc/1/root{path}",
    "cd {folder} && cat {name}",
    "find {folder} -type f -exec cat {{}} +",
    "grep -rh . {folder}",
    "tar cf - {path} | cat",
    "cp {path} /dev/stdout",
    "{python} -c 'print(open(\"{path}\").read())'",
    "while read -r line; do echo $line; done < {path}",
)


@asynccontextmanager
async def shell(state: Path, *roots: Path) -> AsyncIterator[Router]:
    """A device with these roots, and its own files below `state`."""
    router = build_router(DeviceConfig(roots=roots), state / "device", "scratch")
    try:
        assert "shell_execute_read" not in {row.tool for row in router.unavailable}
        yield router
    finally:
        await router.close()


@pytest.fixture
def state() -> Iterator[Path]:
    """Where a device keeps its files: neither below /tmp nor below a root."""
    with seen_folder() as folder:
        yield folder


@pytest.fixture
def made() -> Iterator[Path]:
    """A folder directly below /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="quarterdeck-scratch-", dir=TMP))
    yield folder
    shutil.rmtree(folder)


def out(result: Result) -> str:
    assert result.result is not None, result.error
    return str(result.result["stdout"])


async def test_an_allowed_tmp_is_shown_and_the_answer_lacks_nothing(state: Path, made: Path):
    (made / "notes").write_text("in the open\n")
    (made / "inner").mkdir(mode=0o700)
    async with shell(state, state, TMP) as router:
        for line in (f"cat {made}/notes", f"cat /tmp/*/notes | grep open; test -d {made}/inner"):
            result = await run(router, line)
            assert out(result) == "in the open\n"
            assert result.result["not_seen"] == []
        assert made.name in out(await run(router, "ls /tmp")).split()
        there = await run(router, f"pwd; cat {made.name}/notes", working_directory="/tmp")
        assert out(there) == "/tmp\nin the open\n"


async def test_tmp_stays_hidden_where_it_is_no_root_and_the_answer_says_so(state: Path, made: Path):
    async with shell(state, state) as router:
        result = await run(router, "ls /tmp")
    # The program may lie there itself.
    assert made.name not in out(result).split()
    assert [row["what"] for row in result.result["not_seen"]] == ["folders"]


async def test_nothing_below_an_allowed_tmp_can_be_written(state: Path, made: Path):
    tree = build_tree(made / "tree")
    file = made.with_name(f"{made.name}-file")
    file.write_text("precious\n")
    attacks = (
        *(f"echo x > {file}", f"echo x >> {file}", f"rm {file}", f"mv {file} {file}2", f"chmod 777 {file}"),
        *(f"ln {file} {file}2", f"touch {file}", f"truncate -s 0 {file}", f"touch {file}2", f"mkdir {file}2"),
        *(f"rm -r {tree}", f"mv {tree} {tree}2", f"ln -s x {tree}/new", f"echo x > {tree}/folder/inner"),
        *(f"dd if=/dev/zero of={tree}/file count=1", f"echo x <> {tree}/fifo >&0", f"rmdir {tree}/folder"),
        f"echo x > /proc/self/root{tree}/file",
        "mktemp",
        f"{PYTHON} -c 'import os; os.open(\"/tmp\", os.O_TMPFILE | os.O_RDWR)'",
        f"mount -o remount,rw /tmp && echo x > {file}",
        f"umount /tmp && echo x > {file}",
    )
    before = (snapshot(tree), file.stat(), file.read_text())
    reader = os.open(tree / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        async with shell(state, TMP) as router:
            assert await succeeding(router, attacks) == []
            assert not file.with_name(f"{file.name}2").exists()
            after = (snapshot(tree), file.stat(), file.read_text())
            assert os.read(reader, 1) == b""
            control = await run(router, attacks[1], inside=False)
    finally:
        os.close(reader)
        text = file.read_text()
        file.unlink()
    assert after == (before[0], after[1], before[2])
    facts = ("st_mode", "st_uid", "st_nlink", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
    assert all(getattr(after[1], fact) == getattr(before[1], fact) for fact in facts)
    assert control.result["exit_code"] == 0
    assert text == "precious\nx\n", "the attack does nothing even without the sandbox"


async def unreadable(router: Router, path: Path) -> None:
    """Attack a file with a secret in it each way."""
    words = {"path": path, "folder": path.parent, "name": path.name, "python": PYTHON}
    ways = [way.format(**{name: shlex.quote(str(word)) for name, word in words.items()}) for way in WAYS]
    # Everybody's scratch folder is too large to be walked through.
    lines = [way for way in ways if path.parent != TMP or str(path) in way]
    for line, (_, said) in zip(lines, await run_all(router, lines), strict=True):
        assert SECRET not in said, line
    assert SECRET in out(await run(router, ways[0], inside=False)), "it is no secret without the sandbox"


@pytest.mark.parametrize("prefix", ["ssh-", "systemd-private-", "gpg-"])
async def test_what_programs_keep_private_below_tmp_stays_hidden(state: Path, prefix: str):
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=TMP))
    try:
        (folder / "key").write_text(SECRET)
        async with shell(state, TMP) as router:
            await unreadable(router, folder / "key")
            result = await run(router, f"ls -A {folder}")
            assert out(result) == ""
            assert str(folder) in result.result["not_seen"][0]["why"]
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("prefix", ["krb5cc_", "xauth_", "x509up_u"])
async def test_credentials_in_files_below_tmp_stay_hidden(state: Path, prefix: str):
    with tempfile.NamedTemporaryFile("w", prefix=prefix, dir=TMP) as file, ExitStack() as stack:
        file.write(SECRET)
        file.flush()
        way = Path(f"{TMP}/quarterdeck-way-{os.path.basename(file.name)}")
        os.symlink(file.name, way)
        stack.callback(way.unlink)
        async with shell(state, TMP) as router:
            await unreadable(router, Path(file.name))
            await unreadable(router, way)
            # Tools of another kind are no way either, as long as no operator approved the call.
            for path in (file.name, str(way)):
                given = {"file_path": path}
                kind = {"tool_name": "read_file", "tool_type": "data_collection", "parameters": given}
                read = await router.run(Command.model_validate(kind), 30)
                assert "is private: it is shown only to a call that an operator approved" in str(read.error)


@pytest.mark.parametrize("directly", [False, True], ids=["in a folder of its own", "directly"])
async def test_agents_sockets_below_tmp_are_neither_listed_nor_reached(
    state: Path, made: Path, directly: bool
):
    # A name that no list has.
    place = made.with_name(f"{made.name}-agent") if directly else made / "agent.1"
    (script := state / "reach.py").write_text(
        f"import socket; socket.socket(socket.AF_UNIX).connect({str(place)!r})"
    )
    with ExitStack() as stack:
        agent = socket.socket(socket.AF_UNIX)
        agent.bind(str(place))
        stack.callback(place.unlink)
        async with shell(state, state, TMP) as router:
            with listener(agent) as heard:
                assert (await run(router, f"{PYTHON} {script}")).result["exit_code"] != 0
                # A name in an allowed folder is listed, as other tools do; a folder of sockets is empty.
                listed = out(await run(router, f"find {made} {place.parent} -maxdepth 1 -name 'agent.1'"))
                assert listed == ""
                assert heard == []
                assert (await run(router, f"{PYTHON} {script}", inside=False)).result["exit_code"] == 0
            assert heard


async def test_the_devices_own_state_and_the_consoles_home_below_tmp_stay_hidden(
    made: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("QUARTERDECK_HOME", str(made / "console"))
    (made / "console").mkdir()
    (made / "console" / "secret").write_text(SECRET)
    for roots in ((TMP,), (made,)):
        async with shell(made, *roots) as router:
            (made / "device" / "secret").write_text(SECRET)
            await unreadable(router, made / "device" / "secret")
            await unreadable(router, made / "console" / "secret")
            result = await run(router, f"ls -A {made}/device {made}/console; cat {made}/*/secret; true")
            assert SECRET not in out(result)
            assert "secret" not in out(result)


async def test_private_places_below_tmp_stay_hidden(state: Path, made: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(made))
    (made / ".ssh").mkdir()
    (made / ".ssh" / "id_rsa").write_text(SECRET)
    (made / ".netrc").write_text(SECRET)
    (made / "notes").write_text("in the open\n")
    async with shell(state, TMP) as router:
        await unreadable(router, made / ".ssh" / "id_rsa")
        await unreadable(router, made / ".netrc")
        result = await run(router, f"cat {made}/notes")
    assert out(result) == "in the open\n"
    assert {"~/.ssh", "~/.netrc"} <= set(result.result["hidden"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("mode", [0o600, 0o640])
async def test_another_users_private_files_below_tmp_are_not_readable_for_root_either(
    state: Path, made: Path, mode: int
):
    (made / "theirs").write_text(SECRET)
    (made / "theirs").chmod(mode)
    os.chown(made / "theirs", 54321, 54321)
    async with shell(state, TMP) as router:
        await unreadable(router, made / "theirs")


async def test_what_comes_to_an_allowed_tmp_while_a_line_runs_is_not_readable(state: Path, made: Path):
    os.mkfifo(made / "fifo")
    late = made.with_name(f"{made.name}-late")
    line = f"echo begun; read x < {made}/fifo; cat {late}/secret; ls {made}"
    try:
        async with shell(state, TMP) as router:
            running = TaskGroupOwner("test").spawn("read", run(router, line))
            # Opens when the other end does.
            writing = await asyncio.to_thread((made / "fifo").open, "w")
            late.mkdir()
            (late / "secret").write_text(SECRET)
            with writing:
                writing.write("on\n")
            result = await running
    finally:
        shutil.rmtree(late)
    assert out(result) == "begun\nfifo\n"
    assert "Permission denied" in result.result["stderr"]


async def test_folders_of_sockets_and_devices_stay_hidden_when_they_are_roots(state: Path):
    async with shell(state, state, Path("/run"), Path("/dev")) as router:
        result = await run(router, "ls -A /run")
        devices = out(await run(router, "ls /dev")).split()
    # NixOS has its programs there.
    assert set(out(result).split()) <= {"current-system", "wrappers"}
    assert result.result["not_seen"][0]["what"] == "folders"
    assert not [name for name in devices if name.startswith(("vd", "sd", "nvme", "mem", "kmsg", "loop"))]


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no shared memory here")
async def test_a_root_below_the_sandboxs_own_mounts_is_shown_and_stays_read_only(state: Path):
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        (folder / "file").write_text("in the open\n")
        for root in (folder, Path("/dev/shm")):
            async with shell(state, state, root) as router:
                assert out(await run(router, f"cat {folder}/file")) == "in the open\n"
                assert (await run(router, f"touch {folder}/new")).result["exit_code"] != 0
                assert (await run(router, "touch /dev/shm/new")).result["exit_code"] != 0
    finally:
        shutil.rmtree(folder)


async def test_a_folder_that_goes_while_the_sandbox_is_made_costs_no_line(
    state: Path, made: Path, monkeypatch: pytest.MonkeyPatch
):
    real = shutil.which("bwrap")
    fails = made / "fails"
    (made / "bwrap").write_text(
        f"#!/bin/sh\nread left < {fails}; echo $((left - 1)) > {fails}\n"
        f'[ $left -gt 0 ] && echo "bwrap: Can\'t mkdir /tmp/ssh-gone: Read-only file system" >&2 && exit 1\n'
        f'exec {real} "$@"\n'
    )
    (made / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{made}:{os.environ['PATH']}")
    fails.write_text("0\n")
    async with shell(state, state, TMP) as router:
        fails.write_text("2\n")
        assert out(await run(router, "echo works")) == "works\n"
        fails.write_text("99\n")
        result = await run(router, "echo works")
    assert "The sandbox could not be made: bwrap: Can't mkdir /tmp/ssh-gone" in (result.error or "")
    # One line, as often as it is tried at all.
    assert fails.read_text() == "96\n"


@pytest.mark.skipif(shutil.which("dpkg") is None or shutil.which("apt") is None, reason="no Debian")
async def test_installed_packages_are_listed_and_the_answer_lacks_nothing(state: Path):
    async with shell(state, state) as router:
        rows = await run(router, "dpkg-query -W -f '${db:Status-Status} ${Package}\\n' | grep '^installed '")
        listed = await run(router, "apt list --installed")
        assert (await run(router, "dpkg -l")).result["not_seen"] == []
    names = {row.split()[1] for row in out(rows).splitlines()}
    assert names
    assert {row.split("/")[0] for row in out(listed).splitlines() if "/" in row} == names
    assert (rows.result["not_seen"], listed.result["not_seen"]) == ([], [])
    assert rows.result["exit_code"] == listed.result["exit_code"] == 0

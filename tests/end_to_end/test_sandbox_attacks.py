"""The read-only shell, attacked. Each attack is first seen to work without the sandbox, then tried in it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from core.aip.messages import ResultStatus
from core.device import DeviceConfig, Router, build_router
from core.tasks import TaskGroupOwner
from tests.fakes.read_shell import NEEDS_BUBBLEWRAP, PYTHON, bound, listener, run, snapshot, succeeding

pytestmark = [NEEDS_BUBBLEWRAP, pytest.mark.asyncio(loop_scope="module")]


FILES = {
    "redirect": "echo x > file",
    "append": "echo x >> file",
    "make": "echo x > new",
    "truncate": ": > file",
    "truncate_call": f"{PYTHON} -c 'import os; os.truncate(\"file\", 0)'",
    "tee": "echo x | tee file",
    "dd": "dd if=/dev/zero of=file bs=1 count=4 conv=notrunc",
    "python": f'{PYTHON} -c \'open("file", "r+").write("owned")\'',
    "sed": "sed -i s/precious/gone/ file",
    "chmod": "chmod 777 file",
    "fchmod": f"{PYTHON} -c 'import os; os.fchmod(os.open(\"file\", 0), 0o777)'",
    "chmod_through_proc": "exec 5< file; chmod 777 /proc/self/fd/5",
    "chown": "chown $(id -u):$(id -g) file",
    "touch_date": "touch -d 2001-01-01 file",
    "touch": "touch file",
    "futimens": f"{PYTHON} -c 'import os; os.utime(os.open(\"file\", 0), (5, 5))'",
    "xattr": f'{PYTHON} -c \'import os; os.setxattr("file", "user.x", b"y")\'',
    "hard_link": "ln file other",
    "symlink": "ln -s file other",
    "fifo": "mkfifo other",
    "socket_file": f"{PYTHON} -c 'import os, stat; os.mknod(\"other\", stat.S_IFSOCK | 0o600)'",
    "rename": "mv file moved",
    "delete": "rm file",
    "delete_tree": "rm -r folder",
    "folder": "mkdir other",
    "copy": "cp file folder/",
    "through_link": "echo x > link",
    "dots": "echo x > folder/../file",
    "through_proc_root": 'echo x > "/proc/self/root$PWD/file"',
    "through_proc_cwd": "echo x > /proc/self/cwd/file",
    "through_parent_root": 'echo x > "/proc/$PPID/root$PWD/file"',
    "reopen_descriptor": "exec 5< file; echo x > /proc/self/fd/5",
    "background": "(setsid nohup sh -c 'echo x > file' & wait)",
    "tar": "tar cf other.tar file",
    "exec_environment": "env -i /bin/sh -c 'echo x > file'",
    "here_document": "cat > file <<< owned",
    "chattr_by_ioctl": (
        f'{PYTHON} -c \'import fcntl, os, struct; d = os.open("file", 0); '
        'fcntl.ioctl(d, 0x40086602, struct.pack("l", 0x80))\''
    ),
    "archive_bit": "install -m 600 /dev/null other",
}
# Not every file system or user can do these at all, so the control does not have to succeed.
NEEDS_SUPPORT = {"xattr", "chattr_by_ioctl", "through_parent_root"}


@pytest.mark.story
async def test_no_file_is_changed(router: Router, tree: Path) -> None:
    before = snapshot(tree)
    assert await succeeding(router, list(FILES.values())) == [FILES["background"]]
    assert snapshot(tree) == before


@pytest.mark.parametrize("attack", [name for name in FILES if name not in NEEDS_SUPPORT])
async def test_each_of_these_changes_a_file_without_the_sandbox(
    router: Router, tree: Path, attack: str
) -> None:
    before = snapshot(tree)
    control = await run(router, FILES[attack], inside=False)
    assert control.result["exit_code"] == 0, control.result
    assert snapshot(tree) != before


async def test_a_refusal_says_that_the_tool_can_only_read(router: Router) -> None:
    result = await run(router, "echo x > file")
    assert result.status is ResultStatus.FAILURE
    assert (result.error or "").startswith("denied_by_device: This tool can only read.")
    assert "Read-only file system" in result.result["blocked"][0]
    tolerated = await run(router, "echo x > file; echo went on")
    assert tolerated.status is ResultStatus.SUCCESS
    assert tolerated.result["stdout"] == "went on\n"
    assert tolerated.result["blocked"]


async def test_what_only_reads_works_as_in_any_shell(router: Router, tree: Path) -> None:
    line = (
        "cat file; ls folder | wc -l; grep -c precious link; cat <<< here; echo bad >&2; echo n > /dev/null"
    )
    result = await run(router, line)
    assert result.status is ResultStatus.SUCCESS
    assert result.result["stdout"].split() == ["precious", "1", "1", "here"]
    assert (result.result["stderr"], result.result["blocked"]) == ("bad\n", [])
    inner = await run(router, "pwd; exit 7", working_directory=str(tree / "folder"))
    assert (inner.result["stdout"], inner.result["exit_code"]) == (f"{tree / 'folder'}\n", 7)
    piped = await run(router, "echo out | tee /dev/stderr; echo x > /dev/stdout; kill -9 $$")
    assert (piped.result["stdout"], piped.result["stderr"]) == ("out\nx\n", "out\n")
    assert piped.result["exit_code"] == 137


@pytest.mark.parametrize("kind", ["unix", "datagram", "abstract", "tcp", "udp"])
async def test_no_daemon_is_reached(router: Router, tree: Path, kind: str) -> None:
    made, code = bound(kind, tree)
    script = tree / "reach.py"
    script.write_text(code)
    with listener(made) as heard:
        result = await run(router, f"{PYTHON} {script}")
        assert result.result["exit_code"] != 0
        assert result.status is ResultStatus.FAILURE
        assert heard == []
        assert (await run(router, f"{PYTHON} {script}", inside=False)).result["exit_code"] == 0
    assert heard


async def test_a_pair_of_sockets_is_no_way_to_a_daemon(router: Router, tree: Path) -> None:
    made, _ = bound("datagram", tree)
    script = tree / "pair.py"
    pair = "import socket; a, b = socket.socketpair(type=socket.SOCK_DGRAM)"
    script.write_text(f"{pair}; a.sendto(b'x', {str(tree / 's')!r})")
    with listener(made) as heard:
        assert (await run(router, f"{PYTHON} {script}")).result["exit_code"] != 0
        assert heard == []
        assert (await run(router, f"{PYTHON} {script}", inside=False)).result["exit_code"] == 0
    assert heard == [b"x"]
    stream = f"{PYTHON} -c 'import socket; a, b = socket.socketpair(); a.send(b\"hi\"); print(b.recv(9))'"
    assert (await run(router, stream)).result["stdout"] == "b'hi'\n"


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET"])
async def test_raw_and_other_sockets_are_refused(router: Router, family: str) -> None:
    line = f"{PYTHON} -c 'import socket; socket.socket(socket.{family}, socket.SOCK_RAW)'"
    result = await run(router, line)
    assert "Operation not permitted" in result.result["stderr"]


async def test_a_daemon_that_reads_a_fifo_is_not_written_to(router: Router, tree: Path) -> None:
    # A read-only mount would allow this.
    reader = os.open(tree / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tree / "fifo", os.O_WRONLY)
    try:
        result = await run(router, "echo owned > fifo")
        assert result.result["exit_code"] != 0
        with pytest.raises(BlockingIOError):
            os.read(reader, 100)
        await run(router, "echo owned > fifo", inside=False)
        assert os.read(reader, 100) == b"owned\n"
    finally:
        os.close(reader)
        os.close(writer)


async def test_no_secret_and_no_way_to_a_desktop_is_in_the_environment(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "XAUTHORITY", "API_TOKEN"):
        monkeypatch.setenv(name, "leaks")
    assert "leaks" not in (await run(router, "env; cat /proc/*/environ")).result["stdout"]


async def test_the_devices_own_files_and_sockets_are_hidden(
    router: Router, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "beside").write_text("other people's")
    result = await run(router, f"ls {tmp_path} /run /tmp; cat {tmp_path}/state/undo/*; cat {tmp_path}/beside")
    assert "beside" not in result.result["stdout"]
    assert "state" not in result.result["stdout"]
    for folder in filter(os.path.isdir, ("/sys/kernel/tracing", "/sys/kernel/debug")):
        # Where they are mounted, whoever reads takes from the tracer.
        assert (await run(router, f"stat -f -c %T {folder}")).result["stdout"] == "tmpfs\n"
    config = DeviceConfig(roots=(tree,)).closing(tree / "folder", tree / "file")
    closed = build_router(config, tmp_path / "other-state", "closed")
    try:
        shown = (await run(closed, "ls -A folder; cat file folder/inner")).result["stdout"]
    finally:
        await closed.close()
    assert shown == ""


async def test_a_closed_file_stays_hidden_when_another_takes_its_place(tree: Path, tmp_path: Path) -> None:
    (tree / "folder" / "way").symlink_to("..")
    config = DeviceConfig(roots=(tree,)).closing(tree / "folder" / "inner")
    router = build_router(config, tmp_path / "state", "replaced")
    line = "cat file folder/way/file; read x < fifo; cat folder/inner folder/way/folder/inner; ls folder"
    try:
        running = TaskGroupOwner("test").spawn("read", run(router, line))
        # Opens when the other end does.
        writing = await asyncio.to_thread((tree / "fifo").open, "w")
        (tree / "new").write_text("secret\n")
        (tree / "new").replace(tree / "folder" / "inner")
        with writing:
            writing.write("on\n")
        result = await running
    finally:
        await router.close()
    assert result.result["stdout"] == "precious\nprecious\ninner\nway\n"
    assert result.result["stderr"].count("Permission denied") == 2


async def test_it_has_no_descriptor_but_its_three(router: Router, tree: Path) -> None:
    held = os.open(tree / "file", os.O_RDWR)
    os.set_inheritable(held, True)
    result = await run(router, "ls /proc/self/fd; ls /proc/$$/fd")
    others = await run(router, "for one in $(seq 0 255); do head -c 0 /proc/1/fd/$one && echo $one; done")
    os.close(held)
    assert set(result.result["stdout"].split()) <= {"0", "1", "2", "3"}
    # The sandbox's first process has some of its own, and nobody inside has them.
    assert others.result["stdout"] == ""


async def test_a_folder_outside_the_roots_is_refused(router: Router, tree: Path) -> None:
    (tree / "out").symlink_to("/etc")
    for folder in ("/etc", str(tree / "out"), f"{tree}/..", f"/proc/self/root{tree.parent}"):
        result = await run(router, "pwd", working_directory=folder)
        assert (result.error or "").startswith("path_not_allowed: "), folder

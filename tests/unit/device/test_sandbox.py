"""The sandbox's parts: when it is not offered and why, and a filter that is what it says."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.aip.messages import Command, ResultStatus
from core.device import DeviceConfig, build_router
from core.device.sandbox import bubblewrap, cgroup, sandbox_init, seatbelt, seccomp
from core.device.sandbox.bubblewrap import Bubblewrap, Mount, all_names, read_mounts
from core.device.tool import Unavailable
from core.device.tools.read_shell import NAME, blocked_lines, named_place

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's sandbox")
ALLOW, KILL, FAIL, ASK = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
X86_64, AARCH64 = 0xC000003E, 0xC00000B7


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    """No answer of an earlier test is remembered."""
    bubblewrap.find.cache_clear()
    cgroup.parent.cache_clear()
    yield
    bubblewrap.find.cache_clear()
    cgroup.parent.cache_clear()


def answer(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel would do: a filter program, run here."""
    words = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *words)
    steps = list(struct.iter_unpack("=HBBI", program))
    at, held = 0, 0
    while True:
        code, if_so, if_not, value = steps[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (held,) = struct.unpack_from("=I", data, value)
        elif code == 0x54:
            held &= value
        elif code == 0x05:
            at += value
        else:
            matches = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            at += if_so if matches else if_not


@pytest.mark.parametrize(
    ("machine", "architecture", "numbers"),
    [
        (
            "x86_64",
            X86_64,
            {"socket": 41, "chmod": 90, "read": 0, "clone": 56, "pair": 53, "ioctl": 16, "fcntl": 72}
            | {"shmget": 29, "io_setup": 206, "prlimit": 302, "setpriority": 141, "ioprio_set": 251}
            | {"mmap": 9, "memfd_create": 319, "sendmsg": 46, "sendmmsg": 307, "setsockopt": 54}
            | {"sendfile": 40, "splice": 275, "tee": 276, "vmsplice": 278}
            | {"timer_create": 222, "mq_notify": 244},
        ),
        (
            "aarch64",
            AARCH64,
            {"socket": 198, "chmod": 52, "read": 63, "clone": 220, "pair": 199, "ioctl": 29, "fcntl": 25}
            | {"shmget": 194, "io_setup": 0, "prlimit": 261, "setpriority": 140, "ioprio_set": 30}
            | {"mmap": 222, "memfd_create": 279, "sendmsg": 211, "sendmmsg": 269, "setsockopt": 208}
            | {"sendfile": 71, "splice": 76, "tee": 77, "vmsplice": 75}
            | {"timer_create": 107, "mq_notify": 184},
        ),
    ],
)
def test_the_filter_allows_reading_and_denies_the_rest(
    machine: str, architecture: int, numbers: dict[str, int]
) -> None:
    program = seccomp.filter_program(machine)
    assert len(program) % 8 == 0
    # The kernel takes no longer ones.
    assert len(program) // 8 < 4096

    def says(name: str, *arguments: int) -> int:
        return answer(program, architecture, numbers[name], *arguments)

    assert says("read") == ALLOW
    assert says("socket", 1, 1) == FAIL | errno.EPERM
    assert says("chmod") == FAIL | errno.EROFS
    assert says("clone", 0x11) == ALLOW
    assert says("clone", 0x10000011) == FAIL | errno.EPERM
    assert says("clone", 0x00020011) == FAIL | errno.EPERM
    assert says("pair", 1, 1) == ALLOW
    assert says("pair", 1, 0x80001) == ALLOW
    assert says("pair", 1, 2) == FAIL | errno.EPERM
    assert says("ioctl", 0, 0x5401) == ALLOW
    assert says("ioctl", 0, 0x5412) == FAIL | errno.EPERM
    assert says("ioctl", 0, 0x541C) == FAIL | errno.EPERM
    # To ask for a family that the kernel does not have makes it load a module.
    assert says("pair", 30, 1) == FAIL | errno.EPERM
    assert [says("fcntl", 0, what) for what in (0, 5, 1030)] == [ALLOW] * 3
    # A lock is not taken, and the program that asks for it, to read a database, goes on.
    assert [says("fcntl", 0, what) for what in (6, 7, 37, 38)] == [FAIL] * 4
    # A lease keeps others waiting; room in pipes is everybody's.
    for what in (10, 1024, 1026, 1031, 1036, 1038, 1040):
        assert says("fcntl", 0, what) == FAIL | errno.EPERM
    # Memory that stays when a process gives it back, and huge pages; what a program loads is neither.
    assert [says("mmap", 0, 4096, 1, flags) for flags in (0x2, 0x22, 0x1, 0x20022)] == [ALLOW] * 4
    assert [says("mmap", 0, 4096, 3, flags) for flags in (0x21, 0x40022)] == [FAIL | errno.EPERM] * 2
    assert (says("memfd_create", 0, 1), says("memfd_create", 0, 5)) == (ALLOW, FAIL | errno.EPERM)
    # A thread of the usual kind, and one whose open files are its own.
    assert (says("clone", 0x3D0F00), says("clone", 0x10900)) == (ALLOW, FAIL | errno.EPERM)
    assert answer(program, architecture, 436, 3, 99, 0) == ALLOW
    assert answer(program, architecture, 436, 3, 99, 2) == FAIL | errno.EPERM
    # Nothing sets going what was stopped to be counted: no timer, and no child's end.
    assert (says("timer_create"), says("mq_notify")) == (FAIL | errno.ENOSYS, FAIL | errno.ENOSYS)
    assert says("clone", 0x12) == FAIL | errno.EPERM
    for name in ("sendmsg", "sendmmsg", "setsockopt"):
        assert says(name) == FAIL | errno.EPERM
    for name in ("sendfile", "splice", "tee", "vmsplice"):
        assert says(name) == FAIL | errno.EINVAL
    assert says("shmget") == FAIL | errno.EPERM
    assert says("io_setup") == FAIL | errno.ENOSYS
    assert (says("prlimit", 0), says("prlimit", 1)) == (ALLOW, FAIL | errno.EPERM)
    assert (says("setpriority", 0, 0), says("ioprio_set", 1, 0)) == (ALLOW, ALLOW)
    for which, who in ((0, 1), (1, 0), (2, 0)):
        assert says("setpriority", which, who) == FAIL | errno.EPERM
        assert says("ioprio_set", which + 1, who) == FAIL | errno.EPERM
    assert answer(program, architecture, 435) == FAIL | errno.ENOSYS
    assert answer(program, architecture, 425) == FAIL | errno.EPERM
    # 32-bit calls have other numbers, and none of them is let through.
    assert answer(program, 0x40000003, numbers["read"]) == KILL


@pytest.mark.parametrize(
    ("machine", "architecture", "pipes", "epoll_ctl", "prctl", "seccomp_call"),
    [("x86_64", X86_64, (22, 293), 233, 157, 317), ("aarch64", AARCH64, (59,), 21, 167, 277)],
)
def test_the_second_filter_asks_before_what_takes_from_a_pool(
    machine: str,
    architecture: int,
    pipes: tuple[int, ...],
    epoll_ctl: int,
    prctl: int,
    seccomp_call: int,
) -> None:
    program = seccomp.counting_program(machine)
    assert {answer(program, architecture, number) for number in pipes} == {ASK}
    # Only what adds to what is watched.
    assert [answer(program, architecture, epoll_ctl, 3, what) for what in (1, 2, 3)] == [ASK, ALLOW, ALLOW]
    assert seccomp.epoll_ctl(machine) == epoll_ctl
    for number in (seccomp_call, 444, 445, 446):
        assert answer(program, architecture, number) == FAIL | errno.ENOSYS
    assert [answer(program, architecture, prctl, *words) for words in ((15,), (1, 9), (2, 18))] == [ALLOW] * 3
    assert answer(program, architecture, prctl, 1, 18) == FAIL | errno.EPERM
    assert answer(program, architecture, prctl, 22) == FAIL | errno.EINVAL
    assert answer(program, architecture, prctl, 4) == FAIL | errno.EPERM


def test_the_second_set_of_numbers_that_x86_64_has_is_denied() -> None:
    program = seccomp.filter_program("x86_64")
    assert answer(program, X86_64, 0x40000000 | 41) == FAIL | errno.ENOSYS


def test_without_bubblewrap_the_tool_is_not_offered_and_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "on_path", lambda: None)
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "bare")
    assert NAME not in {info.tool_name for info in router.tools()}
    assert Unavailable(NAME, "bubblewrap is not installed", "Install it: apt install bubblewrap") in (
        router.unavailable
    )


def a_bwrap(tmp_path: Path, script: str) -> Bubblewrap:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Bubblewrap(str(program))


def test_a_bwrap_that_isolates_nothing_fails_the_self_test(tmp_path: Path) -> None:
    # It drops its options and runs the command as it is, in the folder it was to run in.
    script = 'while [ "$1" != -- ]; do shift; done; shift 8; exec "$@"'
    found = bubblewrap.find(a_bwrap(tmp_path, script))
    assert isinstance(found, bubblewrap.Missing)
    for deed in ("write to a file", "change a mode", "delete a file", "open a network socket"):
        assert deed in found.reason


def test_a_bwrap_that_is_not_allowed_to_work_is_told_with_its_own_words(tmp_path: Path) -> None:
    said = "bwrap: No permissions to create new namespace"
    found = bubblewrap.find(a_bwrap(tmp_path, f"echo '{said}' >&2; exit 1"))
    assert isinstance(found, bubblewrap.Missing)
    assert said in found.reason
    assert found.how_to_fix


def test_without_landlock_or_a_filter_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_init, "landlock_version", lambda: 0)
    found = bubblewrap.find(Bubblewrap("/usr/bin/bwrap"))
    assert isinstance(found, bubblewrap.Missing)
    assert "Landlock" in found.reason
    bubblewrap.find.cache_clear()
    monkeypatch.setattr("platform.machine", lambda: "sparc")
    found = bubblewrap.find(Bubblewrap("/usr/bin/bwrap"))
    assert isinstance(found, bubblewrap.Missing)
    assert "sparc" in found.reason


def test_root_without_a_control_group_gets_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "is_needed", lambda: True)
    monkeypatch.setattr(cgroup, "parent", lambda: None)
    found = bubblewrap.find(Bubblewrap("/usr/bin/bwrap"))
    assert isinstance(found, bubblewrap.Missing)
    assert "ordinary user" in found.how_to_fix
    monkeypatch.undo()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
async def test_where_it_is_switched_off_it_is_not_even_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried(sandbox: Bubblewrap | None) -> None:
        raise AssertionError("the self-test ran")

    monkeypatch.setattr(bubblewrap, "find", tried)
    config = DeviceConfig(roots=(tmp_path,), tools_off=frozenset({NAME}))
    router = build_router(config, tmp_path / "state", "off")
    asked = Command(tool_name=NAME, tool_type="data_collection", parameters={"command": "true"})
    result = await router.run(asked, 5)
    assert result.status is ResultStatus.FAILURE
    assert "switched off" in (result.error or "")
    monkeypatch.undo()
    await router.close()


def test_only_what_a_wall_says_counts_as_blocked() -> None:
    said = b"x: Read-only file system\ncat: y: Permission denied\nfine\nsocket: Operation not permitted\n"
    assert blocked_lines(said) == ["x: Read-only file system", "socket: Operation not permitted"]
    assert blocked_lines(b"") == []
    assert len(blocked_lines(b"a: Read-only file system\n" * 1000)) == 20


def test_the_environment_is_what_programs_need_and_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_TIME", "de_DE.UTF-8")
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    kept = bubblewrap.clean_environment()
    assert kept["LC_TIME"] == "de_DE.UTF-8"
    assert kept["PATH"] == os.environ["PATH"]
    assert "secret" not in kept.values()


def test_limits_survive_their_way_inside() -> None:
    limits = bubblewrap.Bounds(12.3, 1 << 31, 50).limits()
    assert sandbox_init.read_limits(sandbox_init.write_limits(limits)) == limits
    assert (limits["CPU"], limits["NPROC"], limits["FSIZE"]) == (13, 50, 0)


@pytest.mark.skipif(not cgroup.is_needed() or cgroup.parent() is None, reason="needs root")
def test_a_control_group_is_removed_with_its_command() -> None:
    with cgroup.limited(7) as file:
        assert file is not None
        assert (file.parent / "pids.max").read_text().strip() == "7"
    assert not file.parent.exists()


def test_a_path_has_a_name_below_each_mount_that_shows_it(tmp_path: Path) -> None:
    real = Path(os.path.realpath(tmp_path))
    (real / "link").symlink_to("home/keys")
    mounts = [
        Mount("8:1", "/", "/"),
        Mount("8:2", "/", "/other"),
        Mount("8:1", str(real / "home"), "/mnt/home"),
        Mount("8:1", str(real / "home" / "keys" / "deep"), "/mnt/deep"),
        Mount("8:1", "/@snapshot", "/mnt/snapshot"),
        # What is mounted over the first one is what is seen there.
        Mount("8:3", "/", "/mnt/other"),
    ]
    names = set(all_names([str(real / "home" / "keys"), str(real / "link")], mounts))
    assert names == {
        *(str(real / "home" / "keys"), str(real / "link")),
        *("/mnt/home/keys", "/mnt/deep"),
    }
    assert set(all_names(["/mnt/home/none"], mounts)) == {"/mnt/home/none", str(real / "home" / "none")}
    assert set(all_names(["/mnt/other/x"], mounts)) == {"/mnt/other/x"}
    assert set(all_names([str(real / "x")], [])) == {str(real / "x")}


def test_the_mounts_of_this_machine_are_read() -> None:
    assert "/" in {mount.point for mount in read_mounts()}
    assert {mount.root for mount in read_mounts() if mount.point == "/proc"} == {"/"}


def test_a_plan_comes_out_as_it_went_in() -> None:
    closed = ["/a b", "/c\nd", "/e=f,g", os.fsdecode(b"/\xff")]
    data = sandbox_init.write_plan("CPU=1", "1,2,3", b"\x06\x00", (5, 6), closed)
    descriptor = os.memfd_create("plan")
    os.write(descriptor, data)
    assert sandbox_init.read_plan(descriptor) == ["CPU=1", "1,2,3", "0600", "5:6", *closed]


def test_a_command_gets_a_part_of_what_the_user_has_only_one_of(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"fs/pipe-user-pages-soft": 16384, "fs/epoll/max_user_watches": 214_000}
    monkeypatch.setattr(bubblewrap, "_setting", lambda name: settings[name])

    def shares(commands: int) -> tuple[int, ...]:
        bounds = bubblewrap.Bounds(1.0, 1 << 30, 16, commands)
        return tuple(int(word) for word in bounds.shares().split(",")[:2])

    pipes, watches = shares(8)
    # All of them together leave half.
    assert 8 * pipes * 16 <= 16384 / 2
    assert 8 * watches <= 214_000 / 2
    assert shares(256) == (16, 417)
    settings.update({"fs/pipe-user-pages-soft": 0, "fs/epoll/max_user_watches": 0})
    assert shares(8) == (64, 4096)


def test_on_macos_closed_paths_are_rules_of_the_profile() -> None:
    profile = seatbelt.command(["true"], ['/Users/a/"x\\y', "/b"])[2]
    assert profile.startswith(seatbelt.PROFILE)
    assert '(deny file-read* (subpath "/Users/a/\\"x\\\\y"))\n' in profile
    assert '(deny file-read* (subpath "/b"))\n' in profile
    assert seatbelt.command(["true"]) == ["sandbox-exec", "-p", seatbelt.PROFILE, "true"]


def test_an_error_that_names_a_private_place_is_known() -> None:
    hidden = ["~/.ssh", "~/.config/gcloud", "/etc/shadow"]
    for stderr, place in (
        (b"cat: /home/u/.ssh/id_rsa: No such file or directory\n", "~/.ssh"),
        (b"cat: .ssh: Permission denied\n", "~/.ssh"),
        ("cat: ‘.config/gcloud/x’: Permission denied".encode(), "~/.config/gcloud"),
        (b"fine\ncat: /etc/shadow: Permission denied\n", "/etc/shadow"),
        (b"cat: .sshd/x: No such file\n", None),
        (b"cat: x.ssh/x: No such file\n", None),
        (b"", None),
    ):
        assert named_place(stderr, hidden) == place

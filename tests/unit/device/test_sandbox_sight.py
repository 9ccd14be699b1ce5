"""What a line of the read-only shell could not see is told from the line, and lowers what is made of it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from core.approvals.operator_keys import OperatorKey
from core.commands.results import Verdict
from core.device.sandbox.sight import Sight, unseen
from core.home import Home
from core.service.local_console import LocalConsole
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.patience import PATIENCE_S
from tests.fakes.read_shell import NEEDS_BUBBLEWRAP
from tests.fakes.signing import signing

SIGHT = Sight("/home/anna", "/home/anna", ("/tmp", "/run", "/home/anna/.ssh"), ("/tmp/shown",))


def whats(line: str, output: bytes = b"", sight: Sight = SIGHT) -> dict[str, str | None]:
    return {one.what: one.instead for one in unseen(line, sight, output)}


@pytest.mark.parametrize(
    ("line", "what", "instead"),
    [
        ("ps aux", "processes", "list_processes"),
        ("LANG=C /usr/bin/ps aux | grep python", "processes", "list_processes"),
        ("echo $(pgrep -c .)", "processes", "list_processes"),
        ('echo "there are `ps -e | wc -l`"', "processes", "list_processes"),
        ("if true; then top -bn1; fi", "processes", "list_processes"),
        ("sudo -n timeout 5 ps", "processes", "list_processes"),
        ("find . -exec ps {} +", "processes", "list_processes"),
        ("ls | xargs -n 1 pidof", "processes", "list_processes"),
        ("fd -x ps", "processes", "list_processes"),
        ("./for x", "anything", "shell_execute"),
        ("cat /proc/1/cmdline", "processes", "list_processes"),
        ("ls -d /proc/[0-9]*", "processes", "list_processes"),
        ("ss -tln", "sockets", "shell_execute"),
        ("cat /proc/net/tcp", "network", "get_system_info info_type=network"),
        ("ip addr", "network", "get_system_info info_type=network"),
        ("systemctl status", "services", "shell_execute"),
        ("journalctl -n 5", "services", "shell_execute"),
        ("apt list", "packages", "shell_execute"),
        ("apt list --installed --upgradable", "packages", "shell_execute"),
        ("apt-cache policy bash", "packages", "shell_execute"),
        ("df -h", "mounts", "get_system_info info_type=disk"),
        ("env", "environment", "shell_execute"),
        ("python3 -c 'import psutil'", "anything", "shell_execute"),
        ("sh -c 'ps aux'", "anything", "shell_execute"),
        ("ls /tmp", "folders", "list_directory"),
        ("cat < /run/utmp", "folders", "list_directory"),
        ("ls ~/.ssh", "folders", "list_directory"),
        ("ls $HOME/.ssh/", "folders", "list_directory"),
        ("ls .ssh", "folders", "list_directory"),
        ("grep -r token .", "folders", "list_directory"),
        ("find / -name x", "folders", "list_directory"),
    ],
)
def test_what_a_line_asks_for_and_is_not_shown_is_named_with_the_tool_that_can_tell(
    line: str, what: str, instead: str, tmp_path: Path
):
    if what == "folders" and ("-r" in line or line.startswith("find")):
        (tmp_path / ".ssh").mkdir()
        home = str(tmp_path)
        assert whats(line, sight=Sight(home, home, (f"{home}/.ssh",)))[what] == instead
        return
    assert whats(line)[what] == instead


@pytest.mark.parametrize(
    "line",
    [
        "cat notes.txt",
        "ls -la",
        "grep 'a|b; ps' notes.txt | sort | uniq -c",
        "wc -l *.py && head -n 3 README.md",
        "cat /tmp/shown/file",
        "cat /proc/meminfo /proc/loadavg",
        "for name in a b; do echo $name; done",
        "du -sh . 2>/dev/null",
        "dpkg -l | wc -l",
        "apt list --installed | grep ^zlib",
        "ls /tmpfiles",
    ],
)
def test_a_line_that_sees_all_it_asks_for_lacks_nothing(line: str, tmp_path: Path):
    home = str(tmp_path)
    sight = Sight(home, home, ("/tmp", "/run", f"{home}/.ssh"), ("/tmp/shown", home))
    assert whats(line, sight=sight) == {}


def test_owners_that_look_like_nobody_are_told_where_they_are_shown():
    assert "owners" in whats("ls -l", b"-rw-r--r-- 1 nobody nogroup 3 Jan 1 00:00 hosts")
    assert "owners" in whats("stat hosts", b"Uid: (65534/  nobody)")
    assert "owners" not in whats("ls -l", b"-rw-r--r-- 1 anna anna 3 Jan 1 00:00 hosts")
    assert "owners" not in whats("cat list", b"nobody")


@NEEDS_BUBBLEWRAP
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's namespaces")
@pytest.mark.parametrize(
    ("line", "verdict", "what"),
    [
        ("ps aux", Verdict.UNVERIFIED, ["processes"]),
        ("ls /run", Verdict.UNVERIFIED, ["folders"]),
        # Without a device.toml it is a root.
        (f"ls {tempfile.gettempdir()}", Verdict.CONFIRMED, []),
        ("printf hello", Verdict.CONFIRMED, []),
    ],
)
async def test_such_an_answer_is_not_confirmed_and_says_why(
    home: Home, operator: OperatorKey, line: str, verdict: Verdict, what: list[str]
):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        if not any(
            tool.tool_name == "shell_execute_read" for tool in await console.devices.tools("this-computer")
        ):
            pytest.skip("this machine keeps no sandbox")
        run = await console.runs.call("this-computer", "shell_execute_read", {"command": line})
        [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S)).cells
    assert cell.result is not None
    assert cell.result.error is None
    assert cell.result.verdict is verdict
    rows: list[dict[str, Any]] = cell.result.result["not_seen"]
    assert [row["what"] for row in rows] == what
    assert ("list_processes" in cell.result.note) is (what == ["processes"])
    assert ("Not the whole truth" in cell.result.note) is bool(what)

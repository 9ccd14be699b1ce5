"""The device client, service and command line as a Python for Windows runs them, under Wine.

Opt-in, since it needs Wine, a Python for Windows and a gigabyte of disk: `windows_python.sh` beside this file
makes the latter, `make test-wine` runs this. Wine is not Windows: what fails here may be Wine's fault, and
what works here may fail on Windows. It shows nothing of the window (Qt does not load), of UI Automation (its
package is left out), of the rights of files, or of what Windows makes of a stream that is named.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from core.commands.results import CommandResult
from core.errors import ErrorCode
from core.fleet.models import DeviceSettings
from core.models.devices import Health
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.display import virtual_display
from tests.fakes.program import ROOT
from tests.fakes.remote_device import make_listening_home
from tests.fakes.signing import accepted, signing

FOLDER = Path(os.environ.get("QUARTERDECK_WINE") or ROOT / "build" / "wine")
PYTHON = FOLDER / "py" / "python.exe"
NAME = "win-1"
# Programs of Windows start slowly under Wine, and slower still beside other work.
PATIENCE_S = 240.0
RUNS = """
profile = "trusted"

[[rule]]
id = "lab"
decision = "allow"
risk = ["low", "medium", "high"]
"""
QUESTION = """
import asyncio, ctypes
from ctypes import wintypes
from core.cli.prompt import ask_line, is_terminal

# Wine's console takes no key from its terminal before a program has looked; kbhit alone is no look.
kernel = ctypes.windll.kernel32
kernel.GetStdHandle.restype = wintypes.HANDLE
console = wintypes.HANDLE(kernel.GetStdHandle(-10))
kernel.PeekConsoleInputW(console, ctypes.create_string_buffer(64), 1, ctypes.byref(wintypes.DWORD()))
line = asyncio.run(ask_line("approve? ")) if is_terminal() else None
print("answer:", ascii(line), flush=True)
"""


def why_not() -> str:
    """Why these tests cannot run here; empty where they can."""
    if sys.platform != "linux" or shutil.which("wine") is None:
        return "Wine is not installed: apt-get install --no-install-recommends wine wine64"
    if not PYTHON.is_file():
        return (
            f"there is no {PYTHON}: tests/wine/windows_python.sh makes it, QUARTERDECK_WINE names its folder"
        )
    return ""


pytestmark = [pytest.mark.skipif(bool(why_not()), reason=why_not()), pytest.mark.asyncio(loop_scope="module")]


def environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "USER") if name in os.environ}
    kept |= {"WINEPREFIX": str(FOLDER / "prefix"), "WINEDEBUG": "-all"}
    return {**kept, "WINEDLLOVERRIDES": "mscoree=d;mshtml=d", "LC_ALL": "C.UTF-8", **more}


def start(*words: str, **more: str) -> subprocess.Popen[bytes]:
    """Start a Python for Windows. Its streams are pipes: with a file as one of them it does not start."""
    return subprocess.Popen(
        ["wine", str(PYTHON), *words],
        cwd=ROOT,
        env=environment(**more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def read_until_its_end(process: subprocess.Popen[bytes], descriptor: int) -> str:
    """What a program writes. A service that it started keeps the pipe open, so that its own end counts."""
    until, got = time.monotonic() + PATIENCE_S, b""
    while time.monotonic() < until:
        ready, _, _ = select.select([descriptor], [], [], 0.1)
        data = b""
        if ready:
            with contextlib.suppress(OSError):
                data = os.read(descriptor, 65536)
            got += data
        if not data and (ready or process.poll() is not None):
            break
    process.wait(PATIENCE_S)
    return got.decode("utf-8", "replace")


def said(*words: str, stdin: str = "") -> tuple[int, str]:
    """The exit code of a Python for Windows, and what it printed."""
    process = start(*words)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(stdin.encode())
    process.stdin.close()
    output = read_until_its_end(process, process.stdout.fileno())
    process.stdout.close()
    return process.returncode, output


def of_windows(path: Path) -> str:
    """A path of this machine as Wine names it: drive Z: is the root."""
    return "Z:" + str(path).replace("/", "\\")


def is_running(marker: str) -> bool:
    """Whether some program has these words in its command line."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if marker in " ".join(process.cmdline()):
                return True
    return False


@dataclass(slots=True)
class Lab:
    """A console on Linux, where everything runs unasked, and its device, a client under Wine."""

    console: Console
    root: Path
    words: tuple[str, ...]
    display: str
    process: subprocess.Popen[bytes] | None = None

    async def online(self) -> Any:
        """Start the device client, unless it runs; its device once it is online."""
        if self.process is None:
            self.process = start(*self.words, DISPLAY=self.display)
        async with asyncio.timeout(PATIENCE_S):
            events = self.console.events()
            while True:
                for device in (await self.console.service.state()).devices:
                    if device.name == NAME and device.health in (Health.ONLINE, Health.BUSY):
                        return device
                await anext(events)

    async def call(self, tool: str, **arguments: Any) -> CommandResult:
        run = await self.console.runs.call(NAME, tool, arguments)
        ended = await self.console.runs.wait(run.summary.id, PATIENCE_S)
        result = ended.cells[0].result
        assert result is not None
        return result

    async def done(self, tool: str, **arguments: Any) -> Any:
        result = await self.call(tool, **arguments)
        assert result.error is None, result.error
        return result.result

    def kill(self) -> None:
        """End the device client as if it had crashed."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE_S)
            for stream in (self.process.stdin, self.process.stdout):
                assert stream is not None
                stream.close()
            self.process = None


@pytest.fixture(scope="module", autouse=True)
def wine_ends() -> Iterator[None]:
    """Nothing of Wine runs on after these tests."""
    yield
    if not why_not():
        subprocess.run(["wineserver", "-k"], env=environment(), timeout=PATIENCE_S, check=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    folder = tmp_path_factory.mktemp("wine")
    home = make_listening_home(folder / "home")
    await accepted(home, RUNS)
    root = folder / "root"
    root.mkdir()
    (folder / "device.toml").write_text(f"roots = ['{of_windows(root)}']\n")
    state = ("-m", "core.device", "--state", of_windows(folder / "state"))
    service = await Service.open(home)
    try:
        console = signing(LocalConsole(service, "operator:anna"), home)
        pairing = await console.devices.pair(NAME, DeviceSettings())
        code, words = await asyncio.to_thread(said, *state, "--pair", "-", stdin=pairing.string + "\n")
        assert code == 0, words
        with virtual_display() as display:
            lab = Lab(console, root, (*state, "--config", of_windows(folder / "device.toml")), display)
            try:
                yield lab
            finally:
                lab.kill()
    finally:
        await service.close()


async def test_the_client_registers_with_the_tools_of_windows(lab: Lab) -> None:
    device = await lab.online()
    assert (device.platform, device.roots) == ("windows", [of_windows(lab.root)])
    names = {tool.tool_name for tool in await lab.console.devices.tools(NAME)}
    assert {"read_file", "write_file", "shell_execute", "list_processes", "screenshot", "undo"} <= names
    lacks = {row.tool: row.reason for row in device.unavailable}
    assert "not for Windows" in lacks["shell_execute_read"]
    # The package is left out: it cannot be used under Wine.
    assert "UI Automation" in lacks["get_ui_tree"]


async def test_files_are_written_read_listed_and_restored(lab: Lab) -> None:
    await lab.online()
    path = of_windows(lab.root / "Grüße.txt")
    await lab.done("write_file", file_path=path, content="eins\n", mode="create")
    await lab.done("write_file", file_path=path, content="zwei\n", mode="overwrite")
    assert (lab.root / "Grüße.txt").read_text("utf-8") == "zwei\n"
    # Case does not matter there, to roots either.
    shouted = of_windows(lab.root / "GRÜße.TXT").replace("root", "ROOT")
    assert (await lab.done("read_file", file_path=shouted))["content"] == "zwei\n"
    listed = await lab.done("list_directory", path=of_windows(lab.root))
    assert [row["name"] for row in listed["entries"]] == ["Grüße.txt"]


@pytest.mark.parametrize(
    "end", ["a.txt:more", "a.txt::$DATA", ":more", "..\\..\\outside.txt", "..\\state\\device.db"]
)
async def test_no_stream_and_nothing_outside_the_roots_can_be_named(lab: Lab, end: str) -> None:
    await lab.online()
    before = sorted(os.listdir(lab.root)), sorted(os.listdir(lab.root.parent))
    result = await lab.call(
        "write_file", file_path=f"{of_windows(lab.root)}\\{end}", content="x", mode="overwrite"
    )
    assert result.error is not None
    assert result.error.code is ErrorCode.PATH_NOT_ALLOWED
    assert (sorted(os.listdir(lab.root)), sorted(os.listdir(lab.root.parent))) == before


async def test_output_of_cmd_is_read_in_its_own_code_page(lab: Lab) -> None:
    await lab.online()
    result = (await lab.call("shell_execute", command="echo hällo& cmd /c exit 3")).result
    assert (result["stdout"], result["exit_code"]) == ("hällo\r\n", 3)


async def test_a_time_out_leaves_nothing_of_a_command(lab: Lab) -> None:
    await lab.online()
    result = await lab.call("shell_execute", command="ping -n 31 127.0.0.1", timeout=2)
    assert result.error is not None
    assert result.error.code is ErrorCode.TIMEOUT
    assert not is_running("ping -n 31 127.0.0.1")


async def test_programs_are_started_listed_and_closed(lab: Lab) -> None:
    await lab.online()
    await lab.done("launch_application", app_name="notepad.exe")
    rows = (await lab.done("list_processes", name="notepad"))["processes"]
    assert [row["name"].lower() for row in rows] == ["notepad.exe"]
    closed = await lab.done("close_application", process_name="notepad.exe")
    assert closed["closed"] == [rows[0]["pid"]]


@pytest.mark.parametrize("kind", ["memory", "disk", "cpu", "network", "os"])
async def test_facts_are_told_as_far_as_they_are_known(lab: Lab, kind: str) -> None:
    await lab.online()
    facts = await lab.done("get_system_info", info_type=kind)
    if kind == "memory":
        assert facts["total_bytes"] > facts["available_bytes"] > 0
    elif kind == "os":
        assert facts["name"] == "Windows"


async def test_a_picture_of_the_screen_is_taken(lab: Lab) -> None:
    await lab.online()
    shot = await lab.done("screenshot")
    assert (shot["width"], shot["height"], shot["windows"]) == (1280, 800, [])
    assert shot["image"]["size"] > 0


async def test_a_client_that_was_killed_comes_back(lab: Lab) -> None:
    await lab.online()
    lab.kill()
    async with asyncio.timeout(PATIENCE_S):
        events = lab.console.events()
        while (await lab.console.devices.details(NAME)).device.health in (Health.ONLINE, Health.BUSY):
            await anext(events)
    assert (await lab.online()).client.startswith("quarterdeck-device")
    assert (await lab.done("list_directory", path=of_windows(lab.root)))["entries"]


def answered_at_a_console(keys: str) -> str:
    """What a console of Windows shows, at which these keys are pressed once a question stands there."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        ["wine", str(PYTHON), "-c", QUESTION],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=ROOT,
        env=environment(TERM="xterm"),
        start_new_session=True,
    )
    os.close(slave)
    try:
        shown = b""
        while b"approve?" not in shown:
            assert select.select([master], [], [], PATIENCE_S)[0]
            shown += os.read(master, 4096)
        os.write(master, keys.encode())
        return read_until_its_end(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


async def test_a_question_is_answered_at_a_console() -> None:
    # Delete is the key that takes back.
    assert ascii("jä") in await asyncio.to_thread(answered_at_a_console, "jäx\x7f\r")


async def test_the_service_runs_with_its_own_device_and_ends_with_it(tmp_path: Path) -> None:
    home = of_windows(tmp_path / "home")

    async def quarterdeck(*words: str) -> str:
        code, output = await asyncio.to_thread(said, "-m", "app", "--home", home, *words)
        assert code == 0, output
        return output

    started = ("-m", "app", "--home", home, "service", "start")
    try:
        async with asyncio.timeout(PATIENCE_S):
            # Beside other work it may need more than the seconds that the command waits; it still comes.
            while (await asyncio.to_thread(said, *started))[0] != 0:
                continue
        # The program that started it has ended, and its console with it.
        assert json.loads(await quarterdeck("service", "status", "--json"))["running"] is True
        async with asyncio.timeout(PATIENCE_S):
            while json.loads(await quarterdeck("devices", "--json"))["devices"][0]["health"] != "online":
                # Each question takes seconds there.
                continue
        facts = json.loads(
            await quarterdeck("call", "this-computer", "get_system_info", "info_type=os", "--json")
        )
        assert facts["result"]["name"] == "Windows"
    finally:
        await quarterdeck("service", "stop")
    # The device client of a service ends when its input does; no signal could ask it to.
    assert not is_running(home)

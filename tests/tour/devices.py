"""The devices of the tour: real device clients as processes, each with a screen and a folder of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.tour.device_app import HEIGHT, WIDTH
from tests.tour.display import a_display
from tests.tour.ui_driver import StepDidNotHappen

_ENDS_WITHIN_S = 10.0
_SAYS_WITHIN_S = 20.0


def free_port() -> int:
    """A port of loopback that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class DemoDevices:
    """Starts devices and what is on their screens; `close` ends all of it, whatever happened."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self.strings: dict[str, str] = {}
        self._displays: dict[str, str] = {}

    def folder(self, name: str) -> Path:
        """The only folder that the device's file tools may touch."""
        return self._folder / name / "files"

    def mark(self, name: str) -> Path:
        """The file that the button on the device's screen writes."""
        return self._folder / name / "pressed"

    async def pair(self, name: str, string: str) -> None:
        """Paste the console's string on the device, and start it: it dials in."""
        await asyncio.to_thread(self._told, name, ["--pair", "-"], string)
        self._start(name)

    async def listen(self, name: str) -> None:
        """Let the device listen; what it printed for the console is in `strings` then."""
        words = ["--name", name, "--listen", f"127.0.0.1:{free_port()}"]
        string = await asyncio.to_thread(self._told, name, [*words, "--pair"], "")
        self._start(name, "--name", name)
        self.strings[name] = string.strip()

    def close(self) -> None:
        """End every process and display."""
        self._stack.close()

    def _state(self, name: str) -> Path:
        state = self._folder / name / "state"
        if not state.exists():
            state.mkdir(parents=True)
            self.folder(name).mkdir()
            settings = f'servers_from_console = true\nroots = ["{self.folder(name)}"]\n'
            (state / "device.toml").write_text(settings, "utf-8")
        return state

    def _command(self, name: str, words: list[str]) -> list[str]:
        state = self._state(name)
        device = [sys.executable, "-m", "core.device", "--state", str(state)]
        return [*device, "--config", str(state / "device.toml"), *words]

    def _told(self, name: str, words: list[str], stdin: str) -> str:
        done = subprocess.run(
            self._command(name, words),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_SAYS_WITHIN_S,
            env=_environment(),
            check=False,
        )
        if done.returncode:
            raise StepDidNotHappen(f"the device {name} says: {done.stderr.strip()}")
        return done.stdout

    def _start(self, name: str, *words: str) -> None:
        environment = _environment()
        if name not in self._displays:
            self._displays[name] = self._stack.enter_context(a_display(WIDTH, HEIGHT))
            environment["DISPLAY"] = self._displays[name]
            guest = [sys.executable, "-m", "tests.tour.device_app", name, str(self.mark(name))]
            self._run(guest, environment, self._state(name) / "guest.log")
        environment["DISPLAY"] = self._displays[name]
        self._run(self._command(name, list(words)), environment, self._state(name) / "device.log")

    def _run(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        with log.open("ab") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment
            )
        self._stack.callback(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _environment() -> dict[str, str]:
    """This program's own, with its path; a device is no part of the window's session."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
    }
    return {**kept, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

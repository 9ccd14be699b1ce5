"""A desktop session of a test's own: an X server, a session bus with accessibility, programs on them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from tests.fakes.display import virtual_display
from tests.fakes.patience import PATIENCE_S

REPOSITORY = Path(__file__).parents[2]
_BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:dir={folder}</listen>
  <auth>EXTERNAL</auth>
  <standard_session_servicedirs/>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
  </policy>
</busconfig>
"""


@contextlib.contextmanager
def accessible_session(size: str = "1280x800") -> Iterator[dict[str, str]]:
    """Start it; the value is the environment that programs need to be part of it."""
    with contextlib.ExitStack() as stack:
        # Its sockets need a short path, which pytest's own folders are not.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        display = stack.enter_context(virtual_display(size))
        (folder / "run").mkdir(mode=0o700)
        environment = {
            **{key: value for key, value in os.environ.items() if key not in _FOREIGN},
            "DISPLAY": display,
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
            "QT_QPA_PLATFORM": "xcb",
            "NO_AT_BRIDGE": "0",
            # The launcher asks dconf else, which may start one more process.
            "GSETTINGS_BACKEND": "memory",
        }
        environment["DBUS_SESSION_BUS_ADDRESS"] = stack.enter_context(_session_bus(folder, environment))
        yield environment


_FOREIGN = ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE", "DBUS_SESSION_BUS_ADDRESS", "AT_SPI_BUS_ADDRESS")


@contextlib.contextmanager
def _session_bus(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A bus whose services (the accessibility bus among them) are its children, and end with it."""
    # Socket paths are limited to some hundred bytes, which a test's own folder may be beyond.
    (folder / "bus.conf").write_text(_BUS.format(folder=tempfile.gettempdir()))
    program = shutil.which("dbus-daemon")
    assert program, "dbus-daemon is needed for these tests; make setup installs it"
    bus = subprocess.Popen(
        [program, f"--config-file={folder / 'bus.conf'}", "--nofork", "--print-address=1"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert bus.stdout is not None
    address = bus.stdout.readline().strip()
    bus.stdout.close()
    assert address, "dbus-daemon did not start"
    try:
        yield address
    finally:
        # The accessibility bus' own programs were started by this one, and share its group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(bus.pid, signal.SIGTERM)
        bus.wait(PATIENCE_S)


class App:
    """`tests.fakes.desktop_app` as a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.boxes: dict[str, dict[str, int]] = {}

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    async def told(self, event: str, **wanted: Any) -> dict[str, Any]:
        """The next thing of a kind that it tells, with these values; what comes before is forgotten."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                line = await self.process.stdout.readline()
                assert line, f"the program ended before it told {event}"
                found: dict[str, Any] = json.loads(line)
                if found["event"] == event and all(found.get(key) == value for key, value in wanted.items()):
                    return found

    async def shown(self) -> None:
        """Wait until its window is shown, and learn where everything in it is."""
        self.boxes = {key: box for key, box in (await self.told("shown")).items() if key != "event"}

    async def anew(self) -> None:
        """Begin again with a new window."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
        await self.obey("anew")
        await self.shown()

    async def obey(self, order: str) -> None:
        """Tell it to do something."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n".encode())
        await self.process.stdin.drain()


@contextlib.asynccontextmanager
async def running_app(environment: dict[str, str]) -> AsyncIterator[App]:
    """Start the program, wait until its window is shown, end it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.fakes.desktop_app",
        cwd=REPOSITORY,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    app = App(process)
    try:
        await app.shown()
        yield app
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()

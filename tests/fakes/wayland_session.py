"""A Wayland session without a screen: sway with its headless backend, and Xwayland in it."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.patience import PATIENCE_S
from tests.fakes.plain_user import PlainUser, seen_folder

CONFIG = """xwayland disable
output HEADLESS-1 resolution 1280x800
exec sh -c 'echo "$WAYLAND_DISPLAY" > "{ready}"'
"""


@dataclass(frozen=True)
class WaylandSession:
    """A running compositor; `socket` is where it listens."""

    socket: Path
    user: PlainUser
    environment: dict[str, str]

    @contextmanager
    def xwayland(self) -> Iterator[str]:
        """The display of an Xwayland in this session."""
        reads, writes = os.pipe()
        server = subprocess.Popen(
            self.user.command("Xwayland", "-displayfd", str(writes), "-ac", "-noreset", "-rootless"),
            env=self.environment,
            pass_fds=[writes],
            stderr=subprocess.DEVNULL,
        )
        os.close(writes)
        with os.fdopen(reads) as told:
            number = told.readline().strip()
        assert number, "Xwayland did not start"
        try:
            yield f":{number}"
        finally:
            server.terminate()
            server.wait(PATIENCE_S)


@contextmanager
def wayland_session() -> Iterator[WaylandSession]:
    """sway, which refuses root: as another user where the tests run as root."""
    assert shutil.which("sway"), "sway is needed for these tests; make setup installs it"
    with seen_folder() as folder:
        user = PlainUser(folder, "")
        ready = folder / "ready"
        os.mkfifo(ready)
        config = folder / "config"
        config.write_text(CONFIG.format(ready=ready))
        user.owns(folder)
        folder.chmod(0o700)
        environment = {
            "HOME": str(folder),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "XDG_RUNTIME_DIR": str(folder),
            "WLR_BACKENDS": "headless",
            "WLR_LIBINPUT_NO_DEVICES": "1",
            "WLR_RENDERER": "pixman",
        }
        compositor = subprocess.Popen(
            user.command("sway", "-c", str(config)), env=environment, stderr=subprocess.DEVNULL
        )
        try:
            # Open for writing too: a compositor that does not start then is an error, and no endless wait.
            with os.fdopen(os.open(ready, os.O_RDWR), "r+b", buffering=0) as told:
                came, _, _ = select.select([told], [], [], PATIENCE_S)
                assert came, "sway did not start"
                name = told.readline().decode().strip()
            yield WaylandSession(folder / name, user, environment | {"WAYLAND_DISPLAY": name})
        finally:
            compositor.terminate()
            compositor.wait(PATIENCE_S)

"""Programs with a name of their own and a window on X, as many as a test wants."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_CODE = """
import os, sys
from Xlib import X, Xatom, display
screen = display.Display()
window = screen.screen().root.create_window(0, 0, 60, 40, 0, X.CopyFromParent)
delete = screen.intern_atom("WM_DELETE_WINDOW")
window.set_wm_protocols([delete])
window.change_property(screen.intern_atom("_NET_WM_PID"), Xatom.CARDINAL, 32, [os.getpid()])
name, text = screen.intern_atom("_NET_WM_NAME"), screen.intern_atom("UTF8_STRING")
window.change_property(name, text, 8, sys.argv[1].encode())
window.map()
screen.sync()
print("up", flush=True)
while True:
    said = screen.next_event()
    if said.type == X.ClientMessage and said.data[1][0] == delete:
        break
"""


@dataclass
class WindowPrograms:
    """Starts programs of one name; each ends when its window is closed, and with the test."""

    path: Path
    _stack: ExitStack
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.name

    def start(self, title: str) -> subprocess.Popen[str]:
        """Start one more program with a window of this title; returns when it is on the screen."""
        packages = os.pathsep.join(site.getsitepackages())
        process = self._stack.enter_context(
            subprocess.Popen(
                [str(self.path), "-c", _CODE, title],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": packages},
            )
        )
        self._stack.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        self.started.append(process)
        return process


@contextmanager
def window_programs(folder: Path) -> Iterator[WindowPrograms]:
    """Programs with a name of their own, so that no other program of the machine is meant."""
    path = folder / f"qd-win-{os.getpid()}"
    path.symlink_to(Path(sys.executable).resolve())
    with ExitStack() as stack:
        yield WindowPrograms(path, stack)

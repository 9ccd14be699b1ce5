"""The command line from an interpreter that has loaded it already.

Every command of the program is a process, and most of the second it takes goes into loading the same modules
again. Here one process loads them once and forks for each command: with a process, an environment, a folder,
standard streams and an exit code of its own, and nothing left of the last one, since what forks runs none.

    code, out, err = WARM.run(["--home", str(home.path), "devices"], environment(), folder)

What is about the start itself, about signals or about a terminal starts `python -m app` cold: so do
`tests.fakes.program.program` and `Terminal`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
_LONGEST = 1 << 18
# What Python, or the C library, reads only once, when a process begins.
_READ_AT_THE_START = ("PYTHON", "LC_", "LANG", "MALLOC_", "LD_")


class Warm:
    """Runs commands in forks of one loaded interpreter; starts it when it is first needed."""

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        self._started_in: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork would be what a start in this environment is."""
        if self._process is None or self._process.poll() is not None:
            self._start(environment)
        return _decided_at_the_start(environment) == self._started_in

    def run(self, words: Sequence[str], environment: Mapping[str, str], folder: str) -> tuple[int, str, str]:
        """One command to its end and until nobody holds its output any more: exit code, output, errors.

        Raises:
            subprocess.TimeoutExpired: it takes longer than a minute; it is killed.
        """
        assert self._line is not None
        ours, theirs = socket.socketpair()
        out, err = os.pipe(), os.pipe()
        with ours, open(os.devnull, "rb") as nothing:
            asked = json.dumps({"words": list(words), "environment": dict(environment), "folder": folder})
            handed = (nothing.fileno(), out[1], err[1], theirs.fileno())
            socket.send_fds(self._line, [asked.encode()], handed)
            theirs.close()
            os.close(out[1])
            os.close(err[1])
            readers = [_Reader(os.fdopen(end, "rb")) for end in (out[0], err[0])]
            code = _told(ours, words, readers)
        return code, readers[0].text, readers[1].text

    def _start(self, environment: Mapping[str, str]) -> None:
        """Load the program; its process ends when this one's end of the line closes."""
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fakes.warm", str(theirs.fileno())],
                cwd=ROOT,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # Pipes as a command's are, so that the fork's streams know that they cannot seek.
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        self._line, self._started_in = ours, _decided_at_the_start(environment)

    def close(self) -> None:
        """End the loaded interpreter, if there is one."""
        if self._line is not None and self._process is not None:
            self._line.close()
            self._process.communicate(timeout=PATIENCE)
        self._line, self._process = None, None


class _Reader:
    """Reads one stream to its end beside whoever waits for the process."""

    def __init__(self, stream: BinaryIO) -> None:
        self._data = b""
        self._stream = stream
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            self._data = self._stream.read()

    def ended(self, within: float) -> bool:
        self._thread.join(max(0.0, within))
        return not self._thread.is_alive()

    @property
    def text(self) -> str:
        return self._data.decode()


def _told(line: socket.socket, words: Sequence[str], readers: Sequence[_Reader]) -> int:
    """The exit code, once the process has ended and its output with it."""
    deadline = time.monotonic() + PATIENCE
    line.settimeout(PATIENCE)
    with line.makefile("rb") as told:
        pid = int(told.readline())
        try:
            code = int(told.readline())
            if not all(reader.ended(deadline - time.monotonic()) for reader in readers):
                raise TimeoutError
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(words), PATIENCE) from None
    return code


def _decided_at_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_THE_START)}


def _serve(line: socket.socket) -> list[str]:
    """Fork for every command asked for; returns, in the fork, its words."""
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(4096)
                _report(running)
            if line not in ready:
                continue
            message, handed, _, _ = socket.recv_fds(line, _LONGEST, 4)
            if not message:
                raise SystemExit(0)
            teller = socket.socket(fileno=handed[3])
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for other in (line, woken, wake, teller, *running.values()):
                    other.close()
                break
            running[pid] = teller
            teller.sendall(b"%d\n" % pid)
            for end in handed[:3]:
                os.close(end)
    return _become(json.loads(message), handed[:3])


def _report(running: dict[int, socket.socket]) -> None:
    """Tell of each fork that has ended how it did."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as teller, contextlib.suppress(BrokenPipeError):
            teller.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _become(asked: dict[str, object], streams: Sequence[int]) -> list[str]:
    """Be the process that was asked for: its streams, its environment, its folder."""
    for number, end in enumerate(streams):
        os.dup2(end, number)
        os.close(end)
    environment, words = asked["environment"], asked["words"]
    assert isinstance(environment, dict)
    assert isinstance(words, list)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(str(asked["folder"]))
    sys.argv = [str(ROOT / "app" / "__main__.py"), *words]
    return words


def _main() -> int:
    # Loaded before the first fork; a command that hosts the core itself needs the service too.
    import app.__main__
    import core.cli.commands
    import core.service.service  # noqa: F401

    line = socket.socket(fileno=int(sys.argv[1]))
    assert threading.active_count() == 1, "a fork has one thread"
    # Without this a fork's first collection, and its end, touch and so copy every page.
    gc.collect()
    gc.freeze()
    words = _serve(line)
    return app.__main__.main(words)


WARM = Warm()
atexit.register(WARM.close)

if __name__ == "__main__":
    sys.exit(_main())

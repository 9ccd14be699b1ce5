"""Our programs from interpreters that have loaded them already.

Every process of ours loads for half a second or more the same modules as the one before. Here one interpreter
for each program loads them once and forks: each fork is a process with an environment, a folder, a session,
standard streams, signals and an exit code of its own, and has nothing of the last one: what forks runs none.

    code, out, err = COMMANDS.run(["--home", str(home.path), "devices"], environment(), folder)
    process = SERVICES.start(["--home", str(home.path), "--stay"], environment(), folder)

A test of the start itself or of a moment in the start begins cold, as `program.Terminal` and
`service_process(home, cold=True)` do; and whatever our programs start themselves, they start cold.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from tests.fakes.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
_LONGEST = 1 << 18
_OF_A_DEVICE = (
    "core.device.build",
    "core.device.in_process",
    *(("core.device.desktop.linux.backend",) if sys.platform == "linux" else ()),
)
_OF_A_SERVICE = ("core.service.service", "core.service.local_console", *_OF_A_DEVICE)
# What each has loaded by the time it works; a command that hosts the core itself needs the service too.
PROGRAMS = {
    "app": ("app.__main__", "core.cli.app", *_OF_A_SERVICE),
    "core.service": ("core.service.__main__", *_OF_A_SERVICE),
    "core.device": ("core.device.__main__", *_OF_A_DEVICE),
}
# What Python, or the C library, reads only once, when a process begins.
_READ_AT_THE_START = ("PYTHON", "LC_", "LANG", "MALLOC_", "LD_")


class Warm:
    """Runs one program of ours in forks of an interpreter that has loaded it; started when first needed."""

    def __init__(self, program: str, preexec: Callable[[], None] | None = None) -> None:
        """`program` is one of `PROGRAMS`; `preexec` is done first in the interpreter that forks."""
        self._program, self._preexec = program, preexec
        self._line: socket.socket | None = None
        self._started_in: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork would be what a start in this environment is; loads the program if it is not yet."""
        if self._process is None or self._process.poll() is not None:
            self._start(environment)
        return _decided_at_the_start(environment) == self._started_in

    def loaded_in(self, environment: Mapping[str, str]) -> None:
        """Load the program anew if a fork would not be what a start in this environment is."""
        if not self.suits(environment):
            self._start(environment)

    def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *,
        said: str = "",
        held: bool = False,
    ) -> Fork:
        """A process of the program, in a session of its own, with `said` on its standard input.

        Standard input ends there, or, where it is `held`, when the process is killed by `Fork.kill`.
        """
        given, out, err = os.pipe(), os.pipe(), os.pipe()
        theirs = (given[0], out[1], err[1])
        ours = self._fork(words, environment, folder, theirs)
        for end in theirs:
            os.close(end)
        # What is said fits into the pipe.
        os.write(given[1], said.encode())
        if not held:
            os.close(given[1])
        return Fork(words, ours, (out[0], err[0]), given[1] if held else None)

    def start_on(
        self, terminal: int, words: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> Fork:
        """A process of the program, in a session of its own, whose standard streams are this terminal."""
        return Fork(words, self._fork(words, environment, folder, (terminal,) * 3), (), None)

    def _fork(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        streams: tuple[int, int, int],
    ) -> socket.socket:
        """Ask for a process with these standard streams; what is returned tells of it."""
        assert self._line is not None
        ours, theirs = socket.socketpair()
        asked = {"words": list(words), "environment": dict(environment), "folder": str(folder)}
        with theirs:
            socket.send_fds(self._line, [json.dumps(asked).encode()], [*streams, theirs.fileno()])
        return ours

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], folder: Path, *, said: str = ""
    ) -> tuple[int, str, str]:
        """One process to its end, and until nobody holds its output any more: exit code, output, errors.

        Raises:
            subprocess.TimeoutExpired: it takes longer than a minute; it is killed.
        """
        process = self.start(words, environment, folder, said=said)
        try:
            out, err = process.communicate(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return process.wait(PATIENCE_S), out, err

    def _start(self, environment: Mapping[str, str]) -> None:
        """Load the program; its process ends when this one's end of the line closes."""
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fakes.warm", self._program, str(theirs.fileno())],
                cwd=ROOT,
                env=environment,
                preexec_fn=self._preexec,
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
            self._process.communicate(timeout=PATIENCE_S)
        self._line, self._process = None, None


class Fork:
    """One process, with those methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, words: Sequence[str], line: socket.socket, read: tuple[int, ...], held: int | None
    ) -> None:
        """`read` are its output's and its errors' other ends, `held` its standard input's."""
        self._words, self._held = list(words), held
        self._line = line
        self._told = line.makefile("rb")
        self._readers = [_Reader(os.fdopen(end, "rb")) for end in read]
        line.settimeout(PATIENCE_S)
        self.pid = int(self._told.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        if self.returncode is None and select.select([self._line], [], [], 0)[0]:
            self._take()
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Its exit code, negative for a signal. TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._line], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._words, timeout)
            self._take()
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Its output and its errors, once it has ended and nobody else holds them. TimeoutExpired.

        Not for one on a terminal.
        """
        deadline = time.monotonic() + timeout
        self.wait(timeout)
        if not all(reader.ended(deadline - time.monotonic()) for reader in self._readers):
            raise subprocess.TimeoutExpired(self._words, timeout)
        return self._readers[0].text, self._readers[1].text

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # It may end in between; its number is not given away again so soon.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _take(self) -> None:
        said = self._told.readline()
        assert said, "the loaded interpreter has ended"
        self.returncode = int(said)
        self._told.close()
        self._line.close()


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


def _decided_at_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_THE_START)}


def _serve(line: socket.socket, program: str) -> list[str]:
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
    return _become(json.loads(message), handed[:3], program)


def _report(running: dict[int, socket.socket]) -> None:
    """Tell of each fork that has ended how it did."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as teller, contextlib.suppress(BrokenPipeError):
            teller.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _become(asked: dict[str, object], streams: Sequence[int], program: str) -> list[str]:
    """Be the process that was asked for: its streams, its environment, its folder."""
    for number, end in enumerate(streams):
        os.dup2(end, number)
        os.close(end)
    if os.isatty(1):
        # What was no terminal when the interpreter began would keep lines until there are many.
        assert isinstance(sys.stdout, io.TextIOWrapper)
        sys.stdout.reconfigure(line_buffering=True)
    environment, words = asked["environment"], asked["words"]
    assert isinstance(environment, dict)
    assert isinstance(words, list)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(str(asked["folder"]))
    os.setsid()
    sys.argv = [str(ROOT.joinpath(*program.split("."), "__main__.py")), *words]
    return words


def _build_once() -> None:
    """Build before the forks what each would build of its code: 25 of a short command's 35 ms (measured)."""
    if protocol := sys.modules.get("core.service.rpc.protocol"):
        protocol.methods()
    if cli := sys.modules.get("core.cli.app"):
        import typer.main  # not for services, which have no command line

        command = typer.main.get_command(cli.app)
        typer.main.get_command = lambda typer_instance: command
        table = importlib.import_module("core.cli.command_table")
        for word in table.COMMANDS:
            table.command(word)


def end(code: int) -> None:
    """End this process as Python does, exit functions, threads and output, but destroy no objects.

    To destroy them touches, and so copies, every page that a fork shares: half of what a short command costs
    (37 of 72 ms of a processor, measured). What begins cold ends as Python does.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # private; as Python does first; it ends the threads of executors
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    # Nobody reads any more what it said: Python's own end has a code for that.
    sys.exit(code)


def _main() -> int:
    program = sys.argv[1]
    # Loaded before the first fork.
    loaded = [importlib.import_module(name) for name in PROGRAMS[program]]
    _build_once()
    line = socket.socket(fileno=int(sys.argv[2]))
    assert threading.active_count() == 1, "a fork has one thread"
    # Without this a fork's first collection touches, and so copies, every page.
    gc.collect()
    gc.freeze()
    words = _serve(line, program)
    code = loaded[0].main(words)
    assert isinstance(code, int)
    return code


COMMANDS, SERVICES, DEVICES = (Warm(program) for program in PROGRAMS)
for _one in (COMMANDS, SERVICES, DEVICES):
    atexit.register(_one.close)


if __name__ == "__main__":
    end(_main())

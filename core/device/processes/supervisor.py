"""The supervisor: a small Linux process that starts the device client's programs and kills them when it dies.

It runs as a script that imports only the standard library, so it starts in a few milliseconds. Its standard
input is a socket to the device client. Each packet on that socket starts one program and carries descriptors:
a line (a socket for this program), a file with the `StartRequest`, the folder, the standard streams, and any
more streams. Each packet on the line is one JSON message:

    received  {"force": bool}         false: send SIGTERM to the program's group; true: kill all descendants
    sent      {"monitor"}             the process id of the `ChildMonitor`
              {"pid"}                 the program runs
              {"error"}               it could not be started (errno)
              {"code", "left"}        it has ended; the processes in `left` could not be killed

For each request the supervisor forks a `ChildMonitor` process, which starts the program and supervises it
alone. A descendant can leave the program's group and session, but not its `ChildMonitor`, which is the
subreaper: the kernel makes it the parent of every orphan, so a descendant remains as long as the
`ChildMonitor` has a child. When the device client ends for any reason, the lines close, and each
`ChildMonitor` kills all descendants. Background processes of a shell that ended normally keep running.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any, NoReturn

assert sys.platform == "linux"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MOST_MESSAGE = 4096
_MOST_DESCRIPTORS = 16
_MOST_LEFT = 20
_KILL_FOR_S = 5.0
# Longer than a `ChildMonitor` tries to kill.
_MONITORS_END_S = 6.0
_REMOVE_FOR_S = 1.0
# How often the `ChildMonitor`'s own children are read between two reads of all /proc, which take far longer.
_QUICK_READS = 200
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class StartRequest:
    """A program to run. `contained`: the descendants that are left when it has ended are killed.

    `detached`: it is not supervised after its start. `group`: the `cgroup.procs` file of a control group
    that it joins, or empty.
    """

    program: list[str]
    environment: dict[str, str]
    contained: bool = False
    detached: bool = False
    group: str = ""


@dataclass(slots=True)
class ProcessSupervisor:
    """The supervisor: its socket to the device client, and the process ids of its running `ChildMonitor`s."""

    link: socket.socket
    monitors: set[int] = field(default_factory=set)

    def serve(self, wake: int) -> None:
        """Serve until the device client and all `ChildMonitor`s are gone; `wake` is readable when a child
        ends."""
        poll = select.poll()
        poll.register(self.link, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            self.reap(wake)
            if self.link.fileno() in ready and not self.receive():
                break
        poll.unregister(self.link)
        for monitor in self.monitors:
            # The program that it supervises may have stopped it (SIGSTOP).
            os.kill(monitor, signal.SIGCONT)
        until = time.monotonic() + _MONITORS_END_S
        while self.monitors and (left := until - time.monotonic()) > 0:
            poll.poll(left * 1000)
            self.reap(wake)

    def receive(self) -> bool:
        """Receive one request and start its program; False when the device client is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self.link, _MOST_MESSAGE, _MOST_DESCRIPTORS)
        except OSError:
            return False
        if data:
            self.start(descriptors)
        return bool(data)

    def start(self, descriptors: list[int]) -> None:
        """Fork a `ChildMonitor` for one request."""
        try:
            pid = os.fork()
        except OSError as error:
            # The machine, or the control group of this process, is at its limit of processes.
            with socket.socket(fileno=descriptors[0]) as line:
                _send(line, {"error": error.errno})
            descriptors = descriptors[1:]
        else:
            if pid == 0:
                _run_monitor(descriptors)
            self.monitors.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)

    def reap(self, wake: int) -> None:
        """Collect ended children: `ChildMonitor`s, and orphans that a `ChildMonitor` left running."""
        _drain(wake)
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self.monitors.discard(pid)


@dataclass(slots=True)
class ChildMonitor:
    """The supervisor of one program and its descendants, in a process of its own."""

    line: socket.socket
    request: StartRequest
    pid: int = 0
    # How it ended, as `os.waitstatus_to_exitcode` says; None while it runs.
    code: int | None = None
    # The program was asked to end; its remaining descendants are killed when it has.
    terminating: bool = False

    def start(self, descriptors: list[int]) -> bool:
        """Start the program and report it; `descriptors` are its folder and its streams from 0 on."""
        reading, writing = os.pipe()
        try:
            self.pid = os.fork()
        except OSError as error:
            _send(self.line, {"error": error.errno})
            return False
        if self.pid == 0:
            _execute(self.request, descriptors[0], descriptors[1:], writing)
        for descriptor in (writing, *descriptors):
            os.close(descriptor)
        with os.fdopen(reading, "rb") as pipe:
            fault = pipe.read()
        _send(self.line, {"error": int(fault)} if fault else {"pid": self.pid})
        return not fault

    def watch(self, wake: int) -> None:
        """Wait until the program has ended or must be killed; report its exit code and what is left of it."""
        poll = select.poll()
        poll.register(self.line, select.POLLIN)
        poll.register(wake, select.POLLIN)
        is_over = False
        while not is_over and self.code is None:
            ready = {descriptor for descriptor, _ in poll.poll()}
            _drain(wake)
            self.reap()
            if self.code is None and self.line.fileno() in ready:
                is_over = self.listen()
        left = self.kill() if is_over or self.terminating or self.request.contained else set()
        _send(self.line, {"code": self.code, "left": sorted(left)[:_MOST_LEFT]})

    def listen(self) -> bool:
        """Read the device client's message; True when all descendants must be killed.

        A message without `force` sends SIGTERM to the program's group. A closed line counts as `force`.
        """
        try:
            data = self.line.recv(_MOST_MESSAGE)
        except OSError:
            data = b""
        if not data or json.loads(data)["force"]:
            return True
        self.terminating = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM)
        return False

    def reap(self) -> bool:
        """Collect ended children; False when no child is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.pid:
                    self.code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return False

    def kill(self) -> set[int]:
        """Kill all descendants and wait for their end; returns those that have not ended after `_KILL_FOR_S`.

        A process that forks and exits in a loop has always moved on when /proc has been read. Each of its
        forks becomes a child of this process, though, and the list of children is read faster than it forks.
        Parents are killed first: a shell that sees its command killed prints that, as output of the program.
        """
        until = time.monotonic() + _KILL_FOR_S
        before: set[int] = set()
        reads = 0
        while self.reap():
            if time.monotonic() > until:
                return set(_descendants())
            alive = (_own_children() if reads % _QUICK_READS else []) or _descendants()
            reads += 1
            for pid in alive:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if before.issuperset(alive):
                # All of them already have the signal and are ending.
                time.sleep(0.001)
            before = set(alive)
        return set()


def _run_monitor(descriptors: list[int]) -> NoReturn:
    """Serve one request to its end, in the forked `ChildMonitor` process."""
    try:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        wake = _wake()
        line, request = socket.socket(fileno=descriptors[0]), descriptors[1]
        with os.fdopen(request, "rb") as file:
            file.seek(0)
            monitor = ChildMonitor(line, StartRequest(**json.load(file)))
        # Sent before the program starts: a program can stop its `ChildMonitor`, and the client needs this
        # process id to continue it.
        _send(line, {"monitor": os.getpid()})
        # The device client may have ended in the meantime; then nothing is started.
        if not _is_closed(line) and monitor.start(descriptors[2:]) and not monitor.request.detached:
            monitor.watch(wake)
        if monitor.request.group:
            _remove(os.path.dirname(monitor.request.group))
    finally:
        os._exit(0)


def _remove(group: str) -> None:
    """Remove a control group, since the device client may be gone.

    It is retried for `_REMOVE_FOR_S`: a process that has just ended still counts as a member for a moment.
    """
    until = time.monotonic() + _REMOVE_FOR_S
    while os.path.isdir(group) and time.monotonic() < until:
        with contextlib.suppress(OSError):
            os.rmdir(group)
        time.sleep(0.005)


def _is_closed(line: socket.socket) -> bool:
    poll = select.poll()
    poll.register(line, 0)
    return bool(poll.poll(0))


def _send(line: socket.socket, message: dict[str, Any]) -> None:
    """Send a message to the device client; ignored when it is gone."""
    with contextlib.suppress(OSError):
        line.send(json.dumps(message).encode())


def _drain(wake: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(wake, 4096)


def _own_children() -> list[int]:
    """The children of this process; empty also where the kernel has no such list."""
    with contextlib.suppress(OSError), open("/proc/thread-self/children", "rb", buffering=0) as file:
        return [int(pid) for pid in file.read(1 << 20).split()]
    return []


def _descendants() -> list[int]:
    """All descendants of this process that are not zombies, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    family = [os.getpid()]
    for pid in family:
        # A process cannot be its own descendant, but /proc is not read at one moment.
        family += (child for child in children.pop(pid, ()) if child != family[0])
    return family[1:]


def _parents() -> dict[int, int]:
    """The parent of every process that is not a zombie."""
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                # The name in parentheses may hold any character, `)` included.
                state, parent = file.read(1024).rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in {b"Z", b"X"}:
            parents[int(name)] = int(parent)
    return parents


def _execute(request: StartRequest, folder: int, streams: list[int], report: int) -> NoReturn:
    """Set streams, folder and signals in the forked child, then execute the program; report errno if not."""
    try:
        os.setsid()
        if request.group:
            with open(request.group, "w", encoding="ascii") as file:
                file.write("0")
        if not request.detached:
            # The program ends as well when its `ChildMonitor` is killed.
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # Signals that the `ChildMonitor` ignores would stay ignored after exec.
        for number in (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.fchdir(folder)
        # First moved to high numbers: a descriptor may have the number that another is to get.
        high = [os.dup2(descriptor, 100 + place) for place, descriptor in enumerate((*streams, report))]
        for place, descriptor in enumerate(high[:-1]):
            os.dup2(descriptor, place, inheritable=True)
        kept = len(streams)
        report = os.dup2(high[-1], kept, inheritable=False)
        os.closerange(kept + 1, 1024)
        os.execvpe(request.program[0], request.program, request.environment)
    except OSError as error:
        os.write(report, str(error.errno).encode())
    finally:
        os._exit(127)


def _wake() -> int:
    """Returns a descriptor that becomes readable when a child of this process has ended."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return reading


def main() -> None:
    """Serve the device client on the socket that is standard input."""
    # Orphans that a `ChildMonitor` left running become children of this process: in a container, init may not
    # collect them when they end.
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in _IGNORED:
        # On these signals the device client shuts down in order and then closes the socket.
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=0) as link:
        ProcessSupervisor(link).serve(_wake())


if __name__ == "__main__":
    main()
    sys.exit(0)

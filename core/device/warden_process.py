"""The warden: a small process beside the device client that starts its children and outlives its death.

It runs as a script with nothing but the standard library, so that it starts in a few milliseconds. Standard
input is a socket to the device client, one JSON message a packet:

    asked   {"run": id} with descriptors      start a process; `Order` travels in the first descriptor
            {"end": id, "force": bool}        ask its group to end, or kill all that comes of it
    told    {"id", "pid"} or {"id", "error"}  it runs, or could not be started
            {"id", "code"}                    it has ended

A child's children can leave its group and its session, but never this process: it is their subreaper, so
whoever loses a parent becomes its child. When the device client goes, however it goes, the socket closes, and
everything that still runs is killed. What a shell left behind on purpose, ending normally, is let go.
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
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MOST_MESSAGE = 4096
_MOST_DESCRIPTORS = 16
_KILL_FOR_S = 5.0
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class Order:
    """What to run. `contained`: nothing can leave it, so it never leaves anything behind.

    `detached`: it is let go at once. `group`: the file of a control group for it to join, or nothing.
    """

    program: list[str]
    environment: dict[str, str]
    contained: bool = False
    detached: bool = False
    group: str = ""


@dataclass(slots=True)
class Run:
    """One process that was started."""

    number: int
    pid: int
    order: Order
    # How it ended, as `os.waitstatus_to_exitcode` says; None while it runs.
    code: int | None = None
    # It was asked to end: what is left when it does is killed.
    condemned: bool = False
    dying: bool = False


@dataclass(slots=True)
class Warden:
    """All that runs, and what was let go: its process ids and its sessions."""

    link: socket.socket
    runs: dict[int, Run] = field(default_factory=dict)
    free: set[int] = field(default_factory=set)
    free_sessions: set[int] = field(default_factory=set)

    def serve(self, wake: int) -> None:
        """Until the device client is gone; `wake` becomes readable when a child has ended."""
        poll = select.poll()
        poll.register(self.link, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            ready = poll.poll()
            if any(descriptor == wake for descriptor, _ in ready):
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
            self.reap()
            if any(descriptor == self.link.fileno() for descriptor, _ in ready) and not self.receive():
                break
        for run in list(self.runs.values()):
            self.kill(run)

    def receive(self) -> bool:
        """Do what the device client asks; False when it is gone."""
        try:
            data, handed, _, _ = socket.recv_fds(self.link, _MOST_MESSAGE, _MOST_DESCRIPTORS)
        except OSError:
            return False
        if not data:
            return False
        asked = json.loads(data)
        if "run" in asked:
            self.start(asked["run"], handed)
        elif (run := self.runs.get(asked["end"])) is not None:
            if asked["force"]:
                self.kill(run)
            else:
                run.condemned = True
                _signal_group(run.pid, signal.SIGTERM)
        return True

    def start(self, number: int, handed: list[int]) -> None:
        """Start a process; the descriptors are its order, folder, standard streams, and what is more."""
        with os.fdopen(handed[0], "rb") as file:
            file.seek(0)
            order = Order(**json.load(file))
        if not order.contained and not any(not run.order.contained for run in self.runs.values()):
            # Whatever is here now comes from earlier runs.
            self.let_go()
        reading, writing = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            # The machine, or our control group, has no process left for the moment.
            for descriptor in (reading, writing, *handed[1:]):
                os.close(descriptor)
            self.tell({"id": number, "error": error.errno})
            return
        if pid == 0:
            _become(order, handed[1], handed[2:], writing)
        os.close(writing)
        for descriptor in handed[1:]:
            os.close(descriptor)
        with os.fdopen(reading, "rb") as pipe:
            fault = pipe.read()
        if fault:
            os.waitpid(pid, 0)
            self.tell({"id": number, "error": int(fault)})
            return
        if order.detached:
            self.free.add(pid)
            self.free_sessions.add(pid)
        else:
            self.runs[number] = Run(number, pid, order)
        self.tell({"id": number, "pid": pid})

    def reap(self) -> None:
        """Learn who has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.free.discard(pid)
            for run in list(self.runs.values()):
                if run.pid == pid:
                    run.code = os.waitstatus_to_exitcode(status)
                    if run.condemned and not run.dying:
                        self.kill(run)
                    elif not run.dying:
                        self.ended(run)

    def ended(self, run: Run) -> None:
        """Tell it, and let go of what it left behind; nothing is left of a run that was killed."""
        del self.runs[run.number]
        if not any(not other.order.contained for other in self.runs.values()):
            self.free_sessions.add(run.pid)
            self.let_go()
        self.tell({"id": run.number, "code": run.code})

    def let_go(self) -> None:
        """Nobody who is a child of ours now, and no run, will be killed any more."""
        pids = {run.pid for run in self.runs.values()}
        table = _processes()
        for pid, (parent, session) in table.items():
            if parent == os.getpid() and pid not in pids:
                self.free.add(pid)
                self.free_sessions.add(session)
        self.free_sessions &= {session for _, session in table.values()}

    def members(self, run: Run) -> set[int]:
        """Every process that comes of `run`, also those that left its group, its session and its tree."""
        table = _processes()
        found = {pid for pid, (_, session) in table.items() if session == run.pid}
        if run.code is None:
            found.add(run.pid)
        if not run.order.contained:
            others = {other.pid for other in self.runs.values()}
            for pid, (parent, session) in table.items():
                orphan = parent == os.getpid() and pid not in others
                if orphan and pid not in self.free and session not in self.free_sessions:
                    found.add(pid)
        grown = True
        while grown:
            children = {pid for pid, (parent, _) in table.items() if parent in found} - found
            found |= children
            grown = bool(children)
        return found & set(table)

    def kill(self, run: Run) -> None:
        """Kill everything that comes of `run`, see that it is gone, and tell it."""
        if run.dying:
            return
        run.dying = True
        until = time.monotonic() + _KILL_FOR_S
        while (members := self.members(run)) and time.monotonic() < until:
            # When a namespace's first process ends, its others are gone before anyone who waits learns of it.
            inside = members - {run.pid} if run.order.contained else set()
            for pid in inside or members:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()
            time.sleep(0.002)
        self.reap()
        if run.code is not None:
            self.ended(run)
        else:
            # It is stuck in the kernel; its end will be told when it comes.
            run.dying = False

    def tell(self, message: dict[str, Any]) -> None:
        """Send to the device client; when it is gone, the next receive says so."""
        with contextlib.suppress(OSError):
            self.link.send(json.dumps(message).encode())


def _processes() -> dict[int, tuple[int, int]]:
    """Parent and session of every process that is not a zombie."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                # The name in parentheses may hold anything.
                state, parent, _, session = file.read(1024).rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if state not in {b"Z", b"X"}:
            found[int(name)] = (int(parent), int(session))
    return found


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _become(order: Order, folder: int, streams: list[int], report: int) -> None:
    """In the child: take its streams and folder, and become the program."""
    try:
        os.setsid()
        if order.group:
            with open(order.group, "w", encoding="ascii") as file:
                file.write("0")
        if not order.detached:
            # Whoever kills this process as well leaves no shell behind.
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # What the warden ignores, its children would go on ignoring.
        for number in (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.fchdir(folder)
        # Out of the way first: one of them may have the number that another one gets.
        high = [os.dup2(descriptor, 100 + place) for place, descriptor in enumerate((*streams, report))]
        for place, descriptor in enumerate(high[:-1]):
            os.dup2(descriptor, place, inheritable=True)
        kept = len(streams)
        report = os.dup2(high[-1], kept, inheritable=False)
        os.closerange(kept + 1, 1024)
        os.execvpe(order.program[0], order.program, order.environment)
    except OSError as error:
        os.write(report, str(error.errno).encode())
    finally:
        os._exit(127)


def main() -> None:
    """Serve the socket that standard input is."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    for number in _IGNORED:
        # The device client ends orderly on these and then closes the socket.
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=0) as link:
        Warden(link).serve(reading)


if __name__ == "__main__":
    main()
    sys.exit(0)

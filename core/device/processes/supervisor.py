"""The warden: a small process beside the device client that starts its children and outlives its death.

It runs as a script with nothing but the standard library, so that it starts in a few milliseconds. Standard
input is a socket to the device client. Each packet there is one order; its descriptors are a line of its own,
what to run, the folder, the standard streams, and what is more. On the line, one JSON message a packet:

    asked   {"force": bool}           ask the program's group to end, or kill all that comes of it
    told    {"pid", "keeper"}         it runs, and who watches over it
            {"error"}                 or it could not be started
            {"code", "left"}          it has ended; `left` could not be killed

For each order the warden forks a keeper, which starts the program and watches over it alone. Children of it
can leave its group and its session, but never its keeper: it is their subreaper, so whoever loses a parent
becomes the keeper's child, and as long as the kernel knows of a child, something is left. When the device
client goes, however it goes, the lines close, and each keeper kills all that comes of its program. What a
shell left behind on purpose, ending normally, is let go.
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

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MOST_MESSAGE = 4096
_MOST_DESCRIPTORS = 16
_MOST_TOLD = 20
_KILL_FOR_S = 5.0
# Longer than a keeper needs when it cannot kill.
_KEEPERS_END_S = 6.0
_REMOVE_FOR_S = 1.0
# Looks at the keeper's own children between two at the whole table, which takes far longer.
_QUICK_LOOKS = 200
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
class Warden:
    """The socket to the device client, and the keepers at work."""

    link: socket.socket
    keepers: set[int] = field(default_factory=set)

    def serve(self, wake: int) -> None:
        """Until the device client is gone and all keepers with it; `wake` is readable when one has ended."""
        poll = select.poll()
        poll.register(self.link, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            self.reap(wake)
            if self.link.fileno() in ready and not self.receive():
                break
        poll.unregister(self.link)
        for keeper in self.keepers:
            # It may have been stopped by what it watches over.
            os.kill(keeper, signal.SIGCONT)
        until = time.monotonic() + _KEEPERS_END_S
        while self.keepers and (left := until - time.monotonic()) > 0:
            poll.poll(left * 1000)
            self.reap(wake)

    def receive(self) -> bool:
        """Do what the device client asks; False when it is gone."""
        try:
            data, handed, _, _ = socket.recv_fds(self.link, _MOST_MESSAGE, _MOST_DESCRIPTORS)
        except OSError:
            return False
        if data:
            self.start(handed)
        return bool(data)

    def start(self, handed: list[int]) -> None:
        """Give an order to a keeper of its own."""
        try:
            pid = os.fork()
        except OSError as error:
            # The machine, or our control group, has no process left for the moment.
            with socket.socket(fileno=handed[0]) as line:
                _tell(line, {"error": error.errno})
            handed = handed[1:]
        else:
            if pid == 0:
                _keep(handed)
            self.keepers.add(pid)
        for descriptor in handed:
            os.close(descriptor)

    def reap(self, wake: int) -> None:
        """Learn which keepers have ended; what they let go may end here as well."""
        _drain(wake)
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self.keepers.discard(pid)


@dataclass(slots=True)
class Keeper:
    """One program, and all that comes of it."""

    line: socket.socket
    order: Order
    pid: int = 0
    # How it ended, as `os.waitstatus_to_exitcode` says; None while it runs.
    code: int | None = None
    # It was asked to end: what is left when it does is killed.
    condemned: bool = False

    def start(self, handed: list[int]) -> bool:
        """Start the program and tell it; the descriptors are its folder, its streams, and what is more."""
        reading, writing = os.pipe()
        try:
            self.pid = os.fork()
        except OSError as error:
            _tell(self.line, {"error": error.errno})
            return False
        if self.pid == 0:
            _become(self.order, handed[0], handed[1:], writing)
        for descriptor in (writing, *handed):
            os.close(descriptor)
        with os.fdopen(reading, "rb") as pipe:
            fault = pipe.read()
        _tell(self.line, {"error": int(fault)} if fault else {"pid": self.pid})
        return not fault

    def watch(self, wake: int) -> None:
        """Until the program has ended, or is to be killed; tells how it ended and what is left."""
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
        left = self.kill() if is_over or self.condemned or self.order.contained else set()
        _tell(self.line, {"code": self.code, "left": sorted(left)[:_MOST_TOLD]})

    def listen(self) -> bool:
        """Ask the program to end when the device client wishes so; True when all of it must be killed."""
        try:
            data = self.line.recv(_MOST_MESSAGE)
        except OSError:
            data = b""
        if not data or json.loads(data)["force"]:
            return True
        self.condemned = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM)
        return False

    def reap(self) -> bool:
        """Learn who has ended; False when nobody is left."""
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
        """Kill everything that comes of the program, and see that it is gone; returns what is not.

        A process that goes on as its own child, again and again, is never where the table of processes says.
        But it becomes our child each time, and of those we look again faster than it can fork.
        """
        until = time.monotonic() + _KILL_FOR_S
        before: set[int] = set()
        looks = 0
        while self.reap():
            if time.monotonic() > until:
                return _descendants()
            found = (_own_children() if looks % _QUICK_LOOKS else set()) or _descendants()
            looks += 1
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if found <= before:
                # They have their signal already, and are on their way.
                time.sleep(0.001)
            before = found
        return set()


def _keep(handed: list[int]) -> NoReturn:
    """In the keeper: serve one order to its end."""
    try:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        wake = _wake()
        line, order = socket.socket(fileno=handed[0]), handed[1]
        with os.fdopen(order, "rb") as file:
            file.seek(0)
            keeper = Keeper(line, Order(**json.load(file)))
        # Told before the program starts. A program can stop its keeper; the client wakes it by this number.
        _tell(line, {"keeper": os.getpid()})
        # Nothing begins for a device client that has gone in the meantime.
        if not _is_closed(line) and keeper.start(handed[2:]) and not keeper.order.detached:
            keeper.watch(wake)
        if keeper.order.group:
            _remove(os.path.dirname(keeper.order.group))
    finally:
        os._exit(0)


def _remove(group: str) -> None:
    """Remove a control group, for the device client may be gone. Who has just ended counts for a moment."""
    until = time.monotonic() + _REMOVE_FOR_S
    while os.path.isdir(group) and time.monotonic() < until:
        with contextlib.suppress(OSError):
            os.rmdir(group)
        time.sleep(0.005)


def _is_closed(line: socket.socket) -> bool:
    poll = select.poll()
    poll.register(line, 0)
    return bool(poll.poll(0))


def _tell(line: socket.socket, message: dict[str, Any]) -> None:
    """Send to the device client; when it is gone, nobody needs to know."""
    with contextlib.suppress(OSError):
        line.send(json.dumps(message).encode())


def _drain(wake: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(wake, 4096)


def _own_children() -> set[int]:
    """Our own children; empty as well where the kernel keeps no such list."""
    with contextlib.suppress(OSError), open("/proc/thread-self/children", "rb", buffering=0) as file:
        return {int(pid) for pid in file.read(1 << 20).split()}
    return set()


def _descendants() -> set[int]:
    """Every process that comes of this one and is not a zombie."""
    table = _parents()
    found = {os.getpid()}
    grown = True
    while grown:
        children = {pid for pid, parent in table.items() if parent in found} - found
        found |= children
        grown = bool(children)
    return found - {os.getpid()}


def _parents() -> dict[int, int]:
    """The parent of every process that is not a zombie."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                # The name in parentheses may hold anything.
                state, parent = file.read(1024).rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in {b"Z", b"X"}:
            found[int(name)] = int(parent)
    return found


def _become(order: Order, folder: int, streams: list[int], report: int) -> NoReturn:
    """In the child: take its streams and folder, and become the program."""
    try:
        os.setsid()
        if order.group:
            with open(order.group, "w", encoding="ascii") as file:
                file.write("0")
        if not order.detached:
            # Whoever kills the keeper as well leaves no shell behind.
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # What the keeper ignores, its children would go on ignoring.
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


def _wake() -> int:
    """A descriptor that becomes readable when a child of this process has ended."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return reading


def main() -> None:
    """Serve the socket that standard input is."""
    # What a keeper let go comes to us, for in a container nobody else may look at its end.
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in _IGNORED:
        # The device client ends orderly on these and then closes the socket.
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=0) as link:
        Warden(link).serve(_wake())


if __name__ == "__main__":
    main()
    sys.exit(0)

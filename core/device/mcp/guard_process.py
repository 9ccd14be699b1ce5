"""Guard process: runs an MCP server for the device client and kills all its processes when either ends.

It runs as a script and uses the standard library only: `guard_process.py LIFELINE PROGRAM ARGUMENTS…`.
`LIFELINE` is the reading end of a pipe whose writing end only the device client has. When the pipe closes,
however the device client ended, or when the server ends, the guard kills all descendants of the server. It is
their subreaper, so it also finds processes that left the server's group and session. Linux only.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_FOR_S = 5.0
_CANNOT_START = 127
# Signals with which the device client asks the whole group to end. The guard ignores them, because it must
# outlive the server to clean up.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LIBC = ctypes.CDLL(None, use_errno=True)


def main(lifeline: int, program: list[str]) -> int:
    """Run the program until it or the device client ends; returns its exit code."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        _become(program, (lifeline, reading, writing))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        # The server's pipes must close when the server ends, not when the guard does.
        os.dup2(null, stream)
    code = _wait(pid, lifeline, reading)
    _kill_all()
    return code


def _wait(pid: int, lifeline: int, wake: int) -> int:
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 4096)
        for ended, status in _reaped():
            if ended == pid:
                code = os.waitstatus_to_exitcode(status)
                return 128 - code if code < 0 else code
        if lifeline in ready:
            return 128 + signal.SIGKILL


def _reaped() -> list[tuple[int, int]]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(one)
    return found


def _kill_all() -> None:
    """Kill all descendants, also those that are created meanwhile, until none is left (5 s at most)."""
    until = time.monotonic() + _KILL_FOR_S
    while (found := _descendants()) and time.monotonic() < until:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reaped()
        time.sleep(0.002)
    _reaped()


def _descendants() -> set[int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    # The name in parentheses may contain any characters.
                    state, parent = file.read(1024).rpartition(b")")[2].split()[:2]
                if state not in {b"Z", b"X"}:
                    parents[int(name)] = int(parent)
    found = {os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {os.getpid()}


def _become(program: list[str], not_for_it: tuple[int, ...]) -> None:
    """In the child: execute the server's program."""
    try:
        signal.set_wakeup_fd(-1)
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # Ignored signals stay ignored across exec.
        for number in (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in not_for_it:
            os.close(descriptor)
        os.execvp(program[0], program)
    except OSError as error:
        os.write(2, f"{program[0]} cannot be started: {error.strerror}\n".encode(errors="replace"))
    finally:
        os._exit(_CANNOT_START)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

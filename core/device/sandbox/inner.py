"""The first process inside the sandbox: puts up the last wall, runs the command, watches over the memory that
it takes, and ends with it.

It runs inside as a script, with nothing but the standard library. Being process 1 of its namespace, its end
is the end of everything that the command left running. Arguments: the limits, how many files are closed,
which ones, then the command. It imports little, for it starts anew for each command.
"""

import ctypes
import os
import resource
import struct
import sys
import time

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_BENEATH = 1
_NO_NEW_PRIVS = 38

EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL = 1 << 14, 1 << 15
# How many kinds of access each version knows; what is known is forbidden unless a rule allows it.
_KINDS = {1: 13, 2: 14, 3: 15, 4: 15}
_NEWEST_KINDS = 16
_WRITABLE = ("/dev/null", "/dev/zero", "/dev/full")
_LIBC = ctypes.CDLL(None, use_errno=True)
# So that whoever watches over the command, inside and outside, always gets the processor.
_NICE = 5
# SIGPIPE and SIGXFSZ; the module `signal` alone would take as long as the rest.
_IGNORED_BY_PYTHON = (13, 25)
_DEFAULT = None
_SIG_BLOCK, _SIGKILL = 0, 9
# A `sigset_t` with nothing but SIGCHLD, and a `timespec`.
_CHILD_ENDED = (1 << 16).to_bytes(128, "little")
_LOOK_EVERY_NS = 50_000_000
_PAUSE = struct.pack("=qq", 0, _LOOK_EVERY_NS)
_ROUGHLY = frozenset({b"RssAnon", b"RssShmem", b"VmSwap", b"VmPTE"})
_EXACTLY = frozenset({b"Pss_Anon", b"Pss_Shmem", b"SwapPss"})
# What a socket may hold that nobody reads, at most, unless an administrator raised it.
_SOCKET_BYTES = 2 * 212_992


def landlock_version() -> int:
    """The version of Landlock's interface here, 0 where there is none."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def forbid_changes(closed: list[str] | None = None) -> None:
    """Forbid this process and its children everything but executing, and reading what is not closed.

    A mount over a closed file hides it until somebody outside puts another one in its place: that takes the
    mount away. So everything beside it is allowed instead, and what comes there meanwhile is not.

    Raises:
        OSError: the kernel does not do it.
    """
    version = landlock_version()
    kinds = (1 << _KINDS.get(version, _NEWEST_KINDS)) - 1
    rules = struct.pack("=Q", kinds)
    if version >= 4:
        rules += struct.pack("=Q", 0b11)  # binding and connecting of TCP
    if version >= 6:
        rules += struct.pack("=Q", 0b11)  # abstract Unix sockets, and signals to whoever is outside
    ruleset = _checked(_LIBC.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), 0))
    _allow(ruleset, "/", EXECUTE | LIST)
    _allow_reading(ruleset, "/", closed or [])
    for path in _WRITABLE:
        _allow(ruleset, path, (READ | WRITE | TRUNCATE | IOCTL) & kinds)
    _checked(_LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _allow_reading(ruleset: int, path: str, closed: list[str]) -> None:
    """Allow everything below a path, itself included, to be read but the closed files."""
    below = [one for one in closed if one.startswith(path.rstrip("/") + "/")]
    try:
        if below:
            for name in os.listdir(path):
                _allow_reading(ruleset, os.path.join(path, name), below)
        elif path not in closed:
            _allow(ruleset, path, READ)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # It has gone, or is not for this user; then it stays forbidden.
        return


def _allow(ruleset: int, path: str, access: int) -> None:
    # A link must not open what it leads to.
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    rule = struct.pack("=Qi", access, descriptor)
    _checked(_LIBC.syscall(_ADD_RULE, ruleset, _BENEATH, rule, 0))
    os.close(descriptor)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return answer


def write_limits(limits: dict[str, int]) -> str:
    """Limits as the first argument."""
    return ",".join(f"{name}={value}" for name, value in limits.items())


def read_limits(text: str) -> dict[str, int]:
    """What `write_limits` wrote."""
    return {name: int(value) for name, _, value in (one.partition("=") for one in text.split(","))}


def bound(limits: dict[str, int]) -> None:
    """Set the limits of this process and its children."""
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, most = resource.getrlimit(kind)
        lowest = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (lowest, lowest))


def memory_used(enough: int) -> int:
    """Bytes that every process here has taken together; not more exact than to say whether it is `enough`."""
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    sockets = _sockets() * _SOCKET_BYTES
    used = sockets + sum(_sizes(f"/proc/{pid}/status", _ROUGHLY) or 0 for pid in pids)
    if used < enough:
        return used
    # What they share counted for each of them. Who shares what takes far longer to find out, and a process
    # can refuse to tell.
    used = sockets
    for pid in pids:
        exact = _sizes(f"/proc/{pid}/smaps_rollup", _EXACTLY)
        used += (_sizes(f"/proc/{pid}/status", _ROUGHLY) or 0) if exact is None else exact
    return used


def _sizes(path: str, names: frozenset[bytes]) -> int | None:
    """The sum of these fields of a file below /proc, in bytes; None where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            rows = [line.partition(b":") for line in file.read(1 << 16).splitlines()]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return sum(int(rest.split()[0]) * 1024 for name, _, rest in rows if name in names)


def _sockets() -> int:
    """How many sockets there are in this network namespace, which nobody else is in."""
    try:
        with open("/proc/net/sockstat", "rb", buffering=0) as file:
            return int(file.read(1 << 12).split()[2])
    except FileNotFoundError:
        return 0


def watch(child: int, most_memory: int) -> int:
    """Wait for the command's end; returns its exit code, 128 + N after signal N, also where we end it."""
    _LIBC.sigprocmask(_SIG_BLOCK, _CHILD_ENDED, None)
    look_at = time.monotonic_ns() + _LOOK_EVERY_NS
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if pid == 0:
            _LIBC.sigtimedwait(_CHILD_ENDED, None, _PAUSE)
        if time.monotonic_ns() >= look_at:
            if memory_used(most_memory) > most_memory:
                said = f"The command took more than {most_memory >> 20} MiB of memory, and was ended\n"
                os.write(2, said.encode())
                return 128 + _SIGKILL
            look_at = time.monotonic_ns() + _LOOK_EVERY_NS


def main() -> int:
    """Run the command that the arguments name; returns its exit code, 128 + N after signal N."""
    os.closerange(3, 4096)
    limits, after = read_limits(sys.argv[1]), 3 + int(sys.argv[2])
    closed, command = sys.argv[3:after], sys.argv[after:]
    # Should memory run out, this is what the kernel ends, and nothing that was there before.
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    # Before the limits: one of them is on the memory that this takes.
    forbid_changes(closed)
    child = os.fork()
    if child == 0:
        try:
            os.nice(_NICE)
            bound(limits)
            for number in _IGNORED_BY_PYTHON:
                _LIBC.signal(number, _DEFAULT)
            os.execvp(command[0], command)
        except (OSError, ValueError) as error:
            os.write(2, f"{command[0]}: {error}\n".encode())
        finally:
            os._exit(127)
    for descriptor in (0, 1):
        os.close(descriptor)
    return watch(child, limits["DATA"])


if __name__ == "__main__":
    os._exit(main())

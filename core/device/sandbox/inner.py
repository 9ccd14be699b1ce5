"""The first process inside the sandbox: puts up the last wall, runs the command, and ends with it.

It runs inside as a script, with nothing but the standard library. Being process 1 of its namespace, its end
is the end of everything that the command left running. Arguments: the limits, then the command. It imports
little, for it starts anew for each command.
"""

import ctypes
import os
import resource
import struct
import sys

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
# Small enough that whoever watches over the sandbox always gets the processor.
_NICE = 5
# SIGPIPE and SIGXFSZ; the module `signal` alone would take as long as the rest.
_IGNORED_BY_PYTHON = (13, 25)
_DEFAULT = None


def landlock_version() -> int:
    """The version of Landlock's interface here, 0 where there is none."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def forbid_changes() -> None:
    """Forbid this process and its children everything but reading and executing.

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
    _allow(ruleset, "/", EXECUTE | READ | LIST)
    for path in _WRITABLE:
        _allow(ruleset, path, (READ | WRITE | TRUNCATE | IOCTL) & kinds)
    _checked(_LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
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


def main() -> int:
    """Run the command that the arguments name; returns its exit code, 128 + N after signal N."""
    os.closerange(3, 4096)
    limits, command = read_limits(sys.argv[1]), sys.argv[2:]
    os.nice(_NICE)
    # Should memory run out, this is what the kernel ends, and nothing that was there before.
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    # Before the limits: one of them is on the memory that this takes.
    forbid_changes()
    child = os.fork()
    if child == 0:
        try:
            bound(limits)
            for number in _IGNORED_BY_PYTHON:
                _LIBC.signal(number, _DEFAULT)
            os.execvp(command[0], command)
        except (OSError, ValueError) as error:
            os.write(2, f"{command[0]}: {error}\n".encode())
        finally:
            os._exit(127)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(main())

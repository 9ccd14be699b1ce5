"""The first process inside the sandbox: puts up the last wall, runs the command and ends with it.

It runs inside with nothing but the standard library. Being process 1 of its namespace, its end is the end of
everything that the command left running. It imports little, for it starts anew for each command.

The command's output goes through this process, so that nothing leaves that was read after a closed path came
to be another one. System calls that take from a pool which all programs of the user share are counted here:
the kernel asks before each of them (seccomp_unotify(2)).
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import select
import struct
import sys
import time

# `typing` alone would take as long as all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_BENEATH = 1
_NO_NEW_PRIVS = 38
_SET_DUMPABLE = 4

EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL = 1 << 14, 1 << 15
# How many kinds of access each version knows; what is known is forbidden unless a rule allows it.
_KINDS = {1: 13, 2: 14, 3: 15, 4: 15}
_NEWEST_KINDS = 16
# Not /dev/zero: opened for writing and mapped shared, it is memory that no process is seen to have.
_WRITABLE = ("/dev/null", "/dev/full")
# Opening the first makes a terminal, of which the machine has a few thousand.
_TERMINALS = ("/dev/ptmx", "/dev/pts")
_LIBC = ctypes.CDLL(None, use_errno=True)
# So that what watches over the command, inside and outside, always gets the processor.
_NICE = 5
# SIGPIPE and SIGXFSZ; the module `signal` alone would take as long as the rest.
_IGNORED_BY_PYTHON = (13, 25)
_SIGINT = 2
_DEFAULT = None
_SIG_BLOCK, _SIG_UNBLOCK, _SIGKILL, _SIGCONT, _SIGSTOP = 0, 1, 9, 18, 19
# A `sigset_t` with nothing but SIGCHLD.
_CHILD_ENDED = (1 << 16).to_bytes(128, "little")
_NO_WAIT = os.O_NONBLOCK | os.O_CLOEXEC
_LOOK_EVERY_NS = 50_000_000
_ROUGHLY = ("RssAnon", "RssShmem", "VmSwap", "VmPTE")
_EXACTLY = ("Pss_Anon", "Pss_Shmem", "SwapPss")
_PAGE = 4096
# What a socket may hold unread, at most, unless an administrator raised it.
_SOCKET_BYTES = 2 * 212_992
# The most that one open file was seen to take of the kernel's memory: /proc/self/numa_maps, read.
_FILE_BYTES = 20_480
# A mapping with its links; each process that shares pages through forks adds one more link to each of them.
_MAPPING_BYTES, _LINK_BYTES = 700, 64
# The kernel's share of the memory that a command may have, and the least that it is.
_KERNEL_SHARE, _KERNEL_LEAST = 8, 64 << 20
_CHUNK = 1 << 16
# More than a pipe holds.
_MOST_REST = 1 << 21

# seccomp(2): set a filter and get a descriptor that tells of its system calls; ioctls of that descriptor.
_SET_FILTER, _NEW_LISTENER = 1, 1 << 3
_RECEIVE, _ANSWER, _GO_ON = 0xC0502100, 0xC0182101, 1
_NOTICE = struct.Struct("=QIIiIQ6Q")
_REPLY = struct.Struct("=QqiI")
# Counts are this far apart at least, for everything stands still meanwhile.
_COUNT_EVERY_NS = 20_000_000
_STOPPED, _ENDED = b"TtZXxD", b"ZXx"
_OWN_PLACE = "/proc/1"
_STOPS_AFTER = 50

_SECCOMP = {"x86_64": 317, "aarch64": 277}

_REPORT = 3
# What the report says, a byte each.
BEGAN, OTHER_FOLDER, CLOSED_CHANGED = b"B", b"F", b"C"

# A file by its file system and its number there.
Identity = tuple[int, int]


def landlock_version() -> int:
    """The version of Landlock's interface here, 0 where there is none."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def forbid_changes(closed: list[str] | None = None) -> set[Identity]:
    """Forbid this process and its children everything but executing, and reading what is not closed.

    A mount over a closed folder hides it until a program outside puts another one in its place, and where
    nothing is yet, nothing can be mounted over. So everything beside the closed paths is allowed instead, and
    what comes there meanwhile is not. Returns what was allowed by itself, below which all is allowed.

    Raises:
        OSError: the kernel does not do it.
    """
    version = landlock_version()
    kinds = (1 << _KINDS.get(version, _NEWEST_KINDS)) - 1
    rules = struct.pack("=Q", kinds)
    if version >= 4:
        rules += struct.pack("=Q", 0b11)  # binding and connecting of TCP
    if version >= 6:
        rules += struct.pack("=Q", 0b11)  # abstract Unix sockets, and signals to processes outside
    ruleset = _checked(_LIBC.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), 0))
    _allow(ruleset, "/", EXECUTE | LIST)
    allowed: set[Identity] = set()
    _allow_reading(ruleset, "/", [*(closed or []), *_TERMINALS], allowed)
    for path in _WRITABLE:
        _allow(ruleset, path, (READ | WRITE | TRUNCATE | IOCTL) & kinds)
    _checked(_LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    return allowed


def _allow_reading(ruleset: int, path: str, closed: list[str], allowed: set[Identity]) -> None:
    """Allow everything below a path, itself included, to be read but the closed paths."""
    below = [inner for inner in closed if inner.startswith(path.rstrip("/") + "/")]
    try:
        if path in closed or (below and os.path.islink(path)):
            return
        if not below:
            allowed.add(_allow(ruleset, path, READ))
            return
        for name in os.listdir(path):
            _allow_reading(ruleset, os.path.join(path, name), below, allowed)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # It has gone, or is not for this user; then it stays forbidden.
        return


def _allow(ruleset: int, path: str, access: int) -> Identity:
    # A link must not open what it leads to.
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    rule = struct.pack("=Qi", access, descriptor)
    _checked(_LIBC.syscall(_ADD_RULE, ruleset, _BENEATH, rule, 0))
    facts = os.fstat(descriptor)
    os.close(descriptor)
    return facts.st_dev, facts.st_ino


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"The kernel does not put up a wall: {os.strerror(number)}")
    return answer


class Ways:
    """The closed paths and the folders that they lie in, as they were when the command began."""

    def __init__(self, closed: list[str], allowed: set[Identity]) -> None:
        """`allowed`: what may be read wherever it is moved to, because it lay beside a closed path."""
        self._closed = frozenset(closed)
        self._allowed = allowed
        names = {path for end in closed for path in _upwards(end)}
        self._before = {path: _identity(path) for path in sorted(names)}

    def changed(self) -> bool:
        """Whether something can be read, or listed, at a closed path that was not there before.

        A file or folder that came to be outside is not readable for the command, so only three changes count:
        something readable was moved to such a place, a link was put there, or a closed folder is a new one,
        whose names can be listed.
        """
        for path, before in self._before.items():
            try:
                facts = os.lstat(path)
            except OSError:
                continue
            now, kind = (facts.st_dev, facts.st_ino), facts.st_mode & 0o170000
            if now == before:
                continue
            if now in self._allowed or kind == 0o120000 or (kind == 0o040000 and path in self._closed):
                return True
        return False


def _upwards(path: str) -> Iterator[str]:
    while path != "/":
        yield path
        path = os.path.dirname(path)


def _identity(path: str) -> Identity | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def write_plan(limits: str, shares: str, rules: bytes, start: Identity, closed: list[str]) -> bytes:
    """What `read_plan` reads. Paths have no NUL in them."""
    words = (limits, shares, rules.hex(), f"{start[0]}:{start[1]}", *closed)
    return b"\0".join(map(os.fsencode, words))


def read_plan(descriptor: int) -> list[str]:
    """The limits, the shares of pools, the filter that counts, in hexadecimal, the identity of the folder to
    start in, then the closed paths.
    """
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return [os.fsdecode(word) for word in file.read().split(b"\0")]


def write_limits(limits: dict[str, int]) -> str:
    """Limits as one text."""
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


class Usage:
    """What every process here has taken together, as /proc says it (proc_pid_status(5)): one look."""

    def __init__(self) -> None:
        self._rows = {}
        for place in _processes():
            if row := _fields(f"{place}/status"):
                self._rows[place] = row

    def memory(self, enough: int) -> int:
        """Bytes of memory, sockets' too; not more exact than to say whether it is `enough`."""
        sockets = _sockets() * _SOCKET_BYTES
        used = sockets + sum(_sum(row, _ROUGHLY) for row in self._rows.values())
        if used < enough:
            return used
        # What they share counted for each of them. Finding out who shares what takes far longer, and a
        # process can refuse to tell.
        used = sockets
        for place, row in self._rows.items():
            exact = _fields(f"{place}/smaps_rollup")
            used += _sum(exact, _EXACTLY) if exact else _sum(row, _ROUGHLY)
        return used

    def kernel(self, enough: int) -> int:
        """Bytes that the kernel has for open files and mappings, at most; exact as `memory` is."""
        mapping = _MAPPING_BYTES + _LINK_BYTES * len(self._rows)
        # No more files than there is room for, no more mappings than pages.
        most = {
            place: row.get("FDSize", 0) * _FILE_BYTES + row.get("VmSize", 0) // _PAGE * mapping
            for place, row in self._rows.items()
        }
        used = sum(most.values())
        if used < enough:
            return used
        used = 0
        for place, at_most in most.items():
            try:
                files = len(os.listdir(f"{place}/fd"))
                used += files * _FILE_BYTES + _mappings(place, (enough - used) // mapping + 1) * mapping
            except (FileNotFoundError, ProcessLookupError):
                continue
            except PermissionError:
                used += at_most
            if used > enough:
                break
        return used


def _processes() -> list[str]:
    """Where /proc tells of each process; of one whose first thread has ended, where it tells of another."""
    places = [f"/proc/{name}" for name in os.listdir("/proc") if name.isdigit()]
    return [place if _state(place) not in _ENDED else _second_thread(place) for place in places]


def _second_thread(place: str) -> str:
    threads = (thread for thread in _threads(place) if _state(thread) not in _ENDED)
    return next(threads, place)


def _threads(place: str) -> list[str]:
    try:
        return [f"{place}/task/{thread}" for thread in os.listdir(f"{place}/task")]
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return []


def _state(place: str) -> bytes:
    """A letter (proc_pid_stat(5)), that of an ended thread where there is none any more."""
    try:
        with open(f"{place}/stat", "rb", buffering=0) as file:
            # The name in parentheses may hold anything.
            return file.read(1024).rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return b"X"


def _fields(path: str) -> dict[str, int]:
    """The numbers in a file below /proc by their names, sizes in bytes; none where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            rows = [line.partition(b":") for line in file.read(1 << 16).splitlines()]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    numbers = {}
    for name, _, rest in rows:
        words = rest.split()
        # A process can call itself what it likes, in the field `Name`.
        if len(words) == 2 and words[1] == b"kB" and words[0].isdigit():
            numbers[name.decode()] = int(words[0]) * 1024
        elif name == b"FDSize":
            numbers["FDSize"] = int(words[0])
    return numbers


def _sum(row: dict[str, int], names: tuple[str, ...]) -> int:
    return sum(row.get(name, 0) for name in names)


def _mappings(place: str, enough: int) -> int:
    """How many mappings a process has; not counted further than `enough`."""
    count = 0
    with open(f"{place}/maps", "rb", buffering=0) as file:
        while count < enough and (data := file.read(_CHUNK)):
            count += data.count(b"\n")
    return count


def _sockets() -> int:
    """How many sockets there are in this network namespace, which is this command's alone."""
    try:
        with open("/proc/net/sockstat", "rb", buffering=0) as file:
            return int(file.read(1 << 12).split()[2])
    except FileNotFoundError:
        return 0


class Pools:
    """Pipes, and what epolls watch: of both, all programs of a user together have only so many.

    The kernel asks before a command makes one. It is told to go on while fewer than the command's share can
    be there: those counted last, and all that were allowed since. Only when that is used up are they counted
    again, in every process at once, all of them stopped meanwhile, for a process that forks quickly enough
    is never where another one looks.
    """

    def __init__(self, listener: int, shares: str) -> None:
        """`shares`: the most pipes, the most watches, and epoll_ctl's number (`write_shares`)."""
        self.listener = listener
        pipes, watches, self._epoll_ctl = (int(word) for word in shares.split(","))
        self._most = (pipes, watches)
        self._left = [pipes, watches]
        self._count_again_at = 0
        self._is_new = False

    def answer(self) -> None:
        """Answer one system call that waits."""
        notice = ctypes.create_string_buffer(_NOTICE.size)
        if _LIBC.ioctl(self.listener, ctypes.c_ulong(_RECEIVE), notice) < 0:
            # Its process has ended, or was interrupted.
            return
        number, _, _, call = _NOTICE.unpack(notice.raw)[:4]
        kind = 1 if call == self._epoll_ctl else 0
        if self._left[kind] <= 0 and not self._is_new and time.monotonic_ns() > self._count_again_at:
            self._count()
        if self._left[kind] > 0:
            self._left[kind] -= 1
            reply = _REPLY.pack(number, 0, 0, _GO_ON)
        else:
            reply = _REPLY.pack(number, 0, -(errno.EMFILE, errno.ENOSPC)[kind], 0)
        if _LIBC.ioctl(self.listener, ctypes.c_ulong(_ANSWER), reply) == 0:
            self._is_new = False

    def _count(self) -> None:
        """Count anew. Calls that wait are interrupted and made again, so the next answer is by this count."""
        _to_all(_SIGSTOP)
        try:
            _wait_until_stopped()
            pipes: set[str] = set()
            watches = 0
            for place in _processes():
                if place != _OWN_PLACE:
                    watches += _pool_members(place, pipes)
        finally:
            _to_all(_SIGCONT)
        self._left = [self._most[0] - len(pipes), self._most[1] - watches]
        self._count_again_at = time.monotonic_ns() + _COUNT_EVERY_NS
        self._is_new = True


def write_shares(pipes: int, watches: int, epoll_ctl: int) -> str:
    """A command's shares as one argument; `epoll_ctl` is that system call's number here."""
    return f"{pipes},{watches},{epoll_ctl}"


def _to_all(number: int) -> None:
    # Process 1 of a namespace reaches nothing outside of it, and not itself.
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return


def _wait_until_stopped() -> None:
    """Until no thread is on its way out of the kernel any more; what it was let do counts then."""
    for _ in range(_STOPS_AFTER):
        places = (f"/proc/{name}" for name in os.listdir("/proc") if name.isdigit())
        others = (place for place in places if place != _OWN_PLACE)
        if all(_state(thread) in _STOPPED for place in others for thread in _threads(place)):
            return
        time.sleep(0.0005)


def _pool_members(place: str, pipes: set[str]) -> int:
    """Add the pipes that a process has open to `pipes`; returns how much its epolls watch."""
    watches = 0
    try:
        for descriptor in os.listdir(f"{place}/fd"):
            try:
                target = os.readlink(f"{place}/fd/{descriptor}")
                if target.startswith("pipe:"):
                    pipes.add(target)
                elif target == "anon_inode:[eventpoll]":
                    with open(f"{place}/fdinfo/{descriptor}", "rb") as file:
                        watches += file.read().count(b"tfd:")
            except FileNotFoundError:
                continue
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except PermissionError:
        # A program that may be run but not read: all that it has open may be pipes.
        size = _fields(f"{place}/status").get("FDSize", 0)
        pipes.update(f"{place}:{number}" for number in range(size))
        return size
    return watches


class Stream:
    """One output of the command on its way out."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._pending = b""
        self._is_open = True
        os.set_blocking(source, False)
        os.set_blocking(target, False)

    def register(self, poll: select.poll) -> None:
        """Wait for what comes next: room at the other end, or something to pass on."""
        if self._pending:
            poll.register(self._target, select.POLLOUT)
        elif self._is_open:
            poll.register(self._source, select.POLLIN)

    def take(self, ready: set[int]) -> bytes:
        """What the command wrote, when it is ready; nothing before the last of it has been passed on."""
        if self._pending or self._source not in ready:
            return b""
        data = os.read(self._source, _CHUNK)
        self._is_open = bool(data)
        return data

    def give(self, data: bytes, ready: set[int]) -> None:
        """Pass on as much as the other end takes."""
        self._pending += data
        if self._pending and (data or self._target in ready):
            try:
                self._pending = self._pending[os.write(self._target, self._pending) :]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self._pending = b""

    def rest(self) -> bytes:
        """All that is in the pipe when the command has ended."""
        taken = b""
        try:
            while len(taken) < _MOST_REST and (data := os.read(self._source, _CHUNK)):
                taken += data
        except BlockingIOError:
            pass
        return taken

    def finish(self, last: bytes) -> None:
        """Pass on what is left and these bytes, and wait until the other end has taken them."""
        os.set_blocking(self._target, True)
        left = self._pending + last
        try:
            while left:
                left = left[os.write(self._target, left) :]
        except BrokenPipeError:
            return


class Watch:
    """The command at work: its output, what it asks for, what it takes, and its end."""

    def __init__(self, out: Stream, err: Stream, ways: Ways, pools: Pools, memory: int, report: int) -> None:
        """`memory`: the most bytes that it may take. `report`: the descriptor of what the device reads."""
        self._out, self._err = out, err
        self._ways, self._pools = ways, pools
        self._memory = memory
        self._kernel = max(_KERNEL_LEAST, memory // _KERNEL_SHARE)
        self._report = report

    def until_end(self, child: int, ended: int) -> int:
        """Returns the command's exit code, 128 + N after signal N, also where it is ended here.

        `ended` is a descriptor that is ready when a child has ended.
        """
        look_at = time.monotonic_ns() + _LOOK_EVERY_NS
        while True:
            ready = self._wait(ended, look_at)
            if self._pools.listener in ready:
                self._pools.answer()
            if not self._pass_on(ready):
                return self._end_for_change()
            if ended in ready:
                os.read(ended, 4096)
            while (waited := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if waited[0] == child:
                    return self._finish(os.waitstatus_to_exitcode(waited[1]))
            if time.monotonic_ns() >= look_at:
                if (excess := self._too_much()) != "":
                    self._err.finish(f"The command took more than {excess}, and was ended\n".encode())
                    return 128 + _SIGKILL
                look_at = time.monotonic_ns() + _LOOK_EVERY_NS

    def _wait(self, ended: int, until: int) -> set[int]:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(self._pools.listener, select.POLLIN)
        for stream in (self._out, self._err):
            stream.register(poll)
        left = max(0, until - time.monotonic_ns())
        return {descriptor for descriptor, _ in poll.poll(left / 1_000_000)}

    def _pass_on(self, ready: set[int]) -> bool:
        """Pass on what was written; false where it may be of something that is closed."""
        for stream in (self._out, self._err):
            data = stream.take(ready)
            # Only now: what the command wrote was read before this look.
            if data and self._ways.changed():
                return False
            stream.give(data, ready)
        return True

    def _finish(self, code: int) -> int:
        rests = self._out.rest(), self._err.rest()
        if any(rests) and self._ways.changed():
            return self._end_for_change()
        for stream, rest in zip((self._out, self._err), rests, strict=True):
            stream.finish(rest)
        return code if code >= 0 else 128 - code

    def _end_for_change(self) -> int:
        os.write(self._report, CLOSED_CHANGED)
        return 128 + _SIGKILL

    def _too_much(self) -> str:
        """What the command took too much of, or nothing."""
        usage = Usage()
        if usage.memory(self._memory) > self._memory:
            return f"{self._memory >> 20} MiB of memory"
        if usage.kernel(self._kernel) > self._kernel:
            return f"{self._kernel >> 20} MiB of the kernel's memory"
        return ""


def listen(program: bytes) -> int:
    """Put a seccomp filter on this process and its children; returns the descriptor that tells of calls.

    Raises:
        OSError: the kernel does not do it, such as where a container has a listener already.
    """
    # struct sock_fprog
    code = ctypes.create_string_buffer(program, len(program))
    steps = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(code))
    number = _SECCOMP[os.uname().machine]
    return _checked(_LIBC.syscall(number, _SET_FILTER, _NEW_LISTENER, steps))


def start(report: int, plan: int, command: list[str]) -> int:
    """Run a command; returns its exit code, 128 + N after signal N.

    The first two are descriptors: what is said of the command is written to `report`, `plan` is read.
    """
    if os.getpid() != 1:
        raise OSError("This is the first process of a namespace, or nothing")
    limits_text, shares, program, folder, *closed = read_plan(plan)
    limits = read_limits(limits_text)
    os.dup2(report, _REPORT)
    os.closerange(_REPORT + 1, 4096)
    # Python's handler would show a traceback, and process 1 takes no signal that it has no handler for.
    _LIBC.signal(_SIGINT, _DEFAULT)
    # Should memory run out, this is what the kernel ends, and nothing that was there before.
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    os.write(_REPORT, BEGAN)
    if folder != "{0.st_dev}:{0.st_ino}".format(os.stat(".")):
        os.write(_REPORT, OTHER_FOLDER)
        return 1
    # No descriptor of this process is for the command, neither the report nor the outputs.
    _checked(_LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0))
    # Before the limits: one of them is on the memory that this takes.
    ways = Ways(closed, forbid_changes(closed))
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    _LIBC.sigprocmask(_SIG_BLOCK, _CHILD_ENDED, None)
    ended = _checked(_LIBC.signalfd(-1, _CHILD_ENDED, _NO_WAIT))
    pools = Pools(listen(bytes.fromhex(program)), shares)
    child = os.fork()
    if child == 0:
        _become(command, limits, out_end, err_end)
    for descriptor in (0, out_end, err_end):
        os.close(descriptor)
    watch = Watch(Stream(out, 1), Stream(err, 2), ways, pools, limits["DATA"], _REPORT)
    return watch.until_end(child, ended)


def _become(command: list[str], limits: dict[str, int], out: int, err: int) -> NoReturn:
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, 4096)
        _LIBC.sigprocmask(_SIG_UNBLOCK, _CHILD_ENDED, None)
        os.nice(_NICE)
        bound(limits)
        for number in _IGNORED_BY_PYTHON:
            _LIBC.signal(number, _DEFAULT)
        os.execvp(command[0], command)
    except (OSError, ValueError) as error:
        os.write(2, f"{command[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def run() -> NoReturn:
    """Run a command as this process's arguments say (see `start`), and end as it ends."""
    try:
        code = start(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    except OSError as error:
        os.write(2, f"{error.strerror or error}\n".encode())
        code = 1
    os._exit(code)

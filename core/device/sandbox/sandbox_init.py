"""The first process of the sandbox: applies Landlock and the second seccomp filter, then runs the command.

It uses the standard library only, and little of that, because it starts again for each command. It is process
1 of its PID namespace: when it ends, the kernel kills every process that the command left running.

The command's output passes through this process, so that nothing leaves the sandbox that was read after a
closed path was replaced. This process also counts the system calls that use a pool shared by all programs of
the user: the kernel asks it before each of them (seccomp_unotify(2)).
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

assert sys.platform == "linux"

# Importing `typing` would take as long as all other imports together.
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
# How many access rights each Landlock version knows; a known right is denied unless a rule allows it.
_KINDS = {1: 13, 2: 14, 3: 15, 4: 15}
_NEWEST_KINDS = 16
# Not /dev/zero: opened for writing and mapped shared, it yields memory that no process is charged for.
_WRITABLE = ("/dev/null", "/dev/full")
# Opening /dev/ptmx creates a pseudoterminal, of which the machine has only a few thousand.
_TERMINALS = ("/dev/ptmx", "/dev/pts")
_LIBC = ctypes.CDLL(None, use_errno=True)
# The command's priority is lowered, so that this process and the supervisor outside always get CPU time.
_NICE = 5
# SIGPIPE and SIGXFSZ; importing `signal` would take as long as the other imports together.
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
# The most unread bytes that a socket can hold, unless an administrator raised the limit.
_SOCKET_BYTES = 2 * 212_992
# The most kernel memory measured for one open file: /proc/self/numa_maps while it is read.
_FILE_BYTES = 20_480
# Kernel memory for a mapping and for each of its links; each process that shares pages through forks adds one
# link to each mapping.
_MAPPING_BYTES, _LINK_BYTES = 700, 64
# Kernel memory may take this fraction (1/8) of a command's memory limit, and never less than 64 MiB.
_KERNEL_SHARE, _KERNEL_LEAST = 8, 64 << 20
_CHUNK = 1 << 16
# More than a pipe can hold.
_MOST_REST = 1 << 21

# seccomp(2): install a filter and get a descriptor that reports its system calls; ioctls of that descriptor.
_SET_FILTER, _NEW_LISTENER = 1, 1 << 3
_RECEIVE, _ANSWER, _GO_ON = 0xC0502100, 0xC0182101, 1
_NOTICE = struct.Struct("=QIIiIQ6Q")
_REPLY = struct.Struct("=QqiI")
# The minimum time between counts, because all processes are stopped during a count.
_COUNT_EVERY_NS = 20_000_000
_STOPPED, _ENDED = b"TtZXxD", b"ZXx"
_OWN_PLACE = "/proc/1"
_STOPS_AFTER = 50

_SECCOMP = {"x86_64": 317, "aarch64": 277}

_REPORT = 3
# The messages in the report, a byte each.
BEGAN, OTHER_FOLDER, CLOSED_CHANGED = b"B", b"F", b"C"

# A file's device and inode numbers.
Identity = tuple[int, int]


def landlock_version() -> int:
    """The kernel's Landlock ABI version; 0 where it has no Landlock."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def forbid_changes(closed: list[str] | None = None) -> set[Identity]:
    """Restrict this process and its children to executing files, and to reading those that are not closed.

    A mount hides a closed folder only until a program outside replaces the folder, and a path that does not
    exist yet cannot be mounted over. Landlock therefore allows each entry beside the closed paths, and denies
    entries that appear there later. Returns the identities of the allowed entries; all below them is allowed.

    Raises:
        OSError: the kernel rejects a rule or the restriction.
    """
    version = landlock_version()
    kinds = (1 << _KINDS.get(version, _NEWEST_KINDS)) - 1
    rules = struct.pack("=Q", kinds)
    if version >= 4:
        rules += struct.pack("=Q", 0b11)  # TCP bind and connect
    if version >= 6:
        rules += struct.pack("=Q", 0b11)  # abstract Unix sockets; signals to processes outside
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
    """Allow reading of a path and of everything below it except the closed paths."""
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
        # The path has gone, or this user may not read it. It stays denied.
        return


def _allow(ruleset: int, path: str, access: int) -> Identity:
    # A symlink must not grant access to its target.
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
    """The identities of the closed paths and their parent folders when the command began."""

    def __init__(self, closed: list[str], allowed: set[Identity]) -> None:
        """`allowed`: entries beside the closed paths, which stay readable wherever they are moved to."""
        self._closed = frozenset(closed)
        self._allowed = allowed
        names = {path for end in closed for path in _upwards(end)}
        self._before = {path: _identity(path) for path in sorted(names)}

    def changed(self) -> bool:
        """Whether a closed path has come to expose something that can be read or listed.

        The command cannot read a file or folder that is newly created outside. So only three changes count: a
        readable entry was moved to a closed path, a symlink was put there, or a closed folder was replaced by
        a new one, whose names can be listed.
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
    """The plan in the form that `read_plan` reads: separated by NUL, which no path contains."""
    words = (limits, shares, rules.hex(), f"{start[0]}:{start[1]}", *closed)
    return b"\0".join(map(os.fsencode, words))


def read_plan(descriptor: int) -> list[str]:
    """The limits, the pool shares, the second filter in hexadecimal, the start folder's identity
    (device:inode), then the closed paths.
    """
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return [os.fsdecode(word) for word in file.read().split(b"\0")]


def write_limits(limits: dict[str, int]) -> str:
    """The limits as one string."""
    return ",".join(f"{name}={value}" for name, value in limits.items())


def read_limits(text: str) -> dict[str, int]:
    """The limits that `write_limits` wrote."""
    return {name: int(value) for name, _, value in (one.partition("=") for one in text.split(","))}


def bound(limits: dict[str, int]) -> None:
    """Set the resource limits of this process and its children."""
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, most = resource.getrlimit(kind)
        lowest = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (lowest, lowest))


class Usage:
    """A snapshot of the resources that all processes of the sandbox use, from /proc (proc_pid_status(5))."""

    def __init__(self) -> None:
        self._rows = {}
        for place in _processes():
            if row := _fields(f"{place}/status"):
                self._rows[place] = row

    def memory(self, enough: int) -> int:
        """Bytes of memory in use, with socket buffers; only as exact as comparing it to `enough` needs."""
        sockets = _sockets() * _SOCKET_BYTES
        used = sockets + sum(_sum(row, _ROUGHLY) for row in self._rows.values())
        if used < enough:
            return used
        # The sum above counts shared memory once for each process. Reading proportional shares takes far
        # longer, and a process can make them unreadable.
        used = sockets
        for place, row in self._rows.items():
            exact = _fields(f"{place}/smaps_rollup")
            used += _sum(exact, _EXACTLY) if exact else _sum(row, _ROUGHLY)
        return used

    def kernel(self, enough: int) -> int:
        """The most bytes of kernel memory that open files and mappings can take; as exact as `memory` is."""
        mapping = _MAPPING_BYTES + _LINK_BYTES * len(self._rows)
        # Upper bounds: the size of the descriptor table for files, the number of pages for mappings.
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
    """The /proc folder of each process; for a process whose first thread has ended, that of a live thread."""
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
    """The state letter of a thread (proc_pid_stat(5)); X where the thread no longer exists."""
    try:
        with open(f"{place}/stat", "rb", buffering=0) as file:
            # The name in parentheses may contain any characters.
            return file.read(1024).rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return b"X"


def _fields(path: str) -> dict[str, int]:
    """The numeric fields of a file below /proc by name, sizes in bytes; empty where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            rows = [line.partition(b":") for line in file.read(1 << 16).splitlines()]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    numbers = {}
    for name, _, rest in rows:
        words = rest.split()
        # A process sets the field `Name` itself, so its value may look like a number.
        if len(words) == 2 and words[1] == b"kB" and words[0].isdigit():
            numbers[name.decode()] = int(words[0]) * 1024
        elif name == b"FDSize":
            numbers["FDSize"] = int(words[0])
    return numbers


def _sum(row: dict[str, int], names: tuple[str, ...]) -> int:
    return sum(row.get(name, 0) for name in names)


def _mappings(place: str, enough: int) -> int:
    """The number of a process's mappings; counting stops at about `enough`."""
    count = 0
    with open(f"{place}/maps", "rb", buffering=0) as file:
        while count < enough and (data := file.read(_CHUNK)):
            count += data.count(b"\n")
    return count


def _sockets() -> int:
    """The number of sockets in this network namespace, which only this command uses."""
    try:
        with open("/proc/net/sockstat", "rb", buffering=0) as file:
            return int(file.read(1 << 12).split()[2])
    except FileNotFoundError:
        return 0


class Pools:
    """The command's shares of two per-user kernel pools: pipes, and epoll watches.

    The kernel asks before the command creates either. The call is allowed while the last count plus all calls
    allowed since is below the command's share. When the share is used up, the members are counted again in
    all processes at once, at most every 20 ms. All processes are stopped meanwhile, because a process that
    forks quickly enough would evade a count of running processes.
    """

    def __init__(self, listener: int, shares: str) -> None:
        """`shares`: the limits for pipes and watches, and the number of epoll_ctl (`write_shares`)."""
        self.listener = listener
        pipes, watches, self._epoll_ctl = (int(word) for word in shares.split(","))
        self._most = (pipes, watches)
        self._left = [pipes, watches]
        self._was_full = (False, False)
        self._count_again_at = 0
        self._is_new = False

    def answer(self) -> None:
        """Answer one waiting system call."""
        notice = ctypes.create_string_buffer(_NOTICE.size)
        if _LIBC.ioctl(self.listener, ctypes.c_ulong(_RECEIVE), notice) < 0:
            # The calling process has ended or was interrupted.
            return
        number, _, _, call = _NOTICE.unpack(notice.raw)[:4]
        kind = 1 if call == self._epoll_ctl else 0
        if self._left[kind] <= 0 and not self._is_new:
            wait = max(0, self._count_again_at - time.monotonic_ns()) / 1e9
            # A command that held its whole share at the last count is refused until the next. Any other waits
            # for the next: what it has closed meanwhile is not held against it, however quick it is.
            if not (wait and self._was_full[kind]):
                time.sleep(wait)
                self._count()
        if self._left[kind] > 0:
            self._left[kind] -= 1
            reply = _REPLY.pack(number, 0, 0, _GO_ON)
        else:
            reply = _REPLY.pack(number, 0, -(errno.EMFILE, errno.ENOSPC)[kind], 0)
        if _LIBC.ioctl(self.listener, ctypes.c_ulong(_ANSWER), reply) == 0:
            self._is_new = False

    def _count(self) -> None:
        """Count the pool members again.

        Stopping interrupts waiting calls; the kernel restarts them, so the next answer uses this count.
        """
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
        self._was_full = (self._left[0] <= 0, self._left[1] <= 0)
        self._count_again_at = time.monotonic_ns() + _COUNT_EVERY_NS
        self._is_new = True


def write_shares(pipes: int, watches: int, epoll_ctl: int) -> str:
    """A command's shares as one string; `epoll_ctl` is the number of that system call."""
    return f"{pipes},{watches},{epoll_ctl}"


def _to_all(number: int) -> None:
    # From process 1 of a PID namespace, kill(-1) reaches every other process of the namespace and none
    # outside.
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return


def _wait_until_stopped() -> None:
    """Wait until no thread is still running in the kernel, so that calls allowed before are in the count."""
    for _ in range(_STOPS_AFTER):
        places = (f"/proc/{name}" for name in os.listdir("/proc") if name.isdigit())
        others = (place for place in places if place != _OWN_PLACE)
        if all(_state(thread) in _STOPPED for place in others for thread in _threads(place)):
            return
        time.sleep(0.0005)


def _pool_members(place: str, pipes: set[str]) -> int:
    """Add a process's open pipes to `pipes`; returns the number of its epoll watches."""
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
        # The program is executable but not readable, so its files cannot be listed: assume the maximum.
        size = _fields(f"{place}/status").get("FDSize", 0)
        pipes.update(f"{place}:{number}" for number in range(size))
        return size
    return watches


class Stream:
    """Forwards one output stream of the command out of the sandbox."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._pending = b""
        self._is_open = True
        os.set_blocking(source, False)
        os.set_blocking(target, False)

    def register(self, poll: select.poll) -> None:
        """Register for the next event: writability of the target, or new output of the command."""
        if self._pending:
            poll.register(self._target, select.POLLOUT)
        elif self._is_open:
            poll.register(self._source, select.POLLIN)

    def take(self, ready: set[int]) -> bytes:
        """Output of the command if it is ready; empty until earlier output has been passed on."""
        if self._pending or self._source not in ready:
            return b""
        data = os.read(self._source, _CHUNK)
        self._is_open = bool(data)
        return data

    def give(self, data: bytes, ready: set[int]) -> None:
        """Pass on as much as the target accepts."""
        self._pending += data
        if self._pending and (data or self._target in ready):
            try:
                self._pending = self._pending[os.write(self._target, self._pending) :]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self._pending = b""

    def rest(self) -> bytes:
        """The output that is left in the pipe after the command has ended."""
        taken = b""
        try:
            while len(taken) < _MOST_REST and (data := os.read(self._source, _CHUNK)):
                taken += data
        except BlockingIOError:
            pass
        return taken

    def finish(self, last: bytes) -> None:
        """Pass on pending output and `last`; blocks until the target has accepted them."""
        os.set_blocking(self._target, True)
        left = self._pending + last
        try:
            while left:
                left = left[os.write(self._target, left) :]
        except BrokenPipeError:
            return


class Watch:
    """Supervises the command: forwards its output, answers its system calls, and bounds its memory."""

    def __init__(self, out: Stream, err: Stream, ways: Ways, pools: Pools, memory: int, report: int) -> None:
        """`memory`: the command's limit in bytes. `report`: the descriptor of the report to the device."""
        self._out, self._err = out, err
        self._ways, self._pools = ways, pools
        self._memory = memory
        self._kernel = max(_KERNEL_LEAST, memory // _KERNEL_SHARE)
        self._report = report

    def until_end(self, child: int, ended: int) -> int:
        """Returns the command's exit code; 128 + N after signal N, also where this process ends it.

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
        """Forward new output; returns False where it may contain closed content."""
        for stream in (self._out, self._err):
            data = stream.take(ready)
            # Checked only after taking the output: the command read its content before this check.
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
        """A phrase for the memory limit that the command exceeded; empty when there is none."""
        usage = Usage()
        if usage.memory(self._memory) > self._memory:
            return f"{self._memory >> 20} MiB of memory"
        if usage.kernel(self._kernel) > self._kernel:
            return f"{self._kernel >> 20} MiB of the kernel's memory"
        return ""


def listen(program: bytes) -> int:
    """Install a seccomp filter on this process and its children; returns its notification descriptor.

    Raises:
        OSError: the kernel rejects it, for example where a container already has a listener.
    """
    # struct sock_fprog
    code = ctypes.create_string_buffer(program, len(program))
    steps = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(code))
    number = _SECCOMP[os.uname().machine]
    return _checked(_LIBC.syscall(number, _SET_FILTER, _NEW_LISTENER, steps))


def start(report: int, plan: int, command: list[str]) -> int:
    """Run a command; returns its exit code, 128 + N after signal N.

    `report` and `plan` are descriptors: messages to the device are written to `report`, `plan` is read.
    """
    if os.getpid() != 1:
        raise OSError("This is the first process of a namespace, or nothing")
    limits_text, shares, program, folder, *closed = read_plan(plan)
    limits = read_limits(limits_text)
    os.dup2(report, _REPORT)
    os.closerange(_REPORT + 1, 4096)
    # Python's SIGINT handler would print a traceback. Without a handler, process 1 ignores the signal.
    _LIBC.signal(_SIGINT, _DEFAULT)
    # If memory runs out, the kernel kills this sandbox rather than programs that were already running.
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    os.write(_REPORT, BEGAN)
    if folder != "{0.st_dev}:{0.st_ino}".format(os.stat(".")):
        os.write(_REPORT, OTHER_FOLDER)
        return 1
    # Not dumpable: the command must not open this process's descriptors (report, outputs) through /proc.
    _checked(_LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0))
    # Done before the limits are set, because one of them bounds the memory that this needs.
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
    """Run the command given by this process's arguments (see `start`) and exit with its exit code."""
    try:
        code = start(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    except OSError as error:
        os.write(2, f"{error.strerror or error}\n".encode())
        code = 1
    os._exit(code)

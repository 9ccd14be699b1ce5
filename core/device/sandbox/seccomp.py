"""The seccomp filters of the read-only shell, as BPF bytecode for the kernel.

Mounts and Landlock restrict access to files; these filters deny whole system calls. A denied call fails with
an ordinary error, so that a program that merely probes for it can continue. bubblewrap installs the first
filter. The sandbox's own first process (`core.device.sandbox.sandbox_init`) installs the second, because it
needs some of the calls that the second filter denies.

A command must not exhaust kernel pools that all programs of a user, or of the machine, share. Each such pool
is counted in the sandbox (pipes, epoll watches), bounded by a resource limit (signals, message queues), or
denied: programs that only read were observed to work without it.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

_LOAD, _AND, _JUMP = 0x20, 0x54, 0x05
_EQUAL, _AT_LEAST, _ANSWER = 0x15, 0x35, 0x06
_ALLOW, _KILL, _FAIL, _ASK = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_NOT_PERMITTED = _FAIL | errno.EPERM
# Skips the call and reports success to the caller.
_NOTHING_DONE = _FAIL
# Offsets in `struct seccomp_data`; for arguments, of the lower 32 bits.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD, _FOURTH = 0, 4, 16, 24, 32, 40
_X32 = 0x40000000
_WHOLE = 0xFFFFFFFF

_NEW_NAMESPACES = 0x7E020000
# The open files of a thread that shares memory but has its own file table could not be counted. Both ways to
# get such a table (flags of clone and of close_range) are therefore denied.
_THREAD, _SHARED_FILES = 0x00010000, 0x00000400
_CLOSE_RANGE, _OWN_FILES = 436, 2
# While all processes are stopped for a count, nothing may resume one: neither a timer nor the exit of another
# process may send SIGCONT.
_SIGCONT, _EXIT_SIGNAL = 18, 0xFF
_PR_SET_PDEATHSIG = 1
_AF_UNIX, _SOCK_STREAM, _SOCK_KINDS = 1, 1, 0xF
# Both inject characters into a terminal's input, which the next program that reads it would take as typed.
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
# Leases and delegations block other processes that open the file; write hints are stored with the file; pipe
# sizes come from a shared pool; a notification request pins the file's inode.
_F_SETSIG, _F_SETLEASE, _F_NOTIFY, _F_SETPIPE_SZ = 10, 1024, 1026, 1031
_F_SET_RW_HINT, _F_SET_FILE_RW_HINT, _F_SETDELEG = 1036, 1038, 1040
_DENIED_FCNTL = (
    *(_F_SETSIG, _F_SETLEASE, _F_NOTIFY, _F_SETPIPE_SZ),
    *(_F_SET_RW_HINT, _F_SET_FILE_RW_HINT, _F_SETDELEG),
)
# F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW. A read lock would block other programs that write the file.
# Programs refuse to read a database without a lock, so these calls report success and do nothing.
_LOCKS = (6, 7, 37, 38)
# MAP_SHARED | MAP_ANONYMOUS: after the process unmaps such memory, no process is charged for it.
_SHARED_MEMORY = 0x21
_MAP_HUGE, _MEMFD_HUGE = 0x40000, 0x4
_EPOLL_ADD = 1
_PR_SET_DUMPABLE, _PR_SET_SECCOMP = 4, 22


@dataclass(frozen=True, slots=True)
class _Machine:
    """A processor architecture: its audit number and its system call numbers."""

    architecture: int
    not_permitted: tuple[int, ...]
    read_only: tuple[int, ...]
    # Calls that use a pool shared by the whole user or machine. Programs work without them.
    not_there: tuple[int, ...]
    # Calls that hold pages of files and memory in a kernel-internal pipe. Programs fall back to read and
    # write.
    invalid: tuple[int, ...]
    makes_pipe: tuple[int, ...]
    # Calls whose first argument is a process id, 0 for the calling process.
    of_process: tuple[int, ...]
    set_priority: int
    set_io_priority: int
    clone: int
    socketpair: int
    ioctl: int
    fcntl: int
    mmap: int
    memfd_create: int
    epoll_ctl: int
    prctl: int
    seccomp: int
    has_x32: bool = False


# The same on all architectures: io_uring (425-427), the descriptor-based mount calls (428-433, 442, 467),
# pidfd_getfd, quotactl_fd; for files fchmodat2, setxattrat, removexattrat, file_setattr.
_COMMON = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443, 467)
_COMMON_FILES = (452, 463, 466, 469)
_CLONE3, _MEMFD_SECRET = 435, 447
# landlock_create_ruleset, landlock_add_rule, landlock_restrict_self: rules occupy kernel memory.
_LANDLOCK = (444, 445, 446)
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1

_X86_64 = _Machine(
    architecture=0xC000003E,
    not_permitted=(
        *(41, 42, 43, 49, 50, 288),  # socket, connect, accept, bind, listen, accept4
        *(101, 310, 311, 312),  # ptrace, process_vm_readv, process_vm_writev, kcmp
        *(248, 249, 250),  # add_key, request_key, keyctl
        *(298, 300, 321, 323),  # perf_event_open, fanotify_init, bpf, userfaultfd
        *(155, 161, 165, 166, 272, 308),  # pivot_root, chroot, mount, umount2, unshare, setns
        *(303, 304),  # name_to_handle_at, open_by_handle_at
        *(159, 164, 227, 305),  # adjtimex, settimeofday, clock_settime, clock_adjtime
        *(163, 167, 168, 169, 179, 180),  # acct, swapon, swapoff, reboot, quotactl, nfsservctl
        *(170, 171, 172, 173, 154),  # sethostname, setdomainname, iopl, ioperm, modify_ldt
        *(175, 176, 313, 246, 320),  # init_module, delete_module, finit_module, kexec_load, kexec_file_load
        *(103, 153, 73, 256, 279),  # syslog, vhangup, flock, migrate_pages, move_pages
        *(29, 64, 68),  # shmget, semget, msgget: shared memory that is charged to no process
        *(46, 307),  # sendmsg, sendmmsg: descriptors in flight count against all of a user's programs
        54,  # setsockopt: socket filters are compiled into module memory
    ),
    read_only=(
        *(76, 133, 259),  # truncate, mknod, mknodat
        *(90, 91, 268, 92, 93, 94, 260),  # chmod, fchmod, fchmodat, chown, fchown, lchown, fchownat
        *(132, 235, 261, 280),  # utime, utimes, futimesat, utimensat
        *(188, 189, 190, 197, 198, 199),  # setxattr and removexattr with their variants
    ),
    # io_setup, inotify_init, inotify_init1, copy_file_range, timer_create, mq_notify
    not_there=(206, 253, 294, 326, 222, 244),
    invalid=(40, 275, 276, 278),  # sendfile, splice, tee, vmsplice
    makes_pipe=(22, 293),  # pipe, pipe2
    of_process=(142, 144, 203, 314, 302),  # sched_setparam, -scheduler, -affinity, -attr, prlimit64
    set_priority=141,
    set_io_priority=251,
    clone=56,
    socketpair=53,
    ioctl=16,
    fcntl=72,
    mmap=9,
    memfd_create=319,
    epoll_ctl=233,
    prctl=157,
    seccomp=317,
    has_x32=True,
)

# The generic system call table, shared by newer architectures.
_GENERIC = _Machine(
    architecture=0xC00000B7,
    not_permitted=(
        *(198, 200, 201, 202, 203, 242),  # socket, bind, listen, accept, connect, accept4
        *(117, 270, 271, 272),  # ptrace, process_vm_readv, process_vm_writev, kcmp
        *(217, 218, 219),  # add_key, request_key, keyctl
        *(241, 262, 280, 282),  # perf_event_open, fanotify_init, bpf, userfaultfd
        *(39, 40, 41, 51, 97, 268),  # umount2, mount, pivot_root, chroot, unshare, setns
        *(264, 265),  # name_to_handle_at, open_by_handle_at
        *(171, 170, 112, 266),  # adjtimex, settimeofday, clock_settime, clock_adjtime
        *(89, 224, 225, 142, 60, 42),  # acct, swapon, swapoff, reboot, quotactl, nfsservctl
        *(161, 162),  # sethostname, setdomainname
        *(105, 106, 273, 104, 294),  # init_module, delete_module, finit_module, kexec_load, kexec_file_load
        *(116, 58, 32, 238, 239),  # syslog, vhangup, flock, migrate_pages, move_pages
        *(194, 190, 186),  # shmget, semget, msgget: shared memory that is charged to no process
        *(211, 269),  # sendmsg, sendmmsg: descriptors in flight count against all of a user's programs
        208,  # setsockopt: socket filters are compiled into module memory
    ),
    read_only=(
        *(45, 33),  # truncate, mknodat
        *(52, 53, 54, 55),  # fchmod, fchmodat, fchownat, fchown
        88,  # utimensat
        *(5, 6, 7, 14, 15, 16),  # setxattr and removexattr with their variants
    ),
    not_there=(0, 26, 285, 107, 184),  # io_setup, inotify_init1, copy_file_range, timer_create, mq_notify
    invalid=(71, 76, 77, 75),  # sendfile, splice, tee, vmsplice
    makes_pipe=(59,),  # pipe2
    of_process=(118, 119, 122, 274, 261),  # sched_setparam, -scheduler, -affinity, -attr, prlimit64
    set_priority=140,
    set_io_priority=30,
    clone=220,
    socketpair=199,
    ioctl=29,
    fcntl=25,
    mmap=222,
    memfd_create=279,
    epoll_ctl=21,
    prctl=167,
    seccomp=277,
)

_MACHINES = {"x86_64": _X86_64, "aarch64": _GENERIC}


def is_known(machine: str | None = None) -> bool:
    """Whether a filter exists for this architecture."""
    return (machine or platform.machine()) in _MACHINES


def filter_program(machine: str | None = None) -> bytes:
    """The first filter for this architecture, which bubblewrap installs.

    Raises:
        KeyError: the architecture has no filter; see `is_known`.
    """
    of = _MACHINES[machine or platform.machine()]
    program = _beginning(of)
    for number in (*of.not_permitted, *_COMMON):
        program += _denied(number, _NOT_PERMITTED)
    for number in (*of.read_only, *_COMMON_FILES):
        program += _denied(number, _FAIL | errno.EROFS)
    # clone3 takes its flags in memory, which a filter cannot read; the C library falls back to clone.
    for number in (_CLONE3, _MEMFD_SECRET, *of.not_there):
        program += _denied(number, _FAIL | errno.ENOSYS)
    for number in of.invalid:
        program += _denied(number, _FAIL | errno.EINVAL)
    # The command must not change the scheduling or limits of the sandbox's first process, which runs as the
    # same user and must get CPU time.
    for number in of.of_process:
        program += _only(number, (_FIRST, _WHOLE, 0))
    program += _only(of.set_priority, (_FIRST, _WHOLE, _PRIO_PROCESS), (_SECOND, _WHOLE, 0))
    program += _only(of.set_io_priority, (_FIRST, _WHOLE, _IOPRIO_WHO_PROCESS), (_SECOND, _WHOLE, 0))
    program += _never_bits(of.clone, _FIRST, (_THREAD | _SHARED_FILES, _THREAD), (_EXIT_SIGNAL, _SIGCONT))
    program += _never_bits(_CLOSE_RANGE, _THIRD, (_OWN_FILES, _OWN_FILES))
    program += _only(of.clone, (_FIRST, _NEW_NAMESPACES, 0))
    # A datagram socket from a pair could send to a daemon's address. A request for an unloaded address family
    # would make the kernel load a module.
    program += _only(of.socketpair, (_FIRST, _WHOLE, _AF_UNIX), (_SECOND, _SOCK_KINDS, _SOCK_STREAM))
    program += _never_bits(of.mmap, _FOURTH, (_SHARED_MEMORY, _SHARED_MEMORY), (_MAP_HUGE, _MAP_HUGE))
    program += _never_bits(of.memfd_create, _SECOND, (_MEMFD_HUGE, _MEMFD_HUGE))
    program += _with(of.ioctl, _SECOND, (_TIOCSTI, _TIOCLINUX), _NOT_PERMITTED)
    program += _with(of.fcntl, _SECOND, _LOCKS, _NOTHING_DONE)
    program += _with(of.fcntl, _SECOND, _DENIED_FCNTL, _NOT_PERMITTED)
    return b"".join([*program, _step(_ANSWER, _ALLOW)])


def counting_program(machine: str | None = None) -> bytes:
    """The second filter, which `sandbox_init` installs: calls that use a counted pool wait for its decision.

    Raises:
        KeyError: the architecture has no filter; see `is_known`.
    """
    of = _MACHINES[machine or platform.machine()]
    program = _beginning(of)
    for number in of.makes_pipe:
        program += _denied(number, _ASK)
    program += _with(of.epoll_ctl, _SECOND, (_EPOLL_ADD,), _ASK)
    # The command's own seccomp filters and Landlock rules would use kernel and module memory.
    for number in (of.seccomp, *_LANDLOCK):
        program += _denied(number, _FAIL | errno.ENOSYS)
    program += _with(of.prctl, _FIRST, (_PR_SET_SECCOMP,), _FAIL | errno.EINVAL)
    # A process that is not dumpable hides its open files, which could then not be counted.
    program += _with(of.prctl, _FIRST, (_PR_SET_DUMPABLE,), _NOT_PERMITTED)
    program += _with_both(of.prctl, _PR_SET_PDEATHSIG, _SIGCONT, _NOT_PERMITTED)
    return b"".join([*program, _step(_ANSWER, _ALLOW)])


def epoll_ctl(machine: str | None = None) -> int:
    """The number of the system call epoll_ctl on this architecture.

    Raises:
        KeyError: the architecture is not known; see `is_known`.
    """
    return _MACHINES[machine or platform.machine()].epoll_ctl


def _beginning(of: _Machine) -> list[bytes]:
    """Check the architecture, then load the system call number for the comparisons that follow.

    A call of another architecture kills the process.
    """
    program = [
        _step(_LOAD, _ARCHITECTURE),
        # 32-bit calls have numbers of their own and would pass the comparisons.
        _step(_EQUAL, of.architecture, 1, 0),
        _step(_ANSWER, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if of.has_x32:
        program += [_step(_AT_LEAST, _X32, 0, 1), _step(_ANSWER, _FAIL | errno.ENOSYS)]
    return program


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)


def _denied(number: int, answer: int) -> list[bytes]:
    return [_step(_EQUAL, number, 0, 1), _step(_ANSWER, answer)]


def _only(number: int, *wanted: tuple[int, int, int]) -> list[bytes]:
    """Allow a call only where each argument (offset, mask, value) has the value under its mask."""
    steps = []
    for place, (offset, mask, value) in enumerate(wanted):
        # On a mismatch, jump past the remaining comparisons and the allow step to the deny step.
        beyond = 3 * (len(wanted) - 1 - place) + 1
        steps += [_step(_LOAD, offset), _step(_AND, mask), _step(_EQUAL, value, 0, beyond)]
    return _about(number, [*steps, _step(_ANSWER, _ALLOW), _step(_ANSWER, _NOT_PERMITTED)])


def _with(number: int, offset: int, values: tuple[int, ...], answer: int) -> list[bytes]:
    """Answer a call whose argument at this offset has one of these values."""
    steps = [_step(_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    otherwise = _step(_LOAD, _NUMBER)
    return _about(number, [_step(_LOAD, offset), *steps, _skip(1), _step(_ANSWER, answer), otherwise])


def _with_both(number: int, first: int, second: int, answer: int) -> list[bytes]:
    """Answer a call with these first two arguments."""
    steps = [_step(_LOAD, _FIRST), _step(_EQUAL, first, 0, 3)]
    steps += [_step(_LOAD, _SECOND), _step(_EQUAL, second, 0, 1), _step(_ANSWER, answer)]
    return _about(number, [*steps, _step(_LOAD, _NUMBER)])


def _never_bits(number: int, offset: int, *bits: tuple[int, int]) -> list[bytes]:
    """Deny a call whose argument at this offset has, under one of the masks, the value paired with it."""
    steps = []
    for mask, value in bits:
        steps += [_step(_LOAD, offset), _step(_AND, mask), _step(_EQUAL, value, 0, 1)]
        steps += [_step(_ANSWER, _NOT_PERMITTED)]
    return _about(number, [*steps, _step(_LOAD, _NUMBER)])


def _skip(steps: int) -> bytes:
    return _step(_JUMP, steps)


def _about(number: int, steps: list[bytes]) -> list[bytes]:
    return [_step(_EQUAL, number, 0, len(steps)), *steps]

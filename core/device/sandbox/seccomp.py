"""The seccomp filter of the read-only shell, as the bytes that bubblewrap takes.

The other two walls say what files may be touched; this one takes away whole system calls. What is denied
fails with a plain error, so that a program that only tried goes on.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

_LOAD, _AND = 0x20, 0x54
_EQUAL, _AT_LEAST, _ANSWER = 0x15, 0x35, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_NOT_PERMITTED = _FAIL | errno.EPERM
# Offsets in `struct seccomp_data`; of an argument, the lower half.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_X32 = 0x40000000
_WHOLE = 0xFFFFFFFF

_NEW_NAMESPACES = 0x7E020000
_AF_UNIX, _SOCK_STREAM, _SOCK_KINDS = 1, 1, 0xF
# Both put characters into a terminal's input, for whatever program reads it next.
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
# Leases and delegations keep others waiting who open a file; hints are kept with the file.
_F_SETLEASE, _F_SET_RW_HINT, _F_SET_FILE_RW_HINT, _F_SETDELEG = 1024, 1036, 1038, 1040


@dataclass(frozen=True, slots=True)
class _Machine:
    """One processor's word for itself, and its numbers of system calls."""

    architecture: int
    not_permitted: tuple[int, ...]
    read_only: tuple[int, ...]
    # What takes from a store that the user, or the whole machine, has only one of. Programs do without.
    not_there: tuple[int, ...]
    # Whose first argument is a process, 0 for the caller's own.
    of_process: tuple[int, ...]
    set_priority: int
    set_io_priority: int
    clone: int
    socketpair: int
    ioctl: int
    fcntl: int
    has_x32: bool = False


# The same everywhere: io_uring (425-427), the mount interface of file descriptors (428-433, 442, 467),
# pidfd_getfd, quotactl_fd; for files fchmodat2, setxattrat, removexattrat, file_setattr.
_COMMON = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443, 467)
_COMMON_FILES = (452, 463, 466, 469)
_CLONE3 = 435
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
        *(29, 64, 68),  # shmget, semget, msgget: memory that is no process's
    ),
    read_only=(
        *(76, 133, 259),  # truncate, mknod, mknodat
        *(90, 91, 268, 92, 93, 94, 260),  # chmod, fchmod, fchmodat, chown, fchown, lchown, fchownat
        *(132, 235, 261, 280),  # utime, utimes, futimesat, utimensat
        *(188, 189, 190, 197, 198, 199),  # setxattr, removexattr and their kin
    ),
    not_there=(206, 253, 294),  # io_setup, inotify_init, inotify_init1
    of_process=(142, 144, 203, 314, 302),  # sched_setparam, -scheduler, -affinity, -attr, prlimit64
    set_priority=141,
    set_io_priority=251,
    clone=56,
    socketpair=53,
    ioctl=16,
    fcntl=72,
    has_x32=True,
)

# The numbers that newer processors share.
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
        *(194, 190, 186),  # shmget, semget, msgget: memory that is no process's
    ),
    read_only=(
        *(45, 33),  # truncate, mknodat
        *(52, 53, 54, 55),  # fchmod, fchmodat, fchownat, fchown
        88,  # utimensat
        *(5, 6, 7, 14, 15, 16),  # setxattr, removexattr and their kin
    ),
    not_there=(0, 26),  # io_setup, inotify_init1
    of_process=(118, 119, 122, 274, 261),  # sched_setparam, -scheduler, -affinity, -attr, prlimit64
    set_priority=140,
    set_io_priority=30,
    clone=220,
    socketpair=199,
    ioctl=29,
    fcntl=25,
)

_MACHINES = {"x86_64": _X86_64, "aarch64": _GENERIC}


def is_known(machine: str | None = None) -> bool:
    """Whether there is a filter for this processor."""
    return (machine or platform.machine()) in _MACHINES


def filter_program(machine: str | None = None) -> bytes:
    """The filter for this processor.

    Raises:
        KeyError: there is none; see `is_known`.
    """
    of = _MACHINES[machine or platform.machine()]
    program = [
        _step(_LOAD, _ARCHITECTURE),
        # Calls made the old 32-bit way have numbers of their own, and would pass.
        _step(_EQUAL, of.architecture, 1, 0),
        _step(_ANSWER, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if of.has_x32:
        program += [_step(_AT_LEAST, _X32, 0, 1), _step(_ANSWER, _FAIL | errno.ENOSYS)]
    for number in (*of.not_permitted, *_COMMON):
        program += _denied(number, _NOT_PERMITTED)
    for number in (*of.read_only, *_COMMON_FILES):
        program += _denied(number, _FAIL | errno.EROFS)
    # Of the first, the flags lie in memory, where a filter cannot look; the C library falls back to clone.
    for number in (_CLONE3, *of.not_there):
        program += _denied(number, _FAIL | errno.ENOSYS)
    # The sandbox's first process is one of the user's like any other, and must get the processor.
    for number in of.of_process:
        program += _only(number, (_FIRST, _WHOLE, 0))
    program += _only(of.set_priority, (_FIRST, _WHOLE, _PRIO_PROCESS), (_SECOND, _WHOLE, 0))
    program += _only(of.set_io_priority, (_FIRST, _WHOLE, _IOPRIO_WHO_PROCESS), (_SECOND, _WHOLE, 0))
    program += _only(of.clone, (_FIRST, _NEW_NAMESPACES, 0))
    # A pair of datagram sockets could be used to send to any daemon's address; and to ask for one of a family
    # that the kernel does not have yet makes it load a module.
    program += _only(of.socketpair, (_FIRST, _WHOLE, _AF_UNIX), (_SECOND, _SOCK_KINDS, _SOCK_STREAM))
    program += _never(of.ioctl, _TIOCSTI, _TIOCLINUX)
    program += _never(of.fcntl, _F_SETLEASE, _F_SET_RW_HINT, _F_SET_FILE_RW_HINT, _F_SETDELEG)
    return b"".join([*program, _step(_ANSWER, _ALLOW)])


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)


def _denied(number: int, answer: int) -> list[bytes]:
    return [_step(_EQUAL, number, 0, 1), _step(_ANSWER, answer)]


def _only(number: int, *wanted: tuple[int, int, int]) -> list[bytes]:
    """A call that is allowed only where each argument, at this offset and under this mask, has this value."""
    steps = []
    for place, (offset, mask, value) in enumerate(wanted):
        # To the last step of all, past the comparisons that are left and the permission.
        beyond = 3 * (len(wanted) - 1 - place) + 1
        steps += [_step(_LOAD, offset), _step(_AND, mask), _step(_EQUAL, value, 0, beyond)]
    return _about(number, [*steps, _step(_ANSWER, _ALLOW), _step(_ANSWER, _NOT_PERMITTED)])


def _never(number: int, *values: int) -> list[bytes]:
    """A call that is allowed unless its second argument has one of these values."""
    steps = [_step(_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    return _about(
        number,
        [_step(_LOAD, _SECOND), *steps, _step(_ANSWER, _ALLOW), _step(_ANSWER, _NOT_PERMITTED)],
    )


def _about(number: int, steps: list[bytes]) -> list[bytes]:
    return [_step(_EQUAL, number, 0, len(steps)), *steps]

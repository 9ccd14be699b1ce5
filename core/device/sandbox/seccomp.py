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
_EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
# Offsets in `struct seccomp_data`; of an argument, the lower half.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_X32 = 0x40000000

_NEW_NAMESPACES = 0x7E020000
_SOCK_STREAM = 1
# Both put characters into a terminal's input, for whatever program reads it next.
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C


@dataclass(frozen=True, slots=True)
class _Machine:
    """One processor's word for itself, and its numbers of system calls."""

    architecture: int
    not_permitted: tuple[int, ...]
    read_only: tuple[int, ...]
    clone: int
    socketpair: int
    ioctl: int
    has_x32: bool = False


# The same everywhere: io_uring (425-427), the mount interface of file descriptors (428-433, 442),
# pidfd_getfd, quotactl_fd; for files fchmodat2, setxattrat, removexattrat, file_setattr.
_COMMON = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443)
_COMMON_FILES = (452, 463, 466, 469)
_CLONE3 = 435

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
    ),
    read_only=(
        *(76, 133, 259),  # truncate, mknod, mknodat
        *(90, 91, 268, 92, 93, 94, 260),  # chmod, fchmod, fchmodat, chown, fchown, lchown, fchownat
        *(132, 235, 261, 280),  # utime, utimes, futimesat, utimensat
        *(188, 189, 190, 197, 198, 199),  # setxattr, removexattr and their kin
    ),
    clone=56,
    socketpair=53,
    ioctl=16,
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
    ),
    read_only=(
        *(45, 33),  # truncate, mknodat
        *(52, 53, 54, 55),  # fchmod, fchmodat, fchownat, fchown
        88,  # utimensat
        *(5, 6, 7, 14, 15, 16),  # setxattr, removexattr and their kin
    ),
    clone=220,
    socketpair=199,
    ioctl=29,
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
    not_permitted, read_only = _FAIL | errno.EPERM, _FAIL | errno.EROFS
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
        program += _denied(number, not_permitted)
    for number in (*of.read_only, *_COMMON_FILES):
        program += _denied(number, read_only)
    # Its flags lie in memory, where a filter cannot look; the C library falls back to clone.
    program += _denied(_CLONE3, _FAIL | errno.ENOSYS)
    program += [
        _step(_EQUAL, of.clone, 0, 4),
        _step(_LOAD, _FIRST),
        _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1),
        _step(_ANSWER, not_permitted),
        _step(_ANSWER, _ALLOW),
        # A pair of datagram sockets could still be used to send to any daemon's address.
        _step(_EQUAL, of.socketpair, 0, 5),
        _step(_LOAD, _SECOND),
        _step(_AND, 0xF),
        _step(_EQUAL, _SOCK_STREAM, 1, 0),
        _step(_ANSWER, not_permitted),
        _step(_ANSWER, _ALLOW),
        _step(_EQUAL, of.ioctl, 0, 4),
        _step(_LOAD, _SECOND),
        _step(_EQUAL, _TIOCSTI, 1, 0),
        _step(_EQUAL, _TIOCLINUX, 0, 1),
        _step(_ANSWER, not_permitted),
        _step(_ANSWER, _ALLOW),
    ]
    return b"".join(program)


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)


def _denied(number: int, answer: int) -> list[bytes]:
    return [_step(_EQUAL, number, 0, 1), _step(_ANSWER, answer)]

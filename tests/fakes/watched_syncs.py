"""Sees each time that a thread and those it starts ask the disk to keep a file.

The kernel tells: a seccomp filter hands each fsync and fdatasync to a watching thread, which notes the file
and lets the call go on. So it needs no compiler, no tracer and no other library, and sees what SQLite's own
code does. See seccomp_unotify(2).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import select
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

Answer = TypeVar("Answer")

# Of each machine: the number that audit calls it by, and those of the system calls seccomp, fsync, fdatasync.
_MACHINES = {
    "x86_64": (0xC000003E, 317, 74, 75),
    "aarch64": (0xC00000B7, 277, 82, 83),
}
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_CONTINUE = 1
# struct seccomp_notif: id, pid, flags, then nr, arch, instruction pointer and six arguments.
_REQUEST = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_RECEIVE = 0xC0000000 | _REQUEST.size << 16 | ord("!") << 8
_SEND = 0xC0000000 | _RESPONSE.size << 16 | ord("!") << 8 | 1


def watching_syncs(
    work: Callable[[], Answer], at_sync: Callable[[Path], None] = lambda path: None
) -> tuple[Answer, list[str]]:
    """Do `work` in a thread of its own; its answer, and the names of the files that the disk was asked for.

    `at_sync` is called with each, on another thread, while the one that waits for the disk still waits.

    Raises:
        OSError: this kernel does not let a process watch its own system calls.
    """
    syncs: list[Path] = []

    def note(path: Path) -> None:
        syncs.append(path)
        at_sync(path)

    # The filter binds the thread that sets it and those started from it, and ends with them.
    with ThreadPoolExecutor(1) as watched:
        handle = watched.submit(_listen).result()
        watcher = threading.Thread(target=_watch, args=(handle, note), name="watcher of syncs")
        watcher.start()
        done = watched.submit(work)
    watcher.join()
    os.close(handle)
    return done.result(), [path.name for path in syncs]


def _listen() -> int:
    """Set the filter for this thread; gives the handle that tells of the calls."""
    arch, seccomp, *calls = _MACHINES[platform.machine()]
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, 0),
        (_EQUAL, 2, 0, calls[0]),
        (_EQUAL, 1, 0, calls[1]),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    filters = struct.pack("@HP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    handle = libc.syscall(seccomp, _SET_MODE_FILTER, _NEW_LISTENER, filters)
    if handle < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(handle)


def _watch(handle: int, at_sync: Callable[[Path], None]) -> None:
    """Report each call and let it go on, until no thread is left that the filter binds."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    # A hang-up says that none is left; before Linux 6.11 a call that waits for the next one does not return.
    while poll.poll()[0][1] & select.POLLIN:
        request = bytearray(_REQUEST.size)
        fcntl.ioctl(handle, _RECEIVE, request)
        number, thread, *_, descriptor = _REQUEST.unpack(request)[:7]
        try:
            at_sync(Path(os.readlink(f"/proc/{thread}/fd/{descriptor}")))
        finally:
            # Whatever comes of it: nothing else lets the thread go on.
            fcntl.ioctl(handle, _SEND, bytearray(_RESPONSE.pack(number, 0, 0, _CONTINUE)))

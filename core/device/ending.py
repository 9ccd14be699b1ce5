"""How the device client, or one of its attempts to connect, ended."""

from __future__ import annotations

from enum import IntEnum


class Ending(IntEnum):
    """Why the client, or an attempt to connect, ended; also the process's exit code.

    `PAIRED_ANEW`: the saved pairing is of another name or was forgotten; the process reads it and goes on.
    """

    DONE = 0
    LOST = 1
    BAD_INPUT = 2
    REFUSED = 3
    UNKNOWN_HOST = 4
    UNREACHABLE = 5
    UNTRUSTED = 6
    PROTOCOL = 7
    PAIRED_ANEW = 8

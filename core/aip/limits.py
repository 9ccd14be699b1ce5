"""Limits of links and of unregistered connections: how much a device may send, and all timeouts."""

from __future__ import annotations

from dataclasses import dataclass

_MEBIBYTE = 1024 * 1024
_BYTES_OF_ONE_FRAME = 256 * 1024
MOST_TEXT_SENT = _MEBIBYTE
"""Bytes of the longest text that a console sends as an argument."""
MOST_ARGUMENTS_SENT = 2 * _MEBIBYTE
"""Bytes of the texts in all arguments of one command that a console sends."""


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """The limits of one link and of its registration. Times in seconds, sizes in bytes.

    `register_s` bounds TLS, upgrade and registration, and each stage of dialling. `takeover_s` is how long an
    old link has to answer a ping when its device connects again.
    `max_outgoing_bytes` is the frame size that a device is known to accept. `flood_*` bound unsolicited
    frames; answers to commands are free, and a large frame counts as many. `progress_*` bound the progress
    frames of one call. `held_*` bound binary frames that no result has referred to yet. `queue_*` bound the
    requests that wait for a device that takes one frame at a time. `door_*` bound the connections that have
    not registered yet: in total, and from one remote address. `returns_*` bound how often one device
    registers, because each registration is written to the journal and the tools are listed again.
    `answer_grace_s` is how long after a command's timeout a device that keeps it may still answer.
    A frame may take longer than its command as long as it comes: `slowest_per_s` is how many bytes of it must
    pass in a second, on average. Transfers are reported every `transfer_report_s`.
    `register_bytes` bounds the registration frame, whose metadata is stored as long as the link exists.
    """

    register_s: float = 10.0
    ping_s: float = 20.0
    pong_s: float = 20.0
    close_s: float = 2.0
    cancel_s: float = 5.0
    takeover_s: float = 3.0
    heartbeat_s: float = 10.0
    max_incoming_bytes: int = 32 * _MEBIBYTE
    register_bytes: int = 512 * 1024
    max_outgoing_bytes: int = 60 * _MEBIBYTE
    flood_burst: float = 100.0
    flood_per_s: float = 20.0
    progress_burst: float = 200.0
    progress_per_s: float = 50.0
    held_blobs: int = 64
    held_bytes: int = 96 * _MEBIBYTE
    queue_most: int = 256
    queue_s: float = 600.0
    door_most: int = 1024
    door_most_of_one: int = 64
    returns_burst: float = 60.0
    returns_per_s: float = 0.5
    answer_grace_s: float = 5.0
    slowest_per_s: float = 1000.0
    transfer_report_s: float = 1.0


def frame_tokens(size: int) -> int:
    """The tokens that a frame of `size` bytes costs, where frames are limited: a large one counts as many."""
    return 1 + size // _BYTES_OF_ONE_FRAME

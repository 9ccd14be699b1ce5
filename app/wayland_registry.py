"""What a Wayland compositor offers to every program of its session; knows no Qt.

Reads the list of global objects over a connection of its own, as `wayland-info` does. Source: the Wayland
protocol specification, wire format and `wl_display`, `wl_registry`, `wl_callback` (wayland.xml).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

# By these a program makes keys and clicks: wlr-virtual-pointer and virtual-keyboard (wlroots: sway, Hyprland,
# river, labwc) and KWin's fake input.
VIRTUAL_INPUT = frozenset(
    {
        "zwp_virtual_keyboard_manager_v1",
        "zwlr_virtual_pointer_manager_v1",
        "org_kde_kwin_fake_input",
    }
)
_ANSWER_S = 1.0
_MOST_BYTES = 1 << 20
_HEADER = struct.Struct("=IHH")  # object, opcode, size of the whole message
_DISPLAY, _REGISTRY, _CALLBACK = 1, 2, 3
_SYNC, _GET_REGISTRY = 0, 1  # requests of wl_display
_GLOBAL, _DONE = 0, 0  # events of wl_registry and wl_callback


class Unanswered(Exception):
    """The compositor cannot be asked; the message says why."""


def global_interfaces(address: str | None = None) -> frozenset[str]:
    """The interfaces of the compositor's global objects. Blocks for up to a second and a little.

    `address` is the path of its socket; else that of WAYLAND_DISPLAY.

    Raises:
        Unanswered: there is no compositor, or it does not speak the protocol.
    """
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_ANSWER_S)
            line.connect(address or socket_path())
            line.sendall(_request(_GET_REGISTRY, _REGISTRY) + _request(_SYNC, _CALLBACK))
            return frozenset(_interfaces(line))
    except (OSError, struct.error, UnicodeDecodeError) as error:
        raise Unanswered(f"The compositor cannot be asked: {error}") from error


def socket_path() -> str:
    """Where the compositor of this session listens; an absolute WAYLAND_DISPLAY is the path itself."""
    return str(Path(os.environ.get("XDG_RUNTIME_DIR", ""), os.environ.get("WAYLAND_DISPLAY") or "wayland-0"))


def _request(opcode: int, new_id: int) -> bytes:
    return struct.pack("=IHHI", _DISPLAY, opcode, 12, new_id)


def _interfaces(line: socket.socket) -> Iterator[str]:
    """Read events until the answer to `sync`, which comes behind all that was asked before."""
    read = 0
    while read < _MOST_BYTES:
        target, opcode, size = _HEADER.unpack(_exactly(line, _HEADER.size))
        body = _exactly(line, size - _HEADER.size)
        read += size
        if (target, opcode) == (_CALLBACK, _DONE):
            return
        if (target, opcode) == (_REGISTRY, _GLOBAL):
            # name, then a string: its length with the closing NUL, its bytes padded to four.
            (length,) = struct.unpack_from("=I", body, 4)
            yield body[8 : 8 + length].rstrip(b"\0").decode("ascii")
    raise OSError("it answers without end")


def _exactly(line: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        piece = line.recv(size - len(parts))
        if not piece:
            raise OSError("it closed the connection")
        parts += piece
    return bytes(parts)

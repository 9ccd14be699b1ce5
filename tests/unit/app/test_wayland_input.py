"""Where every program of a Wayland session can make keys and clicks, none of them counts as a hand's."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.input_origin import InputOrigin, Stroke
from app.wayland_input import NOT_REPORTED, WaylandSource
from app.wayland_registry import VIRTUAL_INPUT, Unanswered, global_interfaces
from app.x11_input import X11Source
from app.x11_watch import XWatch
from tests.fakes.wayland_session import WaylandSession, wayland_session

PRESS = Stroke("key down", 1, 36, True)


@pytest.fixture(scope="module")
def session() -> Iterator[WaylandSession]:
    with wayland_session() as session:
        yield session


def no_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")


def compositor(tmp_path: Path, answer: bytes) -> str:
    """The socket of a compositor that answers the first request with these bytes, and hangs up."""
    path = str(tmp_path / "wayland-9")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve() -> None:
        line, _ = listener.accept()
        with line, listener:
            line.recv(1000)
            line.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return path


def event(target: int, body: bytes) -> bytes:
    return struct.pack("=IHH", target, 0, 8 + len(body)) + body


def offered(name: str) -> bytes:
    text = name.encode() + b"\0"
    padded = text + b"\0" * (-len(text) % 4)
    return event(2, struct.pack("=II", 7, len(text)) + padded + struct.pack("=I", 1))


def test_a_real_compositor_says_what_it_hands_out(session: WaylandSession) -> None:
    found = global_interfaces(str(session.socket))
    assert {"wl_compositor", "wl_seat"} <= found
    assert found & VIRTUAL_INPUT


async def test_where_programs_can_make_input_it_is_synthetic_and_the_operator_is_told(
    session: WaylandSession,
) -> None:
    source = WaylandSource(lambda: global_interfaces(str(session.socket)))
    assert source.hand_of(PRESS) is InputOrigin.SYNTHETIC, "until the compositor was asked"
    await source.begin()
    assert source.hand_of(PRESS) is InputOrigin.SYNTHETIC
    assert "asks for the passphrase each time" in source.about
    assert any(name in source.about for name in VIRTUAL_INPUT)
    await source.end()


async def test_where_no_means_is_known_input_counts_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_bus(monkeypatch)
    answer = offered("wl_compositor") + offered("wl_seat") + event(3, struct.pack("=I", 0))
    path = compositor(tmp_path, answer)
    source = WaylandSource(lambda: global_interfaces(path))
    await source.begin()
    assert source.hand_of(PRESS) is InputOrigin.UNKNOWN
    assert source.about == NOT_REPORTED


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\1\2\3",
        struct.pack("=IHH", 2, 0, 2),
        offered("wl_seat"),
        struct.pack("=IHH", 2, 0, 12) + b"\0" * 4,
    ],
)
async def test_a_compositor_that_cannot_be_asked_confirms_nothing(tmp_path: Path, answer: bytes) -> None:
    path = compositor(tmp_path, answer)
    with pytest.raises(Unanswered):
        global_interfaces(path)
    source = WaylandSource(lambda: global_interfaces(str(tmp_path / "no such socket")))
    await source.begin()
    assert source.hand_of(PRESS) is InputOrigin.SYNTHETIC


async def test_in_xwayland_a_device_counts_no_more_than_its_compositor_allows(
    qapp: object, session: WaylandSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYLAND_DISPLAY", str(session.socket))
    with session.xwayland() as name:
        source = X11Source(lambda: XWatch(name))
        await source.begin()
        assert source.is_watching
        assert source.hand_of(PRESS) is InputOrigin.SYNTHETIC
        assert "every program of the session can make keys and clicks" in source.about
        await source.end()

"""Abuse at a door with TLS: each is refused with a reason, and the links of others survive it."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import selector_events
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from core.aip.tls import Identity, load_or_make_identity, pinned_client_context
from tests.fakes.aip_house import (
    HASTY_TOO,
    TIGHT,
    House,
    hear,
    neighbour,
    raw,
    refused,
    running_house,
    say,
    soon,
    still_works,
)


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return load_or_make_identity(tmp_path / "keys")


@pytest.fixture
async def secure(identity: Identity) -> AsyncIterator[House]:
    async with running_house(TIGHT, identity=identity) as built:
        yield built


@pytest.fixture
async def hasty_secure(identity: Identity) -> AsyncIterator[House]:
    async with running_house(HASTY_TOO, identity=identity) as built:
        yield built


async def test_over_tls_a_device_registers_and_serves_commands(secure: House, identity: Identity) -> None:
    assert secure.server.url.startswith("wss://")
    assert secure.server.fingerprint == identity.fingerprint
    socket = await secure.dial(ssl=pinned_client_context(identity.fingerprint))
    await say(socket, type="register", status="ok", client_id="d1")
    await hear(socket)
    link = await soon(secure.connected.get())
    assert link.secure
    await still_works(secure, socket, link)
    await socket.close()


async def test_tls_is_spoken_where_asyncio_begins_to_read_although_it_was_told_to_pause(
    secure: House, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Python 3.11.2: a new transport reads, whatever `connection_made` said."""
    transport: Any = selector_events._SelectorTransport

    def begin_to_read(self: Any, number: int, callback: Any, *arguments: Any) -> None:
        if not self.is_closing():
            self._loop._add_reader(number, callback, *arguments)

    monkeypatch.setattr(transport, "_add_reader", begin_to_read)
    socket = await secure.dial(ssl=pinned_client_context(identity.fingerprint))
    await say(socket, type="register", status="ok", client_id="d1")
    await hear(socket)
    assert (await soon(secure.connected.get())).secure
    await socket.close()


async def test_plain_ws_on_a_tls_port_is_told_so_and_reported(secure: House, identity: Identity) -> None:
    async with neighbour(secure, ssl=pinned_client_context(identity.fingerprint)):
        with pytest.raises(InvalidStatus) as caught:
            await connect(
                secure.server.url.replace("wss:", "ws:"),
                additional_headers={"Authorization": "Bearer token-one"},
                proxy=None,
            )
        assert caught.value.response.status_code == 400
        assert b"use wss://" in (caught.value.response.body or b"")
        await refused(secure, "does not use TLS")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "in time"),
        (b"\x16", "in time"),
        (b"\x16\x03\x01\xff", "in time"),
        (b"\x16\x03\x01\x00\x05hello", "TLS handshake"),
        (b"\x00" * 64, "does not use TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not use TLS"),
    ],
)
async def test_a_slow_or_broken_tls_handshake_is_ended_and_reported(
    hasty_secure: House, identity: Identity, data: bytes, said: str
) -> None:
    async with neighbour(hasty_secure, ssl=pinned_client_context(identity.fingerprint)):
        await raw(hasty_secure, data)
        await refused(hasty_secure, said)
    assert hasty_secure.server.unregistered == 0


async def test_a_slow_upgrade_inside_tls_is_ended_too(hasty_secure: House, identity: Identity) -> None:
    context = pinned_client_context(identity.fingerprint)
    async with neighbour(hasty_secure, ssl=context):
        assert await raw(hasty_secure, b"GET /ws", context) == b""
        await refused(hasty_secure, "did not finish its upgrade in time")


async def test_an_upgrade_that_comes_with_the_end_of_the_tls_handshake_is_not_lost(
    secure: House, identity: Identity
) -> None:
    request = (
        b"GET /ws?token=token-one HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", secure.server.port, ssl=pinned_client_context(identity.fingerprint)
    )
    writer.write(request)
    assert b"101" in await soon(reader.readline())
    writer.close()
    await refused(secure, "closed before it had registered")


async def test_closing_turns_out_whoever_is_still_at_the_door(secure: House, identity: Identity) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", secure.server.port)
    socket = await secure.dial(ssl=pinned_client_context(identity.fingerprint))
    await soon(secure.server.close())
    with pytest.raises((ConnectionClosed, OSError)):
        await soon(socket.recv())
    with contextlib.suppress(OSError):
        assert await soon(reader.read()) == b""
    writer.close()


async def test_who_makes_room_during_the_tls_handshake_is_closed_at_once(identity: Identity) -> None:
    # Far more than "at once" can take: on a busy machine the two are not to be mistaken for each other.
    patient = replace(TIGHT, register_s=10.0)
    async with (
        running_house(patient, identity=identity) as house,
        neighbour(house, ssl=pinned_client_context(identity.fingerprint)),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
        others = [await asyncio.open_connection("127.0.0.1", house.server.port) for _ in range(4)]
        await refused(house, "too many connections")
        async with asyncio.timeout(patient.register_s / 2):
            with contextlib.suppress(OSError):
                assert await reader.read() == b""
        for _, other in [(reader, writer), *others]:
            other.close()

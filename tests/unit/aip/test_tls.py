"""Certificates of links: made once, kept private, known by one fingerprint."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

import pytest

from core.aip.link_server import DeviceLinkServer, token_table
from core.aip.tls import (
    Identity,
    fingerprint_of,
    load_or_make_identity,
    pinned_client_context,
    server_context,
)
from core.errors import BadInput
from tests.fakes.patience import PATIENCE_S


def test_an_identity_is_made_once_and_kept(tmp_path: Path) -> None:
    first = load_or_make_identity(tmp_path / "new" / "folder")
    assert load_or_make_identity(tmp_path / "new" / "folder") == first
    assert len(first.fingerprint) == 64
    assert load_or_make_identity(tmp_path / "other").fingerprint != first.fingerprint


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
def test_the_key_is_private_from_the_start_and_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    identity = load_or_make_identity(tmp_path)
    assert identity.key.stat().st_mode & 0o777 == 0o600
    identity.key.chmod(0o640)
    with pytest.raises(BadInput, match="may be read by others"):
        load_or_make_identity(tmp_path)


def test_a_broken_or_halved_identity_is_refused_and_never_made_anew(tmp_path: Path) -> None:
    identity = load_or_make_identity(tmp_path)
    identity.certificate.write_text("no certificate")
    with pytest.raises(BadInput, match="cannot be read"):
        load_or_make_identity(tmp_path)
    identity.certificate.unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        load_or_make_identity(tmp_path)


def test_a_certificate_with_another_key_cannot_be_used(tmp_path: Path) -> None:
    one, two = load_or_make_identity(tmp_path / "1"), load_or_make_identity(tmp_path / "2")
    with pytest.raises(BadInput, match="cannot be used"):
        server_context(Identity(one.certificate, two.key, one.fingerprint))


@pytest.mark.parametrize("pin", ["", "abc", "g" * 64, "0" * 63, "0" * 65])
def test_a_pin_that_is_no_fingerprint_is_refused(pin: str) -> None:
    with pytest.raises(BadInput):
        pinned_client_context(pin)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "", "example.org", "127.0.0.1.example.org"])
def test_beyond_this_computer_only_tls_is_listened_with(host: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="needs TLS"):
        DeviceLinkServer(token_table({}), host=host)
    assert DeviceLinkServer(token_table({}), host=host, identity=load_or_make_identity(tmp_path)).fingerprint


@pytest.mark.parametrize("right", [True, False])
async def test_the_pin_is_checked_within_the_handshake(right: bool, tmp_path: Path) -> None:
    """With the wrong certificate there is never a stream that a token could be written to."""
    identity = load_or_make_identity(tmp_path)
    received = asyncio.Queue[bytes]()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            received.put_nowait(await reader.read())
        except OSError:
            received.put_nowait(b"")
        writer.close()

    pin = identity.fingerprint.upper() if right else fingerprint_of(b"another")
    server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=server_context(identity))
    async with server:
        port = server.sockets[0].getsockname()[1]
        if not right:
            with pytest.raises(ssl.SSLCertVerificationError, match="not the one that was paired"):
                await asyncio.open_connection("127.0.0.1", port, ssl=pinned_client_context(pin))
            return
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=pinned_client_context(pin))
        writer.write(b"token")
        writer.close()
        async with asyncio.timeout(PATIENCE_S):
            assert await received.get() == b"token"

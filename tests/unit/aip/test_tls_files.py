"""Certificates of links whose making was cut off, or that somebody put there; and what counts as loopback."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import select
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric import ec

from core.aip import tls
from core.aip.pairing import check_url, is_loopback
from core.aip.tls import (
    Identity,
    fingerprint_of,
    load_or_make_identity,
    pinned_client_context,
    server_context,
)
from core.errors import BadInput
from tests.fakes.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("steps", [0, 1])
def test_an_identity_that_found_no_room_on_the_disk_is_made_once_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    real, done = os.fsync, []

    def full(handle: int) -> None:
        if len(done) == steps:
            raise OSError(errno.ENOSPC, "No space left on device")
        done.append(handle)
        real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(BadInput, match="No space left on device"):
            load_or_make_identity(tmp_path / "tls")
    made = load_or_make_identity(tmp_path / "tls")
    assert server_context(made)
    assert sorted(file.name for file in (tmp_path / "tls").iterdir()) == sorted([tls.CERTIFICATE, tls.KEY])


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_a_crash_at_any_step_of_the_making_leaves_an_identity_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    class Crash(BaseException):
        pass

    steps = 0

    def crashes(name: str) -> None:
        real = getattr(os if name == "fsync" else Path, name)

        def last(*args: object) -> object:
            nonlocal steps
            steps += 1
            if steps == step:
                raise Crash
            return real(*args)

        patched.setattr(os if name == "fsync" else Path, name, last)

    with monkeypatch.context() as patched:
        crashes("fsync")
        crashes("replace")
        with pytest.raises(Crash):
            load_or_make_identity(tmp_path / "tls")
    assert server_context(load_or_make_identity(tmp_path / "tls"))
    assert (tmp_path / "tls" / tls.KEY).stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written_is_named_and_no_port_is_blamed(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("in the way")
    with pytest.raises(BadInput, match=re.escape(str(tmp_path / "tls"))):
        load_or_make_identity(tmp_path / "tls")


def test_of_a_chain_the_certificate_that_is_shown_is_the_one_to_pin(tmp_path: Path) -> None:
    for number in range(4):
        own = load_or_make_identity(tmp_path / f"own{number}")
        other = load_or_make_identity(tmp_path / f"other{number}")
        own.certificate.write_text(own.certificate.read_text() + other.certificate.read_text())
        assert load_or_make_identity(tmp_path / f"own{number}").fingerprint == own.fingerprint


def protect(identity: Identity) -> None:
    key = pem.load_pem_private_key(identity.key.read_bytes(), None)
    locked = pem.BestAvailableEncryption(b"word")
    identity.key.write_bytes(key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, locked))


@pytest.mark.skipif(os.name != "posix", reason="a terminal of its own is POSIX's")
def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    import pty

    protect(load_or_make_identity(tmp_path))
    told = (
        "import sys; from pathlib import Path; from core.aip.tls import *\n"
        "try: server_context(load_or_make_identity(Path(sys.argv[1])))\n"
        "except Exception as error: print('refused:', error)"
    )
    # A process with a terminal is the one that would be asked.
    inner, outer = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", told, str(tmp_path)],
        stdin=outer,
        stdout=outer,
        stderr=outer,
        start_new_session=True,
        cwd=ROOT,
        preexec_fn=lambda: os.close(os.open(os.ttyname(outer), os.O_RDWR)),
    ) as process:
        os.close(outer)
        said, until = b"", time.monotonic() + PATIENCE_S
        # Until the line that says so is whole: a terminal hands it out in pieces.
        while b"\n" not in said.partition(b"refused")[2] and time.monotonic() < until:
            if b"phrase:" in said.partition(b"refused")[0]:
                break
            if select.select([inner], [], [], 0.5)[0]:
                try:
                    said += os.read(inner, 4096)
                except OSError:
                    break
        process.kill()
    os.close(inner)
    assert b"refused:" in said, said
    assert b"passphrase" in said


async def test_a_pinned_certificate_is_good_whatever_the_clock_says(tmp_path: Path) -> None:
    """Clocks of devices stand wrong, and what is pinned was not chosen for its dates."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old")])
    then = datetime.now(UTC) - timedelta(days=900)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(then)
        .not_valid_after(then + timedelta(days=30))
        .sign(key, hashes.SHA256())
    )
    plain = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    (tmp_path / tls.KEY).write_bytes(plain)
    (tmp_path / tls.KEY).chmod(0o600)
    (tmp_path / tls.CERTIFICATE).write_bytes(signed.public_bytes(pem.Encoding.PEM))
    identity = load_or_make_identity(tmp_path)
    assert identity.fingerprint == fingerprint_of(signed.public_bytes(pem.Encoding.DER))
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0, ssl=server_context(identity))
    async with server, asyncio.timeout(PATIENCE_S):
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=pinned_client_context(identity.fingerprint)
        )
        writer.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=pinned_client_context("0" * 64))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "::1", "::1%lo", "localhost", "LocalHost"])
def test_these_are_this_computer(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "0.0.0.0",
        "::",
        "127.0.0.1%.example.org",
        "127.0.0.1%lo",
        "127.0.0.1.example.org",
        "localhost.example.org",
        "localhost%lo",
        "ip6-localhost",
        "127.1",
        "0x7f.1",
        "2130706433",
        "127.0.0.1\x00",
        "10.0.0.1",
        "fe80::1%lo",
        "::ffff:10.0.0.1",
    ],
)
def test_these_may_be_another_computer(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1%.example.org", "ip6-localhost", "[::ffff:10.0.0.1]", "0.0.0.0"])
def test_a_link_to_what_may_be_another_computer_is_encrypted(host: str) -> None:
    with pytest.raises(BadInput, match="not encrypted"):
        check_url(f"ws://{host}:5000/ws")
    check_url(f"wss://{host}:5000/ws")

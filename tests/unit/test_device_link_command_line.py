"""A device's link as its command line sets it up: what is pasted, printed, kept and refused."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect

from core.aip.pairing import Pairing, decode_pairing, encode_pairing
from core.aip.tls import load_or_make_identity, pinned_client_context
from core.device.trust import TrustStore
from core.errors import BadInput
from tests.fakes.device_process import HERE, run
from tests.fakes.link_console import TOKEN, Wire, tls_console
from tests.fakes.remote_device import free_port


async def test_a_paired_device_dials_with_what_was_pasted(tmp_path: Path) -> None:
    identity = load_or_make_identity(tmp_path / "console", "console")
    async with tls_console(identity) as (url, shown):
        string = encode_pairing(Pairing(url, "d1", TOKEN, identity.fingerprint))
        state = ("--state", str(tmp_path / "state"))
        done = await asyncio.to_thread(
            lambda: run("--pair", "-", *state, stdin=f"  {string[:50]}\n{string[50:]}\n")
        )
        assert done.code == 0, done.err
        assert TOKEN not in done.out + done.err
        ended = await asyncio.to_thread(lambda: run("--once", *state))
        assert ended.code == 0, ended.err
        assert TOKEN not in ended.err
        assert shown == [f"Bearer {TOKEN}"]
    for path in (tmp_path / "state" / "trust").iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_a_listening_device_prints_the_string_that_a_console_needs(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"), "--name", "bench-7")
    port = free_port()
    told = run("--listen", f"127.0.0.1:{port}", "--pair", *state)
    assert told.code == 0, told.err
    local = decode_pairing(told.out)
    assert (local.url, local.name, local.fingerprint) == (f"ws://127.0.0.1:{port}/ws", "bench-7", "")
    told = run("--listen", f"0.0.0.0:{port}", "--advertise", "lab.example", "--pair", *state)
    remote = decode_pairing(told.out)
    assert remote.url == f"wss://lab.example:{port}/ws"
    assert len(remote.fingerprint) == 64
    assert remote.token == local.token
    checked = json.loads(run("--check", "--json", *state).out)
    assert checked["link"]["state"] == "listening"
    assert checked["link"]["fingerprint"] == remote.fingerprint
    assert remote.token not in json.dumps(checked)


def test_an_address_in_use_is_no_bad_input_and_a_service_may_try_again(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = run("--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--state", str(tmp_path / "state"))
    assert ended.code == 1
    assert "cannot be listened on" in ended.err
    assert "Traceback" not in ended.err


async def test_the_listening_process_shows_the_pinned_certificate(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"), "--name", "d1")
    port = free_port()
    told = await asyncio.to_thread(
        lambda: run("--listen", f"0.0.0.0:{port}", "--advertise", "127.0.0.1", "--pair", *state)
    )
    pairing = decode_pairing(told.out)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "core.device", *state), stderr=asyncio.subprocess.PIPE, cwd=HERE
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(10):
            while b"listening" not in await process.stderr.readline():
                continue
        wrong = pinned_client_context("ab" * 32)
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(pairing.url, ssl=wrong, proxy=None)
        connection: ClientConnection = await connect(
            pairing.url,
            ssl=pinned_client_context(pairing.fingerprint),
            additional_headers={"Authorization": f"Bearer {pairing.token}"},
            proxy=None,
        )
        assert (await Wire(connection).hear())["client_id"] == "d1"
        await connection.close()
    finally:
        process.terminate()
        assert await process.wait() == 0


def test_secrets_that_others_can_read_are_refused(tmp_path: Path) -> None:
    store = TrustStore(tmp_path)
    store.save_pairing(Pairing("ws://127.0.0.1:1/ws", "d1", TOKEN))
    assert store.pairing() == Pairing("ws://127.0.0.1:1/ws", "d1", TOKEN)
    (tmp_path / "trust" / "pairing").chmod(0o644)
    with pytest.raises(BadInput, match="others"):
        store.pairing()
    token = store.listening_token()
    assert token == store.listening_token()
    (tmp_path / "trust" / "listening-token").write_text("short\n")
    with pytest.raises(BadInput, match="no token"):
        store.listening_token()

"""A device's link as its command line sets it up: what is pasted, printed, kept and refused."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from core.aip.pairing import Pairing, decode_pairing, encode_pairing
from core.aip.tls import load_or_make_identity, pinned_client_context
from core.device.__main__ import main
from core.device.credentials import CredentialStore, make_private
from core.errors import BadInput
from tests.fakes.device_process import HERE, run
from tests.fakes.link_console import TOKEN, Wire, tls_console
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port


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
        async with asyncio.timeout(PATIENCE_S):
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
        # As when its terminal is closed.
        process.send_signal(signal.SIGHUP)
        assert await process.wait() == 0


def test_a_name_server_that_is_silent_does_not_keep_the_process_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    released = threading.Event()

    def silent(*_: Any, **__: Any) -> list[Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        released.wait(PATIENCE_S)
        raise socket.gaierror(socket.EAI_AGAIN, "nobody answers")

    def exits(code: int) -> None:
        ended.append(code)
        released.set()

    monkeypatch.setattr("socket.getaddrinfo", silent)
    monkeypatch.setattr("os._exit", exits)
    monkeypatch.setattr("core.device.__main__._THREADS_END_S", 0.01)
    assert main(["--connect", "ws://localhost:9/ws", "--state", str(tmp_path / "state")]) == 0
    # The look-up still blocks its thread, which the interpreter would wait for.
    assert released.wait(PATIENCE_S)
    assert ended == [0]


class Terminal(io.BytesIO):
    """What was typed; whoever wants more than those lines would wait for ever."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        assert line, "it waits for more"
        return line

    def read1(self, size: int | None = -1, /) -> bytes:
        raise AssertionError("it waits for the end")


def test_a_pairing_is_read_until_it_is_whole_and_what_is_none_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    string = encode_pairing(Pairing("ws://127.0.0.1:5000/ws", "d1", TOKEN))
    words = ["--pair", "-", "--state", str(tmp_path / "state")]
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(Terminal(f"{string[:50]}\n{string[50:]}\n".encode()), "utf-8")
    )
    assert main(words) == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xd7\xff\n"), encoding="utf-8"))
    assert main(words) == 2
    assert "do not belong in it" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_the_state_folder_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "a" / "state")
    finally:
        os.umask(before)
    for made in (tmp_path / "a", tmp_path / "a" / "state"):
        assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o777)
    with pytest.raises(BadInput, match="every user"):
        make_private(made)


def test_a_state_folder_that_cannot_be_used_is_a_part_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    assert main(["--check", "--json", "--state", str(tmp_path / "file" / "state")]) == 2
    found = json.loads(capsys.readouterr().out)
    assert "cannot be used" in found["state"]["fault"]
    assert "read_file" in found["tools"]
    (tmp_path / "state" / "trust").mkdir(parents=True)
    (tmp_path / "state" / "trust" / "pairing").write_text("x")
    (tmp_path / "state" / "trust" / "pairing").chmod(0o600)
    assert main(["--check", "--state", str(tmp_path / "state")]) == 2
    assert "A pairing string begins with" in capsys.readouterr().out


def test_secrets_that_others_can_read_are_refused(tmp_path: Path) -> None:
    store = CredentialStore(tmp_path)
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

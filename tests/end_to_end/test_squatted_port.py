"""Another user of this computer takes the port of a service or a device first: no token is sent there."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.aip.connector import DialAddress, dial
from core.aip.limits import LinkLimits
from core.aip.pairing import Pairing, encode_pairing
from core.device.client import Ending
from core.errors import Refused
from core.tcp_owners import stranger_at
from core.tokens import new_token
from tests.fakes.patience import PATIENCE_S
from tests.fakes.plain_user import plain_user, why_there_is_none
from tests.fakes.ports import free_port

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or bool(why_there_is_none()),
    reason="needs another user of this computer, which root can be",
)

# Takes every connection, and prints what comes by it once its standard input ends.
_SQUATTER = """
import socket, sys, threading
server = socket.create_server((sys.argv[1], int(sys.argv[2])), family=int(sys.argv[3]))
seen = []
def read(connection):
    while data := connection.recv(65536):
        seen.append(data)
def accept():
    while True:
        threading.Thread(target=read, args=(server.accept()[0],), daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
print("listens", flush=True)
if sys.stdin.readline() == "close\\n":
    while not seen:
        pass
    # Wakes the thread that accepts, too.
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    print("closed", flush=True)
sys.stdin.read()
sys.stdout.write(b"".join(seen).decode("latin-1"))
"""


class Squatter:
    """A program of another user that listens at a port."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.port = port

    def closes(self) -> None:
        """Keep the connections that it has taken, one at least, and listen no longer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("close\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "closed\n"

    def got(self) -> str:
        """What came by its connections, to its end."""
        return self._process.communicate(timeout=PATIENCE_S)[0]


@contextmanager
def squatting(host: str = "127.0.0.1", family: int = socket.AF_INET, port: int = 0) -> Iterator[Squatter]:
    port = port or free_port()
    with plain_user() as user:
        process = subprocess.Popen(
            user.command(user.python, "-c", _SQUATTER, host, str(port), str(int(family))),
            env=user.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listens\n"
            yield Squatter(process, port)
        finally:
            process.kill()
            process.communicate()


def test_a_device_client_does_not_show_its_token_to_another_users_program(tmp_path: Path):
    token, state = new_token(), tmp_path / "state"
    client = [sys.executable, "-P", "-m", "core.device", "--state", str(state)]
    with squatting() as squatter:
        pairing = encode_pairing(Pairing(f"ws://127.0.0.1:{squatter.port}/ws", "lab-1", token))
        subprocess.run([*client, "--pair", pairing], check=True, capture_output=True)
        ended = subprocess.run(
            [*client, "--once"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        got = squatter.got()
    assert ended.returncode == Ending.UNTRUSTED
    assert "the token was not sent" in ended.stderr
    assert "user 54321" in ended.stderr
    assert got == ""


async def test_a_console_does_not_show_its_token_to_another_users_program():
    with squatting() as squatter:
        address = DialAddress("lab-1", f"ws://127.0.0.1:{squatter.port}/ws", new_token())
        with pytest.raises(Refused, match="the token was not sent"):
            await dial(address, limits=LinkLimits())
        assert await asyncio.to_thread(squatter.got) == ""


def test_a_connection_that_another_user_has_taken_belongs_to_that_user_also_when_we_listen_there_now():
    with squatting() as squatter, socket.create_connection(("127.0.0.1", squatter.port)) as ours:
        assert stranger_at(ours) == 54321
        ours.sendall(b"no token")
        squatter.closes()
        with socket.create_server(("127.0.0.1", squatter.port)):
            assert stranger_at(ours) == 54321


def test_another_user_at_the_same_port_of_other_addresses_keeps_nobody_from_our_own():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with (
            squatting("::1", socket.AF_INET6, port),
            socket.create_connection(("127.0.0.1", port)) as ours,
        ):
            assert stranger_at(ours) is None
            taken, _ = server.accept()
            assert stranger_at(ours) is None
            taken.close()

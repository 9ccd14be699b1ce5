"""Calls to the service of a home from a shell that completes a word: few, short, and over within a moment.

A client of the control socket (`core.service.rpc.protocol`) whose answers stay plain JSON: validating them
needs the models of the console API, which take longer to import than a shell may wait. It starts no service.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from core import __version__
from core.home_folder import control_socket, port_file
from core.service.api.version import API_VERSION
from core.service.rpc.own_file import port_and_token
from core.user import user_name

if sys.platform != "win32":
    from core.service.rpc.own_socket import check_peer, checked_address, peer_uid

_LARGEST_ANSWER = 16 << 20
_READ = 1 << 18


class ServiceCalls:
    """One connection to the service of a home, until `within` seconds after it was made.

    Raises, also from each call:
        OSError: there is no service, it does not answer in time, refuses the call, or speaks another version.
        NotOwn: the socket is not this user's; nothing was sent.
    """

    def __init__(self, home: Path, within: float) -> None:
        self._ends = time.monotonic() + within
        self._number = 0
        self._socket, token = _connect(home, within)
        self._protocol = ClientProtocol(parse_uri("ws://localhost/"), max_size=_LARGEST_ANSWER)
        self._events = self._received()
        try:
            self._greet(token)
        except BaseException:
            self._socket.close()
            raise

    def _greet(self, token: str) -> None:
        request = self._protocol.connect()
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        self._protocol.send_request(request)
        response = next(self._events, None)
        if not isinstance(response, Response) or self._protocol.state is not State.OPEN:
            raise OSError("The service refused this program.")
        hello = {"api_version": API_VERSION, "client": "cli", "actor": f"cli:{user_name()}"}
        self._send({"hello": {**hello, "version": __version__}})
        if "welcome" not in self._answer():
            raise OSError("The service is of another version.")

    def call(self, method: str, **arguments: Any) -> Any:
        """The answer to a call of the console API, as JSON data."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": arguments})
        answer = self._answer()
        if answer.get("id") != self._number or "result" not in answer:
            raise OSError(f"The service did not answer {method}.")
        return answer["result"]

    def close(self) -> None:
        """End the connection."""
        self._protocol.send_close()
        with self._socket:
            self._flush()

    def _send(self, frame: dict[str, Any]) -> None:
        self._protocol.send_text(json.dumps(frame).encode())

    def _answer(self) -> dict[str, Any]:
        """The next message; the service sends none that was not asked for."""
        data = b""
        for event in self._events:
            if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.CONT):
                data += event.data
                if event.fin:
                    answer = json.loads(data)
                    return answer if isinstance(answer, dict) else {}
        raise OSError("The connection to the service was lost.")

    def _received(self) -> Iterator[object]:
        while True:
            self._flush()
            left = self._ends - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            data = self._socket.recv(_READ)
            if not data:
                return
            self._protocol.receive_data(data)
            yield from self._protocol.events_received()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            self._socket.sendall(data)


def _connect(home: Path, within: float) -> tuple[socket.socket, str]:
    """A socket to the service, and the token that it wants, if any."""
    file = port_file(home)
    if sys.platform != "win32" and not file.exists():
        path = control_socket(home)
        with checked_address(path) as address:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.settimeout(within)
                connected.connect(address)
                check_peer(peer_uid(connected), path)
            except BaseException:
                connected.close()
                raise
        return connected, ""
    port, token = port_and_token(file)
    return socket.create_connection(("127.0.0.1", port), within), token

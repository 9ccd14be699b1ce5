"""The classes of failed connections, and the words that each end has for them."""

from __future__ import annotations

import errno
import socket
import ssl
from pathlib import Path

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import (
    ConnectionClosedError,
    InvalidHandshake,
    InvalidHeader,
    InvalidStatus,
    InvalidURI,
    ProxyError,
)
from websockets.http11 import Response

from core.aip import connector
from core.aip.connection_failures import (
    MTU_HINT,
    DialFault,
    DialStage,
    ListenFault,
    StageTimeout,
    StrangerListens,
    dial_failure,
    listen_failure,
)
from core.aip.connector import DialAddress
from core.aip.limits import LinkLimits
from core.device import client
from core.device.build import build_router
from core.device.client import DeviceClient, Ending
from core.device.config import DeviceConfig
from core.errors import DeviceError, ErrorCode, Refused
from core.text import sentences


def status(number: int) -> InvalidStatus:
    return InvalidStatus(Response(number, "x", Headers()))


def tls_error(kind: type[ssl.SSLError], **fields: str) -> ssl.SSLError:
    error = kind(1, "[SSL] something (_ssl.c:1000)")
    for name, value in fields.items():
        setattr(error, name, value)
    return error


NOT_PAIRED = ssl.SSLCertVerificationError("the certificate is not the one that was paired")
WRONG_NUMBER = tls_error(ssl.SSLError, reason="WRONG_VERSION_NUMBER")
STAGES = {
    DialStage.LOOKUP: DialFault.LOOKUP_TIMEOUT,
    DialStage.TCP: DialFault.TCP_TIMEOUT,
    DialStage.TLS: DialFault.TLS_TIMEOUT,
    DialStage.UPGRADE: DialFault.UPGRADE_TIMEOUT,
    DialStage.PROXY: DialFault.TIMEOUT,
}
CASES: list[tuple[Exception, DialFault, str]] = [
    (status(401), DialFault.TOKEN, "HTTP 401"),
    (status(403), DialFault.TOKEN, "HTTP 403"),
    (status(409), DialFault.OCCUPIED, "HTTP 409"),
    (status(302), DialFault.HTTP_STATUS, "HTTP 302"),
    (status(500), DialFault.HTTP_STATUS, "HTTP 500"),
    (ProxyError("no way"), DialFault.PROXY, "no way"),
    (InvalidHandshake("odd"), DialFault.NO_WEBSOCKET, "odd"),
    (NOT_PAIRED, DialFault.CERTIFICATE, "the certificate is not the one that was paired"),
    (
        tls_error(ssl.SSLCertVerificationError, verify_message="self-signed certificate"),
        DialFault.CERTIFICATE,
        "self-signed certificate",
    ),
    (WRONG_NUMBER, DialFault.TLS, "WRONG_VERSION_NUMBER"),
    (ssl.SSLError("no reason given"), DialFault.TLS, "('no reason given',)"),
    (socket.gaierror(-2, "Name or service not known"), DialFault.UNKNOWN_HOST, "Name or service not known"),
    (UnicodeError("label too long"), DialFault.INVALID_HOST, "label too long"),
    (InvalidURI("ws://x", "bad"), DialFault.INVALID_HOST, "ws://x isn't a valid URI: bad"),
    (StrangerListens("user 7 listens"), DialFault.STRANGER, "user 7 listens"),
    (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), DialFault.NOTHING_LISTENS, "refused"),
    (TimeoutError(), DialFault.TIMEOUT, "TimeoutError"),
    *(
        (StageTimeout(stage, 3), fault, f"{stage.value}: no answer came within 3 s")
        for stage, fault in STAGES.items()
    ),
    (TimeoutError(errno.ETIMEDOUT, "Connection timed out"), DialFault.TIMEOUT, "Connection timed out"),
    (ConnectionResetError(errno.ECONNRESET, "Connection reset"), DialFault.CUT_OFF, "Connection reset"),
    (ConnectionAbortedError("handshake took too long"), DialFault.CUT_OFF, "handshake took too long"),
    (OSError(errno.EHOSTUNREACH, "No route to host"), DialFault.NO_ROUTE, "No route to host"),
    (OSError(errno.ENETUNREACH, "Network is unreachable"), DialFault.NO_ROUTE, "Network is unreachable"),
    (OSError(errno.EPIPE, "Broken pipe"), DialFault.UNREACHABLE, "Broken pipe"),
    (OSError(), DialFault.UNREACHABLE, "OSError"),
    (ConnectionClosedError(None, None), DialFault.CLOSED, "no close frame received or sent"),
]


@pytest.mark.parametrize(("error", "fault", "detail"), CASES)
def test_errors_are_classed(error: Exception, fault: DialFault, detail: str) -> None:
    failure = dial_failure(error)
    assert (failure.fault, failure.detail) == (fault, detail)


def test_each_class_has_a_case_and_words_at_both_ends() -> None:
    assert {fault for _, fault, _ in CASES} == set(DialFault)
    assert set(connector._WORDS) == set(DialFault)
    assert set(client._WORDS) == set(DialFault)


def test_a_peers_own_words_are_bounded_and_play_no_tricks() -> None:
    detail = dial_failure(InvalidHeader("Upgrade", "\x9b2J\n" + "A" * 7000)).detail
    assert detail.isprintable()
    assert "[U+009B]2J" in detail
    assert len(detail) < 300


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (NOT_PAIRED, ErrorCode.DENIED_BY_POLICY, ": the certificate is not the one that was paired"),
        (WRONG_NUMBER, ErrorCode.PROTOCOL_ERROR, ": the TLS handshake failed: WRONG_VERSION_NUMBER"),
        (status(403), ErrorCode.DENIED_BY_DEVICE, " does not accept our token"),
        (status(409), ErrorCode.DEVICE_OFFLINE, ": another console is connected to it"),
        (status(404), ErrorCode.PROTOCOL_ERROR, " answers with HTTP 404"),
        (InvalidHandshake("odd"), ErrorCode.PROTOCOL_ERROR, " is not a device link: odd"),
        (TimeoutError(), ErrorCode.TIMEOUT, " did not answer within 10 s"),
        (
            StageTimeout(DialStage.LOOKUP, 10),
            ErrorCode.TIMEOUT,
            ": no name server answered within 10 s (DNS of this computer)",
        ),
        (
            StageTimeout(DialStage.TLS, 10),
            ErrorCode.TIMEOUT,
            f": TLS was not set up within 10 s. {MTU_HINT}",
        ),
        (
            ConnectionResetError(),
            ErrorCode.PROTOCOL_ERROR,
            " closed the connection at once; perhaps it does not use TLS",
        ),
        (OSError(113, "No route to host"), ErrorCode.DEVICE_OFFLINE, " cannot be reached: No route to host"),
        (UnicodeError(), ErrorCode.DEVICE_OFFLINE, " cannot be reached: its address is not one"),
        (
            ConnectionClosedError(None, None),
            ErrorCode.PROTOCOL_ERROR,
            " closed the connection at once",
        ),
    ],
)
def test_the_consoles_words(error: Exception, code: ErrorCode, words: str) -> None:
    # Neither the user name nor the query is shown: both may hold secrets.
    address = DialAddress("d1", "wss://anna@lab:1/ws?token=secret", "token", "0" * 64)
    shown = connector._why_not(address, error, LinkLimits())
    assert shown.message == sentences(f"d1 at wss://lab:1/ws{words}")
    assert shown.code is code
    denied = code in {ErrorCode.DENIED_BY_POLICY, ErrorCode.DENIED_BY_DEVICE}
    assert isinstance(shown, Refused if denied else DeviceError)


@pytest.mark.parametrize(
    ("error", "ending", "words"),
    [
        (NOT_PAIRED, Ending.UNTRUSTED, f"The certificate is not accepted: {NOT_PAIRED.args[-1]}"),
        (WRONG_NUMBER, Ending.UNTRUSTED, "No encrypted link can be made: WRONG_VERSION_NUMBER"),
        (status(401), Ending.REFUSED, "HTTP 401: the token is not accepted"),
        (status(409), Ending.PROTOCOL, "HTTP 409: something answers there, but no console takes devices"),
        (ProxyError("no"), Ending.UNREACHABLE, "The proxy refuses the connection: no"),
        (InvalidHandshake("odd"), Ending.PROTOCOL, "What answers there speaks no WebSocket: odd"),
        (
            socket.gaierror(-2, "not known"),
            Ending.UNKNOWN_HOST,
            "The name lab is not known (DNS): not known",
        ),
        (UnicodeError(), Ending.UNKNOWN_HOST, "lab cannot be the name of a host"),
        (
            ConnectionRefusedError(),
            Ending.UNREACHABLE,
            "The connection was refused: nothing listens there",
        ),
        (TimeoutError(), Ending.UNREACHABLE, "No answer came within 10 s"),
        (
            StageTimeout(DialStage.LOOKUP, 10),
            Ending.UNKNOWN_HOST,
            "The name lab was looked up, and no name server answered within 10 s (DNS of this machine)",
        ),
        (
            StageTimeout(DialStage.TLS, 10),
            Ending.UNREACHABLE,
            f"TLS was not set up within 10 s. {MTU_HINT}",
        ),
        (OSError(32, "Broken pipe"), Ending.UNREACHABLE, "It cannot be reached: Broken pipe"),
        (ConnectionClosedError(None, None), Ending.LOST, "no close frame received or sent"),
        (Refused("not this name"), Ending.REFUSED, "not this name"),
        (DeviceError("not now"), Ending.LOST, "not now"),
        (DeviceError("too old", ErrorCode.PROTOCOL_ERROR), Ending.PROTOCOL, "too old"),
    ],
)
async def test_the_devices_words(tmp_path: Path, error: Exception, ending: Ending, words: str) -> None:
    config = DeviceConfig(roots=(tmp_path,))
    device = DeviceClient("wss://lab/ws", "d1", build_router(config, tmp_path / "state", "d1"), config)
    assert device._ending_of(error) == (ending, words)


@pytest.mark.parametrize(
    ("error", "fault", "may_end"),
    [
        (OSError(errno.EADDRINUSE, "Address already in use"), ListenFault.IN_USE, True),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign"), ListenFault.NOT_LOCAL, True),
        (OSError("no errno, as of Python 3.13"), ListenFault.NOT_LOCAL, True),
        (socket.gaierror(-2, "Name or service not known"), ListenFault.NOT_LOCAL, True),
        (PermissionError(errno.EACCES, "Permission denied"), ListenFault.NOT_PERMITTED, False),
        (OSError(errno.EINVAL, "Invalid argument"), ListenFault.OTHER, False),
        (UnicodeError("label too long"), ListenFault.INVALID, False),
        (OverflowError("port must be 0-65535"), ListenFault.INVALID, False),
    ],
)
def test_why_an_address_cannot_be_listened_at(error: Exception, fault: ListenFault, may_end: bool) -> None:
    failure = listen_failure(error)
    assert (failure.fault, failure.may_end) == (fault, may_end)

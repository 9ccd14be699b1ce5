"""Why a connection could not be opened, or an address not be listened at: the classes of such failures.

The console that dials, the device that dials, the doctor and both listeners class an error here. Each of them
has its own words for a class, because their readers differ: an operator, the owner of a device, a log.
"""

from __future__ import annotations

import errno
import socket
import ssl
from dataclasses import dataclass
from enum import StrEnum

from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI, ProxyError

from core.text import escape_hidden

_MOST_SHOWN = 200
_NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN})


class DialFault(StrEnum):
    """The failure of opening a connection."""

    UNKNOWN_HOST = "unknown host"
    INVALID_HOST = "invalid host"
    NOTHING_LISTENS = "nothing listens"
    NO_ROUTE = "no route"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    LOOKUP_TIMEOUT = "look-up timeout"
    TCP_TIMEOUT = "TCP timeout"
    TLS_TIMEOUT = "TLS timeout"
    UPGRADE_TIMEOUT = "upgrade timeout"
    CUT_OFF = "cut off"
    STRANGER = "another user of this computer"
    CERTIFICATE = "certificate"
    TLS = "TLS"
    TOKEN = "token"
    OCCUPIED = "occupied"
    HTTP_STATUS = "HTTP status"
    NO_WEBSOCKET = "no WebSocket"
    PROXY = "proxy"
    CLOSED = "closed"


class DialStage(StrEnum):
    """The stages of opening a connection, in their order. Through a proxy, all of them are one."""

    LOOKUP = "look-up"
    TCP = "TCP"
    TLS = "TLS"
    UPGRADE = "upgrade"
    PROXY = "proxy"


class StageTimeout(TimeoutError):
    """A stage of opening a connection took longer than its time, in seconds."""

    def __init__(self, stage: DialStage, seconds: float) -> None:
        super().__init__(f"{stage.value}: no answer came within {seconds:g} s")
        self.stage, self.seconds = stage, seconds


class StrangerListens(OSError):
    """Another user of this computer listens where a token was about to be sent."""


@dataclass(frozen=True, slots=True)
class DialFailure:
    """A class of failure and the details in words."""

    fault: DialFault
    detail: str


def dial_failure(error: Exception) -> DialFailure:
    """Class an error of opening a WebSocket connection, from the name look-up to the upgrade."""
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        return DialFailure(_STATUSES.get(status, DialFault.HTTP_STATUS), f"HTTP {status}")
    if isinstance(error, ProxyError):
        return DialFailure(DialFault.PROXY, peer_text(str(error)))
    if isinstance(error, InvalidHandshake):
        return DialFailure(DialFault.NO_WEBSOCKET, peer_text(str(error)))
    if isinstance(error, ssl.SSLCertVerificationError):
        return DialFailure(DialFault.CERTIFICATE, str(getattr(error, "verify_message", "") or error.args[-1]))
    if isinstance(error, ssl.SSLError):
        return DialFailure(DialFault.TLS, str(getattr(error, "reason", None) or error))
    detail = str(getattr(error, "strerror", None) or error) or type(error).__name__
    return DialFailure(_fault_of(error), detail)


_STAGES = {
    DialStage.LOOKUP: DialFault.LOOKUP_TIMEOUT,
    DialStage.TCP: DialFault.TCP_TIMEOUT,
    DialStage.TLS: DialFault.TLS_TIMEOUT,
    DialStage.UPGRADE: DialFault.UPGRADE_TIMEOUT,
    DialStage.PROXY: DialFault.TIMEOUT,
}
MTU_HINT = (
    "TCP connects, but TLS stalls: if small packets pass on the way and large ones do not, the path's MTU is "
    "lower than the machines believe (a VPN or a tunnel); lower it on one of them"
)
"""For a TLS handshake that stalls: its certificate is the first packet that is not small."""
_STATUSES = {401: DialFault.TOKEN, 403: DialFault.TOKEN, 409: DialFault.OCCUPIED}


def _fault_of(error: Exception) -> DialFault:
    match error:
        case socket.gaierror():
            return DialFault.UNKNOWN_HOST
        case UnicodeError() | InvalidURI():
            return DialFault.INVALID_HOST
        case StrangerListens():
            return DialFault.STRANGER
        case ConnectionRefusedError():
            return DialFault.NOTHING_LISTENS
        case StageTimeout():
            return _STAGES[error.stage]
        case TimeoutError():
            return DialFault.TIMEOUT
        case ConnectionResetError() | ConnectionAbortedError():
            return DialFault.CUT_OFF
        case OSError():
            return DialFault.NO_ROUTE if error.errno in _NO_ROUTE else DialFault.UNREACHABLE
    return DialFault.CLOSED


def peer_text(text: str) -> str:
    """A peer's text, shortened and escaped, so that it cannot fill a screen or inject terminal codes."""
    return escape_hidden(text[:_MOST_SHOWN], keep_lines=False)


class ListenFault(StrEnum):
    """Why an address cannot be listened at."""

    IN_USE = "in use"
    NOT_PERMITTED = "not permitted"
    NOT_LOCAL = "not local"
    INVALID = "invalid"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ListenFailure:
    """A class of failure and the details in words."""

    fault: ListenFault
    detail: str

    @property
    def may_end(self) -> bool:
        """Whether a later attempt may succeed: another program has the port, or the network is not up yet."""
        return self.fault in {ListenFault.IN_USE, ListenFault.NOT_LOCAL}


def listen_failure(error: Exception) -> ListenFailure:
    """Class an error of binding an address."""
    detail = str(getattr(error, "strerror", None) or error)
    if not isinstance(error, OSError):
        return ListenFailure(ListenFault.INVALID, detail)
    if isinstance(error, socket.gaierror):
        return ListenFailure(ListenFault.NOT_LOCAL, detail)
    # Since Python 3.13, asyncio raises an OSError without `errno` for an address that this computer lacks.
    code = error.errno or errno.EADDRNOTAVAIL
    return ListenFailure(_LISTEN_FAULTS.get(code, ListenFault.OTHER), detail)


_LISTEN_FAULTS = {
    errno.EADDRINUSE: ListenFault.IN_USE,
    errno.EACCES: ListenFault.NOT_PERMITTED,
    errno.EADDRNOTAVAIL: ListenFault.NOT_LOCAL,
}

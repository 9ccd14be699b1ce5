"""Pairing strings: address, name, token and certificate fingerprint of a link as one line to paste.

`qd1.` + base64url of canonical JSON `{"f": fingerprint, "n": name, "t": token, "u": url}` + `.` + the first
8 hexadecimal digits of that JSON's SHA-256, which reveal a typing error. The listening side makes the string
for the side that dials: the console for a device that dials in, the device for a console that dials out.

The module also checks link addresses and finds out whether a host is loopback.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from core.canonical_json import canonical_bytes
from core.errors import BadInput
from core.text import sentences

_MARK = "qd1"
_CHECK_DIGITS = 8
_LONGEST = 16_384
TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_LONGEST_NAME = 200
# The only name accepted as loopback: no name server is asked for it.
_LOOPBACK_NAME = "localhost"


@dataclass(frozen=True, slots=True)
class Pairing:
    """The listener's address, the device's name, the token, and the certificate to pin.

    `fingerprint` is the SHA-256 of the listener's certificate in lower-case hexadecimal; it is empty when the
    link stays on one computer, or when the system's certificate authorities are trusted.
    """

    url: str
    name: str
    token: str = field(repr=False)
    fingerprint: str = ""


def encode_pairing(pairing: Pairing) -> str:
    """Encode a pairing as the line that `decode_pairing` reads.

    Raises:
        BadInput: its address, name, token or fingerprint is not valid.
    """
    _check(pairing)
    data = canonical_bytes(
        {"u": pairing.url, "n": pairing.name, "t": pairing.token, "f": pairing.fingerprint}
    )
    return f"{_MARK}.{base64.urlsafe_b64encode(data).rstrip(b'=').decode()}.{_check_of(data)}"


def decode_pairing(text: str) -> Pairing:
    """Read a pairing string; white space inside it is ignored.

    Raises:
        BadInput: the text is not a pairing string, or was damaged; the message never contains the token.
    """
    packed = "".join(text.split())
    if not packed:
        raise BadInput("The pairing string is empty.")
    if len(packed) > _LONGEST:
        raise BadInput(f"A pairing string has at most {_LONGEST} characters.")
    if not packed.isascii():
        raise BadInput("The pairing string has characters that do not belong in it.")
    parts = packed.split(".")
    if parts[0] != _MARK:
        raise BadInput(f"A pairing string begins with {_MARK}. (is the whole line there?)")
    if len(parts) != 3 or len(parts[2]) != _CHECK_DIGITS:
        raise BadInput("The pairing string is not complete: its end is missing.")
    try:
        data = base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadInput("The pairing string has characters that do not belong in it.") from None
    if not hmac.compare_digest(_check_of(data).encode(), parts[2].lower().encode()):
        raise BadInput("The pairing string was altered or cut on its way; copy it again.")
    return _read(data)


def hosts_of(host: str, port: int) -> list[str]:
    """The hosts to pass to asyncio for `host`: users mean all addresses by `::`, asyncio only those of IPv6.

    With port 0 each host would get a different port, so only `host` itself is returned then.
    """
    return [host, "0.0.0.0"] if host == "::" and port else [host]


def is_loopback(host: str | None) -> bool:
    """Whether a host is this computer's loopback address or `localhost`."""
    if not host:
        return False
    if host.lower() == _LOOPBACK_NAME:
        return True
    try:
        # The whole text must be an address: `127.0.0.1%.example.org` is a name that an attacker may own.
        return ip_address(host).is_loopback
    except ValueError:
        return False


def link_url(host: str, port: int, path: str, *, secure: bool) -> str:
    """The URL of a listener at a host, which may be an IPv6 address."""
    name = f"[{host}]" if ":" in host else host
    return f"{'wss' if secure else 'ws'}://{name}:{port}{path}"


def at_host(url: str, host: str) -> str:
    """The same link at another name or address of its host.

    Raises:
        BadInput: the host is none.
    """
    parts = urlsplit(url)
    name = host.strip().removeprefix("[").removesuffix("]")
    if not re.fullmatch(r"[A-Za-z0-9._:-]{1,253}", name):
        raise BadInput(f"{host[:80]!r} is not the name or the number of a host.")
    shown = f"[{name}]" if ":" in name else name
    changed = parts._replace(netloc=f"{shown}:{parts.port}" if parts.port else shown).geturl()
    check_url(changed)
    return changed


def check_url(url: str) -> None:
    """Refuse an address that no link may use.

    Raises:
        BadInput: the scheme is not ws:// or wss://, there is no host, the port is 0, the address has a
            fragment or user name, or ws:// leads to another computer.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadInput(sentences(f"This is not an address: {error}")) from None
    if parts.scheme not in {"ws", "wss"} or not host or port == 0:
        raise BadInput("A link's address begins with ws:// or wss:// and names a host.")
    if parts.fragment or "@" in parts.netloc:
        raise BadInput("A link's address has no # and no user name in it; its token is given apart from it.")
    if parts.scheme == "ws" and not is_loopback(host):
        raise BadInput(
            f"ws:// is not encrypted and is only used on one computer; {host} is another one. "
            "Use wss:// with the fingerprint of its certificate (its pairing string has both)."
        )


def _check(pairing: Pairing) -> None:
    check_url(pairing.url)
    if not pairing.name.strip() or len(pairing.name) > _LONGEST_NAME or not pairing.name.isprintable():
        raise BadInput("The pairing string names no device.")
    if not TOKEN.fullmatch(pairing.token):
        raise BadInput("The pairing string has no valid token.")
    if pairing.fingerprint and not FINGERPRINT.fullmatch(pairing.fingerprint):
        raise BadInput("The fingerprint is not a SHA-256 in hexadecimal.")


def _check_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_CHECK_DIGITS]


def _read(data: bytes) -> Pairing:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise BadInput("The pairing string holds no pairing.") from None
    if not isinstance(fields, dict):
        raise BadInput("The pairing string holds no pairing.")
    parts = [fields.get(key) for key in ("u", "n", "t", "f")]
    if not all(isinstance(part, str) for part in parts):
        raise BadInput("The pairing string holds no pairing.")
    url, name, token, fingerprint = (str(part) for part in parts)
    pairing = Pairing(url, name, token, fingerprint)
    _check(pairing)
    return pairing

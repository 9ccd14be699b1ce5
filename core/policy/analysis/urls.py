"""Findings in an address: a URL, or a host alone."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from core.confusables import false_signs, looks_plain, plain_look, scripts_of
from core.models.tools import Risk
from core.text import short_line

# (text, risk).
AddressFinding = tuple[str, Risk]

IS_URL = re.compile(r"^\s*[A-Za-z][A-Za-z0-9+.-]{1,30}:(?://|[^\s\\/0-9])")
URL_INSIDE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s'\"<>|;&)]{1,2000}")
_WEB = ("https", "wss")
_PLAIN = ("http", "ws", "ftp", "telnet")
_LOCAL_CODE = ("file", "javascript", "vbscript", "data", "jar", "gopher", "dict", "ldap", "view-source")
_ODD_NUMBER = re.compile(r"^(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+)){0,3}$", re.IGNORECASE)
_INSIDE_NAMES = re.compile(r"(?:^|\.)(?:localhost|local|internal|intranet|lan|home\.arpa)$", re.IGNORECASE)
# Addresses at which clouds give a machine its own keys.
_METADATA = frozenset({"169.254.169.254", "fd00:ec2::254", "metadata.google.internal", "100.100.100.200"})


def findings_in_url(text: str) -> Iterator[AddressFinding]:
    """The findings in a URL; no name is resolved."""
    try:
        parts = urlsplit(text.strip())
        host = parts.hostname or ""
    except ValueError:
        yield "Is an address that cannot be read", Risk.HIGH
        return
    yield from _findings_in_scheme(parts)
    if parts.username is not None or parts.password is not None:
        yield f"Has a name or password in the address, before {short_line(host)}", Risk.HIGH
    if "\\" in text or re.search(r"[\x00-\x20\x7f]", text.strip()):
        yield "Is an address that programs read in different ways", Risk.HIGH
    if host:
        yield from findings_in_host(host)


def findings_in_host(host: str) -> Iterator[AddressFinding]:
    """The findings in a host's name or IP address."""
    name = host.strip("[]").rstrip(".").casefold()
    if name in _METADATA:
        yield f"Asks {name}, where clouds keep a machine's keys", Risk.CRITICAL
        return
    yield from _findings_in_host_name(name)
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        if _ODD_NUMBER.match(name) and name.isascii():
            yield f"Names a host by a number in an unusual form: {short_line(name)}", Risk.HIGH
        elif _INSIDE_NAMES.search(name) or (name and "." not in name and name.isascii()):
            yield f"Goes to a host inside the network: {short_line(name)}", Risk.MEDIUM
        return
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.is_loopback or address.is_link_local or address.is_private or address.is_unspecified:
        yield f"Goes to an address inside the network: {address}", Risk.HIGH
    else:
        yield f"Names a host by its number, not its name: {address}", Risk.MEDIUM


def _findings_in_scheme(parts: SplitResult) -> Iterator[AddressFinding]:
    scheme = parts.scheme.lower()
    if scheme in _PLAIN:
        yield f"Goes over {scheme}, which everybody on the way can read and change", Risk.MEDIUM
    elif scheme in _LOCAL_CODE:
        yield f"Uses {scheme}: instead of the web", Risk.HIGH
    elif scheme and scheme not in _WEB:
        yield f"Uses {short_line(scheme)}: instead of the web", Risk.MEDIUM


def _findings_in_host_name(host: str) -> Iterator[AddressFinding]:
    if false_signs(host):
        text = f"Has signs in the host's name that only look like dots or slashes: {short_line(host)}"
        yield text, Risk.HIGH
    for label in host.split("."):
        decoded = label
        if label.startswith("xn--"):
            decoded = _punycode_decoded(label)
            yield f"The host's name is written in code, and reads “{short_line(decoded)}”", Risk.HIGH
        if decoded.isascii():
            continue
        if looks_plain(decoded):
            yield f"The host's name looks like “{short_line(plain_look(decoded))}” and is not", Risk.HIGH
        elif len(scripts_of(decoded)) > 1:
            yield f"The host's name mixes {' and '.join(scripts_of(decoded)[:3])} letters", Risk.HIGH
        elif decoded == label:
            yield f"The host's name has letters other than a to z: {short_line(decoded)}", Risk.MEDIUM


def _punycode_decoded(label: str) -> str:
    try:
        return label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError):
        return label

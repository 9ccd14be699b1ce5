"""What an address (a URL, or a host alone) says that raises a risk."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from core.confusables import false_signs, looks_plain, plain_look, scripts_of
from core.fleet.models import Risk
from core.text import short_line

Judged = tuple[str, Risk]

IS_URL = re.compile(r"^\s*[A-Za-z][A-Za-z0-9+.-]{1,30}:(?://|[^\s\\/0-9])")
URL_INSIDE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s'\"<>|;&)]{1,2000}")
_WEB = ("https", "wss")
_PLAIN = ("http", "ws", "ftp", "telnet")
_LOCAL_CODE = ("file", "javascript", "vbscript", "data", "jar", "gopher", "dict", "ldap", "view-source")
_ODD_NUMBER = re.compile(r"^(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+)){0,3}$", re.IGNORECASE)
_INSIDE_NAMES = re.compile(r"(?:^|\.)(?:localhost|local|internal|intranet|lan|home\.arpa)$", re.IGNORECASE)
# Where clouds tell a machine its own keys.
_METADATA = frozenset({"169.254.169.254", "fd00:ec2::254", "metadata.google.internal", "100.100.100.200"})


def judge_url(text: str) -> Iterator[Judged]:
    """What of an address raises a risk, in words; nothing is looked up."""
    try:
        parts = urlsplit(text.strip())
        host = parts.hostname or ""
    except ValueError:
        yield "Is an address that cannot be read", Risk.HIGH
        return
    yield from _scheme(parts)
    if parts.username is not None or parts.password is not None:
        yield f"Has a name or password in the address, before {short_line(host)}", Risk.HIGH
    if "\\" in text or re.search(r"[\x00-\x20\x7f]", text.strip()):
        yield "Is an address that programs read in different ways", Risk.HIGH
    if host:
        yield from judge_host(host)


def judge_host(host: str) -> Iterator[Judged]:
    """What of a host's name or number raises a risk."""
    bare = host.strip("[]").rstrip(".").casefold()
    if bare in _METADATA:
        yield f"Asks {bare}, where clouds keep a machine's keys", Risk.CRITICAL
        return
    yield from _written_alike(bare)
    try:
        number = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        if _ODD_NUMBER.match(bare) and bare.isascii():
            yield f"Names a host by a number in an unusual form: {short_line(bare)}", Risk.HIGH
        elif _INSIDE_NAMES.search(bare) or (bare and "." not in bare and bare.isascii()):
            yield f"Goes to a host inside the network: {short_line(bare)}", Risk.MEDIUM
        return
    if isinstance(number, ipaddress.IPv6Address) and number.ipv4_mapped:
        number = number.ipv4_mapped
    if number.is_loopback or number.is_link_local or number.is_private or number.is_unspecified:
        yield f"Goes to an address inside the network: {number}", Risk.HIGH
    else:
        yield f"Names a host by its number, not its name: {number}", Risk.MEDIUM


def _scheme(parts: SplitResult) -> Iterator[Judged]:
    scheme = parts.scheme.lower()
    if scheme in _PLAIN:
        yield f"Goes over {scheme}, which everybody on the way can read and change", Risk.MEDIUM
    elif scheme in _LOCAL_CODE:
        yield f"Uses {scheme}: instead of the web", Risk.HIGH
    elif scheme and scheme not in _WEB:
        yield f"Uses {short_line(scheme)}: instead of the web", Risk.MEDIUM


def _written_alike(host: str) -> Iterator[Judged]:
    if false_signs(host):
        yield (
            f"Has signs in the host's name that only look like dots or slashes: {short_line(host)}",
            Risk.HIGH,
        )
    for label in host.split("."):
        word = label
        if label.startswith("xn--"):
            word = _decoded(label)
            yield f"The host's name is written in code, and reads “{short_line(word)}”", Risk.HIGH
        if word.isascii():
            continue
        if looks_plain(word):
            yield f"The host's name looks like “{short_line(plain_look(word))}” and is not", Risk.HIGH
        elif len(scripts_of(word)) > 1:
            yield f"The host's name mixes {' and '.join(scripts_of(word)[:3])} letters", Risk.HIGH
        elif word == label:
            yield f"The host's name has letters other than a to z: {short_line(word)}", Risk.MEDIUM


def _decoded(label: str) -> str:
    try:
        return label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError):
        return label

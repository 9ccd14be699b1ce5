"""What a request would send, cut into the parts a card shows, and whether its digest is the right one. No Qt.

Everything in `parameters` is shown somewhere: the one argument that people read as such (a shell line, the
content of a file) as its own bytes and all others beside it, or else all of them as canonical JSON.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.canonical_json import canonical_bytes
from core.commitments import commitments_in, readable
from core.errors import BadInput, Refused
from core.policy.analysis.built_in_tools import SHELL_ARGUMENTS
from core.policy.models import Finding
from core.statements import Request, check_shown

MASK_SHOWN = "•••"
_MASK_JSON = re.compile(rb'\{"\$secret":"[0-9a-f]*"\}')
_READ_AS_SUCH = {**SHELL_ARGUMENTS, "write_file": "content"}
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_WIDEST_KEY = 28


class DigestCheck(StrEnum):
    """What recomputing a request's digest in this window said, from what the card shows."""

    FITS = "fits"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Place:
    """Where finding number `number` (from 1) lies in a part: byte offsets."""

    start: int
    end: int
    risk: str
    number: int


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes to show, what they are called, and where findings lie in them."""

    name: str
    data: bytes
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestPayload:
    """A request's arguments as a card shows them. `others` is None when `main` has them all.

    `masked` is the number of secrets that are not shown, `main_masked` that of those in `main`.
    """

    main: Part
    others: Part | None
    masked: int
    main_masked: int
    digest: DigestCheck


def request_payload(request: Request, findings: list[Finding]) -> RequestPayload:
    """Cut a request into what a card shows."""
    masked = len(commitments_in(request.parameters))
    main_name = _READ_AS_SUCH.get(request.tool_name, "")
    parameters = readable(request.parameters)
    main_value = parameters.get(main_name)
    # An empty text has no bytes to look at; the JSON around it has.
    if not isinstance(main_value, str) or not main_value:
        whole = _canonical_part(parameters, findings)
        return RequestPayload(whole, None, masked, masked, check_digest(request))
    main = Part(
        f"parameters.{main_name}",
        _bytes(main_value),
        tuple(
            Place(len(_bytes(main_value[:start])), len(_bytes(main_value[:end])), finding.risk.value, number)
            for number, finding, start, end in _within(findings, main_name, main_value)
        ),
    )
    rest = {key: value for key, value in parameters.items() if key != main_name}
    others = _listed_part(rest, findings) if rest else None
    in_main = len(commitments_in(request.parameters[main_name]))
    return RequestPayload(main, others, masked, in_main, check_digest(request))


def check_digest(request: Request) -> DigestCheck:
    """Recompute the digest that an approval would be about; secrets are in it as their commitments."""
    try:
        check_shown(request)
    except Refused:
        return DigestCheck.DIFFERS
    return DigestCheck.FITS


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _within(findings: list[Finding], name: str, value: str) -> list[tuple[int, Finding, int, int]]:
    """Findings with a place in this argument; a place outside it is the finding's fault and left out."""
    found = []
    for number, finding in enumerate(findings, 1):
        start, end = finding.start, finding.end
        if finding.argument == name and start is not None and end is not None and 0 <= start < end:
            found.append((number, finding, min(start, len(value)), min(end, len(value))))
    return found


def _json(value: Any) -> bytes:
    """A value's canonical bytes; for one that has none, bytes that show it all the same."""
    try:
        return canonical_bytes(value)
    except BadInput:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _canonical_part(parameters: dict[str, Any], findings: list[Finding]) -> Part:
    """All arguments as canonical JSON, put together member by member to know where each value lies."""
    data, places = bytearray(b"{"), []
    # RFC 8785 sorts members by the UTF-16 units of their names.
    for key in sorted(parameters, key=lambda name: name.encode("utf-16-be", "surrogatepass")):
        value = parameters[key]
        data += (b"," if len(data) > 1 else b"") + _json(key) + b":"
        if isinstance(value, str):
            places += _quoted_places(findings, key, value, len(data))
        data += _MASK_JSON.sub(MASK_SHOWN.encode(), _json(value))
    return Part("parameters", bytes(data + b"}"), tuple(sorted(places, key=lambda one: one.start)))


def _listed_part(parameters: dict[str, Any], findings: list[Finding]) -> Part:
    """Arguments one below the other, name and JSON value."""
    names = {key: key if _PLAIN_KEY.match(key) else _json(key).decode("utf-8") for key in parameters}
    width = min(_WIDEST_KEY, max(map(len, names.values())))
    data, places = bytearray(), []
    for key in sorted(parameters):
        data += b"\n" if data else b""
        data += _bytes(names[key].ljust(width) + "  ")
        value = parameters[key]
        if isinstance(value, str):
            places += _quoted_places(findings, key, value, len(data))
        data += _MASK_JSON.sub(f"{MASK_SHOWN} secret".encode(), _json(value))
    return Part("parameters", bytes(data), tuple(sorted(places, key=lambda one: one.start)))


def _quoted_places(findings: list[Finding], key: str, value: str, offset: int) -> list[Place]:
    """Where findings lie once `value` stands at `offset` as a JSON string."""
    return [
        Place(
            offset + len(_json(value[:start])) - 1,
            offset + len(_json(value[:end])) - 1,
            finding.risk.value,
            number,
        )
        for number, finding, start, end in _within(findings, key, value)
    ]

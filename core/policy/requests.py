"""The canonical form of a request: the bytes that an approval covers."""

from __future__ import annotations

from typing import Any

from core.aip.messages import ToolType
from core.canonical import canonical_bytes, sha256_hex
from core.policy.models import REQUEST_FORMAT, Request

_COVERED = tuple(name for name in Request.model_fields if name != "digest")


def request_bytes(request: Request) -> bytes:
    """RFC 8785 JSON of everything but the digest, with the format's name.

    Raises:
        BadInput: the parameters have no canonical form.
    """
    # The values as they are, not pydantic's JSON of them: that would write NaN as null, and the digest would
    # cover what is not sent.
    fields = {name: getattr(request, name) for name in _COVERED}
    fields["format"] = REQUEST_FORMAT
    return canonical_bytes(fields)


def request_digest(request: Request) -> str:
    """SHA-256 of the canonical bytes, hexadecimal."""
    return sha256_hex(request_bytes(request))


def make_request(
    *,
    device: str,
    contract: str,
    tool_key: str,
    tool_name: str,
    tool_type: ToolType,
    namespace: str | None,
    parameters: dict[str, Any],
    call_id: str,
) -> Request:
    """Bind one call to one device and one contract, and compute what an approval will cover."""
    open_request = Request(
        device=device,
        contract=contract,
        tool_key=tool_key,
        tool_name=tool_name,
        tool_type=tool_type,
        namespace=namespace,
        parameters=parameters,
        call_id=call_id,
        digest="",
    )
    return open_request.model_copy(update={"digest": request_digest(open_request)})

"""Stores the binary frames of a link and puts their data back into the results that refer to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.aip.extensions import BLOB_KEY, Blob, unescaped
from core.aip.limits import LinkLimits
from core.aip.messages import Result
from core.errors import DeviceError, ErrorCode

# The key of an image as base64 text, and the key of its bytes once a blob is put back.
BASE64_KEY = "data_base64"
BYTES_KEY = "data_bytes"
_MOST_DEPTH = 200


@dataclass(slots=True)
class _BinaryFrame:
    media_type: str
    data: bytes
    arrivals: int = 1


class PendingBinaryFrames:
    """The binary frames of one link that no result has referred to yet, bounded in number and bytes."""

    def __init__(self, limits: LinkLimits) -> None:
        self._limits = limits
        self._held: dict[str, _BinaryFrame] = {}
        self._arrivals = 0
        self._named_bytes = 0
        self.bytes_held = 0

    def __len__(self) -> int:
        return len(self._held)

    def has_room(self, size: int) -> bool:
        """Whether another frame of `size` bytes stays within the limits."""
        return self._arrivals < self._limits.held_blobs and self.bytes_held + size <= self._limits.held_bytes

    def keep(self, head: Blob, data: bytes) -> None:
        """Store a blob that `has_room` admitted; the device may send the same bytes once per result."""
        self._arrivals += 1
        known = self._held.get(head.sha256)
        if known is not None:
            known.arrivals += 1
            return
        self._held[head.sha256] = _BinaryFrame(head.media_type, data)
        self.bytes_held += len(data)

    def clear(self) -> None:
        """Drop all blobs; for when no answer is expected any more."""
        self._held.clear()
        self._arrivals = self.bytes_held = 0

    def put_back(self, results: list[Result]) -> None:
        """Replace every `{"$blob": sha256}` in the results, drop the blobs that were used, and unescape the
        tools' own keys.

        A text blob becomes text again. Any other blob becomes `data_bytes` with its `media_type`, in the
        object that contains the reference directly or under `data_base64`.

        Raises:
            DeviceError: a result refers to a blob that never came, or the references together amount to more
                than `held_bytes` (code `bad_result`).
        """
        used: set[str] = set()
        self._named_bytes = 0
        try:
            for result in results:
                result.result = self._filled(result.result, used, 0)
        finally:
            for sha256 in used:
                self._release(sha256)

    def _release(self, sha256: str) -> None:
        held = self._held[sha256]
        held.arrivals -= 1
        self._arrivals -= 1
        if held.arrivals == 0:
            del self._held[sha256]
            self.bytes_held -= len(held.data)

    def _filled(self, value: Any, used: set[str], depth: int) -> Any:
        if depth > _MOST_DEPTH:
            return value
        if isinstance(value, list):
            return [self._filled(one, used, depth + 1) for one in value]
        if not isinstance(value, dict):
            return value
        if BLOB_KEY in value:
            held = self._named(value[BLOB_KEY], used)
            if held.media_type.startswith("text/"):
                return held.data.decode("utf-8", "backslashreplace")
            return self._with_bytes(value, BLOB_KEY, held, used, depth)
        encoded = value.get(BASE64_KEY)
        if isinstance(encoded, dict) and BLOB_KEY in encoded:
            held = self._named(encoded[BLOB_KEY], used)
            return self._with_bytes(value, BASE64_KEY, held, used, depth)
        return {unescaped(key): self._filled(one, used, depth + 1) for key, one in value.items()}

    def _with_bytes(
        self, value: dict[str, Any], instead_of: str, held: _BinaryFrame, used: set[str], depth: int
    ) -> dict[str, Any]:
        beside = {key: one for key, one in value.items() if key != instead_of}
        rest = self._filled(beside, used, depth + 1)
        return {"media_type": held.media_type, **rest, BYTES_KEY: held.data}

    def _named(self, sha256: Any, used: set[str]) -> _BinaryFrame:
        held = self._held.get(sha256) if isinstance(sha256, str) else None
        if held is None:
            raise DeviceError("a result names bytes that never came.", ErrorCode.BAD_RESULT)
        used.add(sha256)
        # A reference takes about 80 bytes: without a bound, a frame full of them could expand to terabytes.
        self._named_bytes += len(held.data)
        if self._named_bytes > self._limits.held_bytes:
            raise DeviceError("a result names the same bytes too often.", ErrorCode.BAD_RESULT)
        return held

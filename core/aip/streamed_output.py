"""Puts results together whose output came as progress (`streamed_output`), so that it is not sent twice.

`StreamedOutput` keeps the output of each pending call as it came over one link, before anything limits,
redacts or drops progress. It is in memory only, bounded, and dropped when the call ends. A result is either
exactly what the device's digest says, or `OutputMissing`: the device is then asked for the whole result.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from core.aip.extensions import OutputField, Progress, Span, StreamedField
from core.aip.limits import LinkLimits
from core.aip.messages import Result
from core.errors import DeviceError, ErrorCode

# What a run of bytes takes in memory besides its bytes: without it, a device that leaves gaps costs more
# memory than is counted.
_COST_OF_RUN = 256
_FIELDS: TypeAdapter[list[StreamedField]] = TypeAdapter(list[StreamedField])


class OutputMissing(DeviceError):
    """A result came that refers to output which did not come as it says; the device still has all of it."""

    default_code = ErrorCode.OUTCOME_UNKNOWN


@dataclass(slots=True)
class _Stream:
    """Output as runs of bytes without a gap: the place of each run's first byte, and the runs."""

    starts: list[int] = field(default_factory=list)
    runs: list[bytearray] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The place after the last byte."""
        return self.starts[-1] + len(self.runs[-1]) if self.runs else 0

    def part(self, span: Span) -> memoryview | None:
        """The bytes of a span; None if some of them did not come."""
        first, end = span
        place = bisect.bisect_right(self.starts, first) - 1
        if place < 0 or end > self.starts[place] + len(self.runs[place]):
            return None
        start = self.starts[place]
        return memoryview(self.runs[place])[first - start : end - start]


@dataclass(slots=True)
class _Call:
    streams: dict[OutputField, _Stream] = field(default_factory=dict)
    size: int = 0
    # Why nothing more of it is kept.
    given_up: str = ""


class StreamedOutput:
    """The output of one link's pending calls, as it came in progress frames."""

    def __init__(self, limits: LinkLimits) -> None:
        self._limits = limits
        self._calls: dict[str, _Call] = {}
        self.bytes_held = 0

    def __len__(self) -> int:
        return len(self._calls)

    def expect(self, call_ids: Iterable[str | None]) -> None:
        """Keep the output of these calls from now on."""
        for call_id in call_ids:
            if call_id is not None:
                self._calls[call_id] = _Call()

    def forget(self, call_ids: Iterable[str | None]) -> None:
        """Drop the output of these calls."""
        for call_id in call_ids:
            if call_id is not None and (call := self._calls.pop(call_id, None)) is not None:
                self.bytes_held -= call.size

    def keep(self, progress: Progress) -> None:
        """Keep the output in a progress frame of a pending call."""
        call = self._calls.get(progress.call_id)
        if call is None or call.given_up or progress.span is None or progress.stream == "note":
            return
        first, end = progress.span
        data = progress.text.encode()
        stream = call.streams.setdefault(progress.stream, _Stream())
        if not stream.end <= first < end <= first + len(data):
            self._give_up(call, "its output did not come in order")
            return
        begins = not stream.runs or first > stream.end
        cost = end - first + (_COST_OF_RUN if begins else 0)
        if (
            call.size + cost > self._limits.max_incoming_bytes
            or self.bytes_held + cost > self._limits.held_bytes
        ):
            self._give_up(call, "it had more output than is kept of running calls")
            return
        if begins:
            stream.starts.append(first)
            stream.runs.append(bytearray())
        stream.runs[-1] += data[first - end :]
        call.size += cost
        self.bytes_held += cost

    def put_back(self, fields: Sequence[StreamedField], results: Sequence[Result]) -> int:
        """Put output back into the fields of the results that were sent without it; returns how many bytes.

        Raises:
            OutputMissing: a field cannot be put together, or is not that of the device's digest.
        """
        count, done = 0, set()
        for streamed in fields:
            place = (streamed.result, streamed.field)
            if streamed.result >= len(results) or place in done:
                raise OutputMissing("it names a field that the results do not have.")
            done.add(place)
            result = results[streamed.result]
            text = self._whole(streamed, result)
            result.result = {**result.result, streamed.field: text}
            count += sum(end - first for first, end in streamed.spans)
        return count

    def _whole(self, streamed: StreamedField, result: Result) -> str:
        """The text of a field."""
        call = self._calls.get(result.call_id or "")
        rest = result.result.get(streamed.field) if isinstance(result.result, dict) else None
        if call is None or not isinstance(rest, str):
            raise OutputMissing("it names output of which nothing is kept.")
        if call.given_up:
            raise OutputMissing(call.given_up)
        data = _joined(streamed.spans, call.streams.get(streamed.field, _Stream()), rest.encode())
        if hashlib.sha256(data).hexdigest() != streamed.sha256:
            raise OutputMissing(f"its {streamed.field} is not what came as progress.")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise OutputMissing(f"its {streamed.field} is not text.") from None

    def _give_up(self, call: _Call, why: str) -> None:
        call.given_up = why
        call.streams.clear()
        self.bytes_held -= call.size
        call.size = 0

    def clear(self) -> None:
        """Drop everything: the link has ended."""
        self._calls.clear()
        self.bytes_held = 0


def _joined(spans: Sequence[Span], stream: _Stream, rest: bytes) -> bytearray:
    """The spans of a stream, with the rest in the gaps between them and after the last."""
    whole = bytearray()
    used = 0
    for first, end in spans:
        gap = first - len(whole)
        part = stream.part((first, end))
        if part is None or gap < 0 or end <= first or used + gap > len(rest):
            raise OutputMissing("it names output that did not come.")
        whole += rest[used : used + gap]
        whole += part
        used += gap
    return whole + rest[used:]


def streamed_fields(metadata: dict[str, Any] | None) -> list[StreamedField]:
    """The fields that were sent without their streamed output, from the metadata of the results' frame.

    Raises:
        OutputMissing: they cannot be read.
    """
    ours = (metadata or {}).get("quarterdeck")
    told = ours.get("streamed") if isinstance(ours, dict) else None
    if told is None:
        return []
    try:
        return _FIELDS.validate_python(told)
    except ValidationError:
        raise OutputMissing("what it says of its streamed output cannot be read.") from None

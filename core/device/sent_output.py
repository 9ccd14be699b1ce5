"""Output that was sent as progress of its call, and results without it (`streamed_output`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from core.aip.extensions import MOST_SPANS, OutputField, Span, StreamedField
from core.aip.messages import Result

# A reference to less would be as long as the output.
_LEAST_BYTES = 1024
_FIELDS: tuple[OutputField, ...] = get_args(OutputField)


class SentOutput:
    """Which bytes of one call's output were sent as progress over the link that gets its answer."""

    def __init__(self) -> None:
        self._spans: dict[str, list[Span]] = {}

    @property
    def is_worth_leaving_out(self) -> bool:
        """Whether more of a field was sent than a reference to it takes."""
        return any(_size(spans) >= _LEAST_BYTES for spans in self._spans.values())

    def add(self, stream: str, span: Span) -> None:
        """Note that these bytes of a stream were sent; they come after all before."""
        spans = self._spans.setdefault(stream, [])
        if spans and spans[-1][1] == span[0]:
            spans[-1] = (spans[-1][0], span[1])
        elif len(spans) < MOST_SPANS:
            spans.append(span)

    def within(self, stream: str, size: int) -> tuple[Span, ...]:
        """The part of the first `size` bytes that was sent: the device's limits may shorten a result."""
        spans = self._spans.get(stream, ())
        return tuple((first, min(end, size)) for first, end in spans if first < size)


def without_sent_output(
    results: Iterable[Result], sent: Mapping[str, SentOutput]
) -> tuple[list[Result], list[StreamedField]]:
    """The results of a frame without the output that was sent, by call id, and the fields that lack it.

    The given results are unchanged: they are kept for consoles that ask for them later.
    """
    shorter: list[Result] = []
    lacking: list[StreamedField] = []
    for place, result in enumerate(results):
        output = sent.get(result.call_id or "")
        if output is None or not isinstance(result.result, dict):
            shorter.append(result)
            continue
        value = dict(result.result)
        lacking += [one for name in _FIELDS if (one := _take_out(value, name, place, output))]
        shorter.append(result.model_copy(update={"result": value}))
    return shorter, lacking


def _take_out(
    value: dict[str, Any], name: OutputField, place: int, output: SentOutput
) -> StreamedField | None:
    """Leave only what was not sent in a field; None if it stays whole."""
    text = value.get(name)
    if not isinstance(text, str):
        return None
    try:
        data = text.encode()
        spans = output.within(name, len(data))
        if _size(spans) < _LEAST_BYTES:
            return None
        value[name] = _rest(data, spans).decode()
    except UnicodeError:
        # The field is not the text that was sent.
        return None
    return StreamedField(result=place, field=name, spans=spans, sha256=hashlib.sha256(data).hexdigest())


def _size(spans: Iterable[Span]) -> int:
    return sum(end - first for first, end in spans)


def _rest(data: bytes, spans: Sequence[Span]) -> bytes:
    ends = [0, *(end for _, end in spans)]
    starts = [*(first for first, _ in spans), len(data)]
    return b"".join(data[end:start] for end, start in zip(ends, starts, strict=True))

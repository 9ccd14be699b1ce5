"""Tracks the command frames of one link: those that wait for results, and those whose caller gave up."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.aip.binary_frames import PendingBinaryFrames
from core.aip.extensions import BLOB_KEY
from core.aip.frames import read_error_text
from core.aip.link_events import LateAnswer
from core.aip.messages import ClientMessage, Result
from core.aip.recall import late_answers, not_asked_for, read_recalled
from core.aip.streamed_output import OutputMissing, StreamedOutput, streamed_fields
from core.broken_text import mended_json
from core.errors import DeviceError, ErrorCode
from core.log import Logger
from core.text import clause, sentences, shorten_middle

log = Logger(__name__)

_FORGOTTEN_KEPT = 1024
# The limit for one result, without its long texts and bytes, which are stored apart: the result must fit into
# one journal entry, and every reader of the entry walks through each value.
MOST_BYTES = 7 * 1024 * 1024
_LONG_TEXT, _REST_OF_LONG_TEXT = 64 * 1024, 16_384
MOST_ERROR = 16_384
# The estimated weight of a value is at most this multiple of its JSON: `1.5` (3 bytes) counts as 24.
MOST_FOR_A_BYTE = 8
# Larger malformed frames are searched for the response id, not parsed: parsing the worst takes seconds. Those
# that no parser reads are searched, too.
_READ_WHOLE = 1024 * 1024
_RESPONSE_ID = re.compile(rb'"prev_response_id"\s*:\s*"([0-9A-Za-z-]{1,64})"')
# This also matches an escaped key of the tool (`$$blob"`).
_BLOB_WORD = f'{BLOB_KEY}"'.encode()


class LinkLost(DeviceError):
    """The link ended after sending had begun, so the device may have seen the command."""

    default_code = ErrorCode.OUTCOME_UNKNOWN


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """One pending command frame: the ids of its calls in order, and the future of its answer.

    `recalls` are the earlier calls that it asks for, if it is a recall.
    """

    call_ids: list[str | None]
    answer: asyncio.Future[list[Result]]
    recalls: tuple[str, ...] = ()


class PendingRequests:
    """Delivers results to the pending requests, by response id."""

    def __init__(
        self,
        name: str,
        on_late: Callable[[LateAnswer], None],
        blobs: PendingBinaryFrames | None,
        streamed: StreamedOutput | None = None,
        on_incomplete: Callable[[list[str]], object] = lambda call_ids: None,
    ) -> None:
        """`blobs` and `streamed` are None without the feature.

        `on_incomplete` gets calls whose late answer came without all of their output.
        """
        self._name = name
        self._on_late = on_late
        self._blobs = blobs
        self._streamed = streamed
        self._on_incomplete = on_incomplete
        self._pending: dict[str, PendingRequest] = {}
        self._given_up: OrderedDict[str, PendingRequest] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def given_up(self) -> int:
        """The number of abandoned frames that the device may still answer."""
        return len(self._given_up)

    def has_call(self, call_id: str) -> bool:
        """Whether this call is pending."""
        return any(call_id in pending.call_ids for pending in self._pending.values())

    def frame_of(self, call_id: str) -> str | None:
        """The response id of the pending frame that has this call and no other."""
        return next(
            (name for name, pending in self._pending.items() if pending.call_ids == [call_id]),
            None,
        )

    def expect(
        self, response_id: str, call_ids: list[str | None], recalls: Sequence[str] = ()
    ) -> PendingRequest:
        """Register a pending request; the caller ends every `expect` with exactly one `leave`."""
        pending = PendingRequest(call_ids, asyncio.get_running_loop().create_future(), tuple(recalls))
        self._pending[response_id] = pending
        return pending

    def leave(self, response_id: str, pending: PendingRequest) -> None:
        """Stop waiting, whether an answer came or not; an answer that comes afterwards is late."""
        if self._pending.pop(response_id, None) is not None:
            self._given_up[response_id] = pending
            if len(self._given_up) > _FORGOTTEN_KEPT:
                self._given_up.popitem(last=False)
        if self._blobs and not self._pending and not self._given_up:
            self._blobs.clear()
        if pending.answer.done() and not pending.answer.cancelled():
            # Without this, asyncio logs an error that was never awaited as "never retrieved".
            pending.answer.exception()

    def end(self, reason: str) -> None:
        """Fail all pending requests with `LinkLost`: the link has ended."""
        for pending in self._pending.values():
            self._fail(
                pending,
                LinkLost(f"The link to {self._name} was lost: {reason}; the command may have run."),
            )

    def take(self, message: ClientMessage, data: bytes) -> bool:
        """Deliver the results of a frame; false when no request ever had that response id."""
        response_id = message.prev_response_id or ""
        results = message.action_results or []
        pending = self._pending.pop(response_id, None)
        if pending is None and response_id not in self._given_up:
            return False
        call_ids = (pending or self._given_up[response_id]).call_ids
        try:
            wrong = self._complete(call_ids, message, results, data)
        except OutputMissing as missing:
            self._take_incomplete(response_id, pending, missing)
            return True
        if pending is None:
            self._late(response_id, results, wrong or "")
        elif wrong is not None:
            self._fail(
                pending,
                DeviceError(sentences(f"{self._name} answered wrongly: {wrong}"), ErrorCode.BAD_RESULT),
            )
        elif not pending.answer.done():
            pending.answer.set_result(results)
        return True

    def _complete(
        self, call_ids: list[str | None], message: ClientMessage, results: list[Result], data: bytes
    ) -> str | None:
        """Put bytes and streamed output back into the results; returns what is wrong with them, if anything.

        Raises:
            OutputMissing: some of the output has to be asked for.
        """
        # In any case: it drops what is too large.
        too_much = _bound(results, len(data))
        wrong = _mismatch(call_ids, results) or too_much
        if self._blobs is not None and _BLOB_WORD in data:
            wrong = wrong or self._fill(results)
        if wrong is not None or self._streamed is None:
            return wrong
        if count := self._streamed.put_back(streamed_fields(message.metadata), results):
            return _bound(results, len(data) + count)
        return None

    def _take_incomplete(
        self, response_id: str, pending: PendingRequest | None, missing: OutputMissing
    ) -> None:
        log.warning("output missing in an answer", device=self._name, reason=missing.message)
        if pending is not None:
            words = f"The answer of {self._name} came without all of its output ({clause(missing.message)})"
            self._fail(pending, OutputMissing(words))
            return
        given_up = self._given_up.pop(response_id)
        if call_ids := [call_id for call_id in given_up.call_ids if call_id is not None]:
            self._on_incomplete(call_ids)

    def _late(self, response_id: str, results: list[Result], problem: str) -> bool:
        given_up = self._given_up.pop(response_id, None)
        if given_up is None:
            return False
        log.warning("late answer", device=self._name, results=len(results), problem=problem)
        if given_up.recalls and results and not problem:
            self._late_recall(given_up.recalls, results[0])
        elif any(call_id is not None for call_id in given_up.call_ids):
            # The link's own requests (tool listing, cancel) have no call ids and belong to no command.
            self._on_late(LateAnswer(tuple(given_up.call_ids), tuple(results), problem))
        return True

    def _late_recall(self, call_ids: tuple[str, ...], answer: Result) -> None:
        """Report the late answers in an answer to a recall whose time is over."""
        try:
            recalled = read_recalled(self._name, call_ids, answer)
        except DeviceError as error:
            log.warning("late recall not read", device=self._name, reason=error.message)
            return
        self.report_not_asked_for(call_ids, answer)
        for late in late_answers(recalled):
            self._on_late(late)

    def report_not_asked_for(self, call_ids: Sequence[str], answer: Result) -> None:
        """Report an answer to a recall that names calls which were not asked for."""
        if wrong := not_asked_for(call_ids, answer):
            self._on_late(LateAnswer((None,), (), wrong, recalled=True))

    def inherit(self, previous: PendingRequests) -> None:
        """Take over the abandoned frames of the device's earlier link: it may answer them over this link."""
        self._given_up = OrderedDict([*previous._given_up.items(), *self._given_up.items()])
        while len(self._given_up) > _FORGOTTEN_KEPT:
            self._given_up.popitem(last=False)

    def _fill(self, results: list[Result]) -> str | None:
        assert self._blobs is not None
        try:
            self._blobs.put_back(results)
        except DeviceError as error:
            return error.message
        return None

    def take_error(self, message: ClientMessage) -> None:
        """Fail the pending request that the device's error frame names."""
        text = shorten_middle(message.error or "no reason given", MOST_ERROR)
        pending = self._pending.get(message.prev_response_id or "")
        if pending is None:
            self._late(message.prev_response_id or "", [], f"it could not serve the frame: {text}")
            return
        fault = read_error_text(text, ErrorCode.PROTOCOL_ERROR)
        self._fail(
            pending,
            DeviceError(f"{self._name} could not serve the frame: {fault.message}", ErrorCode.BAD_RESULT),
        )

    def fail_malformed(self, data: bytes, fault: DeviceError) -> None:
        """Fail the pending request that malformed results answer, if their response id can be read."""
        if not self._pending and not self._given_up:
            return
        response_id = _answered_by(data)
        pending = self._pending.get(response_id) if response_id is not None else None
        if pending is not None:
            self._fail(
                pending,
                DeviceError(
                    f"{self._name} sent a result that is not AIP: {fault.message}", ErrorCode.BAD_RESULT
                ),
            )
        elif response_id is not None:
            self._late(response_id, [], f"it is not AIP: {fault.message}")

    def _fail(self, pending: PendingRequest, error: DeviceError) -> None:
        if not pending.answer.done():
            pending.answer.set_exception(error)


def _answered_by(data: bytes) -> str | None:
    """The response id that malformed results claim to answer; a false id harms only the device itself."""
    try:
        if len(data) > _READ_WHOLE:
            raise ValueError("too large to be parsed")
        frame = json.loads(mended_json(data))
    except (ValueError, RecursionError):
        match = _RESPONSE_ID.search(data)
        return match[1].decode() if match else None
    response_id = frame.get("prev_response_id") if isinstance(frame, dict) else None
    return response_id if isinstance(response_id, str) else None


def _bound(results: list[Result], size: int) -> str | None:
    """Shorten overlong error texts; return a problem text if a result is too large for the journal.

    `size` is the frame's size in bytes.
    """
    for result in results:
        if result.error and len(result.error) > MOST_ERROR:
            result.error = shorten_middle(result.error, MOST_ERROR)
    if size * MOST_FOR_A_BYTE <= MOST_BYTES:
        return None
    if all(weight(result.result) <= MOST_BYTES for result in results):
        return None
    for result in results:
        # Dropped, so that no later code walks through the oversized value again.
        result.result = None
    return f"a result of more than {MOST_BYTES:,} bytes, its long texts not counted"


def weight(value: Any) -> int:
    """Estimate the most bytes that a value takes in the journal; counting stops above `MOST_BYTES`."""
    total = 0
    stack: list[Any] = [[value]]
    while stack:
        held = stack.pop()
        parts = held
        if isinstance(held, dict):
            total += sum(map(_bytes_of_text, held))
            parts = held.values()
        for part in parts:
            total += _bytes_of(part)
            if isinstance(part, dict | list):
                stack.append(part)
            if total > MOST_BYTES:
                return total
    return total


def _bytes_of(value: Any) -> int:
    """Estimate the most bytes that a value takes as JSON, without the members of a list or object."""
    if isinstance(value, str):
        if len(value) > _LONG_TEXT:
            return _REST_OF_LONG_TEXT
        return _bytes_of_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return 8 + value.bit_length() // 3
    return 24 if isinstance(value, float) else 6


def _bytes_of_text(text: str) -> int:
    return 4 + len(text) * (1 if text.isascii() and text.isprintable() else 6)


def _mismatch(call_ids: list[str | None], results: list[Result]) -> str | None:
    if len(results) != len(call_ids):
        return f"{len(results)} results for {len(call_ids)} commands"
    for call_id, result in zip(call_ids, results, strict=True):
        if result.call_id != call_id:
            return f"a result for call {result.call_id}, where {call_id} was next"
    return None

"""Runs the commands of a frame as AIP requires: in order, skipping those after a failure."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.aip.extensions import (
    CANCEL_COMMAND,
    FEATURE_NEXT_PIN,
    FEATURE_RECALL,
    NEXT_PIN_COMMAND,
    RECALL_COMMAND,
)
from core.aip.messages import Command, Result, ResultStatus
from core.device.binary_values import BinaryResult
from core.device.call_log import MOST_RECALLED, Call, CallLog, what_of
from core.device.config import Limits
from core.device.executor import Execution
from core.device.frames import Step
from core.device.guard import result_size
from core.device.progress import no_progress
from core.device.progress_sender import CallProgress
from core.device.router import Router, failure
from core.device.sent_output import SentOutput
from core.device.tool import NAMESPACE
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError

SKIPPED = "Skipped due to previous failure (early_exit=True)."
_SERVED_KEPT = 4096
# A console accepts frames of up to 32 MiB; the results of a batch share this much of it.
_FRAME_ROOM = 30 * 1024 * 1024
_SMALLEST_SHARE = 16 * 1024
# Limits the commands of all pending frames together: a frame of a million commands is a flood.
MOST_STEPS = 8192
# Waiting frames are in memory, and each may be as large as the link allows.
MOST_WAITING_BYTES = 128 * 1024 * 1024
_CONTROL = (CANCEL_COMMAND, RECALL_COMMAND, NEXT_PIN_COMMAND)


@dataclass(frozen=True, slots=True)
class Asker:
    """The features of the console that sent a frame; `progress_of` makes a `Report` if it wants progress.

    `shorten` leaves out the rest of a call's answer that is being sent; false where none is.
    `take_pin` takes the announcement of the console's next certificate, or raises a `QuarterdeckError`.
    """

    features: frozenset[str] = frozenset()
    progress_of: Callable[[str], CallProgress] | None = None
    shorten: Callable[[str], bool] = lambda call_id: False
    take_pin: Callable[[Mapping[str, Any]], None] | None = None


STOCK = Asker()


@dataclass(slots=True)
class Frame:
    """A running or waiting frame. `patience` limits the wait for its turn.

    `sent`: by call id, the output that was sent as progress, where it is worth leaving out.
    """

    steps: Sequence[Step]
    asker: Asker
    arrived: float
    size: int = 0
    calls: list[Call | None] = field(default_factory=list)
    # One for each step; empty if all steps repeat earlier calls.
    executions: list[Execution] = field(default_factory=list)
    patience: asyncio.Timeout | None = None
    repeats: bool = False
    sent: dict[str, SentOutput] = field(default_factory=dict)

    @property
    def is_cancelled(self) -> bool:
        """Whether every step was cancelled before it started."""
        return all(execution.cancelled for execution in self.executions)

    def on_cancel(self) -> None:
        """Stop waiting for a turn if nothing is left that needs it."""
        if self.patience is not None and self.is_cancelled:
            self.patience.reschedule(asyncio.get_running_loop().time())

    def ends_at(self, step: Step) -> float | None:
        """When a step's own deadline passes, on the loop's clock; None if it has none."""
        return None if step.terms is None else self.arrived + step.terms.deadline_s

    def latest(self) -> float | None:
        """When the last of all deadlines passes; None if a step has none."""
        ends = [self.ends_at(step) for step in self.steps]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None


class FrameRunner:
    """Runs frames: those with an action one after another, those with only observations beside them."""

    def __init__(self, router: Router, limits: Limits, deliveries: CallLog | None = None) -> None:
        self._router = router
        self._limits = limits
        self._deliveries = CallLog() if deliveries is None else deliveries
        self._served: OrderedDict[str, None] = OrderedDict()
        self._frames: dict[int, Frame] = {}

    def refusal(
        self, response_id: str | None, steps: Sequence[Step] = (), asker: Asker = STOCK, size: int = 0
    ) -> DeviceError | None:
        """Why a frame of `size` bytes is refused as a whole; None admits it and records its id."""
        if all(_is_control(step) for step in steps) and steps:
            # A console must be able to cancel while every limit is reached.
            return None
        if len(self._frames) >= self._limits.max_pending_frames:
            return DeviceError("This device has too many frames waiting.", ErrorCode.TIMEOUT)
        if len(steps) + sum(len(frame.steps) for frame in self._frames.values()) > MOST_STEPS:
            return DeviceError("This device has too many commands waiting.", ErrorCode.TIMEOUT)
        waiting = sum(frame.size for frame in self._frames.values())
        if waiting and waiting + size > MOST_WAITING_BYTES:
            return DeviceError("This device has too many bytes of commands waiting.", ErrorCode.TIMEOUT)
        if response_id is None:
            return None
        if response_id in self._served:
            keyed = FEATURE_RECALL in asker.features and steps
            if keyed and all(self._deliveries.find(step.call_id) is not None for step in steps):
                return None
            return DeviceError(
                "A frame with this response_id came before; nothing runs twice.", ErrorCode.PROTOCOL_ERROR
            )
        self._served[response_id] = None
        if len(self._served) > _SERVED_KEPT:
            self._served.popitem(last=False)
        return None

    def is_instant(self, steps: Sequence[Step]) -> bool:
        """Whether a frame is a single command that can be served without waiting."""
        if len(steps) != 1 or steps[0].command is None:
            return False
        if _is_control(steps[0]):
            return True
        return self._router.is_instant(steps[0].command) and self._deliveries.find(steps[0].call_id) is None

    def admit(self, steps: Sequence[Step], asker: Asker, arrived: float, size: int = 0) -> Frame:
        """Record a frame's commands; from now on they can be cancelled and recalled. `serve` must follow.

        `arrived` is when the frame arrived, on the loop's clock; deadlines count from it. `size`: bytes.
        """
        frame = Frame(steps, asker, arrived, size)
        self._frames[id(frame)] = frame
        if FEATURE_RECALL in asker.features:
            frame.repeats = bool(steps) and all(self._deliveries.find(step.call_id) for step in steps)
            if not frame.repeats:
                frame.calls = [self._accept(step) for step in steps]
        if not frame.repeats:
            admit = self._router.executor.admit
            frame.executions = [admit(step.call_id, frame.on_cancel) for step in steps]
        return frame

    async def run(self, steps: Sequence[Step], asker: Asker = STOCK) -> list[Result]:
        """Admit and serve steps that arrive now."""
        return await self.serve(self.admit(steps, asker, asyncio.get_running_loop().time()))

    async def serve(self, frame: Frame) -> list[Result]:
        """One result for each step of an admitted frame, in the order of the steps."""
        try:
            if frame.repeats:
                return [await self._again(frame, step) for step in frame.steps]
            commands = [step.command for step in frame.steps if step.command is not None]
            alone = any(not self._router.is_observation(command) for command in commands)
            async with self._turn(frame) if alone else contextlib.nullcontext(True) as has_turn:
                return await (self._in_order(frame) if has_turn else self._not_started(frame))
        finally:
            del self._frames[id(frame)]
            for execution in frame.executions:
                self._router.executor.release(execution)
            await self._end_calls(frame)

    @contextlib.asynccontextmanager
    async def _turn(self, frame: Frame) -> AsyncIterator[bool]:
        """Wait until no other frame with an action runs; False when deadlines passed or all was cancelled."""
        if frame.is_cancelled:
            yield False
            return
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(frame.latest()) as frame.patience:
                    await stack.enter_async_context(self._router.executor.turn)
            except TimeoutError:
                yield False
                return
            finally:
                frame.patience = None
            for execution in frame.executions:
                execution.has_turn = True
            yield True

    async def _not_started(self, frame: Frame) -> list[Result]:
        results = []
        for index, step in enumerate(frame.steps):
            fault = _why_not_started(step, frame.executions[index])
            results.append(failure(fault, step.call_id))
            await self._finish(frame, index, results[-1])
        return results

    async def _in_order(self, frame: Frame) -> list[Result]:
        results: list[Result] = []
        room, failed = _FRAME_ROOM, False
        for index, step in enumerate(frame.steps):
            if failed and not (step.command is not None and step.command.tool_name == ""):
                result = Result(status=ResultStatus.SKIPPED, error=SKIPPED, call_id=step.call_id)
            elif step.command is None:
                fault = step.fault or DeviceError("Not a command.", ErrorCode.PROTOCOL_ERROR)
                result = failure(fault, step.call_id)
            elif frame.executions[index].cancelled:
                result = failure(_why_not_started(step, frame.executions[index]), step.call_id)
            else:
                result = await self._one(frame, index, step.command, room)
                if len(frame.steps) > 1:
                    room = max(_SMALLEST_SHARE, room - _size(result))
            frame.executions[index].waiting = False
            failed = failed or result.status is ResultStatus.FAILURE
            await self._finish(frame, index, result)
            results.append(result)
        return results

    async def _one(self, frame: Frame, index: int, command: Command, room: int) -> Result:
        step, call = frame.steps[index], frame.calls[index] if frame.calls else None
        execution = frame.executions[index]
        if command.tool_name in _CONTROL:
            execution.waiting = False
            return await self._control(command, frame.asker)
        try:
            if frame.calls and call is None and command.call_id is not None:
                return self._known(step)
            if call is not None:
                await self._deliveries.begin(call)
        except QuarterdeckError as error:
            return failure(error, command.call_id)
        if execution.cancelled:
            # While the disk was waited for.
            return failure(_why_not_started(step, execution), step.call_id)
        execution.waiting = False
        seconds = self._limits.tool_timeout_s
        if (end := frame.ends_at(step)) is not None:
            seconds = min(seconds, end - asyncio.get_running_loop().time())
        most = room if len(frame.steps) > 1 else None
        make = frame.asker.progress_of
        run = functools.partial(self._router.run, command, seconds, most, binary=True, execution=execution)
        if make is None or command.call_id is None or self._router.is_instant(command):
            return await run(no_progress, step.terms)
        progress = make(command.call_id)
        try:
            return await run(progress, step.terms)
        finally:
            await progress.close()
            if progress.sent.is_worth_leaving_out:
                frame.sent[command.call_id] = progress.sent

    async def _control(self, command: Command, asker: Asker) -> Result:
        parameters = command.parameters or {}
        try:
            if command.tool_name == CANCEL_COMMAND:
                wanted = parameters.get("call_id")
                stopped = isinstance(wanted, str) and (
                    self._router.executor.cancel(wanted) or asker.shorten(wanted)
                )
                return _success(command, {"cancelled": stopped})
            if command.tool_name == NEXT_PIN_COMMAND:
                if FEATURE_NEXT_PIN not in asker.features or asker.take_pin is None:
                    raise BadInput("next_pin was not agreed on this link.", ErrorCode.UNKNOWN_TOOL)
                await asyncio.to_thread(asker.take_pin, parameters)
                return _success(command, {"taken": True})
            if FEATURE_RECALL not in asker.features:
                raise BadInput("recall was not agreed on this link.", ErrorCode.UNKNOWN_TOOL)
            asked = parameters.get("call_ids")
            if not isinstance(asked, list) or not all(
                isinstance(one, str) and len(one) <= 200 for one in asked
            ):
                raise BadInput("call_ids must be a list of texts.")
            if len(asked) > MOST_RECALLED:
                raise BadInput(f"At most {MOST_RECALLED} calls are recalled at once.", ErrorCode.TOO_LARGE)
            found, blobs = await self._deliveries.recall(list(dict.fromkeys(asked)), _FRAME_ROOM)
        except QuarterdeckError as error:
            return failure(error, command.call_id)
        return _success(command, found, BinaryResult(status=ResultStatus.SUCCESS, blobs=blobs))

    def _accept(self, step: Step) -> Call | None:
        """Record a new command; None for a command that has no id, is known, or cannot be recorded."""
        command = step.command
        if command is None or command.call_id is None or _is_control(step):
            return None
        if self._deliveries.find(command.call_id) is not None:
            return None
        try:
            action = not self._router.is_observation(command)
            return self._deliveries.accept(command, step.terms, action=action)
        except DeviceError:
            return None

    async def _again(self, frame: Frame, step: Step) -> Result:
        """The result of a command that came before: that of its first run, waited for if necessary."""
        try:
            call = self._same(step)
            seconds = self._limits.tool_timeout_s
            if (end := frame.ends_at(step)) is not None:
                seconds = min(seconds, end - asyncio.get_running_loop().time())
            async with asyncio.timeout(max(seconds, 0.0)):
                return await self._deliveries.wait(call)
        except TimeoutError:
            late = DeviceError("It is still running; ask again.", ErrorCode.OUTCOME_UNKNOWN)
            return failure(late, step.call_id)
        except QuarterdeckError as error:
            return failure(error, step.call_id)

    def _known(self, step: Step) -> Result:
        """The result of a step that came before, in a frame with new steps, which cannot wait for it."""
        call = self._same(step)
        if call.state in {"waiting", "running"}:
            raise DeviceError(
                "This call is known and has not ended; ask for it in a frame of its own.",
                ErrorCode.PROTOCOL_ERROR,
            )
        return self._deliveries.result_of(call)

    def _same(self, step: Step) -> Call:
        call = self._deliveries.find(step.call_id)
        if call is None or step.command is None:
            raise DeviceError("This call_id cannot be kept on this device.", ErrorCode.PROTOCOL_ERROR)
        if call.what and call.what != what_of(step.command, step.terms):
            raise DeviceError(
                "This call_id was that of another command; nothing was run.", ErrorCode.PROTOCOL_ERROR
            )
        return call

    async def _finish(self, frame: Frame, index: int, result: Result) -> None:
        call = frame.calls[index] if frame.calls else None
        if call is not None and call.state != "done":
            await self._deliveries.finish(call, result, _size(result))

    async def _end_calls(self, frame: Frame) -> None:
        """Finish the unanswered calls of a frame that ended early, so that no task waits for them."""
        for index, step in enumerate(frame.steps if frame.calls else ()):
            lost = DeviceError("The device client ended while it had this call.", ErrorCode.OUTCOME_UNKNOWN)
            await self._finish(frame, index, failure(lost, step.call_id))


def _why_not_started(step: Step, execution: Execution) -> DeviceError:
    name = step.command.tool_name if step.command is not None else "It"
    if execution.cancelled:
        return DeviceError(f"{name} was cancelled before it started.", ErrorCode.CANCELLED)
    seconds = step.terms.deadline_s if step.terms else 0.0
    return DeviceError(f"{name} was not started within {seconds:g} s.", ErrorCode.TIMEOUT)


def _is_control(step: Step) -> bool:
    return step.command is not None and step.command.tool_name in _CONTROL


def _success(command: Command, answer: object, base: Result | None = None) -> Result:
    result = base or Result(status=ResultStatus.SUCCESS)
    result.result, result.namespace, result.call_id = answer, NAMESPACE, command.call_id
    return result


def _size(result: Result) -> int:
    size = result_size(result.result)
    if isinstance(result, BinaryResult):
        size += sum(len(frame) for frame in result.blobs.values()) * 4 // 3
    return size

"""Runs the commands of one frame as AIP wants it: in order, and no further after a failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Sequence

from core.aip.messages import Command, Result, ResultStatus
from core.device.config import Limits
from core.device.frames import Step
from core.device.guard import result_size
from core.device.router import Router, failure
from core.errors import DeviceError, ErrorCode

SKIPPED = "Skipped due to previous failure (early_exit=True)."
_SERVED_KEPT = 4096
# A console takes 32 MiB in one frame; the results of one batch share what the rest of the frame leaves.
_FRAME_ROOM = 30 * 1024 * 1024
_SMALLEST_SHARE = 16 * 1024


class BatchRunner:
    """Frames with an action run one after another; frames that only look run beside them."""

    def __init__(self, router: Router, limits: Limits) -> None:
        self._router = router
        self._limits = limits
        self._one_batch = asyncio.Lock()
        self._served: OrderedDict[str, None] = OrderedDict()
        self._waiting = 0

    def refusal(self, response_id: str | None) -> DeviceError | None:
        """Why a frame may not run at all; None admits it, and remembers its id."""
        if self._waiting >= self._limits.max_pending_frames:
            return DeviceError("This device has too many frames waiting", ErrorCode.TIMEOUT)
        if response_id is None:
            return None
        if response_id in self._served:
            return DeviceError(
                "A frame with this response_id came before; nothing runs twice", ErrorCode.PROTOCOL_ERROR
            )
        self._served[response_id] = None
        if len(self._served) > _SERVED_KEPT:
            self._served.popitem(last=False)
        return None

    def is_instant(self, steps: Sequence[Step]) -> bool:
        """Whether a frame is one command that waits for nothing."""
        if len(steps) != 1 or steps[0].command is None:
            return False
        return self._router.is_instant(steps[0].command)

    async def run(self, steps: Sequence[Step]) -> list[Result]:
        """One result for each step, in the order of the steps."""
        commands = [step.command for step in steps if step.command is not None]
        alone = any(not self._router.is_observation(command) for command in commands)
        self._waiting += 1
        try:
            async with self._one_batch if alone else contextlib.nullcontext():
                return await self._in_order(steps)
        finally:
            self._waiting -= 1

    async def _in_order(self, steps: Sequence[Step]) -> list[Result]:
        results: list[Result] = []
        room, failed = _FRAME_ROOM, False
        for step in steps:
            if failed and not (step.command is not None and step.command.tool_name == ""):
                results.append(Result(status=ResultStatus.SKIPPED, error=SKIPPED, call_id=step.call_id))
                continue
            if step.command is None:
                fault = step.fault or DeviceError("Not a command", ErrorCode.PROTOCOL_ERROR)
                result = failure(fault, step.call_id)
            else:
                result = await self._one(step.command, room, alone=len(steps) == 1)
                if len(steps) > 1:
                    room = max(_SMALLEST_SHARE, room - result_size(result.result))
            failed = failed or result.status is ResultStatus.FAILURE
            results.append(result)
        return results

    async def _one(self, command: Command, room: int, *, alone: bool) -> Result:
        return await self._router.run(command, self._limits.tool_timeout_s, None if alone else room)

"""Sends commands to a device over successive links; an answer lost with a link is recalled over the next.

lost while a command runs ─► wait for the next link ─► recall ─┬─ done        return its result
                                                               ├─ running     ask again
                                                               └─ never seen  nothing was run, if it knew
An answer that came without all of its output (`OutputMissing`) is recalled over the same link. A command
frame is never sent twice; only the recall request is repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import ValidationError

from core.aip.device_link import DeviceLink
from core.aip.extensions import FEATURE_RECALL, CommandProof, RecalledResult
from core.aip.frames import error_text
from core.aip.messages import Command, Result, ResultStatus
from core.aip.pending_requests import LinkLost
from core.aip.streamed_output import OutputMissing
from core.errors import DeviceError, ErrorCode
from core.log import Logger
from core.text import clause, sentences

log = Logger(__name__)

WAIT_FOR_LINK = 30.0
RECALL_TIMEOUT = 10.0
# Seconds between two recall requests for a call that is still running.
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0


class ResumableLink:
    """A device as a channel sees it, independent of its present link."""

    def __init__(self, name: str, wait_for_link: float = WAIT_FOR_LINK) -> None:
        """`wait_for_link` is how many seconds a lost answer waits for the device to reconnect."""
        self.name = name
        self._wait_for_link = wait_for_link
        self._link: DeviceLink | None = None
        self._attached = asyncio.Event()
        self._recovering: set[str] = set()
        self._why_not = "not connected"
        self._closed = False

    @property
    def link(self) -> DeviceLink | None:
        """The present link, or None."""
        return self._link

    @property
    def is_open(self) -> bool:
        """Whether a command can be sent now."""
        return self._link is not None and self._link.is_open

    @property
    def recovering(self) -> int:
        """The number of calls whose lost answers are being recalled."""
        return len(self._recovering)

    def attach(self, link: DeviceLink) -> None:
        """Use this link from now on, and wake the calls that wait for a link."""
        self._link = link
        # Waiting calls hold the old event; the new event is for the next link.
        attached, self._attached = self._attached, asyncio.Event()
        attached.set()

    def detach(self, link: DeviceLink, reason: str) -> None:
        """Remove a link that has ended; a newer link stays."""
        if self._link is link:
            self._link = None
            self._why_not = reason

    def close(self, reason: str) -> None:
        """Stop waiting for links, for example when a device is revoked; waiting calls end as unknown."""
        self._closed, self._why_not, self._link = True, reason, None
        self._attached.set()

    async def send_commands(
        self, commands: Sequence[Command], timeout: float, grounds: Sequence[CommandProof] = ()
    ) -> list[Result]:
        """Send over the present link; recall results that were lost with it, or came without all output.

        Raises:
            BadInput, Refused, DeviceError: as `DeviceLink.send_commands`; also `device_offline` when the
                device reports after a loss that it never saw the commands, and so will never run them.
        """
        link = self._link
        if link is None:
            raise DeviceError(sentences(f"{self.name} is offline: {self._why_not}"))
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + timeout
        try:
            return await link.send_commands(commands, timeout, grounds)
        except (LinkLost, OutputMissing) as lost:
            call_ids = [command.call_id for command in commands if command.call_id]
            if FEATURE_RECALL not in link.features or len(set(call_ids)) != len(commands):
                raise
            # After the time-out only an answer that was arriving is still waited for: the rest of it comes.
            if (now := loop.time()) >= deadline or isinstance(lost, OutputMissing):
                deadline = max(deadline, now + self._wait_for_link)
            self._recovering.update(call_ids)
            try:
                if isinstance(lost, LinkLost):
                    link = await self._next_link(link, deadline, lost)
                answers = await self._recover(link, call_ids, deadline, lost)
            finally:
                self._recovering.difference_update(call_ids)
            return self._results(commands, answers, loop.time() - began, lost)

    async def _recover(
        self, link: DeviceLink, call_ids: list[str], deadline: float, lost: DeviceError
    ) -> dict[str, RecalledResult]:
        log.info("answer recalled", device=self.name, calls=len(call_ids), reason=lost.message)
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while True:
            try:
                answers = await link.recall(call_ids, min(RECALL_TIMEOUT, deadline - loop.time()))
            except LinkLost as again:
                link = await self._next_link(link, deadline, again)
                continue
            except DeviceError as error:
                if error.code is ErrorCode.DEVICE_OFFLINE:
                    link = await self._next_link(link, deadline, lost)
                    continue
                raise LinkLost(f"{clause(lost.message)}; asked again: {error.message}") from error
            if not any(answer.state == "running" for answer in answers.values()):
                return answers
            if loop.time() + pause >= deadline:
                raise LinkLost(f"{clause(lost.message)}; it still ran when the time was over.")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _next_link(self, old: DeviceLink, deadline: float, lost: DeviceError) -> DeviceLink:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + self._wait_for_link)):
                while self._link is None or self._link is old or not self._link.is_open:
                    if self._closed:
                        raise lost
                    await self._attached.wait()
        except TimeoutError:
            raise lost from None
        if FEATURE_RECALL not in self._link.features:
            raise lost
        return self._link

    def _results(
        self, commands: Sequence[Command], answers: dict[str, RecalledResult], age_s: float, lost: DeviceError
    ) -> list[Result]:
        """The results of commands that were sent so many seconds ago, from what the device says of them."""
        never: dict[str, DeviceError] = {
            call_id: self._never_seen(answer, age_s, command, lost)
            for command in commands
            if (call_id := command.call_id or "") and (answer := answers[call_id]).state == "never_seen"
        }
        if len(never) == len(commands):
            # If it is unknown for one of them, it is for the frame.
            raise next(
                (fault for fault in never.values() if isinstance(fault, LinkLost)), next(iter(never.values()))
            )
        results: list[Result] = []
        for call_id, answer in answers.items():
            if call_id in never:
                status = ResultStatus.FAILURE
                results.append(Result(status=status, error=error_text(never[call_id]), call_id=call_id))
                continue
            try:
                result = Result.model_validate(answer.result)
            except ValidationError:
                result = None
            if result is None or result.call_id != call_id:
                raise DeviceError(f"{self.name} kept no result for {call_id}.", ErrorCode.BAD_RESULT)
            results.append(result)
        return results

    def _never_seen(
        self, answer: RecalledResult, age_s: float, command: Command, lost: DeviceError
    ) -> DeviceError:
        # A device that had answered cannot say that it never saw the command.
        if isinstance(lost, LinkLost) and answer.never_ran(age_s, action=command.tool_type == "action"):
            words = f"{self.name} was lost before it saw the command; nothing was run"
            return DeviceError(words, ErrorCode.DEVICE_OFFLINE)
        return LinkLost(f"{clause(lost.message)}; {self.name} knows nothing of it, or no longer.")

    async def cancel(self, call_id: str) -> bool:
        """Ask the device to stop a command, even if it was sent over an earlier link."""
        link = self._link
        if link is None:
            return False
        if call_id in self._recovering:
            return await link.ask_to_cancel(call_id)
        return await link.cancel(call_id)

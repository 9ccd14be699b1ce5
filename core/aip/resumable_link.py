"""One device over all its links: an answer that was lost with one link is asked for over the next.

lost while a command runs ─► wait for the next link ─► recall ─┬─ done        its result
                                                               ├─ running     ask again
                                                               └─ never seen  nothing was run
A command frame is never sent twice; only the question what became of it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from pydantic import ValidationError

from core.aip.device_link import DeviceLink
from core.aip.extensions import FEATURE_RECALL, CommandProof, RecalledResult
from core.aip.frames import error_text
from core.aip.messages import Command, Result, ResultStatus
from core.aip.pending_requests import LinkLost
from core.errors import DeviceError, ErrorCode

log = structlog.get_logger(__name__)

WAIT_FOR_LINK = 30.0
RECALL_TIMEOUT = 10.0
# Between two questions about a call that still runs.
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0


class ResumableLink:
    """What a channel talks to: the device, whichever link it has now."""

    def __init__(self, name: str, wait_for_link: float = WAIT_FOR_LINK) -> None:
        """`wait_for_link`: how many seconds a lost answer waits for the device to come back."""
        self.name = name
        self._wait_for_link = wait_for_link
        self._link: DeviceLink | None = None
        self._attached = asyncio.Event()
        self._recovering: set[str] = set()
        self._why_not = "not connected"
        self._closed = False

    @property
    def link(self) -> DeviceLink | None:
        """The present link, if there is one."""
        return self._link

    @property
    def is_open(self) -> bool:
        """Whether a command can be sent now."""
        return self._link is not None and self._link.is_open

    @property
    def recovering(self) -> int:
        """How many calls wait to learn what became of them."""
        return len(self._recovering)

    def attach(self, link: DeviceLink) -> None:
        """Use this link from now on; what waits for one goes on."""
        self._link = link
        # Whoever waits holds the old event; the next one is for the next link.
        attached, self._attached = self._attached, asyncio.Event()
        attached.set()

    def detach(self, link: DeviceLink, reason: str) -> None:
        """This link has ended; an old one cannot take a newer one away."""
        if self._link is link:
            self._link = None
            self._why_not = reason

    def close(self, reason: str) -> None:
        """No link will come any more, as when a device is revoked; what waits for one ends as unknown."""
        self._closed, self._why_not, self._link = True, reason, None
        self._attached.set()

    async def send_commands(
        self, commands: Sequence[Command], timeout: float, grounds: Sequence[CommandProof] = ()
    ) -> list[Result]:
        """Send over the present link, and find out over the next one what a lost link left open.

        Raises:
            BadInput, Refused, DeviceError: as `DeviceLink.send_commands`; `device_offline` too when the
                device says after a loss that it never saw the command, and so will never run it.
        """
        link = self._link
        if link is None:
            raise DeviceError(f"{self.name} is offline: {self._why_not}")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            return await link.send_commands(commands, timeout, grounds)
        except LinkLost as lost:
            call_ids = [command.call_id for command in commands if command.call_id]
            if FEATURE_RECALL not in link.features or len(set(call_ids)) != len(commands):
                raise
            self._recovering.update(call_ids)
            try:
                return await self._recover(link, call_ids, deadline, lost)
            finally:
                self._recovering.difference_update(call_ids)

    async def _recover(
        self, link: DeviceLink, call_ids: list[str], deadline: float, lost: LinkLost
    ) -> list[Result]:
        log.info("answer lost with the link", device=self.name, calls=len(call_ids))
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        link = await self._next_link(link, deadline, lost)
        while True:
            try:
                told = await link.recall(call_ids, min(RECALL_TIMEOUT, deadline - loop.time()))
            except LinkLost as again:
                link = await self._next_link(link, deadline, again)
                continue
            except DeviceError as error:
                if error.code is ErrorCode.DEVICE_OFFLINE:
                    link = await self._next_link(link, deadline, lost)
                    continue
                raise LinkLost(f"{lost.message}; asked again: {error.message}") from error
            if not any(one.state == "running" for one in told.values()):
                return self._results(call_ids, told)
            if loop.time() + pause >= deadline:
                raise LinkLost(f"{lost.message}; it still ran when the time was over")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _next_link(self, old: DeviceLink, deadline: float, lost: LinkLost) -> DeviceLink:
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

    def _results(self, call_ids: list[str], told: dict[str, RecalledResult]) -> list[Result]:
        never = DeviceError(
            f"{self.name} was lost before it saw the command; nothing was run", ErrorCode.DEVICE_OFFLINE
        )
        if all(one.state == "never_seen" for one in told.values()):
            raise never
        results: list[Result] = []
        for call_id in call_ids:
            if told[call_id].state == "never_seen":
                status = ResultStatus.FAILURE
                results.append(Result(status=status, error=error_text(never), call_id=call_id))
                continue
            try:
                result = Result.model_validate(told[call_id].result)
            except ValidationError:
                result = None
            if result is None or result.call_id != call_id:
                raise DeviceError(f"{self.name} kept no result for {call_id}", ErrorCode.BAD_RESULT)
            results.append(result)
        return results

    async def cancel(self, call_id: str) -> bool:
        """Ask the device to stop a command, also one that came over an earlier link."""
        link = self._link
        if link is None:
            return False
        if call_id in self._recovering:
            return await link.ask_to_cancel(call_id)
        return await link.cancel(call_id)

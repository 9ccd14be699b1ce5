"""Channels to devices: tools in this process, and AIP over a WebSocket. Both demand a permit per command."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from core.aip.extensions import CommandOptions, CommandProof
from core.aip.frames import error_text
from core.aip.messages import Command, Result, ResultStatus, ToolInfo
from core.aip.tool_discovery import list_tools
from core.commands.permit import Gate, PermittedCommand
from core.errors import DeviceError, ErrorCode, QuarterdeckError
from core.log import Logger

log = Logger(__name__)

# Seconds; applies where the caller gives no timeout.
DEFAULT_TIMEOUT = 60.0


class BasicCommandDispatcher(ABC):
    """AIP's dispatcher interface: takes commands, returns one result for each, in order."""

    @abstractmethod
    async def execute_commands(
        self, commands: Sequence[PermittedCommand], timeout: float = DEFAULT_TIMEOUT
    ) -> list[Result]:
        """Run commands on the device; `timeout` is in seconds, for all of them together.

        Raises:
            Refused: a permit is missing, used, or for another command; nothing was sent.
            DeviceError: `device_offline` if nothing was sent, `outcome_unknown` if something may have been.
        """

    def generate_error_results(self, commands: Sequence[Command], error: Exception) -> list[Result]:
        """Make a failure result for each command, with `Error executing TOOL: ERROR` as error and as result.

        The error text of a `QuarterdeckError` begins with its code, in the format of `core.aip.frames`.
        """
        said = str(error) or type(error).__name__
        results = []
        for command in commands:
            text = f"Error executing {command.tool_name}: {said}"
            coded = text
            if isinstance(error, QuarterdeckError):
                coded = error_text(QuarterdeckError(text, error.code))
            results.append(
                Result(status=ResultStatus.FAILURE, error=coded, result=text, call_id=command.call_id)
            )
        return results

    @abstractmethod
    async def list_tools(self, timeout: float) -> list[ToolInfo]:
        """Ask the device for its tools. This is AIP's own meta command: it only reads and needs no permit."""

    @abstractmethod
    async def cancel(self, call_id: str) -> bool:
        """Ask the device to cancel a running command; False when the device cannot be asked."""


class Tools(Protocol):
    """The part of the device client's router that the local channel needs."""

    def tools(self) -> list[ToolInfo]: ...
    async def run(
        self, command: Command, deadline_s: float, *, terms: CommandOptions | None = None
    ) -> Result: ...
    def cancel(self, call_id: str) -> bool: ...


class Link(Protocol):
    """The part of a device's AIP link, or of its line over many links, that the WebSocket channel needs."""

    async def send_commands(
        self, commands: Sequence[Command], timeout: float, grounds: Sequence[CommandProof] = ()
    ) -> list[Result]: ...
    async def cancel(self, call_id: str) -> bool: ...


class LocalCommandDispatcher(BasicCommandDispatcher):
    """A channel to the device client's own tools, run in this process."""

    def __init__(self, device: str, tools: Tools, gate: Gate) -> None:
        self._device = device
        self._tools = tools
        self._gate = gate

    async def execute_commands(
        self, commands: Sequence[PermittedCommand], timeout: float = DEFAULT_TIMEOUT
    ) -> list[Result]:
        redeemed = [self._gate.redeem(self._device, permitted) for permitted in commands]
        results: list[Result] = []
        for command, permitted in zip(redeemed, commands, strict=True):
            if any(result.status is ResultStatus.FAILURE for result in results):
                results.append(_skipped(command))
                continue
            try:
                results.append(await self._run(command, permitted, timeout))
            except QuarterdeckError:
                raise
            except Exception as error:  # boundary: a tool's exception becomes its result, as over a link
                log.exception("tool failed", tool=command.tool_name)
                results += self.generate_error_results([command], error)
        return results

    async def _run(self, command: Command, permitted: PermittedCommand, timeout: float) -> Result:
        if permitted.approval is None:
            return await self._tools.run(command, timeout)
        terms = CommandOptions(deadline_s=timeout, digest=permitted.digest, approval=permitted.approval)
        return await self._tools.run(command, timeout, terms=terms)

    async def list_tools(self, timeout: float) -> list[ToolInfo]:
        return self._tools.tools()

    async def cancel(self, call_id: str) -> bool:
        return self._tools.cancel(call_id)


class WebSocketCommandDispatcher(BasicCommandDispatcher):
    """A channel to a device over its AIP link."""

    def __init__(self, device: str, link: Link, gate: Gate) -> None:
        self._device = device
        self._link = link
        self._gate = gate

    async def execute_commands(
        self, commands: Sequence[PermittedCommand], timeout: float = DEFAULT_TIMEOUT
    ) -> list[Result]:
        redeemed = [self._gate.redeem(self._device, permitted) for permitted in commands]
        # Redeeming the permits has compared the digests.
        grounds = [CommandProof(permitted.digest, permitted.approval) for permitted in commands]
        try:
            return await self._link.send_commands(redeemed, timeout, grounds)
        except QuarterdeckError:
            raise
        except Exception as error:  # boundary: the commands may have been sent, so the outcome is unknown
            log.exception("link failed", device=self._device)
            said = f"The link failed while {self._device} had it: {str(error) or type(error).__name__}"
            raise DeviceError(said, ErrorCode.OUTCOME_UNKNOWN) from error

    async def list_tools(self, timeout: float) -> list[ToolInfo]:
        # Stock devices are asked by `core.fleet.registration`. This device runs our client, whose listing
        # tools are ordinary tools.
        return await list_tools(self._link, timeout, with_meta=True)

    async def cancel(self, call_id: str) -> bool:
        return await self._link.cancel(call_id)


def _skipped(command: Command) -> Result:
    return Result(
        status=ResultStatus.SKIPPED,
        error="Skipped due to previous failure (early_exit=True).",
        call_id=command.call_id,
    )

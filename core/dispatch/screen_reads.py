"""Reads a device's screen on behalf of another command: a picture, or the control that the command means.

Each read is an observation through the dispatcher, with its own entries in the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from core.approvals.preview_models import Region
from core.audit.events import EvidenceTaken
from core.commands.request import CommandRequest, Purpose
from core.commands.results import CommandResult, Evidence
from core.controls import SHOWING, Node, is_complete, meant, search_for
from core.dispatch.command import DispatchedCommand
from core.dispatch.entries import command_entry
from core.dispatch.interfaces import Recorder
from core.dispatch.stale_target import Freshness, Screenshot, compare, screenshot_in
from core.errors import BadInput, ErrorCode, QuarterdeckError
from core.models.tool_names import SCREENSHOT, UI_TREE
from core.models.tools import BUILT_IN_NAMESPACE

READ_TIMEOUT = 20.0
"""Seconds for one read."""

Dispatch = Callable[[CommandRequest], Awaitable[CommandResult]]


class ScreenReads:
    """Takes pictures and finds controls for other commands, all for one `purpose`."""

    def __init__(self, dispatch: Dispatch, purpose: Purpose) -> None:
        self._dispatch = dispatch
        self._purpose = purpose

    async def picture(
        self, request: CommandRequest, parameters: dict[str, Any], cancelled: Callable[[], bool] | None = None
    ) -> Screenshot:
        """Take a picture; `cancelled` replaces the request's own.

        Raises:
            QuarterdeckError: no picture can be taken.
        """
        wish = self._wish(request, SCREENSHOT, parameters, cancelled or request.cancelled)
        result = await self._answer(wish)
        seen = screenshot_in(wish, result)
        if seen is None:
            raise QuarterdeckError(f"{request.device} sent no picture.", ErrorCode.BAD_RESULT)
        return seen

    async def tree(self, command: DispatchedCommand, cancelled: Callable[[], bool] | None = None) -> Any:
        """The controls among which the target of a command is, for `the_one`.

        Raises:
            QuarterdeckError: they cannot be read.
        """
        request = command.request
        wish = self._wish(request, UI_TREE, search_of(command), cancelled or request.cancelled)
        return (await self._answer(wish)).result

    async def _answer(self, wish: CommandRequest) -> CommandResult:
        result = await self._dispatch(wish)
        if result.error is not None:
            raise QuarterdeckError(result.error.message, result.error.code)
        return result

    def _wish(
        self, request: CommandRequest, tool: str, parameters: dict[str, Any], cancelled: Callable[[], bool]
    ) -> CommandRequest:
        return CommandRequest(
            request.device,
            tool,
            parameters,
            "service",
            timeout=READ_TIMEOUT,
            purpose=self._purpose,
            evidence_for=request.call_id,
            machine=request.machine,
            cancelled=cancelled,
        )


def search_of(command: DispatchedCommand) -> dict[str, Any]:
    """The arguments of the call that finds a command's target, as the device's own `get_ui_tree` takes them.

    Raises:
        BadInput: the command names two different programs.
    """
    tree = command.target.tools.get(UI_TREE)
    schema = tree.input_schema if tree is not None else {}
    properties = schema.get("properties")
    return search_for(command.arguments.sent, properties if isinstance(properties, dict) else {})


async def compared(journal: Recorder, card: Screenshot, now: Screenshot, region: Region) -> Freshness:
    """Compare a region of two pictures.

    Raises:
        QuarterdeckError: a picture is missing or cannot be read, or the region is outside it.
    """
    if (card.left, card.top) != (now.left, now.top) and card.evidence is not None:
        return Freshness(fresh=False, region=region, why="the window has moved")
    old, new = await journal.get_blob(card.blob), await journal.get_blob(now.blob)
    return await asyncio.to_thread(compare, old, new, region, now.scale)


def the_one(tree: Any, command: DispatchedCommand) -> Node:
    """The only control that fits a command, in the result of its search.

    Raises:
        BadInput: none fits, or several do.
    """
    fit = meant(tree, command.arguments.sent)
    cut = "" if is_complete(tree) else ", of those that could be read"
    if len(fit) != 1:
        count = f"{len(fit)} controls fit" if fit else "no control fits"
        raise BadInput(f"{count} it now{cut}.")
    if cut and command.arguments.sent.get("control_id") is None and SHOWING not in fit[0].states:
        # The device would press a showing control instead, which may be among those not read here.
        raise BadInput(f"no control that is showing fits it now{cut}.")
    return fit[0]


def tells_where(command: DispatchedCommand) -> bool:
    """Whether the device's own tools report control positions, so that the card can mark the target.

    Only then is a comparison promised, and a control that is not found at sending stops the command. A
    hosted server's tool of the same name may interpret its arguments differently.
    """
    tree = command.target.tools.get(UI_TREE)
    return all(tool is not None and tool.namespace == BUILT_IN_NAMESPACE for tool in (command.tool, tree))


def keep_picture(
    journal: Recorder, command: DispatchedCommand, seen: Screenshot, moment: str, **more: Any
) -> Evidence:
    """Tie a picture to its command, and record that.

    A picture that was taken must be recorded, so its entry waits if the journal cannot be written now.
    """
    assert seen.evidence is not None, "only pictures that were taken here are kept"
    kept = seen.evidence.model_copy(update={"what": moment})
    picture = kept.model_dump(mode="json")
    event = EvidenceTaken(moment=moment, digest=command.shown.digest, picture=picture, **more)
    journal.note_late([command_entry(command.request, event, "service", blobs=[kept.blob])])
    return kept


def keep_missing(journal: Recorder, command: DispatchedCommand, moment: str, why: str) -> None:
    """Record that no picture could be taken at this moment of a command."""
    event = EvidenceTaken(moment=moment, digest=command.shown.digest, missing=why)
    journal.note_late([command_entry(command.request, event, "service")])

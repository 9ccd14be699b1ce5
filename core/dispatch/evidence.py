"""Evidence: pictures before and after a command, taken through the dispatcher like any other command.

Each picture is an observation with its own entries; an `evidence_taken` entry ties it to its command by the
command's digest and the picture's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from core.approvals.models import Approval
from core.approvals.preview_models import Region
from core.audit.events import EvidenceTaken
from core.controls import SHOWING, Node, is_complete, meant, search_for
from core.dispatch.command import PreparedCommand
from core.dispatch.command_request import CommandRequest, Purpose, Recorder
from core.dispatch.entries import command_entry
from core.dispatch.models import CommandResult, Evidence
from core.dispatch.stale_target import (
    Freshness,
    Screenshot,
    ScreenshotCache,
    around_point,
    compare,
    has_screen_target,
    screenshot_in,
    target_text,
    targets_point,
)
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.fleet.models import BUILT_IN_NAMESPACE
from core.policy.analysis.built_in_tools import SCREENSHOT, UI_TREE
from core.policy.models import Decision, Moment

PICTURE_TIMEOUT = 20.0
_BY_WILL = frozenset({ErrorCode.STOPPED, ErrorCode.CANCELLED, ErrorCode.JOURNAL_UNAVAILABLE})

Dispatch = Callable[[CommandRequest], Awaitable[CommandResult]]


class StaleTargetError(Refused):
    """Raised just before sending; carries the pictures that show why."""

    def __init__(self, message: str, code: ErrorCode, evidence: list[Evidence]) -> None:
        super().__init__(message, code)
        self.evidence = evidence


class EvidenceTaker:
    """Takes the pictures that rules demand, and checks that a target still looks as approved."""

    def __init__(self, dispatch: Dispatch, journal: Recorder) -> None:
        self._dispatch = dispatch
        self._journal = journal
        self.pictures = ScreenshotCache()

    def on_card(self, command: PreparedCommand) -> Screenshot | None:
        """The picture that an approval card of this command shows now; None if it shows none."""
        request = command.request
        if not has_screen_target(command.tool.tool_name, request.parameters):
            return None
        if targets_point(command.tool.tool_name):
            return self.pictures.by_observation(request.device, request.parameters.get("observation"))
        known, blob = self.pictures.latest(request.device), command.target.device.picture
        if known is not None and (blob is None or known.blob == blob):
            return known
        # Taken before the service started: assumed to show the whole screen.
        return Screenshot(blob) if blob else None

    async def before(
        self, command: PreparedCommand, decision: Decision, approval: Approval | None, card: Screenshot | None
    ) -> list[Evidence]:
        """Take the demanded picture before sending, and compare the target with the card's picture.

        Returns the demanded picture, if any.

        Raises:
            StaleTargetError: the target has changed, or it cannot be determined whether it has.
            Refused: a picture that a rule demands cannot be taken, dispatch was stopped, or the command was
                cancelled.
        """
        request = command.request
        if request.purpose is Purpose.EVIDENCE:
            return []
        demanded: list[Evidence] = []
        taken: Screenshot | None = None
        if Moment.BEFORE in decision.evidence:
            try:
                taken = await self._picture(request, {})
            except QuarterdeckError as error:
                raise _unfit(error, _wanting(decision, Moment.BEFORE)) from error
            demanded.append(self._keep(command, taken, "before"))
        named = targets_point(command.tool.tool_name) and "observation" in request.parameters
        if approval is not None and card is None and named:
            # Otherwise an agent could take so many pictures that the card's picture is evicted, and skip the
            # comparison.
            words = "The picture that it names is not known here any more, so nothing can be compared."
            raise StaleTargetError(words, ErrorCode.STALE_OBSERVATION, [])
        if approval is None or not has_screen_target(command.tool.tool_name, request.parameters):
            return demanded
        if not targets_point(command.tool.tool_name):
            card = self._seen_since(request.device, card)
        if card is not None:
            await self._check_fresh(command, card, taken)
        return demanded

    def _seen_since(self, device: str, card: Screenshot | None) -> Screenshot | None:
        """The picture to compare with: an operator's later picture replaces the card's, an agent's does not.

        Raises:
            StaleTargetError: the card had no picture at first and only agents have taken pictures since, so
                what the card showed is unknown.
        """
        later = self.pictures.latest_by_operator(device)
        if card is None and later is None and self.pictures.latest(device) is not None:
            words = "The first picture of this device was taken after it was asked for, and by no operator."
            raise StaleTargetError(words, ErrorCode.STALE_OBSERVATION, [])
        return later if later is not None and (card is None or later.taken > card.taken) else card

    async def after(
        self, command: PreparedCommand, decision: Decision, result: CommandResult
    ) -> CommandResult:
        """The result with a picture taken after the command; a failed picture is recorded as missing."""
        if Moment.AFTER not in decision.evidence or command.request.purpose is Purpose.EVIDENCE:
            return result
        try:
            taken = await self._picture(command.request, {}, lasting=True)
            return result.seen_after(self._keep(command, taken, Moment.AFTER.value))
        except QuarterdeckError as error:
            event = EvidenceTaken(
                moment=Moment.AFTER.value, digest=command.shown.digest, missing=error.message
            )
            self._journal.note_late([command_entry(command.request, event, "service")])
            return result.not_seen_after(error.message)

    async def _picture(
        self, request: CommandRequest, parameters: dict[str, Any], lasting: bool = False
    ) -> Screenshot:
        """Take one picture. `lasting`: also if the command, which has already run, was cancelled."""
        wish = CommandRequest(
            request.device,
            SCREENSHOT,
            parameters,
            "service",
            timeout=PICTURE_TIMEOUT,
            purpose=Purpose.EVIDENCE,
            evidence_for=request.call_id,
            cancelled=(lambda: False) if lasting else request.cancelled,
        )
        result = await self._dispatch(wish)
        if result.error is not None:
            raise QuarterdeckError(result.error.message, result.error.code)
        seen = screenshot_in(wish, result)
        if seen is None:
            raise QuarterdeckError(f"{request.device} sent no picture.", ErrorCode.BAD_RESULT)
        return seen

    def _keep(self, command: PreparedCommand, seen: Screenshot, moment: str, **more: Any) -> Evidence:
        """Tie a picture to its command, and record that.

        A picture that was taken must be recorded, so its entry waits if the journal cannot be written now.
        """
        assert seen.evidence is not None, "only pictures that were taken here are kept"
        kept = seen.evidence.model_copy(update={"what": moment})
        picture = kept.model_dump(mode="json")
        event = EvidenceTaken(moment=moment, digest=command.shown.digest, picture=picture, **more)
        self._journal.note_late([command_entry(command.request, event, "service", blobs=[kept.blob])])
        return kept

    async def _check_fresh(
        self, command: PreparedCommand, card: Screenshot, taken: Screenshot | None
    ) -> None:
        target = target_text(command.tool.tool_name, command.request.parameters)
        try:
            target_now = await self._target_now(command, card, taken)
            if target_now is None:
                return
            now, region = target_now
            found = await self._compared(card, now, region)
        except QuarterdeckError as error:
            if error.code in _BY_WILL:
                raise Refused(error.message, error.code) from error
            words = f"Whether {target} is still as it was on the card cannot be seen: {error.message}"
            raise StaleTargetError(words, ErrorCode.STALE_OBSERVATION, []) from error
        if found.fresh:
            return
        kept = self._keep(
            command, now, "just before", card=card.blob, region=found.region.model_dump(), why=found.why
        )
        shown = [] if card.evidence is None else [card.evidence.model_copy(update={"what": "on the card"})]
        raise StaleTargetError(
            f"{target} does not look as it did on the card: {found.why}. Nothing was sent.",
            ErrorCode.STALE_OBSERVATION,
            [*shown, kept],
        )

    async def _target_now(
        self, command: PreparedCommand, card: Screenshot, taken: Screenshot | None
    ) -> tuple[Screenshot, Region] | None:
        """A picture of now, and the target's place in it; None if the card could not mark the target either.

        Raises:
            QuarterdeckError: the target, or its place, cannot be determined now.
        """
        request = command.request
        if targets_point(command.tool.tool_name):
            reusable = taken if taken is not None and card.parameters == {} else None
            return reusable or await self._picture(request, card.parameters), _around(request.parameters)
        control = await self._control(command)
        if control is None:
            return None
        # Taken after the tree, for which a program may take seconds: the comparison is the last look.
        picture = await self._picture(request, card.parameters)
        place = _place_of(control, picture)
        if place is None and _tells_where(command):
            raise BadInput("it has no place on the screen now.")
        return None if place is None else (picture, place)

    async def _compared(self, card: Screenshot, now: Screenshot, region: Region) -> Freshness:
        if (card.left, card.top) != (now.left, now.top) and card.evidence is not None:
            return Freshness(fresh=False, region=region, why="the window has moved")
        old, new = await self._journal.get_blob(card.blob), await self._journal.get_blob(now.blob)
        return await asyncio.to_thread(compare, old, new, region, now.scale)

    async def _control(self, command: PreparedCommand) -> Node | None:
        """The control that the command means now; None if the device cannot report positions.

        Raises:
            QuarterdeckError: the control cannot be determined now.
        """
        try:
            return await self._located(command.request)
        except QuarterdeckError as error:
            if error.code in _BY_WILL or _tells_where(command):
                raise
            return None

    async def _located(self, request: CommandRequest) -> Node:
        search = CommandRequest(
            request.device,
            UI_TREE,
            search_for(request.parameters),
            "service",
            timeout=PICTURE_TIMEOUT,
            purpose=Purpose.EVIDENCE,
            evidence_for=request.call_id,
            cancelled=request.cancelled,
        )
        result = await self._dispatch(search)
        if result.error is not None:
            raise QuarterdeckError(result.error.message, result.error.code)
        fit = meant(result.result, request.parameters)
        cut = "" if is_complete(result.result) else ", of those that could be read"
        if len(fit) != 1:
            count = f"{len(fit)} controls fit" if fit else "no control fits"
            raise BadInput(f"{count} it now{cut}.")
        if cut and request.parameters.get("control_id") is None and SHOWING not in fit[0].states:
            # The device would press a showing control instead, which may be among those not read here.
            raise BadInput(f"no control that is showing fits it now{cut}.")
        return fit[0]


def _place_of(control: Node, picture: Screenshot) -> Region | None:
    """The control's box in the picture's pixels; None if it has no place there."""
    return picture.in_picture(control.box) if isinstance(control.box, dict) else None


def _around(parameters: dict[str, Any]) -> Region:
    region = around_point(parameters)
    if region is None:
        raise BadInput("it names no point.")
    return region


def _tells_where(command: PreparedCommand) -> bool:
    """Whether the device's own tools report control positions, so that the card could mark the target.

    Only then was a comparison promised, and a control that is not found at sending stops the command. A
    hosted server's tool of the same name may interpret its arguments differently.
    """
    tree = command.target.tools.get(UI_TREE)
    return all(tool is not None and tool.namespace == BUILT_IN_NAMESPACE for tool in (command.tool, tree))


def _wanting(decision: Decision, moment: Moment) -> str:
    """The subject for `_unfit`: the rules that demand a picture."""
    rules = [hit.id for hit in decision.rules if moment in hit.evidence]
    return f"Rule {' and '.join(rules)} wants" if rules else "The policy wants"


def _unfit(error: QuarterdeckError, who: str) -> Refused:
    if error.code in _BY_WILL:
        return Refused(error.message, error.code)
    why = error.message.removesuffix(".")
    return Refused(f"{who} a picture before it, and none can be taken: {why}. Nothing was sent.")

"""Evidence: pictures before and after a command, taken through the dispatcher like any other command.

Each picture is an observation with its own entries; an `evidence_taken` entry ties it to its command by the
command's digest and the picture's.
"""

from __future__ import annotations

from typing import Any

from core.approvals.models import Approval
from core.approvals.preview_models import Region
from core.commands.request import Purpose
from core.commands.results import CommandResult, Evidence
from core.controls import Node
from core.dispatch.card_views import LAST_LOOK_S, CardView, CardViews
from core.dispatch.command import DispatchedCommand
from core.dispatch.interfaces import Recorder
from core.dispatch.screen_reads import (
    Dispatch,
    ScreenReads,
    compared,
    keep_missing,
    keep_picture,
    tells_where,
    the_one,
)
from core.dispatch.stale_target import (
    Screenshot,
    ScreenshotCache,
    around_point,
    has_screen_target,
    target_text,
    targets_point,
)
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.next_steps import NO_EVIDENCE
from core.policy.models import Decision, Moment
from core.text import clause

_NO_PLACE = "it is not on the screen now."
_BY_WILL = frozenset({ErrorCode.STOPPED, ErrorCode.CANCELLED, ErrorCode.JOURNAL_UNAVAILABLE})


class StaleTargetError(Refused):
    """Raised just before sending; carries the pictures that show why."""

    def __init__(self, message: str, code: ErrorCode, evidence: list[Evidence]) -> None:
        super().__init__(message, code)
        self.evidence = evidence


class EvidenceTaker:
    """Takes the pictures that rules demand, and checks that a target still looks as approved."""

    def __init__(self, dispatch: Dispatch, journal: Recorder) -> None:
        self._reads = ScreenReads(dispatch, Purpose.EVIDENCE)
        self._journal = journal
        self.pictures = ScreenshotCache()
        self.cards = CardViews(dispatch, journal, self.pictures)

    def named_picture(self, command: DispatchedCommand) -> Screenshot | None:
        """The picture that a click at a point names; None for other commands, and if it is not known."""
        request = command.request
        if not targets_point(command.tool.tool_name):
            return None
        return self.pictures.by_observation(request.device, command.arguments.sent.get("observation"))

    async def before(
        self,
        command: DispatchedCommand,
        decision: Decision,
        approval: Approval | None,
        named: Screenshot | None,
        approved_at: float,
    ) -> list[Evidence]:
        """Take the demanded picture before sending, and compare the target with what the card showed.

        `named` is the picture that a click at a point named when it was requested; `approved_at` are seconds
        of `time.monotonic`. Returns the demanded picture, if any.

        Raises:
            StaleTargetError: the target has changed, or it cannot be determined whether it has.
            Refused: a picture that a rule demands cannot be taken, dispatch was stopped, or the command was
                cancelled.
        """
        request, tool = command.request, command.tool.tool_name
        if request.purpose is Purpose.EVIDENCE:
            return []
        demanded: list[Evidence] = []
        taken: Screenshot | None = None
        if Moment.BEFORE in decision.evidence:
            try:
                taken = await self._reads.picture(request, {})
            except QuarterdeckError as error:
                raise _unfit(error, _wanting(decision, Moment.BEFORE)) from error
            demanded.append(keep_picture(self._journal, command, taken, "before"))
        if approval is None or not has_screen_target(tool, command.arguments.sent):
            return demanded
        card, was_there = await self.cards.approved(command, approved_at)
        # A read that ended after the approval and a moment ago is the last look before sending.
        is_last = card is not None and not was_there and card.age_s < LAST_LOOK_S
        if targets_point(tool):
            reusable = taken if taken is not None and named is not None and named.parameters == {} else None
            await self._check_point(command, named, card.picture if card and is_last else reusable)
        elif card is not None:
            await self._check_control(command, card, is_last)
        return demanded

    async def after(
        self, command: DispatchedCommand, decision: Decision, result: CommandResult
    ) -> CommandResult:
        """The result with a picture taken after the command; a failed picture is recorded as missing."""
        if Moment.AFTER not in decision.evidence or command.request.purpose is Purpose.EVIDENCE:
            return result
        try:
            # Also if the command, which has already run, was cancelled.
            taken = await self._reads.picture(command.request, {}, cancelled=lambda: False)
            return result.seen_after(keep_picture(self._journal, command, taken, Moment.AFTER.value))
        except QuarterdeckError as error:
            keep_missing(self._journal, command, Moment.AFTER.value, error.message)
            return result.not_seen_after(error.message)

    async def _check_point(
        self, command: DispatchedCommand, named: Screenshot | None, now: Screenshot | None
    ) -> None:
        """Compare the place of a click with the picture that it names; `now` if there is a last look."""
        request = command.request
        if named is None:
            if "observation" not in command.arguments.sent:
                return
            # Otherwise an agent could take so many pictures that the named one is evicted, and skip the
            # comparison.
            words = "The picture that it names is not known here any more, so nothing can be compared."
            raise StaleTargetError(words, ErrorCode.STALE_OBSERVATION, [])
        try:
            now = now or await self._reads.picture(request, named.parameters)
            place = _around(command.arguments.sent)
        except QuarterdeckError as error:
            raise _unseen(command, error) from error
        await self._compare(command, named, now, place)

    async def _check_control(self, command: DispatchedCommand, card: CardView, is_last: bool) -> None:
        """Check that the control is the one on the card, and looks as it did there.

        A request that was approved before its card had a picture was approved by its words alone. The read
        that was under way is the last look then, and must have found the control.
        """
        try:
            if is_last and card.picture is not None:
                _check_found(command, card, card.picture)
                return
            control = await self._control(command)
            if control is None:
                return
            if card.picture is None:
                _check_same(card.control, control)
                return
            # Taken after the tree, for which a program may take seconds: the comparison is the last look.
            now = await self._reads.picture(command.request, card.picture.parameters)
            place = now.in_picture(control.box)
            if place is None:
                if not tells_where(command):
                    return
                raise BadInput(_NO_PLACE)
        except QuarterdeckError as error:
            raise _unseen(command, error) from error
        await self._compare(command, card.picture, now, place)

    async def _compare(
        self, command: DispatchedCommand, card: Screenshot, now: Screenshot, place: Region
    ) -> None:
        try:
            found = await compared(self._journal, card, now, place)
        except QuarterdeckError as error:
            raise _unseen(command, error) from error
        if found.fresh:
            return
        kept = keep_picture(
            self._journal,
            command,
            now,
            "just before",
            card=card.blob,
            region=found.region.model_dump(),
            why=found.why,
        )
        shown = [] if card.evidence is None else [card.evidence.model_copy(update={"what": "on the card"})]
        target = target_text(command.tool.tool_name, command.arguments.sent)
        raise StaleTargetError(
            f"{target} does not look as it did on the card: {found.why}. Nothing was sent.",
            ErrorCode.STALE_OBSERVATION,
            [*shown, kept],
        )

    async def _control(self, command: DispatchedCommand) -> Node | None:
        """The control that the command means now; None if the device cannot report positions.

        Raises:
            QuarterdeckError: the control cannot be determined now.
        """
        try:
            return the_one(await self._reads.tree(command), command)
        except QuarterdeckError as error:
            if error.code in _BY_WILL or tells_where(command):
                raise
            return None


def _check_found(command: DispatchedCommand, card: CardView, picture: Screenshot) -> None:
    """Check that a view has found the control and its place, where the device's tools can tell them.

    Raises:
        BadInput: it has not.
    """
    if not tells_where(command):
        return
    if card.control is None:
        raise BadInput(f"{card.fault}.")
    if picture.in_picture(card.control.box) is None:
        raise BadInput(_NO_PLACE)


def _check_same(card: Node | None, now: Node) -> None:
    """Check that a control is the one that the card named, where there is no picture to compare.

    Raises:
        BadInput: its role or name differs.
    """
    if card is not None and (card.role, card.name) != (now.role, now.name):
        raise BadInput(f"it was the {card.role} {card.name!r} and is the {now.role} {now.name!r}.")


def _unseen(command: DispatchedCommand, error: QuarterdeckError) -> QuarterdeckError:
    """The error for a target of which it cannot be seen whether it has changed."""
    if error.code in _BY_WILL:
        return Refused(error.message, error.code)
    target = target_text(command.tool.tool_name, command.arguments.sent)
    words = f"Whether {target} is still as it was on the card cannot be seen: {error.message}"
    return StaleTargetError(words, ErrorCode.STALE_OBSERVATION, [])


def _around(parameters: dict[str, Any]) -> Region:
    region = around_point(parameters)
    if region is None:
        raise BadInput("it names no point.")
    return region


def _wanting(decision: Decision, moment: Moment) -> str:
    """The subject for `_unfit`: the rules that demand a picture."""
    rules = [hit.id for hit in decision.rules if moment in hit.evidence]
    return f"Rule {' and '.join(rules)} wants" if rules else "The policy wants"


def _unfit(error: QuarterdeckError, who: str) -> Refused:
    if error.code in _BY_WILL:
        return Refused(error.message, error.code)
    why = clause(error.message)
    return Refused(
        f"{who} a picture before it, and none can be taken: {why}. Nothing was sent.",
        next_step=NO_EVIDENCE.person,
    )

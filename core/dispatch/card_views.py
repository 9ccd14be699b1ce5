"""The view of a device's screen on approval cards: a picture, and the control that the request means.

Both are read when a request begins to wait, and again when an operator opens its card later. An approval is
compared with the view that its card showed, never with an older picture. The reads are previews: where the
policy wants to be asked before them, there is no picture, and the card says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from core.canonical_json import digest_of
from core.commands.request import CommandRequest, Purpose
from core.controls import Node
from core.dispatch.command import DispatchedCommand
from core.dispatch.interfaces import Recorder
from core.dispatch.screen_reads import (
    Dispatch,
    ScreenReads,
    compared,
    keep_missing,
    keep_picture,
    search_of,
    the_one,
)
from core.dispatch.stale_target import (
    Screenshot,
    ScreenshotCache,
    around_point,
    has_screen_target,
    targets_point,
)
from core.errors import QuarterdeckError
from core.ids import now_utc
from core.models.tool_names import SCREENSHOT, UI_TREE
from core.policy.analysis.built_in_tools import SCREEN_TARGETS
from core.tasks import TaskGroupOwner
from core.text import clause

ON_CARD = "on the card"
"""The moment of a card's pictures in the journal."""

# Seconds after which a card that is opened gets a new view.
_RENEWED_AFTER_S = 5.0
# A read that ended no longer ago than this is the last look before sending.
LAST_LOOK_S = 5.0
# Requests for one device share a read that is under way and began no longer ago than these seconds. One that
# has ended may show the screen as it was before the request.
_SHARED_S = 1.0
# Each of a view's reads has a time limit of its own; a card waits no longer than this for all of them.
_SHOWN_WITHIN_S = 45.0

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class CardView:
    """One read of the screen. `problem` and `fault` are clauses, empty if there is nothing to say.

    `problem`: why there is no picture, or what is wrong with it. `fault`: why the control that is meant is
    not known. `taken_at` is UTC, ISO 8601; `read_at` are seconds of `time.monotonic`.
    """

    picture: Screenshot | None
    control: Node | None
    problem: str
    fault: str
    taken_at: str
    read_at: float

    @property
    def age_s(self) -> float:
        """The seconds since it was read."""
        return max(0.0, time.monotonic() - self.read_at)


@dataclass(slots=True)
class _Card:
    """The card of a waiting request: its completed views, oldest first, and the one that is being read."""

    command: DispatchedCommand
    named: Screenshot | None
    reading: asyncio.Task[CardView]
    views: list[CardView] = field(default_factory=list)


class CardViews:
    """The views of the requests that wait, by the digest of each request."""

    def __init__(self, dispatch: Dispatch, journal: Recorder, pictures: ScreenshotCache) -> None:
        self._reads = ScreenReads(dispatch, Purpose.PREVIEW)
        self._journal = journal
        self._pictures = pictures
        self._tasks = TaskGroupOwner("card views")
        # The views await these and say what went wrong.
        self._reading = TaskGroupOwner("card reads", lambda name, error: None)
        self._cards: dict[str, _Card] = {}
        self._shared: dict[str, asyncio.Task[Any]] = {}

    async def close(self) -> None:
        """Cancel what is being read."""
        await self._tasks.close()
        await self._reading.close()

    def begin(self, command: DispatchedCommand) -> None:
        """Read the screen for a request that begins to wait; nothing is read for one without a picture."""
        if command.tool.tool_name not in SCREEN_TARGETS or SCREENSHOT not in command.target.tools:
            return
        named = None
        if targets_point(command.tool.tool_name):
            request = command.request
            named = self._pictures.by_observation(request.device, command.arguments.sent.get("observation"))
        self._cards[command.shown.digest] = _Card(command, named, self._read(command, named, None))

    def end(self, command: DispatchedCommand) -> None:
        """Forget the view of a request that has ended."""
        if command.is_bound:
            self._cards.pop(command.shown.digest, None)

    async def shown(self, digest: str, renew: bool) -> CardView | None:
        """The view for the card of a waiting request; None if it has none, or if no answer came in time.

        `renew`: read the screen again if the view is some seconds old.
        """
        card = self._cards.get(digest)
        if card is None:
            return None
        if renew and card.reading.done() and card.views and card.views[-1].age_s > _RENEWED_AFTER_S:
            card.reading = self._read(card.command, card.named, card.views[-1])
        await asyncio.wait({card.reading}, timeout=_SHOWN_WITHIN_S)
        return card.views[-1] if card.views else None

    async def approved(self, command: DispatchedCommand, at: float) -> tuple[CardView | None, bool]:
        """The view on which a request was approved, and whether it was there at that time.

        `at` are seconds of `time.monotonic`. A request that was approved before its first view was there gets
        that one, which is awaited: nothing on the screen can be older than what the operator saw.
        """
        card = self._cards.get(command.shown.digest)
        if card is None:
            return None, False
        if not card.views:
            await asyncio.wait({card.reading})
        before = [view for view in card.views if view.read_at <= at]
        return (before[-1], True) if before else (card.views[0] if card.views else None, False)

    def _read(
        self, command: DispatchedCommand, named: Screenshot | None, last: CardView | None
    ) -> asyncio.Task[CardView]:
        return self._tasks.spawn("read the screen", self._view(command, named, last))

    async def _view(
        self, command: DispatchedCommand, named: Screenshot | None, last: CardView | None
    ) -> CardView:
        control, fault = await self._control(command)
        picture, problem = await self._picture(command, named, control)
        view = CardView(picture, control, problem, fault, now_utc(), time.monotonic())
        if picture is None and last is not None and last.picture is not None:
            # The card keeps what it showed, and what it showed is compared.
            view = replace(last, problem=f"no newer picture could be taken: {problem}")
        if (card := self._cards.get(command.shown.digest)) is not None:
            card.views.append(view)
        return view

    async def _control(self, command: DispatchedCommand) -> tuple[Node | None, str]:
        """The control that is meant, or why it is not known."""
        request, name = command.request, command.tool.tool_name
        is_control = has_screen_target(name, command.arguments.sent) and not targets_point(name)
        if not is_control or UI_TREE not in command.target.tools:
            return None, ""
        try:
            search = search_of(command)
            tree = await self._share(
                request, UI_TREE, search, lambda: self._reads.tree(command, cancelled=_never)
            )
            return the_one(tree, command), ""
        except QuarterdeckError as error:
            return None, clause(error.message)

    async def _picture(
        self, command: DispatchedCommand, named: Screenshot | None, control: Node | None
    ) -> tuple[Screenshot | None, str]:
        """A picture of now, and what is wrong with it or why there is none."""
        request = command.request
        if named is None and targets_point(command.tool.tool_name):
            return None, "the picture that this point is in is not known here"
        try:
            picture = await self._taken(request, {} if named is None else named.parameters)
            if control is not None and picture.shown_part(control.box) is None and _has_monitors(command):
                # The control may be on another monitor than the first.
                everything = await self._taken(request, {"monitor": 0})
                picture = picture if everything.shown_part(control.box) is None else everything
        except QuarterdeckError as error:
            why = clause(error.message)
            keep_missing(self._journal, command, ON_CARD, why)
            return None, f"no picture could be taken: {why}"
        if named is None or not (changed := await self._changed(command, named, picture)):
            keep_picture(self._journal, command, picture, ON_CARD)
            return picture, ""
        keep_picture(self._journal, command, picture, ON_CARD, card=named.blob, why=changed)
        return picture, f"at the point it is not as in the picture that the click names: {changed}"

    async def _taken(self, request: CommandRequest, parameters: dict[str, Any]) -> Screenshot:
        read = partial(self._reads.picture, request, parameters, cancelled=_never)
        return await self._share(request, SCREENSHOT, parameters, read)

    async def _changed(self, command: DispatchedCommand, named: Screenshot, now: Screenshot) -> str:
        """How the target of a click at a point differs from the picture that the click names, if it does."""
        region = around_point(command.arguments.sent)
        try:
            found = None if region is None else await compared(self._journal, named, now, region)
        except QuarterdeckError as error:
            return clause(error.message)
        return "" if found is None or found.fresh else found.why

    async def _share(
        self,
        request: CommandRequest,
        tool: str,
        parameters: dict[str, Any],
        read: Callable[[], Coroutine[Any, Any, Answer]],
    ) -> Answer:
        """The answer to a read, which serves every request that asks for the same while it is under way."""
        key = digest_of([request.device, request.machine, tool, parameters])
        task = self._shared.get(key)
        if task is None:
            task = self._shared[key] = self._reading.spawn(tool, read())
            forget = partial(self._forget, key, task)
            task.add_done_callback(lambda _: forget())
            asyncio.get_running_loop().call_later(_SHARED_S, forget)
        answer: Answer = await asyncio.shield(task)
        return answer

    def _forget(self, key: str, task: asyncio.Task[Any]) -> None:
        if self._shared.get(key) is task:
            del self._shared[key]


def _never() -> bool:
    """A card's reads are sent although the request has ended meanwhile: another card may share them."""
    return False


def _has_monitors(command: DispatchedCommand) -> bool:
    schema = command.target.tools[SCREENSHOT].input_schema or {}
    return isinstance(properties := schema.get("properties"), dict) and "monitor" in properties

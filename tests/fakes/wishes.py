"""Wishes of operators in plain words, and how many of them the search for tools and `do` fulfil."""

from __future__ import annotations

import asyncio
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from core.batch.models import Step
from core.errors import QuarterdeckError
from core.fleet.models import ToolHit
from core.fleet.tool_search import Offer, ToolIndex
from core.models.devices import Health
from core.models.tools import Tool
from core.service.batch_proposal import Proposal, propose
from core.service.console import Console
from tests.fakes.built_in_tools import built_in_tools

FOLDER = Path(__file__).parents[1] / "unit" / "fleet"
DEVICE = "this-computer"


@dataclass(frozen=True, slots=True)
class Wish:
    """What an operator types, the tools of which any is right, and the arguments with which it runs.

    `arguments` is None where no tool fulfils the wish without more than the sentence says.
    """

    says: str
    tools: tuple[str, ...]
    arguments: dict[str, Any] | None


@dataclass(slots=True)
class Score:
    """How many wishes have the right tool first and among three, find nothing, and make a plan that runs.

    `right` counts the plans of one step with a right tool, and, of wishes that no tool fulfils, the answers
    that none fits; `wrong` the plans with another tool than a right one, or more than one step.
    """

    wishes: int = 0
    first: int = 0
    in_three: int = 0
    nothing: int = 0
    runs: int = 0
    right: int = 0
    wrong: int = 0


def read_wishes(name: str = "wishes.toml") -> list[Wish]:
    """The wishes of a file."""
    rows = tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))["wish"]
    return [Wish(row["says"], tuple(row["tools"]), row.get("with")) for row in rows]


class Bench:
    """The search and `do` over the built-in tools of one device with a display."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self._tools = built_in_tools(Path(folder), DEVICE)
        self._index = ToolIndex()
        asyncio.run(self._index.follow([Offer(DEVICE, [], Health.ONLINE, self._tools)]))

    def search(self, words: str, limit: int = 20) -> list[ToolHit]:
        """The tools that fit."""
        return self._index.search(words, None, limit, {})

    def propose(self, words: str) -> Proposal | None:
        """What `do` proposes; None where it finds nothing."""
        try:
            return self.proposed(words)
        except QuarterdeckError:
            return None

    def proposed(self, words: str) -> Proposal:
        """What `do` proposes, or its error."""
        devices = SimpleNamespace(search=self._searched, describe=self._described)
        return asyncio.run(propose(cast(Console, SimpleNamespace(devices=devices)), words))

    async def _searched(self, words: str, targets: str = "", limit: int = 20) -> list[ToolHit]:
        return self.search(words, limit)

    async def _described(self, device: str, tool: str) -> Any:
        return SimpleNamespace(tool=self.tool(tool))

    def tool(self, name: str) -> Tool:
        """A tool by its name."""
        return self._tools[name]

    def score(self, wishes: list[Wish]) -> Score:
        """How many wishes are fulfilled."""
        score = Score(len(wishes))
        for wish in wishes:
            found = [hit.tool for hit in self.search(wish.says)]
            score.first += found[:1] != [] and found[0] in wish.tools
            score.in_three += not set(wish.tools).isdisjoint(found[:3])
            score.nothing += not found
            proposal = self.propose(wish.says)
            if proposal is None:
                score.right += not wish.tools
                continue
            steps = [step for step in proposal.batch.steps if isinstance(step, Step)]
            right = len(steps) == 1 and steps[0].tool in wish.tools
            score.right += right
            score.wrong += not right
            score.runs += right and wish.arguments is not None and steps[0].parameters == wish.arguments
        return score

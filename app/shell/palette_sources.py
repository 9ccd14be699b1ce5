"""Where the palette's lines come from: the state, and what a few questions through the door add to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from PySide6.QtCore import QObject

from app.components.timers import once
from app.link import ConsoleLink
from app.screens.base import (
    OpenApproval,
    OpenBatch,
    OpenDevice,
    OpenPairing,
    OpenQuery,
    OpenRun,
    OpenTool,
)
from app.screens.fleet.rows import platform_icon, tool_title
from app.screens.run_search import RunSearch
from app.screens.runs.words import actor_words, devices_words, effect_words
from app.shell.palette_search import Found, Hit, match_hit
from app.shell.registry import SCREENS
from app.shell.words import count_words, left_words, one_line, plural
from app.state import AppState
from core.errors import QuarterdeckError
from core.fleet.models import Device, Health, Tool
from core.policy.models import Answer, Decision
from core.service.console import EntryPage

MOST_DEVICES_ASKED = 6
MOST_EXPLAINED = 6
RUNS_WANTED = 12
# A search for runs may read the whole journal: not at every letter of a word.
SEARCH_PAUSE_MS = 120
_WORDS = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "denied"}


class Sources(QObject):
    """Collects hits. What has to be asked for comes later: `changed` is called then."""

    def __init__(
        self, state: AppState, link: ConsoleLink, changed: Callable[[], None], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._state, self._link, self._changed = state, link, changed
        self._tools: dict[str, list[Tool]] = {}
        self._asked: set[tuple[str, ...]] = set()
        self._answers: dict[tuple[str, str], str] = {}
        self._batches: list[str] = []
        self._counts: dict[str, str] = {}
        self._runs = RunSearch(link, RUNS_WANTED, self)
        self._runs.came.connect(changed)
        self._wanted_runs = ""
        self._search_soon = once(self, SEARCH_PAUSE_MS, lambda: self._runs.look(self._wanted_runs))

    def start(self) -> None:
        """Ask for what every query needs: the saved batches."""
        self._ask_once(("batches",), self._read_batches)

    def hits(self, query: str) -> Iterator[Hit]:
        """Everything that can be found now."""
        yield from self._tool_hits()
        yield from (device_hit(device) for device in self._state.devices.values())
        for approval in self._state.waiting():
            request, decision = approval.request, approval.decision
            yield Hit(
                f"approval/{approval.id}", "Approvals", decision.summary,
                f"{request.tool_name}, {request.device}", "approvals", "approvals", OpenApproval(approval.id),
                production=approval.production, risk=decision.risk.value,
                note=f"{left_words(approval.remaining_s)} left",
            )  # fmt: skip
        for name in self._batches:
            yield Hit(
                f"batch/{name}", "Batches and runs", name, "saved batch", "batch", "batch", OpenBatch(name)
            )
        # What the service found of all runs, and those that the window knows anyway.
        matches = {run.id: run for run in self._runs.runs} if self._runs.words == query.strip() else {}
        for run in [
            *(self._state.runs.get(run.id, run) for run in matches.values()),
            *(run for run in self._state.runs_newest_first() if run.id not in matches),
        ]:
            words = [run.id, devices_words(run), effect_words(run), f"from {actor_words(run.actor)}"]
            yield Hit(
                f"run/{run.id}", "Batches and runs", one_line(run.name), ", ".join(filter(None, words)),
                "runs", "runs", OpenRun(run.id), state=run.state.value, state_of="run",
                fits=query if run.id in matches else "",
            )  # fmt: skip
        if query.strip():
            yield self._journal_hit(query)
        yield Hit(
            "do/pair",
            "Devices",
            "Pair a device",
            "a token, a string to paste",
            "pair",
            "fleet",
            OpenPairing(),
        )
        for number, entry in enumerate(SCREENS, 1):
            yield Hit(f"screen/{entry.name}", "Screens", entry.title, f"Alt+{number}", entry.icon, entry.name)

    def _tool_hits(self) -> Iterator[Hit]:
        for name, tools in self._tools.items():
            device = self._state.devices.get(name)
            if device is None:
                continue
            for tool in tools:
                yield Hit(
                    f"tool/{name}/{tool.tool_key}", "Call a tool", tool_title(tool), f"on {name}",
                    "tool", "batch",
                    OpenTool(name, tool.tool_name), mono=True, production=device.production,
                    risk=tool.contract.risk.value.value,
                    state=self._answers.get((name, tool.tool_name), ""),
                    state_of="plan",
                )  # fmt: skip

    def _journal_hit(self, query: str) -> Hit:
        wanted = self.journal_query(query)
        count = self._counts.get(wanted)
        return Hit(
            "journal", "Journal", wanted, count or "", "journal", "journal", OpenQuery(wanted), mono=True,
        )  # fmt: skip

    def journal_query(self, query: str) -> str:
        """What was typed as a journal query: words that are tools or devices become `tool:` and `device:`."""
        tools = {tool.tool_name for known in self._tools.values() for tool in known}
        parts: list[str] = []
        for word in query.split():
            starts = [name for name in self._state.devices if name.startswith(word)]
            if ":" in word:
                parts.append(word)
            elif word in self._state.devices:
                parts.append(f"device:{word}")
            elif starts:
                parts.append(f"device:{word}*")
            elif any(name.startswith(word) for name in tools):
                parts.append(f"tool:{word}*")
            else:
                parts.append(word)
        return " ".join(parts)

    # What has to be asked for

    def want(self, query: str, found: list[Found]) -> None:
        """Ask for what this query needs and is not known: tools of fitting devices, answers, counts."""
        for device in self._devices_for(query):
            key = ("tools", device.name, str(device.tool_count), *device.changed_tools)
            self._ask_once(key, partial(self._read_tools, device.name))
        explained = 0
        for one in found:
            target = one.hit.target
            if isinstance(target, OpenTool) and explained < MOST_EXPLAINED:
                explained += 1
                key = ("explain", target.device, target.tool_name)
                self._ask_once(key, partial(self._explain, target.device, target.tool_name))
        if query.strip() and query.strip() != self._runs.words:
            self._wanted_runs = query.strip()
            self._search_soon.start()
        if query.strip():
            wanted = self.journal_query(query)
            self._ask_once(("count", wanted), lambda: self._count(wanted))

    def _devices_for(self, query: str) -> list[Device]:
        online = [one for one in self._state.devices.values() if one.health is not Health.OFFLINE]
        words = query.casefold().split()

        def fit(device: Device) -> float:
            hit = device_hit(device)
            return max((found.score for word in words if (found := match_hit(hit, [word]))), default=0.0)

        # Without a device in the query, its words may name a tool: this computer's are always looked at.
        ranked = sorted(online, key=lambda one: (-fit(one), one.name != "this-computer", one.name))
        return ranked[:MOST_DEVICES_ASKED]

    def _ask_once(self, key: tuple[str, ...], ask: Callable[[], None]) -> None:
        if key not in self._asked:
            self._asked.add(key)
            ask()

    def _read_batches(self) -> None:
        def came(names: list[str]) -> None:
            self._batches = names
            self._changed()

        self._link.ask(lambda console: console.batches(), came, _quietly, what="list the batches")

    def _read_tools(self, device: str) -> None:
        def came(tools: list[Tool]) -> None:
            self._tools[device] = tools
            self._changed()

        self._link.ask(lambda console: console.tools(device), came, _quietly, what="read tools")

    def _explain(self, device: str, tool: str) -> None:
        def came(decision: Decision) -> None:
            self._answers[device, tool] = _WORDS[decision.answer]
            self._changed()

        self._link.ask(lambda console: console.explain(device, tool, {}), came, _quietly, what="explain")

    def _count(self, query: str) -> None:
        def came(page: EntryPage) -> None:
            count = plural(page.total, "entry", "entries")
            self._counts[query] = count if page.total_exact else f"{count_words(page.total)} or more entries"
            self._changed()

        self._link.ask(lambda console: console.entries(query, limit=1), came, _quietly, what="count entries")


def device_hit(device: Device) -> Hit:
    """One device as a line."""
    return Hit(
        f"device/{device.name}", "Devices", device.name, ", ".join(device.tags),
        platform_icon(device.platform),
        "fleet", OpenDevice(device.name), production=device.production, state=device.health.value,
        state_of="health",
    )  # fmt: skip


def _quietly(error: QuarterdeckError) -> None:
    """A line that cannot be completed is simply not offered; the palette is not a place for errors."""
    del error

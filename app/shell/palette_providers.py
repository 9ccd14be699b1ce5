"""Where the palette's lines come from: the state, and what a few questions through the door add to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from PySide6.QtCore import QObject

from app.query import Query, quietly
from app.records.decision import plan_word
from app.records.run_search import RunSearch
from app.records.run_text import actor_words, devices_words, effect_words
from app.screens.fleet.device_columns import platform_icon, title_of
from app.screens.journal.entry_text import device_words, entry_words
from app.screens.targets import (
    OpenAgent,
    OpenApproval,
    OpenBatch,
    OpenDevice,
    OpenEntry,
    OpenQuery,
    OpenRun,
    OpenTool,
)
from app.service_client import ConsoleLink
from app.shell.palette_matcher import COMMANDS, Match, Result
from app.state import AppState
from app.text import clock, count_words, left_words, one_line, plural
from app.widgets.action import Action, chord_words
from app.widgets.util import debounce
from core.audit.entries import Entry, Kind
from core.fleet.models import ToolHit
from core.models.devices import Device
from core.policy.models import Answer, Decision
from core.service.console import EntryPage

MOST_EXPLAINED = 6
TOOLS_WANTED = 12
RUNS_WANTED = 12
ENTRIES_SHOWN = 3
# A search for runs may read the whole journal: not at every letter of a word.
SEARCH_PAUSE_MS = 120


class Providers(QObject):
    """Collects hits. What has to be asked for comes later: `changed` is called then."""

    def __init__(
        self,
        state: AppState,
        link: ConsoleLink,
        actions: Callable[[], list[Action]],
        changed: Callable[[], None],
        parent: QObject,
    ) -> None:
        """`actions` lists what the window and the screen in front can do."""
        super().__init__(parent)
        self._state, self._link, self._actions, self._changed = state, link, actions, changed
        self._tools = Query(self, link, self._tools_came, quietly, "search the tools")
        # The tools that the service found, and for which query; what is typed meanwhile narrows them.
        self._tool_hits: list[ToolHit] = []
        self._tools_for = ""
        self._wanted_tools: str | None = None
        self._asked: set[tuple[str, ...]] = set()
        self._answers: dict[tuple[str, str], str] = {}
        self._batches: list[str] = []
        self._counts: dict[str, str] = {}
        self._entries: dict[str, list[Entry]] = {}
        self._decided: dict[str, str] = {}
        self._runs = RunSearch(link, RUNS_WANTED, self)
        self._runs.came.connect(changed)
        self._wanted_runs = ""
        self._search_soon = debounce(self, SEARCH_PAUSE_MS, lambda: self._runs.look(self._wanted_runs))

    def start(self) -> None:
        """Ask for what every query needs: the saved batches. What may have changed is asked for again."""
        self._asked.clear()
        self._wanted_tools = None
        self._ask_once(("batches",), self._read_batches)

    def hits(self, query: str) -> Iterator[Result]:
        """Everything that can be found now."""
        yield from self._tool_lines()
        yield from (device_hit(device) for device in self._state.devices.values())
        for approval in self._state.waiting():
            request, decision = approval.request, approval.decision
            yield Result(
                f"approval/{approval.id}", "Approvals", decision.summary,
                f"{request.tool_name}, {request.device}", "approvals", "approvals", OpenApproval(approval.id),
                production=approval.production, risk=decision.risk.value,
                note=f"{left_words(approval.remaining_s)} left",
            )  # fmt: skip
        for name in self._batches:
            yield Result(
                f"batch/{name}", "Batches and runs", name, "saved batch", "batch", "batch", OpenBatch(name)
            )
        # What the service found of all runs, and those that the window knows anyway.
        matches = {run.id: run for run in self._runs.runs} if self._runs.words == query.strip() else {}
        for run in [
            *(self._state.runs.get(run.id, run) for run in matches.values()),
            *(run for run in self._state.runs_newest_first() if run.id not in matches),
        ]:
            words = [run.id, devices_words(run), effect_words(run), f"from {actor_words(run.actor)}"]
            yield Result(
                f"run/{run.id}", "Batches and runs", one_line(run.name), ", ".join(filter(None, words)),
                "runs", "runs", OpenRun(run.id), state=run.state.value, state_of="run",
                fits=query if run.id in matches else "",
            )  # fmt: skip
        for agent in self._state.agents.values():
            words = ["paused"] if agent.settings.paused else []
            words += [one_line(one.program.words) for one in agent.connections] or ["not connected"]
            yield Result(
                f"agent/{agent.name}", "Agents", agent.name, ", ".join(words), "agent", "agents",
                OpenAgent(agent.name),
            )  # fmt: skip
        if query.strip():
            yield self._journal_hit(query)
            yield from self._entry_hits(query)
        yield from (command_hit(action) for action in self._actions())

    def _tool_lines(self) -> Iterator[Result]:
        for order, hit in enumerate(self._tool_hits):
            device = self._state.devices.get(hit.device)
            if device is None:
                continue
            # What the line itself shows needs no reason.
            reasons = [reason for reason in hit.reasons if not reason.startswith(("name: ", "device: "))]
            yield Result(
                f"tool/{hit.device}/{hit.tool}", "Call a tool", title_of(hit.tool, hit.namespace),
                f"on {hit.device}",
                "tool", "batch",
                OpenTool(hit.device, hit.tool), mono=True, production=device.production,
                risk=hit.risk.value,
                state=self._answers.get((hit.device, hit.tool), ""),
                state_of="plan",
                fits=self._tools_for,
                reason=one_line("; ".join(reasons)),
                order=order,
            )  # fmt: skip

    def _journal_hit(self, query: str) -> Result:
        wanted = self.journal_query(query)
        count = self._counts.get(wanted)
        return Result(
            "journal", "Journal", wanted, count or "", "journal", "journal", OpenQuery(wanted), mono=True,
        )  # fmt: skip

    def _entry_hits(self, query: str) -> Iterator[Result]:
        """The newest entries that match, with what the policy said of their command, or how it ended."""
        for order, entry in enumerate(self._entries.get(self.journal_query(query), []), 1):
            answer = self._decided.get(entry.call_id or "", "")
            what = " on ".join(filter(None, (one_line(entry.tool or ""), device_words(entry))))
            yield Result(
                f"entry/{entry.seq}", "Journal", entry_words(entry),
                ", ".join(filter(None, (what, clock(entry.time), f"entry {count_words(entry.seq)}"))),
                "journal", "journal", OpenEntry(entry.seq),
                state=answer or entry.verdict or "", state_of="plan" if answer else "run",
                fits=query, order=order,
            )  # fmt: skip

    def journal_query(self, query: str) -> str:
        """What was typed as a journal query: words that are tools or devices become `tool:` and `device:`."""
        tools = {hit.tool for hit in self._tool_hits}
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

    def want(self, query: str, found: list[Match]) -> None:
        """Ask for what this query needs and is not known: tools, answers, counts."""
        if query != self._wanted_tools:
            self._wanted_tools = query
            self._tools.load(lambda console: console.devices.search(query, limit=TOOLS_WANTED), query)
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

    def _tools_came(self, hits: list[ToolHit]) -> None:
        self._tool_hits, self._tools_for = hits, self._wanted_tools or ""
        self._changed()

    def _ask_once(self, key: tuple[str, ...], ask: Callable[[], None]) -> None:
        if key not in self._asked:
            self._asked.add(key)
            ask()

    def _read_batches(self) -> None:
        def came(names: list[str]) -> None:
            self._batches = names
            self._changed()

        self._link.ask(lambda console: console.runs.batch_names(), came, quietly, what="list the batches")

    def _explain(self, device: str, tool: str) -> None:
        def came(decision: Decision) -> None:
            self._answers[device, tool] = plan_word(decision.answer)
            self._changed()

        self._link.ask(
            lambda console: console.policy.explain(device, tool, {}), came, quietly, what="explain"
        )

    def _count(self, query: str) -> None:
        def came(page: EntryPage) -> None:
            count = plural(page.total, "entry", "entries")
            self._counts[query] = count if page.total_exact else f"{count_words(page.total)} or more entries"
            self._entries[query] = page.entries
            for call in {entry.call_id for entry in page.entries if entry.call_id}:
                self._ask_once(("decided", call), partial(self._read_decision, call))
            self._changed()

        self._link.ask(
            lambda console: console.journal.entries(query, limit=ENTRIES_SHOWN),
            came,
            quietly,
            what="count entries",
        )

    def _read_decision(self, call: str) -> None:
        def came(page: EntryPage) -> None:
            self._decided[call] = next(filter(None, map(_answer_in, page.entries)), "")
            self._changed()

        # Where the decision has an entry of its own, that of the sending comes after it.
        query = f"kind:{Kind.COMMAND_DECIDED.value},{Kind.COMMAND_SENT.value} call:{call}"
        self._link.ask(
            lambda console: console.journal.entries(query, limit=2), came, quietly, what="read decisions"
        )


def _answer_in(entry: Entry) -> str:
    """The answer of the decision in an entry, in a word; empty if it has none."""
    # Only the answer: what else a decision had is another version's when the journal is old.
    decision = entry.body.get("decision")
    answer = decision.get("answer") if isinstance(decision, dict) else None
    return plan_word(Answer(str(answer))) if answer in [*Answer] else ""


def device_hit(device: Device) -> Result:
    """One device as a line."""
    return Result(
        f"device/{device.name}", "Devices", device.name, ", ".join(device.tags),
        platform_icon(device.platform),
        "fleet", OpenDevice(device.name), production=device.production, state=device.health.value,
        state_of="health",
    )  # fmt: skip


def command_hit(action: Action) -> Result:
    """What can be done as a line: its key at the right, or why it cannot be done now."""
    reason = action.reason
    return Result(
        f"do/{action.words}", COMMANDS, action.words, reason, action.concept, "",
        note="" if reason else chord_words(action.keys), act=action.trigger, off=reason,
        also=action.also, careful=action.acts_at_once,
    )  # fmt: skip

"""Policy trial: evaluates an unsaved policy against the commands in the journal.

Rules, profiles and operators' overrides of tools are evaluated again, from what the journal records about
each command: device, tags, tool, arguments, effect and risk. Grants apply as they did then. A command is
skipped if a rule depends on an argument that was secret. Live pictures are judged too, but counted
separately: they are so many that they would outnumber all other commands.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from core.audit.entries import Entry, Kind
from core.audit.events import CommandDecided, CommandPrepared, event_of
from core.audit.models import Page
from core.audit.projection import CommandState, Recorded
from core.commitments import holds_stand_in
from core.models.devices import Device, Health
from core.models.tools import Contract, Effect, Fact, Risk, Source, Tool
from core.policy.engine import evaluate_rules
from core.policy.models import Answer, Trial, TrialRow
from core.policy.policy_file import Override, Overrides, PolicyFile
from core.policy.rule_index import RuleIndex
from core.policy.rules import MatchContext

PAGE = 2_000
AT_ONCE = 50
OPEN_CALLS = 20_000
_KINDS = ",".join(
    (
        Kind.COMMAND_PREPARED,
        Kind.COMMAND_DECIDED,
        Kind.APPROVAL_GIVEN,
        Kind.APPROVAL_DENIED,
    )
)
_HUMAN = {Kind.APPROVAL_GIVEN: "approved", Kind.APPROVAL_DENIED: "denied"}


class Searchable(Protocol):
    """The part of the journal that a trial uses."""

    async def query(
        self, query: str, before: int | None = None, after: int | None = None, limit: int = 200
    ) -> Page: ...


@dataclass(slots=True)
class _Tally:
    """The counts so far, and the calls whose approval or denial may still follow in the journal."""

    rows: deque[TrialRow]
    undecided: OrderedDict[str, CommandState] = field(default_factory=OrderedDict)
    changed_rows: OrderedDict[str, TrialRow] = field(default_factory=OrderedDict)
    answers: dict[Answer, int] = field(default_factory=lambda: dict.fromkeys(Answer, 0))
    commands: int = 0
    skipped: int = 0
    changed: int = 0
    against_human: int = 0
    glimpses: int = 0
    glimpses_refused: int = 0


async def try_over_journal(
    journal: Searchable,
    file: PolicyFile,
    device_of: Callable[[str], Device | None],
    limit: int,
    progress: Callable[[int], None] = lambda seq: None,
) -> Trial:
    """Evaluate `file` for every command in the journal. It reads in pages and may be cancelled.

    `device_of` looks up devices for old entries, which lack the device's tags. After each page, `progress` is
    called with the number of the last entry that was read.
    """
    started = time.perf_counter()
    policy = _Edited(file)
    tally = _Tally(deque(maxlen=max(0, limit)))
    after: int | None = 0
    while after is not None:
        page = await journal.query(f"kind:{_KINDS}", after=after, limit=PAGE)
        for number, entry in enumerate(page.entries):
            _take(entry, tally, policy, device_of)
            if number % AT_ONCE == 0:
                # Other tasks of the service wait for a few milliseconds at most.
                await asyncio.sleep(0)
        after = page.next_after
        if page.entries:
            progress(page.entries[-1].seq)
    for row in tally.changed_rows.values():
        tally.rows.append(row)
    return Trial(
        looked_at=sum(tally.answers.values()),
        commands=tally.commands,
        skipped=tally.skipped,
        allowed=tally.answers[Answer.ALLOW],
        asked=tally.answers[Answer.ASK],
        denied=tally.answers[Answer.DENY],
        changed=tally.changed,
        allowed_but_denied_by_human=tally.against_human,
        rows=sorted(tally.rows, key=lambda row: -row.seq),
        took_s=round(time.perf_counter() - started, 3),
        glimpses=tally.glimpses,
        glimpses_refused=tally.glimpses_refused,
    )


def _take(entry: Entry, tally: _Tally, policy: _Edited, device_of: Callable[[str], Device | None]) -> None:
    call = entry.call_id or ""
    event = event_of(entry)
    if isinstance(event, CommandPrepared):
        tally.undecided.setdefault(call, CommandState(call)).apply(entry, event)
        if len(tally.undecided) > OPEN_CALLS:
            tally.undecided.popitem(last=False)
    elif isinstance(event, CommandDecided):
        command = tally.undecided.pop(call, None) or CommandState(call)
        command.apply(entry, event)
        if command.prepared is None and event.decision.get("grant"):
            # A pending request that was judged again for a new grant; it is already counted.
            return
        row = _judge(command, policy, device_of)
        if event.glimpse:
            tally.glimpses += 1
            tally.glimpses_refused += row is not None and row.now is not Answer.ALLOW
            return
        tally.commands += 1
        if row is None:
            tally.skipped += 1
            return
        tally.answers[row.now] += 1
        if row.now is not row.was:
            tally.changed += 1
            tally.changed_rows[call] = row
            if len(tally.changed_rows) > OPEN_CALLS:
                tally.rows.append(tally.changed_rows.popitem(last=False)[1])
    elif entry.kind in _HUMAN and (row := tally.changed_rows.get(call)) is not None:
        tally.changed_rows[call] = row.model_copy(update={"human": _HUMAN[entry.kind]})
        if row.now is Answer.ALLOW and entry.kind is Kind.APPROVAL_DENIED:
            tally.against_human += 1


def _judge(
    command: CommandState, policy: _Edited, device_of: Callable[[str], Device | None]
) -> TrialRow | None:
    """The row of a decided command; None if it cannot be judged."""
    if command.prepared is None or command.decided is None:
        return None
    prepared, decided = command.prepared, command.decided
    then, parameters = decided.event.decision, prepared.event.parameters
    device, tool = policy.device(decided, device_of), prepared.entry.tool or ""
    if device is None or policy.asks_for_secrets(parameters):
        return None
    override = policy.overrides.of(device.name, tool, prepared.event.namespace)
    question = MatchContext(
        device=device,
        tool=policy.tool(prepared, Effect(then["effect"]), override),
        parameters=parameters,
        actor=prepared.entry.actor,
        risk=_risk(then, override),
        at=datetime.fromisoformat(decided.entry.time).astimezone(),
    )
    outcome = evaluate_rules(question, policy.file, policy.index)
    was = Answer(then["answer"])
    return TrialRow(
        seq=decided.entry.seq,
        time=decided.entry.time,
        call_id=command.call_id,
        device=device.name,
        tool=tool,
        actor=prepared.entry.actor,
        summary=then["summary"],
        was=was,
        now=was if outcome.grant_may_allow and then.get("grant") else outcome.answer,
        rule=outcome.matching[0].id if outcome.matching else "",
    )


def _risk(then: dict[str, Any], override: Override | None) -> Risk:
    """The recorded risk; if the edited policy rates the tool, the higher of that and the findings' risks."""
    if override is None or override.risk is None:
        return Risk(then["risk"])
    raised = [Risk(finding["risk"]) for finding in then.get("findings", ())]
    return max([override.risk, *raised], key=lambda risk: risk.rank)


class _Edited:
    """The policy on trial, with caches of its tools and devices."""

    def __init__(self, file: PolicyFile) -> None:
        self.file = file
        self.index = RuleIndex(file.rules, file.line_numbers)
        self.overrides = Overrides(file.contracts)
        self._asked_for = {name.partition(".")[0] for rule in file.rules for name in rule.parameters}
        self._tools: dict[tuple[Any, ...], Tool] = {}
        self._devices: dict[tuple[Any, ...], Device] = {}

    def asks_for_secrets(self, parameters: dict[str, Any]) -> bool:
        """Whether a rule depends on an argument of which the journal has only a commitment."""
        return any(holds_stand_in(parameters[name]) for name in self._asked_for.intersection(parameters))

    def device(
        self, decided: Recorded[CommandDecided], device_of: Callable[[str], Device | None]
    ) -> Device | None:
        """The device when the command was judged, by the tags and production mark in its entry."""
        name, tags = decided.entry.device or "", decided.event.tags
        if tags is None:
            return device_of(name)
        production = decided.event.production or False
        key = (name, tuple(tags), production)
        if key not in self._devices:
            self._devices[key] = Device(
                name=name, health=Health.OFFLINE, since="", tags=tags, production=production
            )
        return self._devices[key]

    def tool(self, prepared: Recorded[CommandPrepared], effect: Effect, override: Override | None) -> Tool:
        """The tool with its recorded effect, or with the effect that the edited policy sets."""
        if override is not None and override.effect is not None:
            effect = override.effect
        entry, event = prepared
        key = (entry.device, entry.tool, event.tool_key, event.namespace, event.tool_type, effect)
        if key not in self._tools:
            self._tools[key] = _tool(entry, event, effect)
        return self._tools[key]


def _tool(entry: Entry, event: CommandPrepared, effect: Effect) -> Tool:
    why = "as the journal has it"
    contract = Contract(
        effect=Fact(value=effect, source=Source.DEFAULT, why=why),
        # Not used: the risk of a call is in its own decision.
        risk=Fact(value=Risk.HIGH, source=Source.DEFAULT, why=why),
        reversible=Fact(value=False, source=Source.DEFAULT, why=why),
        idempotent=Fact(value=False, source=Source.DEFAULT, why=why),
        open_world=Fact(value=True, source=Source.DEFAULT, why=why),
        digest=event.contract,
    )
    return Tool(
        device=entry.device or "",
        tool_key=event.tool_key,
        tool_name=entry.tool or "",
        tool_type=event.tool_type,
        namespace=event.namespace,
        contract=contract,
    )

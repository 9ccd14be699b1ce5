"""What an operator would let run without asking, while it is being written down. No Qt.

It begins as narrow as it can be: this device, this asker, every argument as it is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import ValidationError

from core.approvals.answering_rules import grant_may_answer
from core.approvals.models import Approval
from core.errors import BadInput
from core.ids import new_id
from core.policy.constraints import Constraint
from core.policy.grant_scope import uncovered_request
from core.policy.grants import ANY, GrantTerms, limits_fault, scope_words, usual_limits
from core.text import sentences

# What a grant may name.
MOST_DEVICES = 100


class Breadth(StrEnum):
    """How far one argument may differ."""

    EXACT = "exact"
    ONE_OF = "one_of"
    BELOW = "below"
    PATTERN = "pattern"
    RANGE = "range"
    ANY = "any"


BREADTH_WORDS = {
    Breadth.EXACT: "exactly as now",
    Breadth.ONE_OF: "one of",
    Breadth.BELOW: "below a folder",
    Breadth.PATTERN: "matches a pattern",
    Breadth.RANGE: "from … to",
    Breadth.ANY: "anything",
}


@dataclass(slots=True)
class Argument:
    """One argument: its value now, how far it may differ, and the words that say so."""

    name: str
    value: Any
    breadth: Breadth = Breadth.EXACT
    text: str = ""

    def breadths(self) -> list[Breadth]:
        """What makes sense for a value of this kind."""
        if isinstance(self.value, str):
            return [one for one in Breadth if one is not Breadth.RANGE]
        if isinstance(self.value, (int, float)) and not isinstance(self.value, bool):
            return [Breadth.EXACT, Breadth.ONE_OF, Breadth.RANGE, Breadth.ANY]
        return [Breadth.EXACT, Breadth.ANY]

    def suggestion(self) -> str:
        """What to begin with when it is widened: it always has the value of now in it."""
        match self.breadth:
            case Breadth.ONE_OF:
                return str(self.value) if isinstance(self.value, str) else json.dumps(self.value)
            case Breadth.BELOW:
                text = str(self.value)
                cut = max(text.rfind("/"), text.rfind("\\"))
                return text[:cut] if cut > 0 else ""
            case Breadth.RANGE:
                return f"{self.value} {self.value}"
            case _:
                return ""

    def condition(self) -> Constraint | Literal["any"]:
        """What the grant says about it.

        Raises:
            BadInput: what was typed makes no condition.
        """
        try:
            return self._condition()
        except ValidationError as error:
            raise BadInput(sentences(f"{self.name}: {_first(error)}")) from error
        except ValueError as error:
            raise BadInput(sentences(f"{self.name}: {error}")) from error

    def _condition(self) -> Constraint | Literal["any"]:
        match self.breadth:
            case Breadth.ANY:
                return ANY
            case Breadth.ONE_OF:
                return Constraint(one_of=self._values())
            case Breadth.BELOW:
                return Constraint(below=self.text.strip())
            case Breadth.PATTERN:
                if not self.text:
                    raise ValueError("write a pattern")
                return Constraint(pattern=self.text)
            case Breadth.RANGE:
                parts = self.text.replace("…", " ").replace(" to ", " ").split()
                if len(parts) != 2:
                    raise ValueError("write the least and the most, such as 1 60")
                return Constraint(min=_number(parts[0]), max=_number(parts[1]))
            case _:
                return Constraint(equals=self.value)

    def _values(self) -> list[Any]:
        parts = [part.strip() for part in self.text.split(",") if part.strip()]
        if not parts:
            raise ValueError("write the values, with commas between them")
        return parts if isinstance(self.value, str) else [_number(part) for part in parts]


@dataclass(slots=True)
class GrantDraft:
    """The whole of it. `lasts` is from the moment it is signed; `uses` of None is as often as asked."""

    approval: Approval
    devices: list[str]
    actors: list[str]
    arguments: list[Argument]
    uses: int | None = 1
    lasts: timedelta = timedelta(minutes=15)
    run: str | None = None
    id: str = field(default_factory=lambda: f"g-{new_id()}")


def narrowest(approval: Approval) -> GrantDraft:
    """A draft that covers exactly this request again: a few times within the hour, once at high risk."""
    request = approval.request
    uses, lasts = usual_limits(approval.decision.risk)
    return GrantDraft(
        approval,
        devices=[request.device],
        actors=[approval.actor],
        arguments=[Argument(name, value) for name, value in sorted(request.parameters.items())],
        uses=uses,
        lasts=lasts,
    )


def devices_of_run(
    approval: Approval, devices: Sequence[str], production: Collection[str]
) -> tuple[list[str], str]:
    """The devices of the request's run that a grant may name together, or why there are none.

    Production devices and the others are never in one grant, as they are on no card together.
    """
    if len(devices) < 2:
        return [], "The run is on one device."
    alike = [device for device in devices if (device in production) == approval.production]
    if len(alike) <= MOST_DEVICES:
        return alike, ""
    if len(alike) == len(devices):
        return ["*"], ""
    return (
        [],
        f"More than {MOST_DEVICES} devices stand beside others that are apart; name them as a scope.",
    )


def terms_of(draft: GrantDraft, author: str, now: datetime | None = None) -> GrantTerms:
    """What would be signed.

    Raises:
        BadInput: something in it is missing or makes no sense; says what.
    """
    request, decision = draft.approval.request, draft.approval.decision
    if not draft.devices:
        raise BadInput("Name a device, or a pattern such as lab-*.")
    if not draft.actors:
        raise BadInput("Name who may ask, or a pattern such as agent:*.")
    try:
        return GrantTerms(
            id=draft.id,
            approval=draft.approval.id,
            author=author,
            devices=draft.devices,
            tool_key=request.tool_key,
            contract=request.contract,
            actors=draft.actors,
            arguments={one.name: one.condition() for one in draft.arguments},
            risk=decision.risk,
            run=draft.run,
            uses=draft.uses,
            expires=((now or datetime.now(UTC)) + draft.lasts).isoformat(),
        )
    except ValidationError as error:
        raise BadInput(_first(error)) from error


def fault_of(terms: GrantTerms, approval: Approval) -> str:
    """Why these terms cannot be granted with the request they come with; empty when they can."""
    if fault := limits_fault(terms):
        return fault
    faults = _faults(terms, approval)
    return f"It would not cover this request: {faults[0]}." if faults else ""


def also_covered(terms: GrantTerms, waiting: Iterable[Approval]) -> list[Approval]:
    """The other waiting requests that go on under these terms, as often as their count allows."""
    return [one for one in waiting if grant_may_answer(terms, one)]


def scope_lines(terms: GrantTerms) -> list[str]:
    """The whole scope in words, times as the local clock."""
    until = datetime.fromisoformat(terms.expires).astimezone()
    return scope_words(terms, f"{until:%Y-%m-%d %H:%M}")


def _faults(terms: GrantTerms, one: Approval) -> list[str]:
    return uncovered_request(terms, one.request, actor=one.actor, run=one.run, risk=one.decision.risk)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _first(error: ValidationError) -> str:
    found = error.errors()[0]
    place = ".".join(str(part) for part in found["loc"])
    words = str(found["msg"]).removeprefix("Value error, ")
    return f"{place}: {words}" if place else words

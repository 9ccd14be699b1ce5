"""Models of grants: operators' signed permissions for later calls, with their scope, uses and expiry.

A grant binds device, tool, contract and every argument: it does not cover a call with an argument that it
does not name, or with a value that its condition does not permit. A grant never covers more than the operator
saw when signing it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from core.commitments import SECRET_MARK, commitments_in, is_stand_in, readable
from core.models.frozen import FrozenModel
from core.models.tools import Risk
from core.policy.constraints import Constraint
from core.policy.name_patterns import is_glob

FEW_USES = 5
ANY: Literal["any"] = "any"


class GrantTerms(FrozenModel):
    """The terms that an operator signs: Ed25519 over the canonical bytes of this model (RFC 8785 JSON).

    `devices` and `actors` are names or patterns. `arguments` has a condition, or the word `any`, for every
    argument that a call may have; a call must have each argument that is not `any`. `run` limits the grant to
    one run. `uses` is the number of permitted uses; None means no limit until `expires` (UTC, ISO 8601). A
    call with a higher risk than `risk` is not covered.
    """

    format: Literal["quarterdeck.grant/1"] = "quarterdeck.grant/1"
    id: str = Field(pattern="^g-[0-9a-zA-Z-]{8,64}$")
    approval: str
    author: str
    devices: list[str] = Field(min_length=1, max_length=100)
    tool_key: str
    contract: str
    actors: list[str] = Field(min_length=1, max_length=20)
    arguments: dict[str, Constraint | Literal["any"]]
    risk: Risk
    run: str | None = None
    uses: int | None = Field(default=None, ge=1, le=100_000)
    expires: str


class SignedGrant(FrozenModel):
    """Terms with their Ed25519 signature (128 hexadecimal digits)."""

    terms: GrantTerms
    signature: str


class Grant(FrozenModel):
    """A snapshot of a grant: its terms, uses and revocation.

    `over` is true when the grant is used up, expired or revoked, or its run has ended.
    """

    terms: GrantTerms
    given_at: str
    used: int = 0
    last_used_at: str | None = None
    revoked_at: str | None = None
    revoked_by: str = ""
    over: bool = False
    words: list[str] = Field(default_factory=list)


def scope_words(terms: GrantTerms, until: str = "") -> list[str]:
    """The whole scope in words, one line per part, as displayed before the operator signs and afterwards.

    `until` is the expiry in the reader's local time; if empty, the line has it in UTC (ISO 8601).
    """
    lines = [
        f"Tool {terms.tool_key}, as it is defined now",
        f"On {alternatives(terms.devices)}{_pattern_note(terms.devices)}",
        f"Asked by {alternatives(terms.actors)}{_pattern_note(terms.actors)}",
    ]
    for name, condition in sorted(terms.arguments.items()):
        lines.append(f"{name} {_condition_words(condition)}")
    if not terms.arguments:
        lines.append("Without any argument")
    lines.append(f"Up to {terms.risk.value} risk")
    if terms.run is not None:
        lines.append(f"Only in run {terms.run}")
    lines.append(
        "As often as asked" if terms.uses is None else f"{terms.uses} times" if terms.uses > 1 else "Once"
    )
    lines.append(f"Until {until or terms.expires}")
    return lines


def usual_limits(risk: Risk) -> tuple[int, timedelta]:
    """The uses and the time of a grant whose operator asks for no others."""
    if risk.rank >= Risk.HIGH.rank:
        return 1, timedelta(minutes=15)
    return FEW_USES, timedelta(hours=1)


def limits_fault(terms: GrantTerms) -> str:
    """Why these terms are wider than their risk allows; empty if they are not."""
    if terms.risk.rank >= Risk.HIGH.rank and terms.uses is None and terms.run is None:
        return f"At {terms.risk.value} risk a grant says how often it may be used, or holds for one run."
    return ""


def exact_arguments(parameters: dict[str, Any]) -> dict[str, Constraint | Literal["any"]]:
    """The narrowest scope: every argument must equal the request's; secrets are compared by commitment.

    A home always computes the same commitment for the same secret at the same place of a tool
    (`core.commitments`). Equal commitments therefore mean equal secrets, and the grant contains no secret.
    """
    return {name: Constraint(equals=value) for name, value in parameters.items()}


def _condition_words(condition: Constraint | str) -> str:
    if isinstance(condition, str):
        return "may be anything"
    value = condition.equals
    if isinstance(value, dict) and is_stand_in(value) and isinstance(value[SECRET_MARK], list):
        commitments = ", ".join(f"{digits[:8]}…" for digits in commitments_in(value))
        return f"is {readable(value)!r} with the same secrets as now (commitment {commitments})"
    if isinstance(value, dict) and is_stand_in(value):
        return f"is the same secret as now (commitment {str(value[SECRET_MARK])[:8]}…)"
    return condition.words()


def alternatives(names: list[str]) -> str:
    """The names in words."""
    return " or ".join(names)


def _pattern_note(names: list[str]) -> str:
    return " (a pattern: whatever name fits, now or later)" if any(map(is_glob, names)) else ""


def end_of(expires: str) -> datetime:
    """The expiry as a time; an invalid time, or one without a time zone, counts as long expired."""
    try:
        ends = datetime.fromisoformat(expires)
    except (ValueError, TypeError):
        return datetime.min.replace(tzinfo=UTC)
    return ends if ends.tzinfo is not None else datetime.min.replace(tzinfo=UTC)

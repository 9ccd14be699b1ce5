"""Grants: operators' signed permissions for later calls, with their scope, uses, expiry and revocation.

A grant binds device, tool, contract and every argument: it does not cover a call with an argument that it
does not name, or with a value that its condition does not permit. Grants are stored only in the journal and
in memory. A grant never covers more than the operator saw when signing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from core.audit.entries import Entry, Kind
from core.audit.events import GrantGiven, GrantRevoked, GrantUsed
from core.commitments import SECRET_MARK, commitments_in, is_stand_in, marked_objects, readable
from core.errors import BadInput, ErrorCode, Refused
from core.fleet.models import FrozenModel, Risk
from core.json_walk import values_in
from core.policy.analysis.shell.tool_arguments import holds_line
from core.policy.constraints import Constraint
from core.policy.models import GrantMiss
from core.policy.rules import MatchContext, fits, is_glob
from core.statements import Request

MOST_GRANTS = 2_000
LONGEST_DAYS = 90
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
        f"On {_or(terms.devices)}{_pattern_note(terms.devices)}",
        f"Asked by {_or(terms.actors)}{_pattern_note(terms.actors)}",
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


def holds_secret(value: Any) -> bool:
    """Whether a value contains a secret's stand-in at any depth."""
    return any(isinstance(part, dict) and part.keys() == {SECRET_MARK} for part in values_in(value))


def exact_arguments(parameters: dict[str, Any]) -> dict[str, Constraint | Literal["any"]]:
    """The narrowest scope: every argument must equal the request's; secrets are compared by commitment.

    A home always computes the same commitment for the same secret at the same place of a tool
    (`core.commitments`). Equal commitments therefore mean equal secrets, and the grant contains no secret.
    """
    return {name: Constraint(equals=value) for name, value in parameters.items()}


@dataclass(frozen=True, slots=True)
class CallScope:
    """The properties of a call that a grant's terms are compared with."""

    device: str
    tool_key: str
    contract: str
    actor: str
    run: str | None
    risk: Risk
    parameters: dict[str, Any]
    real: Callable[[str], str] | None = None


def call_scope(context: MatchContext, run: str | None, redacted: dict[str, Any]) -> CallScope:
    """The scope of a call; `redacted` are its arguments with secrets as commitments.

    An argument that contains a secret is compared in its redacted form, so that a grant's pattern or list of
    values cannot be used to guess the secret. It matches only as a whole, or if the terms say `any`.
    """
    arguments = context.parameters
    return CallScope(
        device=context.device.name,
        tool_key=context.tool.tool_key,
        contract=context.tool.contract.digest,
        actor=context.actor,
        run=run,
        risk=context.risk,
        parameters={
            name: redacted[name] if holds_secret(redacted[name]) else arguments[name] for name in arguments
        },
        real=context.real,
    )


def uncovered_request(
    terms: GrantTerms, request: Request, *, actor: str, run: str | None, risk: Risk
) -> list[str]:
    """The reasons why a grant's terms do not cover a request; empty if they cover it."""
    call = CallScope(
        device=request.device,
        tool_key=request.tool_key,
        contract=request.contract,
        actor=actor,
        run=run,
        risk=risk,
        parameters=request.parameters,
    )
    return uncovered(terms, call)


def uncovered(terms: GrantTerms, call: CallScope) -> list[str]:
    """The reasons, in words, why these terms do not cover a call; empty if they cover it."""
    if call.tool_key != terms.tool_key:
        return [f"it is for {terms.tool_key}"]
    faults: list[str] = []
    if call.contract != terms.contract:
        faults.append("the tool changed since")
    if not fits(call.device, terms.devices):
        faults.append(f"it is for {_or(terms.devices)}")
    if not fits(call.actor, terms.actors):
        faults.append(f"it is for {_or(terms.actors)}")
    if terms.run is not None and call.run != terms.run:
        faults.append(f"it is for run {terms.run}")
    if call.risk.rank > terms.risk.rank:
        faults.append(f"it covers up to {terms.risk.value} risk, this is {call.risk.value}")
    tool_name = call.tool_key.rpartition("::")[2]
    for name, condition in terms.arguments.items():
        if isinstance(condition, str):
            continue
        if name not in call.parameters:
            faults.append(f"{name} is missing")
        elif not condition.permits(call.parameters[name], call.real, path=not holds_line(tool_name, name)):
            faults.append(f"{name} is not as granted")
    faults.extend(f"{name} is not part of it" for name in call.parameters if name not in terms.arguments)
    return faults


def is_wider(existing: GrantTerms, requested: GrantTerms) -> bool:
    """Whether `existing` covers everything that `requested` would cover; false if that is uncertain."""
    if (existing.tool_key, existing.contract) != (requested.tool_key, requested.contract):
        return False
    if existing.run not in (None, requested.run) or existing.risk.rank < requested.risk.rank:
        return False
    if existing.uses is not None or _ends(existing.expires) < _ends(requested.expires):
        return False
    if not _covers_names(existing.devices, requested.devices) or not _covers_names(
        existing.actors, requested.actors
    ):
        return False
    for name, condition in requested.arguments.items():
        if name not in existing.arguments or not _covers(existing.arguments[name], condition):
            return False
    return all(
        name in requested.arguments or existing_condition == ANY
        for name, existing_condition in existing.arguments.items()
    )


def _covers_names(existing: list[str], requested: list[str]) -> bool:
    return all(
        name in existing or (not is_glob(name) and fits(name, existing)) or "*" in existing
        for name in requested
    )


def _covers(existing: Constraint | str, requested: Constraint | str) -> bool:
    if isinstance(existing, str):
        return True
    if isinstance(requested, str):
        return False
    if existing == requested:
        return True
    values = [requested.equals] if requested.wants_equal else requested.one_of
    return values is not None and all(existing.permits(value) for value in values)


class GrantBook:
    """The grants of one home, in memory. The caller journals each change before it calls a method here."""

    def __init__(
        self,
        changed: Callable[[Grant], None] = lambda grant: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._grants: dict[str, Grant] = {}
        self._by_tool: dict[str, list[str]] = {}
        self._changed = changed
        self._now = now
        self._ended_runs: set[str] = set()
        self._latest = datetime.min.replace(tzinfo=UTC)

    def restore(
        self, entries: Iterable[Entry], is_valid: Callable[[SignedGrant], bool] = lambda signed: True
    ) -> list[str]:
        """Rebuild the grants from journal entries, oldest first.

        Returns the ids of the grants that do not count and are left out: `is_valid` rejects them, they were
        given before under the same id, or could not have been given at the time of their entry.
        """
        invalid: list[str] = []
        for entry in entries:
            self._advance_clock(datetime.fromisoformat(entry.time))
            if entry.kind is Kind.GRANT_GIVEN:
                signed = SignedGrant.model_validate(GrantGiven.read_with(entry.body, "signed").signed)
                if not self._could_be_given(signed.terms, entry) or not is_valid(signed):
                    invalid.append(signed.terms.id)
                    continue
                self._put(Grant(terms=signed.terms, given_at=entry.time, words=scope_words(signed.terms)))
            elif entry.kind is Kind.GRANT_USED:
                self._count(GrantUsed.read_with(entry.body, "grant").grant, entry.time)
            elif entry.kind is Kind.GRANT_REVOKED:
                revoked = GrantRevoked.read_with(entry.body, "grant")
                self._change(revoked.grant, revoked_at=entry.time, revoked_by=entry.actor)
        return invalid

    def _could_be_given(self, terms: GrantTerms, entry: Entry) -> bool:
        """Whether the grant is new at this entry, and ends in the time that a grant may last."""
        lasts = (_ends(terms.expires) - datetime.fromisoformat(entry.time)).total_seconds()
        return terms.id not in self._grants and 0 < lasts <= LONGEST_DAYS * 86_400

    def all(self) -> list[Grant]:
        """Every grant, newest first, including those that are over."""
        grants = (self.get(grant_id) for grant_id in self._grants)
        return sorted(grants, key=lambda grant: grant.given_at, reverse=True)

    def get(self, grant_id: str) -> Grant:
        """The grant with this id.

        Raises:
            BadInput: no grant has that id (code `not_found`).
        """
        stored = self._grants.get(grant_id)
        if stored is None:
            raise BadInput(f"No grant has the id {grant_id}.", ErrorCode.NOT_FOUND)
        return stored.model_copy(update={"over": self._is_over(stored)})

    @property
    def folders(self) -> set[str]:
        """Every folder in a `below` condition of a grant, including grants that are over."""
        conditions = (
            condition for grant in self._grants.values() for condition in grant.terms.arguments.values()
        )
        return {
            condition.below
            for condition in conditions
            if isinstance(condition, Constraint) and condition.below is not None
        }

    def check_new(self, terms: GrantTerms) -> None:
        """Check that these terms may become a grant.

        Raises:
            Refused: the id is taken, a secret's stand-in is not a commitment, the terms have expired or
                last longer than `LONGEST_DAYS`, have no limit that their risk wants (`limits_fault`), a valid
                grant covers them already, or there are `MOST_GRANTS` valid grants.
        """
        if terms.id in self._grants:
            raise Refused(f"There is a grant {terms.id} already.", ErrorCode.APPROVAL_INVALID)
        exact_values = [
            condition.equals for condition in terms.arguments.values() if isinstance(condition, Constraint)
        ]
        if not all(map(is_stand_in, marked_objects(exact_values))):
            raise Refused(
                "What stands for a secret in these terms is no commitment.",
                next_step="Make the grant from the request that is to be granted.",
            )
        remaining_s = self._remaining_s(terms)
        if remaining_s <= 0 or remaining_s > LONGEST_DAYS * 86_400:
            raise Refused(
                f"A grant ends within {LONGEST_DAYS} days; this one ends {terms.expires}.",
                next_step="Choose an earlier end.",
            )
        if fault := limits_fault(terms):
            raise Refused(fault, ErrorCode.APPROVAL_INVALID)
        for existing in self._valid_for_tool(terms.tool_key):
            if is_wider(existing.terms, terms):
                raise Refused(
                    f"Grant {existing.terms.id} covers this already: {'; '.join(existing.words)}.",
                    next_step="No other grant is needed for it.",
                )
        if sum(not self._is_over(condition) for condition in self._grants.values()) >= MOST_GRANTS:
            raise Refused(
                f"There are {MOST_GRANTS} grants.", next_step="Revoke those that are not used any more."
            )

    def add(self, terms: GrantTerms) -> Grant:
        """Add a grant with these terms; the caller has checked and journalled them."""
        return self._put(Grant(terms=terms, given_at=self._now().isoformat(), words=scope_words(terms)))

    def covering(self, context: MatchContext, run: str | None, redacted: dict[str, Any]) -> Grant | None:
        """The grant that covers this call, None if there is none.

        Of several, the first to expire is used, so that long-lived grants are used last.
        """
        covering = [
            grant
            for grant in self._valid_for_tool(context.tool.tool_key)
            if not uncovered(grant.terms, call_scope(context, run, redacted))
        ]
        return min(covering, key=lambda grant: _ends(grant.terms.expires), default=None)

    def near(
        self, context: MatchContext, run: str | None, redacted: dict[str, Any], limit: int = 3
    ) -> list[GrantMiss]:
        """At most `limit` grants for the tool that do not cover this call for exactly one reason."""
        misses: list[GrantMiss] = []
        for grant in self._valid_for_tool(context.tool.tool_key):
            faults = uncovered(grant.terms, call_scope(context, run, redacted))
            if len(faults) == 1:
                misses.append(GrantMiss(id=grant.terms.id, fault=faults[0]))
        return misses[:limit]

    def use(self, grant_id: str) -> bool:
        """Count one use; returns false, and counts nothing, if the grant is unknown or over."""
        stored = self._grants.get(grant_id)
        if stored is None or self._is_over(stored):
            return False
        self._count(grant_id, self._now().isoformat())
        return True

    def revoke(self, grant_id: str, by: str) -> Grant:
        """Revoke a grant; the caller has journalled the revocation."""
        stored = self.get(grant_id)
        if stored.revoked_at is None:
            self._change(grant_id, revoked_at=self._now().isoformat(), revoked_by=by)
        return self._grants[grant_id]

    def end_run(self, run: str) -> None:
        """End the grants that are bound to this run."""
        bound = [grant for grant in self._grants.values() if grant.terms.run == run]
        if bound:
            self._ended_runs.add(run)
        for grant in bound:
            self._changed(grant)

    @property
    def runs(self) -> set[str]:
        """The runs to which valid grants are bound."""
        return {
            grant.terms.run
            for grant in self._grants.values()
            if grant.terms.run is not None and not self._is_over(grant)
        }

    def _advance_clock(self, moment: datetime) -> datetime:
        """The latest time seen so far: setting the clock back must not revive an expired grant."""
        self._latest = max(self._latest, moment)
        return self._latest

    def _remaining_s(self, terms: GrantTerms) -> float:
        return (_ends(terms.expires) - self._advance_clock(self._now())).total_seconds()

    def _is_over(self, grant: Grant) -> bool:
        uses = grant.terms.uses
        used_up = uses is not None and grant.used >= uses
        run_ended = grant.terms.run in self._ended_runs
        return grant.revoked_at is not None or used_up or run_ended or self._remaining_s(grant.terms) <= 0

    def _valid_for_tool(self, tool_key: str) -> list[Grant]:
        grants = (self._grants[grant] for grant in self._by_tool.get(tool_key, ()))
        return [grant for grant in grants if not self._is_over(grant)]

    def _put(self, grant: Grant) -> Grant:
        self._grants[grant.terms.id] = grant
        self._by_tool.setdefault(grant.terms.tool_key, []).append(grant.terms.id)
        self._changed(grant)
        return grant

    def _count(self, grant_id: str, at: str) -> None:
        if stored := self._grants.get(grant_id):
            self._change(grant_id, used=stored.used + 1, last_used_at=at)

    def _change(self, grant_id: str, **fields: Any) -> None:
        if stored := self._grants.get(grant_id):
            self._grants[grant_id] = stored.model_copy(update=fields)
            self._changed(self._grants[grant_id])


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


def _or(names: list[str]) -> str:
    return " or ".join(names)


def _pattern_note(names: list[str]) -> str:
    return " (a pattern: whatever name fits, now or later)" if any(map(is_glob, names)) else ""


def _ends(expires: str) -> datetime:
    """The expiry as a time; an invalid time, or one without a time zone, counts as long expired."""
    try:
        ends = datetime.fromisoformat(expires)
    except (ValueError, TypeError):
        return datetime.min.replace(tzinfo=UTC)
    return ends if ends.tzinfo is not None else datetime.min.replace(tzinfo=UTC)

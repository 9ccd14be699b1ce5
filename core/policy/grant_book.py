"""The book of grants: those of one home, their uses, expiry and revocation.

Grants are stored only in the journal and in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from core.audit.entries import Entry, Kind
from core.audit.events import GrantGiven, GrantRevoked, GrantUsed
from core.commitments import is_stand_in, marked_objects
from core.errors import BadInput, ErrorCode, Refused
from core.policy.constraints import Constraint
from core.policy.grant_scope import call_scope, is_wider, uncovered
from core.policy.grants import Grant, GrantTerms, SignedGrant, end_of, limits_fault, scope_words
from core.policy.models import GrantMiss
from core.policy.rules import MatchContext
from core.similar import meant_or_known

MOST_GRANTS = 2_000
LONGEST_DAYS = 90


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
        lasts = (end_of(terms.expires) - datetime.fromisoformat(entry.time)).total_seconds()
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
            known = meant_or_known(grant_id, self._grants, "Grants")
            raise BadInput(f"No grant has the id {grant_id}. {known}.", ErrorCode.NOT_FOUND)
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
                "What stands for a secret in these terms is not a commitment.",
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
        return min(covering, key=lambda grant: end_of(grant.terms.expires), default=None)

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
        return (end_of(terms.expires) - self._advance_clock(self._now())).total_seconds()

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

"""Deciding at a terminal: answers, grants and operators, done over the door with a key unlocked here."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal

from core.cli.call import card, of_words
from core.cli.output import as_json, facts, lines, moment, note, one_line, say, table, time_cell
from core.cli.session import Session
from core.cli.signing import Unlocking, sign_change, unlock
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.ids import new_id
from core.policy.grants import GrantTerms, exact_arguments, scope_words
from core.policy.models import Approval, ApprovalState
from core.policy.operator_keys import create_operator_key, delete_operator_key, statement_for
from core.service.wishes import operator_added, operator_removed
from core.statements import check_shown

RUN_GRANT_HOURS = 24.0
USUAL_GRANT_HOURS = 24.0
_SPAN = re.compile(r"(\d{1,5})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def granted_terms(
    approval: Approval, author: str, words: list[str] | None, for_run: bool
) -> GrantTerms | None:
    """What is granted along with an approval, each argument exactly as it is; None for this once.

    `words` are `uses=N` and `until=30m`, `8h`, `7d` or a moment in ISO 8601.

    Raises:
        BadInput: a word is not understood, or the request belongs to no run.
    """
    if words is None and not for_run:
        return None
    if for_run and approval.run is None:
        raise BadInput("This request belongs to no run; approve it once, or with --grant.")
    uses, ends = None, datetime.now(UTC) + timedelta(hours=RUN_GRANT_HOURS if for_run else USUAL_GRANT_HOURS)
    for word in [part for one in words or [] for part in re.split(r"[\s,]+", one) if part]:
        key, _, value = word.partition("=")
        if key == "uses" and value.isdigit() and 0 < int(value) <= 100_000:
            uses = int(value)
        elif key == "until" and value:
            ends = _moment(value)
        else:
            raise BadInput(f"{word!r} is not understood: write uses=N or until=8h.")
    return GrantTerms(
        id=f"g-{new_id()}",
        approval=approval.id,
        author=author,
        devices=[approval.request.device],
        tool_key=approval.request.tool_key,
        contract=approval.request.contract,
        actors=[approval.actor],
        arguments=exact_arguments(approval.request.parameters),
        risk=approval.decision.risk,
        run=approval.run if for_run else None,
        uses=uses,
        expires=ends.isoformat(timespec="seconds"),
    )


def _moment(text: str) -> datetime:
    now = datetime.now(UTC)
    if span := _SPAN.fullmatch(text):
        moment = now + timedelta(**{_UNITS[span[2]]: int(span[1])})
    else:
        try:
            moment = datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise BadInput(f"until={text} is no moment: write 30m, 8h, 7d or 2026-12-24T18:00.") from error
    if moment <= now:
        raise BadInput(f"until={text} is over already.")
    return moment


async def answer(
    session: Session,
    wanted: str,
    verdict: Literal["approve", "deny"],
    reason: str,
    unlocking: Unlocking,
    json_wanted: bool,
    *,
    digest: str | None = None,
    grant: list[str] | None = None,
    for_run: bool = False,
) -> None:
    """Answer one request. It is shown before it is signed, and what is granted with it as well, in full.

    Raises:
        Refused: its digest is not that of what is shown, or not `digest`, where that is given.
    """
    console = session.console
    approval = await console.approval(wanted)
    note(card(approval))
    check_shown(approval.request)
    if digest is not None and digest != approval.request.digest:
        raise Refused(
            f"The digest of this request is {approval.request.digest} now; nothing is signed.",
            ErrorCode.APPROVAL_INVALID,
        )
    key = await unlock(session, unlocking)
    terms = granted_terms(approval, key.name, grant, for_run)
    statement = key.sign(statement_for(approval, verdict, key.name, reason))
    signed = None
    if terms is not None:
        note("To be granted with it:\n" + "\n".join(f"  {one_line(line)}" for line in scope_words(terms)))
        signed = key.sign_grant(terms)
    decided = await console.decide(statement, signed)
    if json_wanted:
        told = decided.model_dump(mode="json")
        say(as_json({**told, "grant": terms.id} if terms else told))
        return
    word = "Approved" if decided.state is ApprovalState.APPROVED else decided.state.value.capitalize()
    say(
        facts(
            [
                (word, decided.id),
                ("Device", decided.request.device),
                ("Tool", decided.request.tool_name),
                ("By", decided.decided_by or " and ".join(decided.approved_by)),
                ("Approvals", of_words(decided)),
                ("Grant", terms.id if terms else ""),
                ("Run", decided.run or ""),
            ]
        )
    )


async def show(session: Session, wanted: str, json_wanted: bool) -> None:
    """One request in full."""
    found = await session.console.approval(wanted)
    say(as_json(found.model_dump(mode="json")) if json_wanted else card(found))


async def grants(session: Session, everything: bool, json_wanted: bool) -> None:
    """The grants that hold; with `everything`, those that are over too."""
    found = [one for one in await session.console.grants() if everything or not one.over]
    if json_wanted:
        say(as_json({"grants": [one.model_dump(mode="json") for one in found]}))
        return
    if not found:
        say("No grant holds.")
        return
    for one in found:
        uses = f"{one.used} of {one.terms.uses}" if one.terms.uses else str(one.used)
        state = f"revoked by {one.revoked_by}" if one.revoked_at else "over" if one.over else "holds"
        pairs = [
            ("Grant", one.terms.id),
            ("State", state),
            ("By", one.terms.author),
            ("Used", uses),
            ("Last used", moment(one.last_used_at) or "never"),
        ]
        say(facts(pairs) + "\n" + "\n".join(f"  {lines(line)}" for line in one.words) + "\n")


async def revoke(session: Session, wanted: str, json_wanted: bool) -> None:
    """Take a grant back."""
    found = await session.console.revoke_grant(wanted)
    say(as_json(found.model_dump(mode="json")) if json_wanted else f"Revoked: {found.terms.id}.")


async def operators(session: Session, json_wanted: bool) -> None:
    """Who may approve."""
    found = (await session.console.state()).operators
    if json_wanted:
        say(as_json({"operators": [one.model_dump(mode="json") for one in found]}))
        return
    rows = [
        (
            one.name,
            one.fingerprint,
            "yes" if one.has_passphrase else "no",
            time_cell(one.registered_at),
        )
        for one in found
    ]
    say(table(("NAME", "KEY", "PASSPHRASE", "REGISTERED (UTC)"), rows) if found else "Nobody yet.")


async def add_operator(
    session: Session, name: str, passphrase: str | None, unlocking: Unlocking, json_wanted: bool
) -> None:
    """Make a key for another operator; one who is registered signs for them."""
    registered = (await session.console.state()).operators
    if any(known.name == name for known in registered):
        raise BadInput(f"{name} is an operator of this home already.")
    key = create_operator_key(session.home, name, passphrase)
    try:
        signed = await sign_change(session, unlocking, operator_added(key.operator)) if registered else None
    except QuarterdeckError:
        # Nobody vouched for it: left behind, it would be in the way of the next try.
        delete_operator_key(session.home, name)
        raise
    added = await session.console.register_operator(key.operator, signed)
    if json_wanted:
        say(as_json(added.model_dump(mode="json")))
    else:
        protected = "protected by its passphrase" if added.has_passphrase else "without a passphrase"
        say(f"{added.name} may approve from now on (key …{added.fingerprint}, {protected}).")


async def remove_operator(session: Session, name: str, unlocking: Unlocking, json_wanted: bool) -> None:
    """Let an operator decide nothing any more."""
    known = {operator.name: operator for operator in (await session.console.state()).operators}
    if name not in known:
        raise BadInput(f"{name} is not an operator of this home.", ErrorCode.NOT_FOUND)
    signed = await sign_change(session, unlocking, operator_removed(known[name]))
    await session.console.remove_operator(name, signed)
    say(
        as_json({"removed": name}) if json_wanted else f"{name} decides nothing any more; their grants ended."
    )

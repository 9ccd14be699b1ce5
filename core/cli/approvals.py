"""Commands for deciding: `approvals`, `grants` and `operators`.

They work over the console API, with an operator key that is unlocked at this terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer

from core.approvals.models import Approval, ApprovalState
from core.approvals.operator_keys import (
    change_passphrase,
    create_operator_key,
    delete_operator_key,
    list_operator_keys,
    load_operator_key,
    statement_for,
)
from core.cli.answer import Answer
from core.cli.asking import card_of, of_words
from core.cli.base import EVERYWHERE, command_set, examples, finish, in_session, run_work
from core.cli.group_card import Verdict, alike, answer_all, fates_table, note_group, problem_of
from core.cli.output import (
    Block,
    Cell,
    facts,
    lines,
    moment,
    note,
    note_blocks,
    one_line,
    span,
    state_cell,
    table,
    time_cell,
    tool_cell,
)
from core.cli.prompt import ask_line, is_terminal
from core.cli.session import Session
from core.cli.signing import KeySource, checked, sign_change, signs, unlock
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.home import Home
from core.ids import new_id
from core.policy.grants import Grant, GrantTerms, exact_arguments, scope_words, usual_limits
from core.service import exit_codes
from core.service.wishes import operator_added, operator_removed
from core.similar import meant_or_known
from core.statements import check_shown

RUN_GRANT_HOURS = 24.0
_SPAN = re.compile(r"(\d{1,5})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


async def list_waiting(session: Session) -> Answer:
    """List the requests that wait for an operator."""
    found = await session.console.approvals.list()
    rows = [
        (
            one.id,
            one.decision.risk.value,
            one.request.device,
            tool_cell(one.request.tool_name),
            one.actor,
            span(round(one.remaining_s)),
            one.decision.summary,
        )
        for one in found
    ]
    head = ("ID", "RISK", "DEVICE", "TOOL", "ASKED BY", "LEFT", "EFFECT")
    return Answer({"approvals": found}, [table(head, rows)] if found else "Nothing waits for approval.")


def granted_terms(
    approval: Approval, author: str, words: list[str] | None, for_run: bool
) -> GrantTerms | None:
    """The terms of a grant given with an approval, each argument exactly as it is; None for approving once.

    `words` are `uses=N` (or `uses=any`) and `until=30m`, `8h`, `7d` or a time in ISO 8601, which is in UTC
    where it has no offset. What they leave open is as narrow as the request's risk wants it (`usual_limits`).

    Raises:
        BadInput: a word is not understood, the time is past, or the request belongs to no run.
    """
    if words is None and not for_run:
        return None
    if for_run and approval.run is None:
        raise BadInput("This request belongs to no run; approve it once, or with --grant.")
    usual_uses, usual_time = usual_limits(approval.decision.risk)
    uses: int | None = None if for_run else usual_uses
    ends = datetime.now(UTC) + (timedelta(hours=RUN_GRANT_HOURS) if for_run else usual_time)
    for word in [part for one in words or [] for part in re.split(r"[\s,]+", one) if part]:
        key, _, value = word.partition("=")
        if key == "uses" and value.isdigit() and 0 < int(value) <= 100_000:
            uses = int(value)
        elif word == "uses=any":
            uses = None
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
            moment = datetime.fromisoformat(text)
            # As every time that is printed.
            moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, OverflowError) as error:
            raise BadInput(
                f"until={text} is not a date or time: write 30m, 8h, 7d, or 2026-12-24T18:00 in UTC, "
                "or with an offset as 2026-12-24T18:00+01:00."
            ) from error
    if moment <= now:
        raise BadInput(f"until={text} is over already.")
    return moment


async def answer(
    session: Session,
    wanted: str,
    verdict: Literal["approve", "deny"],
    reason: str,
    unlocking: KeySource,
    *,
    digest: str | None = None,
    grant: list[str] | None = None,
    for_run: bool = False,
) -> Answer:
    """Answer a request. The request and the terms of its grant are shown in full before they are signed.

    Raises:
        Refused: the request's digest does not match what is shown, or differs from the given `digest`.
    """
    console = session.console
    approval = await console.approvals.get(wanted)
    note_blocks(await card_of(session, approval))
    check_shown(approval.request)
    _check_digest(approval, digest)
    key = await unlock(session, unlocking)
    terms = granted_terms(approval, key.name, grant, for_run)
    statement = key.sign(statement_for(approval, verdict, key.name, reason))
    signed = None
    if terms is not None:
        note("To be granted with it:\n" + "\n".join(f"  {one_line(line)}" for line in _scope_words(terms)))
        signed = key.sign_grant(terms)
    decided = await console.approvals.decide(statement, signed)
    shown = [
        ("Request", decided.id),
        ("State", state_cell(decided.state)),
        ("Device", decided.request.device),
        ("Tool", decided.request.tool_name),
        # Where several approve, the line below names them.
        ("By", decided.decided_by if decided.approvers == 1 or not decided.approved_by else ""),
        ("Approvals", of_words(decided)),
        ("Grant", terms.id if terms else ""),
        ("Run", decided.run or ""),
    ]
    told = decided.model_dump(mode="json")
    return Answer({**told, "grant": terms.id} if terms else told, [facts(shown)])


async def answer_alike(
    session: Session,
    wanted: str,
    verdict: Verdict,
    reason: str,
    unlocking: KeySource,
    digest: str | None = None,
) -> Answer:
    """Answer a request and those alike on other devices, by one call; all of them are shown before.

    Raises:
        Refused: a digest does not match what is shown, or that of the request differs from the given one.
    """
    approval = await session.console.approvals.get(wanted)
    if approval.state is not ApprovalState.WAITING:
        raise Refused(f"This request is {approval.state.value} already.", ErrorCode.APPROVAL_INVALID)
    members = await alike(session, approval)
    note_blocks(await card_of(session, approval))
    note_group(members)
    for one in members:
        check_shown(one.request)
    _check_digest(approval, digest)
    key = await unlock(session, unlocking)
    fates = await answer_all(session, key, members, verdict, reason)
    code, error = problem_of(fates)
    taken = sum(fate.error is None for fate in fates)
    told = {"answered": fates, "taken": taken, "not_taken": len(fates) - taken}
    return Answer(told, [fates_table(fates)], code, error)


def _check_digest(approval: Approval, digest: str | None) -> None:
    if digest is not None and digest != approval.request.digest:
        raise Refused(
            f"The digest of this request is {approval.request.digest} now; nothing is signed.",
            ErrorCode.APPROVAL_INVALID,
        )


async def show_request(session: Session, wanted: str) -> Answer:
    """Show a request in full, and say if its digest is not that of what is shown."""
    found = await session.console.approvals.get(wanted)
    code = exit_codes.DONE
    try:
        check_shown(found.request)
    except Refused as error:
        note(error.message)
        code = exit_codes.exit_code_of(error.code)
    return Answer(found, lambda: card_of(session, found), code)


async def grants(session: Session, everything: bool) -> Answer:
    """List the grants in force; with `everything`, also those that have ended."""
    found = [one for one in await session.console.approvals.grants() if everything or not one.over]
    return Answer({"grants": found}, _grants_text(found) if found else "No grant holds.")


def _grants_text(found: list[Grant]) -> Iterator[Block]:
    for one in found:
        uses = f"{one.used} of {one.terms.uses}" if one.terms.uses else str(one.used)
        words = f"revoked by {one.revoked_by}" if one.revoked_at else "over" if one.over else "holds"
        state = Cell(words, "dim" if one.over or one.revoked_at else "green")
        yield facts(
            [
                ("Grant", one.terms.id),
                ("State", state),
                ("By", one.terms.author),
                ("Used", uses),
                ("Last used", moment(one.last_used_at) or "never"),
            ]
        )
        yield "\n".join(f"  {lines(line)}" for line in _scope_words(one.terms)) + "\n"


def _scope_words(terms: GrantTerms) -> list[str]:
    """The scope of a grant, with its end as every time that is printed."""
    ends = datetime.fromisoformat(terms.expires).astimezone(UTC)
    return scope_words(terms, moment(ends.isoformat()))


async def revoke(session: Session, wanted: str) -> Answer:
    """Revoke a grant."""
    found = await session.console.approvals.revoke_grant(wanted)
    return Answer(found, f"Revoked: {found.terms.id}.")


async def operators(session: Session) -> Answer:
    """List the operators, who may approve."""
    found = (await session.console.service.state()).operators
    rows = [
        (
            one.name,
            f"…{one.fingerprint}",
            "yes" if one.has_passphrase else "no",
            time_cell(one.registered_at),
        )
        for one in found
    ]
    head = ("NAME", "KEY", "PASSPHRASE", "REGISTERED (UTC)")
    return Answer({"operators": found}, [table(head, rows)] if found else "No operator yet.")


async def add_operator(session: Session, name: str, passphrase: str | None, unlocking: KeySource) -> Answer:
    """Create a key for another operator; a registered operator signs the addition."""
    registered = (await session.console.service.state()).operators
    if any(known.name == name for known in registered):
        raise BadInput(f"{name} is an operator of this home already.")
    key = create_operator_key(session.home, name, passphrase)
    try:
        signed = await sign_change(session, unlocking, operator_added(key.operator)) if registered else None
    except QuarterdeckError:
        # No operator signed for the key: if it stayed, the next attempt would find it and fail.
        delete_operator_key(session.home, name)
        raise
    added = await session.console.approvals.register_operator(key.operator, signed)
    protected = "protected by its passphrase" if added.has_passphrase else "without a passphrase"
    return Answer(added, f"{added.name} may approve from now on (key …{added.fingerprint}, {protected}).")


async def remove_operator(session: Session, name: str, unlocking: KeySource) -> Answer:
    """Remove an operator, who then cannot decide any more."""
    known = {operator.name: operator for operator in (await session.console.service.state()).operators}
    if name not in known:
        hint = meant_or_known(name, known, "Operators")
        raise BadInput(f"{name} is not an operator of this home. {hint}.", ErrorCode.NOT_FOUND)
    signed = await sign_change(session, unlocking, operator_removed(known[name]))
    await session.console.approvals.remove_operator(name, signed)
    return Answer({"removed": name}, f"{name} decides nothing any more; their grants ended.")


commands = command_set()
approvals_app = typer.Typer(
    help="What waits for an operator's answer.", epilog=EVERYWHERE, no_args_is_help=True
)
grants_app = typer.Typer(
    help="Remembered approvals: what runs without asking.", epilog=EVERYWHERE, no_args_is_help=True
)
operators_app = typer.Typer(help="Who may approve.", epilog=EVERYWHERE, no_args_is_help=True)
commands.add_typer(approvals_app, name="approvals")
commands.add_typer(grants_app, name="grants")
commands.add_typer(operators_app, name="operators")

ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the journal and the asker.")]
DigestOption = Annotated[
    str | None,
    typer.Option("--digest", metavar="SHA256", help="Sign only if this is the request's digest."),
]
AllDevicesOption = Annotated[
    bool, typer.Option("--all-devices", help="And all requests of its run and step that are alike.")
]
NewPassphraseFile = Annotated[
    Path | None,
    typer.Option("--new-passphrase-file", metavar="FILE", help="The new passphrase: its first line."),
]
RequestArgument = Annotated[str, typer.Argument(metavar="ID")]


@approvals_app.command("list", epilog=examples("approvals list", "approvals list --json"))
def approvals_list(context: typer.Context) -> None:
    """List what waits: highest risk first, then oldest."""
    in_session(context, list_waiting)


@approvals_app.command("show", epilog=examples("approvals show a-0123", "approvals show a-0123 --json"))
def approvals_show(context: typer.Context, approval: RequestArgument) -> None:
    """Show one request with everything that would be sent."""
    in_session(context, lambda session: show_request(session, approval))


@approvals_app.command(
    "approve",
    epilog=examples(
        "approvals approve ID",
        "approvals approve ID --for-run --reason 'as agreed'",
        "approvals approve ID --grant uses=5 --grant until=8h",
        "approvals approve ID --all-devices",
    ),
)
@signs
def approvals_approve(
    context: typer.Context,
    approval: RequestArgument,
    reason: ReasonOption = "",
    digest: DigestOption = None,
    for_run: Annotated[
        bool, typer.Option("--for-run", help="And whatever is exactly like it in this run.")
    ] = False,
    grant: Annotated[
        list[str] | None,
        typer.Option(
            "--grant",
            metavar="uses=N|until=8h",
            help="And whatever is exactly like it, so often, so long; if not said, 5 times within an hour, "
            "at high risk once within 15 minutes. A time is in UTC, or has an offset: "
            "until=2026-12-24T18:00+01:00.",
        ),
    ] = None,
    all_devices: AllDevicesOption = False,
    *,
    unlocking: KeySource,
) -> None:
    """Approve one request with an operator's signature. Once, unless more is granted.

    With --all-devices, also the requests of the same run and step that differ in the device, or in short
    values of each device, and are judged alike; each is listed first. Production devices stay apart. The exit
    code is 3 if an answer was not taken.

    A grant for a request with a secret argument holds for the same secret only; it contains a commitment that
    stands for the secret, not the secret.
    """
    if all_devices:
        if for_run or grant:
            raise BadInput("--all-devices approves once: give no --for-run and no --grant with it.")
        in_session(
            context, lambda session: answer_alike(session, approval, "approve", reason, unlocking, digest)
        )
    in_session(
        context,
        lambda session: answer(
            session,
            approval,
            "approve",
            reason,
            unlocking,
            digest=digest,
            grant=grant or None,
            for_run=for_run,
        ),
    )


@approvals_app.command(
    "deny",
    epilog=examples(
        "approvals deny a-0123 --reason 'Not during the backup'",
        "approvals deny a-0123 --all-devices",
    ),
)
@signs
def approvals_deny(
    context: typer.Context,
    approval: RequestArgument,
    reason: ReasonOption = "",
    digest: DigestOption = None,
    all_devices: AllDevicesOption = False,
    *,
    unlocking: KeySource,
) -> None:
    """Deny one request with an operator's signature. The asker receives the reason."""
    if all_devices:
        in_session(
            context, lambda session: answer_alike(session, approval, "deny", reason, unlocking, digest)
        )
    in_session(
        context,
        lambda session: answer(session, approval, "deny", reason, unlocking, digest=digest),
    )


@grants_app.command("list", epilog=examples("grants list", "grants list --all --json"))
def grants_list(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Those that are over too.")] = False,
) -> None:
    """List grants: their scope, how often and when used."""
    in_session(context, lambda session: grants(session, everything))


@grants_app.command("revoke", epilog=examples("grants revoke g-0123"))
def grants_revoke(context: typer.Context, grant: Annotated[str, typer.Argument(metavar="GRANT")]) -> None:
    """Take a grant back: from now on the same asks again."""
    in_session(context, lambda session: revoke(session, grant))


@operators_app.command("list", epilog=examples("operators list", "operators list --json"))
def operators_list(context: typer.Context) -> None:
    """List the operators of this home."""
    in_session(context, operators)


@operators_app.command("add", epilog=examples("operators add anna"))
@signs
def operators_add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    new_passphrase_file: NewPassphraseFile = None,
    no_passphrase: Annotated[
        bool, typer.Option("--no-passphrase", help="A key that every reader of this file can use; marked so.")
    ] = False,
    *,
    unlocking: KeySource,
) -> None:
    """Make a key for another operator. --operator, who is one already, signs for them."""

    async def add(session: Session) -> Answer:
        need = f"Give --new-passphrase-file for the key of {name}, or --no-passphrase."
        chosen = None if no_passphrase else await _new_passphrase(name, new_passphrase_file, need)
        return await add_operator(session, name, chosen, unlocking)

    in_session(context, add)


@operators_app.command("remove", epilog=examples("operators remove anna"))
@signs
def operators_remove(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="OPERATOR")],
    *,
    unlocking: KeySource,
) -> None:
    """Let an operator decide nothing any more; their grants end. An operator signs this."""
    in_session(context, lambda session: remove_operator(session, name, unlocking))


@operators_app.command(
    "passphrase",
    epilog=examples(
        "operators passphrase anna",
        "operators passphrase anna --passphrase-file OLD --new-passphrase-file NEW",
    ),
)
def operators_passphrase(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="OPERATOR")],
    passphrase_file: Annotated[
        Path | None,
        typer.Option("--passphrase-file", metavar="FILE", help="The present passphrase: its first line."),
    ] = None,
    new_passphrase_file: NewPassphraseFile = None,
) -> None:
    """Change the passphrase of an operator's key in this home, or give it one.

    The key stays the same: what it has signed stays valid, and the service is not asked. A copy of the old
    file, as in a backup, still opens with the old passphrase.
    """
    home: Home = context.obj.home
    finish(context, run_work(passphrase_changed(home, name, passphrase_file, new_passphrase_file)))


async def passphrase_changed(home: Home, name: str, old_file: Path | None, new_file: Path | None) -> Answer:
    """Change the passphrase of a key; on a terminal both are asked for, the new one twice.

    Raises:
        BadInput: there is no such key, a passphrase is wrong, or cannot be asked for.
    """
    here = {file.name: file for file in list_operator_keys(home)}
    if name not in here:
        known = meant_or_known(name, here, "Keys")
        raise BadInput(f"There is no key of {name} in {home.keys}. {known}.", ErrorCode.NOT_FOUND)
    old = None
    if here[name].has_passphrase or old_file is not None:
        old = await KeySource(passphrase_file=old_file).passphrase(name)
    # A wrong one is said before another is thought of.
    load_operator_key(home, name, old)
    new = await _new_passphrase(name, new_file, f"Give --new-passphrase-file for the key of {name}.")
    key = change_passphrase(home, name, old, new)
    words = "has another passphrase now" if old is not None else "has a passphrase now"
    value = {"changed": name, "public_key": key.public_key, "had_passphrase": old is not None}
    return Answer(value, f"The key of {name} (…{key.operator.fingerprint}) {words}; it is the same key.")


async def _new_passphrase(name: str, file: Path | None, without_terminal: str) -> str:
    if file is not None:
        return await KeySource(passphrase_file=file).passphrase(name)
    if not is_terminal():
        raise BadInput(without_terminal)
    chosen = await ask_line(f"New passphrase of {name}: ", secret=True)
    if chosen != await ask_line("Once more: ", secret=True):
        raise BadInput("The two are not the same.")
    return checked(chosen)

"""An approval means exactly one thing: one request, one device, one time, by somebody who may."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.approvals.models import Approval, ApprovalState, Operator
from core.approvals.operator_keys import OperatorKey, create_operator_key, statement_for
from core.approvals.operators import Operators
from core.audit.entries import Entry, Kind
from core.canonical_json import canonical_bytes
from core.commands.results import Verdict
from core.errors import BadInput, ErrorCode, JournalUnavailable, QuarterdeckError, Refused
from core.home import Home
from core.models.devices import Health
from core.statements import SignedStatement
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, USUAL_TOOLS, Rig, open_rig
from tests.fakes.signing import anna

SHELL = {"command": "rm -rf build"}


async def asked(rig: Rig) -> Approval:
    return await asyncio.wait_for(rig.asked.get(), PATIENCE_S)


def signed(key: OperatorKey, approval: Approval, verdict: str = "approve", **changes: Any) -> SignedStatement:
    statement = statement_for(approval, verdict, key.name, changes.pop("reason", ""))
    changed = statement.model_copy(update=changes)
    if changed.approver == key.name:
        return key.sign(changed)
    # A key of our own code refuses to sign for somebody else; an attacker's would not.
    raw = key._private.sign(canonical_bytes(changed.model_dump(mode="json")))
    return SignedStatement(statement=changed, signature=raw.hex())


async def test_an_approved_request_is_sent_once_with_the_very_bytes_that_were_shown(home: Home):
    async with open_rig(home) as rig:
        task = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        assert rig.tools.seen == []
        await rig.approvals.decide(signed(rig.key, approval))
        await task
        [command] = rig.tools.seen
        assert command.parameters == approval.request.parameters == SHELL


@pytest.mark.parametrize(
    "changes",
    [
        {"request_digest": "0" * 64},
        {"contract": "0" * 64},
        {"device": "db-primary"},
        {"call_id": "another"},
        {"approver": "somebody"},
        {"expires": (datetime.now(UTC) - timedelta(seconds=1)).isoformat()},
        {"expires": (datetime.now(UTC) + timedelta(days=1)).isoformat()},
        {"expires": "tomorrow"},
        {"expires": "2999-01-01T00:00:00"},
    ],
)
async def test_a_signature_for_anything_else_is_refused_and_the_refusal_journalled(
    home: Home, changes: dict[str, str]
):
    async with open_rig(home) as rig:
        task = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        with pytest.raises(Refused) as refusal:
            await rig.approvals.decide(signed(rig.key, approval, **changes))
        assert refusal.value.code is ErrorCode.APPROVAL_INVALID
        assert rig.approvals.get(approval.id).state is ApprovalState.WAITING
        assert Kind.APPROVAL_REJECTED in [one.kind for one in await rig.entries()]
        rig.approvals.withdraw("enough")
        await task
        assert rig.tools.seen == []


async def test_a_stranger_s_key_a_changed_statement_and_a_broken_signature_are_refused(home: Home):
    async with open_rig(home) as rig:
        task = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        good = signed(rig.key, approval)
        denial = signed(rig.key, approval, "deny")
        stranger = Ed25519PrivateKey.generate()
        forged = stranger.sign(canonical_bytes(good.statement.model_dump(mode="json"))).hex()
        attacks = [
            good.model_copy(update={"signature": forged}),
            good.model_copy(update={"signature": good.signature[:-2] + "ff"}),
            good.model_copy(update={"signature": ""}),
            good.model_copy(update={"signature": "not hexadecimal"}),
            denial.model_copy(update={"statement": good.statement}),
            good.model_copy(update={"statement": good.statement.model_copy(update={"reason": "x"})}),
        ]
        for attack in attacks:
            with pytest.raises(Refused):
                await rig.approvals.decide(attack)
        assert rig.approvals.get(approval.id).state is ApprovalState.WAITING
        rig.approvals.withdraw("enough")
        await task
        assert rig.tools.seen == []


async def test_a_used_approval_does_not_count_again_neither_there_nor_for_the_next_request(home: Home):
    async with open_rig(home) as rig:
        first = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        statement = signed(rig.key, approval)
        await rig.approvals.decide(statement)
        await first
        with pytest.raises(QuarterdeckError):
            await rig.approvals.decide(statement)
        second = rig.start("shell_execute", **SHELL)
        next_one = await asked(rig)
        replayed = statement.statement.model_copy(update={"approval": next_one.id})
        for attack in (
            statement.model_copy(update={"statement": replayed}),
            rig.key.sign(replayed),  # even the operator's own signature, over the first request's digest
        ):
            with pytest.raises(Refused):
                await rig.approvals.decide(attack)
        rig.approvals.withdraw("enough")
        await second
        assert len(rig.tools.seen) == 1


async def test_of_two_answers_at_once_one_counts(home: Home):
    async with open_rig(home) as rig:
        task = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        answers = await asyncio.gather(
            rig.approvals.decide(signed(rig.key, approval)),
            rig.approvals.decide(signed(rig.key, approval, "deny")),
            return_exceptions=True,
        )
        counted = [one for one in answers if isinstance(one, Approval)]
        assert len(counted) == 1
        assert sum(isinstance(one, Refused) for one in answers) == 1
        result = await task
        approved = counted[0].state is ApprovalState.APPROVED
        assert len(rig.tools.seen) == (1 if approved else 0)
        assert (result.error is None) == approved


async def test_a_denial_reaches_the_asker_with_its_reason(home: Home):
    async with open_rig(home) as rig:
        task = rig.start("shell_execute", **SHELL)
        await rig.approvals.decide(signed(rig.key, await asked(rig), "deny", reason="wrong folder"))
        result = await task
        assert result.error
        assert result.error.code is ErrorCode.DENIED_BY_OPERATOR
        assert "wrong folder" in result.error.message
        assert result.verdict is Verdict.REFUSED


async def test_expiry_denies_once_saves_nothing_and_the_same_can_be_asked_again(home: Home):
    async with open_rig(home, expiry_s=0.05) as rig:
        result = await rig.call("shell_execute", **SHELL)
        assert result.error
        assert result.error.code is ErrorCode.APPROVAL_EXPIRED
        again = await rig.call("shell_execute", **SHELL)
        assert again.call_id != result.call_id
        assert rig.tools.seen == []
        with pytest.raises(Refused, match="expired already"):
            await rig.approvals.decide(signed(rig.key, rig.told[0]))


async def test_a_card_that_is_being_read_does_not_expire_until_it_is_put_down(home: Home):
    async with open_rig(home, expiry_s=0.6) as rig:
        task = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        held = rig.approvals.pause_expiry(approval.id, "window", True)
        assert held.paused
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), 0.9)
        assert rig.approvals.get(approval.id).remaining_s == pytest.approx(held.remaining_s, abs=0.01)
        rig.approvals.release_reader("window")
        assert (await asyncio.wait_for(task, PATIENCE_S)).error.code is ErrorCode.APPROVAL_EXPIRED


async def test_a_reader_who_never_leaves_holds_a_card_only_so_long(home: Home):
    async with open_rig(home, expiry_s=0.6, most_pause_s=0.2) as rig:
        task = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        assert rig.approvals.pause_expiry(approval.id, "window", True).paused
        result = await asyncio.wait_for(task, PATIENCE_S)
        assert result.error
        assert result.error.code is ErrorCode.APPROVAL_EXPIRED


async def test_an_answer_that_cannot_be_recorded_does_not_count(home: Home):
    async with open_rig(home) as rig:
        task = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        rig.disk.broken = True
        with pytest.raises(JournalUnavailable):
            await rig.approvals.decide(signed(rig.key, approval))
        assert rig.approvals.get(approval.id).state is ApprovalState.WAITING
        assert rig.tools.seen == []
        rig.disk.broken = False
        await rig.approvals.decide(signed(rig.key, approval))
        assert (await task).error is None


async def test_an_approval_is_durable_before_anything_is_sent(home: Home):
    async with open_rig(home) as rig:
        rig.tools.answers["shell_execute"] = lambda command: {"known": rig.on_disk(command.call_id)}
        task = rig.start("shell_execute", **SHELL)
        await rig.approvals.decide(signed(rig.key, await asked(rig)))
        known = (await task).result["known"]
        assert known.index("approval_given") < known.index("intent_recorded")


async def test_a_tool_that_changes_between_approval_and_sending_is_not_called(home: Home):
    async with open_rig(home) as rig:
        task = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        rig.tools.infos = [info.model_copy(update={"description": "another"}) for info in USUAL_TOOLS]
        await rig.connect()
        await rig.approvals.decide(signed(rig.key, approval))
        result = await task
        assert result.error
        assert result.error.code is ErrorCode.CONTRACT_CHANGED
        assert rig.tools.seen == []


async def test_a_device_that_leaves_while_somebody_thinks_is_not_waited_for(home: Home):
    async with open_rig(home) as rig:
        task = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        rig.fleet.lost(DEVICE, None, "unplugged", Health.OFFLINE)
        await rig.approvals.decide(signed(rig.key, approval))
        result = await task
        assert result.error
        assert result.error.code is ErrorCode.DEVICE_OFFLINE
        assert rig.tools.seen == []


async def test_everything_stopped_between_approval_and_sending_stops_it(home: Home):
    async with open_rig(home) as rig:
        task = rig.start("shell_execute", **SHELL)
        await rig.approvals.decide(signed(rig.key, await asked(rig)))
        rig.dispatcher.stop("Stopped by anna.")
        result = await task
        assert result.error
        assert result.error.code is ErrorCode.STOPPED
        assert rig.tools.seen == []


async def test_the_queue_shows_the_highest_risk_first_then_the_oldest(home: Home):
    async with open_rig(home) as rig:
        tasks = [rig.start("write_file", file_path="/tmp/a", content="1")]
        await asked(rig)
        tasks.append(rig.start("write_file", file_path="/tmp/b", content="2"))
        await asked(rig)
        tasks.append(rig.start("shell_execute", command="true"))
        await asked(rig)
        order = [
            (one.decision.risk.value, one.request.parameters.get("file_path")) for one in rig.approvals.list()
        ]
        assert order == [("high", None), ("medium", "/tmp/a"), ("medium", "/tmp/b")]
        rig.approvals.withdraw("enough")
        await asyncio.gather(*tasks)


async def test_an_asker_who_goes_away_takes_the_request_along(home: Home):
    async with open_rig(home) as rig:
        task = rig.start("shell_execute", **SHELL)
        approval = await asked(rig)
        task.cancel()
        await asyncio.wait([task])
        with pytest.raises(Refused, match="withdrawn already"):
            await rig.approvals.decide(signed(rig.key, approval))
        assert rig.tools.seen == []


def test_the_first_operator_is_welcome_and_a_second_one_or_another_key_is_not(home: Home):
    first = anna(home)
    operators = Operators(home.operators)
    assert not operators.begun
    operators.check_new(first.operator)
    operators.add(first.operator)
    assert operators.begun
    assert operators.is_registered(first.operator)
    second = create_operator_key(home, "bert", None)
    with pytest.raises(Refused, match="registered with another key"):
        operators.check_new(second.operator.model_copy(update={"name": "anna"}))
    with pytest.raises(Refused, match="belongs to another operator"):
        operators.check_new(first.operator.model_copy(update={"name": "bert"}))


@pytest.mark.parametrize(
    "operator",
    [
        Operator(name="a b", public_key="0" * 64, has_passphrase=False),
        Operator(name="../x", public_key="0" * 64, has_passphrase=False),
        Operator(name="", public_key="0" * 64, has_passphrase=False),
        Operator(name="anna", public_key="zz", has_passphrase=False),
        Operator(name="anna", public_key="00", has_passphrase=False),
    ],
)
def test_a_name_or_key_that_cannot_be_one_is_refused(home: Home, operator: Operator):
    with pytest.raises(BadInput):
        Operators(home.operators).check_new(operator)


@pytest.mark.parametrize("text", ["[{", "[]", '[{"name": "eve"}]', "\xff", "null"])
def test_a_damaged_copy_of_the_operators_changes_nothing_and_is_written_anew(home: Home, text: str):
    key = anna(home)
    body = {"operator": key.operator.model_dump(mode="json")}
    registered = Entry(seq=1, time="t", kind=Kind.OPERATOR_REGISTERED, actor="cli:x", body=body)
    home.operators.write_bytes(text.encode("latin-1"))
    operators = Operators(home.operators)
    operators.restore([registered], lambda entry, statement: False)
    assert [known.name for known in operators.list()] == ["anna"]
    assert key.public_key in home.operators.read_text()

"""Requests that are edited while they wait: the old signature is worthless, secrets stay where they are."""

from __future__ import annotations

import pytest

from core.approvals.answering_rules import check_still_secret
from core.approvals.models import ApprovalState
from core.audit.entries import Kind
from core.commitments import SECRET_MARK
from core.errors import BadInput, JournalUnavailable, QuarterdeckError, Refused
from core.home import Home
from core.policy.models import Answer
from tests.fakes.operator_answers import SHELL, asked, no, yes
from tests.fakes.rig import DEVICE, open_rig, tool_info


class TestEdits:
    async def test_both_versions_are_journalled_and_the_old_signature_is_worthless(self, home: Home):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            first = await asked(rig)
            signed = yes(rig.key, first)
            other = {"command": "rm -rf build/cache"}
            await rig.approvals.edit(first.id, other, other, "operator:anna")
            second = await asked(rig)
            assert second.edited_from == first.id
            assert rig.approvals.get(first.id).edited_to == second.id
            assert second.request.digest != first.request.digest
            moved = signed.statement.model_copy(update={"approval": second.id})
            for worthless in (signed, rig.key.sign(moved)):
                with pytest.raises(Refused):
                    await rig.approvals.decide(worthless)
            assert rig.tools.seen == []
            await rig.approvals.decide(yes(rig.key, second))
            await task
            assert [one.parameters for one in rig.tools.seen] == [other]
            [edited] = [one for one in await rig.entries() if one.kind is Kind.APPROVAL_EDITED]
            assert (edited.body["before"], edited.body["after"]) == (SHELL, other)
            assert edited.actor == "operator:anna"

    async def test_an_edit_that_cannot_be_recorded_did_not_happen(self, home: Home):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            rig.disk.broken = True
            with pytest.raises(JournalUnavailable):
                await rig.approvals.edit(approval.id, {"command": "id"}, {"command": "id"}, "operator:anna")
            rig.disk.broken = False
            assert rig.approvals.get(approval.id).state is ApprovalState.WAITING
            await rig.approvals.decide(yes(rig.key, approval))
            await task
            assert [one.parameters for one in rig.tools.seen] == [SHELL]

    async def test_what_the_policy_would_allow_still_asks_after_an_edit(self, home: Home):
        home.policy.write_text(
            '[[rule]]\nid = "id"\ndecision = "allow"\ntool = "shell_execute"\n'
            '[rule.parameters.command]\nequals = "id"\n'
        )
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            first = await asked(rig)
            await rig.approvals.edit(first.id, {"command": "id"}, {"command": "id"}, "operator:anna")
            second = await asked(rig)
            assert second.decision.answer is Answer.ASK
            await rig.approvals.decide(no(rig.key, second))
            assert (await task).error is not None
            assert rig.tools.seen == []

    async def test_a_secret_that_is_left_alone_is_sent_as_it_was_and_cannot_be_moved(self, home: Home):
        secret = {"type": "string", "writeOnly": True}
        text = {"type": "string"}
        infos = [tool_info("log_in", "action", {"user": text, "word": secret}, ["user", "word"])]
        async with open_rig(home, infos) as rig:
            task = rig.start("log_in", user="anna", word="tr0ub4dor")
            first = await asked(rig)
            masked = first.request.parameters["word"]
            assert "tr0ub4dor" not in str(first)
            for attack in ({"user": masked, "word": masked}, {"user": "anna", "word": {"$secret": "0" * 64}}):
                with pytest.raises(QuarterdeckError, match="stand-in"):
                    rig.approvals.unredacted(first.id, attack)
            wanted = rig.approvals.unredacted(first.id, {"user": "bert", "word": masked}).arguments
            shown, _ = await rig.dispatcher.redacted([DEVICE], "log_in", wanted)
            await rig.approvals.edit(first.id, wanted, shown, "operator:anna")
            second = await asked(rig)
            assert "tr0ub4dor" not in str(second)
            await rig.approvals.decide(yes(rig.key, second))
            await task
            assert [one.parameters for one in rig.tools.seen] == [{"user": "bert", "word": "tr0ub4dor"}]
            assert "tr0ub4dor" not in str(await rig.entries())


def test_an_edit_that_would_show_a_secret_is_refused():
    """It changes the argument that makes another one secret, and leaves that one as it was."""
    stand_in = {SECRET_MARK: "ab" * 32}
    edited = {"kind": "note", "fields": [{"value": stand_in}]}
    check_still_secret(edited, edited)
    with pytest.raises(BadInput, match="would reveal a secret"):
        check_still_secret(edited, {"kind": "note", "fields": [{"value": "hunter2"}]})

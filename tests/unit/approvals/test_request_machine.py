"""A request for approval as a state machine, against a model that knows only what may be.

Every rule is something that a person, an agent, a device or the ground under the service may do. The far end
is where it counts: whatever arrives there is held against the model at that very moment.
"""

from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from core.approvals.models import Approval, ApprovalState
from core.approvals.operator_keys import statement_for
from core.errors import QuarterdeckError
from core.ids import new_id
from core.models.devices import Health
from core.models.tools import Risk
from core.policy.grants import GrantTerms, SignedGrant, exact_arguments
from core.statements import SignedStatement, signed_bytes
from tests.fakes.request_model import OPERATORS, RequestModel
from tests.fakes.rig import DEVICE, USUAL_TOOLS
from tests.fakes.run_size import examples

ACTORS = ["operator:anna", "operator:bert", "agent:claude"]
VERDICTS = ["approve", "approve", "approve", "deny"]
LINES = ["true", "id", "rm -rf build"]
POLICIES = {
    "": "",
    "two": '[[rule]]\nid = "two"\ndecision = "ask"\ntool = "shell_execute"\napprovers = 2\n',
    "deny": '[[rule]]\nid = "no"\ndecision = "deny"\ntool = "shell_execute"\n',
    "observe": 'profile = "observe"\n',
    "lockdown": 'profile = "lockdown"\n',
    "trusted": 'profile = "trusted"\n',
    "broken": "decision = \n",
}
TROUBLE = ["date", "run", "all", "asker", "stop", "journal", "definition", "device"]
# What stops everything is begun seldom and ended often.
rarely = st.sampled_from([False, False, False, True])


class RequestMachine(RequestModel):
    # What may happen

    @initialize()
    def begin(self) -> None:
        self.ask(actor="agent:claude", line="true", run=None)

    @rule(
        actor=st.sampled_from(ACTORS), line=st.sampled_from(LINES), run=st.sampled_from([None, "r-1", "r-2"])
    )
    def ask(self, actor: str, line: str, run: str | None) -> None:
        self._order("shell_execute", {"command": line}, actor, run, False)

    @rule(actor=st.sampled_from(ACTORS))
    def read(self, actor: str) -> None:
        self._order("get_system_info", {"info_type": "disk"}, actor, None, True)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), name=st.sampled_from(OPERATORS), verdict=st.sampled_from(VERDICTS))
    def answer(self, data: st.DataObject, name: str, verdict: Any) -> None:
        asked = self.chosen(data)
        signed = self.keys[name].sign(statement_for(asked, verdict, name))
        counted = self._answer(signed)
        asker = asked.approvers > 1 and asked.actor == f"operator:{name}" and verdict == "approve"
        twice = name in asked.approved_by and verdict == "approve"
        may = not self.rig.disk.broken and not asker and not twice
        assert (counted is not None) == may, (asked, name)
        if counted is not None:
            self.answers.append(signed)
            more = asked.approvers - len(asked.approved_by)
            state = ApprovalState.DENIED if verdict == "deny" else ApprovalState.APPROVED
            assert counted.state is (state if verdict == "deny" or more == 1 else ApprovalState.WAITING)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def enough_approve(self, data: st.DataObject) -> None:
        asked = self.chosen(data)
        for name in OPERATORS:
            if self.rig.approvals.get(asked.id).state is ApprovalState.WAITING:
                signed = self.keys[name].sign(statement_for(asked, "approve", name))
                if self._answer(signed) is not None:
                    self.answers.append(signed)

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def ask_for_what_is_granted(self, data: st.DataObject) -> None:
        terms = self.grants[data.draw(st.sampled_from(list(self.grants)), "which grant")].terms
        parameters = {name: one.equals for name, one in terms.arguments.items() if one != "any"}
        tool = terms.tool_key.partition("::")[2]
        self._order(tool, parameters, terms.actors[0], terms.run, tool != "shell_execute")

    @precondition(lambda self: len(self.waiting()) > 0)
    @rule(data=st.data())
    def two_answer_at_once(self, data: st.DataObject) -> None:
        asked = self.chosen(data)
        pair = [
            self.keys[name].sign(statement_for(asked, verdict, name))
            for name, verdict in (("bert", "approve"), ("carl", "deny"))
        ]

        async def work() -> list[Any]:
            both = await asyncio.gather(
                *(self.rig.approvals.decide(one) for one in pair), return_exceptions=True
            )
            await self._settle()
            return both

        ended = [one for one in self.played(work()) if isinstance(one, Approval)]
        assert len(ended) <= 1
        self.answers += [one for one in pair if ended and one in ended[0].signed]

    @precondition(lambda self: self.waiting())
    @rule(
        data=st.data(),
        change=st.sampled_from(
            [
                {"request_digest": "0" * 64},
                {"contract": "0" * 64},
                {"device": "another"},
                {"call_id": "another"},
                {"expires": "2020-01-01T00:00:00+00:00"},
                {"expires": "2999-01-01T00:00:00+00:00"},
                {"approver": "bert"},
                {"approver": "nobody"},
            ]
        ),
    )
    def forge(self, data: st.DataObject, change: dict[str, str]) -> None:
        asked = self.chosen(data)
        statement = statement_for(asked, "approve", "carl").model_copy(update=change)
        raw = self.keys["carl"]._private.sign(signed_bytes(statement))
        assert self._answer(SignedStatement(statement=statement, signature=raw.hex())) is None
        assert self.rig.approvals.get(asked.id).signed == asked.signed

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        used = data.draw(st.sampled_from(self.answers), "used statement")
        if used.statement.verdict == "deny":
            return
        assert self._answer(used) is None
        for asked in self.waiting():
            renamed = used.statement.model_copy(update={"approval": asked.id})
            if asked.request.digest != renamed.request_digest:
                assert self._answer(self.keys[renamed.approver].sign(renamed)) is None

    @precondition(lambda self: self.waiting())
    @rule(
        data=st.data(),
        uses=st.sampled_from([None, 1, 2]),
        minutes=st.sampled_from([1, 60]),
        this_run=st.booleans(),
        altered=rarely,
    )
    def grant(
        self, data: st.DataObject, uses: int | None, minutes: int, this_run: bool, altered: bool
    ) -> None:
        asked = self.chosen(data)
        ends = self.now + timedelta(minutes=minutes)
        terms = GrantTerms(
            id=f"g-{new_id()}",
            approval=asked.id,
            author="carl",
            devices=[DEVICE],
            tool_key=asked.request.tool_key,
            contract=asked.request.contract,
            actors=[asked.actor],
            arguments=exact_arguments(asked.request.parameters),
            risk=Risk.CRITICAL,
            run=asked.run if this_run else None,
            uses=uses,
            expires=ends.isoformat(),
        )
        signature = self.keys["carl"]._private.sign(signed_bytes(terms)).hex()
        if altered:
            terms = terms.model_copy(update={"actors": ["*"]})
        signed = self.keys["carl"].sign(statement_for(asked, "approve", "carl"))
        counted = self._answer(signed, SignedGrant(terms=terms, signature=signature))
        if counted is None:
            assert terms.id not in {one.terms.id for one in self.rig.policy.grants.all()}
            return
        assert not altered
        assert asked.approvers == 1
        self.answers.append(signed)

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        mark = data.draw(st.sampled_from(list(self.grants)), "which grant")
        self.rig.policy.grants.revoke(mark, "operator:anna")
        self.grants[mark].revoked = True

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), line=st.sampled_from([*LINES, 7]))
    def edit(self, data: st.DataObject, line: Any) -> None:
        asked = self.chosen(data)
        if asked.request.tool_name != "shell_execute":
            return
        new = {"command": line}

        async def work() -> None:
            await self.rig.approvals.edit(asked.id, new, new, "operator:anna")
            await self._settle()

        try:
            self.played(work())
        except QuarterdeckError:
            assert self.rig.disk.broken
            assert self.rig.approvals.get(asked.id).state is ApprovalState.WAITING
            return
        assert self.rig.approvals.get(asked.id).state is ApprovalState.EDITED

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), reading=st.booleans(), reader=st.sampled_from(["window", "terminal"]))
    def hold(self, data: st.DataObject, reading: bool, reader: str) -> None:
        asked = self.chosen(data)

        async def work() -> None:
            self.rig.approvals.pause_expiry(asked.id, reader, reading)

        self.played(work())

    @rule(seconds=st.sampled_from([1, 1, 30, 30, 59, 61, 200]))
    def time_passes(self, seconds: int) -> None:
        self.seconds += seconds
        self.now += timedelta(seconds=seconds)

        async def work() -> None:
            self.rig.approvals.expire_due()
            await self._settle()

        self.played(work())
        for one in self.waiting():
            assert one.remaining_s > 0

    def date_jumps(self, hours: int) -> None:
        """The wall clock is set; what waits is not touched, and no grant comes back to life."""
        before = [(one.id, one.remaining_s) for one in self.waiting()]
        over = {one.terms.id for one in self.rig.policy.grants.all() if one.over}
        self.now += timedelta(hours=hours)
        assert [(one.id, one.remaining_s) for one in self.waiting()] == before
        assert over <= {one.terms.id for one in self.rig.policy.grants.all() if one.over}

    def withdraw(self, run: str | None) -> None:
        async def work() -> None:
            self.rig.approvals.withdraw("enough", run)
            await self._settle()

        self.played(work())
        assert not [one for one in self.waiting() if run in (None, one.run)]

    def asker_leaves(self) -> None:
        async def work() -> None:
            for call in self.calls.values():
                if not call.task.done():
                    call.task.cancel()
                    await asyncio.wait([call.task])
                    break
            await self._settle()

        self.played(work())

    def stop_or_resume(self, stop: bool) -> None:
        async def work() -> None:
            if stop:
                self.rig.dispatcher.stop("Stopped.")
                self.rig.approvals.withdraw("Stopped.")
            else:
                self.rig.dispatcher.resume()
            await self._settle()

        self.stopped = stop
        self.played(work())

    def journal_breaks_or_mends(self, broken: bool) -> None:
        self.rig.disk.broken = broken

    @rule(name=st.sampled_from(["", "", "", "two", "two", "two", *sorted(POLICIES)]))
    def policy_changes(self, name: str) -> None:
        if name == "broken":
            # No operator can accept it: it is what another program has left.
            self.rig.home.policy.write_text(POLICIES[name])
        else:
            self.rig.use_policy(POLICIES[name])
        self.policy = name

    def definition_changes(self, trust: bool) -> None:
        self.definition += 1
        said = f"Version {self.definition}"
        self.rig.tools.infos = [one.model_copy(update={"description": said}) for one in USUAL_TOOLS]

        async def work() -> None:
            await self.rig.connect()
            if trust:
                for tool in self.rig.fleet.tools(DEVICE):
                    await self.rig.fleet.review(DEVICE, tool.tool_key, tool.contract.digest, "operator:anna")
            await self._settle()

        self.played(work())
        self.away = False

    def device_goes_or_comes(self, gone: bool) -> None:
        async def work() -> None:
            if not gone:
                await self.rig.connect()
            else:
                self.rig.fleet.lost(DEVICE, None, "unplugged", Health.OFFLINE)
            await self._settle()

        self.away = gone
        self.played(work())

    @rule(what=st.sampled_from(TROUBLE), how=rarely)
    def trouble(self, what: str, how: bool) -> None:
        match what:
            case "date":
                self.date_jumps(-1 if how else 1)
            case "run":
                self.withdraw("r-1")
            case "all":
                self.withdraw(None)
            case "asker":
                self.asker_leaves()
            case "stop":
                self.stop_or_resume(how)
            case "journal":
                self.journal_breaks_or_mends(how)
            case "definition" if not self.rig.disk.broken:
                self.definition_changes(not how)
            case "device" if not self.rig.disk.broken:
                self.device_goes_or_comes(how)

    # What must hold

    @invariant()
    def nothing_arrived_that_may_not(self) -> None:
        assert self.faults == []

    @invariant()
    def whatever_waits_can_be_answered(self) -> None:
        asked = {one.request.call_id for one in self.waiting()}
        open_calls = {call_id for call_id, call in self.calls.items() if not call.task.done()}
        assert asked == open_calls

    def teardown(self) -> None:
        try:
            self.played(self._end())
        finally:
            self.played(self.stack.aclose())
            self.loop.close()
            shutil.rmtree(self.folder)


TestRequestMachine = RequestMachine.TestCase
TestRequestMachine.settings = settings(
    max_examples=examples(120, quick=25),
    stateful_step_count=50,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

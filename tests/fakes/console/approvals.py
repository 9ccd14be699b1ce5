"""What the fake console answers about approval requests, grants and operators; signatures are checked."""

from __future__ import annotations

import asyncio
from typing import Any

from core.aip.messages import ResultStatus
from core.approvals.answering_rules import check_grant, check_may_approve
from core.approvals.models import AnswerFate, Approval, ApprovalState, Fatigue, NotTaken, Operator
from core.approvals.preview_models import NOT_THERE, Helper, Preview, Region
from core.audit.entries import Kind
from core.canonical_json import sha256_hex
from core.changes import SignedChange
from core.commands.results import Basis, CommandResult, Evidence, Verdict
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.policy.grants import Grant, SignedGrant
from core.service import proposals
from core.statements import SignedStatement, make_request
from tests.fakes.console.changes import Changes
from tests.fakes.decisions import decide_call
from tests.fakes.fleet_data import ago
from tests.fakes.pictures import desktop_png

_ON_SCREEN = ("click_element", "click_point", "type_text", "press_key", "scroll")


class ApprovalAnswers(Changes):
    """`console.approvals`: answers are checked as the service does, previews and helpers are made up."""

    def answered(self, operator: str, took_s: float, approved: bool) -> None:
        """Count one answer of this operator, as if it had been given just now."""
        self.meter.note(operator, took_s, approved)

    def _asked_for(self, approval: str) -> Approval:
        if approval not in self.queue:
            raise QuarterdeckError(f"There is no request {approval}.", ErrorCode.NOT_FOUND)
        return self.queue[approval]

    def on_approvals(self) -> list[Approval]:
        return self.waiting()

    def on_approval(self, approval: str) -> Approval:
        return self._asked_for(approval)

    def on_decide(self, signed: SignedStatement, grant: SignedGrant | None) -> Approval:
        statement = signed.statement
        waiting = self._asked_for(statement.approval)
        operator = self._check_answer(signed, waiting)
        given = statement.verdict == "approve"
        if given:
            check_may_approve(statement.approver, waiting)
        if grant is not None:
            self._take_grant(signed, grant, waiting, operator)
        self.meter.note(statement.approver, self.took_s, given)
        kind = Kind.APPROVAL_GIVEN if given else Kind.APPROVAL_DENIED
        self._write_answer(kind, waiting, statement.approver, {"reason": statement.reason})
        count = [*waiting.approved_by, statement.approver] if given else waiting.approved_by
        so_far: dict[str, Any] = {"approved_by": count, "signed": [*waiting.signed, signed]}
        if given and len(count) < waiting.approvers:
            still = waiting.model_copy(update=so_far)
            self.request(still)
            return still
        decided = waiting.model_copy(
            update={
                **so_far,
                "state": ApprovalState.APPROVED if given else ApprovalState.DENIED,
                "decided_by": " and ".join(count) if given else statement.approver,
                "decided_at": ago(0),
                "reason": statement.reason,
            }
        )
        self.request(decided)
        self.work.go_on(decided)
        return decided

    def on_decide_many(self, signed: list[SignedStatement]) -> list[AnswerFate]:
        fates, named = [], set[str]()
        for one in signed:
            statement, fault = one.statement, None
            try:
                if statement.approval in named:
                    raise Refused("This request is being answered already.", ErrorCode.APPROVAL_INVALID)
                self.on_decide(one, None)
            except QuarterdeckError as error:
                fault = error
            now = self.queue.get(statement.approval)
            why = None if fault is None else self._why_not(one, now, statement.approval in named)
            named.add(statement.approval)
            fates.append(
                AnswerFate(
                    approval=statement.approval,
                    device=statement.device,
                    state=now.state if now is not None else None,
                    approved_by=now.approved_by if now is not None else [],
                    approvers=now.approvers if now is not None else 1,
                    why=why,
                    error=fault.info if fault is not None else None,
                )
            )
        return fates

    def _why_not(self, one: SignedStatement, now: Approval | None, twice: bool) -> NotTaken:
        if twice:
            return NotTaken.BEING_ANSWERED
        if now is None:
            return NotTaken.NOT_FOUND
        if now.state is not ApprovalState.WAITING:
            return NotTaken.ENDED
        try:
            self._check_answer(one, now)
        except Refused:
            return NotTaken.NOT_SIGNED
        return NotTaken.NEEDS_OTHER_OPERATOR

    def _check_answer(self, signed: SignedStatement, waiting: Approval) -> Operator:
        """Who signed an answer, which must be about exactly this request."""
        operator = self.registered().check_signature(signed)
        said, request = signed.statement, waiting.request
        bound = (request.digest, request.contract, request.device, request.call_id)
        if (said.request_digest, said.contract, said.device, said.call_id) != bound:
            raise Refused("The statement is about another request.", ErrorCode.APPROVAL_INVALID)
        if waiting.state is not ApprovalState.WAITING:
            raise Refused(f"The request is {waiting.state.value} already.", ErrorCode.APPROVAL_INVALID)
        return operator

    def _take_grant(
        self, signed: SignedStatement, grant: SignedGrant, waiting: Approval, operator: Operator
    ) -> None:
        check_grant(grant, signed.statement, waiting, operator)
        self.grant_book.check_new(grant.terms)
        self.grant_book.add(grant.terms)
        self._write_answer(Kind.GRANT_GIVEN, waiting, operator.name, {"grant": grant.terms.id})

    def _write_answer(self, kind: Kind, waiting: Approval, by: str, body: dict[str, Any]) -> None:
        self.fake_journal.write(
            kind,
            f"operator:{by}",
            device=waiting.request.device,
            run=waiting.run,
            tool=waiting.request.tool_name,
            call_id=waiting.request.call_id,
            body=body,
        )

    def on_hold(self, approval: str, reading: bool) -> Approval:
        held = self._asked_for(approval).model_copy(update={"paused": reading})
        self.request(held)
        return held

    def on_edit_approval(self, approval: str, parameters: dict[str, Any]) -> Approval:
        asked = self._asked_for(approval)
        if asked.state is not ApprovalState.WAITING:
            raise Refused(f"This request is {asked.state.value} already.", ErrorCode.APPROVAL_INVALID)
        request = asked.request
        tool = self.tool_named(request.device, request.tool_name)
        missing = [name for name in tool.input_schema.get("required", []) if name not in parameters]
        if missing:
            raise BadInput(f"{missing[0]} is missing.")
        edits = sum(one.edited_from is not None for one in self.queue.values()) + 1
        fresh = asked.model_copy(
            update={
                "id": f"{asked.id}-e{edits}",
                "edited_from": asked.id,
                "asked_at": ago(0),
                "paused": False,
                "request": make_request(
                    device=request.device,
                    contract=request.contract,
                    tool_key=request.tool_key,
                    tool_name=request.tool_name,
                    tool_type=request.tool_type,
                    namespace=request.namespace,
                    parameters=parameters,
                    call_id=f"{request.call_id}-e{edits}",
                ),
                "decision": decide_call(
                    tool, parameters, self.policy_status.profile, self.fleet[request.device]
                ).model_copy(update={"answer": asked.decision.answer}),
            }
        )
        ended = {"state": ApprovalState.EDITED, "decided_by": "harbour", "edited_to": fresh.id}
        self.request(asked.model_copy(update={**ended, "decided_at": ago(0)}))
        self._write_answer(Kind.APPROVAL_EDITED, asked, "harbour", {"before": request.parameters})
        self.request(fresh)
        return self.queue[asked.id]

    async def on_preview(self, approval: str) -> Preview:
        asked = self._asked_for(approval)
        if approval in self.previews:
            return self.previews[approval]
        request = asked.request
        if request.tool_name == "write_file":
            return self._file_preview(request.device, request.parameters)
        if request.tool_name in _ON_SCREEN:
            return await asyncio.to_thread(self._screen_preview, request.device, request.parameters)
        if request.tool_name == "close_application":
            label = f"xterm, process {request.parameters.get('pid')} with the window “build log”"
            return Preview(kind="program", label=label, taken_at=ago(1))
        return Preview(kind="nothing", problem="There is nothing to compare with.")

    def _file_preview(self, device: str, parameters: dict[str, Any]) -> Preview:
        path, content = str(parameters.get("file_path")), str(parameters.get("content", ""))
        before = self.files.get((device, path))
        appends = parameters.get("mode") == "append"
        return Preview(
            kind="file",
            before=before,
            after=(before or "") + content if appends else content,
            label=path,
            taken_at=ago(2),
            problem="" if before is not None else NOT_THERE,
            is_new=before is None,
        )

    def _screen_preview(self, device: str, parameters: dict[str, Any]) -> Preview:
        known = self.fleet[device]
        if known.picture is None:
            return Preview(kind="screen", problem=f"There is no picture of {device} yet.")
        if "x" in parameters:
            point = (int(parameters["x"]), int(parameters["y"]))
            return Preview(
                kind="screen",
                picture=known.picture,
                point=point,
                taken_at=known.picture_at,
                age_s=1.0,
                compared=True,
            )
        box = Region(x=980, y=620, width=120, height=32)
        name = str(parameters.get("control_id", "a control"))
        return Preview(
            kind="screen",
            picture=known.picture,
            target=box,
            point=(box.x + 60, box.y + 16),
            label=f"push button “{name}”, left click",
            taken_at=known.picture_at,
            age_s=1.0,
            compared=True,
        )

    def on_helpers(self, approval: str) -> list[Helper]:
        asked = self._asked_for(approval)
        if approval in self.helpful:
            return self.helpful[approval]
        device, parameters = asked.request.device, asked.request.parameters
        found = []
        if "rm -r" in str(parameters.get("command", "")):
            found.append(
                ("match", "List what would match", "shell_execute_read", {"command": "ls -ld build-*"})
            )
        if "$" in str(parameters.get("command", "")):
            command = {"command": 'printf %s "$CACHE_ROOT"'}
            found.append(("variable", "Read $CACHE_ROOT", "shell_execute_read", command))
        if "file_path" in parameters:
            found.append(("file", "Read the file", "read_file", {"file_path": parameters["file_path"]}))
        found.append(("picture", "Take picture", "screenshot", {}))
        offered = {tool.tool_name for tool in self.tools_of.get(device, [])}
        return [
            Helper(id=key, title=title, device=device, tool=tool, parameters=given)
            for key, title, tool, given in found
            if tool in offered
        ]

    async def on_run_helper(self, approval: str, helper: str) -> CommandResult:
        asked = self._asked_for(approval)
        wanted = next((one for one in self.on_helpers(approval) if one.id == helper), None)
        if wanted is None:
            raise BadInput(f"No helper has the id {helper}.", ErrorCode.NOT_FOUND)
        evidence, answer = [], self.answer_with.get((wanted.device, wanted.tool))
        if wanted.tool == "screenshot":
            data = await asyncio.to_thread(desktop_png, wanted.device, "linux")
            blob = self.fake_journal.add_blob(data)
            evidence = [
                Evidence(blob=blob, media_type="image/png", size=len(data), what="screenshot",
                         width=1280, height=800)
            ]  # fmt: skip
            answer = answer or {"width": 1280, "height": 800}
        elif answer is None:
            listed = "\n".join(
                f"drwxr-xr-x 4 ci ci 4096 Nov  {day} build-{2040 + day}" for day in range(1, 6)
            )
            answer = {"stdout": listed + "\n", "stderr": "", "exit_code": 0}
        return CommandResult(
            call_id=f"c-{sha256_hex(helper.encode())[:8]}",
            device=asked.request.device,
            tool_name=wanted.tool,
            status=ResultStatus.SUCCESS,
            verdict=Verdict.CONFIRMED,
            basis=Basis.READ_RESPONSE,
            result=answer,
            duration_ms=84.0,
            evidence=evidence,
        )

    def on_fatigue(self, operator: str) -> Fatigue:
        return self.meter.measure(operator).model_copy(update={"warning": self.tired})

    # Grants

    def on_grants(self) -> list[Grant]:
        return [*self.grant_book.all(), *self.given]

    def on_revoke_grant(self, grant: str) -> Grant:
        if any(one.terms.id == grant for one in self.grant_book.all()):
            return self.grant_book.revoke(grant, "operator:harbour")
        for place, one in enumerate(self.given):
            if one.terms.id == grant:
                changes = {"revoked_at": ago(0), "revoked_by": "operator:harbour", "over": True}
                self.given[place] = one.model_copy(update=changes)
                self.write(Kind.GRANT_REVOKED, "operator:harbour", body={"grant": grant})
                return self.given[place]
        raise BadInput(f"No grant has the id {grant}.", ErrorCode.NOT_FOUND)

    # Operators

    def on_register_operator(self, operator: Operator, signed: SignedChange | None) -> Operator:
        proof = self.check_signed(proposals.operator_added(self.service_seen(), operator), signed)
        if operator.name in {known.name for known in self.operators}:
            return operator
        known = operator.model_copy(update={"registered_at": ago(0)})
        self.operators.append(known)
        self.write(Kind.OPERATOR_REGISTERED, self.actor, body=proof)
        self.tell_control()
        return known

    def on_remove_operator(self, name: str, signed: SignedChange | None) -> None:
        proof = self.check_signed(proposals.operator_removed(self.service_seen(), name), signed)
        self.operators = [known for known in self.operators if known.name != name]
        self.write(Kind.OPERATOR_REMOVED, self.actor, body={"operator": name, **proof})
        for grant in list(self.given):
            if grant.terms.author == name and not grant.over:
                self.on_revoke_grant(grant.terms.id)
        self.tell_control()

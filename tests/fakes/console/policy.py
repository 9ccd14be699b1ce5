"""What the fake console answers about its policy: judged by the real one, over an invented past."""

from __future__ import annotations

from typing import Any

from core.audit.entries import Kind
from core.canonical_json import sha256_hex
from core.changes import SignedChange
from core.errors import BadInput, ErrorCode, Refused
from core.policy.engine import PolicyEngine, PolicyQuery, match_context_of
from core.policy.grant_book import GrantBook
from core.policy.loosening import loosenings
from core.policy.models import (
    Answer,
    Decision,
    Explanation,
    PolicyCheck,
    PolicyText,
    Profile,
    Trial,
    TrialRow,
)
from core.policy.policy_check import check_text
from core.policy.policy_file import PolicyFile, parse_policy, with_profile
from core.policy.profiles import is_as_strict
from core.service import proposals
from core.service.console import PolicyStatus
from tests.fakes.console.changes import Changes
from tests.fakes.decisions import decide_call
from tests.fakes.fleet_data import NOW, ago
from tests.fakes.policy_data import PAST


class PolicyAnswers(Changes):
    """`console.policy`: rules are judged by the real policy; the past is invented."""

    def changed_by_another_program(self, text: str) -> None:
        """Let policy.toml be another text, which tightens at once and loosens nothing yet."""
        self.accepted_policy = self.accepted_text
        self.policy_on_disk = text
        pending = loosenings(parse_policy(self.accepted_text), parse_policy(text))
        self.policy_status = self.policy_status.model_copy(update={"pending": pending})
        self.tell_control()

    def on_policy_text(self) -> PolicyText:
        text = self.policy_on_disk
        return PolicyText(
            text=text,
            path=self.policy_status.path,
            digest=sha256_hex(text.encode()),
            problem=self.policy_status.problem,
            accepted=self.accepted_text,
        )

    def on_check_policy(self, text: str) -> PolicyCheck:
        return check_text(text)

    def on_try_policy(self, text: str, limit: int) -> Trial:
        return self._trial(parse_policy(text), limit)

    def _trial(self, file: PolicyFile, limit: int) -> Trial:
        judge, grants = PolicyEngine(file), GrantBook()
        counts = dict.fromkeys(Answer, 0)
        rows: list[TrialRow] = []
        against = number = 0
        for device, tool, parameters, was, human, many in PAST:
            if device not in self.fleet:
                continue
            decision = judge.decide(self._asked(device, tool, parameters, "agent:night-shift"), grants)
            counts[decision.answer] += many
            if decision.answer is Answer.ALLOW and human == "denied":
                against += many
            for _ in range(many if decision.answer is not Answer(was) else 0):
                number += 1
                rows.append(
                    TrialRow(
                        seq=18_204 - 17 * number, time=ago(400 + 613 * number), call_id=f"c-{number:04}",
                        device=device, tool=tool, actor="agent:night-shift", summary=decision.summary,
                        was=Answer(was), now=decision.answer, human=human,
                        rule=decision.rules[0].id if decision.rules else "",
                    )
                )  # fmt: skip
        looked = sum(counts.values())
        return Trial(
            looked_at=looked, commands=looked + 7, skipped=7, allowed=counts[Answer.ALLOW],
            asked=counts[Answer.ASK], denied=counts[Answer.DENY], changed=len(rows),
            allowed_but_denied_by_human=against, rows=rows[:limit], took_s=0.412,
            glimpses=self.live_pictures[0], glimpses_refused=self.live_pictures[1],
        )  # fmt: skip

    def _asked(self, device: str, tool: str, parameters: dict[str, Any], actor: str) -> PolicyQuery:
        return PolicyQuery(
            device=self.device(device), tool=self.tool_named(device, tool), parameters=parameters,
            redacted=parameters, actor=actor, moment=NOW.replace(hour=11).astimezone(),
        )  # fmt: skip

    def on_explain(self, device: str, tool: str, parameters: dict[str, Any]) -> Decision:
        found = self.tool_named(device, tool)
        return decide_call(found, parameters, self.policy_status.profile, self.device(device))

    def on_explanation(self, device: str, tool: str, parameters: dict[str, Any], actor: str) -> Explanation:
        judge, grants = PolicyEngine(parse_policy(self.policy_on_disk)), GrantBook()
        asked = self._asked(device, tool, parameters, actor or "operator:harbour")
        for grant in reversed(self.given):
            if not grant.over:
                contract = asked.tool.contract.digest
                grants.add(grant.terms.model_copy(update={"contract": contract}))
        decision = judge.decide(asked, grants)
        return Explanation(
            decision=decision,
            near=judge.index.near(match_context_of(asked, decision.risk)),
            near_grants=grants.near(match_context_of(asked, decision.risk), None, asked.redacted),
        )

    def on_save_policy(self, text: str, digest: str, signed: SignedChange | None) -> PolicyStatus:
        found = check_text(text)
        if not found.ok:
            raise BadInput(f"The policy was not saved: {found.problems[0].message}")
        self._check_same(digest)
        proof = self.check_signed(proposals.policy(self.service_seen(), text), signed)
        self.write(Kind.POLICY_SAVED, self.actor, body={"before": digest, "rules": found.rules, **proof})
        return self._accept(text)

    def on_accept_policy(self, digest: str, signed: SignedChange | None) -> PolicyStatus:
        self._check_same(digest)
        proof = self.check_signed(proposals.policy(self.service_seen(), self.policy_on_disk), signed)
        self.write(Kind.POLICY_SAVED, self.actor, body={"by_file": True, **proof})
        return self._accept(self.policy_on_disk)

    def on_set_profile(self, profile: Profile, signed: SignedChange | None) -> PolicyStatus:
        text = with_profile(self.policy_on_disk, profile)
        body = {"from": self.policy_status.profile.value, "to": profile.value}
        if self.policy_status.pending and is_as_strict(profile, self.policy_status.profile):
            self.accepted_policy, self.policy_on_disk = self.accepted_text, text
            self.policy_status = self.policy_status.model_copy(update={"profile": profile})
            self.write(Kind.PROFILE_CHANGED, self.actor, body=body)
            self.tell_control()
            return self.policy_status
        proof = self.check_signed(proposals.policy(self.service_seen(), text), signed)
        self.write(Kind.PROFILE_CHANGED, self.actor, body={**body, **proof})
        return self._accept(text)

    def _accept(self, text: str) -> PolicyStatus:
        self.policy_on_disk, self.accepted_policy = text, None
        update = {"profile": parse_policy(text).profile, "problem": "", "pending": []}
        self.policy_status = self.policy_status.model_copy(update=update)
        self.tell_control()
        return self.policy_status

    def _check_same(self, digest: str) -> None:
        if sha256_hex(self.policy_on_disk.encode()) != digest:
            raise Refused(
                "policy.toml was changed by another program meanwhile; compare with it before you go on.",
                ErrorCode.APPROVAL_INVALID,
            )

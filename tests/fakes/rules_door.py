"""The part of the fake door that is about the policy: its text, trials, explanations, grants, contracts.

What tests use beyond the door:

    console.policy_on_disk = "..."        # as if another program edited the file, and it was accepted
    console.given = make_grants()         # older grants, newest first; `story` has five
    console.definitions_before[device, key] = {...}     # the trusted definition; missing: it was not kept
"""

from __future__ import annotations

from typing import Any

from core.aip.messages import ToolInfo
from core.approvals.grants import Grant, GrantBook, GrantTerms, scope_words
from core.audit.entries import Kind
from core.canonical_json import sha256_hex
from core.changes import SignedChange
from core.errors import BadInput, ErrorCode
from core.fleet.contracts import judge
from core.fleet.models import Contract, Device, Risk, Tool
from core.policy.constraints import Constraint
from core.policy.engine import PolicyEngine, PolicyQuery, match_context_of
from core.policy.models import Answer
from core.policy.policy_check import PolicyCheck, PolicyText, Trial, TrialRow, check_text
from core.policy.policy_file import PolicyFile, parse_policy
from core.policy.policy_store import Explanation
from core.service import proposals
from core.service.console import ContractChange, PolicyStatus
from tests.fakes.changes_door import ChangesDoor
from tests.fakes.fleet_data import CHANGED_KEY, NOW, ago

RULES = """# What may run without asking, and what never may.
profile = "guarded"

[[profiles]]
tag = "prod"
profile = "guarded"

[[rule]]
id = "no-recursive-delete"
decision = "deny"
tool = "shell_execute"
reason = "Folders are emptied by hand, never recursively"
  [rule.parameters.command]
  pattern = "rm +-[a-z]*r"
  [[rule.match]]
  parameters = { command = "rm -rf /srv/spool" }
  [[rule.not_match]]
  parameters = { command = "rm /srv/spool/a.txt" }

[[rule]]
id = "two-for-production"
decision = "ask"
production = true
risk = ">=high"
approvers = 2
evidence = ["before", "after"]
reason = "High risk on production needs two operators"

[[rule]]
id = "spool-files"
decision = "allow"
device = ["scan-pc-*", "stock-pc-02"]
tool = "write_file"
reason = "The spool is rebuilt every night"
  [rule.parameters.file_path]
  below = "/srv/spool"
  [[rule.match]]
  device = "scan-pc-04"
  parameters = { file_path = "/srv/spool/label.txt" }
  [[rule.not_match]]
  device = "scan-pc-04"
  parameters = { file_path = "/srv/spool/../../etc/passwd" }

[[rule]]
id = "lab-by-day"
decision = "allow"
tag = "lab"
tool = ["shell_execute", "launch_app"]
risk = "<=medium"
time = { days = ["mon", "tue", "wed", "thu", "fri"], from = "07:00", to = "19:00" }
reason = "The lab is attended by day"

[[rule]]
id = "lab-reading"
decision = "allow"
tag = "lab"
tool = "shell_execute"
risk = "<=high"
reason = "Harmless reading"
  [rule.parameters.command]
  one_of = ["uptime", "df -h", "systemctl status"]
"""

_LABEL = {"file_path": "/srv/spool/label.txt", "content": "x"}
# device, tool, arguments, what was said then, what a person answered, how many of the kind
_PAST: list[tuple[str, str, dict[str, Any], str, str, int]] = [
    (
        "scan-pc-04",
        "write_file",
        {"file_path": "/srv/spool/label.txt", "content": "x"},
        "ask",
        "approved",
        24,
    ),
    ("scan-pc-05", "write_file", {"file_path": "/srv/spool/old.txt", "content": ""}, "ask", "denied", 3),
    ("stock-pc-02", "write_file", {"file_path": "/etc/motd", "content": "hello"}, "ask", "approved", 2),
    ("build-lnx-03", "shell_execute", {"command": "rm -rf $CACHE/*"}, "ask", "denied", 1),
    ("lab-lnx-01", "shell_execute", {"command": "rm -r /tmp/build"}, "ask", "approved", 2),
    ("lab-lnx-02", "shell_execute", {"command": "systemctl status"}, "ask", "approved", 11),
    ("db-primary", "shell_execute", {"command": "sudo systemctl restart postgres"}, "ask", "approved", 4),
    ("edge-gw-11", "screenshot", {}, "allow", "", 160),
    ("lab-lnx-04", "get_system_info", {}, "allow", "", 231),
]


def _grant(number: int, tool: str, *, device: str, actor: str, given: float, **more: Any) -> Grant:
    terms = GrantTerms(
        id=f"g-{number:04}-c0ffee",
        approval=f"a-{number:04}",
        author="harbour",
        devices=[device],
        tool_key=f"action::{tool}",
        contract=sha256_hex(tool.encode()),
        actors=[actor],
        arguments=more.pop("arguments", {}),
        risk=more.pop("risk", Risk.MEDIUM),
        run=more.pop("run", None),
        uses=more.pop("uses", None),
        expires=more.pop("expires", ago(-9 * 3600)),
    )
    return Grant(terms=terms, given_at=ago(given), words=scope_words(terms), **more)


def make_grants() -> list[Grant]:
    """Five grants in every state: in use, nearly used up, of one run, ended, revoked."""
    spool = {"file_path": Constraint(below="/srv/spool"), "content": "any"}
    line: dict[str, Any] = {"command": Constraint(equals="systemctl status printer")}
    agent, clerk = "agent:night-shift", "agent:clerk"
    return [
        _grant(31, "write_file", device="stock-pc-02", actor=clerk, given=5400, used=14,
               arguments=spool, last_used_at=ago(240)),
        _grant(30, "shell_execute", device="label-win-02", actor=agent, given=9000, used=4,
               arguments=line, uses=5, last_used_at=ago(1900)),
        _grant(27, "launch_app", device="scan-pc-*", actor=clerk, given=20_000, run="r-0417",
               arguments={"name": Constraint(one_of=["scan", "viewer"])}),
        _grant(22, "shell_execute", device="lab-lnx-01", actor=agent, given=90_000, used=3, over=True,
               arguments=line, uses=3, last_used_at=ago(70_000)),
        _grant(19, "write_file", device="db-primary", actor=agent, given=180_000, over=True,
               arguments=spool, risk=Risk.HIGH, expires=ago(100_000), revoked_at=ago(150_000),
               revoked_by="operator:harbour", used=1, last_used_at=ago(170_000)),
    ]  # fmt: skip


class RulesDoor(ChangesDoor):
    """Rules are judged by the real policy; the past is invented."""

    fleet: dict[str, Device]
    tools_of: dict[str, list[Tool]]
    policy_on_disk: str = RULES
    _given: list[Grant] | None = None
    # How many pictures of live walls the journal has, and how many of them a trial would refuse.
    live_pictures: tuple[int, int] = (1240, 0)
    _before: dict[tuple[str, str], dict[str, Any]] | None = None
    _contracts: dict[tuple[str, str], Contract] | None = None

    def tool_named(self, device: str, tool: str) -> Tool:
        """A device's tool by its name."""
        raise NotImplementedError

    @property
    def given(self) -> list[Grant]:
        """Grants that were there before, newest first; change the list to change them."""
        if self._given is None:
            self._given = []
        return self._given

    @given.setter
    def given(self, grants: list[Grant]) -> None:
        self._given = list(grants)

    @property
    def definitions_before(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Trusted definitions of changed tools by device and tool key."""
        if self._before is None:
            self._before = {}
            for device, tools in self.tools_of.items():
                for tool in tools:
                    if tool.tool_key == CHANGED_KEY:
                        self._before[device, CHANGED_KEY] = _trusted(tool)
        return self._before

    @property
    def contracts_before(self) -> dict[tuple[str, str], Contract]:
        """What the trusted definitions count as, once `judge_changed_tools` was called."""
        if self._contracts is None:
            self._contracts = {}
        return self._contracts

    def judge_changed_tools(self) -> None:
        """Let the changed tools have the contracts that the real console would give them."""
        for device, tools in self.tools_of.items():
            for place, tool in enumerate(tools):
                if tool.tool_key == CHANGED_KEY:
                    before = self.definitions_before[device, CHANGED_KEY] = _trusted(tool)
                    trusted = judge(ToolInfo.model_validate(before), ours=False)
                    self.contracts_before[device, CHANGED_KEY] = trusted
                    claims = {"readOnlyHint": False, "destructiveHint": True}
                    tool = tool.model_copy(update={"annotations": claims})
                    contract = judge(ToolInfo.model_validate(_definition(tool)), ours=False)
                    tools[place] = tool.model_copy(update={"contract": contract})

    async def on_policy_text(self) -> PolicyText:
        await self._step("policy_text")
        text = self.policy_on_disk
        return PolicyText(
            text=text,
            path=self.policy_status.path,
            digest=sha256_hex(text.encode()),
            problem=self.policy_status.problem,
            accepted=self.accepted_text,
        )

    async def on_check_policy(self, text: str) -> PolicyCheck:
        await self._step("check_policy")
        return check_text(text)

    async def on_try_policy(self, text: str, limit: int = 200) -> Trial:
        await self._step("try_policy")
        return self._trial(parse_policy(text), limit)

    def _trial(self, file: PolicyFile, limit: int) -> Trial:
        judge, grants = PolicyEngine(file), GrantBook()
        counts = dict.fromkeys(Answer, 0)
        rows: list[TrialRow] = []
        against = number = 0
        for device, tool, parameters, was, human, many in _PAST:
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
        known = self.fleet[device]
        found = self.tool_named(device, tool)
        return PolicyQuery(
            device=known, tool=found, parameters=parameters, redacted=parameters, actor=actor,
            moment=NOW.replace(hour=11).astimezone(),
        )  # fmt: skip

    async def on_save_policy(
        self, text: str, digest: str, signed: SignedChange | None = None
    ) -> PolicyStatus:
        await self._step("save_policy")
        found = check_text(text)
        if not found.ok:
            raise BadInput(f"The policy was not saved: {found.problems[0].message}")
        self._check_same(digest)
        proof = self._signed(proposals.policy(self._service(), text), signed)
        self.write(Kind.POLICY_SAVED, self.actor, body={"before": digest, "rules": found.rules, **proof})
        return self._accept(text)

    async def on_explanation(
        self, device: str, tool: str, parameters: dict[str, Any], actor: str = ""
    ) -> Explanation:
        await self._step("explanation")
        self._device(device)
        judge, grants = PolicyEngine(parse_policy(self.policy_on_disk)), GrantBook()
        for grant in reversed(self.given):
            if not grant.over:
                contract = self.tool_named(device, tool).contract.digest
                grants.add(grant.terms.model_copy(update={"contract": contract}))
        asked = self._asked(device, tool, parameters, actor or "operator:harbour")
        decision = judge.decide(asked, grants)
        question = match_context_of(asked, decision.risk)
        return Explanation(
            decision=decision,
            near=judge.index.near(question),
            near_grants=grants.near(question, None, asked.redacted),
        )

    async def on_grants(self) -> list[Grant]:
        await self._step("grants")
        book: GrantBook | None = getattr(self, "grant_book", None)
        return [*(book.all() if book is not None else []), *self.given]

    async def on_revoke_grant(self, grant: str) -> Grant:
        await self._step("revoke_grant")
        book: GrantBook | None = getattr(self, "grant_book", None)
        if book is not None and any(one.terms.id == grant for one in book.all()):
            return book.revoke(grant, "operator:harbour")
        for place, one in enumerate(self.given):
            if one.terms.id == grant:
                changes = {"revoked_at": ago(0), "revoked_by": "operator:harbour", "over": True}
                self.given[place] = one.model_copy(update=changes)
                self.write(Kind.GRANT_REVOKED, "operator:harbour", body={"grant": grant})
                return self.given[place]
        raise BadInput(f"No grant has the id {grant}.", ErrorCode.NOT_FOUND)

    async def on_contract_change(self, device: str, tool_key: str) -> ContractChange:
        await self._step("contract_change")
        return self._change_of(device, tool_key)

    def _change_of(self, device: str, tool_key: str) -> ContractChange:
        tool = next((one for one in self.tools_of[device] if one.tool_key == tool_key), None)
        if tool is None:
            raise BadInput(f"{device} has no tool {tool_key!r}.", ErrorCode.UNKNOWN_TOOL)
        before, after = self.definitions_before.get((device, tool_key)), _definition(tool)
        changed = [] if before is None else [key for key in after if before.get(key) != after[key]]
        contract = self.contracts_before.get((device, tool_key)) if before is not None else None
        return ContractChange(
            device=device,
            tool_key=tool_key,
            before=before,
            before_contract=contract,
            after=after,
            changed=changed,
        )


def _definition(tool: Tool) -> dict[str, Any]:
    return {
        "tool_key": tool.tool_key,
        "tool_name": tool.tool_name,
        "tool_type": tool.tool_type,
        "namespace": tool.namespace,
        "title": tool.title,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "annotations": tool.annotations,
    }


def _trusted(tool: Tool) -> dict[str, Any]:
    """The definition before it changed: fewer arguments, other words."""
    before = _definition(tool)
    schema = dict(tool.input_schema)
    arguments = dict(schema.get("properties", {}))
    if arguments:
        arguments.pop(list(arguments)[-1])
    arguments["dry_run"] = {"type": "boolean", "default": True, "description": "Only say what would be done"}
    before["input_schema"] = {**schema, "properties": arguments}
    before["description"] = tool.description.partition(" New since")[0]
    before["annotations"] = {"readOnlyHint": False, "destructiveHint": False}
    return before

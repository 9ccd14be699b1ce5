"""Whatever a program writes into a home, or asks for unsigned: nothing runs that was not signed."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from core.aip.contract_digest import definition_of
from core.aip.messages import ToolInfo
from core.approvals.models import Operator
from core.approvals.operator_keys import OperatorKey, create_operator_key, statement_for
from core.audit.entries import Entry
from core.canonical_json import digest_of
from core.changes import ChangeKind, SignedChange
from core.commands.channel import LocalCommandDispatcher
from core.commands.request import CommandRequest
from core.errors import QuarterdeckError, Refused
from core.fleet.fleet import ConnectionInfo
from core.home import Home
from core.ids import new_id
from core.policy.engine import PolicyEngine
from core.policy.grant_book import GrantBook
from core.policy.grants import GrantTerms, SignedGrant, exact_arguments
from core.policy.models import Answer, Profile
from core.policy.policy_store import checked_policy, text_digest
from core.policy.real_paths import NOT_FOLLOWED
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.service import Service
from core.statements import verify_signature
from tests.fakes.desk import next_approval
from tests.fakes.remote_device import make_listening_home
from tests.fakes.rig import USUAL_TOOLS, ScriptedTools
from tests.fakes.run_size import examples
from tests.fakes.signing import accepted, signing

DEVICE = "desk"
PROBES: list[tuple[str, dict[str, Any]]] = [
    ("get_system_info", {"info_type": "memory"}),
    ("read_file", {"file_path": "/srv/a"}),
    ("read_file", {"file_path": "/etc/shadow"}),
    ("write_file", {"file_path": "/srv/a", "content": "x"}),
    ("write_file", {"file_path": "/etc/hosts", "content": "x"}),
    ("shell_execute", {"command": "ls /srv"}),
    ("shell_execute", {"command": "rm -rf /srv"}),
]
_PROFILES = [f'profile = "{profile.value}"\n' for profile in Profile]
_BELOW = '[rule.parameters.file_path]\nbelow = "{}"\n'
_RULES = [
    '[[rule]]\nid = "no-etc"\ndecision = "deny"\ntool = "*_file"\n' + _BELOW.format("/etc"),
    '[[rule]]\nid = "ask-reads"\ndecision = "ask"\ntool = "read_file"\n',
    '[[rule]]\nid = "srv"\ndecision = "allow"\ntool = "write_file"\n' + _BELOW.format("/srv"),
    '[[rule]]\nid = "shell"\ndecision = "allow"\ntool = "shell_execute"\nrisk = "<=critical"\n',
    '[[contract]]\ntool = "shell_execute"\neffect = "observe"\nrisk = "low"\nwhy = "A toy."\n',
    '[[contract]]\ntool = "read_file"\nrisk = "high"\nwhy = "Secrets lie here."\n',
    '[[profiles]]\nprofile = "trusted"\ndevice = "desk"\n',
]
_EVE = '[{"name": "eve", "public_key": "' + "ab" * 32 + '", "has_passphrase": false}]'
texts = st.builds(
    lambda profile, rules: profile + "".join(rules),
    st.sampled_from(["", *_PROFILES]),
    st.lists(st.sampled_from(_RULES), max_size=3, unique=True),
)


class Loosening(RuleBasedStateMachine):
    """A home with an operator, a program that may write its files, and what runs unasked after each step."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.home = make_listening_home(self.folder)
        self.definition = 0
        self.key: OperatorKey = self.played(accepted(self.home))
        shutil.rmtree(self.folder.with_name("stranger"), ignore_errors=True)
        self.stranger = create_operator_key(Home(self.folder.with_name("stranger")).create(), "anna", None)

    def played(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    @initialize()
    def begin(self) -> None:
        self.played(self._open())

    async def _open(self) -> None:
        self.service = await Service.open(self.home)
        # What a program of the same user can call, and what the operator at a console can.
        self.program: Console = LocalConsole(self.service, "window:root")
        self.operator = signing(LocalConsole(self.service, "window:root"), self.home)
        await self._connect()

    async def _connect(self) -> None:
        words = f"version {self.definition}"
        tools = self.tools = ScriptedTools(
            [tool.model_copy(update={"description": words}) for tool in USUAL_TOOLS]
        )
        self.service.fleet.add(DEVICE, [])
        channel = LocalCommandDispatcher(DEVICE, tools, self.service.dispatcher.gate)
        await self.service.fleet.arrived(
            DEVICE, ConnectionInfo(channel, "in-process", "linux", "t", "t", [], None)
        )

    # What a program does to files

    @rule(text=texts)
    def edits_the_policy(self, text: str) -> None:
        self._without_policy()
        self.home.policy.write_text(text)

    @rule(how=st.sampled_from(["gone", "dangling", "fifo", "broken", "writable", "folder"]))
    def spoils_the_policy(self, how: str) -> None:
        path = self.home.policy
        text = path.read_text() if path.is_file() else ""
        self._without_policy()
        match how:
            case "dangling":
                path.symlink_to(self.home.path / "nowhere")
            case "fifo":
                os.mkfifo(path)
            case "broken":
                path.write_text("[[rule]\n")
            case "writable":
                path.write_text(text)
                path.chmod(0o666)
            case "folder":
                path.mkdir()

    def _without_policy(self) -> None:
        path = self.home.policy
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    @rule(
        name=st.sampled_from(["operators.json", "contracts.json", "devices.json"]),
        text=st.sampled_from(
            [
                None,
                "[]",
                "{}",
                "{",
                '[{"name": "eve", "public_key": "' + "ab" * 32 + '", "has_passphrase": false}]',
            ]
        ),
    )
    def replaces_a_file(self, name: str, text: str | None) -> None:
        path = self.home.path / name
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)

    # What a program asks for at the socket, unsigned

    @rule(text=texts)
    def saves_unsigned(self, text: str) -> None:
        self._asks(lambda: self._save(self.program, text))

    @rule(profile=st.sampled_from(Profile))
    def chooses_a_profile_unsigned(self, profile: Profile) -> None:
        self._asks(lambda: self.program.policy.set_profile(profile))

    @rule()
    def accepts_unsigned(self) -> None:
        self._asks(lambda: self._accept(self.program))

    @rule()
    def registers_itself(self) -> None:
        eve = Operator(name="eve", public_key="cd" * 32, has_passphrase=False)
        self._asks(lambda: self.program.approvals.register_operator(eve))

    @rule()
    def reviews_unsigned(self) -> None:
        self._asks(lambda: self._review(self.program))

    # What the operator does, and what happens by itself

    @rule(text=texts)
    def operator_saves(self, text: str) -> None:
        self._asks(lambda: self._save(self.operator, text))

    @rule()
    def operator_accepts(self) -> None:
        self._asks(lambda: self._accept(self.operator))

    @rule()
    def operator_reviews(self) -> None:
        self._asks(lambda: self._review(self.operator))

    @rule(number=st.integers(0, len(PROBES) - 1), author=st.sampled_from(["operator", "stranger", "altered"]))
    def a_grant_is_signed(self, number: int, author: str) -> None:
        """The operator's own; one with another key under their name; and theirs, made wider afterwards."""
        self._asks(lambda: self._grant(number, author))

    @rule()
    def device_defines_its_tools_anew(self) -> None:
        self.definition += 1
        self.played(self._connect())

    @rule()
    def service_restarts(self) -> None:
        self.played(self.service.close())
        self.played(self._open())

    def _asks(self, what: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        try:
            self.played(what())
        except QuarterdeckError:
            return

    async def _save(self, console: Console, text: str) -> None:
        await console.policy.save(text, (await console.policy.text()).digest)

    async def _accept(self, console: Console) -> None:
        await console.policy.accept((await console.policy.text()).digest)

    async def _review(self, console: Console) -> None:
        for tool in await console.devices.tools(DEVICE):
            if tool.changed:
                await console.devices.review_tool(DEVICE, tool.tool_key, tool.contract.digest)

    async def _grant(self, number: int, author: str) -> None:
        tool, parameters = PROBES[number]
        if (await self.program.policy.explain(DEVICE, tool, parameters)).answer is not Answer.ASK:
            return
        run = await self.program.runs.call(DEVICE, tool, parameters)
        try:
            approval = await next_approval(self.program)
            key = self.stranger if author == "stranger" else self.key
            terms = GrantTerms(
                id=f"g-{new_id()}",
                approval=approval.id,
                author=key.name,
                devices=[DEVICE],
                tool_key=approval.request.tool_key,
                contract=approval.request.contract,
                actors=[approval.actor],
                arguments=exact_arguments(parameters),
                risk=approval.decision.risk,
                expires=(datetime.now(UTC) + timedelta(hours=1)).isoformat(),
            )
            given = key.sign_grant(terms)
            if author == "altered":
                wider = terms.model_copy(update={"arguments": dict.fromkeys(parameters, "any")})
                given = given.model_copy(update={"terms": wider})
            await self.program.approvals.decide(key.sign(statement_for(approval, "approve", key.name)), given)
        finally:
            await self.program.runs.stop(run.summary.id)

    # What holds after each step

    @invariant()
    def nothing_runs_unasked_that_was_not_signed(self) -> None:
        if hasattr(self, "service"):
            self.played(self._check())

    async def _check(self) -> None:
        # A stricter text is taken over into the journal in the background; it holds before that.
        runs = await self._unasked()
        entries = (await self.program.journal.entries("", limit=5_000)).entries
        signed = await self._signed_text(entries)
        reviewed = {definition for entry in entries for definition in self._reviewed(entry)}
        by_signed = PolicyEngine(checked_policy(signed))
        grants = GrantBook()
        grants.restore(reversed(entries), self._signed_well)
        for number in runs:
            tool, parameters = PROBES[number]
            offered = next(one for one in self.service.fleet.tools(DEVICE) if one.tool_name == tool)
            held = self.service.policy
            request = CommandRequest(DEVICE, tool, parameters, "window:root")
            asked = self.service.dispatcher._explained(request, NOT_FOLLOWED)
            assert by_signed.decide(asked, grants).answer is Answer.ALLOW, (
                f"{tool} {parameters} runs unasked, which the signed policy does not let: "
                f"{signed!r} is signed, {held.text!r} is in the file"
            )
            if self.definition:
                first = offered.description == "version 0"
                definition = digest_of(definition_of(self._defined(offered.tool_key)))
                assert first or definition in reviewed, f"{tool} was not reviewed as it is"
        assert [known.name for known in self.service.operators.list()] == ["anna"]

    async def _unasked(self) -> list[int]:
        found = []
        for number, (tool, parameters) in enumerate(PROBES):
            try:
                decision = await self.program.policy.explain(DEVICE, tool, parameters)
            except Refused:
                continue
            if decision.answer is Answer.ALLOW:
                found.append(number)
        return found

    async def _signed_text(self, entries: list[Entry]) -> str:
        """The text under the newest signature of the operator's that is in the journal."""
        for entry in entries:
            signed = self._statement(entry, ChangeKind.POLICY)
            if signed is not None:
                sha = signed.statement.change.after["sha256"]
                return "" if sha == text_digest("") else (await self.program.journal.blob(sha)).decode()
        return ""

    def _reviewed(self, entry: Entry) -> list[str]:
        """The definitions that were trusted by this entry, where the operator signed for it."""
        signed = self._statement(entry, ChangeKind.CONTRACT)
        return list(entry.body["tools"].values()) if signed else []

    def _signed_well(self, grant: SignedGrant) -> bool:
        return verify_signature(grant.terms, grant.signature, self.key.public_key)

    def _defined(self, tool_key: str) -> ToolInfo:
        return next(info for info in self.tools.infos if info.tool_key == tool_key)

    def _statement(self, entry: Entry, kind: ChangeKind) -> SignedChange | None:
        """The operator's signature in an entry, checked here with nothing but their public key."""
        if entry.kind.value == "change_refused" or not isinstance(entry.body.get("signed"), dict):
            return None
        if "change" not in entry.body["signed"].get("statement", {}):
            return None
        signed = SignedChange.model_validate(entry.body["signed"])
        good = verify_signature(signed.statement, signed.signature, self.key.public_key)
        return signed if good and signed.statement.change.kind is kind else None

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.played(self.service.close())
        self.loop.close()


def test_nothing_runs_unasked_that_no_operator_signed(memory_path: Path):
    machine = type("Machine", (Loosening,), {"folder": memory_path / "home"})
    # Each example is a service on a disk in memory; `make bench` has no part in this, so it is short here.
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(25, quick=8),
            stateful_step_count=12,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_each_text_in_the_file_runs_nothing_more_until_it_is_signed_and_then_does(memory_path: Path):
    """Every single step that the machine may or may not come upon."""
    machine = type("Machine", (Loosening,), {"folder": memory_path / "home"})()
    try:
        machine.begin()
        before = set(machine.played(machine._unasked()))
        more: set[int] = set()
        for text in (*_PROFILES, *_RULES, *(_PROFILES[0] + rule for rule in _RULES)):
            machine.operator_saves("")
            for program in (machine.edits_the_policy, machine.saves_unsigned):
                program(text)
                assert set(machine.played(machine._unasked())) <= before, (program.__name__, text)
            machine.played(machine._check())
            machine.operator_saves(text)
            more |= set(machine.played(machine._unasked())) - before
        # Signed, the same texts do let more run.
        assert {PROBES[number][0] for number in more} == {"write_file", "shell_execute"}
    finally:
        machine.teardown()


def test_what_a_program_forbids_in_the_file_is_forbidden_at_once(memory_path: Path):
    machine = type("Machine", (Loosening,), {"folder": memory_path / "home"})()

    def answer(number: int) -> Answer:
        return machine.played(machine.program.policy.explain(DEVICE, *PROBES[number])).answer

    try:
        machine.begin()
        machine.operator_saves('profile = "trusted"\n')
        assert [answer(number) for number in (1, 2, 4)] == [Answer.ALLOW, Answer.ASK, Answer.ASK]
        machine.edits_the_policy('profile = "trusted"\n' + _RULES[0])
        assert [answer(number) for number in (1, 2, 4)] == [Answer.ALLOW, Answer.DENY, Answer.DENY]
        # An edit that tightens and loosens gives the stricter answer of both texts.
        machine.edits_the_policy('profile = "lockdown"\n' + _RULES[2])
        assert {answer(number) for number in range(len(PROBES))} <= {Answer.ASK, Answer.DENY}
    finally:
        machine.teardown()


def test_a_grant_that_the_operator_signed_lets_its_call_run_and_no_other_does(memory_path: Path):
    machine = type("Machine", (Loosening,), {"folder": memory_path / "home"})()
    try:
        machine.begin()
        before = machine.played(machine._unasked())
        assert 3 not in before
        for author in ("stranger", "altered"):
            machine.a_grant_is_signed(3, author)
            assert machine.played(machine._unasked()) == before
        machine.a_grant_is_signed(3, "operator")
        assert set(machine.played(machine._unasked())) == {*before, 3}
        machine.played(machine._check())
    finally:
        machine.teardown()

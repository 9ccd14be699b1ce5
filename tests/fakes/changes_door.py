"""The part of the fake door that is about signed changes: made, and checked, by the service's own rules.

What tests use beyond the door:

    console.changed_by_another_program(text)    # policy.toml is another text than the accepted one
    console.settings = Settings(...)            # settings.toml as it stands; `accept_settings` accepts it
    console.signed                              # every signature that was taken, oldest first
    console.proved                              # the operator that the client proved to be
    console.answer_proposal                     # a function that alters what `propose` answers
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from core.approvals.models import Operator
from core.approvals.operators import Operators
from core.audit.entries import Entry, Kind
from core.canonical_json import sha256_hex
from core.changes import Change, Proposal, SignedChange, SignedIdentity
from core.errors import BadInput, ErrorCode, Refused
from core.fleet.known_devices import KnownDevice
from core.fleet.models import Device, Listening
from core.home import Settings
from core.policy.agents import Agent, AgentSettings, NewAgent
from core.policy.loosening import is_as_strict, loosenings
from core.policy.models import Profile
from core.policy.policy_file import PolicyFile, parse_policy, with_profile
from core.service import proposals
from core.service.changes import ChangeGate
from core.service.console import ContractChange, PolicyStatus
from core.service.proposals import PlannedChange
from core.service.service import Service
from core.service.trusted import loosening_settings, pending_settings
from core.tokens import token_digest
from tests.fakes.journal_door import JournalDoor

HOME_KEY = "5e" * 32
CHALLENGE = "challenge-of-this-connection"
# What the next device that is paired proves itself with.
TOKEN = sha256_hex(b"token")[:43]


class ChangesDoor(JournalDoor):
    """Proposals are made by `core.service.proposals`, and signatures checked by its gate."""

    fleet: dict[str, Device]
    operators: list[Operator]
    policy_status: PolicyStatus
    policy_on_disk: str
    stopped: bool
    stopped_note: str
    # The text that was accepted last, where policy.toml is another one.
    accepted_policy: str | None = None
    settings = Settings()
    answer_proposal: Callable[[Proposal], Proposal] | None = None
    proved = ""
    _accepted_settings: dict[str, Any] | None = None
    _gate: ChangeGate | None = None
    _signatures: list[SignedChange] | None = None

    def write(self, kind: Kind, actor: str, **fields: Any) -> Entry:
        """Add a journal entry."""
        raise NotImplementedError

    def _device(self, name: str) -> Device:
        raise NotImplementedError

    def tell_control(self) -> None:
        raise NotImplementedError

    # For tests

    @property
    def signed(self) -> list[SignedChange]:
        """Every signature that was taken, oldest first."""
        if self._signatures is None:
            self._signatures = []
        return self._signatures

    @property
    def accepted_text(self) -> str:
        """The policy that was accepted last."""
        return self.policy_on_disk if self.accepted_policy is None else self.accepted_policy

    def changed_by_another_program(self, text: str) -> None:
        """Let policy.toml be another text, which tightens at once and loosens nothing yet."""
        self.accepted_policy = self.accepted_text
        self.policy_on_disk = text
        pending = loosenings(parse_policy(self.accepted_text), parse_policy(text))
        self.policy_status = self.policy_status.model_copy(update={"pending": pending})
        self.tell_control()

    # Who asks

    @property
    def actor(self) -> str:
        """As whom the journal has what this client asks for."""
        return f"operator:{self.proved}" if self.proved else "window:harbour"

    async def on_challenge(self) -> str:
        await self._step("challenge")
        return CHALLENGE

    async def on_identify(self, signed: SignedIdentity) -> Operator:
        await self._step("identify")
        if (signed.identity.home, signed.identity.challenge) != (HOME_KEY, CHALLENGE):
            raise Refused("This proof is for another connection.", ErrorCode.APPROVAL_INVALID)
        operator = self._registered().check_identity(signed)
        self.proved = operator.name
        return operator

    # Proposals and signatures

    async def on_propose(self, wish: Change, text: str = "") -> Proposal:
        await self._step("propose")
        planned = await proposals.of(self._service(), wish, text)
        proposal = Proposal(
            home=HOME_KEY,
            change=planned.change,
            needs_signature=bool(planned.loosens),
            difference=planned.loosens,
        )
        return self.answer_proposal(proposal) if self.answer_proposal is not None else proposal

    def _signed(self, planned: PlannedChange, signed: SignedChange | None) -> dict[str, Any]:
        """The signature as the entry has it, once it was checked as the service does."""
        if not planned.loosens:
            return {}
        if self._gate is None:
            self._gate = ChangeGate(cast(Operators, _ListedOperators(self)), HOME_KEY)
        try:
            proof = self._gate.check(planned.change, signed)
        except Refused as error:
            if signed is not None:
                self.write(Kind.CHANGE_REFUSED, self.actor, body={"problem": error.message})
            raise
        assert signed is not None
        self.signed.append(signed)
        return proof

    def _registered(self) -> Operators:
        """The service's own book of operators, with those of this console."""
        book = Operators(Path(os.devnull))
        for operator in self.operators:
            book._register(operator)
        return book

    def _service(self) -> Service:
        """What of a service the proposals look at."""
        registry = SimpleNamespace(
            find=self._find,
            get=self._known,
            check_free=lambda _name: None,
            offer_token=lambda: token_digest(TOKEN),
        )
        fleet = SimpleNamespace(
            change=self._change,
            pinned=lambda device, key: sha256_hex(f"{device}/{key}".encode()),
            pin_now=lambda device, key: sha256_hex(f"{device}/{key} now".encode()),
        )
        files = [parse_policy(self.accepted_text), parse_policy(self.policy_on_disk)]
        return cast(
            Service,
            SimpleNamespace(
                policy=SimpleNamespace(accepted_text=self.accepted_text, files=files),
                home=SimpleNamespace(settings=lambda: self.settings),
                accepted_settings=self._settings_accepted(),
                links=SimpleNamespace(listening=self._listening),
                registry=registry,
                fleet=fleet,
                dispatcher=SimpleNamespace(stopped=self.stopped_note or "Stopped." if self.stopped else ""),
                operators=self._registered(),
                agents=self.fake_agents,
            ),
        )

    def _settings_accepted(self) -> dict[str, Any]:
        if self._accepted_settings is None:
            self._accepted_settings = loosening_settings(Settings())
        return self._accepted_settings

    def _find(self, name: str) -> KnownDevice | None:
        device = self.fleet.get(name)
        if device is None:
            return None
        return KnownDevice(name=name, tags=device.tags, production=device.production, agent=device.agent)

    def _known(self, name: str) -> KnownDevice:
        found = self._find(name)
        if found is None:
            raise BadInput(f"There is no device {name!r}.", ErrorCode.UNKNOWN_DEVICE)
        return found

    def _listening(self) -> Listening:
        raise NotImplementedError

    async def _change(self, device: str, tool_key: str) -> ContractChange:
        return self._change_of(device, tool_key)

    def _change_of(self, device: str, tool_key: str) -> ContractChange:
        raise NotImplementedError

    # Agents

    async def on_add_agent(
        self, name: str, settings: AgentSettings, signed: SignedChange | None = None
    ) -> NewAgent:
        offered = str(signed.statement.change.after.get("token_sha256")) if signed is not None else ""
        self._signed(proposals.agent_added(self._service(), name, settings, offered), signed)
        return await super().on_add_agent(name, settings, signed)

    async def on_set_agent(
        self, name: str, settings: AgentSettings, signed: SignedChange | None = None
    ) -> Agent:
        self._signed(proposals.agent_set(self._service(), name, settings), signed)
        return await super().on_set_agent(name, settings, signed)

    # Policy and settings

    def _accept(self, text: str, more: dict[str, Any] | None = None) -> PolicyStatus:
        file: PolicyFile = parse_policy(text)
        self.policy_on_disk, self.accepted_policy = text, None
        update = {"profile": file.profile, "problem": "", "pending": [], **(more or {})}
        self.policy_status = self.policy_status.model_copy(update=update)
        self.tell_control()
        return self.policy_status

    async def on_accept_policy(self, digest: str, signed: SignedChange | None = None) -> PolicyStatus:
        await self._step("accept_policy")
        self._check_same(digest)
        proof = self._signed(proposals.policy(self._service(), self.policy_on_disk), signed)
        self.write(Kind.POLICY_SAVED, self.actor, body={"by_file": True, **proof})
        return self._accept(self.policy_on_disk)

    async def on_accept_settings(self, signed: SignedChange | None = None) -> PolicyStatus:
        await self._step("accept_settings")
        planned = proposals.settings(self._service())
        proof = self._signed(planned, signed)
        self.write(Kind.SETTINGS_ACCEPTED, self.actor, body={"settings": planned.change.after, **proof})
        self._settings_accepted().update(planned.change.after)
        pending = pending_settings(self.settings, self._settings_accepted())
        self.policy_status = self.policy_status.model_copy(update={"pending_settings": pending})
        self.tell_control()
        return self.policy_status

    async def on_set_profile(self, profile: Profile, signed: SignedChange | None = None) -> PolicyStatus:
        await self._step("set_profile")
        text = with_profile(self.policy_on_disk, profile)
        body = {"from": self.policy_status.profile.value, "to": profile.value}
        if self.policy_status.pending and is_as_strict(profile, self.policy_status.profile):
            self.accepted_policy, self.policy_on_disk = self.accepted_text, text
            self.policy_status = self.policy_status.model_copy(update={"profile": profile})
            self.write(Kind.PROFILE_CHANGED, self.actor, body=body)
            self.tell_control()
            return self.policy_status
        proof = self._signed(proposals.policy(self._service(), text), signed)
        self.write(Kind.PROFILE_CHANGED, self.actor, body={**body, **proof})
        return self._accept(text)

    def _check_same(self, digest: str) -> None:
        if sha256_hex(self.policy_on_disk.encode()) != digest:
            raise Refused(
                "policy.toml was changed by another program meanwhile; compare with it before you go on.",
                ErrorCode.APPROVAL_INVALID,
            )


class _ListedOperators:
    """Looks at the console's operators as they are when it is asked."""

    def __init__(self, console: ChangesDoor) -> None:
        self._console = console

    def check_change(self, signed: SignedChange) -> Operator:
        return self._console._registered().check_change(signed)

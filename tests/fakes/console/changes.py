"""Changes that are signed: proposed, and checked, by the service's own rules on the fake console's state."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from core.approvals.models import Operator
from core.approvals.operators import Operators
from core.audit.entries import Kind
from core.canonical_json import sha256_hex
from core.changes import Change, Proposal, SignedChange, SignedIdentity
from core.errors import BadInput, ErrorCode, Refused
from core.fleet.known_devices import KnownDevice
from core.fleet.models import ContractChange
from core.models.devices import Machine
from core.policy.policy_file import parse_policy
from core.service import proposals
from core.service.changes import ChangeGate, SignatureHistory
from core.service.proposals import PlannedChange
from core.service.service import Service
from core.tokens import token_digest
from tests.fakes.console.state import KnownState
from tests.fakes.fleet_data import NEXT_FINGERPRINT
from tests.fakes.tool_changes import contract_of, definition_of

NOWHERE = Path("/nonexistent")
HOME_KEY = "5e" * 32
CHALLENGE = "challenge-of-this-connection"
# What the next device that is paired proves itself with.
TOKEN = sha256_hex(b"token")[:43]


class Changes(KnownState):
    """Proposals are made by `core.service.proposals`, and signatures checked by its gate."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        # Looks at the operators as they are when it is asked.
        book = SimpleNamespace(check_change=lambda signed: self.registered().check_change(signed))
        self._gate = ChangeGate(cast(Operators, book), SignatureHistory(HOME_KEY, {}, frozenset()))

    def on_challenge(self) -> str:
        return CHALLENGE

    def on_identify(self, signed: SignedIdentity) -> Operator:
        if (signed.identity.home, signed.identity.challenge) != (HOME_KEY, CHALLENGE):
            raise Refused("This proof is for another connection.", ErrorCode.APPROVAL_INVALID)
        operator = self.registered().check_identity(signed)
        self.proved = operator.name
        return operator

    async def on_propose(self, wish: Change, text: str) -> Proposal:
        planned = await proposals.of(self.service_seen(), wish, text)
        proposal = Proposal(
            home=HOME_KEY,
            change=planned.change,
            needs_signature=bool(planned.loosens),
            difference=planned.loosens,
        )
        return self.answer_proposal(proposal) if self.answer_proposal is not None else proposal

    def check_signed(self, planned: PlannedChange, signed: SignedChange | None) -> dict[str, Any]:
        """The signature as the entry has it, once it was checked as the service does."""
        if not planned.loosens:
            return {}
        try:
            proof = self._gate.check(planned.change, signed)
        except Refused as error:
            if signed is not None:
                self.write(Kind.CHANGE_REFUSED, self.actor, body={"problem": error.message})
            raise
        assert signed is not None
        self.signed.append(signed)
        return proof

    def registered(self) -> Operators:
        """The service's own book of operators, with those of this console."""
        book = Operators(Path(os.devnull))
        for operator in self.operators:
            book._register(operator)
        return book

    def service_seen(self) -> Service:
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
                written_settings=lambda: self.settings,
                home=SimpleNamespace(batches=NOWHERE, device_state=NOWHERE),
                accepted_settings=self.accepted_settings,
                links=SimpleNamespace(
                    listening=lambda: self.listens,
                    certificates=SimpleNamespace(
                        present=self.listens.fingerprint, offer=lambda: NEXT_FINGERPRINT
                    ),
                    machines=SimpleNamespace(
                        of=lambda name: self.device(name).machine, waiting=self._waiting_machine
                    ),
                ),
                registry=registry,
                fleet=fleet,
                dispatcher=SimpleNamespace(stopped=self.stopped_note or "Stopped." if self.stopped else ""),
                operators=self.registered(),
                agents=self.fake_agents,
            ),
        )

    def _waiting_machine(self, name: str, identity: str) -> Machine:
        other = self.device(name).other_machine
        if other is None or other.identity != identity:
            raise BadInput(f"No other machine has shown the pairing of {name}.", ErrorCode.NOT_FOUND)
        return other

    def _find(self, name: str) -> KnownDevice | None:
        return self._known(name) if name in self.fleet else None

    def _known(self, name: str) -> KnownDevice:
        device = self.device(name)
        return KnownDevice(name=name, tags=device.tags, production=device.production, agent=device.agent)

    async def _change(self, device: str, tool_key: str) -> ContractChange:
        return self.on_contract_change(device, tool_key)

    def on_contract_change(self, device: str, tool_key: str) -> ContractChange:
        tool = next((one for one in self.tools_of[device] if one.tool_key == tool_key), None)
        if tool is None:
            raise BadInput(f"{device} has no tool {tool_key!r}.", ErrorCode.UNKNOWN_TOOL)
        before, after = self.definitions_before.get((device, tool_key)), definition_of(tool)
        return ContractChange(
            device=device,
            tool_key=tool_key,
            before=before,
            before_contract=self.contracts_before.get((device, tool_key)) if before is not None else None,
            after=after,
            changed=[] if before is None else [key for key in after if before.get(key) != after[key]],
        )

    def judge_changed_tools(self) -> None:
        """Let the changed tools have the contracts that the real console would give them."""
        for (device, key), before in self.definitions_before.items():
            self.contracts_before[device, key] = contract_of(before)
            claims = {"readOnlyHint": False, "destructiveHint": True}
            self.tools_of[device] = [
                tool.model_copy(
                    update={
                        "annotations": claims,
                        "contract": contract_of({**definition_of(tool), "annotations": claims}),
                    }
                )
                if tool.tool_key == key
                else tool
                for tool in self.tools_of[device]
            ]

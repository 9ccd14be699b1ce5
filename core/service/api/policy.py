"""The calls about the policy: its decisions, its text, backtests and the profile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from core.audit.events import Event, PolicySaved, ProfileChanged
from core.changes import SignedChange
from core.errors import BadInput, ErrorCode, Refused
from core.files import write_atomic
from core.fleet.tool_pins import known_tools
from core.models.devices import Device
from core.policy.models import Decision, Explanation, PolicyCheck, PolicyText, Profile, Trial
from core.policy.policy_check import check_text
from core.policy.policy_file import parse_policy, read_policy_text, with_profile
from core.policy.policy_store import checked_policy, text_digest
from core.policy.profiles import is_as_strict
from core.service import proposals
from core.service.api.client import ClientApi
from core.service.api.models import PolicyStatus
from core.service.console import PolicyApi
from core.service.time_machine import try_over_journal
from core.text import sentences

MOST_TRIAL_ROWS = 2_000


class LocalPolicy(ClientApi, PolicyApi):
    """Implements `PolicyApi` in the service."""

    async def explain(self, device: str, tool: str, parameters: dict[str, Any]) -> Decision:
        dispatcher = self._service.dispatcher
        leads = await dispatcher.look_ahead([device], tool, parameters)
        return dispatcher.explain(device, tool, parameters, self._client.actor, leads)

    async def explanation(
        self, device: str, tool: str, parameters: dict[str, Any], actor: str = ""
    ) -> Explanation:
        dispatcher = self._service.dispatcher
        leads = await dispatcher.look_ahead([device], tool, parameters)
        return dispatcher.explanation(device, tool, parameters, actor or self._client.actor, leads)

    async def text(self) -> PolicyText:
        service = self._service
        service.policy.refresh()
        text = self._read_text()
        return PolicyText(
            text=text,
            path=str(service.policy.path),
            digest=text_digest(text),
            problem=service.policy.problem,
            accepted=service.policy.accepted_text,
        )

    async def check(self, text: str) -> PolicyCheck:
        known = await asyncio.to_thread(known_tools, self._service.home.contracts)
        return check_text(text, known, len(self._service.operators.list()))

    async def backtest(self, text: str, limit: int = 200) -> Trial:
        file = parse_policy(text)
        await self._service.journal.settle()
        rows = max(0, min(limit, MOST_TRIAL_ROWS))
        service, total = self._service, self._service.journal.state.entries

        def progress(seq: int) -> None:
            service.tell_work("try_policy", min(seq, total), total)

        return await try_over_journal(service.journal, file, self._device_now, rows, progress)

    async def save(self, text: str, digest: str, signed: SignedChange | None = None) -> PolicyStatus:
        service = self._service
        checked = check_text(text)
        if not checked.ok:
            first = checked.problems[0].message if checked.problems else "an example does not hold"
            raise BadInput(sentences(f"The policy was not saved: {first}"))
        async with service.policy_writing:
            self._check_same(digest)
            saved = partial(PolicySaved, before=digest, after=text_digest(text), rules=checked.rules)
            await self._record_pin(saved, text, signed)
            # Checked again: an editor takes no lock, and text that it wrote meanwhile must not be lost.
            self._check_same(digest)
            self._write_policy(text)
            service.policy.accept(text)
        service.policy_was_changed()
        return service.policy_status()

    async def accept(self, digest: str, signed: SignedChange | None = None) -> PolicyStatus:
        service = self._service
        async with service.policy_writing:
            self._check_same(digest)
            text = self._read_text()
            checked_policy(text)
            saved = partial(PolicySaved, before=digest, after=digest, by_file=True)
            await self._record_pin(saved, text, signed)
            service.policy.accept(text)
        service.policy_was_changed()
        return service.policy_status()

    async def set_profile(self, profile: Profile, signed: SignedChange | None = None) -> PolicyStatus:
        service = self._service
        async with service.policy_writing:
            # Read before recording: if the file is broken, this fails and no change is recorded.
            before = self._read_text()
            text = with_profile(before, profile)
            accepted = await self._record_profile(text, profile, signed)
            self._check_same(text_digest(before))
            self._write_policy(text)
            if accepted:
                service.policy.accept(text)
        service.policy_was_changed()
        return service.policy_status()

    async def _record_profile(self, text: str, profile: Profile, signed: SignedChange | None) -> bool:
        """Record a new profile; returns whether the text with it becomes the accepted policy.

        A stricter profile takes effect at once, even in a file with other, loosening edits that are pending.
        """
        policy = self._service.policy
        chosen = partial(ProfileChanged, from_=policy.profile.value, to=profile.value)
        policy.refresh()
        if policy.pending and is_as_strict(profile, policy.profile):
            await self._client.record(chosen())
            return False
        await self._record_pin(chosen, text, signed)
        return True

    async def _record_pin(self, event: Callable[..., Event], text: str, signed: SignedChange | None) -> None:
        """Record in the journal that this text is the accepted policy from now on, with its proof.

        Raises:
            Refused: the text allows more than the accepted policy and is not signed.
        """
        service = self._service
        blob = await service.journal.put_blob(text.encode())
        proof = await self._client.signed(proposals.policy(service, text), signed)
        accepted = event(text=blob, policy_pin=text_digest(text), **proof)
        await service.journal.append(accepted.entry(self._client.actor, blobs=[blob]))

    def _write_policy(self, text: str) -> None:
        path = self._service.policy.path
        try:
            write_atomic(path, text)
        except OSError as error:
            raise BadInput(f"policy.toml cannot be written: {error.strerror}.") from error

    def _check_same(self, digest: str) -> None:
        if text_digest(self._read_text()) != digest:
            raise Refused(
                "policy.toml was changed by another program meanwhile; compare with it before you go on.",
                ErrorCode.APPROVAL_INVALID,
            )

    def _device_now(self, name: str) -> Device | None:
        try:
            return self._service.fleet.get(name)
        except BadInput:
            return None

    def _read_text(self) -> str:
        return read_policy_text(self._service.policy.path) or ""

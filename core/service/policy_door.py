"""The part of the door that is about policy: its text, its rules, grants, and how people decide."""

from __future__ import annotations

from typing import Any

from core.audit.entries import Kind, NewEntry
from core.canonical import sha256_hex
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.fleet.models import Device
from core.home import write_private
from core.policy.checking import PolicyCheck, PolicyText, Trial, check_text
from core.policy.grants import Grant
from core.policy.policy import Explanation
from core.policy.policy_file import parse_policy
from core.service.console import PolicyStatus
from core.service.device_door import DeviceDoor
from core.service.time_machine import try_over_journal

MOST_TRIAL_ROWS = 2_000


class PolicyDoor(DeviceDoor):
    """What of one client's door is about policy."""

    async def explanation(
        self, device: str, tool: str, parameters: dict[str, Any], actor: str = ""
    ) -> Explanation:
        dispatcher = self._service.dispatcher
        leads = await dispatcher.look_ahead([device], tool, parameters)
        return dispatcher.explanation(device, tool, parameters, actor or self._actor, leads)

    async def policy_text(self) -> PolicyText:
        self._only_people("read the policy's text")
        service = self._service
        service.policy.refresh()
        text = self._read_text()
        return PolicyText(
            text=text,
            path=str(service.policy.path),
            digest=sha256_hex(text.encode()),
            problem=service.policy.problem,
        )

    async def check_policy(self, text: str) -> PolicyCheck:
        self._only_people("check a policy")
        return check_text(text)

    async def try_policy(self, text: str, limit: int = 200) -> Trial:
        self._only_people("try a policy")
        file = parse_policy(text)
        await self._service.journal.settle()
        rows = max(0, min(limit, MOST_TRIAL_ROWS))
        service, total = self._service, self._service.journal.state.entries

        def progress(seq: int) -> None:
            service.tell_work("try_policy", min(seq, total), total)

        return await try_over_journal(service.journal, file, self._device_now, rows, progress)

    async def save_policy(self, text: str, digest: str) -> PolicyStatus:
        self._only_people("change the policy")
        service = self._service
        found = check_text(text)
        if not found.ok:
            first = found.problems[0].message if found.problems else "an example does not hold"
            raise BadInput(f"The policy was not saved: {first}")
        blob = await service.journal.put_blob(text.encode())
        body = {"before": digest, "after": sha256_hex(text.encode()), "rules": found.rules, "text": blob}
        entry = NewEntry(kind=Kind.POLICY_SAVED, actor=self._actor, body=body, blobs=[blob])
        async with service.policy_writing:
            self._check_same(digest)
            await service.journal.append(entry)
            # An editor knows no lock: what it wrote meanwhile is not thrown away either.
            self._check_same(digest)
            try:
                write_private(service.policy.path, text)
            except OSError as error:
                raise BadInput(f"policy.toml cannot be written: {error.strerror}.") from error
        service.policy.refresh()
        return service.policy_status()

    def _check_same(self, digest: str) -> None:
        if sha256_hex(self._read_text().encode()) != digest:
            raise Refused(
                "policy.toml was changed by somebody else meanwhile; compare with it before you save.",
                ErrorCode.APPROVAL_INVALID,
            )

    async def grants(self) -> list[Grant]:
        return self._service.policy.grants.all()

    async def revoke_grant(self, grant: str) -> Grant:
        self._only_people("revoke a grant")
        service = self._service
        service.policy.grants.get(grant)
        entry = NewEntry(kind=Kind.GRANT_REVOKED, actor=self._actor, body={"grant": grant})
        # Taking trust back counts at once, whatever state the journal is in.
        revoked = service.policy.grants.revoke(grant, self._actor)
        try:
            await service.journal.append(entry)
        except QuarterdeckError:
            service.dispatcher.keep([entry])
        return revoked

    def _device_now(self, name: str) -> Device | None:
        try:
            return self._service.fleet.get(name)
        except BadInput:
            return None

    def _read_text(self) -> str:
        path = self._service.policy.path
        try:
            return path.read_text("utf-8")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path} cannot be read: {error}") from error

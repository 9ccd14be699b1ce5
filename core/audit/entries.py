"""The models of journal entries, before and after they are written, and the closed list of their kinds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Kind(StrEnum):
    """The kind of event, in the past tense. The list is closed: an entry of another kind is not read.

    Who may answer, what an agent may do and whether all is stopped follow from entries. A version that passed
    over a kind which it does not know could permit what a later version had forbidden. So it does not open a
    journal with such an entry (`core.audit.store.check_kinds`), and a new kind needs no new format number:
    that is for how entries are stored. Verification reads no kinds, and works for a journal of any version.
    """

    SERVICE_STARTED = "service_started"
    SERVICE_STOPPED = "service_stopped"
    OPERATOR_REGISTERED = "operator_registered"
    OPERATOR_REMOVED = "operator_removed"
    POLICY_LOADED = "policy_loaded"
    POLICY_BROKEN = "policy_broken"
    PROFILE_CHANGED = "profile_changed"
    DEVICE_CONNECTED = "device_connected"
    DEVICE_LOST = "device_lost"
    DEVICE_REFUSED = "device_refused"
    DEVICE_PAIRED = "device_paired"
    DEVICE_BOUND = "device_bound"
    DEVICE_REVOKED = "device_revoked"
    DEVICE_FORGOTTEN = "device_forgotten"
    DEVICE_SET = "device_set"
    LISTENING_CHANGED = "listening_changed"
    CERTIFICATE_MADE = "certificate_made"
    CERTIFICATE_TAKEN = "certificate_taken"
    CERTIFICATE_SWITCHED = "certificate_switched"
    TRUST_ADOPTED = "trust_adopted"
    SETTINGS_ACCEPTED = "settings_accepted"
    CHANGE_REFUSED = "change_refused"
    CONTRACT_PINNED = "contract_pinned"
    CONTRACT_CHANGED = "contract_changed"
    AGENT_ADDED = "agent_added"
    AGENT_SET = "agent_set"
    AGENT_REVOKED = "agent_revoked"
    AGENT_STOPPED = "agent_stopped"
    AGENT_CONNECTED = "agent_connected"
    AGENT_LEFT = "agent_left"
    RUN_STARTED = "run_started"
    RUN_CANCEL_ASKED = "run_cancel_asked"
    RUN_FINISHED = "run_finished"
    RUN_PAUSED = "run_paused"
    RUN_UNPAUSED = "run_unpaused"
    RUN_RESUMED = "run_resumed"
    STEP_SKIPPED = "step_skipped"
    STEP_FAILED = "step_failed"
    STEP_RECOVERED = "step_recovered"
    STEP_SETTLED = "step_settled"
    STEP_CANCEL_ASKED = "step_cancel_asked"
    RETRY_SCHEDULED = "retry_scheduled"
    COMMAND_PREPARED = "command_prepared"
    COMMAND_REFUSED = "command_refused"
    COMMAND_DECIDED = "command_decided"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_GIVEN = "approval_given"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_REJECTED = "approval_rejected"
    APPROVAL_EDITED = "approval_edited"
    GRANT_GIVEN = "grant_given"
    GRANT_USED = "grant_used"
    GRANT_REVOKED = "grant_revoked"
    POLICY_SAVED = "policy_saved"
    FATIGUE_NOTED = "fatigue_noted"
    INTENT_RECORDED = "intent_recorded"
    COMMAND_SENT = "command_sent"
    EVIDENCE_TAKEN = "evidence_taken"
    PROGRESS_REPORTED = "progress_reported"
    RESULT_RECORDED = "result_recorded"
    LATE_ANSWER_RECEIVED = "late_answer_received"
    ALL_STOPPED = "all_stopped"
    ALL_RESUMED = "all_resumed"
    JOURNAL_RECOVERED = "journal_recovered"
    LOSS_ACCEPTED = "loss_accepted"
    HOME_RESTORED = "home_restored"


@dataclass(kw_only=True, slots=True)
class NewEntry:
    """An entry as its author writes it; the journal adds `seq` and `time`.

    `actor` is `operator:NAME`, `agent:NAME`, `cli:USER`, `service`, `policy` or `device:NAME`.
    `body` is JSON data, in which `core.canonical_json.Encoded` may stand for values of it; the author has
    already replaced secrets by commitments.
    `blobs` are the SHA-256 digests (hexadecimal) of the blobs that the body refers to.

    A command makes several, so it is a plain record: one costs 0.8 us, 3.1 as a model that checks its fields
    and 1.6 frozen. To change one, make another by `dataclasses.replace`.
    """

    kind: Kind
    actor: str
    run: str | None = None
    step: str | None = None
    device: str | None = None
    call_id: str | None = None
    tool: str | None = None
    status: str | None = None
    verdict: str | None = None
    duration_ms: float | None = None
    body: dict[str, Any] = field(default_factory=dict)
    blobs: list[str] = field(default_factory=list)

    def values(self) -> dict[str, Any]:
        """Its fields by name, as they are."""
        return {name: getattr(self, name) for name in self.__slots__}


class Entry(BaseModel):
    """An entry in the journal: the fields of `NewEntry`, its number and its time.

    `seq` counts from 1 without gaps. `time` is UTC, ISO 8601 with microseconds and `Z`, and never goes
    backwards from entry to entry.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    kind: Kind
    actor: str
    run: str | None = None
    step: str | None = None
    device: str | None = None
    call_id: str | None = None
    tool: str | None = None
    status: str | None = None
    verdict: str | None = None
    duration_ms: float | None = None
    body: dict[str, Any] = Field(default_factory=dict)
    blobs: list[str] = Field(default_factory=list)
    seq: int
    time: str

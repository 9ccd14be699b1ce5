"""Typed events: a class for each kind of journal entry, by which bodies are written and read.

`body()` is the JSON that is written. A field without a default is always in it; a field with a default is
left out while it has the default. `event_of` reads the entries of every version and never raises: a field
that is missing, or is not of its type, has its default or else the empty value of its type. Values that have
a model of their own, such as decisions and results, are JSON here: the journal imports no package above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from core.audit.entries import Entry, Kind, NewEntry
from core.errors import BadInput

Json = dict[str, Any]


class EntryFields(TypedDict, total=False):
    """The fields of an entry beside its kind, actor and body; see `NewEntry`."""

    run: str | None
    step: str | None
    device: str | None
    call_id: str | None
    tool: str | None
    status: str | None
    verdict: str | None
    duration_ms: float | None
    blobs: list[str]


class _FieldRule(NamedTuple):
    """How a field is read: its key in the body, the types of its values, and the value for any other body."""

    name: str
    key: str
    types: tuple[type, ...]
    otherwise: Callable[[], Any]


class Event:
    """The content of an entry. The name of a field is its key in the body, without a trailing underscore."""

    kind: ClassVar[Kind]
    _rules: ClassVar[tuple[_FieldRule, ...]]
    _defaults: ClassVar[tuple[tuple[str, Any], ...]]
    _renamed: ClassVar[tuple[tuple[str, str], ...]]

    def body(self) -> Json:
        """The body as it is written. It shares its values with the event."""
        body = self.__dict__.copy()
        for name, default in self._defaults:
            if body[name] == default:
                del body[name]
        for name, key in self._renamed:
            if name in body:
                body[key] = body.pop(name)
        return body

    def entry(self, actor: str, **more: Unpack[EntryFields]) -> NewEntry:
        """The entry that records this event."""
        return NewEntry(kind=self.kind, actor=actor, body=self.body(), **more)

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Self:
        """The event of a body that any version wrote; never raises."""
        event = cls.__new__(cls)
        values = event.__dict__
        for name, key, types, otherwise in cls._rules:
            values[name] = body[key] if key in body and isinstance(body[key], types) else otherwise()
        return event

    @classmethod
    def read_with(cls, body: Mapping[str, Any], *keys: str) -> Self:
        """The event of a body in which these keys must have values of their types.

        Raises:
            BadInput: names the keys for which this does not hold.
        """
        types = {rule.key: rule.types for rule in cls._rules}
        if faults := [key for key in keys if key not in body or not isinstance(body[key], types[key])]:
            raise BadInput(f"{', '.join(faults)} missing or of another type in an entry {cls.kind}.")
        return cls.read(body)


_Class = TypeVar("_Class", bound=type[Event])
_EVENTS: dict[Kind, type[Event]] = {}


def event_of(entry: NewEntry | Entry) -> Event:
    """The event that an entry records; never raises."""
    return _EVENTS[entry.kind].read(entry.body)


def kinds_with(key: str) -> list[Kind]:
    """The kinds of entries whose bodies may have this key."""
    return [kind for kind, event in _EVENTS.items() if any(rule.key == key for rule in event._rules)]


def _default_of(spec: Field[Any]) -> Callable[[], Any] | None:
    """A function that returns the default of a field; None if the field is always written."""
    if spec.default_factory is not MISSING:
        return spec.default_factory
    return None if spec.default is MISSING else lambda: spec.default


def _rule_of(spec: Field[Any], hint: Any) -> _FieldRule:
    types = _types_of(hint)
    empty: Callable[[], Any] = types[0] if NoneType not in types and object not in types else lambda: None
    return _FieldRule(spec.name, spec.name.removesuffix("_"), types, _default_of(spec) or empty)


def _types_of(hint: Any) -> tuple[type, ...]:
    """The types of the JSON values that a field of this annotation takes."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for part in get_args(hint) for kind in _types_of(part))
    if hint is Any:
        return (object,)
    if get_origin(hint) is Literal:
        return (str,)
    return (float, int) if hint is float else (get_origin(hint) or hint,)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def _event(cls: _Class) -> _Class:
    """Make a dataclass whose fields are given by name, and register it as the class of its kind.

    For the type checker it is frozen. At run time it is not, which makes construction three times as fast;
    a command has seven entries.
    """
    made: Any = dataclass(kw_only=True)(cls)
    hints = get_type_hints(cls)
    defaults = ((spec.name, _default_of(spec)) for spec in fields(made))
    cls._rules = tuple(_rule_of(spec, hints[spec.name]) for spec in fields(made))
    cls._defaults = tuple((name, default()) for name, default in defaults if default is not None)
    cls._renamed = tuple((rule.name, rule.key) for rule in cls._rules if rule.name != rule.key)
    if "kind" in vars(cls):
        _EVENTS[cls.kind] = cls
    return cls


@_event
class ServiceStarted(Event):
    """The service started. `ignored` are sentences about what it read and does not count."""

    kind = Kind.SERVICE_STARTED
    version: str
    pid: int
    stay: bool
    ignored: list[str] = field(default_factory=list)


@_event
class ServiceStopped(Event):
    """The service ended and left nothing open."""

    kind = Kind.SERVICE_STOPPED


@_event
class OperatorRegistered(Event):
    """An operator was registered; a home's first one without a signature."""

    kind = Kind.OPERATOR_REGISTERED
    operator: Json
    signed: Json | None = None


@_event
class OperatorRemoved(Event):
    """An operator was removed."""

    kind = Kind.OPERATOR_REMOVED
    operator: str
    public_key: str
    signed: Json | None = None


@_event
class _PolicyRead(Event):
    """The policy file was read, or accepted because it is stricter; then `text` and `policy_pin` are set.

    `text` is the blob of the text, `policy_pin` the SHA-256 of the text that is accepted from now on.
    `pending` are sentences about what the file would loosen.
    """

    profile: str
    problem: str | None = None
    pending: list[str] = field(default_factory=list)
    text: str = ""
    policy_pin: str = ""


@_event
class PolicyLoaded(_PolicyRead):
    """The policy file was read; see `_PolicyRead`."""

    kind = Kind.POLICY_LOADED


@_event
class PolicyBroken(_PolicyRead):
    """The policy file cannot be read, as `problem` says."""

    kind = Kind.POLICY_BROKEN


@_event
class PolicySaved(Event):
    """A policy was accepted. `before` and `after` are the digests of the file's text before and after."""

    kind = Kind.POLICY_SAVED
    before: str
    after: str
    text: str
    policy_pin: str
    rules: int | None = None
    by_file: bool = False
    signed: Json | None = None


@_event
class ProfileChanged(Event):
    """The profile was changed; with `policy_pin`, the text with it became the accepted policy."""

    kind = Kind.PROFILE_CHANGED
    from_: str
    to: str
    text: str = ""
    policy_pin: str = ""
    signed: Json | None = None


@_event
class DeviceConnected(Event):
    """A device connected and its tools were listed."""

    kind = Kind.DEVICE_CONNECTED
    channel: str = ""
    client: str = ""
    platform: str = ""
    system: str = ""
    address: str = ""
    host: str = ""


@_event
class DeviceLost(Event):
    """A device's link ended."""

    kind = Kind.DEVICE_LOST
    reason: str


@_event
class DeviceRefused(Event):
    """Connections were rejected `count` times for the same reason."""

    kind = Kind.DEVICE_REFUSED
    reason: str
    peer: str
    name: str
    count: int


@_event
class DevicePaired(Event):
    """A device was paired, with digests of its token only; the settings are those that were set."""

    kind = Kind.DEVICE_PAIRED
    direction: str
    token_sha256: str | None = None
    url: str | None = None
    fingerprint: str | None = None
    dial_token_sha256: str | None = None
    certificate_sha256: str = ""
    tags: list[str] = field(default_factory=list)
    production: bool | None = None
    agent: str = ""
    signed: Json | None = None


@_event
class DeviceBound(Event):
    """A pairing was bound to the machine that used it first or, with `signed`, to another that was accepted.

    `machine` is the identity that the device's client reported, empty if it reports none; `host` its host
    name. `paired_at` identifies the pairing.
    """

    kind = Kind.DEVICE_BOUND
    machine: str
    host: str
    paired_at: str
    signed: Json | None = None


@_event
class _TrustEnded(Event):
    """The trust in a device ended. `paired_at` identifies its pairing; `in_` is the file that told of it."""

    paired_at: str | None
    revoked_at: str | None
    in_: str = ""


@_event
class DeviceRevoked(_TrustEnded):
    """A device was revoked."""

    kind = Kind.DEVICE_REVOKED


@_event
class DeviceForgotten(_TrustEnded):
    """A device was forgotten."""

    kind = Kind.DEVICE_FORGOTTEN


@_event
class DeviceSet(Event):
    """An operator changed the settings of a device; None is a setting that was not changed."""

    kind = Kind.DEVICE_SET
    tags: list[str] | None = None
    production: bool | None = None
    agent: str | None = None
    signed: Json | None = None


@_event
class ListeningChanged(Event):
    """The address at which devices dial in was changed; with `problem`, it could not be."""

    kind = Kind.LISTENING_CHANGED
    from_: str
    to: str
    problem: str | None = None
    signed: Json | None = None


@_event
class CertificateMade(Event):
    """An operator signed the certificate that this console is to show after its present one (SHA-256)."""

    kind = Kind.CERTIFICATE_MADE
    fingerprint: str
    signed: Json | None = None


@_event
class CertificateTaken(Event):
    """A device accepts a certificate of this console; with `used`, it connected by it, and by no earlier one.

    `paired_at` identifies the device's pairing.
    """

    kind = Kind.CERTIFICATE_TAKEN
    fingerprint: str
    paired_at: str
    used: bool = False


@_event
class CertificateSwitched(Event):
    """This console shows another certificate from now on. `without` are the devices that do not accept it."""

    kind = Kind.CERTIFICATE_SWITCHED
    from_: str
    to: str
    without: list[str] = field(default_factory=list)


@_event
class TrustAdopted(Event):
    """A new home had nothing to adopt from files. Only earlier versions wrote it; nothing depends on it."""

    kind = Kind.TRUST_ADOPTED
    devices: int
    tools: int


@_event
class SettingsAccepted(Event):
    """The values of the settings that can loosen security were accepted.

    Without `signed` they count only where they tighten: the service records what it finds in the files.
    """

    kind = Kind.SETTINGS_ACCEPTED
    settings: Json
    signed: Json | None = None


@_event
class ChangeRefused(Event):
    """A change was signed in a way that does not count."""

    kind = Kind.CHANGE_REFUSED
    change: Json
    problem: str
    signed: Json


@_event
class _Contracts(Event):
    """Tools of a device: definition digests and claimed risks by tool key. `ours`: it is our own client."""

    tools: dict[str, str]
    claims: dict[str, str]
    ours: bool


@_event
class ContractPinned(_Contracts):
    """Tools were trusted. `pins` are by tool name. `facts` are the contract's facts that a review changed."""

    kind = Kind.CONTRACT_PINNED
    pins: dict[str, str]
    reviewed: bool = False
    facts: dict[str, list[Any]] | None = None
    signed: Json | None = None


@_event
class ContractChanged(_Contracts):
    """Tools are blocked because they are not as they were trusted; `more` of them are not named."""

    kind = Kind.CONTRACT_CHANGED
    more: int = 0


@_event
class AgentAdded(Event):
    """An agent was added, or got a new token, with this digest of its token."""

    kind = Kind.AGENT_ADDED
    agent: str
    settings: Json
    token_sha256: str
    signed: Json | None = None


@_event
class AgentSet(Event):
    """The settings of an agent were replaced."""

    kind = Kind.AGENT_SET
    agent: str
    settings: Json
    signed: Json | None = None


@_event
class AgentRevoked(Event):
    """An agent was revoked."""

    kind = Kind.AGENT_REVOKED
    agent: str


@_event
class AgentStopped(Event):
    """An agent was stopped: it is paused, these `runs` of it were cancelled, its connections were ended."""

    kind = Kind.AGENT_STOPPED
    agent: str
    runs: list[str]
    connections: int


@_event
class AgentConnected(Event):
    """A connection of an agent was used for the first time, or from then on by another program.

    `program` is what the program at its end calls itself, unchecked. The entry's actor is the agent.
    """

    kind = Kind.AGENT_CONNECTED
    transport: str
    program: str


@_event
class AgentLeft(Event):
    """A connection of an agent ended; `reason` says why if the service ended it."""

    kind = Kind.AGENT_LEFT
    transport: str
    program: str
    reason: str = ""


@_event
class RunStarted(Event):
    """A run started. `operator` is the operator who requested it, if proved by the operator's key.

    For an agent's run that is the operator who has signed the agent in.

    `inputs` are the values of the batch's inputs, redacted. A run that `resumes` an earlier one has its
    batch, inputs and devices. `carried` lists the cells that it does not begin, because that run or one
    before it has done or skipped them: objects with `run`, `step`, `state` and `devices`. `undoes` is the run
    that an undo run undoes. `devices` are in the order in which they begin; `waves` is the number of devices
    in each wave, empty where all are one.
    Of an agent's run: `request_id` is the agent's own name for the request, `request_digest` identifies what
    was requested (`core.service.agent_requests`), and `program` is what the program that asked calls itself.
    """

    kind = Kind.RUN_STARTED
    batch: Json
    kind_: Literal["batch", "call", "undo"]
    devices: list[str]
    devices_hash: str
    said: str
    operator: str = ""
    inputs: Json = field(default_factory=dict)
    resumes: str = ""
    carried: list[Json] = field(default_factory=list)
    note: str = ""
    undoes: str = ""
    waves: list[int] = field(default_factory=list)
    request_id: str = ""
    request_digest: str = ""
    program: str = ""


@_event
class RunCancelAsked(Event):
    """Cancelling a run was requested."""

    kind = Kind.RUN_CANCEL_ASKED


@_event
class RunFinished(Event):
    """A run ended. `counts` is the number of cells by state; recovery leaves them out.

    `note` says why it ended early, if it was not cancelled.
    """

    kind = Kind.RUN_FINISHED
    state: str
    counts: dict[str, int] | None = None
    note: str = ""


@_event
class RunPaused(Event):
    """An operator paused a run: nothing more of it starts."""

    kind = Kind.RUN_PAUSED


@_event
class RunUnpaused(Event):
    """An operator let a paused run go on."""

    kind = Kind.RUN_UNPAUSED


@_event
class RunResumed(Event):
    """An ended run is continued by the run `by`."""

    kind = Kind.RUN_RESUMED
    by: str


@_event
class StepSkipped(Event):
    """A step was not begun on a device; with `needless`, it was not needed there, which is no failure."""

    kind = Kind.STEP_SKIPPED
    why: str
    needless: bool = False


@_event
class StepFailed(Event):
    """A step failed by the batch's words: an expectation, a condition or an argument did not hold.

    `error` is an `ErrorInfo`. Of an expectation, the command's result was recorded before.
    """

    kind = Kind.STEP_FAILED
    error: Json
    expectation: bool = False


@_event
class RetryScheduled(Event):
    """A failed step is tried again, as the attempt of this number, after `wait_s` seconds."""

    kind = Kind.RETRY_SCHEDULED
    attempt: int
    wait_s: float
    code: str


@_event
class StepRecovered(Event):
    """A failed step counts as done: the steps of its recovery (`by`) have run, or `why` says it."""

    kind = Kind.STEP_RECOVERED
    by: list[str]
    why: str = ""


@_event
class StepCancelAsked(Event):
    """Cancelling one step on one device was requested."""

    kind = Kind.STEP_CANCEL_ASKED


@_event
class StepSettled(Event):
    """An operator said of an ended step whether it is done; `before` is its state until then."""

    kind = Kind.STEP_SETTLED
    done: bool
    before: str


@_event
class CommandEvent(Event):
    """An event of one command. `glimpse` marks the constant entries of a wall of live pictures."""

    glimpse: bool = False


@_event
class CommandPrepared(CommandEvent):
    """A command was bound to a contract. `evidence_for` is the call for which it takes a picture."""

    kind = Kind.COMMAND_PREPARED
    digest: str
    contract: str
    tool_key: str
    tool_type: str
    namespace: str | None
    parameters: Json
    said: str
    evidence_for: str = ""


@_event
class CommandDecided(CommandEvent):
    """The policy decided; `tags` and `production` are the device's."""

    kind = Kind.COMMAND_DECIDED
    decision: Json
    tags: list[str] | None
    production: bool | None


@_event
class CommandRefused(CommandEvent):
    """A command ended before it was sent. Recovery writes `recovered` and leaves out `parameters`."""

    kind = Kind.COMMAND_REFUSED
    result: Json | None
    parameters: Json | None = None
    recovered: bool = False


@_event
class ApprovalRequested(CommandEvent):
    """A command waits for an operator. `edited_from` is the approval in which its arguments were edited.

    The question of an approval step is no command; it waits for all these `devices`, in this `wave` from 0.
    """

    kind = Kind.APPROVAL_REQUESTED
    approval: str
    digest: str
    edited_from: str
    question: str = ""
    devices: list[str] = field(default_factory=list)
    wave: int = 0


@_event
class ApprovalAnswered(CommandEvent):
    """The answer `number` of `of` to a request, with the signed statement; `took_s` in seconds."""

    approval: str
    signed: Json
    took_s: float
    number: int
    of: int


@_event
class ApprovalGiven(ApprovalAnswered):
    """An operator approved a command."""

    kind = Kind.APPROVAL_GIVEN


@_event
class ApprovalDenied(ApprovalAnswered):
    """An operator denied a command."""

    kind = Kind.APPROVAL_DENIED


@_event
class ApprovalExpired(CommandEvent):
    """A request ended without an answer; `state` says whether it expired, was withdrawn or was refused."""

    kind = Kind.APPROVAL_EXPIRED
    approval: str
    state: str
    reason: str


@_event
class ApprovalRejected(CommandEvent):
    """A signed answer was not accepted."""

    kind = Kind.APPROVAL_REJECTED
    approval: str
    problem: str
    signed: Json


@_event
class ApprovalEdited(CommandEvent):
    """An operator changed the arguments of a request; both are redacted."""

    kind = Kind.APPROVAL_EDITED
    approval: str
    digest: str
    before: Json
    after: Json


@_event
class GrantGiven(CommandEvent):
    """An operator signed a grant together with an approval."""

    kind = Kind.GRANT_GIVEN
    grant: str
    signed: Json


@_event
class GrantUsed(CommandEvent):
    """A grant let a command through; `approval` is the request that was waiting when it was given."""

    kind = Kind.GRANT_USED
    grant: str
    digest: str
    approval: str = ""


@_event
class GrantRevoked(Event):
    """A grant was revoked."""

    kind = Kind.GRANT_REVOKED
    grant: str


@_event
class FatigueNoted(Event):
    """An operator decides faster than a person reads; see `core.approvals.models.Fatigue`."""

    kind = Kind.FATIGUE_NOTED
    operator: str
    decided: int
    approved: int
    median_s: float
    hasty: int
    warning: str


@_event
class _ToSend(CommandEvent):
    """A command on its way to a device. Without digests it lists tools, which have no contract yet."""

    digest: str = ""
    contract: str = ""


@_event
class IntentRecorded(_ToSend):
    """A command is about to be sent."""

    kind = Kind.INTENT_RECORDED


@_event
class CommandSent(_ToSend):
    """A command was handed to the device's channel, or would have been if its outcome says that it was not.

    Of an observation that the policy simply allowed it is the only entry before the outcome. It then has the
    fields of `CommandPrepared` and `CommandDecided`, too, and the entry's actor is who asked.
    """

    kind = Kind.COMMAND_SENT
    tool_key: str = ""
    tool_type: str = ""
    namespace: str | None = None
    parameters: Json | None = None
    said: str = ""
    evidence_for: str = ""
    decision: Json | None = None
    tags: list[str] | None = None
    production: bool | None = None

    @property
    def prepared(self) -> CommandPrepared | None:
        """The request that is in it; None if the request has an entry of its own."""
        if self.parameters is None:
            return None
        return CommandPrepared(
            glimpse=self.glimpse,
            digest=self.digest,
            contract=self.contract,
            tool_key=self.tool_key,
            tool_type=self.tool_type,
            namespace=self.namespace,
            parameters=self.parameters,
            said=self.said,
            evidence_for=self.evidence_for,
        )

    @property
    def decided(self) -> CommandDecided | None:
        """The decision that is in it; None if the decision has an entry of its own."""
        if self.decision is None:
            return None
        return CommandDecided(
            glimpse=self.glimpse, decision=self.decision, tags=self.tags, production=self.production
        )


@_event
class EvidenceTaken(CommandEvent):
    """A picture that was taken at a `moment` of a command, or why it is `missing`.

    Of a command that was stopped because its target looks different: the picture's blob on the card, the
    compared region, and what differs.
    """

    kind = Kind.EVIDENCE_TAKEN
    moment: str
    digest: str
    picture: Json | None = None
    missing: str | None = None
    card: str | None = None
    region: Json | None = None
    why: str | None = None


@_event
class ProgressReported(CommandEvent):
    """A device's progress; `left_out` reports before it, which had no output, were not recorded.

    Output of several reports is one `text`. `at` is the position of its first character in the output of the
    call. The text begins in `stream`; `changes` are pairs of an offset and the stream of what follows it.
    """

    kind = Kind.PROGRESS_REPORTED
    seq: int
    stream: str = ""
    text: str = ""
    done: float | None = None
    total: float | None = None
    unit: str = ""
    left_out: int = 0
    at: int = 0
    changes: list[Any] = field(default_factory=list)


@_event
class ResultRecorded(CommandEvent):
    """The outcome of a command that was sent; of a listing, the number of `tools` or the `problem`."""

    kind = Kind.RESULT_RECORDED
    result: Json | None = None
    recovered: bool = False
    tools: int | None = None
    problem: str | None = None


@_event
class LateAnswerReceived(CommandEvent):
    """An answer that came after its command's outcome was recorded, sanitized.

    `outcome` is the result of the command from now on, without the fields `result` and `evidence`, which are
    those of the event; None if the answer changes nothing, because the outcome was not unknown or the answer
    is wrong. `recalled`: the device was asked for it. `never_seen`: it never saw the command, and refuses it.
    """

    kind = Kind.LATE_ANSWER_RECEIVED
    result: Any = None
    error: Any = None
    evidence: list[Json] = field(default_factory=list)
    problem: Any = None
    outcome: Json | None = None
    recalled: bool = False
    never_seen: bool = False

    @property
    def settled(self) -> Json | None:
        """The result of the command from now on, as JSON; None if the answer changes nothing."""
        if self.outcome is None:
            return None
        return {**self.outcome, "result": self.result, "evidence": self.evidence}


@_event
class AllStopped(Event):
    """Everything was stopped: `runs`, `withdrawn` requests and `calls` that were under way."""

    kind = Kind.ALL_STOPPED
    runs: list[str]
    withdrawn: int
    calls: list[str]


@_event
class AllResumed(Event):
    """Commands may be sent again."""

    kind = Kind.ALL_RESUMED
    signed: Json | None = None


@_event
class LossAccepted(Event):
    """An operator accepted that the entries `from_` to `to` are lost; there are none if `to` is smaller.

    `known_head` is the signed note of the last head that was known, `spool` what was lost with the spool.
    """

    kind = Kind.LOSS_ACCEPTED
    from_: int
    to: int
    known_head: str
    spool: str = ""
    signed: Json | None = None


@_event
class HomeRestored(Event):
    """The home was restored from a backup that was made at `backup_made_at` and has `entries` entries.

    `checkpoint` is the signed note of the backup's head. What the home did after that head is not known here,
    and another home may have gone on from it.
    """

    kind = Kind.HOME_RESTORED
    backup_made_at: str
    entries: int
    checkpoint: str


@_event
class JournalRecovered(Event):
    """The journal took over entries from the spool; `lost` records are missing between them.

    `refused` records were not this journal's own, and not taken; `set_aside` is the file that keeps them.
    """

    kind = Kind.JOURNAL_RECOVERED
    entries: int
    torn_bytes: int
    lost: int = 0
    spool: str = ""
    refused: int = 0
    set_aside: str = ""

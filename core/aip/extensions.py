"""Quarterdeck's extensions of AIP, sent only to peers that announced them.

**Negotiation.** A device names its features in `register.metadata.quarterdeck.features`. The console answers
only such a device with `result.quarterdeck` in its acknowledgement (`Welcome`): the features that both have,
and the heartbeat interval. A stock peer announces no features, so it sees plain AIP.

| feature | what it allows |
|---|---|
| `cancel` | the command `quarterdeck.cancel {call_id}`, answered `{"cancelled": bool}` |
| `terms` | `Command.quarterdeck` (`CommandOptions`): deadline, digest and approval of one command |
| `progress` | text frames of type `quarterdeck.progress` (`Progress`) while a command runs |
| `binary` | binary frames (`pack_blob`) ahead of the result that refers to them by `{"$blob": sha256}` |
| `recall` | the command `quarterdeck.recall {call_ids}`, answered `{call_id: Recalled}` for each |
| `metrics` | heartbeats carry `metadata.quarterdeck.metrics` (`Metrics`) |
| `chunks` | large frames in parts (`core.aip.chunks`), in both directions, so that others pass between |
| `tools_changed` | a text frame `quarterdeck.tools_changed` (`ToolsChanged`): list the tools again |
| `next_pin` | the command `quarterdeck.next_pin` (`NextPin`), answered `{"taken": true}` |
| `streamed_output` | results leave out what came as progress (`StreamedField`); needs `progress`, `recall` |

A `$blob` reference is in the object that describes the bytes (`{"media_type": …, "$blob": …}`), or replaces
their base64 text (`{"data_base64": {"$blob": …}}`); `core.aip.binary_frames` replaces it with the bytes. A
blob of media type `text/…` is a long text of the result; its reference is in place of the text. A tool's own
key `$blob` is sent as `$$blob`, `$$blob` as `$$$blob` and so on, so a tool cannot forge a reference: only the
device's end of the link makes references.

With `streamed_output`, a field `stdout` or `stderr` of a result has only the bytes that were not sent as
progress over the same connection. Which were, `metadata.quarterdeck.streamed` of the results' frame says, a
list of `StreamedField`: a place that no tool's result can reach. The console puts the field together, and
recalls the whole result if that fails.

`call_id` is an idempotency key on a Quarterdeck device: the device never runs a command again whose `call_id`
it has seen; it answers with the first command's result, or waits for that result. `recall` asks for the state
of calls whose answer was lost. Results are in the memory of the device client only, the latest 24 MiB: after
its restart the answer has the status, the error code, an exit code and an undo id, with the reason under
`not_kept`. An action is known for `RESULTS_KEPT_S`; one that reads, while its result is in memory. A device
that never saw a call answers `never_seen`, says how far back that is certain, and refuses the call from then
on; a device that may have lost its record of the call answers with the error `outcome_unknown`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import DeviceError, ErrorCode

FEATURE_CANCEL = "cancel"
FEATURE_TERMS = "terms"
FEATURE_PROGRESS = "progress"
FEATURE_BINARY = "binary"
FEATURE_RECALL = "recall"
FEATURE_METRICS = "metrics"
FEATURE_TOOLS_CHANGED = "tools_changed"
FEATURE_NEXT_PIN = "next_pin"
FEATURE_CHUNKS = "chunks"
FEATURE_STREAMED = "streamed_output"
FEATURES = frozenset(
    {
        FEATURE_CANCEL,
        FEATURE_TERMS,
        FEATURE_PROGRESS,
        FEATURE_BINARY,
        FEATURE_RECALL,
        FEATURE_METRICS,
        FEATURE_TOOLS_CHANGED,
        FEATURE_NEXT_PIN,
        FEATURE_CHUNKS,
        FEATURE_STREAMED,
    }
)

# Sent and answered as ordinary commands; no Quarterdeck tool has a dot in its name, so names cannot collide.
CANCEL_COMMAND = "quarterdeck.cancel"
RECALL_COMMAND = "quarterdeck.recall"
NEXT_PIN_COMMAND = "quarterdeck.next_pin"
PROGRESS_FRAME = "quarterdeck.progress"
TOOLS_CHANGED_FRAME = "quarterdeck.tools_changed"
BLOB_KEY = "$blob"
TEXT_BLOB = "text/plain; charset=utf-8"

# How long a device that has `recall` knows an action, in seconds.
RESULTS_KEPT_S = 48 * 3600.0

# The field of a result that has the output of the progress stream of the same name.
OutputField = Literal["stdout", "stderr"]
# First byte, and the byte after the last.
Span = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]
MOST_SPANS = 256

_HEAD_BYTES = 4
_MOST_HEAD = 4096


class _Extension(BaseModel):
    # NaN and the infinities are not JSON, and every computation with them gives NaN or infinity again.
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class CommandOptions(_Extension):
    """The options of one command, sent to a device that has the feature `terms`.

    `deadline_s` counts from the frame's arrival to the command's end, with the wait for its turn and without
    the way of the answer; the device itself then stops the command. `digest` is the
    digest of the permitted request. `approval` is the operator's signed statement, if policy required it.
    """

    deadline_s: float = Field(gt=0, le=86_400)
    digest: str = ""
    approval: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CommandProof:
    """Proof for one command: the digest of the permitted request, and the operator's signed statement."""

    digest: str = ""
    approval: dict[str, Any] | None = None


class Welcome(_Extension):
    """The console's half of the negotiation: `result.quarterdeck` of the acknowledgement."""

    version: str
    features: list[str]
    heartbeat_s: float = Field(default=20.0, ge=0.1, le=600)


class Progress(_Extension):
    """Progress of a running command; `text` is the output since the last frame, at most 65,536 characters.

    `seq` counts from 0 for each call. `done` and `total` are measured in `unit`. With `streamed_output`, the
    end of `text` is the bytes `span` (first, end) of the UTF-8 of the result's field `stream`.
    """

    type: Literal["quarterdeck.progress"] = "quarterdeck.progress"
    call_id: str
    seq: int = Field(ge=0)
    stream: Literal["stdout", "stderr", "note"] = "note"
    text: str = Field(default="", max_length=65_536)
    done: float | None = None
    total: float | None = None
    unit: str = ""
    span: Span | None = Field(default=None, exclude_if=lambda value: value is None)


class StreamedField(_Extension):
    """A field of a result that came as progress, in part or whole.

    `result` is the result's place in its frame. `spans` are the bytes of the field's UTF-8 that came, in
    order and without overlap; the field in the frame has all others. `sha256` is that of the whole field.
    """

    result: int = Field(ge=0)
    field: OutputField
    spans: tuple[Span, ...] = Field(min_length=1, max_length=MOST_SPANS)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class ToolsChanged(_Extension):
    """Notice that the device's tools, or the capabilities that it cannot offer, have changed.

    `unavailable` is the present value of `register.metadata.quarterdeck.unavailable`; None when the device
    does not report it. A console that ignores this field still lists the tools again.
    """

    type: Literal["quarterdeck.tools_changed"] = "quarterdeck.tools_changed"
    unavailable: list[dict[str, Any]] | None = None


class RecalledResult(_Extension):
    """A device's record of an earlier call; `result` is AIP's `Result` when `state` is `done`.

    With `never_seen`, `known_for_s` is for how many seconds the device knows every action that it got, and
    `reads_known_for_s` every call that reads: an older call may have run. None: it does not say.
    """

    state: Literal["done", "running", "never_seen"]
    result: dict[str, Any] | None = None
    known_for_s: float | None = Field(default=None, ge=0)
    reads_known_for_s: float | None = Field(default=None, ge=0)

    def never_ran(self, age_s: float, *, action: bool) -> bool:
        """Whether a call that was sent so many seconds ago has certainly not been run, and never will be."""
        if self.state != "never_seen":
            return False
        known_for_s = self.known_for_s if action else self.reads_known_for_s
        # A device that does not say remembers only actions beyond its restart.
        return action if known_for_s is None else age_s < known_for_s


class NextPin(_Extension):
    """The certificate that the console will show after its present one, sent over the link that pins that.

    `before` and `fingerprint` are the SHA-256 of the present and the next certificate. `number` grows with
    each that a console makes, so that an earlier one cannot be sent again. `approval` is the operator's
    signed change; a device with pinned operators takes the certificate by their signature only.
    """

    before: str = Field(pattern="^[0-9a-f]{64}$")
    fingerprint: str = Field(pattern="^[0-9a-f]{64}$")
    number: int = Field(ge=1, le=2**53)
    approval: dict[str, Any] | None = None


class Metrics(_Extension):
    """CPU and memory load of the device's computer, each in per cent of the total."""

    cpu_percent: float = Field(ge=0, le=100)
    memory_percent: float = Field(ge=0, le=100)


class Blob(_Extension):
    """The head of a binary frame."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    media_type: str = Field(default="application/octet-stream", max_length=200)


def features_of(metadata: dict[str, Any]) -> frozenset[str]:
    """The features that a registration announces; empty for stock devices and malformed metadata."""
    ours = metadata.get("quarterdeck")
    named = ours.get("features") if isinstance(ours, dict) else None
    return (
        frozenset(word for word in named if isinstance(word, str)) if isinstance(named, list) else frozenset()
    )


def agreed_features(metadata: dict[str, Any]) -> frozenset[str]:
    """The announced features that this version supports."""
    return features_of(metadata) & FEATURES


def is_mark(key: str) -> bool:
    """Whether a key is `$blob`, or a tool's own key of this form (`$$blob`, …), which has to be escaped."""
    return key.endswith(BLOB_KEY) and key.lstrip("$") == "blob"


def escaped(key: str) -> str:
    """A tool's own key, escaped for a result that contains references."""
    return f"${key}" if is_mark(key) else key


def unescaped(key: str) -> str:
    """The inverse of `escaped`; `$blob` itself is a reference and stays."""
    return key[1:] if key != BLOB_KEY and is_mark(key) else key


def pack_blob(data: bytes, media_type: str) -> tuple[str, bytes]:
    """Returns the SHA-256 of `data` and the binary frame that carries it.

    The frame is the head's length (4 bytes, big-endian), the head (`Blob` as JSON), then the data.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    head = Blob(sha256=sha256, media_type=media_type).model_dump_json().encode()
    return sha256, len(head).to_bytes(_HEAD_BYTES, "big") + head + data


def unpack_blob(frame: bytes) -> tuple[Blob, bytes]:
    """Read a binary frame and check its data against the SHA-256 in its head.

    Raises:
        DeviceError: the frame is malformed, or its data does not match the digest (code `protocol_error`).
    """
    size = int.from_bytes(frame[:_HEAD_BYTES], "big")
    if not 0 < size <= _MOST_HEAD or len(frame) < _HEAD_BYTES + size:
        raise DeviceError("Not a blob frame: its head does not fit.", ErrorCode.PROTOCOL_ERROR)
    try:
        head = Blob.model_validate(json.loads(frame[_HEAD_BYTES : _HEAD_BYTES + size]))
    except (ValueError, RecursionError, ValidationError) as error:
        raise DeviceError("Not a blob frame: its head cannot be read.", ErrorCode.PROTOCOL_ERROR) from error
    data = frame[_HEAD_BYTES + size :]
    if hashlib.sha256(data).hexdigest() != head.sha256:
        raise DeviceError("A blob's bytes are not those of its digest.", ErrorCode.PROTOCOL_ERROR)
    return head, data

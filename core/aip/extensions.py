"""What both our ends understand beyond AIP, and nobody else is ever sent.

**Negotiation.** A device names its features in `register.metadata.quarterdeck.features`; the console answers
such a device, and only such a device, with `result.quarterdeck` in its acknowledgement (`Welcome`): the
features both have, and how often to send a heartbeat. A stock peer announces nothing, so it sees plain AIP.

| feature | what it allows |
|---|---|
| `cancel` | the command `quarterdeck.cancel {call_id}`, answered `{"cancelled": bool}` |
| `terms` | `Command.quarterdeck` (`CommandOptions`): deadline, digest and approval of one command |
| `progress` | text frames of type `quarterdeck.progress` (`Progress`) while a command runs |
| `binary` | binary frames (`pack_blob`) ahead of the result that refers to them by `{"$blob": sha256}` |
| `recall` | the command `quarterdeck.recall {call_ids}`, answered `{call_id: Recalled}` for each |
| `metrics` | heartbeats carry `metadata.quarterdeck.metrics` (`Metrics`) |
| `tools_changed` | a text frame `quarterdeck.tools_changed` (`ToolsChanged`): list the tools again |

A `$blob` stands in the object that describes the bytes (`{"media_type": …, "$blob": …}`), or where their
base64 text would stand (`{"data_base64": {"$blob": …}}`); `core.aip.binary_frames` puts them back there. A
blob of media type `text/…` is a long text of the result, and its reference stands where the text would.
Whatever a tool itself returns under `$blob` travels as `$$blob`, `$$blob` as `$$$blob` and so on: a reference
is one only where the device's end of the link put it.

`call_id` is an idempotency key on our device: a command whose `call_id` it has seen is never run again; it
is answered with the first one's result, or waits for it. `recall` asks what became of calls whose answer was
lost. A call that the device has never seen is answered `never_seen`, and refused from then on.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import DeviceError, ErrorCode

FEATURE_CANCEL = "cancel"
FEATURE_TERMS = "terms"
FEATURE_PROGRESS = "progress"
FEATURE_BINARY = "binary"
FEATURE_RECALL = "recall"
FEATURE_METRICS = "metrics"
FEATURE_TOOLS_CHANGED = "tools_changed"
FEATURES = frozenset(
    {
        FEATURE_CANCEL,
        FEATURE_TERMS,
        FEATURE_PROGRESS,
        FEATURE_BINARY,
        FEATURE_RECALL,
        FEATURE_METRICS,
        FEATURE_TOOLS_CHANGED,
    }
)

# Commands, so that they travel and are answered like any; no tool of ours has a dot in its name.
CANCEL_COMMAND = "quarterdeck.cancel"
RECALL_COMMAND = "quarterdeck.recall"
PROGRESS_FRAME = "quarterdeck.progress"
TOOLS_CHANGED_FRAME = "quarterdeck.tools_changed"
BLOB_KEY = "$blob"
TEXT_BLOB = "text/plain; charset=utf-8"

_HEAD_BYTES = 4
_MOST_HEAD = 4096


class _Extension(BaseModel):
    # NaN and the infinities are no JSON, and poison whatever is computed from them.
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class CommandOptions(_Extension):
    """What goes with one command to a device that has `terms`.

    `deadline_s` counts from the frame's arrival: the device stops by itself then. `digest` is the digest of
    the request that was permitted. `approval` is the operator's signed statement, if one was asked for.
    """

    deadline_s: float = Field(gt=0, le=86_400)
    digest: str = ""
    approval: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CommandProof:
    """Why one command may run: the digest of the request that was permitted, and the signed statement."""

    digest: str = ""
    approval: dict[str, Any] | None = None


class Welcome(_Extension):
    """The console's half of the negotiation: `result.quarterdeck` of the acknowledgement."""

    version: str
    features: list[str]
    heartbeat_s: float = Field(default=20.0, ge=0.1, le=600)


class Progress(_Extension):
    """How far a command has come; `text` is output since the last one, at most 64 KiB.

    `seq` counts from 0 for each call. `done` of `total` in whatever `unit` says.
    """

    type: Literal["quarterdeck.progress"] = "quarterdeck.progress"
    call_id: str
    seq: int = Field(ge=0)
    stream: Literal["stdout", "stderr", "note"] = "note"
    text: str = Field(default="", max_length=65_536)
    done: float | None = None
    total: float | None = None
    unit: str = ""


class ToolsChanged(_Extension):
    """The device's tools are not what they were, or what it cannot offer is not.

    `unavailable` is what `register.metadata.quarterdeck.unavailable` was, as it is now; None where the device
    does not say. A console that does not know it lists the tools again all the same.
    """

    type: Literal["quarterdeck.tools_changed"] = "quarterdeck.tools_changed"
    unavailable: list[dict[str, Any]] | None = None


class RecalledResult(_Extension):
    """What a device knows of an earlier call; `result` is AIP's Result when `state` is `done`."""

    state: Literal["done", "running", "never_seen"]
    result: dict[str, Any] | None = None


class Metrics(_Extension):
    """How loaded the machine is, in per cent of all of it."""

    cpu_percent: float = Field(ge=0, le=100)
    memory_percent: float = Field(ge=0, le=100)


class Blob(_Extension):
    """The head of a binary frame."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    media_type: str = Field(default="application/octet-stream", max_length=200)


def features_of(metadata: dict[str, Any]) -> frozenset[str]:
    """The features that a registration announces; empty for stock devices and for nonsense."""
    ours = metadata.get("quarterdeck")
    named = ours.get("features") if isinstance(ours, dict) else None
    return (
        frozenset(word for word in named if isinstance(word, str)) if isinstance(named, list) else frozenset()
    )


def agreed_features(metadata: dict[str, Any]) -> frozenset[str]:
    """Those of the announced features that this version has too."""
    return features_of(metadata) & FEATURES


def is_mark(key: str) -> bool:
    """Whether a key is `$blob`, or a tool's own one that could be taken for it."""
    return key.endswith(BLOB_KEY) and key.lstrip("$") == "blob"


def escaped(key: str) -> str:
    """A tool's own key as it travels in a result with references."""
    return f"${key}" if is_mark(key) else key


def unescaped(key: str) -> str:
    """The other way round; `$blob` itself is no tool's own key."""
    return key[1:] if key != BLOB_KEY and is_mark(key) else key


def pack_blob(data: bytes, media_type: str) -> tuple[str, bytes]:
    """The SHA-256 of `data`, and the binary frame that carries it.

    The frame is the length of its head (4 bytes, big-endian), the head (`Blob` as JSON), then the bytes.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    head = Blob(sha256=sha256, media_type=media_type).model_dump_json().encode()
    return sha256, len(head).to_bytes(_HEAD_BYTES, "big") + head + data


def unpack_blob(frame: bytes) -> tuple[Blob, bytes]:
    """Read a binary frame; its bytes are what its head says.

    Raises:
        DeviceError: it is not such a frame, or was altered (code `protocol_error`).
    """
    size = int.from_bytes(frame[:_HEAD_BYTES], "big")
    if not 0 < size <= _MOST_HEAD or len(frame) < _HEAD_BYTES + size:
        raise DeviceError("Not a blob frame: its head does not fit", ErrorCode.PROTOCOL_ERROR)
    try:
        head = Blob.model_validate(json.loads(frame[_HEAD_BYTES : _HEAD_BYTES + size]))
    except (ValueError, RecursionError, ValidationError) as error:
        raise DeviceError("Not a blob frame: its head cannot be read", ErrorCode.PROTOCOL_ERROR) from error
    data = frame[_HEAD_BYTES + size :]
    if hashlib.sha256(data).hexdigest() != head.sha256:
        raise DeviceError("A blob's bytes are not those of its digest", ErrorCode.PROTOCOL_ERROR)
    return head, data

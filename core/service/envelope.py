"""The envelope: the one form in which window, terminal and agents get the outcome of a command.

`resources/envelope.schema.json` publishes it as a JSON Schema (`python -m core.service.envelope`).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import Field

from core.aip.messages import ResultStatus
from core.batch.models import Cell, CellState, result_of
from core.commands.results import Basis, CommandResult, CommandStage, Evidence, Verdict
from core.errors import ErrorCode, ErrorInfo
from core.models.frozen import FrozenModel
from core.models.tools import Effect
from core.next_steps import ADVICE

# With this basis a command did not begin, so repeating it cannot do anything twice.
_NOT_BEGUN = frozenset({Basis.NOTHING_SENT, Basis.DEVICE_REFUSED})


class Alternative(FrozenModel):
    """A call that could be made now instead, with the same arguments; `why` says so where it needs others."""

    tool: str
    device: str
    why: str


class EnvelopeError(FrozenModel):
    """Why a command did not succeed, and the next step for a person.

    `retryable`: the very same call may succeed later, and changes nothing twice. `alternatives` are calls
    that the policy would allow now without an approval; none for what was denied or needs an approval.
    """

    code: ErrorCode
    message: str
    next: str = ""
    retryable: bool
    alternatives: list[Alternative] = Field(default_factory=list)


class SavedEvidence(Evidence):
    """Evidence with the name of the file to which the command line saved it; null if it did not."""

    file: str | None = None


class Envelope(FrozenModel):
    """The outcome of one command, or of a request that did not become one (`call_id` is null).

    `verdict` and `basis` are null while the command has not ended. `stage` is the stage at which it failed or
    waits; null if it did not fail, or if that is not known. `approval` is the request for approval that it
    waits for; the error's code is `approval_pending` then. `note` explains a result that needs a word.
    """

    call_id: str | None
    run: str | None = None
    device: str
    tool_name: str
    status: ResultStatus
    verdict: Verdict | None
    basis: Basis | None
    stage: CommandStage | None
    error: EnvelopeError | None
    result: Any
    namespace: str | None
    duration_ms: float
    approval: str | None = None
    note: str = ""
    evidence: list[SavedEvidence] = Field(default_factory=list)


def envelope_of(
    result: CommandResult, run: str | None = None, alternatives: list[Alternative] | None = None
) -> Envelope:
    """The envelope of a command that has ended."""
    error = result.error
    return Envelope(
        call_id=result.call_id or None,
        run=run,
        device=result.device,
        tool_name=result.tool_name,
        status=result.status,
        verdict=result.verdict,
        basis=result.basis,
        stage=result.stage,
        error=envelope_error(error, _may_repeat(result), alternatives) if error is not None else None,
        result=result.result,
        namespace=result.namespace,
        duration_ms=result.duration_ms,
        note=result.note,
        evidence=[SavedEvidence(**evidence.model_dump()) for evidence in result.evidence],
    )


def refused_envelope(
    device: str, tool: str, error: ErrorInfo, stage: CommandStage | None = CommandStage.PREPARE
) -> Envelope:
    """The envelope of a request that did not become a command."""
    return Envelope(
        call_id=None,
        device=device,
        tool_name=tool,
        status=ResultStatus.FAILURE,
        verdict=Verdict.REFUSED,
        basis=Basis.NOTHING_SENT,
        stage=stage,
        error=envelope_error(error),
        result=None,
        namespace=None,
        duration_ms=0.0,
    )


def lost_envelope(device: str, tool: str, error: ErrorInfo, run: str | None = None) -> Envelope:
    """The envelope of a request of which the service did not say what became: it may have been sent."""
    return refused_envelope(device, tool, error, None).model_copy(
        update={
            "run": run,
            "status": ResultStatus.NONE,
            "verdict": Verdict.UNKNOWN,
            "basis": Basis.NO_ANSWER,
        }
    )


def cell_envelope(cell: Cell, alternatives: list[Alternative] | None = None) -> Envelope:
    """The envelope of a step on a device, whether it has ended or not."""
    result = result_of(cell)
    if result is not None:
        return envelope_of(result, cell.run, alternatives)
    waits = cell.state is CellState.WAITING and cell.approval is not None
    pending = ErrorInfo.of(
        ErrorCode.APPROVAL_PENDING, f"Request {cell.approval} waits for an operator; nothing was sent."
    )
    return Envelope(
        call_id=cell.call_id,
        run=cell.run,
        device=cell.device,
        tool_name=cell.tool,
        status=ResultStatus.NONE,
        verdict=None,
        basis=None,
        stage=CommandStage.APPROVE if waits else None,
        error=envelope_error(pending) if waits else None,
        result=None,
        namespace=None,
        duration_ms=0.0,
        approval=cell.approval if waits else None,
        note=cell.note or cell.progress,
    )


def envelope_error(
    error: ErrorInfo, may_repeat: bool = True, alternatives: list[Alternative] | None = None
) -> EnvelopeError:
    """An error with its retryability; without `may_repeat` it is not retryable, whatever its code says."""
    return EnvelopeError(
        **error.model_dump(),
        retryable=may_repeat and ADVICE[error.code].retryable,
        alternatives=alternatives or [],
    )


def envelope_schema() -> dict[str, Any]:
    """The JSON Schema of an envelope as a program receives it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Envelope.model_json_schema(mode="serialization"),
    }


def _may_repeat(result: CommandResult) -> bool:
    """Whether repeating the command changes nothing twice: it did not begin, or it only reads."""
    reads = result.decision is not None and result.decision.effect is Effect.OBSERVE
    return reads or result.basis in _NOT_BEGUN


if __name__ == "__main__":
    sys.stdout.write(json.dumps(envelope_schema(), indent=2) + "\n")

"""Answers to `recall`: which call one asks for, and what is left of it when that call is cancelled."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from core.aip.extensions import RECALL_COMMAND, RecalledResult
from core.aip.messages import Result
from core.device.call_records import Facts
from core.device.frames import Step


def is_recall(steps: Sequence[Step]) -> bool:
    """Whether a frame only recalls earlier calls."""
    return len(steps) == 1 and steps[0].command is not None and steps[0].command.tool_name == RECALL_COMMAND


def recalled_by(steps: Sequence[Step]) -> str | None:
    """The call that a frame recalls, if it is a recall of a single one."""
    if not is_recall(steps) or (command := steps[0].command) is None:
        return None
    asked = (command.parameters or {}).get("call_ids")
    if not isinstance(asked, list) or len(asked) != 1 or not isinstance(asked[0], str):
        return None
    return asked[0]


def shortened(answer: Result, call_id: str, why: str) -> Result:
    """The answer to a recall with only the facts of the result; `why` it is left out."""
    found = answer.result.get(call_id) if isinstance(answer.result, dict) else None
    try:
        told = RecalledResult.model_validate(found)
        facts = Facts.of(Result.model_validate(told.result)).result(call_id, why)
    except ValidationError:
        # It is no result, and so was not long.
        return answer
    short = told.model_copy(update={"result": facts.model_dump(mode="json")})
    # Without the answer's binary frames.
    return Result(
        status=answer.status,
        error=answer.error,
        result={call_id: short.model_dump()},
        namespace=answer.namespace,
        call_id=answer.call_id,
    )

"""Drops what a device says that stands in a field, where a secret was typed into it.

A secret that arrived without some of its letters is not found by its spelling, and would tell most of it.
"""

from __future__ import annotations

from core.aip.messages import Result

TYPE_TEXT = "type_text"
_FIELD = "text_there"
# The words of `core.device.desktop.text_entry` before what stands in a field.
_BEFORE = " now has "
_INSTEAD = " has another text than was typed; it is not shown, because a secret was typed"


def without_echo(answer: Result) -> Result:
    """The answer of `type_text` without the text of the field."""
    changes: dict[str, object] = {}
    if isinstance(answer.result, dict) and answer.result.get(_FIELD) is not None:
        changes["result"] = {**answer.result, _FIELD: None}
    if isinstance(answer.error, str) and _BEFORE in answer.error:
        changes["error"] = answer.error.partition(_BEFORE)[0] + _INSTEAD
    return answer.model_copy(update=changes) if changes else answer

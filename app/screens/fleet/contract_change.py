"""What changed in a tool's definition, line by line, and in the facts that follow from it. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from app.components.file_diff import FileDiff, diff_of
from app.screens.fleet.contract import json_text
from core.aip.messages import ToolInfo
from core.errors import BadInput
from core.fleet.contracts import judge
from core.fleet.models import Contract, Fact, Source
from core.service.console import ContractChange

PARTS = {
    "tool_name": "name",
    "namespace": "namespace",
    "tool_type": "type",
    "title": "title",
    "description": "description",
    "input_schema": "arguments",
    "output_schema": "what it answers",
    "annotations": "what it says of itself",
}


@dataclass(frozen=True, slots=True)
class Change:
    """Both definitions compared; `before` is the contract that was trusted, None where it is not known."""

    diff: FileDiff | None
    parts: str
    before: Contract | None


def change_of(change: ContractChange, contract: Contract) -> Change:
    """Compare the definitions; slow for long ones, so not on the window's own thread."""
    if change.before is None:
        return Change(None, "", None)
    ordered = {key: change.before[key] for key in change.after if key in change.before}
    gone = {key: value for key, value in change.before.items() if key not in ordered}
    diff = diff_of(json_text({**ordered, **gone}), json_text(change.after))
    parts = ", ".join(PARTS.get(key, key) for key in change.changed)
    return Change(diff, parts, contract_before(change, contract))


def contract_before(change: ContractChange, now: Contract) -> Contract | None:
    """The facts that held of the trusted definition; None where that cannot be told.

    Both are judged here alike. Only when the new definition gives exactly the facts that the service holds
    now is the same judgement of the old one taken for true; what an operator set holds of both.
    """
    if change.before is None:
        return None
    for ours in (True, False):
        after, before = _judged(change.after, ours), _judged(change.before, ours)
        if after is None or before is None:
            continue
        set_by_hand = {
            key: fact
            for key in Contract.model_fields
            if isinstance(fact := getattr(now, key), Fact) and fact.source is Source.OPERATOR
        }
        if _facts(after.model_copy(update=set_by_hand)) == _facts(now):
            return before.model_copy(update=set_by_hand)
    return None


def _judged(definition: dict[str, Any], ours: bool) -> Contract | None:
    try:
        return judge(ToolInfo.model_validate(definition), ours)
    except (ValidationError, BadInput):
        return None


def _facts(contract: Contract) -> dict[str, Any]:
    return contract.model_dump(exclude={"digest"})

"""What changed in what a device says of a tool, line by line, and in the facts that follow. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app.screens.fleet.contract_view import FactLine, contract_lines, json_text
from app.widgets.text_diff import FileDiff, diff_of
from core.models.tools import Contract
from core.service.console import ContractChange

PARTS = {
    "tool_key": "key",
    "tool_name": "name",
    "namespace": "namespace",
    "tool_type": "type",
    "title": "title",
    "description": "description",
    "input_schema": "arguments",
    "output_schema": "what it answers",
    "annotations": "what it says of itself",
    "claimed_risk": "the risk that the device claims",
    "client": "which client offers it",
}


@dataclass(frozen=True, slots=True)
class Change:
    """Both definitions compared; `before` is what the trusted one counted as, None where it is not known."""

    diff: FileDiff | None
    parts: str
    before: Contract | None


def change_of(change: ContractChange) -> Change:
    """Compare the definitions; slow for long ones, so not on the window's own thread."""
    if change.before is None:
        return Change(None, "", None)
    ordered = {key: change.before[key] for key in change.after if key in change.before}
    gone = {key: value for key, value in change.before.items() if key not in ordered}
    diff = diff_of(json_text({**ordered, **gone}), json_text(change.after))
    parts = ", ".join(PARTS.get(key, key) for key in change.changed)
    return Change(diff, parts, change.before_contract)


def turns(contract: Contract, before: Contract | None) -> list[str]:
    """What each fact that changed was and is, such as `risk: medium → high`."""
    return [_turn(line) for line in contract_lines(contract, before) if line.was]


def _turn(line: FactLine) -> str:
    return f"{line.name[:1].lower()}{line.name[1:]}: {line.was} → {line.value}"

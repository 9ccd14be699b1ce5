"""Lists the devices, which is all that `quarterdeck devices` loads: no command, no language of filters."""

from __future__ import annotations

from core.cli.answer import Answer
from core.cli.output import MOST_REASON, claim_cell, state_cell, table
from core.cli.session import Session


async def list_devices(session: Session, targets: str = "") -> Answer:
    """List every device with its health, or those that match a filter.

    Raises:
        BadInput: none does.
    """
    # Not of the whole state: it is the one answer whose models are those of the whole API.
    found = await session.console.devices.match(targets)
    if targets and not found:
        from core.models.device_filter import no_match

        raise no_match(targets, await session.console.devices.match(""))
    rows = [
        (
            one.name,
            state_cell(one.health),
            one.tool_count,
            claim_cell(one.system or one.platform),
            " ".join(one.tags),
            claim_cell(one.reason, MOST_REASON),
        )
        for one in found
    ]
    return Answer({"devices": found}, [table(("NAME", "HEALTH", "TOOLS", "SYSTEM", "TAGS", "WHY"), rows)])

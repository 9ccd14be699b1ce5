"""Finds reads whose result reports that it is incomplete.

A device's own report may lower a verdict but never raise it, so it counts for any tool of any device.
"""

from __future__ import annotations

from typing import Any

from core.text import shorten_middle

_MOST_NAMED = 5
_MOST_WORDS = 300


def partly_seen(result: Any) -> str:
    """The gaps that a result reports, in words for an operator; empty if it reports none.

    The fields are `not_seen`, a list of `{what, why, instead}`, and `blocked`, a list of lines (the read-only
    shell has both); values of another form are ignored.
    """
    if not isinstance(result, dict):
        return ""
    told = []
    rows = result.get("not_seen")
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("why"), str):
            instead = row.get("instead")
            ask = f" Ask {instead}." if isinstance(instead, str) and instead else ""
            told.append(shorten_middle(f"{row['why']}{ask}", _MOST_WORDS))
    blocked = result.get("blocked")
    if isinstance(blocked, list) and blocked and isinstance(blocked[0], str):
        told.append(shorten_middle(f"The sandbox refused: {blocked[0]}", _MOST_WORDS))
    return f"Not the whole truth. {' '.join(told[:_MOST_NAMED])}" if told else ""

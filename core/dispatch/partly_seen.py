"""Reads that say themselves that they were not shown everything: their answer is not the whole truth.

A device's own words may lower a verdict, never raise it, so any tool of any device may say so.
"""

from __future__ import annotations

from typing import Any

from core.text import shorten_middle

_MOST_NAMED = 5
_MOST_WORDS = 300


def partly_seen(result: Any) -> str:
    """What a result says that it lacks, in words for a person; empty where it lacks nothing.

    Read are `not_seen`, a list of `{what, why, instead}`, and `blocked`, a list of lines (the read-only shell
    has both); what is written otherwise says nothing.
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

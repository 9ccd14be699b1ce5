"""The filter by which a batch is meant for the devices that are shown or chosen."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app.text import count_words
from core.errors import BadInput
from core.filter_language import LONGEST

EVERYTHING = "name:*"


def run_targets(shown_by: str, shown: Sequence[str], chosen: Collection[str]) -> str:
    """A filter for the chosen devices, or for all shown when none is chosen.

    `shown_by` is the filter that `shown` are shown by, as it holds and not as it may be typed by now.

    Raises:
        BadInput: no filter that is short enough names these devices and no others.
    """
    shown_by = shown_by.strip()
    if not chosen:
        return shown_by or EVERYTHING
    by_name = f"name:{','.join(chosen)}"
    if len(by_name) <= LONGEST:
        return by_name
    left_out = [name for name in shown if name not in set(chosen)]
    if not left_out:
        return shown_by or EVERYTHING
    all_but = f"{shown_by} !name:{','.join(left_out)}".strip()
    if len(all_but) <= LONGEST:
        return all_but
    raise BadInput(
        f"The names of {count_words(len(chosen))} devices are longer than a filter may be "
        f"({count_words(LONGEST)} characters). Choose by a filter, such as a tag, or fewer devices."
    )

"""How an operator writes devices in one word: a device's name, a pattern of names, or a filter.

The language of the filter is `core.filter_language`. Nothing but the standard library is imported here: the
completion of a shell reads these words, too.
"""

from __future__ import annotations

import re

_SIGNS = re.compile(r"[\s:,!*?\"']")


def is_filter(text: str) -> bool:
    """Whether a text is a filter or a pattern, and not the plain name of one device."""
    return not text or _SIGNS.search(text) is not None


def as_filter(text: str) -> str:
    """A filter as an operator may write it: a single word without a field is the device's whole name."""
    text = text.strip()
    if not text or re.search(r"[\s:]", text):
        return text
    negated = "!" if text.startswith("!") else ""
    return f"{negated}name:{text.removeprefix(negated)}"

"""Text search in results: in the journal's entries, and in texts that are stored as blobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from core.audit.entries import Entry, Kind
from core.errors import BadInput, JournalError
from core.json_walk import values_in
from core.replay.models import LONGEST_WORD, MOST_WORDS, ContentHits

# Limits for one stored text, and for all of them in a search: each is read and hashed again.
MOST_TEXT_BYTES = 1024 * 1024
MOST_BYTES = 32 * 1024 * 1024


async def find_in_results(
    entries: Sequence[Entry], words: Sequence[str], read_blob: Callable[[str], Awaitable[bytes]]
) -> ContentHits:
    """Search the results among these entries for each word, ignoring case.

    Raises:
        BadInput: there are too many words, or a word is empty or too long.
    """
    if len(words) > MOST_WORDS or not all(0 < len(word) <= LONGEST_WORD for word in words):
        raise BadInput(f"At most {MOST_WORDS} words of 1 to {LONGEST_WORD} characters are searched.")
    wanted = [word.casefold() for word in words]
    numbers: list[list[int]] = [[] for _ in wanted]
    not_searched, left = 0, MOST_BYTES
    for entry in entries:
        if entry.kind not in (Kind.RESULT_RECORDED, Kind.LATE_ANSWER_RECEIVED, Kind.COMMAND_REFUSED):
            continue
        missing = set(range(len(wanted)))
        for inline, blob, size in _texts(entry.body.get("result")):
            text = inline
            if not missing:
                break
            if blob:
                if size > min(MOST_TEXT_BYTES, left):
                    not_searched += 1
                    continue
                left -= size
                try:
                    text = (await read_blob(blob)).decode("utf-8", "replace")
                except (BadInput, JournalError):
                    not_searched += 1
                    continue
            folded = text.casefold()
            missing -= {number for number in missing if wanted[number] in folded}
        for number in range(len(wanted)):
            if number not in missing:
                numbers[number].append(entry.seq)
    return ContentHits(numbers=numbers, not_searched=not_searched)


def _texts(value: Any) -> Iterator[tuple[str, str, int]]:
    """Yield each text in a result as (text, "", 0), or for a stored text as ("", blob, size in bytes)."""
    for part in values_in(value):
        if isinstance(part, str):
            yield part, "", 0
        elif isinstance(part, dict):
            media, blob, size = part.get("media_type"), part.get("blob"), part.get("size")
            text = isinstance(media, str) and media.startswith("text/")
            if text and isinstance(blob, str) and isinstance(size, int):
                yield "", blob, max(0, size)

"""Findings about secrets: judged is what is sent, and no finding repeats a secret.

The analysis reads the arguments as they are sent. What is shown of it refers to the arguments with `•••` in
place of each secret: a finding keeps its risk, its offsets count characters of the masked text, and a part of
it that would repeat a secret is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from core.commitments import Opening, opened
from core.confusables import plain_look
from core.json_walk import mapped, values_in
from core.models.tools import Risk
from core.policy.analysis.shell.places import SYSTEM
from core.policy.models import Finding
from core.text import escape_hidden, shorten_middle
from core.token_formats import MASK, Span, replaced

Path = tuple[str | int, ...]

UNQUOTED = "Text from elsewhere is part of the line as it is, not as data: raw(…)"
_BY_A_SECRET = "What a secret holds raises the risk"
# The only part of an argument that such a finding repeats is a folder of a fixed list.
_SYSTEM_FOLDER = re.compile(r"(?:Writes|Works) under (.+)")
# Characters that a finding and a secret may have in common by chance.
_LONGEST_IN_COMMON = 5
_SHORTEST_SECRET = 4
_LONGEST_DETAIL = 200


class MaskedText(str):
    """A text that is shown with `•••` in place of the secrets in it."""

    __slots__ = ()


class Marks(NamedTuple):
    """Facts about parts of a call's arguments.

    `openings`: the secrets. `unquoted`: the spans of texts that a template put into a shell line as they are.
    """

    openings: tuple[Opening, ...] = ()
    unquoted: tuple[tuple[Path, Span], ...] = ()


NO_MARKS = Marks()


def masked_parameters(sent: Mapping[str, Any], openings: Sequence[Opening]) -> dict[str, Any]:
    """The arguments with a `MaskedText` in place of each value that is or holds a secret."""
    masked: dict[str, Any] = mapped(dict(sent))
    spans: dict[Path, list[Span]] = {}
    for opening in openings:
        spans.setdefault(opening.path, []).extend([opening.span] if opening.span else [])
    for path, ranges in spans.items():
        holder: Any = masked
        for step in path[:-1]:
            holder = holder[step]
        text = replaced(holder[path[-1]], ranges) if ranges else MASK
        holder[path[-1]] = MaskedText(text)
    return masked


def unquoted_findings(marks: Marks) -> list[Finding]:
    """A finding for each text that is in a shell line as it is."""
    return [
        Finding(
            text=UNQUOTED,
            risk=Risk.MEDIUM,
            argument=str(path[0]),
            start=start if len(path) == 1 else None,
            end=end if len(path) == 1 else None,
        )
        for path, (start, end) in marks.unquoted
    ]


def masked_findings(
    findings: Iterable[Finding],
    sent: Mapping[str, Any],
    masked: Mapping[str, Any],
    openings: Sequence[Opening],
) -> list[Finding]:
    """Findings in arguments as they are sent, as they may be shown: without duplicates, and no secret.

    `masked` are the arguments from `masked_parameters`.
    """
    secrets = _Secrets(opened(sent, openings))
    spans: dict[str, list[Span]] = {}
    wholly: set[str] = set()
    for opening in openings:
        name = str(opening.path[0])
        if len(opening.path) == 1 and opening.span is not None:
            spans.setdefault(name, []).append(opening.span)
        else:
            wholly.add(name)
    for ranges in spans.values():
        ranges.sort()
    shown = (
        _masked(finding, secrets, spans.get(finding.argument or "", []), wholly, masked)
        for finding in findings
    )
    return list(dict.fromkeys(shown))


def _masked(
    finding: Finding,
    secrets: _Secrets,
    spans: list[Span],
    wholly: set[str],
    masked: Mapping[str, Any],
) -> Finding:
    name, start, end = finding.argument or "", finding.start, finding.end
    changed: dict[str, Any] = {}
    touches = name in wholly or (bool(spans) and (start is None or end is None))
    if start is not None and end is not None:
        touches = touches or any(first < end and start < last for first, last in spans)
        if name in wholly:
            changed |= {"start": None, "end": None, "detail": ""}
        elif spans:
            start, end = _place(spans, start, first=True), _place(spans, end, first=False)
            changed |= {"start": start, "end": end}
            if touches:
                changed["detail"] = _quoted(masked[name][start:end])
    if "detail" not in changed and secrets.are_in(finding.detail):
        changed["detail"] = ""
    if not _SYSTEM_FOLDER.fullmatch(finding.text) or not _is_system_folder(finding.text):
        # What follows a colon is a part of the argument.
        text = finding.text.partition(":")[0] if touches and finding.text != UNQUOTED else finding.text
        text = _BY_A_SECRET if secrets.are_repeated(text) else text
        changed |= {"text": text} if text != finding.text else {}
    return finding.model_copy(update=changed) if changed else finding


def _is_system_folder(text: str) -> bool:
    match = _SYSTEM_FOLDER.fullmatch(text)
    return match is not None and SYSTEM.fullmatch(match[1]) is not None


def _place(spans: list[Span], offset: int, *, first: bool) -> int:
    """The offset in the masked text; inside of a secret, that of the first or the last sign of its mask."""
    shift = 0
    for start, end in spans:
        if offset <= start:
            break
        if offset < end:
            return start + shift + (0 if first else len(MASK))
        shift += len(MASK) - (end - start)
    return offset + shift


def _quoted(text: str) -> str:
    return escape_hidden(shorten_middle(text, _LONGEST_DETAIL), keep_lines=False)


class _Secrets:
    """Recognises a part of a secret in a text, also if case, signs between letters, or its look changed."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._pieces: dict[int, set[str]] = {}
        self._short: set[str] = set()
        for value in values:
            for item in values_in(value):
                if isinstance(item, str | int | float) and not isinstance(item, bool):
                    self._add(str(item))

    def _add(self, secret: str) -> None:
        plain = _plain(secret)
        size = min(len(plain), _LONGEST_IN_COMMON + 1)
        if size >= _SHORTEST_SECRET:
            pieces = self._pieces.setdefault(size, set())
            pieces.update(plain[at : at + size] for at in range(len(plain) - size + 1))
        elif secret:
            self._short.add(secret)

    def are_in(self, detail: str) -> bool:
        """Whether a detail has a part of a secret in it, be it by chance: a detail can be left out."""
        return self.are_repeated(detail) or any(secret in detail for secret in self._short)

    def are_repeated(self, text: str) -> bool:
        """Whether a text has a part of a secret in it that is too long to be there by chance."""
        plain = _plain(text)
        return any(
            plain[at : at + size] in pieces
            for size, pieces in self._pieces.items()
            for at in range(len(plain) - size + 1)
        )


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "", plain_look(text)).casefold()

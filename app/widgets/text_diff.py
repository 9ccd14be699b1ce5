"""What a file would be after a request, line by line beside what it is now. No Qt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

CONTEXT = 3
MOST_COMPARED = 4_000_000
"""Lines times lines: beyond it everything between the first and the last change counts as changed."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_WORDS = 2_000
_ALIKE_ENOUGH = 0.34


class Kind(StrEnum):
    """What becomes of a line."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"
    FOLD = "fold"


@dataclass(frozen=True, slots=True)
class Line:
    """One line with its numbers (from 1); `changed` are character ranges that differ from its counterpart.

    A fold stands for `hidden` lines that are the same; `no_end` says that no line break follows.
    """

    kind: Kind
    text: str = ""
    old: int | None = None
    new: int | None = None
    changed: tuple[tuple[int, int], ...] = ()
    hidden: tuple[Line, ...] = ()
    no_end: bool = False
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class FileDiff:
    """All lines in order; counts of what comes and goes."""

    lines: tuple[Line, ...]
    added: int
    removed: int

    def words(self) -> str:
        """`3 lines added, 2 removed`."""
        if not self.added and not self.removed:
            return "nothing changes"
        lines = "line" if self.added == 1 else "lines"
        return f"{self.added} {lines} added, {self.removed} removed"


def diff_of(before: str, after: str, context: int = CONTEXT) -> FileDiff:
    """Compare two texts; what is the same and far from any change is folded."""
    old, new = _lines_of(before), _lines_of(after)
    found: list[Line] = []
    added = removed = 0
    for tag, i, j, k, m in _opcodes(old, new):
        if tag == "equal":
            found += [_line(Kind.SAME, old[i + n], i + n + 1, k + n + 1) for n in range(j - i)]
            continue
        gone, come = old[i:j], new[k:m]
        removed += len(gone)
        added += len(come)
        pairs = [_changed_words(a, b) for a, b in zip(gone, come, strict=False)]
        for n, text in enumerate(gone):
            found.append(_line(Kind.REMOVED, text, i + n + 1, None, pairs[n][0] if n < len(pairs) else ()))
        for n, text in enumerate(come):
            found.append(_line(Kind.ADDED, text, None, k + n + 1, pairs[n][1] if n < len(pairs) else ()))
    return FileDiff(tuple(_folded(found, context)), added, removed)


def shows_all_of(content: str, before: str | None, after: str | None) -> bool:
    """Whether a preview's end state has what would be sent, whole, and nothing else that is new."""
    if after is None:
        return False
    return after == content or after == (before or "") + content


def _lines_of(text: str) -> list[str]:
    """Lines with their line feeds; other line ends stay in the text, where they are shown by name."""
    lines = text.split("\n")
    kept = [f"{line}\n" for line in lines[:-1]]
    return [*kept, lines[-1]] if lines[-1] else kept


def _line(
    kind: Kind, text: str, old: int | None, new: int | None, changed: tuple[tuple[int, int], ...] = ()
) -> Line:
    return Line(kind, text.removesuffix("\n"), old, new, changed, no_end=not text.endswith("\n"))


def _opcodes(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    """As `SequenceMatcher.get_opcodes`, with equal beginnings and ends taken off first."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    codes: list[tuple[str, int, int, int, int]] = []
    if head:
        codes.append(("equal", 0, head, 0, head))
    if len(a) * len(b) <= MOST_COMPARED:
        found = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        codes += [(tag, i + head, j + head, k + head, m + head) for tag, i, j, k, m in found]
    else:
        codes.append(("replace", head, head + len(a), head, head + len(b)))
    if tail:
        codes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return codes


def _changed_words(old: str, new: str) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """Ranges of the words that differ; none where the lines have little in common."""
    a, b = _WORDS.findall(old.removesuffix("\n")), _WORDS.findall(new.removesuffix("\n"))
    if len(a) > _MOST_WORDS or len(b) > _MOST_WORDS:
        return (), ()
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.ratio() < _ALIKE_ENOUGH:
        return (), ()
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return (
        _ranges(a, [(i, j) for _, i, j, _, _ in codes]),
        _ranges(b, [(k, m) for _, _, _, k, m in codes]),
    )


def _ranges(words: list[str], spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return tuple((starts[i], starts[j]) for i, j in spans if starts[i] < starts[j])


def _folded(lines: list[Line], context: int) -> list[Line]:
    """Runs of same lines, but for `context` around each change, become folds; a fold hides at least two."""
    near = [line.kind is not Kind.SAME for line in lines]
    changed = [n for n, is_change in enumerate(near) if is_change]
    for n in changed:
        for at in range(max(0, n - context), min(len(lines), n + context + 1)):
            near[at] = True
    found: list[Line] = []
    at = 0
    while at < len(lines):
        if near[at] or not changed:
            found.append(lines[at])
            at += 1
            continue
        end = at
        while end < len(lines) and not near[end]:
            end += 1
        run = tuple(lines[at:end])
        found += [Line(Kind.FOLD, hidden=run, at_end=end == len(lines))] if len(run) > 1 else run
        at = end
    return found

"""The changes that programs make, by the effects in their records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from core.models.tools import Risk
from core.policy.analysis.shell.parser import Call, CommandFinding, Word
from core.programs.catalog import RECORDS
from core.programs.record import Effect, Program

_HELP = re.compile(r"--help|--version")
# Effects of this kind add nothing to one that is more specific.
_GENERAL = re.compile(r"Drives ")


class _Change(NamedTuple):
    words: tuple[re.Pattern[str], ...]
    text: str
    risk: Risk

    def is_made_by(self, arguments: list[str]) -> bool:
        return all(any(map(pattern.fullmatch, arguments)) for pattern in self.words)


class _Reading(NamedTuple):
    words: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None


def _patterns(words: str, flags: re.RegexFlag) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(word, flags) for word in words.split(" & ")) if words else ()


def _changes(effects: Iterable[Effect]) -> tuple[_Change, ...]:
    return tuple(_Change(_patterns(words, re.DOTALL), text, risk) for words, text, risk in effects)


class _Effects(NamedTuple):
    """The effects in a record, with their patterns compiled. A line's end in an argument hides no effect."""

    changes: tuple[_Change, ...]
    always: tuple[_Change, ...]
    each: tuple[_Change, ...]
    reads: tuple[_Reading, ...]

    @classmethod
    def of(cls, record: Program) -> _Effects:
        readings = (
            _Reading(_patterns(words, re.NOFLAG), re.compile(unless, re.DOTALL) if unless else None)
            for words, unless in record.reads
        )
        return cls(_changes(record.changes), _changes(record.always), _changes(record.each), tuple(readings))


_NONE = _Effects((), (), (), ())
_EFFECTS = {name: effects for record in RECORDS for effects in [_Effects.of(record)] for name in record.names}


def _effects_of(call: Call) -> _Effects:
    names = call.program.names
    return _EFFECTS[names[0]] if names else _NONE


def change_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in the changes that a call makes, unless it only reads."""
    effects = _effects_of(call)
    if not effects.changes or is_read_only(call):
        return
    arguments = [word.text for word in call.args]
    reported: set[str] = set()
    for change in effects.changes:
        if change.text in reported or not change.is_made_by(arguments):
            continue
        if reported and _GENERAL.match(change.text):
            continue
        reported.add(change.text)
        yield CommandFinding(change.text, change.risk, call.words[0])


def word_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in effects that a call has also if it reads, and in effects of single words."""
    effects = _effects_of(call)
    if not (effects.always or effects.each):
        return
    arguments = [word.text for word in call.args]
    for change in effects.always:
        if change.is_made_by(arguments):
            yield CommandFinding(change.text, change.risk, call.words[0])
    for change in effects.each:
        if change.is_made_by(arguments):
            yield from _findings_of_words(change, call.args)


def _findings_of_words(change: _Change, words: Iterable[Word]) -> Iterator[CommandFinding]:
    for word in words:
        if change.words[-1].fullmatch(word.text):
            yield CommandFinding(change.text, change.risk, word)


def is_read_only(call: Call) -> bool:
    """Whether a call only reads, although its program can change something."""
    texts = [word.text for word in call.args]
    if any(not word.known and not word.text and word.source[:1] != '"' for word in call.args):
        # Without quotes, an unknown word can expand to any number of options and verbs.
        return False
    effects = _effects_of(call)
    for patterns, unless in effects.reads:
        if all(any(map(pattern.fullmatch, texts)) for pattern in patterns) and not (
            unless is not None and any(map(unless.fullmatch, texts))
        ):
            return True
    return bool(effects.changes) and len(texts) == 1 and _HELP.fullmatch(texts[0]) is not None

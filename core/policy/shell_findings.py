"""What a shell line would do, in words, with the risk of each thing.

Findings only ever raise a risk, so this errs on the side of saying too much: a word that is only known when
the line runs is taken for the worst that stands in its place, and what cannot be parsed is a finding itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.fleet.models import Risk
from core.policy.models import Finding
from core.policy.shell import Call, Line, TooMuch, read_line
from core.policy.shell_judges import (
    Said,
    bare,
    judged,
    reads_its_program,
    redirected,
    runs_a_file,
    wrapped,
)
from core.policy.shell_words import (
    DOWNLOADS,
    LOADED_FIRST,
    ROOT,
    SHELLS,
    WRAPPERS,
)
from core.text import escape_hidden, shorten_middle

MOST_FINDINGS = 40
_DEEPEST = 3


def judge_line(text: str, argument: str | None) -> list[Finding]:
    """Everything worth raising the risk for in a shell line, in the order it stands there.

    Offsets count characters of `text`; `argument` is the parameter that holds it. At most `MOST_FINDINGS`,
    the gravest; a last one says when there were more.
    """
    found = list(dict.fromkeys(_Judge(text, argument).findings(0)))
    if len(found) > MOST_FINDINGS:
        rest = len(found) - MOST_FINDINGS + 1
        found.sort(key=lambda one: -one.risk.rank)
        worst = found[MOST_FINDINGS - 1].risk
        found = [*found[: MOST_FINDINGS - 1], Finding(text=f"And {rest} more", risk=worst, argument=argument)]
    return sorted(found, key=lambda one: (one.start is None, one.start or 0))


class _Judge:
    def __init__(self, text: str, argument: str | None) -> None:
        self._text = text
        self._argument = argument

    def findings(self, depth: int) -> Iterator[Finding]:
        if depth > _DEEPEST:
            yield self._finding("Shell lines inside shell lines, too deep to be judged", Risk.HIGH, None)
            return
        try:
            line = read_line(self._text)
        except TooMuch:
            said = f"Too long or too tangled to be judged ({len(self._text):,} characters): read it whole"
            yield self._finding(said, Risk.HIGH, None)
            return
        if not line.parsed:
            yield self._finding("Cannot be parsed as a shell line", Risk.HIGH, None)
        for redirect in line.redirects:
            yield from self._say(redirected(redirect))
        for call in line.calls:
            yield from self._call(call, depth)
        yield from self._pipelines(line)
        yield from self._downloads_and_runs(line)
        yield from self._functions(line)
        for start, end in line.background:
            yield self._finding("Leaves a program running in the background", Risk.LOW, (start, end))

    def _call(self, call: Call, depth: int) -> Iterator[Finding]:
        for name in call.assigned:
            if name in LOADED_FIRST:
                yield self._finding(f"Sets {name}, which decides what programs run", Risk.MEDIUM, _span(call))
        seen = call
        while seen.words:
            yield from self._say(judged(seen))
            yield from self._inner(seen, depth)
            if seen.name not in WRAPPERS:
                break
            seen = wrapped(seen)

    def _inner(self, call: Call, depth: int) -> Iterator[Finding]:
        """Shell lines that a call is given as text."""
        name, args = call.name, call.args
        if name in ("eval", "trap", "iex", "invoke-expression"):
            lines = list(args[:1] if name == "trap" else args)
        elif name in SHELLS or name in ROOT or name in ("script", "watch"):
            flags = [
                i
                for i, arg in enumerate(args)
                if re.fullmatch(r"-\w*c|--command|/c|-command", arg.text, re.I)
            ]
            lines = [args[i + 1] for i in flags if i + 1 < len(args)]
        elif name in WRAPPERS:
            lines = [arg for arg in args if " " in arg.text]
        else:
            return
        for word in lines:
            if not word.known:
                source = any(f"{tool} " in word.source for tool in DOWNLOADS)
                said = (
                    "Runs a download as a shell line"
                    if source
                    else "Runs text made at run time as a shell line"
                )
                yield self._finding(said, Risk.CRITICAL if source else Risk.HIGH, (word.start, word.end))
            for found in _Judge(word.text, self._argument).findings(depth + 1):
                # Quotes and escapes shift what is inside, so the whole word is marked.
                yield found.model_copy(update={"start": word.start, "end": word.end})

    def _pipelines(self, line: Line) -> Iterator[Finding]:
        for stages in line.pipelines:
            downloads = False
            for number, (start, end) in enumerate(stages):
                calls = [call for call in line.calls if start <= call.start and call.end <= end]
                for call in calls if number else ():
                    runs = bare(call)
                    if reads_its_program(runs):
                        said = "Pipes a download into a shell" if downloads else "Pipes text into a shell"
                        risk = Risk.CRITICAL if downloads else Risk.HIGH
                        yield self._finding(said, risk, (stages[0][0], end))
                downloads = downloads or any(bare(call).name in DOWNLOADS for call in calls)

    def _downloads_and_runs(self, line: Line) -> Iterator[Finding]:
        calls = [inner for inner in map(bare, line.calls) if inner.words]
        if any(call.name in DOWNLOADS for call in calls):
            for call in calls:
                if runs_a_file(call):
                    said = "Runs a file in a line that also downloads"
                    yield self._finding(said, Risk.CRITICAL, _span(call))

    def _functions(self, line: Line) -> Iterator[Finding]:
        for name, start, end in line.functions:
            inside = [c for c in line.calls if start <= c.start and c.end <= end and c.words]
            if sum(call.words[0].text == name for call in inside) > 1:
                yield self._finding("Starts itself without end (a fork bomb)", Risk.CRITICAL, (start, end))

    def _say(self, said: Iterator[Said]) -> Iterator[Finding]:
        for text, risk, word in said:
            yield self._finding(text, risk, (word.start, word.end) if word else None)

    def _finding(self, text: str, risk: Risk, span: tuple[int, int] | None) -> Finding:
        start, end = span if span else (0, len(self._text))
        detail = escape_hidden(shorten_middle(self._text[start:end], 200), keep_lines=False)
        return Finding(text=text, risk=risk, detail=detail, argument=self._argument, start=start, end=end)


def _span(call: Call) -> tuple[int, int]:
    return call.start, call.end

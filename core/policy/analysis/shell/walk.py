"""Walks through a shell line, and the lines inside it, and collects the findings of their commands.

Findings only raise a risk, so the analysis reports too much rather than too little: a word that is only known
when the line runs counts as the worst value that it may have, and a part that cannot be parsed is a finding.

The analysis follows the lines inside a line: for a shell, for a wrapper such as `ssh` or `watch`, in an
option, a variable or a program of another language. Their findings mark their place in the outer line. More
than `_DEEPEST` nested lines, or more than `MOST_INSIDE` wrappers around a command, are a finding and are not
followed. The record of a program is looked up by its name, so that the time is proportional to the line.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from core.models.tools import Risk
from core.policy.analysis.shell.databases import client_lines
from core.policy.analysis.shell.embedded import (
    Embedded,
    assignments_in,
    embedded_findings,
    embedded_in_options,
    embedded_in_variable,
)
from core.policy.analysis.shell.git import embedded_in_git
from core.policy.analysis.shell.languages import program_lines, reads_its_program, runs_a_file
from core.policy.analysis.shell.parser import (
    Call,
    CommandFinding,
    Line,
    LineTooComplex,
    Word,
    has_index,
    join_words,
    read_line,
)
from core.policy.analysis.shell.rules import (
    array_index_finding,
    findings_in_command,
    has_rules,
    input_file_findings,
    redirection_findings,
)
from core.policy.analysis.shell.wrappers import MOST_INSIDE, innermost, wrapped_commands
from core.policy.models import Finding
from core.programs.catalog import named
from core.programs.record import Kind
from core.text import escape_hidden, shorten_middle

MOST_FINDINGS = 40
_DEEPEST = 3
_LENGTHS_FOLLOWED, _ALWAYS_FOLLOWED = 6, 1_000
_DOWNLOADS = tuple(f"{name} " for name in named(Kind.DOWNLOADS))


def findings_in_line(text: str, argument: str | None) -> list[Finding]:
    """The findings in a shell line, in the order of their places.

    Offsets count characters of `text`; `argument` is the parameter that contains it. At most `MOST_FINDINGS`,
    the gravest; if there are more, the last finding gives their number.
    """
    findings = list(dict.fromkeys(_LineAnalysis(text, argument).findings()))
    if len(findings) > MOST_FINDINGS:
        dropped = len(findings) - MOST_FINDINGS + 1
        findings.sort(key=lambda finding: -finding.risk.rank)
        worst = findings[MOST_FINDINGS - 1].risk
        remainder = Finding(text=f"And {dropped} more", risk=worst, argument=argument)
        findings = [*findings[: MOST_FINDINGS - 1], remainder]
    return sorted(findings, key=lambda finding: (finding.start is None, finding.start or 0))


def lines_inside(text: str) -> list[str]:
    """The lines inside a shell line, as far as the analysis follows them, and programs of other languages."""
    analysis = _LineAnalysis(text, None)
    for _ in analysis.findings():
        pass
    return analysis.inside


@dataclass(slots=True)
class Programs:
    """The programs that a shell line runs, also by other programs and in lines inside it.

    `names` has for each its names: as written, without folders, and its common name. `decided` is false if
    the line may run others, because a part is only known when it runs or cannot be judged.
    """

    names: set[tuple[str, ...]] = field(default_factory=set)
    decided: bool = True

    def take(self, call: Call) -> None:
        """Add the program of a call."""
        if not call.name:
            self.decided = False
            return
        written = re.split(r"[/\\]", call.words[0].text)[-1].strip("\r")
        self.names.add(tuple(dict.fromkeys((written, call.name))))


def programs_in_line(text: str) -> Programs:
    """The programs that a shell line runs."""
    analysis = _LineAnalysis(text, None)
    for _ in analysis.findings():
        pass
    return analysis.programs


class _Budget:
    """The number of characters that may still be read in nested lines, which keeps the total time linear."""

    def __init__(self, characters: int) -> None:
        self.remaining = characters


class _LineAnalysis:
    """The analysis of one line and of the lines nested in it."""

    def __init__(
        self,
        text: str,
        argument: str | None,
        depth: int = 0,
        budget: _Budget | None = None,
        programs: Programs | None = None,
    ) -> None:
        self.programs = programs if programs is not None else Programs()
        self._text = text
        self._argument = argument
        self._depth = depth
        self._budget = budget or _Budget(_LENGTHS_FOLLOWED * len(text) + _ALWAYS_FOLLOWED)
        # The nested lines followed so far: a line that two rules find is read once.
        self._followed: set[tuple[int, int, str]] = set()
        # Their texts, and those of the lines inside of them.
        self.inside: list[str] = []

    def findings(self) -> Iterator[Finding]:
        if self._depth > _DEEPEST:
            self.programs.decided = False
            text = "Cannot be judged: shell lines inside shell lines, too deep to be followed"
            yield self._finding(text, Risk.HIGH, None)
            return
        try:
            line = read_line(self._text)
        except LineTooComplex:
            self.programs.decided = False
            text = f"Too long or too tangled to be judged ({len(self._text):,} characters): read it whole"
            yield self._finding(text, Risk.HIGH, None)
            return
        for doubt in line.doubts:
            if doubt.why:
                self.programs.decided = False
                yield self._finding(doubt.why, Risk.HIGH, (doubt.start, doubt.end))
            if doubt.line is not None:
                yield from self._findings_inside(doubt.line)
        for redirect in line.redirects:
            yield from self._as_findings(redirection_findings(redirect))
        for word in line.inputs:
            yield from self._as_findings(input_file_findings(word))
        for assignment in line.assignments:
            yield from self._variable_findings(assignment.name, assignment.value)
        for word in line.indices:
            yield from self._index_findings(word)
        printed = _printed_texts(line)
        for call in line.calls:
            yield from self._call_findings(call, printed.get(call.start, call.input_texts))
        yield from self._pipeline_findings(line)
        yield from self._download_findings(line)
        yield from self._fork_bomb_findings(line)
        for start, end in line.background:
            yield self._finding("Leaves a program running in the background", Risk.LOW, (start, end))

    def _call_findings(self, call: Call, texts: tuple[Word, ...]) -> Iterator[Finding]:
        for assignment in call.assignments:
            # With `IFS`, `read` only splits its own input.
            if assignment.name != "IFS" or not call.program.is_a(Kind.SPLITS):
                yield from self._variable_findings(assignment.name, assignment.value)
        pending = [(Call(call.words, call.start, call.end, (), texts, call.input_files), 0)]
        visited: set[tuple[int, int]] = set()
        while pending:
            inner, depth = pending.pop()
            if not inner.words or (inner.words[0].start, len(inner.words)) in visited:
                continue
            visited.add((inner.words[0].start, len(inner.words)))
            self.programs.take(inner)
            yield from self._as_findings(findings_in_command(inner), inner)
            yield from self._nested_line_findings(inner)
            wrapped = wrapped_commands(inner)
            for variable in wrapped.assignments:
                yield from self._variable_findings(variable.name, variable.value)
            for line in wrapped.lines:
                yield from self._findings_inside(line)
            calls = list(wrapped.calls)
            for possible_call, possible_line in wrapped.possible:
                self.programs.take(possible_call)
                if has_rules(possible_call.name):
                    if possible_line is not None:
                        yield from self._findings_inside(possible_line)
                    else:
                        calls.append(possible_call)
                    break
            if calls and depth >= MOST_INSIDE:
                self.programs.decided = False
                text = "Cannot be judged: programs that run programs, too many to be followed"
                yield self._finding(text, Risk.HIGH, _span(calls[0].words))
                continue
            pending.extend((wrapped_call, depth + 1) for wrapped_call in calls)

    def _nested_line_findings(self, call: Call) -> Iterator[Finding]:
        """The findings in the lines that a call gets in its words or as its input."""
        for line in _lines_in_options(call):
            yield from self._findings_inside(line)
        for word in call.args if call.program.is_a(Kind.NAMES_VARIABLES) else ():
            if has_index(word):
                yield from self._index_findings(word)
        for item in _declared_variables(call):
            if item.line is not None:
                yield from self._findings_inside(item.line)
        if (call.input_texts and call.program.is_a(Kind.RUNS_LATER)) or _runs_input(call):
            for text in call.input_texts:
                yield from self._findings_inside(text)

    def _variable_findings(self, name: str, value: Word) -> Iterator[Finding]:
        items = list(embedded_in_variable(name, value))
        yield from self._as_findings(embedded_findings(items))
        for item in items:
            if item.line is not None:
                yield from self._findings_inside(item.line)
        if has_index(value):
            yield from self._as_findings([array_index_finding(value)])
            yield from self._index_findings(value)

    def _index_findings(self, word: Word) -> Iterator[Finding]:
        """The findings in the commands inside a text that a shell reads as a number or a name."""
        text = word.written
        starts = [at + len(sign) for sign in ("$(", "`") if (at := text.find(sign)) >= 0]
        if starts:
            end = max(text.rfind(")"), text.rfind("`"))
            start = min(starts)
            yield from self._as_findings([array_index_finding(word)])
            yield from self._findings_inside(word.cut(start, end if end > start else len(text)))

    def _findings_inside(self, line: Word) -> Iterator[Finding]:
        """The findings in a line nested in a word of this line, with offsets in this line."""
        key = (line.start, line.end, line.written)
        if key in self._followed:
            return
        self._followed.add(key)
        self.inside.append(line.written)
        if self._budget.remaining < len(line.written):
            self.programs.decided = False
            text = "Cannot be judged: more lines inside this one than can be followed"
            yield self._finding(text, Risk.HIGH, (line.start, line.end))
            return
        self._budget.remaining -= len(line.written)
        if not line.known:
            self.programs.decided = False
            downloads = any(name in line.written for name in _DOWNLOADS)
            text = (
                "Runs a download as a shell line"
                if downloads
                else "Runs text made at run time as a shell line"
            )
            yield self._finding(text, Risk.CRITICAL if downloads else Risk.HIGH, (line.start, line.end))
        inner = _LineAnalysis(line.written, self._argument, self._depth + 1, self._budget, self.programs)
        for finding in inner.findings():
            start, end = line.span(finding.start or 0, finding.end or 0)
            yield finding.model_copy(update={"start": start, "end": end})

    def _pipeline_findings(self, line: Line) -> Iterator[Finding]:
        """The findings in pipelines into programs that run their input.

        One pass from left to right, also for nested pipelines. The stack has the stages around a command.
        """
        if not line.pipelines:
            return
        calls = sorted((call for call in line.calls if call.words), key=lambda call: call.start)
        starts = [call.start for call in calls]
        innermost_calls = [innermost(call) for call in calls]
        downloads = [0, *accumulate(int(call.program.is_a(Kind.DOWNLOADS)) for call in innermost_calls)]
        stages = []
        for spans in line.pipelines:
            first = bisect_left(starts, spans[0][0])
            for number, (start, end) in enumerate(spans):
                downloads_before = downloads[bisect_left(starts, start)] > downloads[first]
                stages.append((start, -end, number > 0, downloads_before, spans[0][0]))
        stages.sort()
        # Per stage: its end, and for it and the stages around it, whether one gets piped input, whether that
        # comes from a download, and the start of the pipeline.
        stack: list[tuple[int, bool, bool, int]] = []
        at = 0
        for call, runs in zip(calls, innermost_calls, strict=True):
            while at < len(stages) and stages[at][0] <= call.start:
                start, end, piped, downloads_before, first_stage_start = stages[at]
                while stack and stack[-1][0] < -end:
                    stack.pop()
                above = stack[-1] if stack else (0, False, False, first_stage_start)
                pipeline_start = first_stage_start if piped and not above[1] else above[3]
                stack.append((-end, above[1] or piped, above[2] or downloads_before, pipeline_start))
                at += 1
            while stack and stack[-1][0] < call.end:
                stack.pop()
            if stack and stack[-1][1] and runs.words and reads_its_program(runs):
                self.programs.decided = False
                text = "Pipes a download into a shell" if stack[-1][2] else "Pipes text into a shell"
                risk = Risk.CRITICAL if stack[-1][2] else Risk.HIGH
                yield self._finding(text, risk, (stack[-1][3], call.end))

    def _download_findings(self, line: Line) -> Iterator[Finding]:
        calls = [inner for inner in map(innermost, line.calls) if inner.words]
        if any(call.program.is_a(Kind.DOWNLOADS) for call in calls):
            for call in calls:
                if runs_a_file(call):
                    text = "Runs a file in a line that also downloads"
                    yield self._finding(text, Risk.CRITICAL, (call.start, call.end))

    def _fork_bomb_findings(self, line: Line) -> Iterator[Finding]:
        if not line.functions:
            return
        names: dict[str, list[int]] = {}
        for call in sorted(line.calls, key=lambda call: call.start):
            if call.words:
                names.setdefault(call.words[0].text, []).append(call.start)
        for name, start, end in line.functions:
            places = names.get(name, [])
            if bisect_left(places, end) - bisect_left(places, start) > 1:
                yield self._finding("Starts itself without end (a fork bomb)", Risk.CRITICAL, (start, end))

    def _as_findings(
        self, embedded_findings: Iterable[CommandFinding], call: Call | None = None
    ) -> Iterator[Finding]:
        for text, risk, word in embedded_findings:
            # A finding about a program also names the program's arguments.
            named = call is not None and word is not None and word.start == call.words[0].start
            objects = self._objects(call) if named and call is not None else None
            yield self._finding(text, risk, (word.start, word.end) if word else None, objects)

    def _objects(self, call: Call) -> str:
        """The arguments of a call without its options; with all options if it runs another program."""
        arguments = call.words[1:]
        if wrapped_commands(call).calls:
            return self._text[arguments[0].start : call.words[-1].end] if arguments else ""
        texts = (self._text[word.start : word.end] for word in arguments)
        return " ".join(text for text in texts if not text.startswith("-"))

    def _finding(
        self, text: str, risk: Risk, span: tuple[int, int] | None, objects: str | None = None
    ) -> Finding:
        start, end = span if span else (0, len(self._text))
        quoted = objects or self._text[start:end]
        detail = escape_hidden(shorten_middle(quoted, 200), keep_lines=False)
        return Finding(text=text, risk=risk, detail=detail, argument=self._argument, start=start, end=end)


def _lines_in_options(call: Call) -> Iterator[Word]:
    """The shell lines in a call's options, programs and queries."""
    tables = (
        embedded_in_options(call),
        program_lines(call),
        client_lines(call),
        embedded_in_git(call),
    )
    for table in tables:
        for item in table:
            if item.line is not None:
                yield item.line
    kinds = call.program.kinds
    if Kind.TRAPS in kinds:
        yield from [word for word in call.args if word.text != "--"][:1]
    elif Kind.ALIASES in kinds:
        yield from (value for _, value, _ in assignments_in(call.args))
    elif Kind.EVALUATES in kinds:
        yield join_words(call.args)


def _declared_variables(call: Call) -> Iterator[Embedded]:
    if call.program.is_a(Kind.DECLARES):
        for name, value, _ in assignments_in(call.args):
            yield from embedded_in_variable(name, value)


def _runs_input(call: Call) -> bool:
    """Whether a call, or the call inside its wrappers, is a shell or interpreter that runs its input."""
    if not call.input_texts:
        return False
    inner = innermost(call)
    return bool(inner.words) and reads_its_program(inner)


def _printed_texts(line: Line) -> dict[int, tuple[Word, ...]]:
    """The texts that an `echo` or `printf` pipes into calls, by the offset at which each call begins."""
    printed: dict[int, tuple[Word, ...]] = {}
    if not line.pipelines:
        return printed
    calls = {call.start: call for call in line.calls}
    for stages in line.pipelines:
        for before, after in pairwise(stages):
            call = calls.get(before[0])
            if (
                call is None
                or not call.program.is_a(Kind.PRINTS)
                or call.end != before[1]
                or after[0] not in calls
            ):
                continue
            words = [word for word in call.args if not word.text.startswith("-")]
            if call.program.is_a(Kind.PRINTS_FORMAT):
                words = words[1:] if len(words) > 1 else words
            printed[after[0]] = (join_words(words), *calls[after[0]].input_texts)
    return printed


def _span(words: tuple[Word, ...]) -> tuple[int, int]:
    return words[0].start, words[-1].end

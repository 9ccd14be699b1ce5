"""Shell lines, class by class: harm is named, what cannot be judged says so, the rest is quiet."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.models.tools import Risk
from core.policy.analysis.shell import walk
from core.policy.analysis.shell.parser import LONGEST, MOST_SIGNS, Line, read_line
from core.policy.analysis.shell.walk import findings_in_line
from core.policy.analysis.shell.wrappers import MOST_INSIDE
from core.programs.catalog import RECORDS
from core.programs.record import Kind
from tests.fakes.run_size import examples
from tests.fakes.shell_lines import DANGEROUS, EFFECTS, HARMLESS, lines_of
from tests.fakes.work import calls_counted


def fault_of(line: str, risk: Risk, effect: str) -> str:
    """What is wrong with the findings of a dangerous line."""
    findings = findings_in_line(line, "command")
    if not all(
        one.start is not None and one.end is not None and 0 <= one.start <= one.end <= len(line)
        for one in findings
    ):
        return "a finding marks no part of it"
    if any(one.risk.rank >= risk.rank and re.search(EFFECTS[effect], one.text) for one in findings):
        return ""
    return f"only {[(one.risk.value, one.text) for one in findings]}"


def test_a_dangerous_line_gets_the_finding_that_says_what_it_does():
    lines = lines_of(DANGEROUS)
    faults = {(name, line): fault_of(line, risk, effect) for name, line, risk, effect in lines}
    assert {case: fault for case, fault in faults.items() if fault} == {}


def test_a_harmless_line_gets_no_finding():
    found = {
        (name, line): [(one.risk.value, one.text) for one in findings_in_line(line, "command")]
        for name, lines in HARMLESS.items()
        for line in lines
    }
    assert {case: findings for case, findings in found.items() if findings} == {}


def test_the_corpus_is_large_enough_and_says_nothing_twice():
    dangerous = [line for _, line, _, _ in lines_of(DANGEROUS)]
    harmless = [line for lines in HARMLESS.values() for line in lines]
    assert len(dangerous) == len(set(dangerous)) >= 300
    assert len(harmless) == len(set(harmless)) >= 100
    assert not set(dangerous) & set(harmless)


WRAPPERS = {
    f"{name} {verb}".strip(): record.wraps
    for program in RECORDS
    for name in program.names
    for record in (program, *program.subcommands)
    for verb in (record.names if record is not program else ("",))
    if record.wraps is not None and Kind.SEARCHES not in program.kinds
}
RUNNABLE = [
    name
    for name, wrapper in WRAPPERS.items()
    if wrapper.skip < MOST_INSIDE and not wrapper.only and not wrapper.each and name != "parallel"
]


def test_each_wrapper_of_the_table_is_seen_through():
    found = {}
    for name in RUNNABLE:
        before = " ".join("x" for _ in range(WRAPPERS[name].skip))
        found[name] = [one.text for one in findings_in_line(f"{name} {before} rm -rf /", "command")]
    assert {name: texts for name, texts in found.items() if "Deletes everything in /" not in texts} == {}


@pytest.mark.parametrize(
    ("line", "text", "marked"),
    [
        ("ssh host 'cd /tmp; rm -rf /srv/x'", "Deletes folders", "rm"),
        ("ssh host 'cd x' '&&' rm -r /", "Deletes everything in /", "/"),
        ('watch "sudo reboot"', "Shuts the machine down", "reboot"),
        ("env -S'sudo reboot'", "Shuts the machine down", "reboot"),
        ("git -c alias.x='!sudo reboot' x", "Shuts the machine down", "reboot"),
        ("tar xf a --to-command='sh -c \"sudo reboot\"'", "Shuts the machine down", "reboot"),
        ("GIT_PAGER='less; reboot' git log", "Shuts the machine down", "reboot"),
        ("sh <<E\necho x\nsudo reboot\nE\n", "Shuts the machine down", "reboot"),
        ("awk 'BEGIN{system(\"sudo reboot\")}'", "Shuts the machine down", "reboot"),
        ("sed '1e sudo reboot' f", "Shuts the machine down", "reboot"),
        ("psql -c '\\! sudo reboot'", "Shuts the machine down", "reboot"),
        ('bash -c "echo \\"x\\"; sudo reboot"', "Shuts the machine down", "reboot"),
        ("let 'a[$(sudo reboot)]=1'", "Shuts the machine down", "reboot"),
        ("bash -c 'ssh host \"sudo reboot\"'", "Shuts the machine down", "reboot"),
        ("echo é | ssh höst 'sudo reboot'", "Shuts the machine down", "reboot"),
        ("psql -c 'select 1; drop table x'", "Drops a table", "drop table"),
        ("$'\\x72m' -rf /", "Deletes folders", "$'\\x72m'"),
        ("/usr/bin/[r]m x", "Cannot be judged: the command's name is a pattern", "/usr/bin/[r]m"),
        ("ls; echo 'open", "Cannot be parsed", "'open"),
        ('bash -c "$x"', "Runs text made at run time", '"$x"'),
        ("nvme format /dev/nvme0n1", "Changes disks", "nvme"),
        ("mv a.txt b.txt", "Replaces b.txt if it exists", "b.txt"),
    ],
)
def test_a_finding_in_a_line_inside_the_line_marks_the_very_words(line: str, text: str, marked: str):
    findings = [finding for finding in findings_in_line(line, "command") if text in finding.text]
    assert marked in {line[finding.start : finding.end] for finding in findings}, findings


def test_what_cannot_be_judged_is_at_least_high_and_shows_the_part():
    for line, part in (
        ("echo ok; cat <<E\n`x`\nE\n", "x"),
        ("echo ok; echo ${x@P}", "${x@P}"),
        ("echo ok; /b?n/x", "/b?n/x"),
        ("ls )", ")"),
    ):
        findings = [finding for finding in findings_in_line(line, "command") if "annot be" in finding.text]
        assert findings, line
        assert all(finding.risk.rank >= Risk.HIGH.rank for finding in findings)
        assert any(part in finding.detail for finding in findings), [f.detail for f in findings]


def steps_of(line: str) -> int:
    """How many functions are called to judge a line."""
    with calls_counted() as calls:
        findings_in_line(line, "command")
    return calls.count


PIECES = [
    "rm a; ",
    "sudo ",
    "nice -n 5 ",
    "env -S a ",
    "find . -exec a ",
    "find . -exec rm x \\; ",
    "docker run --x ",
    "a | ",
    "(a | ",
    "curl x | sh | ",
    "echo x | sh; ",
    "a=b ",
    "PATH=b; ",
    "git -c alias.x=!a ",
    "tar --to-command=a ",
    "awk '{print | \"a\"}' ",
    "sed 'w a' ",
    "psql -c 'drop table x' ",
    "sh -c 'a' ",
    "eval ",
    "ssh h ",
    "watch 'a; b' ",
    "xargs ",
    "let 'a[$(b)]' ",
    "$(a ",
    "`a` ",
    "${x:=`a`} ",
    "cat <<E\na\nE\n",
    "x#\\\n",
    "# x\n",
    "a\\\nb ",
    "a\n\\b ",
    "f() { f | f & }; ",
    "<a >b ",
    "-abc ",
    "if a; then ",
    "{a,b} ",
    "'a'\"b\"c ",
    "é ",
]


@pytest.mark.parametrize("piece", PIECES)
def test_the_steps_grow_no_faster_than_the_line(piece: str):
    signs = max(sum(not sign.isalnum() and not sign.isspace() for sign in piece), 1)
    # In a quick run a third of the longest line: what is no longer in proportion to it shows there, too.
    most = min(LONGEST // len(piece), MOST_SIGNS // signs) * examples(3, quick=1) // 3
    whole = steps_of("x " + piece * most)
    half = steps_of("x " + piece * (most // 2))
    assert whole <= 2.6 * half + 5_000, (half, whole)


def test_a_line_of_a_hundred_kilobytes_takes_few_steps():
    for piece in PIECES:
        line = (piece * 100_000)[:100_000]
        assert steps_of(line) < len(line) + 5_000
        assert [finding.risk for finding in findings_in_line(line, "command")] == [Risk.HIGH]


@pytest.mark.parametrize("piece", [*PIECES, "cat <<E|a\n", "eval 'eval \"eval a\"' "])
def test_all_lines_inside_a_line_are_together_in_proportion_to_it(
    piece: str, monkeypatch: pytest.MonkeyPatch
):
    read: list[int] = []

    def counted(text: str) -> Line:
        read.append(len(text))
        return read_line(text)

    monkeypatch.setattr(walk, "read_line", counted)
    signs = max(sum(not sign.isalnum() and not sign.isspace() for sign in piece), 1)
    line = piece * min(LONGEST // len(piece), MOST_SIGNS // signs)
    findings_in_line(line, "command")
    assert sum(read) <= 7 * len(line) + 1_000


SOURCES = st.text(alphabet="ab \t\n\\'\"$`{}(),x=é|;#<>", max_size=40)


@settings(max_examples=examples(300, quick=60))
@given(SOURCES, st.integers(0, 40), st.integers(0, 40))
def test_a_part_of_a_word_is_where_the_line_says_it_is(line: str, start: int, length: int):
    for call in read_line(line).calls:
        for word in call.words:
            assert word.written.startswith(word.text)
            part = word.cut(start, start + length)
            assert part.written == word.written[start : start + length]
            assert word.start <= part.start <= part.end <= word.end
            if part.end - part.start == len(part.written):
                assert line[part.start : part.end] == part.written
            # A part of a part is that part of the whole, also in where it stands.
            again = part.cut(1)
            assert again.written == part.written[1:]
            if again.end - again.start == len(again.written):
                assert line[again.start : again.end] == again.written

"""Files that a command's own arguments overwrite, and processes that only its run will name, are findings."""

from __future__ import annotations

from typing import Any

import pytest

from core.aip.messages import ToolInfo
from core.fleet.contracts import read_tool, tool_of
from core.models.tools import Risk
from core.policy.analysis.call_analysis import findings_in_call
from core.policy.analysis.shell.walk import findings_in_line
from core.programs.record import takes

OVERWRITES = [
    ("tar -czf /data/x.tgz /srv", "/data/x.tgz"),
    ("tar czf /data/x.tgz /srv", "/data/x.tgz"),
    ("tar cfz /data/x.tgz /srv", "/data/x.tgz"),
    ("tar cbf 20 /data/x.tgz /srv", "/data/x.tgz"),
    ("tar -c -f/data/x.tgz /srv", "/data/x.tgz"),
    ("tar --create --file=/data/x.tgz /srv", "/data/x.tgz"),
    ("tar --create --file /data/x.tgz /srv", "/data/x.tgz"),
    ("tar -C / -cf /data/x.tgz srv", "/data/x.tgz"),
    ("sudo tar -czf /data/x.tgz /srv", "/data/x.tgz"),
    ("sh -c 'tar -czf /data/x.tgz /srv'", "/data/x.tgz"),
    ("cd /tmp && tar -czf '/data/x.tgz' /srv", "/data/x.tgz"),
    ("zip /data/x.zip a", "/data/x.zip"),
    ("zip -r9 /data/x.zip d", "/data/x.zip"),
    ("zip -P hush /data/x.zip d", "/data/x.zip"),
    ("zip a.zip b --out /data/x.zip", "/data/x.zip"),
    ("7z a /data/x.7z d", "/data/x.7z"),
    ("dd if=a of=/data/x", "/data/x"),
    ("dd of=/data/x bs=1M", "/data/x"),
    ("rsync a /data/x", "/data/x"),
    ("rsync -az h:a /data/x", "/data/x"),
    ("rsync -a a /data/x --exclude tmp", "/data/x"),
    ("scp h:a /data/x", "/data/x"),
    ("curl -o /data/x https://example.org/a", "/data/x"),
    ("curl -sSLo /data/x https://example.org/a", "/data/x"),
    ("curl https://example.org/a --output=/data/x", "/data/x"),
    ("curl https://example.org/a --outp /data/x", "/data/x"),
    ("mv -n -f a /data/x", "/data/x"),
    ("curl -D /data/x https://example.org/a", "/data/x"),
    ("curl -c /data/x https://example.org/a", "/data/x"),
    ("wget -O /data/x https://example.org/a", "/data/x"),
    ("wget -qO/data/x https://example.org/a", "/data/x"),
    ("wget --output-document=/data/x https://example.org/a", "/data/x"),
    ("wget -o /data/x https://example.org/a", "/data/x"),
    ("sort -o /data/x a", "/data/x"),
    ("sort a -uo /data/x", "/data/x"),
    ("sort --output=/data/x a", "/data/x"),
    ("shuf a -o /data/x", "/data/x"),
    ("uniq a /data/x", "/data/x"),
    ("tee /data/x", "/data/x"),
    ("echo a | sudo tee -p b /data/x", "/data/x"),
    ("echo a | sponge /data/x", "/data/x"),
    ("cp a /data/x", "/data/x"),
    ("cp -r a /data/x", "/data/x"),
    ("cp -t /data/x a", "/data/x"),
    ("cp --target-directory=/data/x a", "/data/x"),
    ("mv a /data/x", "/data/x"),
    ("mv -t /data/x a", "/data/x"),
    ("install -m 755 a /data/x", "/data/x"),
    ("ln -sf a /data/x", "/data/x"),
    ("openssl rand -out /data/x 32", "/data/x"),
    ("echo a > /data/x", "/data/x"),
    ("echo a >| /data/x", "/data/x"),
    ("find . -name a -exec cp {} /data/x \\;", "/data/x"),
    ("ls | xargs tar -cf /data/x", "/data/x"),
]
READS = [
    "tar -tzf x.tgz",
    "tar tf x.tgz",
    "tar --list --file x.tgz",
    "tar -xzOf x.tgz",
    "tar cz a",
    "tar czf - a",
    "zip -T x.zip",
    "unzip -l x.zip",
    "7z l x.7z",
    "dd if=a",
    "dd if=a of=/dev/null",
    "rsync -n a b",
    "curl https://example.org/a",
    "curl -o - https://example.org/a",
    "curl -so /dev/null https://example.org/a",
    "curl -w '%{http_code}' https://example.org/a",
    "wget -qO- https://example.org/a",
    "wget -O /dev/stdout https://example.org/a",
    "sort a",
    "sort -t o a",
    "sort -k 2 a",
    "shuf a",
    "uniq a",
    "tee",
    "tee /dev/stderr",
    "cp -n a b",
    "mv -n a b",
    "cp a",
    "echo a > /dev/null",
    "cat a",
]
WRITTEN = ("Overwrites", "Replaces", "Appends", "Writes")


@pytest.mark.parametrize(("line", "target"), OVERWRITES)
def test_what_a_line_overwrites_is_named(line: str, target: str) -> None:
    named = [
        one for one in findings_in_line(line, "command") if one.text.startswith(("Overwrites", "Replaces"))
    ]
    assert [one.text for one in named if target in one.text], [one.text for one in named]
    worst = max(named, key=lambda one: one.risk.rank)
    assert worst.risk.rank >= Risk.MEDIUM.rank
    assert any(target in one.detail for one in named)
    assert all(target in line[one.start : one.end] for one in named if target in one.text)


@pytest.mark.parametrize("line", READS)
def test_a_line_that_overwrites_nothing_has_no_such_finding(line: str) -> None:
    assert [one.text for one in findings_in_line(line, "command") if one.text.startswith(WRITTEN)] == []


@pytest.mark.parametrize(
    "line",
    ["tar cf $X a", "cp a $X", "mv a \"$X\"", "tee $(cat f)", "curl -o $X https://example.org/a",
     "wget -O `cat f` https://example.org/a", "sort -o $X a", "dd if=a of=$X", "rsync a $X",
     "zip $X a", "echo a >| $X"],
)  # fmt: skip
def test_a_path_that_only_its_run_will_name_is_a_finding(line: str) -> None:
    named = [one for one in findings_in_line(line, "command") if "only known when it runs" in one.text]
    assert [one.risk for one in named] == [Risk.MEDIUM]


@pytest.mark.parametrize("line", ["tee -a f", "tar -rf f a", "tar uf f a", "wget -a f https://example.org/a"])
def test_what_only_grows_is_of_low_risk(line: str) -> None:
    named = [one for one in findings_in_line(line, "command") if one.text.startswith(WRITTEN)]
    assert [(one.text, one.risk) for one in named] == [("Appends to f", Risk.LOW)]


@pytest.mark.parametrize("line", ["tar -cf x --remove-files a", "zip -rm x.zip a"])
def test_packing_that_deletes_what_it_packs_is_a_high_risk(line: str) -> None:
    assert ("Deletes the files that it packs", Risk.HIGH) in [
        (one.text, one.risk) for one in findings_in_line(line, "command")
    ]


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("kill $(cat f)", "$(cat f)"),
        ("kill `cat f`", "`cat f`"),
        ("kill -9 $PID", "$PID"),
        ('kill -TERM "$(pidof nginx)"', "$(pidof nginx)"),
        ("sudo kill $(cat f)", "$(cat f)"),
        ("pkill $NAME", "$NAME"),
        ("killall $NAME", "$NAME"),
        ("pgrep x | xargs kill", "kill"),
        ("pkill -F /run/x.pid", "-F"),
    ],
)
def test_a_process_that_only_its_run_will_name_is_a_finding(line: str, target: str) -> None:
    named = [one for one in findings_in_line(line, "command") if one.text.startswith("Which process it ends")]
    assert [one.risk for one in named] == [Risk.HIGH]
    assert target in named[0].detail


@pytest.mark.parametrize("line", ["kill 123", "kill -0 $(cat f)", "kill -l", "pkill nginx"])
def test_a_process_that_the_line_names_or_only_asks_for_is_not(line: str) -> None:
    assert [one for one in findings_in_line(line, "command") if one.text.startswith("Which process")] == []


@pytest.mark.parametrize("tool", ["execute_command", "run_command", "start_process", "shell_execute"])
@pytest.mark.parametrize("line", ["tar -czf /data/x.tgz /srv", "kill $(cat f)", "curl -o /data/x URL"])
def test_every_tool_with_a_shell_line_has_the_same_findings(tool: str, line: str) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"command": {"type": "string"}}}
    info = ToolInfo(
        tool_key=f"action::{tool}",
        tool_name=tool,
        tool_type="action",
        namespace="far",
        description=tool,
        input_schema=schema,
    )
    offered = tool_of("lab-1", read_tool(info), change="", override=None)
    ours = {(one.text, one.risk, one.detail) for one in findings_in_line(line, "command")}
    assert ours
    assert ours <= {(one.text, one.risk, one.detail) for one in findings_in_call(offered, {"command": line})}


def test_a_cut_option_is_the_same_one_in_every_process() -> None:
    assert takes("--output-dir --output --output-x?").long == ("--output", "--output-x", "--output-dir")

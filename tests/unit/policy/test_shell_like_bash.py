"""What a real bash runs is seen: lines made to part parser and shell are run where nothing can happen.

Only the marker `rm` is a command there, a function that cannot be defined anew. PATH leads nowhere, the
folder is a new one, and no line that could define a function is run: it might start itself without end.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from core.models.tools import Risk
from core.policy.analysis.shell.walk import findings_in_line
from tests.fakes.patience import PATIENCE_S

BASH = shutil.which("bash") or ""
PRELUDE = 'ulimit -t 1 -f 64\nrm() {{ builtin echo RAN >&{0}; }}\nreadonly -f rm\neval "$LINE"'
# A word beside brackets, or the word itself, defines a function.
DEFINES = re.compile(r"\([ \t\n\\'\"x]*\)|function")
LINES = [
    "rm", "x;rm", "x|rm", "$(rm)", "`rm`", '"$(rm)"', '"`rm`"', "{ rm; }", "(rm)", "x&&rm", "!rm",
    "if rm;then x;fi", "case x in x)rm;;esac", "x<<E\n$(rm)\nE\n", "x<<E\n`rm`\nE\n", "x<<E\nx\nE\nrm\n",
    "x<<'E'\nx\nE\nrm", "x #x\nrm", "x\\\n;rm", "r\\\nm", "r''m", 'r""m', "$'rm'", "\\rm", "x=$(rm)",
    "x=`rm` x", "x[$(rm)]=x", "${x:=`rm`}", '"${x:=`rm`}"', "${x:-$(rm)}", "${x#`rm`}", "${x/x/`rm`}",
    "$((x[$(rm)]))", "[[ -v x[$(rm)] ]]", "[[ x = `rm` ]]", "x<<<`rm`", "x <(rm)", "x >(rm)",
    "for x in `rm`;do x;done", "let 'x[$(rm)]'", "`x \\`rm\\``", '"`x \\`rm\\``"', "x=x\\\n#;rm",
    "x \\\n#\nrm", "x'#';rm", "x=(`rm`)", "time rm", "coproc rm", "((x=`rm`))", "$[$(rm)]",
    "test -v 'x[$(rm)]'", "eval rm", "trap rm EXIT", "command rm", "x<<E|rm\nE\n", "x<<-E\n\tx\n\tE\nrm",
    '${x-"`rm`"}', "x'\\';rm;'\\'", '"\\\\";rm', "x\\';rm;\\'", "x \\#;rm", "x x#x;rm", "x;#x\nrm",
    "$'\\'';rm", "x$'\\\\';rm", "x\\\n\\\n;rm",
]  # fmt: skip
NOISE = [
    "", " ", "\n", ";", "x", "\\", "#", "'", '"', "\\\n", "x;", " #x\n", "'x'", '"x"', "$x", "(", ")", "{ ",
    "; }", "|x", "x|", "&", "``", "$()", "<<E\n", "\nE\n", "\t", "=", "[", "]", "*", "!", "é", "\r",
    "\u0001",
]  # fmt: skip


def line_of(chance: random.Random) -> str:
    parts = [chance.choice(LINES) for _ in range(chance.choice((1, 1, 2)))]
    line = chance.choice(["", ";", "\n", " ", "&&", "|"]).join(parts)
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        at = chance.randrange(len(line) + 1)
        line = line[:at] + chance.choice(NOISE) + line[at:]
    return line


def runs_the_marker(line: str, folder: Path) -> bool:
    """Whether a bash that can do nothing else runs the marker in this line."""
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        [BASH, "--norc", "--noprofile", "-c", PRELUDE.format(theirs)],
        env={"PATH": "/nonexistent", "LINE": line, "LC_ALL": "C.UTF-8"},
        cwd=folder,
        pass_fds=(theirs,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(theirs)
    process.wait(PATIENCE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with open(ours, "rb") as answers:
        return b"RAN" in answers.read()


@pytest.mark.skipif(not BASH, reason="no bash")
@pytest.mark.parametrize("seed", range(4))
def test_what_bash_runs_is_found(seed: int, tmp_path: Path):
    chance = random.Random(seed)
    lines = [line for line in (line_of(chance) for _ in range(90)) if not DEFINES.search(line)]
    ran = [line for line in lines if runs_the_marker(line, tmp_path)]
    unseen = []
    for line in ran:
        findings = findings_in_line(line, "command")
        high = any(finding.risk.rank >= Risk.HIGH.rank for finding in findings)
        if not high and not any("Deletes" in finding.text for finding in findings):
            unseen.append(line)
    assert unseen == []
    assert len(ran) > 20


@pytest.mark.parametrize(
    "line",
    ["echo >&'$(MARK)'", "echo >& '`MARK`'", 'echo >& "\\$(MARK)"', "ls x >&'a$(MARK)'"],
)
def test_a_command_in_quotes_behind_a_redirection_of_both_outputs_runs_and_is_found(
    line: str, tmp_path: Path
):
    subprocess.run(
        ["bash", "-c", line.replace("MARK", ">ran")], cwd=tmp_path, check=False, capture_output=True
    )
    assert (tmp_path / "ran").exists()
    found = findings_in_line(line.replace("MARK", "rm -rf /srv/x"), "command")
    assert any(finding.text.startswith("Deletes folders") for finding in found)

"""Completion in real shells, of the real program: what is typed, a TAB, and what then stands on the line."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.__main__ import COMPLETE
from core.completion.scripts import VARIABLE, Shell
from core.home import Home
from core.models.devices import Device, Health
from core.models.tools import Risk
from tests.fakes.control_socket import HERE, FakeHost, serving, tool
from tests.fakes.fleet_data import ago
from tests.fakes.program import ask, environment, make_home, run
from tests.fakes.shells import has, typed_shell

SHELLS = [pytest.param(one, marks=pytest.mark.skipif(not has(one), reason=f"no {one}")) for one in Shell]
BATCH = """format: quarterdeck.batch/1
inputs:
  who:
    type: string
    one_of: ["a b", "it's", 'x:y=z', Zürich, '$(touch owned)', 'say "x"']
steps:
  - {id: look, device: this-computer, tool: get_system_info, with: {info_type: memory}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """With a service of its own process, in which a run waits for an approval."""
    home = make_home(tmp_path_factory.mktemp("completed") / "home")
    assert run(home, "service", "start").code == 0
    assert run(home, "do", "list processes", "--save", "Größe 5%").code == 0
    ask(home)
    yield home
    run(home, "service", "stop", "--cancel-work")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "my clean.yaml").write_text(BATCH, "utf-8")
    (work / "notes.txt").write_text("")
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_what_the_home_has(shell: Shell, home: Home, folder: Path) -> None:
    run_id = run(home, "runs", "list", "--json").json["runs"][0]["id"]
    approval = run(home, "approvals", "list", "--json").json["approvals"][0]["id"]
    with typed_shell(shell, home, folder) as typed:
        for before, after in {
            "appro": "approvals ",
            "call th": "call this-computer ",
            "call this-computer get_s": "call this-computer get_system_info ",
            "call this-computer get_system_info inf": "call this-computer get_system_info info_type=",
            "call this-computer get_system_info info_type=mem": (
                "call this-computer get_system_info info_type=memory "
            ),
            "call this-computer get_system_info 'info_type=mem": (
                "call this-computer get_system_info 'info_type=memory' "
            ),
            "runs show r": f"runs show {run_id} ",
            "approvals show a-": f"approvals show {approval} ",
            "audit find kind:run_st": "audit find kind:run_started ",
            "search x --device os:": "search x --device os:linux ",
            "search x --device=os:": "search x --device=os:linux ",
            "run x --device health:of": "run x --device health:offline ",
            "run my": r"run my\ clean.yaml ",
            "call this-computer write_file content=@no": (
                "call this-computer write_file content=@notes.txt "
            ),
            "runs show r-0001 --save ~/wo": "runs show r-0001 --save ~/work/",
        }.items():
            assert typed.line(f"quarterdeck {before}") == f"quarterdeck {after}"
        assert read_by(shell, typed.line("quarterdeck run Gr")) == ["quarterdeck", "run", "Größe 5%"]


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_completed_means_what_was_offered(shell: Shell, home: Home, folder: Path) -> None:
    """The shell itself reads the line that it completed."""
    with typed_shell(shell, home, folder) as typed:
        for begin, whole in {"a": "a b", "i": "it's", "x": "x:y=z", "Z": "Zürich", "s": 'say "x"'}.items():
            line = typed.line(f"quarterdeck run 'my clean.yaml' --input who={begin}")
            assert read_by(shell, line) == ["quarterdeck", "run", "my clean.yaml", "--input", f"who={whole}"]
        line = typed.line(r"quarterdeck run my\ clean.yaml --input who=\$")
        assert read_by(shell, line)[-1] == "who=$(touch owned)"
        assert typed.line('quarterdeck run "my clean.yaml" --input "who=i') == (
            """quarterdeck run "my clean.yaml" --input "who=it's" """
        )
    assert not (folder / "work" / "owned").exists()


def read_by(shell: Shell, line: str) -> list[str]:
    done = subprocess.run(
        [shell.value, "-c", f"printf '%s\\n' {line}"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", [one for one in SHELLS if one.values != (Shell.BASH,)])
def test_a_shell_shows_what_a_run_is_where_it_shows_help(shell: Shell, home: Home, folder: Path) -> None:
    assert run(home, "call", "this-computer", "get_system_info", "info_type=memory").code == 0
    with typed_shell(shell, home, folder) as typed:
        typed.line("quarterdeck runs show ", tabs=2)
        assert "get_system_info done" in typed.seen


@pytest.mark.parametrize("shell", SHELLS)
def test_without_a_service_nothing_is_said_and_none_is_started(
    shell: Shell, tmp_path: Path, folder: Path
) -> None:
    home = Home(tmp_path / "empty")
    with typed_shell(shell, home, folder) as typed:
        assert typed.line("quarterdeck devi") == "quarterdeck devices "
        assert typed.line("quarterdeck call th") == "quarterdeck call th"
        assert "Error" not in typed.seen
        assert "Traceback" not in typed.seen
    assert not home.path.exists()


@pytest.fixture
async def hostile(tmp_path: Path) -> AsyncIterator[Home]:
    """A console whose device and tool have texts that would write to a terminal."""
    host = FakeHost()
    evil = "\x1b]0;owned\x07\u202e\x9b31m"
    devices = [
        Device(name=name, health=Health.ONLINE, since=ago(0), tags=[f"tag{evil}"])
        for name in (HERE, f"evil{evil}", "evil\nnewline", "evil lab: Büro")
    ]
    host.fake.answer("match_devices", lambda targets: devices)
    titled = {"title": f"It does {evil} this", "description": evil}
    host.fake.tools_of[HERE] = [
        tool(name, Risk.LOW).model_copy(update=titled) for name in ("echo", "echo-2", f"echo{evil}")
    ]
    home = Home(tmp_path / "hostile").create()
    async with serving(home, host):
        yield home


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_device_cannot_write_to_the_terminal(shell: Shell, hostile: Home, folder: Path) -> None:
    def drive() -> tuple[str, list[str]]:
        with typed_shell(shell, hostile, folder) as typed:
            line = typed.line("quarterdeck call ev")
            shown = typed.seen
            typed.line(f"quarterdeck call {HERE} echo", tabs=2)
            return line, [shown, typed.seen]

    line, seen = await asyncio.to_thread(drive)
    assert read_by(shell, line) == ["quarterdeck", "call", "evil lab: Büro"]
    assert "echo-2" in seen[1]
    for text in seen:
        assert not {"\u202e", "\x9b"} & set(text)
        assert "owned\x07" not in text


@pytest.mark.parametrize("shell", list(Shell))
def test_the_command_prints_the_script(shell: Shell, tmp_path: Path) -> None:
    printed = run(Home(tmp_path / "home"), "completion", shell)
    assert (printed.code, VARIABLE in printed.out) == (0, True)
    as_json = run(Home(tmp_path / "home"), "completion", shell, "--json").json
    assert as_json["script"].strip() == printed.out.strip()


def test_bash_completes_by_the_variables_that_it_sets(home: Home, tmp_path: Path) -> None:
    script = run(home, "completion", "bash").out
    program = f"{sys.executable} -m app"
    asked = f"""
quarterdeck() {{ {program} "$@"; }}
{script}
COMP_LINE='quarterdeck policy pro and more' COMP_POINT=22 COMP_WORDBREAKS=$' \\t\\n"\\'@><=;|&(:'
_quarterdeck_completion quarterdeck
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "-c", asked], capture_output=True, text=True, check=True, env=environment(), cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == ("profile\n", "")


@pytest.mark.parametrize("value", ["complete_bash", "bash_source", "1", "tcsh"])
def test_what_another_program_s_script_asks_is_answered_by_nothing(value: str) -> None:
    """Nor is the terminal read, which such a script leaves as standard input, or the window opened."""
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "app"],
            stdin=reading,
            env={**environment(), VARIABLE: value, "COMP_WORDS": "quarterdeck dev", "COMP_CWORD": "1"},
            capture_output=True,
            check=True,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_the_window_is_not_opened_by_a_shell_that_completes() -> None:
    assert COMPLETE == VARIABLE

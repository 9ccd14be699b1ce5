"""What README shows by example, each example run as it stands there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from core.batch.batch_file import read_batch
from core.batch.expressions import Context, Declarations, DeviceFacts, Scope, StepFacts, compile_expression
from core.batch.models import Input, RunState
from core.device.config import DeviceConfig, load_config
from core.home import Home
from core.models.device_filter import parse_filter
from core.models.devices import Device, Health
from core.service import exit_codes
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import open_service
from tests.fakes.program import environment, run
from tests.fakes.service_process import served as serving
from tests.fakes.signing import accepted

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
PATIENCE = 120.0
ALL_RUNS = """
profile = "trusted"

[[rule]]
id = "readme"
decision = "allow"
risk = ["low", "medium", "high", "critical"]
reason = "What README shows changes nothing but the folder of its test."
"""
STDOUT = "a 1\nb 2\n"


def section(title: str) -> str:
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def block(title: str, language: str) -> str:
    return section(title).split(f"```{language}\n", 1)[1].split("```", 1)[0]


def table(heading: str) -> list[list[str]]:
    """The rows of the table with this heading, without the marks of code."""
    found = []
    for line in README.split(f"\n| {heading} |", 1)[1].splitlines()[2:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in re.split(r" \| ", line.strip("|"))])
    return found


def code(cell: str) -> str:
    return cell.removeprefix("`").removesuffix("`")


@pytest.fixture
async def service(home: Home, tmp_path: Path) -> AsyncIterator[Service]:
    place = home.create().device_state
    place.mkdir(parents=True, exist_ok=True)
    (place / "device.toml").write_text(f'roots = ["{tmp_path}"]\n')
    await accepted(home, ALL_RUNS)
    async with open_service(home) as service:
        yield service


async def test_the_batch_runs(service: Service, tmp_path: Path) -> None:
    batch = read_batch(block("Batch files", "yaml"), "batch.yaml")
    folder = tmp_path / "thumbnails"
    folder.mkdir()
    console = LocalConsole(service, "operator:anna")
    # Each disk is fuller than this.
    run = await console.runs.start(batch, inputs={"threshold": -1, "folder": str(folder)})
    ended = await console.runs.wait(run.summary.id, PATIENCE)
    assert ended.summary.state is RunState.DONE, ended
    states = {cell.step: cell.state.value for cell in ended.cells}
    assert (states["disk"], states["clean"], states["memory"], states["who"]) == ("done",) * 4
    assert not folder.exists()


DEVICES = [
    Device(name="lab-1", health=Health.ONLINE, since="", platform="linux", tags=["lab"]),
    Device(name="lab-2", health=Health.ONLINE, since="", platform="win32", tags=["lab", "spare"]),
    Device(name="db-1", health=Health.ONLINE, since="", platform="linux", tags=["prod"], production=True),
]


@pytest.mark.parametrize(("shown", "names"), table("filter | devices"))
def test_a_filter_means_these_devices(shown: str, names: str) -> None:
    wanted = parse_filter(code(shown))
    assert [device.name for device in DEVICES if wanted.matches(device)] == names.split(", ")


@pytest.mark.parametrize(("shown", "value"), table("expression | value"))
def test_an_expression_has_this_value(shown: str, value: str) -> None:
    inputs = {"text": Input(type="string"), "list": Input(type="list")}
    facts = {"s": StepFacts("done", result={"stdout": STDOUT})}
    context = Context({"text": "abc", "list": ["a", "b"]}, facts, DeviceFacts("lab-1"))
    compiled = compile_expression(code(shown), Scope(Declarations(inputs, {"s": {}}), ("s",)))
    assert compiled.evaluate(context) == json.loads(code(value))


def test_device_toml_has_every_key_and_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "device.toml"
    path.write_text(block("device.toml", "toml"))
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
    assert load_config(path).approvers == 1
    told = tomllib.loads(path.read_text())
    assert set(told) == set(DeviceConfig.model_fields)
    for name in ("limits", "undo", "link"):
        defaults = getattr(DeviceConfig(), name)
        # The values shown are the defaults, so that nothing goes out of date in silence.
        assert told[name] == defaults.model_dump()


def test_the_table_has_every_exit_code() -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert {int(row[0]) for row in table("code | when | for example")} == codes


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("readme") / "home").create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    asyncio.run(accepted(home, ""))
    with serving(home):
        yield home


def test_evidence_is_written_and_checked_as_shown(served: Home, tmp_path: Path) -> None:
    shutil.copy(served.keys / "journal.pub", tmp_path / "journal.pub")
    (tmp_path / "quarterdeck").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m app --home {served.path} "$@"\n'
    )
    (tmp_path / "quarterdeck").chmod(0o700)
    shown = block("One home", "sh")
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", shown],
        cwd=tmp_path,
        env={**environment(), "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    assert "\n3\n" in done.stdout
    assert "holds: entry 3 is in the journal" in done.stdout
    assert {"week.jsonl", "failures.csv", "entry-3.tlog-proof"} < set(os.listdir(tmp_path))


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (row[0], code(row[2]))
        for row in table("code | when | for example")
        if re.fullmatch(r"`quarterdeck call this-computer [^`]*`", row[2])
    ],
)
def test_a_command_ends_with_this_exit_code(served: Home, number: str, line: str) -> None:
    assert run(served, *shlex.split(line)[1:]).code == int(number)

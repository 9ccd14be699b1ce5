"""Public MCP clients at the gateway: the protocol's Inspector, and the agent programs that README configures.

They are no part of this project, and come from npm, each kind into a folder of its own:

    npm install node@22 @modelcontextprotocol/inspector@2.12.0      # the Inspector needs node 22.19 or newer
    npm install @anthropic-ai/claude-code opencode-ai

    QUARTERDECK_INSPECTOR=…/node_modules/.bin QUARTERDECK_AGENT_PROGRAMS=…/node_modules/.bin \
        pytest tests/end_to_end/test_public_clients.py
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.approvals.operator_keys import OperatorKey
from core.home import Home
from core.service.console import Console
from tests.fakes.agents import add_agent
from tests.fakes.desk import approve, choose_channel, deny, next_approval
from tests.fakes.gateway import HERE, READS, http_gateway, touch
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import ROOT
from tests.fakes.service_process import ServiceProcess, service_process, until_online
from tests.fakes.signing import anna

AGENT = "night-shift"
INSPECTOR = os.environ.get("QUARTERDECK_INSPECTOR", "")
PROGRAMS = os.environ.get("QUARTERDECK_AGENT_PROGRAMS", "")
needs_inspector = pytest.mark.skipif(
    not INSPECTOR, reason="set QUARTERDECK_INSPECTOR to the folder of node and mcp-inspector (see the file)"
)
needs_programs = pytest.mark.skipif(
    not PROGRAMS, reason="set QUARTERDECK_AGENT_PROGRAMS to the folder of claude and opencode (see the file)"
)


@dataclass(frozen=True)
class Desk:
    """A service in the home that its user has by default, an operator, and an agent with its token."""

    home: Home
    user: Path
    console: Console
    key: OperatorKey
    token: str

    @property
    def token_file(self) -> Path:
        """Where the agent's program finds its token."""
        return self.user / ".night-shift"

    async def program(self, bin_folder: str, *words: str, folder: Path | None = None) -> tuple[int, str, str]:
        """Run a public program as this user; returns its exit code and what it printed."""
        path = os.pathsep.join([bin_folder, str(Path(sys.executable).parent), os.defpath])
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=folder or self.user,
            env={"HOME": str(self.user), "PATH": path, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S * 3)
        return process.returncode or 0, out.decode(), err.decode()


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[ServiceProcess]:
    home = Home(tmp_path / ".local" / "share" / "quarterdeck").create()
    choose_channel(home, "in-process")
    async with service_process(home) as process:
        yield process


@pytest.fixture
async def desk(service: ServiceProcess, tmp_path: Path) -> Desk:
    console, key = await service.console(), anna(service.home)
    await console.approvals.register_operator(key.operator)
    await until_online(console)
    token = await add_agent(console, key, AGENT)
    desk = Desk(service.home, tmp_path, console, key, token)
    desk.token_file.write_text(token)
    desk.token_file.chmod(0o600)
    return desk


@dataclass(frozen=True)
class Inspector:
    """The Inspector in its command-line mode; each call of it is a connection of its own."""

    desk: Desk
    target: tuple[str, ...]

    async def ask(self, method: str, *words: str) -> dict[str, Any]:
        """What the gateway answers to a request."""
        code, out, err = await self._run(method, *words)
        assert code in (0, 5), (code, out, err)
        found = json.loads(out)
        assert isinstance(found, dict)
        return found

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool."""
        words = ("--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        answer = await self.ask("tools/call", *words)
        found = answer.get("result", answer)["structuredContent"]
        assert isinstance(found, dict)
        return found

    async def _run(self, method: str, *words: str) -> tuple[int, str, str]:
        start = ("mcp-inspector", "--cli", *self.target, "--method", method, "--format", "json", "--quiet")
        return await self.desk.program(INSPECTOR, *start, *words)


@pytest.fixture(params=["stdio", "http"])
async def inspector(request: pytest.FixtureRequest, desk: Desk) -> AsyncIterator[Inspector]:
    if request.param == "stdio":
        server = {
            "command": sys.executable,
            "args": ["-P", "-m", "app", "gateway", "--as", AGENT, "--token-file", str(desk.token_file)],
            "env": {"PYTHONPATH": str(ROOT), "QUARTERDECK_HOME": str(desk.home.path)},
        }
        config = desk.user / "inspector.json"
        config.write_text(json.dumps({"mcpServers": {"quarterdeck": server}}))
        yield Inspector(desk, ("--config", str(config), "--server", "quarterdeck"))
        return
    async with http_gateway(desk.home) as url:
        header = f"Authorization: Bearer {desk.token}"
        yield Inspector(desk, ("--transport", "http", "--server-url", url, "--header", header))


@needs_inspector
async def test_the_inspector_lists_reads_asks_and_collects(inspector: Inspector, desk: Desk, tmp_path: Path):
    listed = await inspector.ask("tools/list", "--strict")
    names = [tool["name"] for tool in listed.get("result", listed)["tools"]]
    assert names[:2] == ["list_devices", "search_tools"]
    [device] = (await inspector.call("list_devices"))["devices"]
    assert (device["name"], device["health"]) == (HERE, "online")
    assert (await inspector.call("run_commands", **READS))["state"] == "done"

    asked = await inspector.call("run_commands", **touch(tmp_path / "made"))
    assert asked["state"] == "waiting"
    await approve(desk.console, await next_approval(desk.console), desk.key)
    done = await inspector.call("wait_run", seconds=45, ticket=asked["ticket"])
    assert done["state"] == "done"
    assert (tmp_path / "made").exists()
    read = await inspector.ask("resources/read", "--uri", f"quarterdeck://run/{asked['ticket']}")
    [content] = read.get("result", read)["contents"]
    assert json.loads(content["text"])["state"] == "done"

    asked = await inspector.call("run_commands", **touch(tmp_path / "other"))
    await deny(desk.console, await next_approval(desk.console), desk.key, "Not on a Friday.")
    denied = await inspector.call("wait_run", seconds=45, ticket=asked["ticket"])
    assert "Not on a Friday." in denied["results"][0]["error"]["message"]
    assert not (tmp_path / "other").exists()


@needs_inspector
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_speaks_both_generations_of_the_protocol(desk: Desk, era: str):
    async with http_gateway(desk.home) as url:
        target = ("--transport", "http", "--server-url", url, "--protocol-era", era)
        inspector = Inspector(desk, (*target, "--header", f"Authorization: Bearer {desk.token}"))
        assert (await inspector.call("list_devices"))["devices"]


def readme_config(desk: Desk, program: str, number: int = 0) -> dict[str, Any]:
    """The configuration that README gives for a program, with the token's file of this user."""
    text = (ROOT / "README.md").read_text("utf-8")
    after = text[text.index(program) :]
    found = re.findall(r"^    (\{.*?\})$", after, re.MULTILINE | re.DOTALL)[number]
    config = json.loads(found.replace("/home/me/.night-shift", str(desk.token_file)))
    assert isinstance(config, dict)
    return config


@needs_programs
async def test_claude_code_connects_by_the_configuration_in_readme(desk: Desk):
    project = desk.user / "project"
    (project / ".claude").mkdir(parents=True)
    (project / ".mcp.json").write_text(json.dumps(readme_config(desk, "Claude Code, `.mcp.json`")))
    allowed = readme_config(desk, "Claude Code, `.mcp.json`", 1)
    (project / ".claude" / "settings.json").write_text(json.dumps(allowed))
    # What a person says once in the program: that this folder may start its servers.
    (desk.user / ".claude").mkdir()
    trusted = {"enabledMcpjsonServers": ["quarterdeck"]}
    (desk.user / ".claude" / "settings.json").write_text(json.dumps(trusted))
    code, out, err = await desk.program(PROGRAMS, "claude", "mcp", "list", folder=project)
    assert code == 0, (out, err)
    assert re.search(r"quarterdeck: .*Connected", out), out


@needs_programs
async def test_opencode_connects_by_the_configuration_in_readme(desk: Desk):
    project = desk.user / "project"
    project.mkdir()
    (project / "opencode.json").write_text(json.dumps(readme_config(desk, "OpenCode, `opencode.json`")))
    code, out, err = await desk.program(PROGRAMS, "opencode", "mcp", "list", folder=project)
    assert code == 0, (out, err)
    assert re.search(r"quarterdeck.*connected", out + err), (out, err)

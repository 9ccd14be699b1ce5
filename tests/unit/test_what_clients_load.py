"""A client starts with the models that it speaks, and without what the service decides and stores by.

import-linter cannot tell an import that a function makes from one that every start makes, so that a fresh
process says what it has loaded.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from core.home import Home
from core.service.rpc.server import ControlServer
from tests.fakes.control_socket import HERE, FakeHost

ROOT = Path(__file__).parents[2]
OF_THE_SERVICE = (
    "cel_expr_python",
    "core.audit.events",
    "core.audit.store",
    "core.batch.expressions",
    "core.policy.analysis",
    "core.policy.rules",
    "core.service.service",
    "sqlite3",
    "tree_sitter",
)
HEAVY = {*OF_THE_SERVICE, "core.schema_forms.validator", "cryptography", "jsonschema", "rich", "structlog"}
# The models of the console API, but for those of devices; what stands in their packages is not loaded either.
OTHER_MODELS = (
    "core.approvals",
    "core.audit",
    "core.batch",
    "core.changes",
    "core.commands",
    "core.fleet",
    "core.models.tools",
    "core.policy",
    "core.replay",
    "core.service.api.events",
    "core.service.api.models",
    "core.service.backup",
    "core.service.envelope",
    "core.statements",
)
SAY = "print(*sys.modules, sep='\\n', file=sys.stderr)"


def loaded_with(*modules: str) -> set[str]:
    """Every module that a process has loaded once it has imported these."""
    code = f"import sys, {', '.join(modules)}; {SAY}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_the_console_api_loads_models_alone() -> None:
    loaded = loaded_with("core.service.console")
    assert "core.batch.models" in loaded
    assert not loaded & {*HEAVY, "websockets"}


def test_the_interface_of_the_api_loads_no_models() -> None:
    loaded = loaded_with("core.service.api.interface", "core.service.rpc.client")
    assert not loaded & {*HEAVY, *OTHER_MODELS, "core.models.devices"}


def test_a_method_that_is_called_brings_its_own_models() -> None:
    # In a process without the others, where a name that does not say its module is not known.
    calling = "[protocol.wire_form(method) for method in api_methods().values()]"
    modules = (
        "import core.service.rpc.protocol as protocol; from core.service.api.interface import api_methods"
    )
    subprocess.run([sys.executable, "-c", f"{modules}; {calling}"], cwd=ROOT, check=True)


@pytest.mark.skipif(sys.platform == "win32", reason="the service has another socket there")
async def test_a_command_that_was_answered_has_loaded_its_own_models_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "h").create()
    server = ControlServer(FakeHost(), home)
    await server.open()
    code = f"import sys; from core.cli import main; main(sys.argv[1:]); {SAY}"
    try:
        client = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            code,
            "--home",
            str(home.path),
            "devices",
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, loaded = await client.communicate()
    finally:
        await server.close()
    assert HERE in said.decode()
    assert {"core.models.devices", "core.service.rpc.client"} <= set(loaded.decode().split())
    assert not {*HEAVY, *OTHER_MODELS} & set(loaded.decode().split())


@pytest.mark.parametrize("way", ["core.gateway.stdio", "core.gateway.http"])
def test_the_gateway_loads_nothing_of_the_service(way: str) -> None:
    # The protocol's SDK itself imports cryptography.
    assert not set(OF_THE_SERVICE) & loaded_with(way)


def test_the_first_answers_of_the_gateway_need_neither_the_sdk_nor_what_it_brings() -> None:
    loaded = loaded_with("core.cli.app", "core.cli.gateway")
    assert "core.gateway.greeting" in loaded
    assert not loaded & {*HEAVY, "anyio", "httpx2", "mcp", "mcp_types", "PIL", "starlette", "uvicorn"}


@pytest.mark.parametrize("way", ["core.gateway.stdio", "core.gateway.http"])
def test_the_gateway_reads_no_picture_before_an_agent_asks_for_one(way: str) -> None:
    assert "PIL" not in loaded_with(way)


@pytest.mark.parametrize(
    "module", ["core.cli.agents", "core.cli.call", "core.cli.device_commands", "core.cli.tools"]
)
def test_a_command_that_signs_loads_cryptography_when_it_signs(module: str) -> None:
    assert not {*OF_THE_SERVICE, "cryptography"} & loaded_with(module)


def test_a_shell_that_completes_loads_the_standard_library_and_the_socket_s_frames_alone() -> None:
    loaded = loaded_with("core.completion.answer", "core.completion.service_calls")
    assert "core.completion.offers" in loaded
    heavy = {
        *HEAVY,
        "asyncio",
        "core.errors",
        "core.service.console",
        "platformdirs",
        "pydantic",
        "typer",
        "yaml",
    }
    assert not heavy & loaded

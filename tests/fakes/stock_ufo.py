"""The stock UFO device client itself, as its users start it: its own Python, its own process, unmodified.

It is not part of this project. `QUARTERDECK_UFO` names a checkout of it, `QUARTERDECK_UFO_PYTHON` a Python
with its requirements.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port
from tests.fakes.program import ROOT

CHECKOUT = os.environ.get("QUARTERDECK_UFO", "")
PYTHON = os.environ.get("QUARTERDECK_UFO_PYTHON", "")
WHY_NOT = (
    ""
    if CHECKOUT and PYTHON
    else "set QUARTERDECK_UFO to a checkout of UFO, QUARTERDECK_UFO_PYTHON to a Python with its requirements"
)
API_KEY = "the-key-of-the-tools"
# Where stock configuration expects the servers of its agents. HardwareAgent has one for both types of tools.
LINUX_PORT, HARDWARE_PORT, MOBILE_READS_PORT, MOBILE_ACTS_PORT = 8010, 8006, 8020, 8021


@dataclass(frozen=True)
class StockUfo:
    """Where one client runs, and what it logs."""

    folder: Path
    ports: Mapping[int, int]

    @asynccontextmanager
    async def bash_server(self) -> AsyncIterator[None]:
        """The stock MCP server behind LinuxAgent."""
        module = "ufo.client.mcp.http_servers.linux_mcp_server"
        port = self.ports[LINUX_PORT]
        async with self._process("bash", "-m", module, "--port", str(port)) as process:
            await _listens(port, process)
            yield

    @asynccontextmanager
    async def awkward_server(self) -> AsyncIterator[None]:
        """Our own MCP server, in the place of those behind HardwareAgent and of what MobileAgent reads."""
        port = self.ports[HARDWARE_PORT]
        script = str(ROOT / "tests" / "fakes" / "stock_ufo_tools.py")
        async with self._process("awkward", script, str(port)) as process:
            await _listens(port, process)
            yield

    @asynccontextmanager
    async def client(self, url: str, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """The client, dialling `url` as its documentation says."""
        words = ("-m", "ufo.client.client", "--ws", "--ws-server", url, "--client-id", name)
        async with self._process("client", *words, "--platform", "linux", "--log-level", "INFO") as process:
            yield process

    def log(self) -> str:
        """What the client has logged until now."""
        return (self.folder / "client.log").read_text(errors="replace")

    @asynccontextmanager
    async def _process(self, log: str, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
        environment = {**os.environ, "PYTHONPATH": CHECKOUT, "UFO_MCP_API_KEY": API_KEY}
        with (self.folder / f"{log}.log").open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                PYTHON,
                *words,
                cwd=self.folder,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _listens(port: int, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("localhost", port)
            except OSError:
                assert process.returncode is None, "the MCP server has ended; see its log"
                # That it listens is its only sign of readiness.
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return


def stock_ufo(folder: Path) -> StockUfo:
    """A client's working folder, with the checkout's own configuration but ports of its own."""
    bash, awkward = free_port(), free_port()
    ports = {LINUX_PORT: bash, MOBILE_ACTS_PORT: bash, HARDWARE_PORT: awkward, MOBILE_READS_PORT: awkward}
    config = folder / "config" / "ufo"
    config.mkdir(parents=True)
    stock = Path(CHECKOUT) / "config" / "ufo"
    for path in stock.glob("*.template"):
        shutil.copy(path, config / path.stem)
    for path in stock.glob("*.yaml"):
        shutil.copy(path, config / path.name)
    mcp = config / "mcp.yaml"
    text = mcp.read_text()
    mcp.write_text(
        re.sub(r"\bport: (\d+)", lambda found: f"port: {ports.get(int(found[1]), found[1])}", text)
    )
    return StockUfo(folder, ports)


@asynccontextmanager
async def stock_servers(folder: Path) -> AsyncIterator[StockUfo]:
    """A client's folder with the MCP servers of its agents running."""
    ufo = stock_ufo(folder)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(ufo.bash_server())
        await stack.enter_async_context(ufo.awkward_server())
        yield ufo

"""The devices of the commands' story: real ones, which go on while a command runs in the main thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Generic, TypeVar

from websockets.exceptions import ConnectionClosed

from core.aip.extensions import FEATURES
from core.home import Home
from core.ids import now_stamp
from core.models.devices import Health
from core.service.rpc.client import RemoteConsole
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, paired, stands
from tests.fakes.scripted_device import ScriptedDevice, scripted, tool
from tests.fakes.service_process import until
from tests.golden.story import OURS, PIXEL, SCRIPTED, tools

# What the scripted device says of its machine.
METADATA = {
    "platform": "linux",
    "system_info": {"platform": "linux", "hostname": "bench-1", "pretty_name": "Debian GNU/Linux 12"},
}
FEATURES_SAID = sorted(FEATURES - {"chunks"})
MACHINE, OTHER_MACHINE = "a1" * 32, "b2" * 32


T = TypeVar("T")


class Held(Generic[T]):
    """What a context gives, held by a task of its own until it is let go."""

    def __init__(self) -> None:
        self._left = asyncio.Event()
        self._given: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._owner = TaskGroupOwner("golden commands")
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def of(cls, context: AbstractAsyncContextManager[T]) -> Held[T]:
        """Enter a context."""
        held = cls()
        held.beside(held._hold(context))
        await asyncio.wait([held._given, held._tasks[0]], return_when=asyncio.FIRST_COMPLETED)
        return held

    async def _hold(self, context: AbstractAsyncContextManager[T]) -> None:
        # A connection that the console closes ends its device, as a device that goes away does.
        with contextlib.suppress(ConnectionClosed, ExceptionGroup):
            async with context as given:
                self._given.set_result(given)
                await self._left.wait()

    @property
    def value(self) -> T:
        """What the context gave."""
        return self._given.result()

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this for as long as it is held."""
        self._tasks.append(self._owner.spawn("device", work))

    async def let_go(self) -> None:
        """Leave the context."""
        self._left.set()
        await asyncio.wait(self._tasks[:1])
        await self._owner.close()


class Stage:
    """A home, and a thread in which its devices live."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home: Home = make_listening_home(folder / "home")
        with self.home.settings.open("a") as settings:
            # However slow the machine, no device is stale, which its history would show.
            settings.write("heartbeat_s = 600\n")
        # Where our own device may write.
        self.root = folder / "root"
        self.root.mkdir()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._device: Held[ScriptedDevice] | None = None
        self._held: list[Held[Any]] = []
        self.console: RemoteConsole | None = None

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What this work comes to, done where the devices live."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def close(self) -> None:
        """Let the devices leave, and end the thread."""
        try:
            self.do(self._leave())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _leave(self) -> None:
        for held in self._held:
            await held.let_go()
        if self.console is not None:
            await self.console.close()

    async def attach(self) -> RemoteConsole:
        """A console of the service, on which one waits for what commands have begun."""
        if self.console is None:
            self.console = await RemoteConsole.connect(self.home, "window", "operator:anna")
        return self.console

    async def connect(self, url: str, identity: str = MACHINE) -> None:
        """Let the scripted device dial in with the address of its pairing, and wait until it is online."""
        self._device = await self._dial(url, identity)
        await stands(await self.attach(), SCRIPTED, Health.ONLINE)

    async def show_elsewhere(self, url: str) -> None:
        """Let another machine show the pairing of the scripted device, which is then held."""
        held = await self._dial(url, OTHER_MACHINE)
        console = await self.attach()
        await until(console, lambda: _is_shown_elsewhere(console), console.events())
        await held.let_go()

    async def _dial(self, url: str, identity: str) -> Held[ScriptedDevice]:
        address, _, token = url.partition("?token=")
        held = await Held.of(scripted(address, token, SCRIPTED, register=False))
        self._held.append(held)
        ours = {"features": FEATURES_SAID, "identity": identity, "version": "1.0", "roots": ["/srv/lab"]}
        await held.value.say(
            type="register",
            client_type="device",
            client_id=SCRIPTED,
            status="ok",
            timestamp=now_stamp(),
            metadata={**METADATA, "quarterdeck": ours},
        )
        held.value.tools = _tools()
        held.beside(_answer(held.value))
        return held

    async def hang_up(self) -> None:
        """Let the scripted device vanish."""
        assert self._device is not None
        await self._device.let_go()
        await stands(await self.attach(), SCRIPTED, Health.OFFLINE, Health.RECONNECTING)

    async def change_tools(self) -> None:
        """Let the scripted device list another description of a tool."""
        assert self._device is not None
        self._device.value.tools = _tools("Presses something else.")
        console = await self.attach()
        await console.devices.reconnect(SCRIPTED)

    async def start_ours(self, string: str) -> None:
        """Start our own device client with this pairing string."""
        state = self.folder / "ours"
        state.mkdir()
        (state / "device.toml").write_text(f'roots = ["{self.root}"]\ntools_off = ["shell_execute_read"]\n')
        self._held.append(await Held.of(paired(state, string)))
        await stands(await self.attach(), OURS, Health.ONLINE)

    async def ended(self, run: str) -> None:
        """Wait for the end of a run."""
        found = await (await self.attach()).runs.wait(run, PATIENCE_S)
        assert found.summary.state.ended, found

    async def sent(self, run: str) -> None:
        """Wait until a command of a run is on its way."""
        console = await self.attach()
        await until(console, lambda: _has(console, f"kind:command_sent run:{run}"), console.events())


async def _has(console: RemoteConsole, query: str) -> bool:
    return bool((await console.journal.entries(query)).entries)


def _tools(poke: str = "Presses the button of the test bench.") -> list[dict[str, Any]]:
    """What the scripted device lists; one of its tools is also one of our own device's."""
    return [*tools(poke), tool("list_directory", "Lists a folder.", "data_collection")]


async def _is_shown_elsewhere(console: RemoteConsole) -> bool:
    devices = {one.name: one for one in (await console.service.state()).devices}
    return devices[SCRIPTED].other_machine is not None


async def _answer(device: ScriptedDevice) -> None:
    """Answer each command as the scripted device does."""
    while True:
        frame = await device.commands.get()
        [action] = frame["actions"]
        line = str(action["parameters"].get("command", ""))
        match action["tool_name"]:
            case "screenshot":
                await device.answer(frame, {"media_type": "image/png", "data_base64": PIXEL})
            case "get_system_info":
                await device.answer(frame, {"cpu": {"cores": 4}, "memory": {"total_gb": 8}})
            case "list_directory":
                await device.answer(frame, {"path": "/srv/lab", "entries": []})
            case "shell_execute" if line == "false":
                await device.answer(frame, {"success": False, "error": "false ended with exit code 1"})
            case "shell_execute" if line.startswith("sleep"):
                # It goes on until the device vanishes.
                continue
            case _:
                await device.answer(frame, "done")

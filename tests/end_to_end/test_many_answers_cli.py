"""One answer for a step on several devices, from the terminal: real program, service and device clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.devices import Health
from tests.fakes.program import Terminal, run, until
from tests.fakes.remote_device import make_listening_home, paired, stands
from tests.fakes.service_process import service_process
from tests.fakes.signing import accepted

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEVICES = ["db-1", "lab-1", "lab-2", "lab-3"]
BATCH = """
name: Write one file each
targets: "name:db-1,lab-1,lab-2,lab-3"
steps:
  - id: write
    tool: write_file
    with: {{file_path: "{folder}/${{{{ device.name }}}}.txt", content: "by ${{{{ device.name }}}}\\n"}}
"""


class Lab:
    """A home with three devices and one in production, and a batch that writes a file on each."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home, self.folder = home, folder
        self.batch = folder / "write.yaml"
        self.batch.write_text(BATCH.format(folder=folder))

    def begun(self) -> str:
        """The id of a run of the batch that waits for an answer on each device."""
        started = run(self.home, "run", str(self.batch), "--json", "--wait", "0")
        assert started.code == 10, started
        until(self.waiting, lambda waiting: len(waiting) == len(DEVICES))
        return str(self.waiting()[0]["run"])

    def waiting(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = run(self.home, "approvals", "list", "--json").json["approvals"]
        return found

    def request_of(self, device: str) -> str:
        return next(one["id"] for one in self.waiting() if one["request"]["device"] == device)

    def written(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.txt"))

    def forget(self) -> None:
        for path in self.folder.glob("*.txt"):
            path.unlink()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    home = make_listening_home(folder / "home")
    await accepted(home)
    (folder / "work").mkdir()
    async with service_process(home) as process, AsyncExitStack() as devices:
        console = await process.console("cli:test")
        for name in DEVICES:
            pairing = await console.devices.pair(name, DeviceSettings(production=name == "db-1"))
            state = folder / name
            state.mkdir()
            (state / "device.toml").write_text(f'roots = ["{folder / "work"}"]\n')
            await devices.enter_async_context(
                paired(state, pairing.string, "--config", str(state / "device.toml"))
            )
            await stands(console, name, Health.ONLINE)
        yield Lab(home, folder / "work")


@pytest.fixture(autouse=True)
def nothing_waits(lab: Lab) -> None:
    lab.forget()
    assert lab.waiting() == []


async def test_one_command_approves_a_step_on_all_devices_and_leaves_production_to_itself(lab: Lab):
    number = lab.begun()
    done = run(lab.home, "approvals", "approve", lab.request_of("lab-2"), "--all-devices", "--json")
    assert done.code == 0, done
    told = done.json
    assert (told["taken"], told["not_taken"]) == (3, 0)
    assert sorted(fate["device"] for fate in told["answered"]) == ["lab-1", "lab-2", "lab-3"]
    assert {(fate["state"], fate["why"]) for fate in told["answered"]} == {("approved", None)}
    # What differs is shown whole, for each device, before it is signed.
    assert all(f"{lab.folder}/lab-{number}.txt" in done.err for number in (1, 2, 3))
    assert "db-1" not in done.err
    [production] = lab.waiting()
    assert production["request"]["device"] == "db-1"
    assert run(lab.home, "approvals", "approve", production["id"], "--all-devices").code == 0
    until(lab.written, lambda written: written == DEVICES)
    shown = run(lab.home, "runs", "show", number, "--json").json
    assert shown["run"]["state"] == "done"
    entries = run(lab.home, "audit", "find", f"run:{number} kind:approval_given", "--json").json["entries"]
    assert len({entry["body"]["signed"]["statement"]["request_digest"] for entry in entries}) == 4


async def test_a_denial_of_all_says_the_fate_of_each_and_writes_nothing(lab: Lab):
    lab.begun()
    done = run(lab.home, "approvals", "deny", lab.request_of("lab-1"), "--all-devices", "--reason", "no")
    assert done.code == 0, done
    assert done.out.count("denied") == 3
    again = run(lab.home, "approvals", "deny", lab.request_of("db-1"), "--all-devices")
    assert again.code == 0, again
    assert lab.written() == []


async def test_the_digest_and_the_grants_are_of_one_request(lab: Lab):
    lab.begun()
    request = lab.request_of("lab-1")
    wrong = run(lab.home, "approvals", "approve", request, "--all-devices", "--digest", "0" * 64)
    assert wrong.code == 3, wrong
    for word in ("--for-run", "--grant=uses=5"):
        assert run(lab.home, "approvals", "approve", request, "--all-devices", word).code == 2
    assert len(lab.waiting()) == 4
    for device in ("lab-1", "db-1"):
        run(lab.home, "approvals", "deny", lab.request_of(device), "--all-devices")
    assert run(lab.home, "approvals", "approve", request, "--all-devices").code == 3


async def test_the_prompt_of_a_run_asks_once_for_all_alike_and_once_for_production(lab: Lab):
    terminal = Terminal(lab.home, "run", str(lab.batch))
    try:
        questions = []
        for _ in range(2):
            terminal.sees("to refuse")
            asked, terminal.seen = terminal.seen, ""
            questions.append("these 3 once" in asked)
            if questions[-1]:
                assert all(f"lab-{number}.txt" in asked for number in (1, 2, 3))
            else:
                assert "db-1 (production)" in asked
            terminal.types("approve all\n" if questions[-1] else "approve\n")
        assert terminal.ends() == 0
        assert sorted(questions) == [False, True]
        assert "to refuse" not in terminal.seen
        assert lab.written() == DEVICES
    finally:
        terminal.leave()

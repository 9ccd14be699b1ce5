"""The story that is kept: every end that a command can have, every method of the door, both kinds of device.

It is played against the service as a process of its own, on its control socket, with a device whose frames
are written here (`lab-1`), with our own device client (`lab-2`) and with the console's own computer.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.aip.extensions import FEATURES
from core.aip.pairing import decode_pairing, encode_pairing
from core.approvals.models import Approval
from core.approvals.operator_keys import OperatorKey, create_operator_key, statement_for
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.journal import Journal
from core.batch.models import AskedExpression, Batch, Run
from core.changes import Change, ChangeKind
from core.errors import QuarterdeckError
from core.fleet.models import DeviceSettings
from core.home import Home
from core.ids import new_id
from core.models.devices import Health
from core.models.tools import Risk
from core.policy.agent_models import AgentSettings
from core.policy.grants import GrantTerms, exact_arguments
from core.policy.models import Profile
from core.policy.policy_file import with_profile
from core.policy.policy_store import text_digest
from core.service.console import BackupKey, Console, Event
from core.service.rpc.client import RemoteConsole
from core.service.trusted import POLICY_SUBJECT
from core.tasks import TaskGroupOwner
from core.user import user_name
from tests.fakes.agents import add_agent, set_agent
from tests.fakes.desk import next_approval
from tests.fakes.remote_device import make_listening_home, paired, stands
from tests.fakes.scripted_device import ScriptedDevice, scripted, tool
from tests.fakes.service_process import service_process, until
from tests.fakes.signing import identify, signed_by, signing
from tests.golden.readings import calls, entries, events, link
from tests.golden.recordings import Chance, lines_of
from tests.golden.relays import Recording, relayed_link, relayed_socket

PATIENCE = 30.0
LOOK = "get_system_info"
OWN, SCRIPTED, OURS = "this-computer", "lab-1", "lab-2"
POLICY = """profile = "guarded"

[[rule]]
id = "short"
decision = "ask"
tool = "poke"
expires = 5

[[rule]]
id = "two"
decision = "ask"
tool = "write_file"
approvers = 2

[[rule]]
id = "looks"
decision = "allow"
device = "lab-1"
tool = ["get_system_info", "screenshot"]
risk = ["low", "medium", "high"]

[[rule]]
id = "seen"
decision = "allow"
device = "lab-1"
tool = "get_system_info"
risk = ["low", "medium", "high"]
evidence = ["before"]
parameters.info_type = { equals = "seen" }

[[rule]]
id = "never"
decision = "deny"
tool = "shell_execute"
parameters.command = { pattern = "^reboot" }
"""
# A PNG of one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BATCH = {
    "name": "look and poke",
    "targets": f"name:{SCRIPTED}",
    "steps": [
        {"id": "look", "tool": LOOK},
        {"id": "press", "tool": "shell_execute", "with": {"command": "false"}},
        {"id": "after", "tool": LOOK},
    ],
}


def shell() -> dict[str, Any]:
    """The tool of the scripted device that runs a line."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    return {**tool("shell_execute", "Runs a line."), "input_schema": schema}


def tools(description: str = "Does what it is called.") -> list[dict[str, Any]]:
    """What the scripted device lists."""
    schema = {"type": "object", "properties": {"info_type": {"type": "string"}}}
    look = {**tool(LOOK, "Looks.", "data_collection"), "input_schema": schema}
    screen = tool("screenshot", "Takes a picture.", "data_collection")
    return [tool("poke", description), look, screen, shell()]


@dataclass(slots=True)
class Play:
    """One play of the story and what was recorded of it."""

    folder: Path
    home: Home
    key: OperatorKey
    others: tuple[OperatorKey, OperatorKey]
    door: Recording = field(default_factory=Recording)
    links: dict[str, Recording] = field(default_factory=lambda: {SCRIPTED: Recording(), OURS: Recording()})
    journal: list[dict[str, Any]] = field(default_factory=list)
    undo: str = ""
    # The console as it is, which signs nothing by itself.
    client: Console | None = None

    @property
    def root(self) -> Path:
        """Where our own device may write."""
        return self.folder / "root"


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder for a play, its path always of one length: summaries shorten what is long."""
    with tempfile.TemporaryDirectory(prefix="golden-", dir="/tmp") as folder:  # made by tempfile
        yield Path(folder)


@asynccontextmanager
async def attached(play: Play) -> AsyncIterator[Console]:
    """A client of the control socket behind a relay, with an operator at it who has proved it."""
    async with contextlib.AsyncExitStack() as stack:
        front = Home(play.folder / f"front-{len(play.door.frames)}").create()
        await stack.enter_async_context(relayed_socket(front, play.home, play.door))
        console = await RemoteConsole.connect(front, "window", "operator:anna")
        stack.push_async_callback(console.close)
        # Otherwise the events of the story are those for which it happens to wait.
        tasks = TaskGroupOwner("golden story")
        stack.push_async_callback(tasks.close)
        tasks.spawn("events", read_all(console.events()))
        play.client = console
        yield signing(console, play.home)


async def read_all(events: AsyncIterator[Event]) -> None:
    """Read events until the service is gone."""
    with contextlib.suppress(QuarterdeckError):
        async for _ in events:
            pass


async def verified(console: Console) -> None:
    """Wait until the service has verified its journal, as it does once it has started."""
    async with asyncio.timeout(PATIENCE):
        events = console.events()
        while (await console.service.state()).journal.verified_ok is None:
            await anext(events)


def stranger() -> OperatorKey:
    """A key that says it is the operator's and is not."""
    return OperatorKey("anna", False, Ed25519PrivateKey.generate())


async def ended(console: Console, run: Run) -> Run:
    """The run once it has ended."""
    now = await console.runs.wait(run.summary.id, PATIENCE)
    assert now.summary.state.ended, now
    return now


async def answer(play: Play, console: Console, verdict: Any, reason: str = "", **more: Any) -> Approval:
    """Answer what waits."""
    approval = await next_approval(console)
    return await console.approvals.decide(
        play.key.sign(statement_for(approval, verdict, "anna", reason)), **more
    )


async def refused(call: Any) -> QuarterdeckError:
    """The error that a call ends with."""
    try:
        await call
    except QuarterdeckError as error:
        return error
    raise AssertionError("It was not refused")


async def begin(play: Play, console: Console) -> tuple[int, str, str]:
    """Operators, a policy, two devices; gives the port, the token of `lab-1`, the string of `lab-2`."""
    await stands(console, OWN, Health.ONLINE)
    await console.approvals.register_operator(play.key.operator)
    await identify(console, play.key)
    for other in play.others:
        await console.approvals.register_operator(other.operator)
    text = await console.policy.text()
    await console.policy.check(POLICY)
    await refused(console.policy.save("profile = ", text.digest))
    await console.policy.save(POLICY, text.digest)
    await console.policy.accept((await console.policy.text()).digest)
    await console.service.accept_settings()
    await console.devices.listening()
    address = urlsplit((await console.devices.pair(SCRIPTED, DeviceSettings(tags=["lab"]))).stock_url)
    ours = await console.devices.pair(OURS, DeviceSettings(tags=["lab"], production=False))
    assert address.port
    return address.port, parse_qs(address.query)["token"][0], ours.string


async def reads(play: Play, console: Console, device: ScriptedDevice) -> None:
    """What only looks: the devices, one read, calls that are refused before they are commands."""
    await console.devices.tools(SCRIPTED)
    await console.devices.match("tag:lab")
    await console.devices.details(SCRIPTED)
    await console.devices.diagnose(SCRIPTED)
    await console.policy.explain(SCRIPTED, "shell_execute", {"command": "id"})
    await console.policy.explanation(SCRIPTED, "shell_execute", {"command": "reboot now"}, "agent:clerk")
    run = await console.runs.call(SCRIPTED, LOOK, {}, said="a look")
    await device.answer(await device.command(), {"seen": ["a", "b"]})
    await ended(console, run)
    run = await console.runs.call(SCRIPTED, LOOK, {"info_type": "seen"})
    await device.answer(await device.command(), {"media_type": "image/png", "data_base64": PIXEL})
    await device.answer(await device.command(), {"seen": []})
    result = (await ended(console, run)).cells[0].result
    assert result is not None
    await console.runs.evidence(run.summary.id, result.evidence[0].blob)
    await console.runs.results(run.summary.id)
    await console.runs.alternatives(run.summary.id, SCRIPTED, run.summary.steps[0])
    await console.devices.search("look", f"name:{SCRIPTED}")
    await console.devices.describe(SCRIPTED, LOOK)
    for name, arguments in (("nothing", {}), ("shell_execute", {"command": 7}), ("shell_execute", {})):
        await ended(console, await console.runs.call(SCRIPTED, name, arguments))
    await ended(console, await console.runs.call(SCRIPTED, "shell_execute", {"command": "reboot"}))
    await refused(console.runs.call("nowhere", LOOK, {}))


async def agents(play: Play, console: Console) -> None:
    """An agent that is added, loosened, tightened and revoked."""
    await refused(console.agents.add("clerk", AgentSettings()))
    await add_agent(console, play.key, "clerk", AgentSettings(targets="tag:lab"))
    await refused(console.agents.update("clerk", AgentSettings()))
    await set_agent(console, play.key, "clerk", AgentSettings(targets="tag:lab", waiting=30))
    await console.agents.update("clerk", AgentSettings(targets="tag:lab", paused=True))
    await console.agents.list()
    await set_agent(console, play.key, "clerk", AgentSettings(targets="tag:lab"))
    await console.agents.pause("clerk")
    await refused(console.agents.introduce("stdio", "story", "1"))
    await console.agents.stop("clerk")
    await console.agents.tallies()
    await console.agents.commands("clerk")
    await console.agents.revoke("clerk")
    await refused(console.agents.revoke("clerk"))


async def approvals(play: Play, console: Console, watcher: Console, device: ScriptedDevice) -> None:
    """Approved, edited, denied, expired, stopped, cancelled; under a grant."""
    run = await console.runs.call(SCRIPTED, "shell_execute", {"command": "rm -rf build"})
    asked = await next_approval(console)
    await console.approvals.get(asked.id)
    await console.approvals.preview(asked.id)
    for helper in await console.approvals.helpers(asked.id):
        await console.policy.explain(SCRIPTED, helper.tool, helper.parameters)
    await refused(console.approvals.run_helper(asked.id, "none"))
    await console.approvals.hold(asked.id, True)
    await console.approvals.hold(asked.id, False)
    await console.approvals.edit(asked.id, {"command": "rm -r build"})
    edited = await next_approval(console)
    await refused(console.approvals.decide(stranger().sign(statement_for(edited, "approve", "anna", ""))))
    await console.approvals.decide(play.key.sign(statement_for(edited, "approve", "anna", "")))
    frame = await device.command()
    if_progress = {"call_id": frame["actions"][0]["call_id"], "stream": "stdout", "text": "gone\n"}
    await device.say(type="quarterdeck.progress", seq=0, **if_progress)
    await device.answer(frame, "done")
    await ended(console, run)

    run = await console.runs.call(SCRIPTED, "shell_execute", {"command": "id"})
    await answer(play, console, "deny", "Not now")
    denied = await ended(console, run)
    run = await console.runs.call(SCRIPTED, "poke", {})
    await ended(console, run)  # Nobody answers: it expires.
    run = await console.runs.call(SCRIPTED, "shell_execute", {"command": "id"})
    await next_approval(console)
    await console.runs.stop(run.summary.id)
    await ended(console, run)
    run = await console.runs.call(SCRIPTED, "shell_execute", {"command": "sleep 9"})
    await answer(play, console, "approve")
    frame = await device.command()
    await console.runs.stop(run.summary.id)
    stop = await device.command()
    await device.answer(stop, {"cancelled": True})
    await device.say(
        type="command_results",
        client_type="device",
        client_id=SCRIPTED,
        status=frame["status"],
        session_id=frame["session_id"],
        prev_response_id=frame["response_id"],
        timestamp=frame["timestamp"],
        action_results=[
            {
                "status": "failure",
                "error": "cancelled: stopped",
                "result": None,
                "call_id": frame["actions"][0]["call_id"],
            }
        ],
    )
    await ended(console, run)

    run = await console.runs.call(SCRIPTED, "shell_execute", {"command": "sleep 1"}, 0.5)
    await answer(play, console, "approve")
    frame = await device.command()
    await ended(console, run)
    await device.answer(frame, "too late")
    await until(watcher, lambda: _has(watcher, "kind:late_answer_received"), watcher.events())

    run = await console.runs.call(SCRIPTED, "shell_execute", {"command": "uptime"})
    asked = await next_approval(console)
    terms = GrantTerms(
        id=f"g-{new_id()}",
        approval=asked.id,
        author="anna",
        devices=[SCRIPTED],
        tool_key=asked.request.tool_key,
        contract=asked.request.contract,
        actors=[asked.actor],
        arguments=exact_arguments(asked.request.parameters),
        risk=Risk.HIGH,
        uses=3,
        expires=(datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    )
    await console.approvals.decide(
        play.key.sign(statement_for(asked, "approve", "anna", "")), play.key.sign_grant(terms)
    )
    for _again in range(2):
        await device.answer(await device.command(), "up")
        await ended(console, run)
        run = await console.runs.call(SCRIPTED, "shell_execute", {"command": "uptime"})
    await device.answer(await device.command(), "up")
    await ended(console, run)
    await console.approvals.grants()
    await console.approvals.revoke_grant(terms.id)
    await console.approvals.fatigue("anna")

    run = await console.runs.call(SCRIPTED, "shell_execute", {"command": "id"})
    await next_approval(console)
    await console.service.stop_all()
    await ended(console, run)
    await ended(console, await console.runs.call(SCRIPTED, LOOK, {}))
    await console.service.resume()
    command = denied.cells[0].result
    assert command is not None
    await console.journal.command(command.call_id)


async def batches(play: Play, console: Console, device: ScriptedDevice) -> None:
    """A batch that stops at its second step."""
    batch = Batch.model_validate(BATCH)
    await console.runs.save_batch(batch.name, batch)
    await console.runs.batch_names()
    await console.runs.load_batch(batch.name)
    await console.runs.rename_batch(batch.name, "poke")
    await console.runs.saved_batches()
    await console.runs.delete_batch("poke")
    await refused(console.runs.load_batch("none"))
    await console.runs.plan(batch)
    condition = AskedExpression(place="when", text="device.platform == 'linux'")
    await console.runs.try_expressions(batch, batch.steps[0].id, [condition])
    await refused(console.runs.start(batch, ["lab-9"]))
    run = await console.runs.start(batch, [SCRIPTED])
    await device.answer(await device.command(), {"seen": []})
    await answer(play, console, "approve", "As planned")
    await device.answer(await device.command(), {"success": False, "error": "no such thing"})
    await ended(console, run)
    await console.runs.get(run.summary.id)
    await console.runs.list()
    await console.runs.find("look poke")
    await console.runs.cells(run.summary.id)
    await console.runs.output(run.summary.id, SCRIPTED, run.summary.steps[0])
    await console.runs.compare(run.summary.id, run.summary.id)
    await refused(console.runs.undo(run.summary.id))
    await console.journal.timeline(run.summary.id)
    await console.journal.find_in_results(["no", "such"], run.summary.id)
    await refused(console.runs.pause(run.summary.id))
    await refused(console.runs.unpause(run.summary.id))
    await refused(console.runs.cancel_step(run.summary.id, SCRIPTED, "press"))
    await console.runs.settle(run.summary.id, SCRIPTED, "press", "done")
    resumed = await console.runs.resume(run.summary.id)
    await device.answer(await device.command(), {"seen": []})
    await ended(console, resumed)


async def files(play: Play, console: Console) -> None:
    """Our own device: written under two signatures, read, run, taken back."""
    path = str(play.root / "notes.txt")
    run = await console.runs.call(OURS, "write_file", {"file_path": path, "content": "first\n"})
    asked = await next_approval(console)
    await console.approvals.preview(asked.id)
    for other in play.others:
        await console.approvals.decide(other.sign(statement_for(asked, "approve", other.name, "")))
    run = await ended(console, run)
    result = run.cells[0].result
    assert result is not None
    assert result.error is None, result
    await ended(console, await console.runs.call(OURS, "read_file", {"file_path": path}))
    await ended(console, await console.runs.call(OURS, "list_directory", {"path": str(play.root)}))
    for line in ("printf golden", "exit 3"):
        run = await console.runs.call(OURS, "shell_execute", {"command": line})
        await answer(play, console, "approve")
        await ended(console, run)
    run = await console.runs.call(OURS, "shell_execute", {"command": "printf many"})
    asked = await next_approval(console)
    signed = [other.sign(statement_for(asked, "deny", other.name, "Not now")) for other in play.others[:1]]
    await console.approvals.decide_many(signed)
    await ended(console, run)
    await ended(console, await console.runs.call(OURS, "read_file", {"file_path": "/opt/other.txt"}))
    play.undo = result.result["undo"]
    await console.runs.undo_plan(run.summary.id)
    await refused(console.runs.undo(run.summary.id, "0" * 64))
    run = await console.runs.call(OURS, "undo", {"undo_id": play.undo})
    await answer(play, console, "approve")
    await ended(console, run)


async def journal(play: Play, console: Console) -> None:
    """What the journal answers."""
    page = await console.journal.entries("verdict:confirmed", limit=5)
    first = page.entries[0]
    await console.journal.entry(first.seq)
    await console.journal.numbers("kind:command_refused")
    await console.journal.histogram("", 2)
    await console.journal.facets("tool")
    await console.journal.prove(3)
    await console.journal.export("kind:run_started run:r-0001")
    await console.journal.timeline(around=first.seq)
    await console.policy.backtest(POLICY)
    for blob in [
        sha for entry in (await console.journal.entries("kind:policy_saved")).entries for sha in entry.blobs
    ]:
        await console.journal.blob(blob)
    await console.journal.verify()
    await refused(console.journal.entry(10_000_000))


async def changes(play: Play, console: Console, watcher: Console, device: ScriptedDevice) -> None:
    """A policy that is broken for a while, a forged signature, a tool that changed, settings."""
    for text, is_broken in (("profile = \n", True), (POLICY, False)):
        # In one step: the service looks at the file at any moment, also at a half-written one.
        other = play.home.path / "policy.other"
        other.write_text(text)
        other.chmod(0o600)
        other.replace(play.home.policy)
        await until(watcher, lambda broken=is_broken: _is_broken(watcher, broken), watcher.events())
    laxer = with_profile(POLICY, Profile.TRUSTED)
    wish = Change(kind=ChangeKind.POLICY, subject=POLICY_SUBJECT, after={"sha256": text_digest(laxer)})
    forged = signed_by(stranger(), await console.service.propose(wish, laxer))
    assert play.client is not None
    await refused(play.client.policy.set_profile(Profile.TRUSTED, forged))
    device.tools = tools("Presses something else.")
    await console.devices.reconnect(SCRIPTED)
    run = await ended(console, await console.runs.call(SCRIPTED, "poke", {}))
    assert run.cells[0].result is not None
    await console.devices.tool_change(SCRIPTED, "action::poke")
    [poke] = [one for one in await console.devices.tools(SCRIPTED) if one.tool_name == "poke"]
    await console.devices.review_tool(SCRIPTED, "action::poke", poke.contract.digest)
    await console.devices.update(SCRIPTED, DeviceSettings(tags=["lab", "new"], production=True))
    await console.devices.watch([SCRIPTED])
    await device.answer(await device.command(), {"media_type": "image/png", "data_base64": PIXEL})
    await until(watcher, lambda: _has(watcher, "kind:result_recorded glimpse"), watcher.events())
    await console.devices.watch([])
    await console.policy.set_profile(Profile.LOCKDOWN)
    await console.policy.set_profile(Profile.GUARDED)
    await console.service.propose(Change(kind=ChangeKind.RESUME))
    await refused(console.devices.pair_listening("lab-3", "nonsense", DeviceSettings()))


async def lost(play: Play, console: Console, device: ScriptedDevice) -> None:
    """A device that vanishes while an action runs: nobody knows what became of it."""
    run = await console.runs.call(SCRIPTED, "shell_execute", {"command": "vanish"}, 2.0)
    await answer(play, console, "approve")
    await device.command()
    await device.connection.close()
    await ended(console, run)
    await stands(console, SCRIPTED, Health.OFFLINE, Health.RECONNECTING)


async def last(play: Play, console: Console) -> None:
    """Devices and operators go, and the service."""
    await console.devices.rejected_connections()
    with contextlib.suppress(QuarterdeckError):
        # No other machine has come.
        await console.devices.accept_machine(OURS, "f" * 64)
    await console.devices.certificates()
    with contextlib.suppress(QuarterdeckError):
        # It listens without TLS.
        await console.devices.renew_certificate()
    with contextlib.suppress(QuarterdeckError):
        await console.devices.switch_certificate()
    await console.devices.listen("127.0.0.1:0")
    await console.devices.revoke(OURS)
    events = console.events()
    await console.devices.forget(OURS)
    async for event in events:
        if event.event == "device_forgotten":
            break
    await console.approvals.remove_operator("bert")
    with contextlib.suppress(QuarterdeckError):
        # Nothing is written over.
        await console.service.backup("/", BackupKey(salt="0" * 64, key="1" * 64))
    await console.service.shut_down(True)


async def play_story(folder: Path) -> Play:
    """Play it in this folder."""
    home = make_listening_home(folder / "home")
    anna, bert, cleo = (create_operator_key(home, name, None) for name in ("anna", "bert", "cleo"))
    play = Play(folder, home, anna, (bert, cleo))
    async with contextlib.AsyncExitStack() as stack:
        service = await stack.enter_async_context(service_process(home))
        watcher = await service.console()
        await verified(watcher)
        console = await stack.enter_async_context(attached(play))
        port, token, pairing = await begin(play, console)
        near = await stack.enter_async_context(relayed_link(port, play.links[SCRIPTED]))
        url = f"ws://127.0.0.1:{near}/ws"
        async with contextlib.AsyncExitStack() as devices:
            with contextlib.suppress(Exception):
                async with scripted(url, "wrong", SCRIPTED):
                    pass
            device = await devices.enter_async_context(
                scripted(url, token, SCRIPTED, features=sorted(FEATURES - {"chunks"}))
            )
            await stands(console, SCRIPTED, Health.ONLINE)
            device.tools = tools()
            await console.devices.reconnect(SCRIPTED)
            await reads(play, console, device)
            await approvals(play, console, watcher, device)
            await batches(play, console, device)
            await changes(play, console, watcher, device)
            await lost(play, console, device)
            await agents(play, console)
        ours = await stack.enter_async_context(relayed_link(port, play.links[OURS]))
        play.root.mkdir()
        (folder / "ours").mkdir()
        (folder / "ours" / "device.toml").write_text(f'roots = ["{play.root}"]\n')
        line = decode_pairing(pairing)
        string = encode_pairing(replace(line, url=line.url.replace(f":{port}/", f":{ours}/")))
        async with paired(folder / "ours", string):
            await stands(console, OURS, Health.ONLINE)
            await files(play, console)
            await journal(play, console)
            # The service is killed while a command is on its way.
            run = await console.runs.call(OURS, "shell_execute", {"command": "sleep 30"})
            await answer(play, console, "approve")
            sent = f"kind:command_sent run:{run.summary.id}"
            await until(watcher, lambda: _has(watcher, sent), watcher.events())
            await service.kill()
    async with service_process(home) as service, contextlib.AsyncExitStack() as stack:
        await verified(await service.console())
        console = await stack.enter_async_context(attached(play))
        await stands(console, OWN, Health.ONLINE)
        await identify(console, play.key)
        await console.runs.get(run.summary.id)
        await last(play, console)
        await service.ends()
    kept = await Journal.open(home.path, load_or_create_journal_key(home.keys / "journal.key"), "quarterdeck")
    try:
        before = None
        while (page := await kept.query("", limit=200, before=before)).entries:
            play.journal += [entry.model_dump(mode="json") for entry in page.entries]
            before = page.entries[-1].seq
    finally:
        await kept.close()
    play.journal.reverse()
    return play


async def _is_broken(console: Console, expected: bool) -> bool:
    policy = (await console.service.state()).policy
    return bool(policy.problem) is expected


async def _has(console: Console, query: str) -> bool:
    return bool((await console.journal.entries(query)).entries)


def read_play(play: Play, fixed: frozenset[str]) -> tuple[dict[str, list[str]], set[str]]:
    """What the play left, with nothing of chance in it, and the strings that were held to be of chance."""
    places = {
        str(play.folder): "<folder>",
        socket.gethostname(): "<host>",
        play.undo: "<undo>",
        user_name(): "<user>",
        platform.python_version(): "<python>",
    }
    bound = (entry["body"]["machine"] for entry in play.journal if entry["kind"] == "device_bound")
    places |= dict.fromkeys(bound, "<machine>")
    found, seen = {}, set()
    for name, recording in {
        "journal": entries(play.journal),
        "door": calls(play.door.frames),
        "events": events(play.door.frames),
        "device": link(play.links[SCRIPTED].frames),
        "our_device": link(play.links[OURS].frames),
    }.items():
        chance = Chance(fixed, places)
        found[name] = lines_of(chance.plain(recording))
        seen |= chance.seen
    return found, seen

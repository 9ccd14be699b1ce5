"""The envelope of a command's outcome: its published schema, its alternatives, and what it never offers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from core.commands.results import Basis, CommandStage, Verdict
from core.errors import BadInput, ErrorCode
from core.home import Home
from core.models.devices import Health
from core.service.alternatives import printed_file
from core.service.console import Console
from core.service.envelope import Envelope, envelope_schema
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import choose_channel, next_approval, open_service
from tests.fakes.lab_device import AWAY, pair
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.scripted_device import scripted
from tests.fakes.signing import accepted, signing

PUBLISHED = Path(__file__).parents[3] / "resources" / "envelope.schema.json"
POLICY = """
profile = "guarded"
[[rule]]
id = "scripted"
decision = "{answer}"
tool = "poke"
risk = ["low", "medium", "high"]
reason = "A test's."
"""


async def outcome(console: Console, device: str, name: str, **parameters: object) -> Envelope:
    run = await console.runs.call(device, name, dict(parameters))
    await console.runs.wait(run.summary.id, PATIENCE_S)
    [envelope] = (await console.runs.results(run.summary.id)).results
    return envelope


def codes(envelope: Envelope) -> tuple[ErrorCode, list[tuple[str, str]]]:
    assert envelope.error is not None
    return envelope.error.code, [(one.tool, one.device) for one in envelope.error.alternatives]


def test_the_published_schema_is_the_models():
    assert json.loads(PUBLISHED.read_text()) == envelope_schema(), (
        "python -m core.service.envelope > resources/envelope.schema.json"
    )


async def test_every_outcome_fits_the_published_schema(home: Home):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = LocalConsole(service, "operator:anna")
        envelopes = [
            await outcome(console, "this-computer", "get_system_info", info_type="os"),
            await outcome(console, "this-computer", "get_system_info", info_type="nonsense"),
            await outcome(console, "this-computer", "nothing"),
        ]
        run = await console.runs.call("this-computer", "shell_execute", {"command": "id"})
        approval = await next_approval(console)
        envelopes += (await console.runs.results(run.summary.id)).results
        waiting = envelopes[-1]
        assert waiting.error is not None
        assert (waiting.error.code, waiting.approval) == (ErrorCode.APPROVAL_PENDING, approval.id)
        assert (waiting.verdict, waiting.basis, waiting.stage) == (None, None, CommandStage.APPROVE)
        for envelope in envelopes:
            Draft202012Validator(json.loads(PUBLISHED.read_text())).validate(envelope.model_dump(mode="json"))


@contextlib.asynccontextmanager
async def lab(path: Path, policy: str) -> AsyncIterator[Console]:
    """A console under this policy, with lab-1 connected, which offers `poke`."""
    home = make_listening_home(path / "home")
    await accepted(home, policy)
    service = await Service.open(home)
    try:
        console = signing(LocalConsole(service, "operator:anna"), home)
        url, token = await pair(console)
        async with scripted(url, token, "lab-1"):
            await stands(console, "lab-1", Health.ONLINE)
            yield console
        await stands(console, "lab-1", *AWAY)
        assert codes(await outcome(console, "this-computer", "poke")) == (ErrorCode.UNKNOWN_TOOL, [])
    finally:
        await service.close()


async def test_a_tool_that_is_not_there_is_offered_on_a_device_that_has_it_and_is_online(memory_path: Path):
    async with lab(memory_path, POLICY.format(answer="allow")) as console:
        envelope = await outcome(console, "this-computer", "poke")
        assert codes(envelope) == (ErrorCode.UNKNOWN_TOOL, [("poke", "lab-1")])
        assert envelope.error is not None
        [run] = await console.runs.list(limit=1)
        asked = await console.runs.alternatives(run.id, "this-computer", "call")
        assert asked == envelope.error.alternatives
        with pytest.raises(BadInput, match="has no step call on lab-9"):
            await console.runs.alternatives(run.id, "lab-9", "call")
        assert (envelope.verdict, envelope.basis) == (Verdict.REFUSED, Basis.NOTHING_SENT)


@pytest.mark.parametrize("answer", ["ask", "deny"])
async def test_nothing_is_offered_that_would_ask_or_be_denied(memory_path: Path, answer: str):
    async with lab(memory_path, POLICY.format(answer=answer)) as console:
        assert codes(await outcome(console, "this-computer", "poke")) == (ErrorCode.UNKNOWN_TOOL, [])
        if answer == "deny":
            assert codes(await outcome(console, "lab-1", "poke")) == (ErrorCode.DENIED_BY_POLICY, [])


async def test_reading_a_file_is_offered_for_a_cat_that_no_shell_can_run(home: Home, tmp_path: Path):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = LocalConsole(service, "operator:anna")
        line = f"cat {tmp_path / 'notes.txt'}"
        envelope = await outcome(console, "this-computer", "bash", command=line)
        assert codes(envelope) == (ErrorCode.UNKNOWN_TOOL, [("read_file", "this-computer")])
        # What the device's own limits forbid is not offered by another name.
        envelope = await outcome(console, "this-computer", "bash", command="cat /etc/shadow")
        assert codes(envelope) == (ErrorCode.UNKNOWN_TOOL, [])
        assert codes(await outcome(console, "this-computer", "read_file", file_path="/etc/shadow")) == (
            ErrorCode.PATH_NOT_ALLOWED,
            [],
        )


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("cat /a/b.txt", "/a/b.txt"),
        ("cat -- '/a/b c.txt'", "/a/b c.txt"),
        ("cat b.txt", "/w/b.txt"),
        ("cat /a /b", ""),
        ("cat -n /a", ""),
        ("cat /a | sh", ""),
        ("cat $(id)", ""),
        ("cat ~/a", ""),
        ("cat /a > /b", ""),
        ("cat 'a", ""),
        ("tac /a", ""),
        ("", ""),
    ],
)
def test_only_a_plain_cat_of_one_file_names_its_file(line: str, path: str):
    assert printed_file("shell_execute", {"command": line, "working_directory": "/w"}) == path
    assert printed_file("poke", {"command": line}) == ""


async def test_what_is_refused_before_a_command_exists_is_journalled_whoever_asks(console: Console, service):
    long = "x" * 20_001
    for actor in ("operator:anna", "cli:anna", "agent:night"):
        caller = LocalConsole(service, actor)
        for call in (
            caller.runs.call("nowhere", "poke", {"password": "hunter2"}),
            caller.runs.call("this-computer", "", {}),
            caller.runs.call("this-computer", "poke", {"a": float("nan")}),
            caller.runs.call("this-computer", "poke", {}, None, long),
        ):
            with pytest.raises(BadInput):
                await call
        entries = (await console.journal.entries(f"kind:command_refused actor:{actor}")).entries
        codes = [entry.body["result"]["error"]["code"] for entry in reversed(entries)]
        assert codes == ["unknown_device", "invalid_arguments", "invalid_arguments", "too_large"]
        assert entries[-1].device == "nowhere"
        assert entries[-1].body["parameters"] == {"password": "str"}

"""Secrets that a device says again, in every way and through every door: none is on disk or on a screen.

The service, its control socket and its log, the device client's process, its hosted server and the command
line are real, and the same for all tests; each test has a secret of its own. What is looked for is looked for
in every file of the home, and in everything shown.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from core.approvals.models import Approval
from core.approvals.operator_keys import OperatorKey
from core.commands.results import CommandResult
from core.home import Home
from core.service.console import ApprovalChanged, DeviceChanged
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.log_setup import logging_to
from core.service.rpc.server import ControlServer
from tests.fakes.desk import approve
from tests.fakes.device_process import forked_device
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run
from tests.fakes.remote_device import Expected, expecting
from tests.fakes.signing import accepted
from tests.fakes.vault_server import OTHER_WAYS, WAYS, kept_in, vault

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "d1"
SECRET = {"type": "string", "writeOnly": True}
HOW = {"how": {"type": "string"}}
# Every secret begins with this, so looking for it is looking for all of them, in every encoding.
MARKER = "tr0ub4dor&3"


def hides(schema: Any, **more: Any) -> dict[str, Any]:
    """The schema of a tool whose argument `hidden` has this schema."""
    return {"properties": {"hidden": schema}, **more}


# Each hides the argument `hidden`, or what is in it: a tool's schema, and the argument.
FORMS: dict[str, tuple[dict[str, Any], Any]] = {
    "a reference that is encoded": (
        hides({"$ref": "#/%24defs/it"}, **{"$defs": {"it": SECRET}}),
        MARKER,
    ),
    "a reference to a place in a list": (
        hides({"$ref": "#/$defs/many/anyOf/1"}, **{"$defs": {"many": {"anyOf": [{}, SECRET]}}}),
        MARKER,
    ),
    "an anchor": (hides({"$ref": "#it"}, **{"$defs": {"s": {**SECRET, "$anchor": "it"}}}), MARKER),
    "a dynamic reference": (
        hides({"$dynamicRef": "#it"}, **{"$defs": {"s": {**SECRET, "$dynamicAnchor": "it"}}}),
        MARKER,
    ),
    "dependent schemas": (hides({}, dependentSchemas={"how": hides(SECRET)}), MARKER),
    "contains": (hides({"type": "array", "contains": SECRET}), ["plain", MARKER]),
    "what is evaluated nowhere else": ({"properties": HOW, "unevaluatedProperties": SECRET}, MARKER),
    "elements that are evaluated nowhere else": (
        hides({"prefixItems": [{}], "unevaluatedItems": SECRET}),
        ["plain", MARKER],
    ),
    "a condition": (hides({"if": {"minLength": 1}, "then": SECRET}), MARKER),
    "a pattern of names": (hides({"patternProperties": {"^s": SECRET}}), {"s1": MARKER, "t": "plain"}),
    "an embedded schema with an address of its own": (
        hides({"$id": "https://a.example/b", "$ref": "#/$defs/it", "$defs": {"it": SECRET}}),
        MARKER,
    ),
    "more alternatives than are read": (
        hides({"anyOf": [*({"const": number} for number in range(1_500)), SECRET]}),
        MARKER,
    ),
    "a list of objects": (hides({"items": {"properties": {"word": SECRET}}}), [{"word": MARKER}]),
}
NAMES = [
    "pin", "auth", "bearer", "cookie", "otp", "pwd", "passwd2", "client_secret_value", "privateKeyPem",
    "passwordHash", "mfa_code", "jwt", "connection_string", "sas_token", "webhook_secret", "signing_key",
    "recovery_codes", "cvv", "X-Api-Key",
]  # fmt: skip
ALLOWS = '[[rule]]\nid = "all"\ndecision = "allow"\ntool = "vault_tool_*"\nrisk = ["low", "medium", "high"]\n'


@dataclass
class Place:
    """A service with one device, and all that it has shown so far."""

    home: Home
    folder: Path
    here: Expected
    key: OperatorKey
    secret: str = ""
    runs: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    async def call(self, tool: str, **given: Any) -> CommandResult:
        run = await self.here.console.runs.call(NAME, tool, given, 30)
        self.runs.append(run.summary.id)
        [cell] = (ended := await self.here.console.runs.wait(run.summary.id, PATIENCE_S)).cells
        self.shown.append(ended.model_dump_json())
        assert cell.result is not None, ended
        return cell.result

    async def says(self, *words: str) -> str:
        """What the command line prints, both streams."""
        ended = await asyncio.to_thread(run, self.home, *words)
        self.shown += [ended.out, ended.err]
        return ended.out

    async def reads(self, query: str) -> None:
        """Look at all journal entries that match, as any client can."""
        before = None
        while (page := await self.here.console.journal.entries(query, before)).entries:
            self.shown.append(page.model_dump_json())
            before = page.entries[-1].seq

    async def check_no_trace(self) -> None:
        """No file of the home and nothing that was shown holds a secret of any test, in whatever encoding."""
        await self.here.service.journal.settle()
        forms = spelt(MARKER)
        files = [path for path in self.home.path.rglob("*") if path.is_file()]
        assert any(path.name == "journal.db" for path in files)
        assert any(path.name == "service.log" for path in files)
        for path in files:
            data = path.read_bytes()
            left = [form for form in forms if form.encode() in data]
            assert not left, f"{path.name} holds {left}"
        for text in self.shown:
            left = [form for form in forms if form in text]
            assert not left, f"{left} in {text[:2_000]}"
        self.shown.clear()


def spelt(secret: str) -> set[str]:
    data = secret.encode()
    inner = base64.b64encode(b"u:" + data).decode().rstrip("=")
    return {secret, json.dumps(secret)[1:-1], quote(secret, safe=""), data.hex(), inner[4:-2]} | {
        base64.b64encode(data).decode().rstrip("=")[:-1]
    }


def tools() -> dict[str, Any]:
    found = {f"tool_{number}": schema for number, (schema, _) in enumerate(FORMS.values())}
    found["tool_plain"] = found["asking"] = {
        "type": "object",
        "properties": {"word": SECRET, "code": {"type": "integer"}, **HOW},
    }
    found["tool_names"] = {"type": "object"}
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "device" / "root").mkdir(parents=True)
    servers = {"mcpServers": vault(folder / "record", tools())}
    (folder / "device" / "mcp.json").write_text(json.dumps(servers))
    (folder / "device" / "device.toml").write_text(
        f'mcp_servers = "mcp.json"\nroots = ["{folder}/device/root"]\n'
    )
    home = Home(folder / "home").create()
    operator = await accepted(home, ALLOWS)
    async with contextlib.AsyncExitStack() as stack:
        here = await stack.enter_async_context(expecting(home, operator, NAME))
        server = ControlServer(LocalConsoles(here.service), home)
        await server.open()
        stack.push_async_callback(server.close)
        made = Place(home, folder, here, operator)
        watching = here.service.tasks.spawn("watch", _watch(made))
        url = f"ws://127.0.0.1:{here.port}/ws"
        await stack.enter_async_context(forked_device(url, folder / "device", here.token))
        events = here.console.events()
        async with asyncio.timeout(PATIENCE_S):
            while not any(
                tool.tool_name == "vault_tool_plain" for tool in await here.console.devices.tools(NAME)
            ):
                await anext(event async for event in events if isinstance(event, DeviceChanged))
        yield made
        watching.cancel()


_numbers = itertools.count(1)


@pytest.fixture
def log(shared_place: Place) -> Iterator[None]:
    """Each test ends the log; this begins it again."""
    with logging_to(shared_place.home.log):
        yield


@pytest_asyncio.fixture(loop_scope="module")
async def place(shared_place: Place, log: None) -> Place:
    """The place of all tests, whose server forgets what earlier ones have brought, with another secret."""
    shared_place.secret = f"{MARKER}-{next(_numbers):03}"
    await shared_place.call("vault_tool_plain", forget=True)
    shared_place.runs.clear()
    return shared_place


async def _watch(place: Place) -> None:
    """Keep every event that a window would get."""
    async for event in LocalConsole(place.here.service, "operator:watching").events():
        place.shown.append(event.model_dump_json())


@pytest.mark.parametrize("how", [*WAYS, *OTHER_WAYS])
async def test_what_was_masked_on_the_way_out_is_masked_wherever_it_comes_back(
    place: Place, how: str
) -> None:
    result = await place.call("vault_tool_plain", word=place.secret, code=271_828, how=how)
    [ran] = place.runs
    assert kept_in(place.folder / "record")[-1]["word"] == place.secret, "the device has it as it was"
    later = await place.call("vault_tool_plain", how=how)
    said = await place.here.console.runs.call(
        NAME, "vault_tool_plain", {"how": how}, 30, said=f"I used {place.secret} before"
    )
    await place.here.console.runs.wait(said.summary.id, PATIENCE_S)
    assert "•••" in result.model_dump_json() or result.evidence or how == "in progress"
    assert (result.error is None) == (later.error is None)
    await place.says("runs", "show", ran)
    await place.reads(f"run:{ran}")
    await place.reads(f"run:{said.summary.id}")
    await place.says("call", NAME, "vault_tool_plain", f"how={how}", f"word={place.secret}", "--json")
    await place.check_no_trace()


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_a_schema_that_hides_an_argument_is_seen(place: Place, form: str) -> None:
    number = list(FORMS).index(form)
    result = await place.call(
        f"vault_tool_{number}", hidden=_with(place.secret, FORMS[form][1]), how="in a text"
    )
    assert result.error is None, result
    assert "hidden" in kept_in(place.folder / "record")[-1]
    await place.reads(f"run:{place.runs[-1]}")
    await place.check_no_trace()


@pytest.mark.parametrize("name", NAMES)
async def test_an_argument_with_the_name_of_a_secret_is_one(place: Place, name: str) -> None:
    result = await place.call(
        "vault_tool_names", **{name: place.secret, "author": "anna", "how": "in a text"}
    )
    assert result.error is None
    assert "anna" in result.model_dump_json()
    await place.check_no_trace()


def _with(secret: str, value: Any) -> Any:
    """An argument of `FORMS` with this secret in it."""
    return json.loads(json.dumps(value).replace(MARKER, secret))


async def test_a_number_comes_back_masked_as_a_whole_and_in_texts(place: Place) -> None:
    await place.call("vault_tool_plain", word=place.secret)
    await place.call("vault_tool_names", pin=271_828_182)
    result = await place.call(
        "vault_tool_names", said=[271_828_182, "code 271828182!", 271], how="in a member"
    )
    assert "code •••!" in result.model_dump_json()


async def test_the_command_line_shows_none_either(place: Place) -> None:
    for how in ("in a text", "in an error"):
        await place.call("vault_tool_plain", word=place.secret, how=how)
        assert "•••" in await place.says("call", NAME, "vault_tool_plain", f"how={how}")
    assert "result_recorded" in await place.says("audit", "find", "", "--json")
    assert NAME in await place.says("audit", "find", "kind:command_prepared", "--json", "--limit", "1000")
    await place.check_no_trace()


async def test_a_request_that_waits_shows_no_secret_and_neither_does_what_is_said_about_it(
    place: Place,
) -> None:
    console = place.here.console
    events = console.events()
    run = await console.runs.call(
        NAME, "vault_asking", {"word": place.secret, "how": "in a text"}, 30, said=f"It is {place.secret}"
    )
    asked: Approval | None = None
    async for event in events:
        if isinstance(event, ApprovalChanged):
            asked = event.approval
            break
    assert asked is not None
    assert asked.said == "It is •••"
    await place.says("approvals", "show", asked.id)
    await place.says("approvals", "list", "--json")
    await approve(console, asked, place.key)
    ended = await console.runs.wait(run.summary.id, PATIENCE_S)
    place.shown.append(ended.model_dump_json())
    await place.check_no_trace()


async def test_a_tool_that_is_not_there_bares_nothing(place: Place) -> None:
    for tool, given in (
        ("vault_tool_plane", {"word": place.secret}),
        ("type_text", {"text": place.secret, "secret": True}),
        ("vault_tool_plain", {"word": {"$secret": place.secret}}),
        ("vault_tool_plain", {"word": [place.secret]}),
        ("vault_tool_plain", {"code": "x", "password": place.secret}),
    ):
        result = await place.call(tool, **given)
        assert result.error is not None
    await place.says("call", NAME, "type_text", f"text={place.secret}", "secret=true")
    await place.check_no_trace()

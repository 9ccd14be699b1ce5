"""Words that a home offers, from a console at the end of a real socket; its devices say what they like."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.completion import offers as offers_module
from core.completion.answer import answer, offers_at
from core.completion.scripts import Shell
from core.completion.words import Offer
from core.home import Home
from core.models.device_filter import parse_filter
from core.models.devices import Device, Health
from core.models.tools import Risk
from tests.fakes.control_socket import HERE, FakeHost, serving, tool
from tests.fakes.fleet_data import ago
from tests.fakes.patience import PATIENCE_S

TABLE = json.loads((Path(__file__).parents[3] / "resources" / "commands.json").read_text("utf-8"))
HOSTILE = (
    "\x1b]0;owned\x07",
    "a\nb",
    "a\tb",
    "safe\u202egnp.exe",
    "zero\u200bwidth",
    "bell\x07",
    "\u05d0\u05d1 lab",
    "tag\U000e0041",
    "csi\x9b31m",
)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers_module, "WITHIN", PATIENCE_S)


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
async def home(tmp_path: Path, host: FakeHost) -> AsyncIterator[Home]:
    home = Home(tmp_path / "h").create()
    async with serving(home, host):
        yield home


async def found(home: Home, *words: str) -> list[Offer]:
    line = ["--home", str(home.path), *words]
    return await asyncio.to_thread(offers_at, line, TABLE)


async def texts(home: Home, *words: str) -> list[str]:
    return [offer.text for offer in await found(home, *words)]


def schema(host: FakeHost, properties: dict[str, Any], **more: Any) -> None:
    changed = {"type": "object", "properties": properties, **more}
    host.fake.tools_of[HERE] = [tool("echo", Risk.LOW).model_copy(update={"input_schema": changed})]


async def test_where_a_device_or_a_filter_may_stand_both_are_offered(home: Home, host: FakeHost) -> None:
    host.fake.fleet[HERE] = Device(name=HERE, health=Health.ONLINE, since=ago(0), tags=["lab"])
    for words in (("call",), ("tools",), ("devices",), ("devices", "list")):
        assert await texts(home, *words, "th") == [HERE], words
        assert await texts(home, *words, "hea") == ["health:"], words
        assert await texts(home, *words, "tag:") == ["tag:lab"], words
    # The words of the group's own commands come first.
    assert await texts(home, "devices", "se") == ["set"]
    assert await texts(home, "devices", "tag:lab", "nam") == ["name:"]
    assert await texts(home, "call", "tag:lab", "e") == ["echo"]
    assert await texts(home, "call", "tag:none", "e") == []


async def test_devices_tools_arguments_and_values(home: Home, host: FakeHost) -> None:
    assert await texts(home, "call", "th") == [HERE]
    assert await texts(home, "call", HERE, "") == ["change", "echo"]
    assert await texts(home, "call", HERE, "echo", "text=x", "") == ["count=", "deep=", "many:="]
    assert await texts(home, "call", HERE, "echo", "deep=") == ["deep=true", "deep=false"]
    assert await texts(home, "policy", "explain", HERE, "echo", "deep:=t") == ["deep:=true"]
    assert await texts(home, "call", "nowhere", "") == []
    assert await texts(home, "call", HERE, "nothing", "") == []


@pytest.mark.parametrize("name", ["lab-1", "Lab 1", 'a"b', "it's", "a:b,c", "w*x", "!x", "\"'"])
async def test_the_service_is_asked_for_the_devices_that_begin_as_typed(
    home: Home, host: FakeHost, name: str
) -> None:
    devices = [Device(name=one, health=Health.ONLINE, since=ago(0)) for one in (name, "other")]
    host.fake.answer(
        "match_devices", lambda targets: [one for one in devices if parse_filter(targets).matches(one)]
    )
    for end in range(1, len(name) + 1):
        assert await texts(home, "call", "--", name[:end]) == [name]


async def test_closed_sets_are_found_behind_references_and_alternatives(home: Home, host: FakeHost) -> None:
    schema(
        host,
        {
            "level": {"$ref": "#/$defs/Level"},
            "one": {"anyOf": [{"const": "x"}, {"enum": ["y", 3, None]}, {"type": "boolean"}]},
            "loop": {"$ref": "#/properties/loop"},
        },
        required=["one"],
        **{"$defs": {"Level": {"type": "string", "enum": ["low", "high: very", "@file"]}}},
    )
    assert await texts(home, "call", HERE, "echo", "") == ["one=", "level=", "loop="]
    assert await texts(home, "call", HERE, "echo", "level=") == ["level=low", "level=high: very"]
    assert await texts(home, "call", HERE, "echo", "level:=") == [
        'level:="low"',
        'level:="high: very"',
        'level:="@file"',
    ]
    assert await texts(home, "call", HERE, "echo", "one=") == [
        *("one=x", "one=y", "one=3", "one=null", "one=true", "one=false"),
    ]
    assert await texts(home, "call", HERE, "echo", "loop=") == []


@pytest.mark.parametrize("shape", [{}, {"properties": []}, {"properties": {"a": 7}, "required": 3}])
async def test_a_schema_of_any_shape_is_read_without_a_fault(home: Home, host: FakeHost, shape: Any) -> None:
    broken = tool("echo", Risk.LOW).model_copy(update={"input_schema": shape})
    host.fake.tools_of[HERE] = [broken]
    assert await texts(home, "call", HERE, "echo", "a=") == []


async def test_what_cannot_be_shown_as_it_is_is_not_offered(home: Home, host: FakeHost) -> None:
    """Neither as a word nor beside one: a device must not write to the terminal at a TAB."""
    schema(
        host,
        {name: {"description": name, "enum": [*HOSTILE, "fine"]} for name in (*HOSTILE, "fine")}
        | {"shown": {"description": " ".join(HOSTILE)}},
    )
    named = (*HOSTILE, "büro 1")
    devices = [Device(name=name, health=Health.ONLINE, since=ago(0), tags=[name]) for name in named]
    host.fake.answer("match_devices", lambda targets: devices)
    host.fake.tools_of[HERE] = [
        host.fake.tools_of[HERE][0].model_copy(update={"title": "".join(HOSTILE)}),
        *(tool(name, Risk.LOW) for name in HOSTILE),
    ]
    lines = []
    for typed in (
        ["call", ""],
        ["call", HERE, ""],
        ["call", HERE, "echo", ""],
        ["call", HERE, "echo", "fine="],
    ):
        for shell in (Shell.ZSH, Shell.FISH):
            lines += await asyncio.to_thread(answer, shell, ["--home", str(home.path), *typed])
        bash = " ".join(["q --home", str(home.path), *typed])
        lines += await asyncio.to_thread(answer, Shell.BASH, [bash, " =:"])
    filters = [
        *await texts(home, "run", "x", "--device", "tag:"),
        *await texts(home, "search", "x", "--device", ""),
    ]
    assert "büro\\ 1" in lines
    assert 'tag:"büro 1"' in filters
    for line in (*lines, *filters):
        assert line.replace("\t", "").isprintable(), line
        assert "\u05d0" not in line


async def test_runs_approvals_and_the_journal_s_words(home: Home, host: FakeHost) -> None:
    host.fake.on_call(HERE, "echo", {}, None, "")
    [run] = await found(home, "runs", "show", "")
    assert "echo" in run.help
    assert await texts(home, "runs", "output", run.text, "") == [HERE]
    assert await texts(home, "runs", "output", run.text, HERE, "") == ["call"]
    assert await texts(home, "audit", "find", "run:r") == [f"run:{run.text}"]
    assert "kind:run_started" in await texts(home, "audit", "find", "kind:run_")
    assert await texts(home, "audit", "find", "!kind:run_started,verdict", "verdict:unk") == [
        "verdict:unknown"
    ]


async def test_nothing_that_changes_is_asked_of_the_service(home: Home, host: FakeHost) -> None:
    host.fake.on_call(HERE, "echo", {}, None, "")
    run = (await texts(home, "runs", "show", ""))[0]
    for words in (
        ["call", ""],
        ["call", HERE, ""],
        ["resume", run, "--input", ""],
        ["run", ""],
        ["run", "saved", "--input", ""],
        ["approvals", "show", ""],
        ["grants", "revoke", ""],
        ["operators", "remove", ""],
        ["agents", "stop", ""],
        ["search", "x", "--device", "name:"],
    ):
        await found(home, *words)
    reads = {"match_devices", "tools", "runs", "run", "batches", "load_batch", "approvals", "grants", "state"}
    assert set(host.asked) <= reads | {"agents"}


async def test_inputs_of_a_batch_file(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "clean.yaml"
    file.write_text(
        "format: quarterdeck.batch/1\n"
        "inputs:\n"
        "  who: {type: string, one_of: [a b, 'x:y'], description: Which one}\n"
        "\n"
        "  # a remark\n"
        "  key: {type: string, secret: true}\n"
        "  list: {type: list}\n"
        "  loud: {type: boolean}\n"
        "steps: [}{ not read\n",
        "utf-8",
    )
    line = ["run", str(file), "--input"]
    assert await texts(home, *line, "") == ["who=", "key=@", "list:=", "loud="]
    assert await texts(home, *line, "who=x", "--input", "l") == ["list:=", "loud="]
    assert await texts(home, *line, "who=") == ["who=a b", "who=x:y"]
    assert await texts(home, *line, "loud=") == ["loud=true", "loud=false"]
    assert await texts(home, "run", str(file), "--input-stdin", "k") == ["key"]
    assert await texts(home, *line, f"key=@{tmp_path}/cl") == [f"key=@{file}"]
    for broken in ("inputs: [}", "\xff", "inputs: 3", "{", "", "inputs:\n  who"):
        file.write_text(broken, "latin-1")
        assert await texts(home, *line, "") == []


def test_without_a_service_the_command_line_and_files_are_still_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clean.yaml").write_text("")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / ".hidden.yaml").write_text("")
    home = ["--home", str(tmp_path / "none")]
    assert [one.text for one in offers_at([*home, "run", ""], TABLE)] == ["clean.yaml"]
    fields = [one.text for one in offers_at([*home, "search", "x", "--device", "he"], TABLE)]
    assert fields == ["health:"]
    closed = [one.text for one in offers_at([*home, "search", "x", "--device", "health:on"], TABLE)]
    assert closed == ["health:online"]
    assert offers_at([*home, "call", ""], TABLE) == []
    assert not (tmp_path / "none").exists()


def test_a_service_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers_module, "WITHIN", 0.05)
    home = Home(tmp_path / "h").create()
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(home.socket))
        deaf.listen()
        assert offers_at(["--home", str(home.path), "call", ""], TABLE) == []


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"garbage\r\n\r\n",
        b"",
    ],
)
def test_what_is_no_service_offers_nothing(tmp_path: Path, said: bytes) -> None:
    home = Home(tmp_path / "h").create()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(home.socket))
        other.listen()

        def serve() -> None:
            peer, _ = other.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(said)

        server = threading.Thread(target=serve)
        server.start()
        assert offers_at(["--home", str(home.path), "call", ""], TABLE) == []
        server.join(PATIENCE_S)


def test_a_socket_that_is_not_this_user_s_alone_is_not_spoken_to(tmp_path: Path) -> None:
    home = Home(tmp_path / "h").create()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(home.socket))
        other.listen()
        other.setblocking(False)
        home.path.chmod(0o777)
        assert offers_at(["--home", str(home.path), "call", ""], TABLE) == []
        with pytest.raises(BlockingIOError):
            other.accept()

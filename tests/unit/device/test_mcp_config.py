"""`mcpServers`: read as other hosts read it, refused with the place, and secrets kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.device.config import load_config
from core.device.mcp.config import ServerConfig, parse_servers, read_servers
from core.errors import BadInput

SECRET = "s3cr3t-token-value"


def one(entry: Any, **environment: str) -> ServerConfig:
    [server] = parse_servers({"one": entry}, "mcp.json", environment)
    return server


def test_a_file_of_another_host_is_read_as_it_is(tmp_path: Path):
    path = tmp_path / "mcp.json"
    said = {
        "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "a-server", "/srv"], "env": {"LEVEL": "debug"}},
            "tickets": {"type": "streamable-http", "url": "https://t.example/mcp", "headers": {"X-A": "b"}},
            "off": {"command": "never", "disabled": True},
        },
        "inputs": [],
    }
    path.write_text(json.dumps(said))
    files, tickets = read_servers(path, {})
    assert (files.name, files.kind, files.command, files.args) == (
        "files",
        "stdio",
        "npx",
        ("-y", "a-server", "/srv"),
    )
    assert dict(files.env) == {"LEVEL": "debug"}
    assert (tickets.kind, tickets.url, dict(tickets.headers)) == (
        "http",
        "https://t.example/mcp",
        {"X-A": "b"},
    )
    assert not files.problem
    assert not tickets.problem


def test_variables_of_the_environment_are_filled_in_everywhere():
    entry = {
        "command": "${TOOL}",
        "args": ["--key=${env:KEY}", "${NONE:-otherwise}", "$KEY"],
        "env": {"A": "${KEY}-${KEY}"},
        "cwd": "${HOME}/x",
    }
    server = one(entry, TOOL="tool", KEY="k", HOME="/home/me")
    assert (server.command, server.args) == ("tool", ("--key=k", "otherwise", "$KEY"))
    assert dict(server.env) == {"A": "k-k"}
    assert server.cwd == "/home/me/x"


def test_a_variable_that_is_not_set_is_that_servers_problem_and_not_the_devices():
    server = one({"command": "x", "env": {"A": "${NOT_SET_HERE}"}})
    assert "NOT_SET_HERE" in server.problem
    assert server.how_to_fix


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"command": 7}, "mcp.json.one.command"),
        ({"command": ""}, "mcp.json.one.command"),
        ({"command": "x", "args": "y"}, "mcp.json.one.args"),
        ({"command": "x", "args": [1]}, "mcp.json.one.args.0"),
        ({"command": "x", "env": {"A": 1}}, "mcp.json.one.env.A"),
        ({"url": "https://x", "headers": {"A": None}}, "mcp.json.one.headers.A"),
        ({"command": "x", "disabled": "no"}, "mcp.json.one.disabled"),
        ({"command": "x", "url": "https://x"}, "mcp.json.one"),
        ({}, "mcp.json.one"),
        ({"httpUrl": "https://x"}, "it has: httpUrl"),
        ({"command": "x", "enabled": "no"}, "mcp.json.one.enabled"),
        ("npx", "mcp.json.one"),
    ],
)
def test_a_wrong_type_is_refused_with_its_place(entry: Any, place: str):
    with pytest.raises(BadInput) as caught:
        one(entry)
    assert place in caught.value.message


@pytest.mark.parametrize(
    "name", ["builtin", " Builtin", "BUILTIN", "quarterdeck", "", "  ", "a\nb", "x" * 65]
)
def test_no_server_takes_the_name_of_our_own_tools_or_none_at_all(name: str):
    with pytest.raises(BadInput):
        parse_servers({name: {"command": "x"}}, "mcp.json", {})


@pytest.mark.parametrize(
    "said", [{"command": "x", "enabled": False}, {"url": "https://x", "disabled": True, "enabled": True}]
)
def test_a_server_that_is_switched_off_in_any_hosts_words_is_not_started(said: dict[str, Any]):
    assert parse_servers({"one": said}, "mcp.json", {}) == []


@pytest.mark.parametrize("kind", ["http", "Streamable-HTTP", "streamableHttp", "streamable_http"])
@pytest.mark.parametrize("key", ["type", "transport", "transportType"])
def test_the_transport_may_be_said_as_other_hosts_do(key: str, kind: str):
    assert not one({"url": "https://x/mcp", key: kind}).problem
    assert "'sse'" in one({"url": "https://x/sse", key: "sse"}).problem


def test_a_file_with_comments_and_last_commas_as_editors_have_it_is_read(tmp_path: Path):
    path = tmp_path / "mcp.json"
    path.write_text(
        """{
  // the servers, [as, VS Code, ] has them
  "servers": {
    "a": {"command": "x", "args": ["https://x//y", "/* no */ \\\\", "a,]",],}, /* two
    lines */
  },
}"""
    )
    [server] = read_servers(path, {})
    assert server.args == ("https://x//y", "/* no */ \\", "a,]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": {"a": {"command": "x"},\n "a": {"command": "y"}}}', "'a' stands twice"),
        ('{"mcpServers": {"a": {"command": "C:\\Users\\x"}}}', "backslash is written twice"),
        ('{"mcpServers": {\n// one\n"a": {"command": x}}}', "line 3 column 18"),
        ('{"mcpServers": {"a": {"command": "x}}}', "line 1"),
    ],
)
def test_a_file_that_is_no_json_is_refused_with_the_place_and_what_to_do(
    tmp_path: Path, text: str, said: str
):
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_servers(path, {})
    assert said in caught.value.message


def test_unknown_keys_are_passed_over():
    assert not one({"command": "x", "alwaysAllow": ["a"], "timeout": 3}).problem


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "sse", "url": "https://x/sse"},
        {"type": "http", "command": "x"},
        {"url": "ftp://x"},
        {"url": "not an address"},
        {"command": "x", "args": ["a\0b"]},
        {"url": "http://[::1"},
        {"url": "https://x", "headers": {"Authorization": "Bearer token\n"}},
        {"url": "https://x", "headers": {"A token": "x"}},
        {"command": "x", "envFile": "${workspaceFolder}/.env"},
        {"command": "x", "envFile": ".env"},
        {"command": "x", "env": {"KEY": "${input:key}"}},
        {"command": "x", "args": ["${workspaceFolder}"]},
    ],
)
def test_what_cannot_be_served_is_named_as_a_problem(entry: Any):
    server = one(entry)
    assert server.problem
    assert server.how_to_fix
    assert isinstance(server.location, str)


@pytest.mark.parametrize("text", ["", "[]", '{"mcpServers": []}', '{"mcpServers": {"a": 1}}', "{"])
def test_a_file_that_is_no_list_of_servers_is_refused_by_name(tmp_path: Path, text: str):
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"mcp\.json"):
        read_servers(path)


def test_secrets_are_in_no_repr_and_are_hidden_from_every_text():
    entry = {
        "url": f"https://user:{SECRET}1@host.example:8443/mcp?key={SECRET}2",
        "headers": {"Authorization": f"Bearer {SECRET}3", "X-Key": "${KEY}"},
    }
    server = one(entry, KEY=f"{SECRET}4")
    assert SECRET not in repr(server)
    assert server.location == "https://host.example:8443/mcp"
    for number in "1234":
        assert SECRET not in server.redact(f"it said {SECRET}{number}!")
    local = one({"command": "run", "args": ["--token", "${KEY}"], "env": {"T": SECRET}}, KEY=f"{SECRET}9")
    assert SECRET not in repr(local)
    assert local.redact(f"{SECRET}9 {SECRET}") == "*** ***"


@pytest.mark.parametrize(
    "entry",
    [
        {"url": f"https://hooks.example/api/v1/s/{SECRET}7f3a/mcp"},
        {"command": "x", "args": ["--api-key", f"{SECRET}7f3a"]},
        {"command": "x", "args": [f"--access-token={SECRET}7f3a"]},
        {"command": "x", "args": ["--header", f"Authorization: Bearer {SECRET}7f3a", "--auth"]},
        {"command": "x", "args": [f"postgresql://me:{SECRET}7f3a@db.example/orders"]},
    ],
)
def test_a_secret_in_an_address_or_an_argument_is_hidden_from_every_text(entry: Any):
    server = one(entry)
    assert SECRET not in repr(server) + server.location
    assert server.redact(f"refused {SECRET}7f3a") == "refused ***"
    # What is none stays readable.
    assert server.redact("hooks.example api orders db.example v1") == "hooks.example api orders db.example v1"


def test_a_file_of_servers_is_found_beside_device_toml_and_closed_to_file_tools(tmp_path: Path):
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    (tmp_path / "device.toml").write_text('mcp_servers = "mcp.json"\n')
    config = load_config(tmp_path / "device.toml")
    assert config.mcp_servers == tmp_path / "mcp.json"
    assert tmp_path / "mcp.json" in config.closed_paths
    assert config.mcp_servers is not None
    assert [server.name for server in read_servers(config.mcp_servers)] == ["a"]


def test_servers_may_stand_in_device_toml_itself(tmp_path: Path):
    (tmp_path / "device.toml").write_text('[mcp_servers.a]\ncommand = "x"\nargs = ["1"]\n')
    config = load_config(tmp_path / "device.toml")
    assert config.mcp_servers is not None
    assert read_servers(config.mcp_servers)[0].args == ("1",)

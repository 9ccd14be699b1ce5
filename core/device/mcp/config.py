"""`mcpServers`: which MCP servers this device hosts, written as for any other MCP host.

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "some-server", "/srv/docs"], "env": {"KEY": "${KEY}"}},
        "tickets": {"type": "http", "url": "https://…/mcp", "headers": {"Authorization": "Bearer ${KEY}"}}
    }}

device.toml names such a file (`mcp_servers = "mcp.json"`, relative to itself), or holds the same as tables
(`[mcp_servers.files]`). No file tool of this device may touch that file: who writes it, runs programs.
`${NAME}`, `${env:NAME}` and `${NAME:-otherwise}` stand for environment variables. A server gets a short list
of harmless variables (PATH, HOME, …) and what `env` says, nothing else. Keys of other hosts that mean nothing
here are passed over with a warning; a wrong type is an error.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import BadInput

log = structlog.get_logger(__name__)

MOST_SERVERS = 64
_MOST_BYTES = 1024 * 1024
_MOST_NAME = 64
_SHORTEST_SECRET = 4
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HTTP_TYPES = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})
# A console trusts what it knows of the tools in our own namespace; no server may speak in its name.
_RESERVED = frozenset({"builtin", "quarterdeck"})

Kind = Literal["stdio", "http"]


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server, its variables filled in. `problem` says why it cannot even be tried.

    What may be secret is kept out of its `repr`.
    """

    name: str
    kind: Kind
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    problem: str = ""
    how_to_fix: str = ""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def shown(self) -> str:
        """Where it is, without anything secret."""
        if self.kind == "stdio":
            return self.hide(self.command)
        parts = urlsplit(self.url)
        return self.hide(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")

    def hide(self, text: str) -> str:
        """`text` without the values of this server's variables, headers and address."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    type: str | None = None
    command: str | None = Field(default=None, min_length=1)
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = {}
    disabled: bool = False


def read_servers(
    said: Path | Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> list[ServerConfig]:
    """The enabled servers that device.toml's `mcp_servers` stands for: a file, or the servers themselves.

    Raises:
        BadInput: the file cannot be read, or something is not what it should be; names the place.
    """
    if not isinstance(said, Path):
        return parse_servers(said, "mcp_servers", environment)
    path = said
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path} is larger than {_MOST_BYTES} bytes")
        data = json.loads(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise BadInput(f"{path} cannot be used: {error}") from error
    servers = data.get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise BadInput(f'{path}: "mcpServers" must be an object of servers')
    return parse_servers(servers, f"{path}: mcpServers", environment)


def parse_servers(
    servers: Mapping[str, Any], place: str, environment: Mapping[str, str] | None = None
) -> list[ServerConfig]:
    """The enabled servers in the order they are written.

    Raises:
        BadInput: a name or a value is not of the kind it must be.
    """
    if len(servers) > MOST_SERVERS:
        raise BadInput(f"{place}: at most {MOST_SERVERS} servers")
    known = os.environ if environment is None else environment
    found = []
    for name, said in servers.items():
        where = f"{place}.{name[:_MOST_NAME]}"
        if not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
            raise BadInput(f"{where}: a server's name is 1 to {_MOST_NAME} printable characters")
        if name.strip().casefold() in _RESERVED:
            raise BadInput(f"{where}: this name is taken by the device client itself")
        entry = _checked(said, where)
        if not entry.disabled:
            found.append(_filled(name, entry, known))
    return found


def _checked(said: Any, where: str) -> _Entry:
    if not isinstance(said, dict):
        raise BadInput(f"{where} must be an object")
    try:
        entry = _Entry.model_validate(said)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise BadInput(f"{where}.{place}: {fault['msg']}") from error
    if (entry.command is None) == (entry.url is None):
        raise BadInput(f"{where} needs either a command (stdio) or a url (http)")
    unknown = sorted(set(said) - set(_Entry.model_fields))
    if unknown:
        log.warning("keys of an MCP server passed over", place=where, keys=unknown[:20])
    return entry


def _filled(name: str, entry: _Entry, known: Mapping[str, str]) -> ServerConfig:
    fill = _Filler(known)
    kind: Kind = "http" if entry.url is not None else "stdio"
    command, url = fill(entry.command or ""), fill(entry.url or "")
    args = tuple(fill(one) for one in entry.args)
    env = {key: fill(value) for key, value in entry.env.items()}
    headers = {key: fill(value) for key, value in entry.headers.items()}
    cwd = None if entry.cwd is None else os.path.expanduser(fill(entry.cwd))
    secrets = {*fill.used, *env.values(), *_words(headers.values()), *_secrets_of(url)}
    problem, how_to_fix = "", ""
    if fill.missing:
        problem = f"The environment has no {', '.join(sorted(fill.missing))}"
        how_to_fix = "Set it where the device client is started, or take it out of the server's entry"
    elif kind == "http" and entry.type is not None and entry.type not in _HTTP_TYPES:
        problem = f"Its transport {entry.type!r} is not supported"
        how_to_fix = 'Use the server\'s streamable HTTP address with type "http"'
    elif kind == "stdio" and entry.type not in {None, "stdio"}:
        problem = f"Its type is {entry.type!r}, yet it has a command"
        how_to_fix = 'Use type "stdio", or give a url'
    elif kind == "http" and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname):
        problem, how_to_fix = "Its url is no http address", "Give an http:// or https:// address"
    elif any("\0" in text for text in (command, url, cwd or "", *args, *env.values(), *headers.values())):
        problem, how_to_fix = "A NUL character is in its entry", "Take it out"
    return ServerConfig(
        name=name,
        kind=kind,
        command=os.path.expanduser(command),
        args=args,
        env=env,
        cwd=cwd,
        url=url,
        headers=headers,
        problem=problem,
        how_to_fix=how_to_fix,
        secrets=frozenset(secret for secret in secrets if len(secret) >= _SHORTEST_SECRET),
    )


class _Filler:
    """Puts variables in, and remembers which values it used and which names were missing."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self.used: set[str] = set()
        self.missing: set[str] = set()

    def __call__(self, text: str) -> str:
        return _VARIABLE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        value = self._known.get(match[1])
        if not value and match[2] is not None:
            return match[2]
        if value is None:
            self.missing.add(match[1])
            return ""
        if match[1] not in {"HOME", "USER", "PATH"}:
            self.used.add(value)
        return value


def _words(values: Any) -> set[str]:
    """Header values, and the parts of those such as `Bearer TOKEN`."""
    return {part for value in values for part in (value, *value.split()[1:])}


def _secrets_of(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
        password = parts.password or ""
    except ValueError:
        return {url}
    return {password, parts.query, *(value for _, value in parse_qsl(parts.query))}

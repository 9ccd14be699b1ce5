"""Reads `mcpServers`, the configuration of the hosted MCP servers, in the format of other MCP hosts.

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "some-server", "/srv/docs"], "env": {"KEY": "${KEY}"}},
        "tickets": {"type": "http", "url": "https://…/mcp", "headers": {"Authorization": "Bearer ${KEY}"}}
    }}

device.toml names such a file (`mcp_servers = "mcp.json"`, relative to itself), or contains the same as tables
(`[mcp_servers.files]`). No file tool of this device may access that file, because its author can run
programs. `${NAME}`, `${env:NAME}` and `${NAME:-otherwise}` are replaced by environment variables. A server's
environment is a short list of harmless variables (PATH, HOME, …) and its `env`, nothing else. `servers` is
accepted for `mcpServers`, as in VS Code, and `"enabled": false` for `"disabled": true`. Comments and a
trailing comma are ignored. Keys of other hosts without a meaning here are ignored with a warning; a wrong
type is an error. An entry that needs an unsupported feature (a file of variables, VS Code's inputs) gets a
`problem`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import BadInput, first_fault
from core.json_comments import blank_comments
from core.log import Logger
from core.text import sentences

log = Logger(__name__)

MOST_SERVERS = 64
_MOST_BYTES = 1024 * 1024
_MOST_NAME = 64
_SHORTEST_SECRET = 4
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# Variables that VS Code fills in from user input or its own settings.
_EDITOR_VARIABLE = re.compile(r"\$\{(?:input|command|config):[^}]*\}")
_SECRET_OPTION = re.compile(
    r"--?[\w-]*(?:key|token|secret|passw|auth|header|credential)[\w-]*(?:=(.*))?", re.IGNORECASE | re.DOTALL
)
_SECRET_PART = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_~.=-]{16,}")
_HTTP_TYPES = frozenset({"http", "streamablehttp"})
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
# A console trusts its knowledge of tools in the device's own namespaces; no server may use these names.
_RESERVED = frozenset({"builtin", "quarterdeck"})

Kind = Literal["stdio", "http"]


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A server's configuration with variables filled in. `problem` says why the server cannot be started.

    Fields that may contain secrets are not in the `repr`.
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
    def location(self) -> str:
        """The server's command or address, with secrets redacted."""
        if self.kind == "stdio":
            return self.redact(self.command)
        parts = _split(self.url)
        return self.redact(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")

    def redact(self, text: str) -> str:
        """`text` with the secrets of this server's variables, headers, arguments and address redacted."""
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
    enabled: bool = True
    env_file: str | None = Field(default=None, alias="envFile")


def read_servers(
    source: Path | Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> list[ServerConfig]:
    """The enabled servers of device.toml's `mcp_servers`, which is a file or the servers themselves.

    Raises:
        BadInput: the file cannot be read, or a value is invalid; the message names the place.
    """
    if not isinstance(source, Path):
        return parse_servers(source, "mcp_servers", environment)
    path = source
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path} is larger than {_MOST_BYTES} bytes.")
        data = read_relaxed(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(sentences(f"{path} cannot be used: {error}")) from error
    servers = data.get("mcpServers", data.get("servers")) if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise BadInput(f'{path}: "mcpServers" must be an object of servers.')
    return parse_servers(servers, f"{path}: mcpServers", environment)


def parse_servers(
    servers: Mapping[str, Any], place: str, environment: Mapping[str, str] | None = None
) -> list[ServerConfig]:
    """The enabled servers, in the order of the configuration.

    Raises:
        BadInput: a name or a value is invalid, or there are too many servers.
    """
    if len(servers) > MOST_SERVERS:
        raise BadInput(f"{place}: at most {MOST_SERVERS} servers.")
    known = os.environ if environment is None else environment
    configs = []
    for name, value in servers.items():
        where = f"{place}.{name[:_MOST_NAME]}"
        if not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
            raise BadInput(f"{where}: a server's name is 1 to {_MOST_NAME} printable characters.")
        if name.strip().casefold() in _RESERVED:
            raise BadInput(f"{where}: this name is taken by the device client itself.")
        entry = _read_entry(value, where)
        if entry.enabled and not entry.disabled:
            configs.append(_resolve(name, entry, known))
    return configs


def _read_entry(value: Any, where: str) -> _Entry:
    if not isinstance(value, dict):
        raise BadInput(f"{where} must be an object.")
    for other in ("transport", "transportType"):
        if "type" not in value and isinstance(value.get(other), str):
            value = {**value, "type": value[other]}
    try:
        entry = _Entry.model_validate(value)
    except ValidationError as error:
        raise BadInput(sentences(f"{where}.{first_fault(error)}")) from error
    if (entry.command is None) == (entry.url is None):
        keys = ", ".join(sorted(value)[:10])
        raise BadInput(
            f"{where} needs either a command (stdio) or a url (http); it has: {keys or 'nothing'}."
        )
    unknown = sorted(set(value) - {item.alias or name for name, item in _Entry.model_fields.items()})
    if unknown:
        log.warning("keys of an MCP server passed over", place=where, keys=unknown[:20])
    return entry


def _resolve(name: str, entry: _Entry, known: Mapping[str, str]) -> ServerConfig:
    fill = _VariableSubstitution(known)
    kind: Kind = "http" if entry.url is not None else "stdio"
    command, url = fill(entry.command or ""), fill(entry.url or "")
    args = tuple(fill(arg) for arg in entry.args)
    env = {key: fill(value) for key, value in entry.env.items()}
    headers = {key: fill(value) for key, value in entry.headers.items()}
    cwd = None if entry.cwd is None else os.path.expanduser(fill(entry.cwd))
    secrets = {
        *fill.used,
        *env.values(),
        *_with_tokens(headers.values()),
        *_secrets_of(url),
        *_secrets_in(args),
    }
    problem, how_to_fix = _problem_of(entry, kind, url, headers, fill)
    if not problem and any("\0" in text for text in (command, url, cwd or "", *args, *env.values())):
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


def _problem_of(
    entry: _Entry, kind: Kind, url: str, headers: Mapping[str, str], fill: _VariableSubstitution
) -> tuple[str, str]:
    """Why an entry cannot be used and how to fix it; two empty strings where it can be used."""
    declared_kind = None if entry.type is None else re.sub(r"[-_]", "", entry.type).lower()
    if fill.foreign:
        return (
            f"Its entry has {', '.join(sorted(fill.foreign))}, which only an editor can fill in",
            "Write ${NAME} there, and set that variable where the device client is started",
        )
    if fill.missing:
        return (
            f"The environment has no {', '.join(sorted(fill.missing))}",
            "Set it where the device client is started, or take it out of the server's entry",
        )
    if entry.env_file is not None:
        return (
            "Its variables are in a file (envFile), which is not read here",
            "Write them under env in its place, secret ones as ${NAME} of the device client's environment",
        )
    if kind == "http" and declared_kind is not None and declared_kind not in _HTTP_TYPES:
        return (
            f"Its transport {entry.type!r} is not supported",
            'Use the server\'s streamable HTTP address with type "http"',
        )
    if kind == "stdio" and declared_kind not in {None, "stdio"}:
        return f"Its type is {entry.type!r}, yet it has a command", 'Use type "stdio", or give a url'
    if kind == "http" and (_split(url).scheme not in {"http", "https"} or not _split(url).hostname):
        return "Its url is not an http address", "Give an http:// or https:// address"
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            return (
                f"Its header {name[:60]!r} has signs that HTTP does not allow there",
                "Look for a line end in it",
            )
    return "", ""


class _VariableSubstitution:
    """Fills in variables and records the values used, the missing names and the editor variables."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self.used: set[str] = set()
        self.missing: set[str] = set()
        self.foreign: set[str] = set()

    def __call__(self, text: str) -> str:
        self.foreign.update(name[:60] for name in _EDITOR_VARIABLE.findall(text))
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


def _split(url: str) -> SplitResult:
    """The parts of an address; all empty where it is invalid."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")


def _with_tokens(values: Any) -> set[str]:
    """The values, and the words after the first in each, such as the token of `Bearer TOKEN`."""
    return {part for value in values for part in (value, *value.split()[1:])}


def _secrets_in(args: Sequence[str]) -> set[str]:
    """Values of options such as `--api-key`, and secrets in addresses among the arguments."""
    secrets: set[str] = set()
    for arg, following in pairwise([*args, ""]):
        if "://" in arg:
            secrets |= _secrets_of(arg)
        if option := _SECRET_OPTION.fullmatch(arg):
            secrets |= _with_tokens([option[1] if option[1] is not None else following])
    return secrets


def _secrets_of(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
        password = parts.password or ""
    except ValueError:
        return {url}
    # Some services give each user an address with a token in its path.
    path = {part for part in parts.path.split("/") if _SECRET_PART.fullmatch(part)}
    return {password, parts.query, *(value for _, value in parse_qsl(parts.query)), *path}


def read_relaxed(text: str) -> Any:
    """Parse JSON with comments and trailing commas, as editors write it.

    Raises:
        ValueError: the text is not JSON (the message has the position), or an object has a duplicate key.
    """
    try:
        return json.loads(blank_comments(text), object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        hint = "; in JSON a backslash is written twice" if "escape" in error.msg else ""
        raise ValueError(f"{error}{hint}") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its pairs; refuses duplicate keys, of which the last would silently win."""
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"{key[:60]!r} stands twice in one object; give one of them another name")
        members[key] = value
    return members

"""Reads `device.toml`: the limits that a device enforces, which no console can change."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from core.broken_text import fault_words
from core.errors import BadInput, faults_of
from core.text import sentences

CONFIG = "device.toml"
MEBIBYTE = 1024 * 1024


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Numbers(_Section):
    # Strict, since TOML has types: a string is not converted to a number, nor `true` to 1.
    model_config = ConfigDict(strict=True)


class Limits(_Numbers):
    """Sizes in bytes, times in seconds."""

    max_argument_bytes: int = Field(default=MEBIBYTE, ge=1024, le=32 * MEBIBYTE)
    max_output_bytes: int = Field(default=10 * MEBIBYTE, ge=1024, le=24 * MEBIBYTE)
    max_processes: int = Field(default=8, ge=1, le=256)
    max_pending_frames: int = Field(default=256, ge=1, le=10_000)
    tool_timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    shell_timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    # For one command in the read-only shell: its processes, and the memory of each and of all together.
    read_shell_processes: int = Field(default=128, ge=4, le=4096)
    read_shell_memory_bytes: int = Field(default=2048 * MEBIBYTE, ge=64 * MEBIBYTE)


class Undo(_Numbers):
    """The limits of the undo store: the age of its entries and the size of their content."""

    days: float = Field(default=7.0, gt=0, le=365)
    max_bytes: int = Field(default=512 * MEBIBYTE, ge=0)


class Link(_Numbers):
    """The link to the console, in seconds.

    Heartbeats come every `heartbeat_s`, or more often if the console asks for it. `connect_timeout_s` bounds
    each stage of connecting: look-up, TCP, TLS, upgrade, registration.
    """

    heartbeat_s: float = Field(default=600.0, ge=1, le=600)
    connect_timeout_s: float = Field(default=10.0, ge=1, le=300)


class PinnedOperator(_Section):
    """An operator whose approvals this device accepts. `public_key`: raw Ed25519, 64 hexadecimal digits."""

    name: str = Field(min_length=1, max_length=200)
    public_key: str = Field(pattern="^[0-9a-f]{64}$")


def _default_roots() -> tuple[Path, ...]:
    """The home and temporary folders.

    A service may have no home, or an empty HOME, which means `/`. The whole disk is never a default root.
    """
    found = []
    with contextlib.suppress(RuntimeError):
        found.append(Path.home())
    # `gettempdir` fails on a full disk, where it cannot write its test file. The device must start there too.
    with contextlib.suppress(FileNotFoundError):
        found.append(Path(tempfile.gettempdir()))
    roots: list[Path] = []
    for path in (_resolved(path) for path in found if path.is_absolute()):
        # On Windows the temporary folder lies in the home.
        if path != Path(path.anchor) and not any(path.is_relative_to(root) for root in roots):
            roots.append(path)
    return tuple(roots) or (Path("/tmp"),)


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(_expanded(path)))


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path} begins with a home folder that is not known here") from error


class DeviceConfig(_Section):
    """The settings of `device.toml`. Paths are absolute or begin with `~`, and are stored resolved."""

    roots: tuple[Path, ...] = Field(default_factory=_default_roots, min_length=1)
    closed_paths: tuple[Path, ...] = ()
    # Readable only by calls that an operator approved, in addition to those of `core.private_paths`.
    private_paths: tuple[Path, ...] = ()
    # shell_execute also switches off EXEC_CLI, and likewise for other tools that have a second name. To
    # prevent all commands, switch launch_application off as well: it can start a shell.
    tools_off: frozenset[str] = frozenset()
    limits: Limits = Limits()
    undo: Undo = Undo()
    link: Link = Link()
    # A file with `mcpServers`, or the servers themselves; see `core.device.mcp.config`.
    mcp_servers: Path | dict[str, Any] | None = None
    # Whether operators may add servers from the console, each by a command that asks; off unless set here.
    servers_from_console: bool = False
    # Actions need an approval signed by pinned operators; no console can switch this off.
    require_signed_approval: bool = False
    pinned_operators: tuple[PinnedOperator, ...] = ()
    # How many pinned operators must have signed, each with a key of their own.
    approvers: int = Field(default=1, ge=1, le=16)
    # More names of arguments that a console may redact for approvers, besides those that are secret by their
    # schema or name.
    secret_names: tuple[str, ...] = Field(default=(), max_length=200)

    @model_validator(mode="after")
    def _can_be_approved(self) -> DeviceConfig:
        if self.require_signed_approval and not self.pinned_operators:
            raise ValueError("require_signed_approval needs at least one of pinned_operators")
        keys = [operator.public_key for operator in self.pinned_operators]
        if len(set(keys)) != len(keys):
            raise ValueError("pinned_operators has the same public_key twice")
        if self.approvers > max(1, len({operator.name for operator in self.pinned_operators})):
            raise ValueError("approvers is more than there are pinned_operators")
        return self

    @field_validator("roots", "closed_paths", "private_paths")
    @classmethod
    def _resolve(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in paths:
            if not _expanded(path).is_absolute():
                raise ValueError(f"{path} is not an absolute path")
        return tuple(_resolved(path) for path in paths)

    def closing(self, *paths: Path | None) -> DeviceConfig:
        """A copy with more `closed_paths`, which no file tool may touch; None is ignored."""
        more = tuple(_resolved(path) for path in paths if path is not None)
        return self.model_copy(update={"closed_paths": (*self.closed_paths, *more)})


def config_text(config: DeviceConfig) -> str:
    """A configuration as one line of JSON, for a device client that is started with it."""
    return json.dumps(config.model_dump(mode="json"))


def config_of(text: str) -> DeviceConfig:
    """The configuration in a text of `config_text`.

    Raises:
        BadInput: it is none.
    """
    try:
        return DeviceConfig.model_validate(json.loads(text))
    except ValueError as error:
        raise BadInput(sentences(f"The configuration cannot be used: {error}")) from error


def load_config(path: Path | None) -> DeviceConfig:
    """Read `device.toml`; without a path, the defaults. The file itself becomes a closed path.

    Raises:
        BadInput: the file cannot be read, is not TOML, or has an unknown key or an invalid value.
    """
    if path is None:
        return DeviceConfig()
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(sentences(f"{path} cannot be used: {fault_words(error)}")) from error
    try:
        config = DeviceConfig.model_validate(data).closing(path)
    except ValidationError as error:
        faults = "; ".join(faults_of(error, "the file"))
        raise BadInput(sentences(f"{path} is not a valid device.toml: {faults}")) from error
    if isinstance(config.mcp_servers, Path):
        try:
            servers = path.parent / _expanded(config.mcp_servers)
        except ValueError as error:
            raise BadInput(sentences(f"{path} is not a valid device.toml: mcp_servers: {error}")) from error
        return config.model_copy(update={"mcp_servers": servers}).closing(servers)
    return config

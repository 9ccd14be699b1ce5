"""`device.toml`: the limits that a device keeps whatever a console says."""

from __future__ import annotations

import os
import tempfile
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from core.errors import BadInput

MEBIBYTE = 1024 * 1024


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(_Section):
    """Sizes in bytes, times in seconds."""

    max_argument_bytes: int = Field(default=MEBIBYTE, ge=1024, le=32 * MEBIBYTE)
    max_output_bytes: int = Field(default=10 * MEBIBYTE, ge=1024, le=24 * MEBIBYTE)
    max_processes: int = Field(default=8, ge=1, le=256)
    max_pending_frames: int = Field(default=256, ge=1, le=10_000)
    tool_timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    shell_timeout_s: float = Field(default=600.0, gt=0, le=86_400)


class Undo(_Section):
    """How long and how much old file content is kept."""

    days: float = Field(default=7.0, gt=0, le=365)
    max_bytes: int = Field(default=512 * MEBIBYTE, ge=0)


def _default_roots() -> tuple[Path, ...]:
    return tuple(dict.fromkeys(_resolved(path) for path in (Path.home(), Path(tempfile.gettempdir()))))


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path.expanduser()))


class DeviceConfig(_Section):
    """What `device.toml` may say. Paths are absolute or begin with `~`, and are held resolved."""

    roots: tuple[Path, ...] = Field(default_factory=_default_roots, min_length=1)
    closed_paths: tuple[Path, ...] = ()
    tools_off: frozenset[str] = frozenset()
    limits: Limits = Limits()
    undo: Undo = Undo()

    @field_validator("roots", "closed_paths")
    @classmethod
    def _resolve(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in paths:
            if not path.expanduser().is_absolute():
                raise ValueError(f"{path} is not an absolute path")
        return tuple(_resolved(path) for path in paths)

    def closing(self, *paths: Path | None) -> DeviceConfig:
        """The same limits with more paths that no file tool may touch; None is passed over."""
        more = tuple(_resolved(path) for path in paths if path is not None)
        return self.model_copy(update={"closed_paths": (*self.closed_paths, *more)})


def load_config(path: Path | None) -> DeviceConfig:
    """Read `device.toml`; without a path, the defaults. The file itself becomes a closed path.

    Raises:
        BadInput: it cannot be read, is not TOML, or has a key or value that is not known.
    """
    if path is None:
        return DeviceConfig()
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path} cannot be used: {error}") from error
    try:
        return DeviceConfig.model_validate(data).closing(path)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_context=False, include_input=False)
        )
        raise BadInput(f"{path} is not a valid device.toml: {faults}") from error

"""The settings of the service: `settings.toml` of a home."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from core.address import split_address
from core.broken_text import fault_words
from core.errors import BadInput, first_fault
from core.files import write_atomic
from core.text import sentences

_LISTEN_LINE = re.compile(r"^[ \t]*listen[ \t]*=.*$", re.MULTILINE)


class Settings(BaseModel):
    """`settings.toml`. `approval_expiry` is in seconds; devices dial in at `listen`, which is `host:port`.

    `secret_names` adds names of arguments whose values are redacted to the built-in names. A plain name
    matches every name that ends with its words; with `*` and `?` it is a pattern for the whole name.

    Devices send a heartbeat every `heartbeat_s` seconds, and are stale half an interval after one that is
    missing. `connect_timeout_s` bounds each stage of a connection, from TCP to the registration.

    `ui_actions_on_this_computer` allows tools to click and type on the desktop of the console's own window,
    where they could press Approve; it is meant for tests.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    this_computer: Literal["process", "in-process"] = "process"
    this_computer_tags: list[str] = Field(default_factory=lambda: ["desk"])
    approval_expiry: float = Field(default=600, gt=0, le=86_400)
    listen: str = "127.0.0.1:5000"
    ui_actions_on_this_computer: bool = False
    secret_names: list[str] = Field(default_factory=list, max_length=200)
    heartbeat_s: float = Field(default=10, ge=1, le=600)
    connect_timeout_s: float = Field(default=10, ge=1, le=300)

    @field_validator("listen")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        try:
            split_address(value)
        except BadInput as error:
            raise ValueError(error.message) from error
        return value

    @field_validator("secret_names")
    @classmethod
    def _are_names(cls, names: list[str]) -> list[str]:
        for name in names:
            # A pattern such as `*` would redact every argument on the approval cards.
            if len(name) > 200 or sum(map(str.isalnum, name)) < 3:
                raise ValueError(f"{name[:50]!r} names no argument: it needs 3 letters or digits")
        return names

    @classmethod
    def read(cls, path: Path) -> Settings:
        """Read the file; if it does not exist, return the defaults.

        Raises:
            BadInput: the file is not TOML, or has an unknown key or an invalid value; names it.
        """
        try:
            with path.open("rb") as file:
                return cls.model_validate(tomllib.load(file))
        except FileNotFoundError:
            return cls()
        except ValidationError as error:
            raise BadInput(sentences(f"{path}: {first_fault(error)}")) from error
        except (OSError, ValueError, RecursionError) as error:
            raise BadInput(sentences(f"{path} cannot be read: {fault_words(error)}")) from error


def set_listen(path: Path, address: str) -> None:
    """Set `listen` in the settings at `path`, without changing the rest of the file.

    Raises:
        BadInput: the address is malformed, or the file is broken or cannot be written; nothing changed.
    """
    split_address(address)
    Settings.read(path)
    text = path.read_text("utf-8") if path.exists() else ""
    line = f'listen = "{address.strip()}"'
    text, found = _LISTEN_LINE.subn(line, text, count=1)
    if not found:
        # At the top: after a table header the key would belong to that table.
        text = f"{line}\n{text}"
    if tomllib.loads(text).get("listen") != address.strip():
        raise BadInput(f"{path} is written in a way that cannot be changed here; set listen by hand.")
    try:
        write_atomic(path, text)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.") from error

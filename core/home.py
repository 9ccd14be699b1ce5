"""One home: where an operator's data lives, who owns it, and its settings.

`--home DIR` wins over `QUARTERDECK_HOME`, which wins over the platform's user data folder. One process owns a
home at a time (the service, or a command line hosting the core for one command); the lock says who.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import BadInput, ErrorCode, ServiceError

OPERATOR_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


class Settings(BaseModel):
    """`settings.toml`. `approval_expiry` is in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    this_computer: Literal["process", "in-process"] = "process"
    this_computer_tags: list[str] = Field(default_factory=lambda: ["desk"])
    approval_expiry: float = Field(default=600, gt=0, le=86_400)


@dataclass(frozen=True, slots=True)
class Home:
    """The files of one home. Creating the object touches nothing; `create` makes the folders."""

    path: Path

    @classmethod
    def choose(cls, given: str | None = None) -> Home:
        """The home that `--home`, the environment or the platform names."""
        named = given or os.environ.get("QUARTERDECK_HOME")
        return cls(
            Path(named or platformdirs.user_data_dir("quarterdeck", appauthor=False)).expanduser().absolute()
        )

    def create(self) -> Home:
        """Make the folders, readable by nobody else.

        Raises:
            BadInput: the folder cannot be made or is not a folder.
        """
        try:
            for folder in (self.path, self.keys, self.batches, self.device_state):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"The home {self.path} cannot be used: {error.strerror}.") from error
        return self

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def batches(self) -> Path:
        return self.path / "batches"

    @property
    def device_state(self) -> Path:
        return self.path / "this-computer"

    @property
    def policy(self) -> Path:
        return self.path / "policy.toml"

    @property
    def operators(self) -> Path:
        return self.path / "operators.json"

    @property
    def contracts(self) -> Path:
        return self.path / "contracts.json"

    @property
    def log(self) -> Path:
        return self.path / "service.log"

    @property
    def socket(self) -> Path:
        """The control socket. Socket addresses are short (108 bytes on Linux), homes need not be."""
        wanted = self.path / "service.sock"
        if len(os.fsencode(wanted)) < 100:
            return wanted
        import hashlib
        import tempfile

        name = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"quarterdeck-{os.getuid()}" / f"{name}.sock"

    def settings(self) -> Settings:
        """Read `settings.toml`; without it, the defaults.

        Raises:
            BadInput: the file is not TOML, or has a key or value that is not known; says which.
        """
        path = self.path / "settings.toml"
        try:
            with path.open("rb") as file:
                return Settings.model_validate(tomllib.load(file))
        except FileNotFoundError:
            return Settings()
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadInput(f"{path} cannot be read: {error}") from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"])
            raise BadInput(f"{path}: {key}: {first['msg']}") from error


class HomeLock:
    """Held by the one process that owns a home; the operating system lets go of it when that process ends."""

    def __init__(self, home: Home) -> None:
        self._path = home.path / "lock"
        self._file: IO[str] | None = None

    def acquire(self) -> HomeLock:
        """Take the lock.

        Raises:
            ServiceError: another process owns this home (code `home_busy`), and its number.
        """
        import fcntl

        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            file.close()
            raise ServiceError(
                f"Process {owner} owns the home {self._path.parent}.", ErrorCode.HOME_BUSY
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file
        return self

    def release(self) -> None:
        """Let go; safe to call twice."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> HomeLock:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

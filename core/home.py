"""One home: where an operator's data lives, who owns it, and its settings.

`--home DIR` wins over `QUARTERDECK_HOME`, which wins over the platform's user data folder. One process owns a
home at a time (the service, or a command line hosting the core for one command); the lock says who.
"""

from __future__ import annotations

import os
import re
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from core.errors import BadInput, ErrorCode, ServiceError
from core.files import sync_folder

# Whoever looks at a lock holds it for less than a millisecond; an owner holds it for good.
LOOKS_AT_MOST = 50
BETWEEN_LOOKS = 0.002
# On Windows locked bytes cannot be read by others; the owner's number stands far in front of this one.
_LOCKED_BYTE = 1 << 20
_BINARY: int = getattr(os, "O_BINARY", 0)

# The longest address of a Unix socket that every system takes, in bytes.
LONGEST_ADDRESS = 99
# Where Linux has the folders that this process has opened, by the number of their descriptor.
FOLDERS_BY_NUMBER = Path("/proc/self/fd")

OPERATOR_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


_LISTEN_LINE = re.compile(r"^[ \t]*listen[ \t]*=.*$", re.MULTILINE)


def split_address(address: str) -> tuple[str, int]:
    """The host and the port of `host:port` or `[host]:port`; port 0 means any that is free.

    Raises:
        BadInput: it is something else; says what is wanted.
    """
    host, colon, port = address.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise BadInput(f"{address!r} is no address to listen at; write HOST:PORT, such as 127.0.0.1:5000.")
    if not re.fullmatch(r"[A-Za-z0-9._:%-]+", host):
        raise BadInput(f"{host!r} is not the name or the number of a host.")
    return host, int(port)


class Settings(BaseModel):
    """`settings.toml`. `approval_expiry` is in seconds; `listen` is where devices dial in, as `host:port`.

    `secret_names` adds names of arguments whose values are masked, beside the known ones: a plain name counts
    wherever a name ends with its words, `*` and `?` stand for any letters of a whole name.

    `ui_actions_on_this_computer` lets software click and type where the console's own window is: it could
    press Approve there, so it is for tests.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    this_computer: Literal["process", "in-process"] = "process"
    this_computer_tags: list[str] = Field(default_factory=lambda: ["desk"])
    approval_expiry: float = Field(default=600, gt=0, le=86_400)
    listen: str = "127.0.0.1:5000"
    ui_actions_on_this_computer: bool = False
    secret_names: list[str] = Field(default_factory=list, max_length=200)

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
            # `*` would hide every argument from those who approve.
            if len(name) > 200 or sum(map(str.isalnum, name)) < 3:
                raise ValueError(f"{name[:50]!r} names no argument: it needs 3 letters or digits")
        return names


@dataclass(frozen=True, slots=True)
class Home:
    """The files of one home. Creating the object touches nothing; `create` makes the folders."""

    path: Path

    @classmethod
    def choose(cls, given: str | None = None) -> Home:
        """The home that `--home`, the environment or the platform names.

        Raises:
            BadInput: it names nobody's folder, or the user has none.
        """
        named = given or os.environ.get("QUARTERDECK_HOME")
        try:
            named = named or platformdirs.user_data_dir("quarterdeck", appauthor=False)
            # A home that is reached through a link is the folder that the link leads to, for every program.
            return cls(Path(os.path.realpath(Path(named).expanduser())))
        except RuntimeError as error:
            # `~nobody`, or a user without a home folder, as in containers.
            raise BadInput(f"The home cannot be found: {error} Name it with --home.") from error

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
    def devices(self) -> Path:
        """Which devices are known, without anything that would let somebody pass for one of them."""
        return self.path / "devices.json"

    @property
    def tls(self) -> Path:
        """The certificate that devices know this console by, and its key."""
        return self.keys / "tls"

    @property
    def dial_tokens(self) -> Path:
        """What this console shows to the devices that it dials."""
        return self.keys / "dial"

    @property
    def log(self) -> Path:
        return self.path / "service.log"

    @property
    def socket(self) -> Path:
        """The control socket.

        Socket addresses are short (108 bytes on Linux, 104 on macOS), homes need not be. Linux reaches the
        socket of a long home by way of its opened folder (`core.service.rpc.transport`); elsewhere it lies in
        a folder that the system keeps for this user alone.
        """
        wanted = self.path / "service.sock"
        private = None if FOLDERS_BY_NUMBER.is_dir() else _private_folder()
        if len(os.fsencode(wanted)) <= LONGEST_ADDRESS or private is None:
            return wanted
        import hashlib

        name = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        return private / "quarterdeck" / f"{name}.sock"

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

    def set_listen(self, address: str) -> None:
        """Write where to listen into `settings.toml`; everything else in it stays as it is.

        Raises:
            BadInput: the address is none, or the file is broken or cannot be written; nothing changed.
        """
        split_address(address)
        self.settings()
        path = self.path / "settings.toml"
        text = path.read_text("utf-8") if path.exists() else ""
        line = f'listen = "{address.strip()}"'
        text, found = _LISTEN_LINE.subn(line, text, count=1)
        if not found:
            # At the top: below a table's heading it would belong to that table.
            text = f"{line}\n{text}"
        if tomllib.loads(text).get("listen") != address.strip():
            raise BadInput(f"{path} is written in a way that cannot be changed here; set listen by hand.")
        try:
            write_private(path, text)
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}.") from error


def _private_folder() -> Path | None:
    """A folder that the system keeps for this user alone, so that no other user can be there first."""
    try:
        named = os.confstr("CS_DARWIN_USER_TEMP_DIR") if sys.platform == "darwin" else None
        folder = Path(named or os.environ["XDG_RUNTIME_DIR"])
        seen = folder.stat()
    except (KeyError, OSError):
        return None
    own = seen.st_uid == os.getuid() and not seen.st_mode & 0o022 if hasattr(os, "getuid") else True
    return folder if own else None


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step and durably; nobody but its owner can read it.

    Raises:
        OSError: it could not be written, and what was there before still is; or its folder, last of all,
            cannot be made to last.
    """
    fresh = path.with_suffix(".new")
    # One that a crash left behind may have another mode.
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
    with open(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    # Else a power cut could bring back what was there before: a device that was revoked, for one.
    sync_folder(path.parent)


class HomeLock:
    """Held by the one process that owns a home; the operating system lets go of it when that process ends."""

    def __init__(self, home: Home) -> None:
        self._path = home.path / "lock"
        self._handle: int | None = None

    def acquire(self) -> HomeLock:
        """Take the lock.

        Raises:
            ServiceError: another process owns this home (code `home_busy`), and its number.
            OSError: the lock's file cannot be opened.
        """
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | _BINARY, 0o600)
        try:
            if not _take(handle):
                raise ServiceError(
                    f"Process {_number_in(handle)} owns the home {self._path.parent}.", ErrorCode.HOME_BUSY
                )
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, str(os.getpid()).encode("ascii"))
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return self

    def probe(self) -> str | None:
        """The number of the process that owns the home, None when nobody does. Writes and leaves nothing.

        Raises:
            OSError: the lock's file cannot be opened.
        """
        try:
            handle = os.open(self._path, os.O_RDONLY | _BINARY)
        except FileNotFoundError:
            return None
        try:
            return None if _is_free(handle) else _number_in(handle)
        finally:
            os.close(handle)

    def release(self) -> None:
        """Let go; safe to call twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def __enter__(self) -> HomeLock:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _number_in(handle: int) -> str:
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, 32).decode("ascii", "replace").strip() or "unknown"


def _take(handle: int) -> bool:
    """Lock the file for this process alone; False when another one owns it."""
    for _ in range(LOOKS_AT_MOST):
        if _lock(handle, shared=False):
            return True
        # Whoever only looks whether the home is free must not keep its next owner out.
        if not _is_free(handle):
            return False
        time.sleep(BETWEEN_LOOKS)
    return False


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int, *, shared: bool) -> bool:
        """Lock one byte for this handle. There are no shared locks here: looking takes it for a moment."""
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _is_free(handle: int) -> bool:
        for _ in range(LOOKS_AT_MOST):
            if _lock(handle, shared=True):
                os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
                msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
                return True
            time.sleep(BETWEEN_LOOKS)
        return False

else:
    import fcntl

    def _lock(handle: int, *, shared: bool) -> bool:
        """Lock the file for this handle; shared locks only keep out one that is not."""
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_free(handle: int) -> bool:
        if not _lock(handle, shared=True):
            return False
        fcntl.flock(handle, fcntl.LOCK_UN)
        return True

"""A home: the folder of an operator's data, and the lock of the process that owns it.

`--home DIR` overrides `QUARTERDECK_HOME`, which overrides the platform's user data folder. One process owns a
home at a time (the service, or a command line that hosts the core for one command); the lock names it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from core.errors import BadInput, ErrorCode, ServiceError
from core.files import FileLock
from core.home_folder import control_socket, home_folder
from core.user import user_id

OPERATOR_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of one home. Creating the object touches no file; `create` makes the folders."""

    path: Path

    @classmethod
    def choose(cls, given: str | None = None) -> Home:
        """The home that `--home`, the environment or the platform names.

        Raises:
            BadInput: `~` names an unknown user, or a user without a home folder.
        """
        try:
            return cls(home_folder(given))
        except RuntimeError as error:
            raise BadInput(f"The home cannot be found: {error} Name it with --home.") from error

    def create(self) -> Home:
        """Make the folders, accessible to this user only. Nothing is made in another user's home.

        Raises:
            BadInput: a folder cannot be made, or its path is not a folder.
            ServiceError: the home belongs to another user (code `home_unsafe`).
        """
        self._check_owner()
        try:
            for folder in (self.path, self.keys, self.batches, self.device_state):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"The home {self.path} cannot be used: {error.strerror}.") from error
        return self

    def _check_owner(self) -> None:
        try:
            owner = self.path.stat().st_uid
        except OSError:
            return
        if (own := user_id()) is not None and owner != own:
            raise ServiceError(
                f"{self.path} belongs to user {owner}, not to you (user {own}).",
                ErrorCode.HOME_UNSAFE,
            )

    @property
    def is_read_only(self) -> bool:
        """Whether the home is there and cannot be written, as on a file system mounted read-only."""
        return self.path.is_dir() and not os.access(self.path, os.W_OK)

    def not_writable(self) -> BadInput:
        """The error of what needs to write in a home that cannot be written."""
        return BadInput(
            f"The home {self.path} cannot be written (a read-only file system, or its permissions): it can "
            "only be searched and verified, by audit find, audit show, audit verify, runs list, runs show "
            "and policy check."
        )

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
    def settings(self) -> Path:
        """The settings of the service (`core.settings`)."""
        return self.path / "settings.toml"

    @property
    def operators(self) -> Path:
        return self.path / "operators.json"

    @property
    def contracts(self) -> Path:
        return self.path / "contracts.json"

    @property
    def devices(self) -> Path:
        """The registered devices, without credentials that would allow to impersonate a device."""
        return self.path / "devices.json"

    @property
    def tls(self) -> Path:
        """The certificate by which devices identify this console, and its key."""
        return self.keys / "tls"

    @property
    def dial_tokens(self) -> Path:
        """The tokens by which this console authenticates to the devices that it dials."""
        return self.keys / "dial"

    @property
    def reserve(self) -> Path:
        """Room for what was stopped while the journal cannot be written (`core.service.reserve`)."""
        return self.path / "reserve"

    @property
    def log(self) -> Path:
        return self.path / "service.log"

    @property
    def socket(self) -> Path:
        """The control socket (`core.home_folder`)."""
        return control_socket(self.path)


class HomeLock:
    """The lock of the process that owns a home; the operating system releases it when the process ends."""

    def __init__(self, home: Home) -> None:
        self._path = home.path / "lock"
        self._lock: FileLock | None = None

    def acquire(self) -> HomeLock:
        """Take the lock.

        Raises:
            ServiceError: another process owns this home (code `home_busy`); names its process ID.
            OSError: the lock's file cannot be opened.
        """
        lock = FileLock(self._path)
        try:
            if not lock.take():
                raise ServiceError(
                    f"Process {_owner_in(lock)} owns the home {self._path.parent}.", ErrorCode.HOME_BUSY
                )
            os.ftruncate(lock.handle, 0)
            os.lseek(lock.handle, 0, os.SEEK_SET)
            os.write(lock.handle, str(os.getpid()).encode("ascii"))
        except BaseException:
            lock.close()
            raise
        self._lock = lock
        return self

    def probe(self) -> str | None:
        """The ID of the process that owns the home, None if the home is free. Writes nothing.

        Raises:
            OSError: the lock's file cannot be opened.
        """
        try:
            lock = FileLock(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with lock:
            return None if lock.is_free() else _owner_in(lock)

    def release(self) -> None:
        """Release the lock; safe to call twice."""
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> HomeLock:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _owner_in(lock: FileLock) -> str:
    os.lseek(lock.handle, 0, os.SEEK_SET)
    return os.read(lock.handle, 32).decode("ascii", "replace").strip() or "unknown"

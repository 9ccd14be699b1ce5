"""Whom this device knows: the console it was paired with, or the token of a console that dials it.

Everything lies below the state folder, readable by this user alone and closed to every tool.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from pathlib import Path

from core.aip.pairing import Pairing, decode_pairing, encode_pairing
from core.aip.tls import Identity, load_or_make_identity
from core.device.listener import ListenAddress
from core.device.system_info import registration
from core.errors import BadInput

_PAIRING = "pairing"
_TOKEN = "listening-token"
_LISTENING = "listening.json"
_SECRET = re.compile(r"[\x21-\x7e]{16,4096}")
_ANY_ADDRESS = {"0.0.0.0", "::"}


def make_private(folder: Path) -> None:
    """Make a folder, with what is missing above it, for this user alone, whatever the umask says.

    Raises:
        BadInput: it cannot be made, or anybody may put another one in its place or files into it.
    """
    try:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        raise BadInput(f"The state folder {folder} cannot be used: {error.strerror}") from error
    if os.name == "posix" and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise BadInput(f"The state folder {folder} may be written by every user; make it private (chmod 700)")


class TrustStore:
    """The files below one state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self._folder = state_dir / "trust"

    def save_pairing(self, pairing: Pairing) -> None:
        """Dial this console from now on.

        Raises:
            BadInput: the state folder cannot be written.
        """
        self._write(_PAIRING, encode_pairing(pairing) + "\n")
        (self._folder / _LISTENING).unlink(missing_ok=True)

    def pairing(self) -> Pairing | None:
        """The console that was paired, if any.

        Raises:
            BadInput: the file is there and cannot be used.
        """
        text = self._read(_PAIRING)
        return None if text is None else decode_pairing(text)

    def save_listening(self, address: ListenAddress, advertised: str | None, name: str) -> None:
        """Listen here from now on when nothing else is said, under the name that the token is for."""
        known = {"host": address.host, "port": address.port, "advertised": advertised, "name": name}
        self._write(_LISTENING, json.dumps(known) + "\n")
        (self._folder / _PAIRING).unlink(missing_ok=True)

    def listening(self) -> tuple[ListenAddress, str | None] | None:
        """Where to listen, and as what; None when nothing was said.

        Raises:
            BadInput: the file is there and cannot be used.
        """
        text = self._read(_LISTENING)
        if text is None:
            return None
        try:
            known = json.loads(text)
            return ListenAddress(str(known["host"]), int(known["port"])), known.get("advertised")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{self._folder / _LISTENING} cannot be used; remove it") from error

    def listening_name(self) -> str | None:
        """The name that a console was told with the pairing string; None where none was kept.

        Raises:
            BadInput: as `listening`.
        """
        if self.listening() is None:
            return None
        name = json.loads(self._read(_LISTENING) or "{}").get("name")
        return name if isinstance(name, str) and name else None

    def listening_token(self) -> str:
        """What a console must show; made when it is first asked for.

        Raises:
            BadInput: the state folder cannot be used.
        """
        found = self._read(_TOKEN)
        if found is None:
            self._write(_TOKEN, secrets.token_urlsafe(32) + "\n")
            found = self._read(_TOKEN) or ""
        token = found.strip()
        if not _SECRET.fullmatch(token):
            raise BadInput(f"{self._folder / _TOKEN} holds no token; remove it to have another one made")
        return token

    def forget(self) -> bool:
        """Forget the paired console, where to listen, and the token that let consoles in; False if none was.

        The certificate stays: it is this device's own, and no secret of a pairing.

        Raises:
            BadInput: the state folder cannot be written.
        """
        known = [path for name in (_PAIRING, _LISTENING, _TOKEN) if (path := self._folder / name).exists()]
        for path in known:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise BadInput(f"{path} cannot be removed: {error.strerror}") from error
        return bool(known)

    def identity(self, name: str) -> Identity:
        """The certificate that consoles pin.

        Raises:
            BadInput: it cannot be made or read.
        """
        try:
            return load_or_make_identity(self._folder, name)
        except OSError as error:
            raise BadInput(f"No certificate can be kept in {self._folder}: {error}") from error

    def pairing_with_us(self, address: ListenAddress, name: str, advertised: str | None) -> Pairing:
        """What a console needs to dial this device; `advertised` is what it calls this machine.

        Raises:
            BadInput: nobody can know the address.
        """
        if address.port == 0:
            raise BadInput("A console needs to know the port: name one in --listen")
        host = advertised or address.host
        if host in _ANY_ADDRESS:
            host = str(registration(name, [])["ip_address"])
            if host.startswith("127."):
                raise BadInput("This machine's address is not known: name it with --advertise")
        fingerprint = "" if address.loopback else self.identity(name).fingerprint
        return Pairing(address.url(host), name, self.listening_token(), fingerprint)

    def _read(self, name: str) -> str | None:
        path = self._folder / name
        try:
            if os.name == "posix" and path.stat().st_mode & 0o077:
                raise BadInput(f"{path} may be read by others; make it private (chmod 600) or remove it")
            return path.read_text("ascii")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path} cannot be read: {error}") from error

    def _write(self, name: str, text: str) -> None:
        path, fresh = self._folder / name, self._folder / f"{name}.new"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)
            # Nobody else can read it, from the first byte on.
            end = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(end, "w", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, path)
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error}") from error

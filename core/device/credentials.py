"""The device's credentials: the pairing with a console, or its listening address and token; its certificate.

All files are below the state folder, readable by this user alone and closed to every tool.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from core.aip.pairing import FINGERPRINT, Pairing, decode_pairing, encode_pairing
from core.aip.tls import Identity, load_or_make_identity
from core.device.listener import ListenAddress
from core.device.system_info import registration
from core.errors import BadInput
from core.files import write_atomic
from core.text import sentences
from core.tokens import new_token

_PAIRING = "pairing"
_TOKEN = "listening-token"
_LISTENING = "listening.json"
_SECOND_PIN = "second-pin.json"
_SECRET = re.compile(r"[\x21-\x7e]{16,4096}")
_ANY_ADDRESS = {"0.0.0.0", "::"}


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents with mode 0700, whatever the umask is.

    Raises:
        BadInput: it cannot be made, or it is world-writable without the sticky bit, so that any user could
            replace its files.
    """
    try:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        raise BadInput(sentences(f"The state folder {folder} cannot be used: {error.strerror}")) from error
    if os.name == "posix" and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise BadInput(
            f"The state folder {folder} may be written by every user; make it private (chmod 700)."
        )


@dataclass(frozen=True, slots=True)
class SecondPin:
    """The console's next certificate; `fingerprint` is empty once it was used.

    `paired` is the digest of the token of the pairing that it belongs to.
    """

    paired: str
    fingerprint: str
    number: int


class CredentialStore:
    """The credential files below one state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self._folder = state_dir / "trust"

    def save_pairing(self, pairing: Pairing) -> None:
        """Save the console to be dialled from now on; replaces a saved listening address.

        Raises:
            BadInput: the state folder cannot be written.
        """
        self._write(_PAIRING, encode_pairing(pairing) + "\n")
        (self._folder / _LISTENING).unlink(missing_ok=True)
        (self._folder / _SECOND_PIN).unlink(missing_ok=True)

    def renew_pairing(self, before: Pairing, renewed: Pairing) -> None:
        """Save a pairing with its console's next certificate, unless another pairing was saved meanwhile.

        Raises:
            BadInput: the state folder cannot be written.
        """
        if self.pairing() == before:
            self._write(_PAIRING, encode_pairing(renewed) + "\n")

    def save_second_pin(self, pairing: Pairing, pin: SecondPin) -> None:
        """Save the next certificate of a pairing's console, unless another pairing was saved meanwhile.

        Raises:
            BadInput: the state folder cannot be written.
        """
        if self.pairing() == pairing:
            self._write(_SECOND_PIN, json.dumps(asdict(pin)) + "\n")

    def second_pin(self) -> SecondPin | None:
        """The saved next certificate of the console, if any.

        Raises:
            BadInput: the file exists but cannot be used.
        """
        text = self._read(_SECOND_PIN)
        if text is None:
            return None
        try:
            known = json.loads(text)
            pin = SecondPin(str(known["paired"]), str(known["fingerprint"]), int(known["number"]))
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{self._folder / _SECOND_PIN} cannot be used; remove it.") from error
        if pin.fingerprint and not FINGERPRINT.fullmatch(pin.fingerprint):
            raise BadInput(f"{self._folder / _SECOND_PIN} cannot be used; remove it.")
        return pin

    def pairing(self) -> Pairing | None:
        """The saved pairing, if any.

        Raises:
            BadInput: the file exists but cannot be used.
        """
        text = self._read(_PAIRING)
        return None if text is None else decode_pairing(text)

    def save_listening(self, address: ListenAddress, advertised: str | None, name: str) -> None:
        """Save the default address to listen on and the paired name; replaces a saved pairing."""
        known = {"host": address.host, "port": address.port, "advertised": advertised, "name": name}
        self._write(_LISTENING, json.dumps(known) + "\n")
        (self._folder / _PAIRING).unlink(missing_ok=True)
        (self._folder / _SECOND_PIN).unlink(missing_ok=True)

    def listening(self) -> tuple[ListenAddress, str | None] | None:
        """The saved address to listen on, and the advertised host; None where none was saved.

        Raises:
            BadInput: the file exists but cannot be used.
        """
        text = self._read(_LISTENING)
        if text is None:
            return None
        try:
            known = json.loads(text)
            return ListenAddress(str(known["host"]), int(known["port"])), known.get("advertised")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{self._folder / _LISTENING} cannot be used; remove it.") from error

    def listening_name(self) -> str | None:
        """The name in the pairing string given to a console; None where none was saved.

        Raises:
            BadInput: as `listening`.
        """
        if self.listening() is None:
            return None
        name = json.loads(self._read(_LISTENING) or "{}").get("name")
        return name if isinstance(name, str) and name else None

    def listening_token(self) -> str:
        """The token that a console must present; generated at the first call.

        Raises:
            BadInput: the state folder cannot be used, or the file holds no valid token.
        """
        found = self._read(_TOKEN)
        if found is None:
            self._write(_TOKEN, new_token() + "\n")
            found = self._read(_TOKEN) or ""
        token = found.strip()
        if not _SECRET.fullmatch(token):
            raise BadInput(f"{self._folder / _TOKEN} holds no token; remove it to have another one made.")
        return token

    def forget(self) -> bool:
        """Delete the pairing, the listening address and the listening token; False if none existed.

        The certificate stays: it belongs to this device, not to a pairing.

        Raises:
            BadInput: the state folder cannot be written.
        """
        names = (_PAIRING, _SECOND_PIN, _LISTENING, _TOKEN)
        known = [path for name in names if (path := self._folder / name).exists()]
        for path in known:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise BadInput(sentences(f"{path} cannot be removed: {error.strerror}")) from error
        return bool(known)

    def identity(self, name: str) -> Identity:
        """This device's certificate, which consoles pin; made at the first call.

        Raises:
            BadInput: it cannot be made or read.
        """
        try:
            return load_or_make_identity(self._folder, name)
        except OSError as error:
            raise BadInput(sentences(f"No certificate can be kept in {self._folder}: {error}")) from error

    def pairing_with_us(self, address: ListenAddress, name: str, advertised: str | None) -> Pairing:
        """The pairing with which a console dials this device; `advertised`: the host in its address.

        Raises:
            BadInput: the port is 0, or this machine's address is not known.
        """
        if address.port == 0:
            raise BadInput("A console needs to know the port: name one in --listen.")
        host = advertised or address.host
        if host in _ANY_ADDRESS:
            host = str(registration(name, [])["ip_address"])
            if host.startswith("127."):
                raise BadInput("This machine's address is not known: name it with --advertise.")
        fingerprint = "" if address.loopback else self.identity(name).fingerprint
        return Pairing(address.url(host), name, self.listening_token(), fingerprint)

    def _read(self, name: str) -> str | None:
        path = self._folder / name
        try:
            if os.name == "posix" and path.stat().st_mode & 0o077:
                raise BadInput(f"{path} may be read by others; make it private (chmod 600) or remove it.")
            return path.read_text("ascii")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(sentences(f"{path} cannot be read: {error}")) from error

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(path, text)
        except OSError as error:
            raise BadInput(sentences(f"{path} cannot be written: {error}")) from error

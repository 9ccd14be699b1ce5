"""The devices that this console knows beside its own computer, and what proves that one is who it says.

Kept in `devices.json` of the home. A device that dials in shows a token; only its SHA-256 is kept. The token
is 256 random bits made here, so there is nothing to guess that a slow or salted hash would protect: finding
one that fits costs 2^255 tries. A device that listens is shown a token by this console, which therefore has
to keep it: in a file of its own below `keys/dial/`.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections import Counter
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

import structlog
from pydantic import Field, TypeAdapter, ValidationError

from core.aip.pairing import TOKEN
from core.canonical import sha256_hex
from core.errors import BadInput, ErrorCode, JournalCorrupt
from core.fleet.models import DeviceSettings, Plain
from core.home import OPERATOR_NAME, write_private
from core.ids import now_utc

log = structlog.get_logger(__name__)

THIS_COMPUTER = "this-computer"
DEFAULT_AGENT = "LinuxAgent"
TOKEN_BYTES = 32
MOST_TAGS = 32
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")
_AGENT = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class Known(Plain):
    """One known device. `agent` is what a stock client is addressed as; empty where that is to be found out.

    `token_sha256` is of the token that it shows; empty where this console dials. `fingerprint` is the SHA-256
    of the certificate of a device that is dialled.
    """

    name: str
    tags: list[str] = Field(default_factory=list)
    production: bool | None = None
    agent: str = ""
    direction: Literal["in", "out"] = "in"
    url: str = ""
    fingerprint: str = ""
    token_sha256: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    paired_at: str = ""
    revoked_at: str | None = None

    @property
    def paired(self) -> bool:
        """Whether it may connect."""
        return self.revoked_at is None


_FILE: TypeAdapter[list[Known]] = TypeAdapter(list[Known])


def new_token() -> str:
    """A token that nobody can guess, in letters that survive a shell and an address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def check_name(name: str) -> str:
    """The name, when a remote device may be called that.

    Raises:
        BadInput: it may not.
    """
    if not OPERATOR_NAME.fullmatch(name):
        raise BadInput(
            "A device's name has letters, digits, '.', '_' and '-', at most 64, and no sign first."
        )
    if name.lower() == THIS_COMPUTER:
        raise BadInput(f"{THIS_COMPUTER} is the name of the computer that the console runs on.")
    return name


def with_settings(known: Known, settings: DeviceSettings) -> Known:
    """The device with what an operator has set.

    Raises:
        BadInput: a tag or an agent is not written as one.
    """
    changed = settings.model_dump(exclude_none=True)
    if settings.tags is not None:
        changed["tags"] = list(dict.fromkeys(settings.tags))
        if len(changed["tags"]) > MOST_TAGS:
            raise BadInput(f"A device has at most {MOST_TAGS} tags.")
        for tag in changed["tags"]:
            if not _TAG.fullmatch(tag):
                raise BadInput(f"{tag!r} is no tag: letters, digits, '.', '_', ':', '/' and '-', at most 64.")
    if settings.agent and not _AGENT.fullmatch(settings.agent):
        raise BadInput(f"{settings.agent!r} is not the name of an agent, such as {DEFAULT_AGENT}.")
    return known.model_copy(update=changed)


class Registry:
    """Known devices by name. More trust is on the disk before it counts; less trust counts at once."""

    def __init__(self, path: Path, dial_tokens: Path) -> None:
        self._path = path
        self._dial_tokens = dial_tokens
        self._known: dict[str, Known] = {}
        self._by_token: dict[str, str] = {}
        self._unwritten = False
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, name: str) -> asyncio.Lock:
        """Held by whoever pairs or forgets this device, which take a while and must not mix."""
        return self._turns.setdefault(name, asyncio.Lock())

    def load(self) -> Registry:
        """Read the file; without it no device is known yet.

        Raises:
            JournalCorrupt: the file is damaged. Starting without it would lock every device out, silently.
        """
        try:
            data = json.loads(self._path.read_text("utf-8"))
            self._take(_by_name(_FILE.validate_python(data["devices"])))
        except FileNotFoundError:
            self._take({})
        except (OSError, ValueError, TypeError, KeyError, BadInput, RecursionError) as error:
            raise JournalCorrupt(
                f"{self._path} is damaged ({_first_words(error)}). "
                "Put a copy back, or move it away and pair every device anew."
            ) from error
        return self

    def devices(self) -> list[Known]:
        """Every known device, by name."""
        return [self._known[name] for name in sorted(self._known)]

    def find(self, name: str) -> Known | None:
        """A known device, or None."""
        return self._known.get(name)

    def get(self, name: str) -> Known:
        """A known device.

        Raises:
            BadInput: there is none of that name (code `unknown_device`).
        """
        known = self._known.get(name)
        if known is None:
            raise BadInput(f"No paired device is called {name!r}.", ErrorCode.UNKNOWN_DEVICE)
        return known

    def check_free(self, name: str) -> None:
        """See that no other device is called the same but for the size of letters, which filters pass over.

        Raises:
            BadInput: one is.
        """
        for other in self._known:
            if other != name and other.lower() == name.lower():
                raise BadInput(f"{other!r} is known already, and differs by the size of letters alone.")

    def owner_of(self, token: str | None) -> Known | None:
        """Whose token this is, also where it is worthless by now; None when it is nobody's.

        What is looked up is a hash, so how long it takes says nothing of any token.
        """
        if not token:
            return None
        return self._known.get(self._by_token.get(_digest(token), ""))

    def put(self, *devices: Known) -> None:
        """Keep devices in the place of those of the same name.

        Raises:
            BadInput: the file cannot be written; nothing changed.
        """
        self._write({**self._known, **{one.name: one for one in devices}})

    def pair(self, known: Known) -> str:
        """Keep a device that dials in, under a new token that replaces every older one; gives the token.

        Raises:
            BadInput: the file cannot be written, or the name is not free; nothing changed.
        """
        self.check_free(known.name)
        token = new_token()
        self.put(
            known.model_copy(
                update={
                    "direction": "in",
                    "url": "",
                    "fingerprint": "",
                    "token_sha256": _digest(token),
                    "paired_at": now_utc(),
                    "revoked_at": None,
                }
            )
        )
        try:
            self._drop_dial_token(known.name)
        except BadInput as error:
            # The new token is given out once, and counts already; this one leads nowhere any more.
            log.warning("a token for dialling is left over", device=known.name, problem=error.message)
        return token

    def pair_listening(self, known: Known, url: str, token: str, fingerprint: str) -> Known:
        """Keep a device that is dialled, and the token that it wants to see.

        Raises:
            BadInput: a file cannot be written, or the name is not free.
        """
        self.check_free(known.name)
        path = self._token_file(known.name)
        # The old token stands until the new address does: with only one of them nothing could be dialled.
        fresh = path.with_suffix(".fresh")
        try:
            self._dial_tokens.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(fresh, token + "\n")
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
        kept = known.model_copy(
            update={
                "direction": "out",
                "url": url,
                "fingerprint": fingerprint,
                "token_sha256": "",
                "paired_at": now_utc(),
                "revoked_at": None,
            }
        )
        try:
            self.put(kept)
            fresh.replace(path)
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
        finally:
            fresh.unlink(missing_ok=True)
        return kept

    def dial_token(self, name: str) -> str:
        """What this console shows to a device that it dials.

        Raises:
            BadInput: it is not there any more, or cannot be read.
        """
        path = self._token_file(name)
        try:
            token = path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"The token for {name} cannot be read from {path}; pair it again.") from error
        if not TOKEN.fullmatch(token):
            # It becomes a line of a request, which must not become two.
            raise BadInput(f"What {path} holds is no token; pair {name} again.")
        return token

    def revoke(self, name: str) -> Known:
        """Make a device's token worthless; it stays known. The one for dialling it is deleted.

        Raises:
            BadInput: there is no such device; or a file cannot be written, and it is worthless all the same
                for as long as this process runs.
        """
        known = self.get(name)
        revoked = known.model_copy(update={"revoked_at": known.revoked_at or now_utc()})
        try:
            self._narrow({**self._known, name: revoked})
        finally:
            self._drop_dial_token(name)
        return revoked

    def forget(self, name: str) -> None:
        """Know a device no more.

        Raises:
            BadInput: there is no such device; or a file cannot be written, and it is not known all the same
                for as long as this process runs. What could not be written can be forgotten once more.
        """
        if not self._unwritten:
            self.get(name)
        try:
            self._narrow({key: one for key, one in self._known.items() if key != name})
        finally:
            self._drop_dial_token(name)

    def _narrow(self, known: dict[str, Known]) -> None:
        """Trust somebody less: a full disk must not keep anybody in."""
        self._take(known)
        self._unwritten = True
        try:
            self._write(known)
        except BadInput as error:
            raise BadInput(f"{error.message} It counts until then, but a restart would undo it.") from error

    def _token_file(self, name: str) -> Path:
        # A name may hold dots, and `with_suffix` of whoever writes the file must not cut one off.
        return self._dial_tokens / f"{check_name(name)}.token"

    def _drop_dial_token(self, name: str) -> None:
        path = self._token_file(name)
        try:
            # A crash while one was written leaves it under another name.
            for file in (path, path.with_suffix(".fresh"), path.with_suffix(".new")):
                file.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"{path} cannot be deleted: {error.strerror}.") from error

    def _write(self, known: dict[str, Known]) -> None:
        # A device a line, so that a person can read and compare it.
        lines = [known[name].model_dump_json(exclude_defaults=True) for name in sorted(known)]
        try:
            write_private(self._path, '{"devices": [\n' + ",\n".join(lines) + "\n]}\n")
        except OSError as error:
            raise BadInput(f"{self._path} cannot be written: {error.strerror}.") from error
        self._take(known)
        self._unwritten = False

    def _take(self, known: dict[str, Known]) -> None:
        self._known = known
        self._by_token = {one.token_sha256: one.name for one in known.values() if one.token_sha256}


def _by_name(known: list[Known]) -> dict[str, Known]:
    """Raises BadInput where a person's edit left it open who is meant, or whose token one is."""
    for what, seen in (
        ("device", Counter(check_name(one.name) for one in known)),
        ("token", Counter(one.token_sha256 for one in known if one.token_sha256)),
    ):
        twice = next((value for value, count in seen.items() if count > 1), None)
        if twice is not None:
            raise BadInput(f"the {what} {twice} is in it twice")
    return {one.name: one for one in known}


def _digest(token: str) -> str:
    return sha256_hex(token.encode("utf-8", "surrogateescape"))


def _first_words(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error) or type(error).__name__

"""The registry of paired remote devices, with the tokens that authenticate them.

The journal is the only source: an operator's signature over the pairing, and later settings, revocations and
removals. `devices.json` in the home is a copy for people and other programs. Only its revocations count,
because they are written to it before they are in the journal.

A device that dials in presents a token, of which only the SHA-256 is stored (`core.tokens`). To a device that
listens, this console presents a token, and must therefore store the token itself: in a file per device below
`keys/dial/`. Our device client makes that token equally long; its SHA-256, recorded at pairing, identifies
the right file content.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

from pydantic import Field, TypeAdapter, ValidationError

from core.aip.pairing import TOKEN
from core.audit.entries import Entry
from core.errors import BadInput, ErrorCode, first_fault
from core.files import create_new, read_own_text, sync_folder, write_atomic
from core.fleet.models import DeviceSettings
from core.home import OPERATOR_NAME
from core.ids import now_utc
from core.log import Logger
from core.models.frozen import FrozenModel
from core.similar import meant_or_known
from core.text import escape_hidden, some_names
from core.tokens import OfferedTokens, token_digest

log = Logger(__name__)

THIS_COMPUTER = "this-computer"
DEFAULT_AGENT = "LinuxAgent"
MOST_TAGS = 32
LARGEST_FILE = 64 << 20
_LONGEST_WORDS = 200
_SHA256 = "^([0-9a-f]{64})?$"
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")
_AGENT = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class KnownDevice(FrozenModel):
    """One known device. `agent` is the name by which a stock client is addressed; empty to detect it.

    For a device that dials in, `token_sha256` is the digest of the token that it presents, and
    `certificate_sha256` that of the certificate of this console that it pinned; empty without TLS. For a
    device that is dialled, `dial_token_sha256` is the digest of the token that the console presents, and
    `fingerprint` is the SHA-256 of its certificate. `paired_at` is the time of the journal entry and
    identifies the pairing.
    """

    name: str
    tags: list[str] = Field(default_factory=list)
    production: bool | None = None
    agent: str = ""
    direction: Literal["in", "out"] = "in"
    url: str = ""
    fingerprint: str = ""
    token_sha256: str = Field(default="", pattern=_SHA256)
    dial_token_sha256: str = Field(default="", pattern=_SHA256)
    certificate_sha256: str = Field(default="", pattern=_SHA256)
    paired_at: str = ""
    revoked_at: str | None = None

    @property
    def paired(self) -> bool:
        """Whether it may connect."""
        return self.revoked_at is None


_FILE: TypeAdapter[list[KnownDevice]] = TypeAdapter(list[KnownDevice])


@dataclass(frozen=True, slots=True)
class Copy:
    """The content of `devices.json`: `text` is None if there is no file, `problem` why it cannot be read."""

    devices: dict[str, KnownDevice] = field(default_factory=dict)
    text: str | None = None
    problem: str = ""


def read_copy(path: Path) -> Copy:
    """Read a `devices.json`; never raises for its content."""
    text: str | None = ""
    try:
        text = read_own_text(path, LARGEST_FILE)
        devices = {} if text is None else _by_name(_FILE.validate_python(json.loads(text)["devices"]))
    except (ValueError, TypeError, KeyError, BadInput, RecursionError) as error:
        # The error may quote any content of the file, and the text goes into the journal.
        return Copy({}, text, escape_hidden(first_fault(error)[:_LONGEST_WORDS], keep_lines=False))
    return Copy(devices, text)


def paired_by(entry: Entry) -> KnownDevice:
    """The device that a journal entry pairs: only the data that the entry's signature covers.

    Raises:
        BadInput: the entry has no signed change that pairs a device.
    """
    try:
        after = entry.body["signed"]["statement"]["change"]["after"]
        return KnownDevice.model_validate({**after, "name": entry.device, "paired_at": entry.time})
    except (KeyError, TypeError, ValidationError) as error:
        raise BadInput(f"Entry {entry.seq} does not describe how a device was paired.") from error


def check_name(name: str) -> str:
    """Return the name if it is valid for a remote device.

    Raises:
        BadInput: it is not valid, or is the name of this computer.
    """
    if not OPERATOR_NAME.fullmatch(name):
        raise BadInput(
            "A device's name has letters, digits, '.', '_' and '-', at most 64, and no sign first."
        )
    if name.lower() == THIS_COMPUTER:
        raise BadInput(f"{THIS_COMPUTER} is the name of the computer that the console runs on.")
    return name


def with_settings(known: KnownDevice, settings: DeviceSettings) -> KnownDevice:
    """The device with an operator's settings applied.

    Raises:
        BadInput: a tag or the agent's name is invalid, or there are too many tags.
    """
    changed = settings.model_dump(exclude_none=True)
    if settings.tags is not None:
        changed["tags"] = list(dict.fromkeys(settings.tags))
        if len(changed["tags"]) > MOST_TAGS:
            raise BadInput(f"A device has at most {MOST_TAGS} tags.")
        for tag in changed["tags"]:
            if not _TAG.fullmatch(tag):
                raise BadInput(
                    f"{tag!r} is not a tag: letters, digits, '.', '_', ':', '/' and '-', at most 64."
                )
    if settings.agent and not _AGENT.fullmatch(settings.agent):
        raise BadInput(f"{settings.agent!r} is not the name of an agent, such as {DEFAULT_AGENT}.")
    return known.model_copy(update=changed)


class KnownDevices:
    """Known devices by name. Added trust takes effect once it is in the journal, revocation at once."""

    def __init__(self, path: Path, dial_tokens: Path) -> None:
        """`path` is the copy, `devices.json`; `dial_tokens` the folder of tokens for dialling."""
        self._path = path
        self._dial_tokens = dial_tokens
        self._known: dict[str, KnownDevice] = {}
        self._by_token: dict[str, str] = {}
        # By device, a function that verifies the operator's signature over the pairing; removed once called.
        self._proofs: dict[str, Callable[[], bool]] = {}
        # Devices being forgotten, until the journal has recorded it; the copy lists them as revoked.
        self._leaving: dict[str, KnownDevice] = {}
        self._offered = OfferedTokens()
        self._problem = ""
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, name: str) -> asyncio.Lock:
        """The lock for pairing, setting or forgetting this device, or a name that differs only in case."""
        return self._turns.setdefault(name.lower(), asyncio.Lock())

    def restore(
        self, known: Iterable[KnownDevice], proofs: Mapping[str, Callable[[], bool]], copy: Copy
    ) -> list[str]:
        """Load the devices that the journal knows; returns notes on where the copy differs.

        `proofs` verify signatures. Each is called when its device is first accepted or dialled: a signature
        takes 0.15 ms, so a thousand would take a quarter of the time within which the window must open.
        """
        self._take({one.name: one for one in known})
        self._proofs = dict(proofs)
        if copy.text != self._text() and (self._known or copy.text is not None):
            self._write()
        if copy.problem:
            return [f"devices.json was not as it was written ({copy.problem}); what the journal has holds."]
        if copy.text is None:
            return ["devices.json was missing; the devices that the journal has hold."] if self._known else []
        rows = copy.devices.values()
        unknown = [row.name for row in rows if row.name not in self._known and row.paired]
        others = [row.name for row in rows if row.name in self._known and row != self._known[row.name]]
        notes = []
        if unknown:
            notes.append(f"devices.json lists {some_names(unknown)}, not paired in the journal: not let in.")
        if others:
            notes.append(
                f"devices.json says something else of {some_names(others)} than the journal, which holds."
            )
        return notes

    @property
    def problem(self) -> str:
        """Why the copy could not be written; empty if it is up to date."""
        return self._problem

    def devices(self) -> list[KnownDevice]:
        """Every known device, by name."""
        return [self._known[name] for name in sorted(self._known)]

    def find(self, name: str) -> KnownDevice | None:
        """A known device, or None."""
        return self._known.get(name)

    def get(self, name: str) -> KnownDevice:
        """A known device.

        Raises:
            BadInput: there is no device of that name (code `unknown_device`).
        """
        known = self._known.get(name)
        if known is None:
            others = meant_or_known(name, self._known, "Paired devices")
            raise BadInput(f"No paired device is called {name!r}. {others}.", ErrorCode.UNKNOWN_DEVICE)
        return known

    def check_free(self, name: str) -> None:
        """Check that no other device's name differs only in case, which filters ignore.

        Raises:
            BadInput: there is such a device.
        """
        for other in self._known:
            if other != name and other.lower() == name.lower():
                raise BadInput(f"{other!r} is known already, and differs by the size of letters alone.")

    def owner_of(self, token: str | None) -> KnownDevice | None:
        """The device with this token, even if it was revoked; None if no device has it.

        The lookup is by hash, so its timing reveals nothing about a token.
        """
        if not token:
            return None
        known = self._known.get(self._by_token.get(token_digest(token), ""))
        return self._proved(known) if known is not None else None

    def offer_token(self) -> str:
        """Make a token for a device that may be paired; returns its SHA-256, which an operator signs."""
        return self._offered.offer()

    def take_offered(self, sha256: str) -> str:
        """Take the token that was offered under this digest, once; a new random token if there is none."""
        return self._offered.take(sha256)

    def pair(self, known: KnownDevice) -> None:
        """Add a paired device, once the journal has the pairing; this replaces every older pairing."""
        self._proofs.pop(known.name, None)
        self._leaving.pop(known.name, None)
        self.put(known)

    def put(self, *devices: KnownDevice) -> None:
        """Add or replace devices, once the journal has the change."""
        self._take({**self._known, **{one.name: one for one in devices}})
        self._write()

    @contextmanager
    def staged_dial_token(self, name: str, token: str) -> Iterator[Callable[[], None]]:
        """Stage a dial token on the disk while the pairing is being recorded; yields a function that puts it
        in place of the previous token.

        Raises:
            BadInput: the token cannot be written, or cannot be put in place.
        """
        path = self._token_file(name)
        fresh = path.with_suffix(".fresh")

        def replace() -> None:
            try:
                fresh.replace(path)
                sync_folder(path.parent)
            except OSError as error:
                raise BadInput(f"{path} cannot be written: {error.strerror}. Pair {name} again.") from error

        try:
            self._dial_tokens.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A crash may have left this file.
            fresh.unlink(missing_ok=True)
            create_new(fresh, token + "\n")
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
        try:
            yield replace
        finally:
            fresh.unlink(missing_ok=True)

    def dial_token(self, name: str) -> str:
        """The token that this console presents to a device that it dials.

        Raises:
            BadInput: the device is not paired, or the token's file is missing, cannot be read, or does not
                hold the token of the pairing.
        """
        if not self._proved(self.get(name)).paired:
            raise BadInput(f"{name} is not paired with an operator's signature; pair it again.")
        token = read_dial_token(self._dial_tokens, name)
        if token_digest(token) != self.get(name).dial_token_sha256:
            path = self._token_file(name)
            raise BadInput(f"{path} does not hold the token that {name} was paired with; pair it again.")
        return token

    def revoke(self, name: str) -> KnownDevice:
        """Revoke a device's token; the device stays known. `problem` is set if the copy cannot be written.

        Raises:
            BadInput: there is no such device.
        """
        known = self.get(name)
        revoked = known.model_copy(update={"revoked_at": known.revoked_at or now_utc()})
        self.put(revoked)
        return revoked

    def forget(self, name: str) -> KnownDevice:
        """Remove a device and return it. The copy lists it as revoked until `left` is called.

        Raises:
            BadInput: there is no such device.
        """
        known = self.get(name)
        self._leaving[name] = known.model_copy(update={"revoked_at": known.revoked_at or now_utc()})
        self._take({key: one for key, one in self._known.items() if key != name})
        self._write()
        return known

    def left(self, name: str) -> None:
        """Drop a forgotten device from the copy: the journal has recorded it."""
        if self._leaving.pop(name, None) is not None:
            self._write()

    def drop_dial_token(self, name: str) -> None:
        """Delete the token for dialling a device.

        Raises:
            BadInput: it cannot be deleted.
        """
        path = self._token_file(name)
        try:
            # A crash during writing may have left the token under another name.
            for file in (path, path.with_suffix(".fresh")):
                file.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"{path} cannot be deleted: {error.strerror}.") from error

    def _proved(self, known: KnownDevice) -> KnownDevice:
        """Verify the pairing's signature at first use; returns the device, revoked if it is not valid."""
        proof = self._proofs.pop(known.name, None)
        if proof is None or proof():
            return known
        log.error("a device was paired without a valid signature; it is not let in", device=known.name)
        revoked = known.model_copy(update={"revoked_at": known.revoked_at or now_utc()})
        self._take({**self._known, known.name: revoked})
        return revoked

    def _token_file(self, name: str) -> Path:
        return _token_file(self._dial_tokens, name)

    def _write(self) -> None:
        """Write the copy; sets `problem` if that fails."""
        try:
            write_atomic(self._path, self._text())
        except OSError as error:
            self._problem = f"{self._path} cannot be written: {error.strerror}."
            log.warning("the copy of the known devices could not be written", problem=self._problem)
        else:
            self._problem = ""

    def _text(self) -> str:
        # One device per line, so that an operator can read and diff the file.
        rows = {**self._leaving, **self._known}
        lines = [rows[name].model_dump_json(exclude_defaults=True) for name in sorted(rows)]
        return '{"devices": [\n' + ",\n".join(lines) + "\n]}\n"

    def _take(self, known: dict[str, KnownDevice]) -> None:
        self._known = known
        self._by_token = {one.token_sha256: one.name for one in known.values() if one.token_sha256}


def read_dial_token(folder: Path, name: str) -> str:
    """Read a device's dial token from `folder`.

    Raises:
        BadInput: the file is missing, cannot be read, or holds no valid token.
    """
    path = _token_file(folder, name)
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"The token for {name} cannot be read from {path}; pair it again.") from error
    if not TOKEN.fullmatch(token):
        # The token becomes an HTTP header: a line break in it could inject another header.
        raise BadInput(f"{path} does not hold a token; pair {name} again.")
    return token


def _token_file(folder: Path, name: str) -> Path:
    # Not `with_suffix`: it would cut off a part of a name with dots.
    return folder / f"{check_name(name)}.token"


def _by_name(known: list[KnownDevice]) -> dict[str, KnownDevice]:
    """The rows by name; raises `BadInput` if a manual edit made a name or a token ambiguous."""
    for what, seen in (
        ("device", Counter(check_name(one.name) for one in known)),
        ("token", Counter(one.token_sha256 for one in known if one.token_sha256)),
    ):
        twice = next((value for value, count in seen.items() if count > 1), None)
        if twice is not None:
            raise BadInput(f"the {what} {twice} is in it twice.")
    return {one.name: one for one in known}

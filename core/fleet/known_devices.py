"""The devices that this console knows beside its own computer, and what proves that one is who it says.

The journal is the only source: an operator's signature over the pairing, and what was set, revoked and
forgotten since. `devices.json` of the home is a copy for people and other programs; the one thing that counts
in it is that a device is revoked, as it is written before the journal is.

A device that dials in shows a token; only its SHA-256 is kept. The token is 256 random bits made here, so
there is nothing to guess that a slow or salted hash would protect: finding one that fits costs 2^255 tries,
and the hash in a journal that is handed on gives nothing away. A device that listens is shown a token by this
console, which therefore has to keep it: in a file of its own below `keys/dial/`. Our device client makes that
one as long; its SHA-256 says which file was put there when the device was paired.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

import structlog
from pydantic import Field, TypeAdapter, ValidationError

from core.aip.pairing import TOKEN
from core.audit.entries import Entry
from core.canonical_json import sha256_hex
from core.errors import BadInput, ErrorCode
from core.files import read_own_text
from core.fleet.models import DeviceSettings, Plain
from core.home import OPERATOR_NAME, write_private
from core.ids import now_utc
from core.text import escape_hidden, some_names

log = structlog.get_logger(__name__)

THIS_COMPUTER = "this-computer"
DEFAULT_AGENT = "LinuxAgent"
TOKEN_BYTES = 32
MOST_TAGS = 32
# Tokens made for devices that may be paired and are not yet; the oldest gives way.
MOST_OFFERED = 100
LARGEST_FILE = 64 << 20
_LONGEST_WORDS = 200
_SHA256 = "^([0-9a-f]{64})?$"
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")
_AGENT = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class Known(Plain):
    """One known device. `agent` is what a stock client is addressed as; empty where that is to be found out.

    `token_sha256` is of the token that it shows, `dial_token_sha256` of the one that it is shown where this
    console dials; the other one is empty. `fingerprint` is the SHA-256 of the certificate of a device that is
    dialled. `paired_at` is the time of the journal's entry, by which one pairing is told from another.
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
    paired_at: str = ""
    revoked_at: str | None = None

    @property
    def paired(self) -> bool:
        """Whether it may connect."""
        return self.revoked_at is None


_FILE: TypeAdapter[list[Known]] = TypeAdapter(list[Known])


@dataclass(frozen=True, slots=True)
class Copy:
    """`devices.json` as it was found: `text` is None where there is none, `problem` why it cannot be read."""

    devices: dict[str, Known] = field(default_factory=dict)
    text: str | None = None
    problem: str = ""


def read_copy(path: Path) -> Copy:
    """Read a `devices.json`; never fails."""
    text: str | None = ""
    try:
        text = read_own_text(path, LARGEST_FILE)
        devices = {} if text is None else _by_name(_FILE.validate_python(json.loads(text)["devices"]))
    except (ValueError, TypeError, KeyError, BadInput, RecursionError) as error:
        return Copy({}, text, _first_words(error))
    return Copy(devices, text)


def paired_by(entry: Entry) -> Known:
    """The device as an entry says that it was paired: what its signature covers, and nothing beside that.

    Raises:
        BadInput: no change that a device is paired by was signed in it.
    """
    try:
        after = entry.body["signed"]["statement"]["change"]["after"]
        return Known.model_validate({**after, "name": entry.device, "paired_at": entry.time})
    except (KeyError, TypeError, ValidationError) as error:
        raise BadInput(f"Entry {entry.seq} says of no device how it was paired.") from error


def token_digest(token: str) -> str:
    """The SHA-256 of a token, hexadecimal; also of what a stranger shows for one."""
    return sha256_hex(token.encode("utf-8", "surrogateescape"))


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
    """Known devices by name. More trust counts once it is in the journal; less trust counts at once."""

    def __init__(self, path: Path, dial_tokens: Path) -> None:
        """`path` is of the copy."""
        self._path = path
        self._dial_tokens = dial_tokens
        self._known: dict[str, Known] = {}
        self._by_token: dict[str, str] = {}
        # What says whether an operator signed a pairing, of those that were not asked about yet.
        self._proofs: dict[str, Callable[[], bool]] = {}
        # Devices that are forgotten and not yet in the journal; the copy has them as revoked.
        self._leaving: dict[str, Known] = {}
        self._offered: OrderedDict[str, str] = OrderedDict()
        self._problem = ""
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, name: str) -> asyncio.Lock:
        """Held while this device, or one that differs by the size of letters, is paired, set or forgotten."""
        return self._turns.setdefault(name.lower(), asyncio.Lock())

    def restore(
        self, known: Iterable[Known], proofs: Mapping[str, Callable[[], bool]], copy: Copy
    ) -> list[str]:
        """Take up what the journal says is known; gives what of the copy does not count, in words.

        `proofs` are asked when a device is first let in or dialled: a signature takes 0.15 ms, a thousand of
        them a fourth of the time in which a window is to be there.
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
        others = [
            row.name for row in rows if row.name in self._known and not _same(row, self._known[row.name])
        ]
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
        """Why the copy is not as the devices are known; empty where it is."""
        return self._problem

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
        known = self._known.get(self._by_token.get(token_digest(token), ""))
        return self._proved(known) if known is not None else None

    def offer_token(self) -> str:
        """Make a token for a device that may be paired; gives its SHA-256, which an operator signs."""
        token = new_token()
        self._offered[token_digest(token)] = token
        if len(self._offered) > MOST_OFFERED:
            self._offered.popitem(last=False)
        return token_digest(token)

    def take_offered(self, sha256: str) -> str:
        """The token that was offered under this digest, once; another one where there is none."""
        return self._offered.pop(sha256, "") or new_token()

    def pair(self, known: Known) -> None:
        """Know a device as it was paired, once that is in the journal; every older pairing of it is over."""
        self._proofs.pop(known.name, None)
        self._leaving.pop(known.name, None)
        self.put(known)

    def put(self, *devices: Known) -> None:
        """Know devices as they are set, once that is in the journal."""
        self._take({**self._known, **{one.name: one for one in devices}})
        self._write()

    @contextmanager
    def staged_dial_token(self, name: str, token: str) -> Iterator[Callable[[], None]]:
        """Have the token for dialling a device on the disk while it is recorded that this is the one; gives
        what puts it in the place of the one before, which stands until then.

        Raises:
            BadInput: it cannot be written, or not be put there.
        """
        path = self._token_file(name)
        fresh = path.with_suffix(".fresh")

        def replace() -> None:
            try:
                fresh.replace(path)
            except OSError as error:
                raise BadInput(f"{path} cannot be written: {error.strerror}. Pair {name} again.") from error

        try:
            self._dial_tokens.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(fresh, token + "\n")
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
        try:
            yield replace
        finally:
            fresh.unlink(missing_ok=True)

    def dial_token(self, name: str) -> str:
        """What this console shows to a device that it dials.

        Raises:
            BadInput: it is not there any more, cannot be read, or is not the one that it was paired with.
        """
        if not self._proved(self.get(name)).paired:
            raise BadInput(f"{name} is not paired with an operator's signature; pair it again.")
        token = read_dial_token(self._dial_tokens, name)
        if token_digest(token) != self.get(name).dial_token_sha256:
            path = self._token_file(name)
            raise BadInput(f"{path} does not hold the token that {name} was paired with; pair it again.")
        return token

    def revoke(self, name: str) -> Known:
        """Make a device's token worthless; it stays known. `problem` says where the copy has it otherwise.

        Raises:
            BadInput: there is no such device.
        """
        known = self.get(name)
        revoked = known.model_copy(update={"revoked_at": known.revoked_at or now_utc()})
        self.put(revoked)
        return revoked

    def forget(self, name: str) -> Known:
        """Know a device no more; gives what was known. The copy has it as revoked until `left`.

        Raises:
            BadInput: there is no such device.
        """
        known = self.get(name)
        self._leaving[name] = known.model_copy(update={"revoked_at": known.revoked_at or now_utc()})
        self._take({key: one for key, one in self._known.items() if key != name})
        self._write()
        return known

    def left(self, name: str) -> None:
        """The journal has it that a device was forgotten."""
        if self._leaving.pop(name, None) is not None:
            self._write()

    def drop_dial_token(self, name: str) -> None:
        """Delete the token for dialling a device.

        Raises:
            BadInput: it cannot be deleted.
        """
        path = self._token_file(name)
        try:
            # A crash while one was written leaves it under another name.
            for file in (path, path.with_suffix(".fresh"), path.with_suffix(".new")):
                file.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"{path} cannot be deleted: {error.strerror}.") from error

    def _proved(self, known: Known) -> Known:
        """The device; revoked, where no operator has signed that it was paired."""
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
        """Write the copy; `problem` says why that failed."""
        try:
            write_private(self._path, self._text())
        except OSError as error:
            self._problem = f"{self._path} cannot be written: {error.strerror}."
            log.warning("the copy of the known devices could not be written", problem=self._problem)
        else:
            self._problem = ""

    def _text(self) -> str:
        # A device a line, so that a person can read and compare it.
        rows = {**self._leaving, **self._known}
        lines = [rows[name].model_dump_json(exclude_defaults=True) for name in sorted(rows)]
        return '{"devices": [\n' + ",\n".join(lines) + "\n]}\n"

    def _take(self, known: dict[str, Known]) -> None:
        self._known = known
        self._by_token = {one.token_sha256: one.name for one in known.values() if one.token_sha256}


def read_dial_token(folder: Path, name: str) -> str:
    """The token that lies in `folder` for dialling a device.

    Raises:
        BadInput: it is not there any more, cannot be read, or is none.
    """
    path = _token_file(folder, name)
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"The token for {name} cannot be read from {path}; pair it again.") from error
    if not TOKEN.fullmatch(token):
        # It becomes a line of a request, which must not become two.
        raise BadInput(f"What {path} holds is no token; pair {name} again.")
    return token


def _token_file(folder: Path, name: str) -> Path:
    # A name may hold dots, and `with_suffix` must not cut one off.
    return folder / f"{check_name(name)}.token"


def _same(row: Known, known: Known) -> bool:
    """Whether a row of the copy says of a device what holds; one of an earlier version lacks a digest."""
    if not row.dial_token_sha256:
        known = known.model_copy(update={"dial_token_sha256": ""})
    return row == known


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


def _first_words(error: Exception) -> str:
    words = str(error) or type(error).__name__
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        words = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    # Whatever stands in the file may be in it, and the words go into the journal.
    return escape_hidden(words[:_LONGEST_WORDS], keep_lines=False)

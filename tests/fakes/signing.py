"""An operator with a key at hand, who signs what a test asks for; and homes whose policy is accepted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from core.aip.pairing import decode_pairing
from core.approvals.models import Operator
from core.approvals.operator_keys import (
    OperatorKey,
    create_operator_key,
    list_operator_keys,
    load_operator_key,
)
from core.approvals.operators import Operators, adding, removing
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.changes import Change, ChangeKind, Proposal, SignedChange, change_statement
from core.device.config import DeviceConfig
from core.errors import QuarterdeckError
from core.fleet.models import DeviceSettings
from core.home import Home
from core.policy.models import Profile
from core.policy.policy_file import with_profile
from core.policy.policy_store import text_digest
from core.service.api.methods import ApiMethod
from core.service.console import Console, Event
from core.service.held_settings import loosening_settings, readable_device_config
from core.service.trusted import POLICY_SUBJECT, SETTINGS_SUBJECT, policy_change
from core.service.wishes import NEXT_CERTIFICATE
from core.settings import Settings

Wish = tuple[Change, str]


def anna(home: Home) -> OperatorKey:
    """The key of the operator anna, made at first use; it has no passphrase."""
    known = any(file.name == "anna" for file in list_operator_keys(home))
    return (load_operator_key if known else create_operator_key)(home, "anna", None)


def signed_by(key: OperatorKey, proposal: Proposal) -> SignedChange:
    """A proposal with this operator's signature."""
    return key.sign_change(change_statement(proposal, key.name))


async def sign(console: Console, key: OperatorKey, wish: Change, text: str = "") -> SignedChange:
    """This operator's signature under what the service proposes for a wish."""
    return signed_by(key, await console.service.propose(wish, text))


async def identify(console: Console, key: OperatorKey) -> None:
    """Prove to the service that this operator is at the console."""
    home_key = (await console.service.state()).home_key
    await console.service.identify(key.sign_identity(home_key, await console.service.challenge()))


async def accepted(home: Home, policy: str = "", **settings: Any) -> OperatorKey:
    """Let anna be an operator of this home, whose signed policy and settings these are; gives her key.

    `policy` becomes policy.toml too; `settings` are those of settings.toml that loosen, besides what the
    home's settings.toml and device.toml have already.
    """
    home.create()
    key = anna(home)
    journal_key = load_or_create_journal_key(home.keys / "journal.key")
    journal = await Journal.open(home.path, journal_key, "quarterdeck")
    home_key = journal.public_key.public_bytes_raw().hex()
    try:
        body: dict[str, Any] = {"operator": key.operator.model_dump(mode="json")}
        entries = [NewEntry(kind=Kind.OPERATOR_REGISTERED, actor="cli:test", body=body)]
        if policy:
            change = policy_change("", policy)
            proposal = Proposal(home=home_key, change=change, needs_signature=True)
            blob = await journal.put_blob(policy.encode())
            signed = signed_by(key, proposal).model_dump(mode="json")
            body = {"text": blob, "policy_pin": text_digest(policy), "signed": signed}
            entries.append(NewEntry(kind=Kind.POLICY_SAVED, actor="cli:test", body=body, blobs=[blob]))
        after = {**loosening_settings(Settings.read(home.settings), readable_device_config(home)), **settings}
        if after != loosening_settings(Settings(), DeviceConfig()):
            change = Change(kind=ChangeKind.SETTINGS, subject=SETTINGS_SUBJECT, after=after)
            proposal = Proposal(home=home_key, change=change, needs_signature=True)
            body = {"settings": after, "signed": signed_by(key, proposal).model_dump(mode="json")}
            entries.append(NewEntry(kind=Kind.SETTINGS_ACCEPTED, actor="cli:test", body=body))
        await journal.append_many(entries)
    finally:
        await journal.close()
    if policy:
        home.policy.write_text(policy)
    return key


def _paired(name: str, settings: DeviceSettings, *_: Any) -> Wish:
    after = {"direction": "in", **settings.model_dump(mode="json", exclude_none=True)}
    return Change(kind=ChangeKind.DEVICE_PAIRED, subject=name, after=after), ""


def _paired_listening(name: str, string: str, settings: DeviceSettings, *_: Any) -> Wish:
    line = decode_pairing(string)
    after = {"direction": "out", "url": line.url, "fingerprint": line.fingerprint}
    after |= settings.model_dump(mode="json", exclude_none=True)
    return Change(kind=ChangeKind.DEVICE_PAIRED, subject=name, after=after), string


def _policy(text: str) -> Wish:
    after = {"sha256": text_digest(text)}
    return Change(kind=ChangeKind.POLICY, subject=POLICY_SUBJECT, after=after), text


_WISHES: dict[str, Callable[..., Wish]] = {
    "pair": _paired,
    "pair_listening": _paired_listening,
    "set_device": lambda name, settings: (
        Change(
            kind=ChangeKind.DEVICE_SET,
            subject=name,
            after=settings.model_dump(mode="json", exclude_none=True),
        ),
        "",
    ),
    "listen": lambda address: (Change(kind=ChangeKind.LISTENING, after={"address": address.strip()}), ""),
    "review_contract": lambda device, key, digest: (
        Change(kind=ChangeKind.CONTRACT, subject=f"{device}/{key}", after={"contract": digest}),
        "",
    ),
    "save_policy": lambda text, digest: _policy(text),
    "accept_machine": lambda name, identity: (
        Change(kind=ChangeKind.DEVICE_BOUND, subject=name, after={"identity": identity}),
        "",
    ),
    "renew_certificate": lambda: (NEXT_CERTIFICATE, ""),
    "resume": lambda: (Change(kind=ChangeKind.RESUME), ""),
    "register_operator": lambda operator: (adding(operator), ""),
}


# Those whose wish depends on how things stand.
_WISHES_OF_STATE = ("set_profile", "remove_operator", "accept_policy", "accept_settings")


class _Signing(Console):
    """A console whose operator signs whatever has to be signed, as one at a window or terminal would."""

    def __init__(self, console: Console, home: Home) -> None:
        super().__init__()
        self._console = console
        self._home = home

    async def invoke(self, method: ApiMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs or (method.wire not in _WISHES and method.wire not in _WISHES_OF_STATE):
            return await self._console.invoke(method, args, kwargs)
        signed = None
        try:
            wish, text = await self._wish(method.wire, args)
            proposal = await self._console.service.propose(wish, text)
            if proposal.needs_signature:
                signed = signed_by(await self._key(), proposal)
        except QuarterdeckError:
            # The act itself says what is wrong with it.
            signed = None
        return await self._console.invoke(method, args, {"signed": signed})

    def events(self) -> AsyncIterator[Event]:
        return self._console.events()

    async def close(self) -> None:
        await self._console.close()

    async def _wish(self, name: str, arguments: tuple[Any, ...]) -> Wish:
        if name == "set_profile":
            profile: Profile = arguments[0]
            return _policy(with_profile((await self._console.policy.text()).text, profile))
        if name == "accept_policy":
            return _policy((await self._console.policy.text()).text)
        if name == "accept_settings":
            after = loosening_settings(Settings.read(self._home.settings), readable_device_config(self._home))
            return Change(kind=ChangeKind.SETTINGS, subject=SETTINGS_SUBJECT, after=after), ""
        if name == "remove_operator":
            operators = (await self._console.service.state()).operators
            return removing(next(one for one in operators if one.name == arguments[0])), ""
        return _WISHES[name](*arguments)

    async def _key(self) -> OperatorKey:
        """A key of a registered operator that lies in the home; anna's, when there is no operator yet."""
        registered = {one.name: one.public_key for one in (await self._console.service.state()).operators}
        if not registered:
            await self._console.approvals.register_operator(anna(self._home).operator)
            return anna(self._home)
        for file in list_operator_keys(self._home):
            if registered.get(file.name) == file.public_key and not file.has_passphrase:
                return load_operator_key(self._home, file.name, None)
        raise AssertionError(f"No key of {sorted(registered)} can sign here")


def signing(console: Console, home: Home) -> Console:
    """This console, with an operator of the home at it who signs what has to be signed."""
    return console if isinstance(console, _Signing) else _Signing(console, home)


def register(operators: Operators, operator: Operator) -> None:
    """Let an operator be registered who is not yet."""
    if not operators.is_registered(operator):
        operators.add(operator)

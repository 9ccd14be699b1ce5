"""Proposals: the change that an operator signs, and what it loosens, for each kind of change.

Both the preview of a change and its execution use these functions. Each returns the change to be signed and
sentences about what would run, or be reachable, beyond the present state. There are no sentences if the
change only tightens, which needs no signature.

A scope decides which devices something reaches: rules, profiles, the targets of agents and of saved batches.
Setting a tag or a production mark that one of them looks at widens that scope, so that an operator signs it.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from core.actors import AGENT_PREFIX
from core.address import split_address
from core.aip.pairing import decode_pairing
from core.approvals.models import Operator
from core.approvals.operators import adding, removing
from core.batch.saved import SavedBatches
from core.changes import Change, ChangeKind, next_certificate_change
from core.errors import BadInput, ErrorCode, first_fault
from core.fleet.certificates import short_fingerprint
from core.fleet.known_devices import THIS_COMPUTER, KnownDevice, check_name, with_settings
from core.fleet.models import DeviceSettings
from core.policy.agent_models import AgentSettings, targets_words, token_prefix
from core.policy.agents import loosenings as agent_loosenings
from core.policy.loosening import loosenings
from core.policy.marks import Mark, policy_looks_at, targets_look_at
from core.policy.policy_store import checked_policy, text_digest
from core.service.held_settings import (
    loosening_settings,
    pending_settings,
    reaches_beyond,
    readable_device_config,
)
from core.service.service import Service
from core.service.trusted import SETTINGS_SUBJECT, policy_change
from core.text import sentences, some_names
from core.tokens import token_digest


async def scopes_looking_at(service: Service, mark: Mark) -> list[str]:
    """The scopes that depend on this mark of a device, in words; empty if none does."""
    looking = []
    if any(policy_looks_at(file, mark) for file in service.policy.files):
        looking.append("rules or profiles")
    agents = [agent.name for agent in service.agents.list() if targets_look_at(agent.settings.targets, mark)]
    if agents:
        looking.append(f"the targets of {_named('agent', 'agents', agents)}")
    batches = await asyncio.to_thread(_batches_looking_at, SavedBatches(service.home.batches), mark)
    if batches:
        looking.append(f"the targets of {_named('saved batch', 'saved batches', batches)}")
    return looking


def _batches_looking_at(saved: SavedBatches, mark: Mark) -> list[str]:
    return [name for name in saved.names() if _batch_looks_at(saved, name, mark)]


def _batch_looks_at(saved: SavedBatches, name: str, mark: Mark) -> bool:
    try:
        return targets_look_at(saved.load(name).targets, mark)
    except BadInput:
        return False  # a file that cannot be read cannot be run


def _named(one_word: str, many_word: str, names: list[str]) -> str:
    return f"{one_word if len(names) == 1 else many_word} {some_names(names)}"


class PlannedChange(NamedTuple):
    """A change to be signed, and sentences about what it loosens."""

    change: Change
    loosens: list[str]


def policy(service: Service, text: str) -> PlannedChange:
    """A new policy text, compared with the accepted policy.

    Raises:
        BadInput: the text has a fault.
    """
    accepted = service.policy.accepted_text
    loosens = loosenings(checked_policy(accepted), checked_policy(text))
    return PlannedChange(policy_change(accepted, text), loosens)


def settings(service: Service) -> PlannedChange:
    """Accepting the present settings.toml, and this computer's device.toml.

    Raises:
        BadInput: the file is broken.
    """
    read, device = service.written_settings(), readable_device_config(service.home)
    after = loosening_settings(read, device)
    change = Change(
        kind=ChangeKind.SETTINGS,
        subject=SETTINGS_SUBJECT,
        before=dict(service.accepted_settings),
        after=after,
    )
    return PlannedChange(change, pending_settings(read, service.accepted_settings, device))


def listening(service: Service, address: str) -> PlannedChange:
    """Listening for devices at another address.

    Raises:
        BadInput: the address is malformed.
    """
    address = address.strip()
    split_address(address)
    before = service.links.listening().address
    change = Change(kind=ChangeKind.LISTENING, before={"address": before}, after={"address": address})
    farther = reaches_beyond(address) and address != before
    return PlannedChange(
        change, [f"Devices can dial in at {address}, from other machines."] if farther else []
    )


async def contract(service: Service, device: str, tool_key: str, digest: str) -> PlannedChange:
    """Trusting a tool by its present definition; `digest` is the digest of the contract under review.

    Raises:
        BadInput: there is no such device or tool.
    """
    difference = await service.fleet.change(device, tool_key)
    pinned = service.fleet.pinned(device, tool_key)
    change = Change(
        kind=ChangeKind.CONTRACT,
        subject=f"{device}/{tool_key}",
        before={"definition": pinned},
        # The pin as the journal records it: the definition's digest and the facts that the device claims.
        after={"contract": digest, "pin": service.fleet.pin_now(device, tool_key)},
    )
    words = f": {', '.join(difference.changed)}" if difference.changed else ""
    return PlannedChange(change, [f"{tool_key} on {device} runs again, as it is defined now{words}."])


def pairing(service: Service, name: str, new_settings: DeviceSettings, token_sha256: str) -> PlannedChange:
    """Pairing a device that dials in with the token of this digest.

    Raises:
        BadInput: the name is not allowed, or a setting is malformed.
    """
    known = paired_as(service, name, new_settings)
    certificate = service.links.certificates.present
    # The certificate that the device pins, by which the console later knows whether it can connect.
    pinned = {"certificate_sha256": certificate} if certificate else {}
    after = {"direction": "in", "token_sha256": token_sha256, **pinned, **settings_of(known)}
    return PlannedChange(
        Change(
            kind=ChangeKind.DEVICE_PAIRED,
            subject=name,
            before=_before(service, name),
            after=after,
        ),
        [f"What shows the new token is {name}{_tagged(known)}; its tools that are new are trusted."],
    )


def pairing_listening(
    service: Service, name: str, string: str, new_settings: DeviceSettings
) -> PlannedChange:
    """Pairing a device that listens, which this console dials by the device's pairing string.

    Raises:
        BadInput: as `pairing`; or the string is malformed, or of another device.
    """
    line = decode_pairing(string)
    if name != line.name:
        # A device registers under its own name, and no other name is accepted for it.
        raise BadInput(f"This string was made by {line.name!r}: pair it under that name, or rename it there.")
    known = paired_as(service, name, new_settings)
    after = {
        "direction": "out",
        "url": line.url,
        "fingerprint": line.fingerprint,
        "dial_token_sha256": token_digest(line.token),
        **settings_of(known),
    }
    return PlannedChange(
        Change(
            kind=ChangeKind.DEVICE_PAIRED,
            subject=name,
            before=_before(service, name),
            after=after,
        ),
        [f"This console dials {line.url} as {name}{_tagged(known)}; its tools that are new are trusted."],
    )


def certificate(service: Service, fingerprint: str) -> PlannedChange:
    """That devices accept a further certificate of this console, with this SHA-256, after the present one.

    Raises:
        BadInput: no device pins a certificate of this console, because it listens without TLS or not at all.
    """
    present = service.links.certificates.present
    if not present:
        raise BadInput("This console listens without TLS, for this computer only: no device pins it.")
    return PlannedChange(
        next_certificate_change(present, fingerprint),
        [
            f"Devices that are paired here accept the certificate {short_fingerprint(fingerprint)} beside "
            f"{short_fingerprint(present)}, and alone once this console shows it."
        ],
    )


async def device_settings(service: Service, name: str, new_settings: DeviceSettings) -> PlannedChange:
    """Changing a device's tags, colour band or agent. Loosens only if a scope looks at what changes.

    Raises:
        BadInput: there is no such device, or a setting is malformed.
    """
    known = service.registry.get(remote(name))
    changed = with_settings(known, new_settings)
    change = Change(
        kind=ChangeKind.DEVICE_SET, subject=name, before=settings_of(known), after=settings_of(changed)
    )
    loosens = []
    if changed.tags != known.tags and (looking := await scopes_looking_at(service, "tag")):
        tags = " ".join(changed.tags) or "none"
        loosens.append(f"The tags of {name} become {tags}; {' and '.join(looking)} look at them.")
    if bool(changed.production) is not bool(known.production) and (
        looking := await scopes_looking_at(service, "production")
    ):
        becomes = "" if changed.production else "no longer "
        loosens.append(f"{name} is {becomes}production, which {' and '.join(looking)} look at.")
    return PlannedChange(change, loosens)


def machine(service: Service, name: str, identity: str) -> PlannedChange:
    """Letting another machine use a device's pairing.

    Raises:
        BadInput: there is no such device, or no machine of this identity waits to be accepted.
    """
    before = service.links.machines.of(service.registry.get(remote(name)).name)
    after = service.links.machines.waiting(name, identity)
    change = Change(
        kind=ChangeKind.DEVICE_BOUND,
        subject=name,
        before=before.model_dump(mode="json"),
        after=after.model_dump(mode="json"),
    )
    loosens = [
        f"{after.words} is {name} from now on, in place of {before.words}: rules and grants for "
        f"{name} apply there. What waits for {name} is withdrawn."
    ]
    if not after.identity:
        loosens.append(f"Its client does not tell its machine: a further change of {name} goes unnoticed.")
    return PlannedChange(change, loosens)


def resume(service: Service) -> PlannedChange:
    """Ending Stop all, so that commands are sent again."""
    stopped = service.dispatcher.stopped
    change = Change(kind=ChangeKind.RESUME, before={"stopped": stopped})
    return PlannedChange(change, ["Commands leave again. What was stopped stays stopped."] if stopped else [])


def operator_added(service: Service, operator: Operator) -> PlannedChange:
    """Registering an operator. A home's first operator needs no signature, once.

    Raises:
        BadInput, Refused: the operator cannot be registered.
    """
    if service.operators.is_registered(operator):
        return PlannedChange(adding(operator), [])
    service.operators.check_new(operator)
    if not service.operators.begun:
        return PlannedChange(adding(operator), [])
    return PlannedChange(
        adding(operator), [f"{operator.name} (key …{operator.fingerprint}) can approve requests."]
    )


def operator_removed(service: Service, name: str) -> PlannedChange:
    """Removing an operator. This needs a signature too: a program must not choose who may approve.

    Raises:
        BadInput, Refused: there is no operator of that name, or it is the last operator.
    """
    operator = service.operators.check_removable(name)
    return PlannedChange(
        removing(operator), [f"{name} (key …{operator.fingerprint}) decides nothing any more."]
    )


def paired_as(service: Service, name: str, new_settings: DeviceSettings) -> KnownDevice:
    """The device to be paired, with its earlier settings if it is already registered.

    Raises:
        BadInput: the name is not allowed, or a setting is malformed.
    """
    check_name(name)
    service.registry.check_free(name)
    return with_settings(service.registry.find(name) or KnownDevice(name=name), new_settings)


def settings_of(known: KnownDevice) -> dict[str, Any]:
    """The settings of a device that an operator chooses; no credentials."""
    return {"tags": list(known.tags), "production": known.production, "agent": known.agent}


def remote(name: str) -> str:
    """Return `name` if it is a remote device's.

    Raises:
        BadInput: it is this computer, which cannot be paired, changed or forgotten.
    """
    if name == THIS_COMPUTER:
        raise BadInput(
            f"{THIS_COMPUTER} is the computer that the console runs on; its tags are in settings.toml."
        )
    return name


def agent_added(service: Service, name: str, settings: AgentSettings, token_sha256: str) -> PlannedChange:
    """Adding an agent with the token of this digest; an agent of that name gets the new token.

    Raises:
        BadInput, Refused: the agent cannot be added.
    """
    service.agents.check_new(name)
    before = service.agents.find(AGENT_PREFIX + name)
    change = Change(
        kind=ChangeKind.AGENT_ADDED,
        subject=name,
        before=agent_json(before.settings) if before is not None else {},
        after={**agent_json(settings), "token_sha256": token_sha256},
    )
    return PlannedChange(
        change,
        [
            f"A program with the new token acts as the agent {name}: it may ask for commands on "
            f"{targets_words(settings.targets)}, with the profile {settings.profile.value}."
        ],
    )


def agent_set(service: Service, name: str, settings: AgentSettings) -> PlannedChange:
    """Replacing the settings of an agent. Loosens unless each of them is as strict as before.

    Raises:
        BadInput: there is no such agent.
    """
    before = service.agents.get(name).settings
    change = Change(
        kind=ChangeKind.AGENT_SET, subject=name, before=agent_json(before), after=agent_json(settings)
    )
    return PlannedChange(change, agent_loosenings(before, settings))


def agent_json(settings: AgentSettings) -> dict[str, Any]:
    """The settings of an agent as a statement and the journal hold them."""
    return settings.model_dump(mode="json")


async def of(service: Service, wish: Change, text: str) -> PlannedChange:
    """The change that a client requests, as the service would carry it out.

    Raises:
        BadInput, Refused: the change is not possible, or the request lacks a needed value.
    """
    after = wish.after
    match wish.kind:
        case ChangeKind.POLICY:
            if after.get("sha256") != text_digest(text):
                raise BadInput("The text is not the one that the wish names.")
            return policy(service, text)
        case ChangeKind.SETTINGS:
            return settings(service)
        case ChangeKind.LISTENING:
            return listening(service, str(after.get("address", "")))
        case ChangeKind.CONTRACT:
            device, _, tool_key = wish.subject.partition("/")
            return await contract(service, device, tool_key, str(after.get("contract", "")))
        case ChangeKind.DEVICE_PAIRED:
            new_settings = _settings_in(after)
            if after.get("direction") == "out":
                return pairing_listening(service, wish.subject, text, new_settings)
            return pairing(service, wish.subject, new_settings, service.registry.offer_token())
        case ChangeKind.DEVICE_SET:
            return await device_settings(service, wish.subject, _settings_in(after))
        case ChangeKind.DEVICE_BOUND:
            return machine(service, wish.subject, str(after.get("identity", "")))
        case ChangeKind.CERTIFICATE:
            return certificate(service, service.links.certificates.offer())
        case ChangeKind.RESUME:
            return resume(service)
        case ChangeKind.OPERATOR_ADDED:
            return operator_added(
                service,
                Operator(
                    name=wish.subject,
                    public_key=str(after.get("public_key", "")),
                    has_passphrase=after.get("has_passphrase") is True,
                ),
            )
        case ChangeKind.OPERATOR_REMOVED:
            return operator_removed(service, wish.subject)
        case ChangeKind.AGENT_ADDED:
            offered = service.agents.offered.offer(token_prefix(wish.subject))
            return agent_added(service, wish.subject, _agent_settings_in(after), offered)
        case ChangeKind.AGENT_SET:
            return agent_set(service, wish.subject, _agent_settings_in(after))
        case ChangeKind.LOSS_ACCEPTED:
            raise BadInput("While a service has the journal open, nothing is missing in it.")


def _settings_in(after: dict[str, Any]) -> DeviceSettings:
    fields = {name: after[name] for name in ("tags", "production", "agent") if name in after}
    try:
        return DeviceSettings.model_validate(fields)
    except ValueError as error:
        words = f"These are not settings of a device: {first_fault(error)}"
        raise BadInput(words, ErrorCode.INVALID_ARGUMENTS) from error


def _agent_settings_in(after: dict[str, Any]) -> AgentSettings:
    try:
        return AgentSettings.model_validate(after)
    except ValueError as error:
        raise BadInput(sentences(f"These are not settings of an agent: {first_fault(error)}")) from error


def _before(service: Service, name: str) -> dict[str, Any]:
    known = service.registry.find(name)
    return settings_of(known) if known is not None else {}


def _tagged(known: KnownDevice) -> str:
    tags = f" with the tags {' '.join(known.tags)}" if known.tags else ""
    return tags + (", production" if known.production else "")

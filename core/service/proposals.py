"""What each change would be, and what it would loosen: made in one place for looking at it and for doing it.

Each method gives the change as it has to be signed, and the sentences that say what would run, or reach
farther, than now; none where the change only tightens, which needs no signature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from core.aip.pairing import decode_pairing
from core.approvals.models import Operator
from core.approvals.operators import adding, removing
from core.changes import Change, ChangeKind
from core.errors import BadInput, ErrorCode
from core.fleet.contracts import changed_parts
from core.fleet.known_devices import THIS_COMPUTER, Known, check_name, token_digest, with_settings
from core.fleet.models import DeviceSettings
from core.home import split_address
from core.policy.loosening import loosenings
from core.policy.policy_file import PolicyFile
from core.policy.policy_store import checked_policy, text_digest
from core.service.service import Service
from core.service.trusted import (
    SETTINGS_SUBJECT,
    loosening_settings,
    pending_settings,
    policy_change,
    reaches_beyond,
)


class Wanted(NamedTuple):
    """A change as it has to be signed, and what it loosens."""

    change: Change
    loosens: list[str]


def policy(service: Service, text: str) -> Wanted:
    """Another policy, compared with the one that was accepted last.

    Raises:
        BadInput: the text has a fault.
    """
    accepted = service.policy.accepted_text
    found = loosenings(checked_policy(accepted), checked_policy(text))
    return Wanted(policy_change(accepted, text), found)


def settings(service: Service) -> Wanted:
    """settings.toml as it stands now.

    Raises:
        BadInput: it is broken.
    """
    read = service.home.settings()
    after = loosening_settings(read)
    change = Change(
        kind=ChangeKind.SETTINGS,
        subject=SETTINGS_SUBJECT,
        before=dict(service.accepted_settings),
        after=after,
    )
    return Wanted(change, pending_settings(read, service.accepted_settings))


def listening(service: Service, address: str) -> Wanted:
    """Listening for devices at another address.

    Raises:
        BadInput: it is no address.
    """
    address = address.strip()
    split_address(address)
    before = service.links.listening().address
    change = Change(kind=ChangeKind.LISTENING, before={"address": before}, after={"address": address})
    farther = reaches_beyond(address) and address != before
    return Wanted(change, [f"Devices can dial in at {address}, from other machines."] if farther else [])


async def contract(service: Service, device: str, tool_key: str, digest: str) -> Wanted:
    """Trusting a tool as it is defined now; `digest` is that of the contract that was looked at.

    Raises:
        BadInput: no such device or tool.
    """
    found = await service.fleet.change(device, tool_key)
    pinned = service.fleet.pinned(device, tool_key)
    change = Change(
        kind=ChangeKind.CONTRACT,
        subject=f"{device}/{tool_key}",
        before={"definition": pinned},
        # How it is pinned then: the definition's digest and what its device claims, as the journal has it.
        after={"contract": digest, "pin": service.fleet.pin_now(device, tool_key)},
    )
    parts = changed_parts(found.before, found.after) if found.before is not None else []
    words = f": {', '.join(parts)}" if parts else ""
    return Wanted(change, [f"{tool_key} on {device} runs again, as it is defined now{words}."])


def pairing(service: Service, name: str, wanted: DeviceSettings, token_sha256: str) -> Wanted:
    """A device that dials in with the token that has this digest.

    Raises:
        BadInput: it may not be called that, or a setting is not written as one.
    """
    known = paired_as(service, name, wanted)
    after = {"direction": "in", "token_sha256": token_sha256, **settings_of(known)}
    return Wanted(
        Change(
            kind=ChangeKind.DEVICE_PAIRED,
            subject=name,
            before=_before(service, name),
            after=after,
        ),
        [f"What shows the new token is {name}{_tagged(known)}; its tools that are new are trusted."],
    )


def pairing_listening(service: Service, name: str, string: str, wanted: DeviceSettings) -> Wanted:
    """A device that listens, dialled with what its pairing string says.

    Raises:
        BadInput: as `pairing`, or the string is none, or of another device.
    """
    line = decode_pairing(string)
    if name != line.name:
        # A device registers under its own name, and only under that one is it let in.
        raise BadInput(f"This string was made by {line.name!r}: pair it under that name, or rename it there.")
    known = paired_as(service, name, wanted)
    after = {
        "direction": "out",
        "url": line.url,
        "fingerprint": line.fingerprint,
        "dial_token_sha256": token_digest(line.token),
        **settings_of(known),
    }
    return Wanted(
        Change(
            kind=ChangeKind.DEVICE_PAIRED,
            subject=name,
            before=_before(service, name),
            after=after,
        ),
        [f"This console dials {line.url} as {name}{_tagged(known)}; its tools that are new are trusted."],
    )


def device_settings(service: Service, name: str, wanted: DeviceSettings) -> Wanted:
    """Other tags, colour band or agent for a device. Where no rule and no profile looks at tags or at
    production, these decide nothing.

    Raises:
        BadInput: there is no such device, or a setting is not written as one.
    """
    known = service.registry.get(remote(name))
    changed = with_settings(known, wanted)
    change = Change(
        kind=ChangeKind.DEVICE_SET, subject=name, before=settings_of(known), after=settings_of(changed)
    )
    found = []
    if changed.tags != known.tags and any(looks_at_tags(file) for file in service.policy.files):
        found.append(
            f"The tags of {name} become {' '.join(changed.tags) or 'none'}; rules or profiles look at them."
        )
    looked_at = any(looks_at_production(file) for file in service.policy.files)
    if bool(changed.production) is not bool(known.production) and looked_at:
        found.append(
            f"{name} is {'' if changed.production else 'no longer '}production, which rules look at."
        )
    return Wanted(change, found)


def resume(service: Service) -> Wanted:
    """Letting commands leave again."""
    stopped = service.dispatcher.stopped
    change = Change(kind=ChangeKind.RESUME, before={"stopped": stopped})
    return Wanted(change, ["Commands leave again. What was stopped stays stopped."] if stopped else [])


def operator_added(service: Service, operator: Operator) -> Wanted:
    """One more operator. The first one of a home needs no signature, once.

    Raises:
        BadInput, Refused: that operator cannot be registered.
    """
    if service.operators.is_registered(operator):
        return Wanted(adding(operator), [])
    service.operators.check_new(operator)
    if not service.operators.begun:
        return Wanted(adding(operator), [])
    return Wanted(adding(operator), [f"{operator.name} (key …{operator.fingerprint}) can approve requests."])


def operator_removed(service: Service, name: str) -> Wanted:
    """One operator less. An operator signs that as well: who decides is not for programs to choose.

    Raises:
        BadInput, Refused: there is none of that name, or it is the last one.
    """
    operator = service.operators.check_removable(name)
    return Wanted(removing(operator), [f"{name} (key …{operator.fingerprint}) decides nothing any more."])


def paired_as(service: Service, name: str, wanted: DeviceSettings) -> Known:
    """The device to be paired, with what holds of it already.

    Raises:
        BadInput: it may not be called that, or a setting is not written as one.
    """
    check_name(name)
    service.registry.check_free(name)
    return with_settings(service.registry.find(name) or Known(name=name), wanted)


def settings_of(known: Known) -> dict[str, Any]:
    """What an operator has set of a device: nothing that proves who it is."""
    return {"tags": list(known.tags), "production": known.production, "agent": known.agent}


def remote(name: str) -> str:
    """The name of a remote device.

    Raises:
        BadInput: it is this computer, which is not to be paired, changed or forgotten.
    """
    if name == THIS_COMPUTER:
        raise BadInput(
            f"{THIS_COMPUTER} is the computer that the console runs on; its tags are in settings.toml."
        )
    return name


def looks_at_tags(file: PolicyFile) -> bool:
    """Whether a tag decides anything in this policy."""
    return any(line.tag is not None for line in file.profiles) or any(
        rule.tag is not None for rule in file.rules
    )


def looks_at_production(file: PolicyFile) -> bool:
    """Whether the production mark decides anything in this policy."""
    return any(rule.production is not None for rule in file.rules)


async def of(service: Service, wish: Change, text: str) -> Wanted:
    """The change that a client wishes for, as the service would make it.

    Raises:
        BadInput, Refused: it cannot be made; or the wish does not say what is needed.
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
            wanted = _settings_in(after)
            if after.get("direction") == "out":
                return pairing_listening(service, wish.subject, text, wanted)
            return pairing(service, wish.subject, wanted, service.registry.offer_token())
        case ChangeKind.DEVICE_SET:
            return device_settings(service, wish.subject, _settings_in(after))
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


def _settings_in(after: dict[str, Any]) -> DeviceSettings:
    fields = {name: after[name] for name in ("tags", "production", "agent") if name in after}
    try:
        return DeviceSettings.model_validate(fields)
    except ValueError as error:
        raise BadInput(f"These are no settings of a device: {error}", ErrorCode.INVALID_ARGUMENTS) from error


def _before(service: Service, name: str) -> dict[str, Any]:
    known = service.registry.find(name)
    return settings_of(known) if known is not None else {}


def _tagged(known: Known) -> str:
    tags = f" with the tags {' '.join(known.tags)}" if known.tags else ""
    return tags + (", production" if known.production else "")

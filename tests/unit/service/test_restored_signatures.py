"""What a service reads back from its journal is checked as when it was made, however it came there.

The entries here are written with the journal's own key: what keeps other programs from writing into the
journal is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.aip.pairing import decode_pairing
from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.events import (
    AgentAdded,
    AllResumed,
    DeviceSet,
    GrantGiven,
    OperatorRemoved,
    PolicySaved,
)
from core.changes import ChangeKind, Proposal, SignedChange, change_statement
from core.errors import ErrorCode, QuarterdeckError, Refused
from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.tools import Risk
from core.policy.agent_models import AgentSettings
from core.policy.grant_book import GrantBook
from core.policy.grants import GrantTerms, SignedGrant
from core.policy.models import Profile
from core.policy.policy_store import text_digest
from core.service.changes import SIGNED_KINDS
from core.service.local_console import LocalConsole
from core.service.proposals import agent_json
from core.service.service import Service
from core.service.trusted import policy_change
from core.service.wishes import RESUME, agent_added
from tests.fakes.agents import add_agent, set_agent
from tests.fakes.signing import anna, sign, signing
from tests.fakes.trust_desk import make_listening_home, write_journal

LAX = 'profile = "trusted"\n'
TAGGED = '[[profiles]]\ntag = "lab"\nprofile = "trusted"\n'
TIGHT = AgentSettings(profile=Profile.OBSERVE, paused=True)


@pytest.fixture
def home(memory_path: Path) -> Home:
    return make_listening_home(memory_path / "home")


@asynccontextmanager
async def opened(home: Home) -> AsyncIterator[tuple[Service, Any, OperatorKey]]:
    """A service with anna, who signs whatever has to be signed."""
    service = await Service.open(home)
    try:
        console = LocalConsole(service, "operator:anna")
        key = anna(home)
        await console.approvals.register_operator(key.operator)
        yield service, signing(console, home), key
    finally:
        await service.close()


async def save(console: Any, text: str) -> None:
    await console.policy.save(text, (await console.policy.text()).digest)


async def entries_of(service: Service, query: str) -> list[Entry]:
    await service.journal.settle()
    return (await service.journal.query(query, after=0, limit=1_000)).entries


def again(entry: Entry) -> NewEntry:
    return NewEntry(**entry.model_dump(exclude={"seq", "time"}))


def signed_policy(service: Service, key: OperatorKey, text: str, valid_s: float = 60) -> SignedChange:
    proposal = Proposal(
        home=service.gate.home_key,
        change=policy_change(service.policy.accepted_text, text),
        needs_signature=True,
    )
    return key.sign_change(change_statement(proposal, key.name, valid_s))


async def policy_saved(service: Service, text: str, signed: SignedChange) -> NewEntry:
    """The entry that accepts a policy by this signature."""
    blob = await service.journal.put_blob(text.encode())
    event = PolicySaved(
        before="", after="", text=blob, policy_pin=text_digest(text), signed=signed.model_dump(mode="json")
    )
    return event.entry("operator:anna", blobs=[blob])


async def state_of(service: Service, console: Any) -> dict[str, Any]:
    """What of a home can be loosened."""
    return {
        "operators": [operator.name for operator in service.operators.list()],
        "policy": service.policy.accepted_text,
        "agents": [agent.settings for agent in service.agents.list()],
        "devices": [known.model_dump() for known in service.registry.devices()],
        "settings": service.accepted_settings,
        "stopped": bool(service.dispatcher.stopped),
        "grants": [grant.over for grant in await console.approvals.grants()],
    }


async def test_no_signature_in_the_journal_holds_a_second_time(home: Home):
    async with opened(home) as (service, console, key):
        bob = create_operator_key(home, "bob", None)
        await save(console, LAX)
        await save(console, TAGGED)
        await add_agent(console, key, "night", AgentSettings(profile=Profile.TRUSTED))
        await set_agent(console, key, "night", AgentSettings(profile=Profile.TRUSTED, waiting=50))
        await console.agents.update("night", TIGHT)
        await console.approvals.register_operator(bob.operator)
        await console.approvals.remove_operator("bob")
        await console.devices.pair("prod-1", DeviceSettings(tags=["prod"]))
        await console.devices.update("prod-1", DeviceSettings(tags=["lab"]))
        await console.devices.update("prod-1", DeviceSettings(tags=["prod"]))
        await console.devices.pair("lost-1", DeviceSettings())
        await console.devices.revoke("lost-1")
        await console.service.stop_all()
        await console.service.resume()
        await console.service.stop_all()
        before = await state_of(service, console)
        signed = [
            entry for entry in await entries_of(service, "quarterdeck.change") if "signed" in entry.body
        ]
        assert {entry.kind for entry in signed} == {
            Kind.POLICY_SAVED,
            Kind.AGENT_ADDED,
            Kind.AGENT_SET,
            Kind.OPERATOR_REGISTERED,
            Kind.OPERATOR_REMOVED,
            Kind.DEVICE_PAIRED,
            Kind.DEVICE_SET,
            Kind.ALL_RESUMED,
        }
    # A replayed pairing locks its device out, and pairs nothing (`test_a_pairing_holds_once`).
    await write_journal(home, *(again(entry) for entry in signed if entry.kind is not Kind.DEVICE_PAIRED))
    await write_journal(home, again(signed[0]))
    async with opened(home) as (service, console, _):
        after = await state_of(service, console)
        assert after == before
        notes = "\n".join(service.notes)
        for words in ("A policy was accepted", "about an agent", "Operator bob", "prod-1 was set", "resumed"):
            assert words in notes, notes


async def test_a_pairing_holds_once(home: Home):
    async with opened(home) as (service, console, _):
        token = decode_pairing((await console.devices.pair("lost-1", DeviceSettings())).string).token
        owner = service.registry.owner_of(token)
        assert owner
        assert owner.paired
        await console.devices.revoke("lost-1")
        [entry] = await entries_of(service, "kind:device_paired")
    await write_journal(home, again(entry))
    async with opened(home) as (service, _, _):
        owner = service.registry.owner_of(token)
        assert owner is None or not owner.paired
        assert "lost-1 was paired without a valid signature" in "\n".join(service.notes)


async def test_an_entry_about_a_policy_counts_only_in_the_time_of_its_signature(home: Home):
    async with opened(home) as (service, _, key):
        late = await policy_saved(service, LAX, signed_policy(service, key, LAX, valid_s=-3_600))
        far = await policy_saved(service, LAX, signed_policy(service, key, LAX, valid_s=3_600))
    for entry in (late, far):
        await write_journal(home, entry)
        async with opened(home) as (service, _, _):
            assert service.policy.accepted_text == ""
            assert "A policy was accepted without a valid signature" in "\n".join(service.notes)
    async with opened(home) as (service, _, key):
        good = await policy_saved(service, LAX, signed_policy(service, key, LAX))
    await write_journal(home, good)
    async with opened(home) as (service, _, _):
        assert service.policy.accepted_text == LAX


async def test_a_signature_that_the_service_refused_is_used_up(home: Home):
    async with opened(home) as (service, console, key):
        signed = signed_policy(service, key, LAX)
        with pytest.raises(Refused) as refused:
            await console.policy.save(TAGGED, (await console.policy.text()).digest, signed=signed)
        assert refused.value.code is ErrorCode.APPROVAL_INVALID
        with pytest.raises(Refused, match="used already"):
            await console.policy.save(LAX, (await console.policy.text()).digest, signed=signed)
        entry = await policy_saved(service, LAX, signed)
    await write_journal(home, entry)
    async with opened(home) as (service, console, _):
        assert service.policy.accepted_text == ""
        with pytest.raises(Refused, match="used already"):
            await console.policy.save(LAX, (await console.policy.text()).digest, signed=signed)


async def test_a_nonce_is_known_for_the_life_of_the_journal(home: Home, monkeypatch: pytest.MonkeyPatch):
    async with opened(home) as (service, console, key):
        await console.service.stop_all()
        signed = await sign(console, key, RESUME)
        await console.service.resume(signed=signed)
    # A day later the journal is a day older; a clock that went back makes the signature look fresh.
    ahead = (datetime.now(UTC) + timedelta(days=1)).isoformat(timespec="microseconds")[:26] + "Z"
    with monkeypatch.context() as patch:
        patch.setattr("core.audit.writer.now_utc", lambda: ahead)
        await write_journal(home, NewEntry(kind=Kind.SERVICE_STOPPED, actor="service"))
    async with opened(home) as (service, console, _):
        service.dispatcher.stop(str(signed.statement.change.before["stopped"]))
        with pytest.raises(Refused, match="used already"):
            await console.service.resume(signed=signed)


async def test_what_was_signed_while_the_clock_was_set_back_stays(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    async with opened(home):
        pass
    ahead = (datetime.now(UTC) + timedelta(hours=2)).isoformat(timespec="microseconds")[:26] + "Z"
    with monkeypatch.context() as patch:
        patch.setattr("core.audit.writer.now_utc", lambda: ahead)
        await write_journal(home, NewEntry(kind=Kind.SERVICE_STOPPED, actor="service"))
    async with opened(home) as (service, console, _):
        await save(console, LAX)
        bob = create_operator_key(home, "bob", None)
        await console.approvals.register_operator(bob.operator)
        await console.approvals.remove_operator("bob")
    async with opened(home) as (service, _, _):
        assert service.policy.accepted_text == LAX
        assert [operator.name for operator in service.operators.list()] == ["anna"]


async def test_an_operator_signs_as_long_as_they_are_registered(home: Home):
    """What they signed before stays; the key of somebody who left is worth nothing."""
    async with opened(home) as (service, console, _):
        bob = create_operator_key(home, "bob", None)
        await console.approvals.register_operator(bob.operator)
        await console.policy.save(
            LAX, (await console.policy.text()).digest, signed=signed_policy(service, bob, LAX)
        )
        await console.approvals.remove_operator("bob")
        proposal = await console.service.propose(agent_added("night", AgentSettings()))
        signed = bob.sign_change(change_statement(proposal, "bob"))
        after = signed.statement.change.after
        added = AgentAdded(
            agent="night",
            settings=agent_json(AgentSettings()),
            token_sha256=str(after["token_sha256"]),
            signed=signed.model_dump(mode="json"),
        )
    await write_journal(home, added.entry("operator:bob"))
    async with opened(home) as (service, _, _):
        assert service.policy.accepted_text == LAX
        assert service.agents.list() == []


async def test_nobody_is_removed_without_a_signature(home: Home):
    async with opened(home) as (_, console, _):
        bob = create_operator_key(home, "bob", None)
        await console.approvals.register_operator(bob.operator)
    removed = OperatorRemoved(operator="bob", public_key=bob.public_key)
    await write_journal(home, removed.entry("operator:anna"))
    async with opened(home) as (service, _, _):
        assert [operator.name for operator in service.operators.list()] == ["anna", "bob"]
        assert "Operator bob was removed without a valid signature" in "\n".join(service.notes)


async def test_stop_all_ends_with_a_signature_only(home: Home):
    async with opened(home) as (_, console, _):
        await console.service.stop_all()
    await write_journal(home, AllResumed().entry("operator:anna"))
    async with opened(home) as (service, console, _):
        assert service.dispatcher.stopped
        await console.service.resume()
    async with opened(home) as (service, _, _):
        assert not service.dispatcher.stopped


@pytest.mark.parametrize("scope", ["nothing", "policy", "agent"])
async def test_unsigned_tags_count_where_nothing_looked_at_them(home: Home, scope: str):
    async with opened(home) as (_, console, key):
        await console.devices.pair("lab-1", DeviceSettings())
        if scope == "policy":
            await save(console, TAGGED)
        if scope == "agent":
            await add_agent(console, key, "night", AgentSettings(targets="tag:lab"))
    entry = DeviceSet(tags=["lab"], production=True, agent="UFO").entry("cli:root", device="lab-1")
    await write_journal(home, entry)
    async with opened(home) as (service, console, _):
        known = service.registry.get("lab-1")
        assert known.tags == (["lab"] if scope == "nothing" else [])
        assert (known.production, known.agent) == (True, "UFO")
        assert ("lab-1 got other tags" in "\n".join(service.notes)) is (scope != "nothing")
        await save(console, TAGGED + "# looks at tags from now on\n")
    async with opened(home) as (service, _, _):
        assert service.registry.get("lab-1").tags == known.tags


def given(expires: str, at: str, seq: int = 1) -> Entry:
    terms = GrantTerms(
        id="g-12345678",
        approval="a-1",
        author="anna",
        devices=["*"],
        tool_key="action::poke",
        contract="c",
        actors=["*"],
        arguments={},
        risk=Risk.LOW,
        uses=1,
        expires=expires,
    )
    signed = SignedGrant(terms=terms, signature="0" * 128).model_dump(mode="json")
    event = GrantGiven(grant=terms.id, signed=signed).entry("operator:anna")
    return Entry(**event.values(), seq=seq, time=at)


@pytest.mark.parametrize(
    ("expires", "counts"),
    [
        ("2026-11-01T01:00:00Z", True),
        ("2026-11-01T00:00:00Z", False),
        ("2027-11-01T00:00:00Z", False),
        ("whenever", False),
    ],
)
def test_a_grant_counts_if_it_could_be_given_at_the_time_of_its_entry(expires: str, counts: bool):
    book = GrantBook()
    refused = book.restore([given(expires, "2026-11-01T00:00:00Z")])
    assert refused == ([] if counts else ["g-12345678"])
    assert len(book.all()) == counts
    assert book.restore([given(expires, "2026-11-01T00:00:00Z", 2)]) == ["g-12345678"]


def test_every_kind_of_entry_with_a_signed_change_uses_up_its_nonce():
    kinds = {"policy_saved", "profile_changed", "settings_accepted", "listening_changed", "contract_pinned"}
    kinds |= {"device_paired", "device_set", "all_resumed", "change_refused"}
    kinds |= {"operator_registered", "operator_removed", "agent_added", "agent_set"}
    assert kinds <= set(SIGNED_KINDS)
    assert {kind.value for kind in ChangeKind} >= {"resume", "agent_added"}


async def test_an_unknown_journal_key_signs_for_nobody(home: Home):
    """A signature for another home is refused, as over the API."""
    async with opened(home) as (service, _, key):
        proposal = Proposal(home="00" * 32, change=policy_change("", LAX), needs_signature=True)
        signed = key.sign_change(change_statement(proposal, key.name))
        entry = await policy_saved(service, LAX, signed)
        with pytest.raises(QuarterdeckError):
            service.gate.check(policy_change("", LAX), signed)
    await write_journal(home, entry)
    async with opened(home) as (service, _, _):
        assert service.policy.accepted_text == ""

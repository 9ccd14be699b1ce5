"""A signature under a change is good for it, in this home, once; what is not signed does not hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.approvals.models import Operator
from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.changes import Change, ChangeKind, SignedChange, change_statement
from core.errors import ErrorCode, QuarterdeckError, Refused
from core.fleet.models import DeviceSettings
from core.home import Home
from core.policy.agent_models import AgentSettings
from core.policy.models import Profile
from core.policy.policy_store import text_digest
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.service import Service
from core.service.trusted import POLICY_SUBJECT
from core.service.wishes import device_change
from tests.fakes.agents import add_agent
from tests.fakes.remote_device import make_listening_home
from tests.fakes.signing import accepted, anna, sign, signing

TRUSTED = 'profile = "trusted"\n'
NO_ETC = '[[rule]]\nid = "no-etc"\ndecision = "deny"\ntool = "write_file"\n'


@pytest.fixture
async def key(memory_path: Path) -> OperatorKey:
    return await accepted(make_listening_home(memory_path / "home"))


@pytest.fixture
async def service(memory_path: Path, key: OperatorKey):
    service = await Service.open(Home(memory_path / "home"))
    yield service
    await service.close()


@pytest.fixture
def program(service: Service) -> Console:
    """The door as any program of the user has it: with no key."""
    return LocalConsole(service, "window:root")


def wish(text: str = TRUSTED) -> Change:
    return Change(kind=ChangeKind.POLICY, subject=POLICY_SUBJECT, after={"sha256": text_digest(text)})


async def save(console: Console, text: str, signed: SignedChange | None = None) -> None:
    await console.policy.save(text, (await console.policy.text()).digest, signed)


async def code_of(work: Any) -> ErrorCode:
    with pytest.raises(QuarterdeckError) as caught:
        await work
    return caught.value.code


async def test_nothing_that_loosens_is_done_unsigned(service: Service, program: Console):
    await program.service.stop_all()
    eve = Operator(name="eve", public_key="ab" * 32, has_passphrase=False)
    attempts = [
        save(program, TRUSTED),
        program.policy.set_profile(Profile.TRUSTED),
        program.devices.pair("lab-1", DeviceSettings()),
        program.devices.listen("0.0.0.0:0"),
        program.service.resume(),
        program.approvals.register_operator(eve),
    ]
    for attempt in attempts:
        assert await code_of(attempt) is ErrorCode.SIGNATURE_REQUIRED
    assert service.dispatcher.stopped
    assert not service.home.policy.exists()
    assert service.registry.devices() == []
    assert [known.name for known in service.operators.list()] == ["anna"]


async def test_what_tightens_needs_no_signature_and_stays_when_a_program_takes_it_back(
    service: Service, program: Console
):
    await save(program, NO_ETC)
    await program.policy.set_profile(Profile.LOCKDOWN)
    service.home.policy.unlink()
    status = (await program.service.state()).policy
    assert status.problem
    assert status.profile is Profile.LOCKDOWN
    service.home.policy.write_text('profile = "guarded"\n')
    status = (await program.service.state()).policy
    assert status.profile is Profile.LOCKDOWN
    assert "Rule no-etc (denies) is gone." in status.pending


@pytest.mark.parametrize("change", ["other text", "other home", "expired", "stranger", "altered", "replayed"])
async def test_a_signature_for_anything_else_is_refused_and_the_refusal_journalled(
    service: Service, program: Console, key: OperatorKey, change: str
):
    signed = await sign(program, key, wish(), TRUSTED)
    statement = signed.statement
    match change:
        case "other text":
            signed = await sign(program, key, wish(TRUSTED + "# x\n"), TRUSTED + "# x\n")
        case "other home":
            signed = key.sign_change(statement.model_copy(update={"home": "00" * 32}))
        case "expired":
            proposal = await program.service.propose(wish(), TRUSTED)
            signed = key.sign_change(change_statement(proposal, key.name, valid_s=-1))
        case "stranger":
            eve = create_operator_key(service.home, "eve", None)
            signed = eve.sign_change(statement.model_copy(update={"approver": "eve"}))
        case "altered":
            signed = signed.model_copy(update={"statement": statement.model_copy(update={"nonce": "other"})})
        case "replayed":
            await save(program, TRUSTED, signed)
            await program.policy.set_profile(Profile.LOCKDOWN)
            # The same change again, from another accepted text: the one signature does not stretch to it.
    assert await code_of(save(program, TRUSTED, signed)) is ErrorCode.APPROVAL_INVALID
    assert (await program.service.state()).policy.profile is not Profile.TRUSTED
    assert (await program.journal.entries("kind:change_refused")).entries


async def test_a_signature_is_good_once_also_over_a_restart(memory_path: Path, key: OperatorKey):
    home = Home(memory_path / "home")
    service = await Service.open(home)
    program = LocalConsole(service, "window:root")
    await program.service.stop_all()
    signed = await sign(program, key, Change(kind=ChangeKind.RESUME))
    await program.service.resume(signed)
    await service.close()
    service = await Service.open(home)
    try:
        stop = signed.statement.change.before["stopped"]
        service.dispatcher.stop(stop)
        with pytest.raises(Refused, match="used already"):
            await LocalConsole(service, "window:root").service.resume(signed)
        assert service.dispatcher.stopped
    finally:
        await service.close()


async def test_a_stop_that_came_after_the_signature_is_not_undone_by_it(
    service: Service, program: Console, key: OperatorKey
):
    await program.service.stop_all()
    signed = await sign(program, key, Change(kind=ChangeKind.RESUME))
    service.dispatcher.stop("Stopped once more.")
    assert await code_of(program.service.resume(signed)) is ErrorCode.APPROVAL_INVALID
    assert service.dispatcher.stopped == "Stopped once more."


async def test_an_operator_is_removed_by_a_signature_and_a_home_has_one_first_operator_ever(
    service: Service, program: Console, key: OperatorKey
):
    operator = signing(program, service.home)
    bert = create_operator_key(service.home, "bert", None)
    await operator.approvals.register_operator(bert.operator)
    assert await code_of(program.approvals.remove_operator("anna")) is ErrorCode.SIGNATURE_REQUIRED
    await operator.approvals.remove_operator("anna")
    assert [known.name for known in service.operators.list()] == ["bert"]
    # Neither the last one goes, nor does one who was removed sign any more.
    with pytest.raises(Refused, match="only operator"):
        await operator.approvals.remove_operator("bert")
    proposal = await program.service.propose(wish(), TRUSTED)
    late = anna(service.home).sign_change(change_statement(proposal, "anna"))
    assert await code_of(save(program, TRUSTED, late)) is ErrorCode.APPROVAL_INVALID


@pytest.mark.parametrize(
    "spoil",
    [
        lambda home: home.operators.unlink(),
        lambda home: home.operators.write_text("[]"),
        lambda home: home.operators.write_text(
            '[{"name": "eve", "public_key": "' + "ab" * 32 + '", "has_passphrase": false}]'
        ),
    ],
    ids=["removed", "emptied", "exchanged"],
)
async def test_who_may_approve_is_what_the_journal_says(
    memory_path: Path, key: OperatorKey, spoil: Callable[[Home], None]
):
    home = Home(memory_path / "home")
    await (await Service.open(home)).close()
    spoil(home)
    service = await Service.open(home)
    try:
        program = LocalConsole(service, "window:root")
        assert [known.name for known in service.operators.list()] == ["anna"]
        eve = Operator(name="eve", public_key="ab" * 32, has_passphrase=False)
        assert await code_of(program.approvals.register_operator(eve)) is ErrorCode.SIGNATURE_REQUIRED
    finally:
        await service.close()


async def test_settings_that_loosen_hold_once_they_are_signed(memory_path: Path, key: OperatorKey):
    home = Home(memory_path / "home")
    loose = 'this_computer = "in-process"\nlisten = "0.0.0.0:0"\nui_actions_on_this_computer = true\n'
    (home.path / "settings.toml").write_text(loose + 'this_computer_tags = ["lab"]\n')
    service = await Service.open(home)
    program = LocalConsole(service, "window:root")
    assert service.settings.listen.startswith("127.0.0.1")
    assert not service.settings.ui_actions_on_this_computer
    assert service.settings.this_computer_tags == ["desk"]
    assert len((await program.service.state()).policy.pending_settings) == 3
    assert await code_of(program.service.accept_settings()) is ErrorCode.SIGNATURE_REQUIRED
    await signing(program, home).service.accept_settings()
    assert (await program.service.state()).policy.pending_settings == []
    await service.close()
    service = await Service.open(home)
    try:
        assert (service.settings.listen, service.settings.this_computer_tags) == ("0.0.0.0:0", ["lab"])
        assert service.settings.ui_actions_on_this_computer
    finally:
        await service.close()


@pytest.mark.parametrize("scope", ["agent", "negated", "batch", "plain word in a batch"])
@pytest.mark.parametrize("mark", ["tag", "production"])
async def test_tags_and_production_are_signed_where_targets_look_at_them(
    service: Service, program: Console, key: OperatorKey, scope: str, mark: str
):
    operators = signing(program, service.home)
    await operators.devices.pair("lab-1", DeviceSettings(tags=["prod"], production=True))
    looser = DeviceSettings(tags=["prod", "lab"]) if mark == "tag" else DeviceSettings(production=False)
    assert not (await program.service.propose(device_change("lab-1", looser))).needs_signature
    term = "tag:lab" if mark == "tag" else "production:no"
    if scope in ("agent", "negated"):
        targets = term if scope == "agent" else f"!{term.replace('no', 'yes').replace('lab', 'prod')}"
        await add_agent(program, key, "clerk", AgentSettings(targets=targets))
    else:
        targets = "lab" if mark == "tag" and "plain" in scope else term
        text = f"name: nightly\ntargets: {targets}\nsteps:\n  - {{id: a, tool: get_system_info}}\n"
        (service.home.batches / "nightly.yaml").write_text(text)
    assert await code_of(program.devices.update("lab-1", looser)) is ErrorCode.SIGNATURE_REQUIRED
    known = service.registry.get("lab-1")
    assert (known.tags, known.production) == (["prod"], True)
    [sentence] = (await program.service.propose(device_change("lab-1", looser))).difference
    assert ("agent clerk" if scope in ("agent", "negated") else "saved batch nightly") in sentence
    await operators.devices.update("lab-1", looser)
    # What no scope looks at stays free.
    await program.devices.update("lab-1", DeviceSettings(agent="other"))


async def test_a_mixed_edit_tightens_at_once_and_loosens_when_it_is_accepted(
    service: Service, program: Console
):
    service.home.policy.write_text(TRUSTED + NO_ETC)
    status = (await program.service.state()).policy
    assert status.pending == ["The profile becomes trusted; it was guarded."]
    assert status.profile is Profile.GUARDED
    accept = (await program.policy.text()).digest
    assert await code_of(program.policy.accept(accept)) is ErrorCode.SIGNATURE_REQUIRED
    await signing(program, service.home).policy.accept(accept)
    status = (await program.service.state()).policy
    assert (status.profile, status.pending) == (Profile.TRUSTED, [])


async def test_another_operator_proves_themselves_anew_on_the_same_connection(
    service: Service, program: Console, key: OperatorKey
):
    bert = create_operator_key(service.home, "bert", None)
    await signing(program, service.home).approvals.register_operator(bert.operator)
    home_key = (await program.service.state()).home_key
    for known in (key, bert):
        await program.service.identify(known.sign_identity(home_key, await program.service.challenge()))
        await program.service.stop_all()
        newest = (await program.journal.entries("kind:all_stopped")).entries[0]
        assert newest.actor == f"operator:{known.name}"
    other = LocalConsole(service, "window:root")
    proof = key.sign_identity(home_key, await program.service.challenge())
    with pytest.raises(Refused, match="another connection"):
        await other.service.identify(proof)

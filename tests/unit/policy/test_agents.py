"""The registry of agents: what proves one, what limits one, and what of a change has to be signed."""

from __future__ import annotations

import pytest

from core.errors import BadInput, ErrorCode, Refused
from core.models.devices import Device, Health
from core.policy.agent_models import MOST_PROGRAM, Agent, AgentSettings, ClientProgram, name_in, token_prefix
from core.policy.agents import MOST_AGENTS, Agents, loosenings
from core.policy.models import Profile
from core.tokens import new_token, token_digest


def device(name: str, *tags: str) -> Device:
    return Device(name=name, health=Health.ONLINE, since="", tags=list(tags))


def registry(settings: AgentSettings | None = None, now: list[float] | None = None) -> tuple[Agents, str]:
    now = now if now is not None else [0.0]
    agents = Agents(clock=lambda: now[0])
    token = new_token(token_prefix("claude"))
    agents.put(Agent(name="claude", settings=settings or AgentSettings()), token_digest(token))
    return agents, token


def test_only_its_own_token_proves_an_agent_and_only_while_it_has_it():
    agents, token = registry()
    assert name_in(token) == "claude"
    digest = agents.proved("agent:claude", token)
    for actor, wrong in (
        ("agent:other", token),
        ("operator:claude", token),
        ("claude", token),
        ("agent:claude", token + "x"),
        ("agent:claude", ""),
        ("agent:claude", digest),
    ):
        with pytest.raises(Refused) as refused:
            agents.proved(actor, wrong)
        assert refused.value.code is ErrorCode.AGENT_UNKNOWN
    agents.put(agents.get("claude"), token_digest("claude.new"))
    with pytest.raises(Refused):
        agents.check_credential("agent:claude", digest)
    agents.drop("claude")
    with pytest.raises(Refused):
        agents.check_asks("agent:claude")
    agents.check_asks("operator:claude")


def test_devices_outside_its_targets_do_not_exist_for_an_agent():
    agents, _ = registry(AgentSettings(targets="tag:lab !name:db-*"))
    assert agents.sees("agent:claude", device("web-1", "lab"))
    assert not agents.sees("agent:claude", device("db-1", "lab"))
    assert not agents.sees("agent:claude", device("web-2"))
    assert agents.sees("operator:anna", device("web-2"))


def test_commands_are_counted_and_the_allowance_comes_back_with_time():
    now = [0.0]
    agents, _ = registry(AgentSettings(per_minute=60), now)
    agents.spend("agent:claude", 60)
    with pytest.raises(Refused) as refused:
        agents.spend("agent:claude", 1)
    assert refused.value.code is ErrorCode.RATE_LIMITED
    now[0] = 10.0
    agents.spend("agent:claude", 10)
    with pytest.raises(Refused):
        agents.spend("agent:claude", 1)
    now[0] = 10_000.0
    with pytest.raises(Refused):
        agents.spend("agent:claude", 61)
    agents.spend("operator:anna", 1_000_000)


@pytest.mark.parametrize(
    "after",
    [
        AgentSettings(targets="tag:lab", profile=Profile.OBSERVE, per_minute=10, waiting=5),
        AgentSettings(targets="tag:lab", profile=Profile.LOCKDOWN, per_minute=10, waiting=5),
        AgentSettings(targets="production:no tag:lab", per_minute=10, waiting=5),
        AgentSettings(targets="tag:lab", per_minute=1, waiting=1, paused=True),
        AgentSettings(targets="tag:lab", per_minute=10, waiting=5),
    ],
)
def test_what_only_tightens_needs_no_signature(after: AgentSettings):
    assert not loosenings(AgentSettings(targets="tag:lab", per_minute=10, waiting=5), after)


@pytest.mark.parametrize(
    "after",
    [
        AgentSettings(targets="tag:lab", profile=Profile.TRUSTED),
        AgentSettings(targets=""),
        AgentSettings(targets="tag:lab,prod"),
        AgentSettings(targets="!tag:lab"),
        AgentSettings(targets="tag:laboratory"),
        AgentSettings(targets="tag:lab", per_minute=61),
        AgentSettings(targets="tag:lab", waiting=21),
    ],
)
def test_what_loosens_is_said(after: AgentSettings):
    assert len(loosenings(AgentSettings(targets="tag:lab"), after)) == 1


def test_going_on_after_a_pause_loosens():
    assert loosenings(AgentSettings(paused=True), AgentSettings())
    agents, _ = registry(AgentSettings(paused=True))
    with pytest.raises(Refused) as refused:
        agents.check_asks("agent:claude")
    assert refused.value.code is ErrorCode.AGENT_PAUSED


@pytest.mark.parametrize("name", ["", "a b", "é", "a/b", "x" * 65, "-x", "CLAUDE", "agent:x"])
def test_a_name_that_could_be_mistaken_is_refused(name: str):
    agents, _ = registry()
    with pytest.raises(BadInput):
        agents.check_new(name)
    agents.check_new("claude")


def test_there_are_at_most_so_many_agents():
    agents = Agents()
    for number in range(MOST_AGENTS):
        agents.put(Agent(name=f"a{number}", settings=AgentSettings()), token_digest(str(number)))
    with pytest.raises(Refused):
        agents.check_new("one-more")
    agents.check_new("a0")


def test_targets_that_are_no_filter_are_refused():
    with pytest.raises(ValueError, match="Column"):
        AgentSettings(targets="nosuchfield:x")


@pytest.mark.parametrize(
    "claimed", ["os:windows", "!os:linux", "lab", "!lab", "client:ufo", "health:online", "channel:dial",
                "profile:trusted", "tag:lab os:linux"],
)  # fmt: skip
def test_targets_look_at_nothing_that_a_device_says_of_itself(claimed: str):
    with pytest.raises(ValueError, match="name, tag and production only"):
        AgentSettings(targets=claimed)


def test_targets_by_what_operators_set_are_accepted():
    for targets in ("", "name:web-*", "!tag:lab,prod", "production:no tag:lab"):
        assert AgentSettings(targets=targets).targets == targets


def test_new_settings_and_a_new_token_give_no_further_commands():
    now = [0.0]
    agents, _ = registry(AgentSettings(per_minute=10), now)
    agents.spend("agent:claude", 10)
    agents.set("claude", AgentSettings(per_minute=10, waiting=2))
    agents.put(agents.get("claude"), token_digest("claude.new"))
    with pytest.raises(Refused) as refused:
        agents.spend("agent:claude", 1)
    assert refused.value.code is ErrorCode.RATE_LIMITED
    now[0] = 6.0
    agents.spend("agent:claude", 1)


def test_what_a_program_calls_itself_is_cut_and_hides_nothing():
    program = ClientProgram.called("x" * 300 + "y", "1\u200b\n2 ")
    assert program.name == "x" * MOST_PROGRAM
    assert program.words == f"{program.name} 1[U+200B][U+000A]2"
    assert ClientProgram().words == ""

"""Which clients may call which method of the console API: the table, and every door that holds it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from core.errors import ErrorCode, QuarterdeckError, Refused
from core.home import Home
from core.service.api.methods import ANY_CLIENT, calls_class, rpc
from core.service.console import Console, api_methods
from core.service.local_console import LocalConsole
from core.service.rpc import protocol
from core.service.service import Service
from tests.fakes.control_socket import FakeHost, raw, serving
from tests.fakes.desk import choose_channel, open_service

# By wire name. A new method of the API has to be entered here, in one table or the other.
ANY = frozenset(
    "alternatives batches call cancel_run cancel_step command compare_runs describe_tool entry "
    "introduce_agent load_batch match_devices plan resume_run run run_blob run_cells run_output run_results "
    "runs saved_batches search_tools start_run tools undo_plan undo_run wait_run".split()
)
OPERATORS_ONLY = frozenset(
    "accept_machine accept_policy accept_settings add_agent agent_commands agent_tallies agents approval "
    "approvals backup blob certificates challenge check_policy contract_change decide decide_many "
    "delete_batch device_details doctor "
    "edit_approval entries entry_numbers explain explanation export_entries facets fatigue "
    "find_in_results find_runs "
    "forget grants helpers histogram hold identify listen listening pair pair_listening pause_agent "
    "pause_run policy_text preview proof propose  reconnect refusals register_operator "
    "renew_certificate switch_certificate "
    "remove_operator rename_batch resume review_contract revoke revoke_agent revoke_grant run_helper "
    "save_batch save_policy set_agent set_device set_profile settle_step shut_down state stop_agent "
    "stop_all timeline try_expressions try_policy unpause_run verify "
    "watch_pictures".split()
)
AGENTS = [("agent", "agent:x"), ("agent", "operator:anna"), ("window", "agent:x")]
PEOPLE = [("window", "operator:anna"), ("cli", "cli:anna"), ("test", "window:anna")]


@pytest.fixture
async def service(home: Home) -> AsyncIterator[Service]:
    choose_channel(home, "in-process")
    home.device_state.mkdir(parents=True, exist_ok=True)
    async with open_service(home) as service:
        yield service


@pytest.fixture
async def host(home: Home) -> AsyncIterator[FakeHost]:
    host = FakeHost()
    home.create()
    async with serving(home, host):
        yield host


async def answers_over_the_socket(home: Home, client: str, actor: str) -> dict[str, dict[str, Any]]:
    """The error of each method, called without arguments by a client of this kind; empty for a result."""
    connection = await raw(home, client=client, actor=actor)
    assert "welcome" in from_json(await connection.recv())
    answers: dict[str, dict[str, Any]] = {}
    for name in sorted(ANY | OPERATORS_ONLY):
        await connection.send(to_json({"id": 1, "method": name, "params": {}}), text=True)
        data = await connection.recv()
        answers[name] = from_json(data).get("error") or {} if isinstance(data, str) else {}
    await connection.close()
    return answers


def refusal(name: str) -> str:
    return f"An agent may not {name.replace('_', ' ')}."


def test_every_method_of_the_api_is_in_one_table():
    assert set(protocol.methods()) == ANY | OPERATORS_ONLY
    assert not ANY & OPERATORS_ONLY


@pytest.mark.parametrize(("client", "actor"), AGENTS)
async def test_over_the_socket_an_agent_is_refused_as_the_table_says(
    home: Home, host: FakeHost, client: str, actor: str
):
    answers = await answers_over_the_socket(home, client, actor)
    refused = {name for name, error in answers.items() if error.get("message") == refusal(name)}
    assert refused == OPERATORS_ONLY
    assert {answers[name]["code"] for name in refused} == {ErrorCode.DENIED_BY_POLICY}


@pytest.mark.parametrize(("client", "actor"), PEOPLE)
async def test_over_the_socket_no_method_is_refused_to_people(
    home: Home, host: FakeHost, client: str, actor: str
):
    answers = await answers_over_the_socket(home, client, actor)
    assert not [name for name, error in answers.items() if "may not" in error.get("message", "")]


async def is_refused(console: Console, method: protocol.Method) -> bool:
    """Whether this call is refused for its caller, before its arguments (all None) are looked at."""
    call = getattr(getattr(console, method.api.api), method.api.name)
    try:
        await call(**dict.fromkeys(method.required))
    except Refused as error:
        return error.message.startswith("An agent may not")
    # What None does in place of an argument is not tested here.
    except (QuarterdeckError, AttributeError, TypeError, ValueError):
        return False
    return False


async def test_in_the_service_s_process_an_agent_is_refused_as_the_table_says(service: Service):
    console = LocalConsole(service, "agent:claude")
    refused = {name for name, method in protocol.methods().items() if await is_refused(console, method)}
    assert refused == OPERATORS_ONLY


@pytest.mark.parametrize("actor", ["operator:anna", "window:anna", "cli:anna"])
async def test_in_the_service_s_process_no_method_is_refused_to_people(service: Service, actor: str):
    console = LocalConsole(service, actor)
    refused = {name for name, method in protocol.methods().items() if await is_refused(console, method)}
    assert not refused


async def test_a_method_that_is_not_in_the_table_does_not_exist(home: Home, host: FakeHost):
    connection = await raw(home, client="window", actor="operator:anna")
    await connection.recv()
    for name in ("close", "events", "__init__", "_decision", "end", "host", "held", "resume_", ""):
        await connection.send(to_json({"id": 1, "method": name, "params": {}}), text=True)
        error = from_json(await connection.recv())["error"]
        assert error["message"] == f"There is no method {name!r}."
    await connection.close()


async def test_a_console_in_the_service_s_process_has_the_declared_methods_and_no_others(service: Service):
    console = LocalConsole(service, "agent:claude")
    declared = {(method.api, method.name) for method in api_methods().values()}
    for api in ("devices", "agents", "runs", "approvals", "policy", "journal", "service"):
        names = {name for name in dir(getattr(console, api)) if not name.startswith("_")}
        assert names == {name for of, name in declared if of == api}


def test_an_interface_with_a_method_that_is_not_declared_cannot_be_used():
    class Careless(ABC):
        @rpc("known", ANY_CLIENT)
        @abstractmethod
        async def known(self) -> None: ...

        @abstractmethod
        async def forgotten(self) -> None: ...

    class Open:
        @property
        def service(self) -> None: ...

    for interface, name in ((Careless, "forgotten"), (Open, "service")):
        with pytest.raises(TypeError, match=f"{name} does not say who may call it"):
            calls_class("api", interface)


@pytest.mark.parametrize("actor", ["agent:x", "device:x", "Operator:anna", " operator:anna", "operator", ""])
def test_an_actor_that_is_no_person_is_refused(actor: str):
    methods = api_methods().values()
    operators = [method for method in methods if method.wire in OPERATORS_ONLY]
    for method in operators:
        with pytest.raises(Refused) as refused:
            method.check_caller(actor)
        assert refused.value.message == refusal(method.wire)
    for method in methods:
        if method.wire in ANY:
            method.check_caller(actor)

"""The contract that is shown is the one that is enforced, for every tool; no device lowers its own risk."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.aip.messages import ToolInfo
from core.audit.entries import Kind
from core.commands.request import CommandRequest
from core.device.build import build_router
from core.device.config import DeviceConfig
from core.device.desktop.local import local_desktop
from core.device.desktop.ui_tools import UiTools
from core.device.observations import ObservationStore
from core.device.tools import ui
from core.fleet.contracts import judge
from core.home import Home
from core.models.tools import Contract, Effect, Risk, Source, changed_facts
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS
from core.policy.policy_file import Override
from core.schema_forms.validator import ThreadedValidator
from tests.fakes.rig import DEVICE, Rig, open_rig
from tests.fakes.run_size import examples

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
NAMES = st.one_of(st.sampled_from([*BUILT_IN_TOOLS]), st.from_regex(r"[a-z_]{1,12}", fullmatch=True))
CLAIMS = st.dictionaries(
    st.sampled_from([*HINTS, "title", "risk", "effect"]),
    st.one_of(st.booleans(), st.none(), st.sampled_from(["low", "observe", 0, 1, [], {}])),
    max_size=5,
)
META = st.one_of(
    st.none(),
    st.builds(
        lambda risk, effect: {"quarterdeck": {"risk": risk, "effect": effect, "reversible": True}},
        st.sampled_from(["low", "medium", "high", "critical", "none", 3, None, ["low"]]),
        st.sampled_from(["observe", "change", None]),
    ),
    st.just({"quarterdeck": "low"}),
)
INFOS = st.builds(
    lambda name, kind, namespace, claims, meta, description: ToolInfo(
        tool_key=f"{kind}::{name}",
        tool_name=name,
        tool_type=kind,
        namespace=namespace,
        description=description,
        input_schema={"type": "object"},
        annotations=claims,
        meta=meta,
    ),
    NAMES,
    st.sampled_from(["action", "data_collection"]),
    st.sampled_from(["builtin", "files", None, "BUILTIN", "quarterdeck"]),
    CLAIMS,
    META,
    st.sampled_from(["", "Read only, safe.", "\u202esafe", "x" * 500]),
)
OVERRIDES = st.builds(
    lambda said: Override.model_validate({"tool": "*", "why": "said so", **said}),
    st.fixed_dictionaries(
        {"risk": st.sampled_from([*Risk])},
        optional={
            "effect": st.sampled_from([*Effect]),
            "reversible": st.booleans(),
            "idempotent": st.booleans(),
            "open_world": st.booleans(),
            "evidence": st.just("The lamp is lit."),
        },
    ),
)


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as held:
        yield held


@pytest.fixture
def rig(tmp_path: Path, runner: asyncio.Runner):
    opening = open_rig(Home(tmp_path / "home").create(), [])
    rig = runner.run(opening.__aenter__())
    yield rig
    runner.run(opening.__aexit__(None, None, None))


async def enforced(rig: Rig, tool: str, parameters: dict[str, Any]) -> tuple[str, Any, Any]:
    """What the dispatcher bound a command to: the contract's digest, its effect, and its decided risk."""
    order = CommandRequest(DEVICE, tool, parameters, "operator:anna")
    waiting = rig.tasks.spawn("call", rig.dispatcher.dispatch(order))
    await asyncio.wait([waiting, rig.tasks.spawn("asked", rig.asked.get())], return_when="FIRST_COMPLETED")
    if not waiting.done():
        waiting.cancel()
        await asyncio.wait([waiting])
    while not rig.asked.empty():
        rig.asked.get_nowait()
    entries = await rig.entries(f"call:{order.call_id}")
    prepared = next(one for one in entries if one.kind is Kind.COMMAND_PREPARED)
    decided = next(one for one in entries if one.kind is Kind.COMMAND_DECIDED)
    return prepared.body["contract"], decided.body["decision"]["effect"], decided.body["decision"]["risk"]


async def check_every_tool(rig: Rig, infos: list[ToolInfo], given: dict[str, Any]) -> None:
    rig.tools.infos = infos
    await rig.fleet.forget(DEVICE)
    rig.fleet.add(DEVICE, ["desk"])
    await rig.connect()
    shown = {tool.tool_name: tool for tool in rig.fleet.tools(DEVICE)}
    assert set(shown) == {info.tool_name for info in infos}
    for name, tool in shown.items():
        if await ThreadedValidator().errors(tool.input_schema, given, ""):
            continue
        assert rig.fleet.target(DEVICE).tools[name] is tool
        digest, effect, risk = await enforced(rig, name, given)
        assert digest == tool.contract.digest
        assert effect == tool.contract.effect.value
        assert Risk(risk).rank >= tool.contract.risk.value.rank


def ours(tmp_path: Path) -> list[ToolInfo]:
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "d")
    drawn = [tool.info() for tool, _ in ui._tools(UiTools(local_desktop(), ObservationStore()))]
    offered = {info.tool_name: info for info in [*drawn, *router.tools()]}
    asyncio.run(router.close())
    return list(offered.values())


def test_every_tool_of_our_own_client_is_known_to_the_console(tmp_path: Path):
    for info in ours(tmp_path):
        contract = judge(info)
        facts = [contract.effect, contract.risk, contract.reversible, contract.evidence]
        assert {fact.source for fact in facts} <= {Source.BUILT_IN, Source.DECLARED}, info.tool_name
        assert contract.evidence.value
        assert all(fact.why for fact in facts)


def test_what_is_shown_of_our_own_tools_is_what_is_enforced(rig: Rig, runner: asyncio.Runner, tmp_path: Path):
    infos = [info.model_copy(update={"input_schema": {"type": "object"}}) for info in ours(tmp_path)]
    runner.run(check_every_tool(rig, infos, {}))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(INFOS, max_size=4, unique_by=lambda info: info.tool_name), st.none() | OVERRIDES)
def test_what_is_shown_of_a_hostile_tool_is_what_is_enforced(
    rig: Rig, runner: asyncio.Runner, infos: list[ToolInfo], override: Override | None
):
    words = "" if override is None else _toml(override)
    rig.use_policy(words)
    rig.policy.load()
    runner.run(check_every_tool(rig, infos, {}))


def _toml(override: Override) -> str:
    said = {"tool": "*", "why": override.why, **override.facts}
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items()]
    return "\n".join(["[[contract]]", *lines, ""])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(INFOS, st.none() | OVERRIDES, st.booleans())
def test_the_contract_before_a_change_is_the_one_that_was_enforced_before_it(
    rig: Rig, runner: asyncio.Runner, info: ToolInfo, override: Override | None, client_is_ours: bool
):
    rig.use_policy("" if override is None else _toml(override))
    rig.policy.load()

    async def changes() -> None:
        rig.tools.infos = [info]
        await rig.fleet.forget(DEVICE)
        rig.fleet.add(DEVICE, ["desk"])
        await rig.connect(ours=client_is_ours)
        held = rig.fleet.target(DEVICE).tools[info.tool_name].contract
        # Whatever it says now, and whoever it says it is, does not change what was held.
        claims = {"destructiveHint": True, "risk": "critical"}
        worst = {"description": "Now it deletes.", "meta": {"quarterdeck": {"risk": "critical"}}}
        rig.tools.infos = [info.model_copy(update={**worst, "annotations": claims})]
        await rig.connect(ours=not client_is_ours)
        change = await rig.fleet.change(DEVICE, info.tool_key)
        assert rig.fleet.tools(DEVICE)[0].changed
        assert change.before_contract == held

    runner.run(changes())


async def changed_rig(rig: Rig, was: ToolInfo, now: ToolInfo) -> Contract:
    """The contract of a tool that has changed since it was trusted."""
    rig.tools.infos = [was]
    await rig.fleet.forget(DEVICE)
    rig.fleet.add(DEVICE, ["desk"])
    await rig.connect()
    rig.tools.infos = [now]
    await rig.fleet.relist(DEVICE)
    return rig.fleet.tools(DEVICE)[0].contract


WAS = ToolInfo(
    tool_key="action::sweep",
    tool_name="sweep",
    tool_type="action",
    namespace="files",
    description="Sweeps.",
    meta={"quarterdeck": {"risk": "critical"}},
)
NOW = WAS.model_copy(update={"meta": None, "annotations": {"destructiveHint": True}})


def test_what_a_reviewer_accepts_is_in_the_journal_fact_by_fact(rig: Rig, runner: asyncio.Runner):
    async def reviews() -> dict[str, Any]:
        contract = await changed_rig(rig, WAS, NOW)
        await rig.fleet.review(DEVICE, "action::sweep", contract.digest, "operator:anna")
        entries = await rig.entries(f"kind:{Kind.CONTRACT_PINNED}")
        return entries[-1].body

    body = runner.run(reviews())
    assert body["reviewed"] is True
    assert body["facts"] == {"effect": ["unknown", "destroy"], "risk": ["critical", "high"]}


def test_an_operators_word_since_then_counts_before_and_after(rig: Rig, runner: asyncio.Runner):
    async def looks() -> tuple[Contract | None, Contract]:
        await changed_rig(rig, WAS, NOW)
        rig.use_policy('[[contract]]\ntool = "sweep"\nrisk = "low"\nwhy = "An empty room."\n')
        rig.policy.load()
        now = rig.fleet.tools(DEVICE)[0].contract
        return (await rig.fleet.change(DEVICE, "action::sweep")).before_contract, now

    before, now = runner.run(looks())
    assert before is not None
    assert changed_facts(before, now) == {"effect": ["unknown", "destroy"]}
    assert before.risk.source is Source.OPERATOR


def test_a_contract_whose_definition_is_lost_is_not_guessed(rig: Rig, runner: asyncio.Runner):
    async def looks() -> Contract | None:
        await changed_rig(rig, WAS, NOW)
        for path in (rig.home.path / "blobs").rglob("*"):
            if path.is_file():
                path.unlink()
        return (await rig.fleet.change(DEVICE, "action::sweep")).before_contract

    assert runner.run(looks()) is None


def worse(first: Contract, second: Contract) -> bool:
    return first.risk.value.rank >= second.risk.value.rank


@settings(max_examples=examples(400))
@given(INFOS, st.booleans())
def test_what_a_device_says_of_its_tool_never_makes_it_look_better(info: ToolInfo, client_is_ours: bool):
    silent = judge(info.model_copy(update={"annotations": {}, "meta": None}), client_is_ours)
    claimed = judge(info, client_is_ours)
    assert worse(claimed, silent)
    assert not claimed.reversible.value or silent.reversible.value
    assert not claimed.idempotent.value or silent.idempotent.value
    assert claimed.open_world.value or not silent.open_world.value
    if silent.effect.value is not Effect.OBSERVE:
        assert claimed.effect.value is not Effect.OBSERVE
    if silent.effect.value is Effect.UNKNOWN:
        assert claimed.effect.value in (Effect.UNKNOWN, Effect.DESTROY)
    assert claimed.risk.source is not Source.OPERATOR


@settings(max_examples=examples(200))
@given(INFOS, OVERRIDES, st.booleans())
def test_what_an_operator_says_holds_whatever_the_device_says(
    info: ToolInfo, override: Override, client_is_ours: bool
):
    contract = judge(info, client_is_ours, override)
    for name, value in override.facts.items():
        fact = getattr(contract, name)
        assert (fact.value, fact.source, fact.why) == (value, Source.OPERATOR, "said so")
    assert contract.digest != judge(info, client_is_ours).digest

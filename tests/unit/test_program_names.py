"""UFO's name for a program gets round no check that reads ours; two names that differ are refused."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.aip.messages import Command, Result, ResultStatus
from core.approvals.operator_keys import statement_for
from core.approvals.suggestions import helpers_for
from core.commands.channel import LocalCommandDispatcher
from core.controls import PROGRAM_NAMES, program_of, programs_named, search_for
from core.device.desktop.interface import NoDesktop
from core.device.desktop.ui_tools import UiTools
from core.device.observations import ObservationStore
from core.device.tools import applications, ui
from core.errors import BadInput, ErrorCode
from core.fleet.fleet import ConnectionInfo
from core.home import Home
from core.models.tools import Risk
from core.policy.analysis import summaries
from core.policy.analysis.arguments import findings_in_value
from core.policy.grants import exact_arguments
from core.policy.models import Answer
from core.policy.rule_index import RuleIndex
from core.policy.rules import Rule
from core.statements import make_request
from tests.fakes.patience import PATIENCE_S
from tests.fakes.policy_calls import a_question, a_tool, judged, rule
from tests.fakes.rig import DEVICE, TEXT, Rig, open_rig, tool_info
from tests.fakes.run_size import examples

NAMES = dict.fromkeys(PROGRAM_NAMES, TEXT)
DIFFER = {"process_name": "gedit", "app_root_name": "quarterdeck"}
TOOLS = [
    tool_info("click_element", "action", {**NAMES, "role": TEXT, "name": TEXT, "control_id": TEXT}),
    tool_info("close_application", "action", {**NAMES, "pid": {"type": "integer"}}),
    tool_info("screenshot", "data_collection", {"region": TEXT}),
    tool_info("get_ui_tree", "data_collection", {"process_name": TEXT, "depth": {}, "max_nodes": {}}),
]
EVERYTHING = '[[rule]]\nid = "all"\ndecision = "allow"\nrisk = ["low", "medium", "high", "critical"]\n'


def test_a_call_names_one_program_by_either_name():
    assert program_of({}) is None
    for name in PROGRAM_NAMES:
        assert program_of({name: "gedit"}) == "gedit"
        assert search_for({name: "gedit", "name": "Save"})["process_name"] == "gedit"
        assert "app_root_name" not in search_for({name: "gedit", "name": "Save"})
    assert program_of(dict.fromkeys(PROGRAM_NAMES, "gedit")) == "gedit"
    assert programs_named(DIFFER) == ["gedit", "quarterdeck"]
    for wrong in (DIFFER, {"app_root_name": ["gedit"]}, {"process_name": None, "app_root_name": "gedit"}):
        with pytest.raises(BadInput):
            program_of(wrong)
        with pytest.raises(BadInput):
            search_for(wrong)


async def test_the_device_takes_either_name_and_refuses_two():
    use = UiTools(NoDesktop("test"), ObservationStore())
    with pytest.raises(BadInput, match="they differ"):
        await use.click_element({**DIFFER, "name": "Save"})
    for run in (ui._ui_tree(use).run, ui._list_windows(use).run):
        with pytest.raises(BadInput, match="they differ"):
            await run(ui.ToolCall(dict(DIFFER)))


def test_every_built_in_tool_that_takes_our_name_takes_the_other_as_well():
    use = UiTools(NoDesktop("test"), ObservationStore())
    tools = [tool for tool, _ in ui._tools(use)] + [applications._close_application(None)]
    taking = {tool.name for tool in tools if "process_name" in tool.input_schema["properties"]}
    only_there = {"click_element", "type_text", "press_key", "scroll", "activate_window"}
    assert taking == {"get_ui_tree", "wait_for_element", "list_windows", "close_application"} | only_there
    for tool in tools:
        properties = tool.input_schema["properties"]
        assert ("app_root_name" in properties) == ("process_name" in properties)


class TestRules:
    @pytest.mark.parametrize("name", PROGRAM_NAMES)
    @pytest.mark.parametrize("ruled", PROGRAM_NAMES)
    def test_a_rule_on_one_name_sees_the_other(self, name: str, ruled: str):
        for decision in ("deny", "ask"):
            policy = rule(decision, f'tool = "click_element"\nparameters = {{{ruled} = {{equals = "pay"}}}}')
            policy += rule("allow", 'tool = "*"\nrisk = ["low", "medium", "high"]', "rest")
            said = judged(policy, "click_element", {name: "pay", "name": "Next"})
            assert said.answer is Answer(decision)
            assert judged(policy, "click_element", {name: "gedit"}).answer is Answer.ALLOW

    @pytest.mark.parametrize(
        "condition",
        ['pattern = "pa."', 'one_of = ["pay"]', 'equals = "pay"', "min_length = 3", 'below = "/opt/pay"'],
    )
    def test_a_denial_holds_by_every_kind_of_condition(self, condition: str):
        policy = rule("deny", f"parameters = {{process_name = {{{condition}}}}}")
        value = "/opt/pay/bin" if "below" in condition else "pay"
        assert judged(policy, "click_element", {"app_root_name": value}).answer is Answer.DENY

    def test_an_allow_rule_needs_every_name_to_fit_and_means_our_own_tools_alone(self):
        policy = rule(
            "allow", 'risk = ["low", "medium", "high"]\nparameters = {process_name = {equals = "gedit"}}'
        )
        assert judged(policy, "click_element", {"app_root_name": "gedit"}).answer is Answer.ALLOW
        for sent in ({"app_root_name": "pay"}, {"process_name": "gedit", "app_root_name": "pay"}, {}):
            assert judged(policy, "click_element", sent).answer is not Answer.ALLOW
        strange = a_tool("click_element", namespace="mcp:far")
        assert judged(policy, strange, {"app_root_name": "gedit"}).answer is not Answer.ALLOW
        both = {"process_name": "gedit", "app_root_name": "pay"}
        assert judged(policy, strange, both).answer is not Answer.ALLOW
        assert judged(policy, strange, {"process_name": "gedit"}).answer is Answer.ALLOW

    @settings(max_examples=examples(200))
    @given(
        st.sampled_from(["allow", "ask", "deny"]),
        st.sampled_from(PROGRAM_NAMES),
        st.sampled_from([{"equals": "a"}, {"pattern": "a"}, {"one_of": ["a", 1]}, {"min_length": 1}]),
        st.dictionaries(st.sampled_from(PROGRAM_NAMES), st.sampled_from(["a", "b", "", 1, ["a", "b"]])),
    )
    def test_looking_rules_up_finds_what_trying_each_one_finds(
        self, decision: str, ruled: str, condition: Any, sent: dict[str, Any]
    ):
        row = {"id": "r", "decision": decision, "parameters": {ruled: condition}, "risk": [*Risk]}
        one = Rule.model_validate(row)
        question = a_question(sent)
        assert bool(RuleIndex([one]).matching(question)) == (not one.faults(question))

    def test_a_grant_for_one_name_does_not_cover_the_other(self):
        assert set(exact_arguments({"process_name": "gedit"})) == {"process_name"}


def test_what_is_said_of_a_call_is_the_same_by_either_name():
    for summary in (summaries.click_element, summaries.close):
        ours, theirs = ({name: "gedit", "name": "Save"} for name in PROGRAM_NAMES)
        assert summary(ours) == summary(theirs) != ""
        assert "gedit and quarterdeck" in summary({**DIFFER, "name": "Save"})
    for value in ("*", "fire*", "systemd", "lsass.exe", "gedit"):
        for ends in (False, True):
            ours_said, theirs_said = (
                list(findings_in_value(name, value, acts=True, ends=ends)) for name in PROGRAM_NAMES
            )
            assert ours_said == theirs_said


def test_the_same_helpers_are_offered_by_either_name():
    def offered(name: str) -> list[Any]:
        request = make_request(
            device="d",
            contract="",
            tool_key="action::click_element",
            tool_name="click_element",
            tool_type="action",
            namespace="builtin",
            parameters={name: "gedit", "name": "Save"},
            call_id="c",
        )
        return helpers_for(request, {"list_processes", "list_windows"})

    assert offered("process_name") == offered("app_root_name")
    assert any(one.tool == "list_processes" for one in offered("app_root_name"))


@pytest.fixture
async def rig(home: Home) -> AsyncIterator[Rig]:
    async with open_rig(home, TOOLS) as rig:
        yield rig


@pytest.fixture
def window() -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like a window of ours."""
    line = "import sys; sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", line, "core.service"], stdin=subprocess.PIPE)
    yield process
    process.communicate()


class TestDispatch:
    @pytest.mark.parametrize("tool", ["click_element", "close_application"])
    async def test_two_programs_in_one_call_are_refused_before_anything_is_sent(self, rig: Rig, tool: str):
        result = await rig.call(tool, **DIFFER)
        assert result.error is not None
        assert result.error.code is ErrorCode.INVALID_ARGUMENTS
        assert "they differ" in result.error.message
        assert rig.tools.seen == []

    async def test_a_strange_tool_may_mean_two_things_by_the_two_names(self, home: Home):
        home.policy.write_text(EVERYTHING)
        info = tool_info("launch", "action", NAMES, namespace="mcp:far")
        async with open_rig(home, [info]) as rig:
            assert (await rig.call("launch", **DIFFER)).error is None

    async def test_nobody_clicks_or_closes_the_console_itself_by_the_other_name(
        self, home: Home, window: subprocess.Popen[bytes]
    ):
        import psutil

        home.policy.write_text(EVERYTHING)
        async with open_rig(home, TOOLS) as rig:
            channel = LocalCommandDispatcher(DEVICE, rig.tools, rig.dispatcher.gate)
            arrival = ConnectionInfo(channel, "in-process", "linux", "test", "test", [], None)
            await rig.fleet.arrived(DEVICE, replace(arrival, own_computer=True))
            program = psutil.Process(window.pid).name()
            clicked = await rig.call("click_element", app_root_name=program, name="Approve once")
            assert clicked.error is not None
            assert "could press Approve" in clicked.error.message
            ours = psutil.Process(os.getpid()).name().upper()
            for sent in (
                {"app_root_name": program},
                {"app_root_name": ours},
                {"app_root_name": program} | {"pid": 9},
            ):
                closed = await rig.call("close_application", **sent)
                assert closed.error is not None
                assert "would close this console itself" in closed.error.message
            assert rig.tools.seen == []

    @pytest.mark.parametrize("name", PROGRAM_NAMES)
    @pytest.mark.parametrize("moved", [False, True])
    async def test_a_target_is_compared_within_the_program_that_is_named(
        self, rig: Rig, name: str, moved: bool
    ):
        """Another program has a control of the same name: outside of the named one nothing is looked for."""
        from tests.unit.dispatch.test_evidence import Screen

        screen, asked = Screen(), []

        def tree(command: Command) -> Any:
            asked.append((command.parameters or {}).get("process_name"))
            if asked[-1] != "editor":
                return Result(status=ResultStatus.FAILURE, error="two controls would fit")
            return screen.tree(command)

        rig.tools.answers.update({"screenshot": screen, "get_ui_tree": tree})
        await rig.call("screenshot")
        call = rig.start("click_element", **{name: "editor", "role": "button", "name": "Save"})
        waiting = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        await rig.dispatcher.cards.shown(waiting.request.digest, renew=False)
        screen.at = (130, 80) if moved else screen.at
        await rig.approvals.decide(rig.key.sign(statement_for(waiting, "approve", "anna")))
        result = await call
        assert set(asked) == {"editor"}
        assert (result.error.code if result.error else None) == (
            ErrorCode.STALE_OBSERVATION if moved else None
        )

"""`do`: the steps that a sentence becomes, the arguments that it has, and what is said of what it lacks."""

from __future__ import annotations

import re
from typing import Any

import pytest

from core.aip.messages import ToolInfo
from core.errors import BadInput, ErrorCode
from core.fleet.contracts import read_tool, tool_of
from core.models.tools import Effect, Tool
from core.service.call_needs import lacking, needs_of
from tests.fakes.wishes import Bench


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("says", "tool", "arguments"),
    [
        ("run ls -la", "shell_execute", {"command": "ls -la"}),
        ("run uptime", "shell_execute", {"command": "uptime"}),
        ("run ./build.sh", "shell_execute", {"command": "./build.sh"}),
        ("run mytool --fast", "shell_execute", {"command": "mytool --fast"}),
        ("run firefox", "launch_application", {"app_name": "firefox"}),
        ("execute the command make test", "shell_execute", {"command": "make test"}),
        ("press OK in gedit", "click_element", {"name": "OK", "process_name": "gedit"}),
        ("press ctrl + s", "press_key", {"key": "ctrl+s"}),
        ("type hello", "type_text", {"text": "hello"}),
        ("close firefox", "close_application", {"process_name": "firefox"}),
        ("kill process 4711", "close_application", {"pid": 4711}),
        ("append 'x' to ~/a", "write_file", {"file_path": "~/a", "content": "x", "mode": "append"}),
        ("read the first 100 bytes of /a", "read_file", {"file_path": "/a", "max_bytes": 100}),
        ("list *.log in /var/log", "list_directory", {"path": "/var/log", "glob": "*.log"}),
        ("open https://a.b in firefox", "launch_application", {"app_name": "firefox", "args": ["https://a.b"]}),
        ("scroll down 5 notches", "scroll", {"direction": "down", "amount": 5}),
        ("activate firefox", "activate_window", {"process_name": "firefox"}),
        ("wait until 'Done' appears", "wait_for_element", {"name": "Done", "until": "appears"}),
        ("what is the IP address of this machine", "get_system_info", {"info_type": "network"}),
    ],
)  # fmt: skip
def test_a_sentence_has_its_arguments_and_lacks_nothing(
    bench: Bench, says: str, tool: str, arguments: dict[str, Any]
):
    proposal = bench.propose(says)
    assert proposal is not None
    [step] = proposal.steps
    assert (step.step.tool, step.step.parameters, step.lacks, step.unused) == (tool, arguments, (), ())


@pytest.mark.parametrize(
    ("says", "tool", "lacks"),
    [
        ("close it", "close_application", ["process_name or app_root_name or pid"]),
        ("bring the window forward", "activate_window", ["window_id or process_name or app_root_name"]),
        ("write a file", "write_file", ["file_path", "content"]),
    ],
)
def test_what_a_step_still_needs_is_said(bench: Bench, says: str, tool: str, lacks: list[str]):
    proposal = bench.propose(says)
    assert proposal is not None
    [step] = proposal.steps
    assert (step.step.tool, list(step.lacks)) == (tool, lacks)
    assert f"it still needs {', '.join(lacks)}" in proposal.notes[0]


@pytest.mark.parametrize(
    ("says", "nearest"),
    [
        ("translate this paragraph into Portuguese", "type_text"),
        ("turn the heating in the kitchen down", "scroll"),
        ("order a pizza", "read_file"),
        ("make coffee", "write_file"),
    ],
)
def test_where_no_tool_fits_that_is_said_with_the_nearest(bench: Bench, says: str, nearest: str):
    with pytest.raises(BadInput, match=f"No tool.* fits “{says}”") as refused:
        bench.proposed(says)
    assert refused.value.code is ErrorCode.NOT_FOUND
    [named] = re.findall(r"The nearest: (.*)\.$", refused.value.message)
    assert nearest in named.split(", ")


def test_a_part_that_no_tool_fits_is_named_among_others(bench: Bench):
    with pytest.raises(BadInput, match="fits “order a pizza”: no tool there has to do with pizza"):
        bench.proposed("take a screenshot and then order a pizza")


def test_a_wish_for_a_change_is_no_step_that_only_looks(bench: Bench):
    for says in ("delete /tmp/old.log", "erase report.txt", "rename a.txt to b.txt"):
        [step] = bench.proposed(says).steps
        assert (step.step.tool, step.lacks) == ("shell_execute", ("command",))


@pytest.mark.parametrize(
    "says",
    [
        "is gedit closed",
        "tell me whether gedit was closed",
        "could you tell me if gedit was killed",
        "check which programs were started",
        "was firefox launched?",
        "list the programs that were closed?",
        "which programs were opened and closed",
        "has anyone deleted notes.txt",
        "I want to know who closed gedit",
    ],
)
def test_a_question_however_it_is_put_becomes_no_step_that_changes(bench: Bench, says: str):
    proposal = bench.propose(says)
    tools = [step.step.tool for step in proposal.steps] if proposal else []
    effects = {bench.tool(tool).contract.effect.value for tool in tools}
    assert effects.isdisjoint({Effect.CHANGE, Effect.DESTROY})


@pytest.mark.parametrize("says", ["could you close gedit", "what is open, then close gedit"])
def test_a_request_and_what_follows_a_question_are_no_questions(bench: Bench, says: str):
    assert bench.proposed(says).steps[-1].step.tool == "close_application"


@pytest.mark.parametrize(
    "says", ["which program was closed", "is an application closed?", "who is logged in"]
)
def test_a_question_never_becomes_a_step_that_destroys(bench: Bench, says: str):
    assert bench.propose("close the application gedit").steps[0].step.tool == "close_application"
    proposal = bench.propose(says)
    assert (
        proposal is None
        or [step.step.tool for step in proposal.steps if step.step.tool == "close_application"] == []
    )


def test_the_second_best_and_the_values_that_nothing_took_are_said(bench: Bench):
    proposal = bench.propose("take a screenshot with /etc/hosts")
    assert proposal is not None
    [step] = proposal.steps
    assert step.alternative is not None
    assert proposal.notes[0].endswith(f"nothing took /etc/hosts. Or {step.alternative}.")


def test_parts_become_steps_but_values_are_not_divided(bench: Bench):
    def steps(says: str) -> list[tuple[str, dict[str, Any]]]:
        proposal = bench.propose(says)
        assert proposal is not None
        return [(step.step.tool, step.step.parameters) for step in proposal.steps]

    assert steps("uptime and load") == [
        ("get_system_info", {"info_type": "os"}),
        ("get_system_info", {"info_type": "cpu"}),
    ]
    assert steps("type 'salt and pepper, then more'") == [
        ("type_text", {"text": "salt and pepper, then more"})
    ]
    assert steps("run ls -la and then take a screenshot") == [
        ("shell_execute", {"command": "ls -la"}),
        ("screenshot", {}),
    ]
    # Two parts that are one call.
    assert steps("cpu model and number of cores") == [("get_system_info", {"info_type": "cpu"})]


def a_tool(description: str = "", **schema: Any) -> Tool:
    properties = {name: {"type": "string"} for name in ("path", "url", "text")}
    info = ToolInfo(
        tool_key="action::act",
        tool_name="act",
        tool_type="action",
        namespace="other",
        description=description,
        input_schema={"type": "object", "properties": properties, **schema},
    )
    return tool_of("any", read_tool(info), change="")


@pytest.mark.parametrize(
    ("tool", "needs"),
    [
        (a_tool(), []),
        (a_tool(required=["text"]), [("text",)]),
        (a_tool("Fetches it. Give one of path and url."), [("path", "url")]),
        (a_tool("Needs either path or url, and may have text."), [("path", "url", "text")]),
        (a_tool("One of the best tools for a path."), []),
        (a_tool(anyOf=[{"required": ["path"]}, {"required": ["url"]}]), [("path", "url")]),
        (a_tool(anyOf=[{"required": ["path"]}, {}]), []),
        (a_tool(oneOf="broken", required=7), []),
    ],
)
def test_the_needs_of_a_call_are_read_from_its_schema_and_its_description(tool: Tool, needs: Any):
    assert needs_of(tool) == needs


def test_a_need_is_met_by_any_of_its_arguments():
    tool = a_tool("Give one of path and url.", required=["text"])
    assert lacking(tool, {"url": "x"}) == [("text",)]
    assert lacking(tool, {"text": "x"}) == [("path", "url")]
    assert lacking(tool, {"text": "x", "path": "y"}) == []

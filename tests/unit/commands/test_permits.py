"""No channel call without a permit; a permit is worth one sending of exactly the permitted bytes."""

from __future__ import annotations

import pytest

from core.aip.messages import Command, Result, ResultStatus
from core.commands.channel import DEFAULT_TIMEOUT, LocalCommandDispatcher, WebSocketCommandDispatcher
from core.commands.permit import Permit, PermitMint, PermittedCommand
from core.errors import DeviceError, ErrorCode, Refused
from core.statements import Request, make_request
from tests.fakes.arguments import CONTRACT, checked
from tests.fakes.rig import ScriptedTools


def a_request(**changes: object) -> Request:
    usual: dict[str, object] = {
        "device": "bench",
        "contract": CONTRACT,
        "tool_key": "action::shell_execute",
        "tool_name": "shell_execute",
        "tool_type": "action",
        "namespace": "builtin",
        "parameters": {"command": "true"},
        "call_id": "call-1",
    }
    return make_request(**{**usual, **changes})  # type: ignore[arg-type]  # a test's own table


def command_of(request: Request, permit: Permit, **changes: object) -> PermittedCommand:
    usual: dict[str, object] = {
        "tool_name": request.tool_name,
        "tool_type": request.tool_type,
        "parameters": request.parameters,
        "call_id": request.call_id,
    }
    digest = str(changes.pop("digest", ""))
    return PermittedCommand(Command.model_validate({**usual, **changes}), permit, digest)


class SilentLink:
    """A link that only remembers what it was given to send."""

    def __init__(self) -> None:
        self.sent: list[Command] = []

    async def send_commands(self, commands, timeout, grounds=()):
        self.sent.extend(commands)
        return []

    async def cancel(self, call_id: str) -> bool:
        return False


async def test_a_channel_refuses_a_bare_command_and_sends_nothing():
    mint, tools, link = PermitMint(), ScriptedTools(), SilentLink()
    bare = Command(tool_name="shell_execute", tool_type="action", parameters={"command": "true"}, call_id="1")
    for channel in (
        LocalCommandDispatcher("bench", tools, mint),
        WebSocketCommandDispatcher("bench", link, mint),
    ):
        with pytest.raises(Refused, match="permit"):
            await channel.execute_commands([bare], 1.0)
    assert tools.seen == []
    assert link.sent == []


async def test_a_permit_that_nobody_minted_is_worth_nothing():
    tools = ScriptedTools()
    request = a_request()
    channel = LocalCommandDispatcher("bench", tools, PermitMint())
    with pytest.raises(Refused, match="permit"):
        await channel.execute_commands([command_of(request, Permit("f" * 32))], 1.0)
    other_mint = PermitMint()
    stolen = other_mint.mint(request, checked(request.parameters), lambda: None)
    with pytest.raises(Refused, match="permit"):
        await channel.execute_commands([command_of(request, stolen)], 1.0)
    assert tools.seen == []


async def test_a_permit_is_used_once():
    mint, tools, left = PermitMint(), ScriptedTools(), []
    request = a_request()
    permit = mint.mint(request, checked(request.parameters), lambda: left.append("left"))
    channel = LocalCommandDispatcher("bench", tools, mint)
    await channel.execute_commands([command_of(request, permit)], 1.0)
    with pytest.raises(Refused, match="permit"):
        await channel.execute_commands([command_of(request, permit)], 1.0)
    assert len(tools.seen) == 1
    assert left == ["left"]


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": {"command": "true "}},
        {"parameters": {"command": "true", "timeout": 1}},
        {"tool_name": "EXEC_CLI"},
        {"tool_type": "data_collection"},
        {"call_id": "call-2"},
        {"parameters": None},
        {"digest": "0" * 64},
    ],
)
async def test_a_permit_does_not_cover_a_command_that_differs_in_anything(changes: dict[str, object]):
    mint, tools = PermitMint(), ScriptedTools()
    request = a_request()
    permit = mint.mint(request, checked(request.parameters), lambda: None)
    with pytest.raises(Refused, match="not the one"):
        await LocalCommandDispatcher("bench", tools, mint).execute_commands(
            [command_of(request, permit, **changes)], 1.0
        )
    assert tools.seen == []


async def test_a_permit_does_not_open_another_device():
    mint, tools = PermitMint(), ScriptedTools()
    request = a_request()
    permit = mint.mint(request, checked(request.parameters), lambda: None)
    with pytest.raises(Refused, match="not the one"):
        await LocalCommandDispatcher("db-primary", tools, mint).execute_commands(
            [command_of(request, permit)], 1.0
        )
    assert tools.seen == []


async def test_nothing_is_redeemed_while_everything_is_stopped_and_what_was_minted_before_stays_worthless():
    mint, tools = PermitMint(), ScriptedTools()
    request = a_request()
    permit = mint.mint(request, checked(request.parameters), lambda: None)
    channel = LocalCommandDispatcher("bench", tools, mint)
    mint.halt(True)
    with pytest.raises(Refused) as stopped:
        await channel.execute_commands([command_of(request, permit)], 1.0)
    assert stopped.value.code is ErrorCode.STOPPED
    mint.halt(False)
    with pytest.raises(Refused, match="permit"):
        await channel.execute_commands([command_of(request, permit)], 1.0)
    assert tools.seen == []


async def test_a_permit_from_before_a_stop_is_worth_nothing_after_it_also_where_none_tried_it_meanwhile():
    mint, tools = PermitMint(), ScriptedTools()
    request = a_request()
    permit = mint.mint(request, checked(request.parameters), lambda: None)
    mint.halt(True)
    mint.halt(False)
    with pytest.raises(Refused, match="permit"):
        await LocalCommandDispatcher("bench", tools, mint).execute_commands(
            [command_of(request, permit)], 1.0
        )
    assert tools.seen == []


async def test_what_follows_a_failed_command_in_its_frame_is_skipped():
    mint, tools = PermitMint(), ScriptedTools()
    requests = [a_request(call_id=f"call-{number}") for number in range(3)]
    permitted = [
        command_of(request, mint.mint(request, checked(request.parameters), lambda: None))
        for request in requests
    ]
    tools.answers["shell_execute"] = lambda command: Result(
        status=ResultStatus.FAILURE, error="tool_failed: no"
    )
    results = await LocalCommandDispatcher("bench", tools, mint).execute_commands(permitted, 1.0)
    assert [one.status for one in results] == [
        ResultStatus.FAILURE,
        ResultStatus.SKIPPED,
        ResultStatus.SKIPPED,
    ]
    assert [one.call_id for one in tools.seen] == ["call-0"]


async def test_the_permit_never_goes_on_the_wire():
    mint, link = PermitMint(), SilentLink()
    request = a_request()
    permit = mint.mint(request, checked(request.parameters), lambda: None)
    await WebSocketCommandDispatcher("bench", link, mint).execute_commands([command_of(request, permit)], 1.0)
    assert permit.word not in link.sent[0].model_dump_json()


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (ValueError("no such arm"), "Error executing shell_execute: no such arm", ""),
        (TimeoutError(), "Error executing shell_execute: TimeoutError", ""),
        (KeyError("x"), "Error executing shell_execute: 'x'", ""),
        (DeviceError("gone", ErrorCode.TIMEOUT), "Error executing shell_execute: gone", "timeout: "),
    ],
)
async def test_an_error_of_any_kind_becomes_one_failure_for_each_command(
    error: Exception, said: str, code: str
):
    commands = [
        Command(tool_name="shell_execute", tool_type="action", parameters={}, call_id=str(number))
        for number in range(3)
    ]
    results = LocalCommandDispatcher("bench", ScriptedTools(), PermitMint()).generate_error_results(
        commands, error
    )
    assert [(one.status, one.error, one.result) for one in results] == [
        (ResultStatus.FAILURE, code + said, said)
    ] * 3
    assert [one.call_id for one in results] == ["0", "1", "2"]


async def test_what_a_tool_in_this_process_raises_is_an_answer_within_the_usual_time():
    mint, tools, given = PermitMint(), ScriptedTools(), []

    async def run(command: Command, deadline_s: float, *, terms: object = None) -> Result:
        given.append(deadline_s)
        raise ZeroDivisionError("division by zero")

    tools.run = run  # type: ignore[method-assign,assignment]
    request = a_request()
    permit = mint.mint(request, checked(request.parameters), lambda: None)
    channel = LocalCommandDispatcher("bench", tools, mint)
    [result] = await channel.execute_commands([command_of(request, permit)])
    assert result.error == "Error executing shell_execute: division by zero"
    assert given == [DEFAULT_TIMEOUT]


async def test_a_fault_of_the_link_itself_leaves_the_outcome_unknown():
    class Broken(SilentLink):
        async def send_commands(self, commands, timeout, grounds=()):
            assert timeout == DEFAULT_TIMEOUT
            raise RuntimeError("a fault")

    mint, request = PermitMint(), a_request()
    permit = mint.mint(request, checked(request.parameters), lambda: None)
    channel = WebSocketCommandDispatcher("bench", Broken(), mint)
    with pytest.raises(DeviceError) as unknown:
        await channel.execute_commands([command_of(request, permit)])
    assert unknown.value.code is ErrorCode.OUTCOME_UNKNOWN

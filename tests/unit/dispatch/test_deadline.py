"""How long a device has: an argument called `timeout` is a limit in seconds only where that is known."""

from __future__ import annotations

from typing import Any

import pytest

from core.aip.messages import Result
from core.commands.request import CommandRequest
from core.dispatch.deadline import DEFAULT_TIMEOUT, GRACE, MOST_FOREIGN, MOST_TIMEOUT, deadline_of, is_stock
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.policy_calls import a_device, a_tool
from tests.fakes.rig import DEVICE, USUAL_TOOLS, open_rig, tool_info


def deadline(
    tool: str,
    parameters: dict[str, Any],
    *,
    said: dict[str, Any] | None = None,
    namespace: str = "far",
    stock: bool = False,
    timeout: float | None = None,
) -> float:
    """The deadline of a call; `said` is what the schema says of each argument."""
    schema = {"type": "object", "properties": said or {}}
    offered = a_tool(tool, namespace=namespace).model_copy(update={"input_schema": schema})
    return deadline_of(CommandRequest(DEVICE, tool, parameters, "a", timeout=timeout), offered, stock=stock)


# As real servers describe it: chrome-devtools, kubernetes, firecrawl, desktop-commander, stock UFO.
@pytest.mark.parametrize(
    ("words", "value", "seconds"),
    [
        ("Maximum wait time in milliseconds. If set to 0, the default timeout will be used.", 90_000, 100),
        ("Timeout for command - 60000 milliseconds if not specified", 120_000, 130),
        ("Timeout (ms)", 5_000, DEFAULT_TIMEOUT),
        ("Time limit in seconds", 300, 310),
        ("How long to wait (s)", 300, 310),
        ("Minutes until it is stopped", 2, 130),
        ("Maximum time", 90_000, DEFAULT_TIMEOUT),
        ("The server's limit", 90_000, DEFAULT_TIMEOUT),
        ("Seconds, or milliseconds above 1000", 90_000, DEFAULT_TIMEOUT),
        ("", 90_000, DEFAULT_TIMEOUT),
        ("Seconds until it ends", 1e12, MOST_FOREIGN),
        ("Seconds until it ends", 1, DEFAULT_TIMEOUT),
        ("Seconds until it ends", -5, DEFAULT_TIMEOUT),
        ("Seconds until it ends", True, DEFAULT_TIMEOUT),
        ("Seconds until it ends", "300", DEFAULT_TIMEOUT),
        ("Seconds until it ends", float("inf"), DEFAULT_TIMEOUT),
    ],
)
def test_a_limit_counts_in_the_unit_that_its_description_says(words: str, value: Any, seconds: float):
    said = {"timeout": {"type": "number", "description": words}}
    assert deadline("navigate_page", {"timeout": value}, said=said) == seconds


@pytest.mark.parametrize(
    ("name", "value", "seconds"),
    [
        ("timeout_ms", 90_000, 100),
        ("timeoutMs", 90_000, 100),
        ("timeout_seconds", 300, 310),
        ("timeoutSecs", 300, 310),
        ("timeout_s", 300, 310),
        ("timeout_ticks", 90_000, DEFAULT_TIMEOUT),
        ("connect_timeout", 90_000, DEFAULT_TIMEOUT),
        ("seconds", 90_000, DEFAULT_TIMEOUT),
    ],
)
def test_a_limit_counts_in_the_unit_of_its_name(name: str, value: float, seconds: float):
    assert deadline("wait_for", {name: value}) == seconds


def test_the_shells_of_our_own_device_client_mean_seconds():
    for tool in ("shell_execute", "EXEC_CLI", "shell_execute_read"):
        assert deadline(tool, {"timeout": 300}, namespace="builtin") == 300 + GRACE
        assert deadline(tool, {"timeout": 1}, namespace="builtin") == 1 + GRACE
        assert deadline(tool, {"timeout": 1e12}, namespace="builtin") == MOST_TIMEOUT
        assert deadline(tool, {"timeout": 300}) == DEFAULT_TIMEOUT


def test_an_order_has_the_last_word_and_a_bound():
    for stock in (False, True):
        assert deadline("x", {}, stock=stock) == DEFAULT_TIMEOUT
        assert deadline("x", {"timeout_s": 300}, stock=stock, timeout=5) == 5
        assert deadline("x", {}, stock=stock, timeout=1e12) == MOST_TIMEOUT


def test_no_argument_lets_a_stock_device_hold_up_its_queue_for_longer():
    said = {"timeout": {"type": "integer", "description": "Seconds"}}
    for namespace in ("far", "builtin"):
        for tool in ("execute_command", "shell_execute"):
            given = {"timeout": 86_400}
            assert deadline(tool, given, said=said, namespace=namespace, stock=True) == DEFAULT_TIMEOUT
    assert is_stock(a_device().model_copy(update={"direction": "in"}))
    assert not is_stock(a_device().model_copy(update={"direction": "in", "features": ["terms"]}))


async def test_the_channel_is_given_the_deadline_that_the_tools_schema_means(home: Home):
    home.policy.write_text('[[rule]]\nid = "all"\ndecision = "allow"\nrisk = ["low", "medium", "high"]\n')
    waits = {"timeout": {"type": "integer", "description": "Maximum wait time in milliseconds"}}
    tools = [*USUAL_TOOLS, tool_info("navigate_page", "action", waits, namespace="chrome")]
    async with open_rig(home, tools) as rig:
        seen: list[float] = []
        target = rig.fleet.channel(DEVICE)
        assert target is not None
        run = target.execute_commands

        async def execute(commands: Any, timeout: float) -> list[Result]:
            seen.append(timeout)
            return await run(commands, timeout)

        target.execute_commands = execute  # type: ignore[method-assign]
        result = await rig.call("navigate_page", timeout=90_000)
        assert result.error is None or result.error.code is ErrorCode.TOOL_FAILED
        assert seen == [100]

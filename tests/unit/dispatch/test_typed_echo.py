"""What stands in a field is not passed on where a secret was typed into it."""

from __future__ import annotations

import asyncio

from core.aip.messages import Result, ResultStatus
from core.commands.request import CommandRequest, Secrets
from core.dispatch.typed_echo import without_echo
from core.home import Home
from tests.fakes.operator_answers import asked, yes
from tests.fakes.rig import DEVICE, open_rig, tool_info

SAID = "hunter2hunter2"


def test_the_text_of_the_field_goes_and_the_rest_stays() -> None:
    answer = Result(status=ResultStatus.SUCCESS, result={"typed": 7, "text_there": "hunter"}, call_id="c")
    assert without_echo(answer).result == {"typed": 7, "text_there": None}
    assert answer.result == {"typed": 7, "text_there": "hunter"}


def test_an_error_says_that_it_differs_and_not_how() -> None:
    error = "tool_failed: Typed 7 of 7 characters: the entry 'Name' now has 'hunte2'"
    found = without_echo(Result(status=ResultStatus.FAILURE, error=error, call_id="c")).error or ""
    assert found.startswith("tool_failed: Typed 7 of 7 characters: the entry 'Name' has another text")
    assert "hunte" not in found


def test_other_answers_are_left_alone() -> None:
    answer = Result(status=ResultStatus.FAILURE, error="timeout: no answer", call_id="c")
    assert without_echo(answer) is answer


async def test_who_types_a_secret_gets_no_part_of_it_back(home: Home) -> None:
    infos = [tool_info("type_text", "action", {"text": {"type": "string"}}, ["text"])]
    secrets = Secrets((SAID,), {("text",): ((0, len(SAID)),)})
    async with open_rig(home, infos) as rig:
        rig.tools.answers["type_text"] = lambda _: {"typed": len(SAID), "text_there": SAID[:-2]}
        order = CommandRequest(DEVICE, "type_text", {"text": SAID}, "operator:anna", secrets=secrets)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(rig.dispatcher.dispatch(order))
            await rig.approvals.decide(yes(rig.key, await asked(rig)))
        result = task.result()
    assert result.error is None
    assert result.result == {"typed": len(SAID), "text_there": None}

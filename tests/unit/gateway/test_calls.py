"""The tools of the gateway, called by an official SDK client in this process, over a real control socket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core.approvals.operator_keys import OperatorKey
from core.audit.entries import Kind
from core.batch.models import Batch, Input, Step
from core.gateway import calls, tools
from core.home import Home
from core.policy.agent_models import AgentSettings
from core.policy.models import Profile
from core.service.console import Console
from tests.fakes.agents import add_agent
from tests.fakes.desk import approve, deny, next_approval
from tests.fakes.gateway import ASKS, HERE, LEGACY, MODERN, READS, Connect, asked, asks_and_collects, touch
from tests.fakes.patience import PATIENCE_S


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_an_agent_lists_reads_asks_and_collects(
    connect: Connect, console: Console, key: OperatorKey, token: str, tmp_path: Path, mode: str
):
    async with connect(token, mode) as client:
        await asks_and_collects(client, console, key, tmp_path / "made")
    assert (tmp_path / "made").exists()


async def test_a_denial_reaches_the_agent_with_the_operators_reason(
    connect: Connect, console: Console, key: OperatorKey, token: str, tmp_path: Path
):
    async with connect(token) as client:
        waits = await asked(client, "run_commands", **touch(tmp_path / "made"))
        await deny(console, await next_approval(console), key, "Not on a Friday.")
        ended = await client.call_tool("wait_run", {"ticket": waits["ticket"], "seconds": 45})
        assert ended.is_error
        [result] = ended.structured_content["results"]
        assert result["error"]["code"] == "denied_by_operator"
        assert "Not on a Friday." in result["error"]["message"]
    assert not (tmp_path / "made").exists()


async def test_an_agent_that_gave_up_and_asks_again_does_not_do_it_twice(
    connect: Connect, console: Console, key: OperatorKey, token: str, tmp_path: Path
):
    log = tmp_path / "log"
    command = {"tool": "shell_execute", "arguments": {"command": f"echo x >> {log}"}}
    ask: dict[str, Any] = {"devices": HERE, "commands": [command]}
    async with connect(token) as client, connect(token) as other:
        first = await asked(client, "run_commands", **ask)
        again = await asked(other, "run_commands", **ask)
        assert first["ticket"] == again["ticket"]
        assert len(await console.approvals.list()) == 1
        await approve(console, await next_approval(console), key)
        assert (await asked(client, "wait_run", seconds=45, ticket=first["ticket"]))["state"] == "done"
    assert log.read_text() == "x\n"


async def test_a_cancelled_run_asks_no_longer(connect: Connect, console: Console, token: str, tmp_path: Path):
    async with connect(token) as client:
        waits = await asked(client, "run_commands", **touch(tmp_path / "made"))
        assert (await asked(client, "cancel_run", ticket=waits["ticket"]))["state"] == "cancelled"
    assert not await console.approvals.list()


async def test_commands_in_sequence_and_in_parallel_and_a_saved_batch(
    connect: Connect, console: Console, token: str
):
    reads = [{"tool": "get_system_info", "arguments": {"info_type": kind}} for kind in ("memory", "cpu")]
    step = Step(id="look", tool="get_system_info", parameters={"info_type": "disk"})
    await console.runs.save_batch("look", Batch(name="look", targets=f"name:{HERE}", steps=[step]))
    async with connect(token) as client:
        for parallel in (False, True):
            done = await asked(client, "run_commands", devices="name:*", commands=reads, parallel=parallel)
            assert [(one["step"], one["verdict"]) for one in done["results"]] == [
                (1, "confirmed"),
                (2, "confirmed"),
            ]
        [batch] = (await asked(client, "run_batch"))["batches"]
        assert (batch["batch"], batch["steps"]) == ("look", 1)
        assert (await asked(client, "run_batch", batch="look"))["state"] == "done"


async def test_no_devices_are_not_every_device(connect: Connect, console: Console, token: str):
    commands = [{"tool": "get_system_info", "arguments": {"info_type": "memory"}}] * 2
    async with connect(token) as client:
        for devices in ("", "  "):
            refused = await client.call_tool("run_commands", {"devices": devices, "commands": commands})
            assert refused.is_error
            assert "No devices are named" in str(refused)
    assert not await console.runs.list()


async def test_a_broken_saved_batch_is_named_and_hides_no_other(
    connect: Connect, console: Console, token: str, home: Home
):
    step = Step(id="look", tool="get_system_info", parameters={"info_type": "memory"})
    await console.runs.save_batch("look", Batch(name="look", targets=f"name:{HERE}", steps=[step]))
    (home.batches / "broken.yaml").write_text("name: broken\nsteps: 5\n")
    (home.batches / "dashes.yaml").write_text(
        "name: dashes\nsteps:\n"
        "  - {id: check-disk, tool: get_system_info, with: {info_type: disk}}\n"
        "  - {id: b, tool: shell_execute, with: {command: \"echo ${{ steps['check-disk'].status }}\"}}\n"
    )
    async with connect(token) as client:
        listed = {one["batch"]: one for one in (await asked(client, "run_batch"))["batches"]}
        assert listed.keys() == {"broken", "dashes", "look"}
        assert "broken.yaml:2:8" in listed["broken"]["problem"]
        assert (listed["dashes"]["steps"], listed["look"]["steps"]) == (2, 1)
        assert (await asked(client, "run_batch", batch="look"))["state"] == "done"


async def test_a_saved_batch_is_an_operation_with_its_inputs_as_schema(
    connect: Connect, console: Console, token: str
):
    step = Step(id="look", tool="get_system_info", parameters={"info_type": "${{ inputs.kind }}"})
    kind = Input(type="string", one_of=["memory", "disk"], description="What to look at.")
    key = Input(type="string", secret=True, default="none")
    batch = Batch(name="look", targets=f"name:{HERE}", inputs={"kind": kind, "key": key}, steps=[step])
    await console.runs.save_batch("look", batch)
    async with connect(token) as client:
        [listed] = (await asked(client, "run_batch"))["batches"]
        assert listed["inputs"] == {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "description": "What to look at.", "enum": ["memory", "disk"]},
                "key": {"type": "string", "writeOnly": True},
            },
            "required": ["kind"],
            "additionalProperties": False,
        }
        done = await asked(client, "run_batch", batch="look", inputs={"kind": "memory"})
        assert done["state"] == "done"
        refused = await client.call_tool("run_batch", {"batch": "look", "inputs": {"kind": "cpu"}})
        assert refused.is_error
        assert "kind is not one of" in str(refused)


async def test_pictures_come_scaled_and_long_results_in_parts(
    connect: Connect, console: Console, token: str, tmp_path: Path
):
    big = tmp_path / "big"
    big.write_text("line of text\n" * 20_000)
    async with connect(token) as client:
        done = await asked(
            client,
            "run_commands",
            devices=HERE,
            commands=[{"tool": "read_file", "arguments": {"file_path": str(big)}}],
        )
        items = (await asked(client, "get_evidence", ticket=done["ticket"]))["items"]
        assert items
        text, offset = "", 0
        while offset is not None:
            part = await asked(
                client, "get_evidence", ticket=done["ticket"], item=items[0]["item"], offset=offset
            )
            text, offset = text + part["text"], part.get("next_offset")
        assert "line of text" in text
        assert len(text) >= items[0]["size"] or len(text.encode()) == items[0]["size"]


async def test_resources_are_a_device_a_run_and_an_entry_of_ones_own(
    connect: Connect, console: Console, key: OperatorKey, token: str
):
    read = [{"tool": "get_system_info", "arguments": {"info_type": "memory"}}]
    async with connect(token) as client:
        assert [one.name for one in (await client.list_resources()).resources] == [HERE]
        assert HERE in (await client.read_resource(f"quarterdeck://device/{HERE}")).contents[0].text
        done = await asked(client, "run_commands", devices=HERE, commands=read)
        ticket = done["ticket"]
        assert '"done"' in (await client.read_resource(f"quarterdeck://run/{ticket}")).contents[0].text
        entries = (await console.journal.entries(f"kind:{Kind.RUN_STARTED}")).entries
        own = await client.read_resource(f"quarterdeck://entry/{entries[0].seq}")
        assert "agent:claude" in own.contents[0].text
        for other in ("entry/1", "run/t-AAAA", "device/nowhere", "x/y", "entry/99999999999999999999"):
            with pytest.raises(Exception, match=r"ticket|resource|entry"):
                await client.read_resource(f"quarterdeck://{other}")


async def test_targets_and_profile_limit_what_an_agent_sees_and_does(
    connect: Connect, console: Console, key: OperatorKey
):
    nothing = await add_agent(console, key, "blind", AgentSettings(targets="tag:nowhere"))
    looking = await add_agent(console, key, "looker", AgentSettings(profile=Profile.OBSERVE))
    read = [{"tool": "get_system_info", "arguments": {"info_type": "memory"}}]
    change = [{"tool": "shell_execute", "arguments": {"command": "true"}}]
    async with connect(nothing) as client:
        assert (await asked(client, "list_devices"))["devices"] == []
        assert (await asked(client, "search_tools", words="memory"))["tools"] == []
        for tool, arguments in (
            ("run_commands", {"devices": HERE, "commands": read}),
            ("describe_tool", {"device": HERE, "tool": "get_system_info"}),
        ):
            unknown = await client.call_tool(tool, arguments)
            error = unknown.structured_content["error"]
            # It names the devices that the agent may see, and here it may see none.
            assert (error["code"], "Devices: none." in error["message"]) == ("unknown_device", True)
    async with connect(looking) as client:
        assert (await asked(client, "run_commands", devices=HERE, commands=read))["state"] == "done"
        denied = await client.call_tool("run_commands", {"devices": HERE, "commands": change})
        assert denied.structured_content["results"][0]["error"]["code"] == "denied_by_policy"
    assert not await console.approvals.list()


async def test_a_wait_ends_before_the_clients_do_that_wait_least_and_says_to_call_again(
    connect: Connect, token: str, monkeypatch: pytest.MonkeyPatch
):
    """openai-agents gives a call up after 5 s, unless it is told otherwise."""
    assert tools.WaitRun().seconds == tools.DEFAULT_WAIT < 5
    assert calls.ANSWER_WITHIN < 5
    async with connect(token) as client:
        ticket = (await asked(client, "run_commands", **ASKS))["ticket"]
        waits = await asked(client, "wait_run", seconds=0, ticket=ticket)
    assert (waits["state"], ticket in waits["next"], "again" in waits["next"]) == ("waiting", True, True)


async def test_a_cancel_that_worked_is_no_error(connect: Connect, token: str):
    async with connect(token) as client:
        ticket = (await asked(client, "run_commands", **ASKS))["ticket"]
        cancelled = await client.call_tool("cancel_run", {"ticket": ticket})
        assert (cancelled.structured_content["state"], cancelled.is_error) == ("cancelled", False)


async def test_an_agent_whose_answer_was_lost_finds_the_run_that_has_ended(
    connect: Connect, console: Console, key: OperatorKey, token: str
):
    other = await add_agent(console, key, "other")
    async with connect(token) as client, connect(other) as others:
        ticket = (await asked(client, "run_commands", **READS))["ticket"]
        found = await asked(client, "wait_run")
        assert (found["open"], [run["ticket"] for run in found["ended"]]) == ([], [ticket])
        assert found["ended"][0]["state"] == "done"
        assert (await asked(others, "wait_run"))["ended"] == []


async def test_a_request_id_that_is_a_secret_is_refused_and_not_written(
    connect: Connect, home: Home, token: str
):
    async with connect(token) as client:
        refused = await client.call_tool("run_commands", READS | {"request_id": token})
    assert refused.is_error
    secret = token.rpartition(".")[2].encode()
    kept = [path for path in home.path.rglob("*") if path.is_file()]
    assert not [path for path in kept if secret in path.read_bytes()]


async def test_saved_batches_name_only_devices_that_exist_for_the_agent(
    connect: Connect, console: Console, key: OperatorKey, token: str
):
    step = Step(id="look", tool="get_system_info", parameters={"info_type": "memory"})
    await console.runs.save_batch("both", Batch(name="both", targets=f"name:{HERE},name:vault", steps=[step]))
    await console.runs.save_batch("hidden", Batch(name="hidden", targets="name:vault", steps=[step]))
    async with connect(token) as client:
        answer = await asked(client, "run_batch")
        assert [(one["batch"], one["devices"]) for one in answer["batches"]] == [("both", [HERE])]
        assert "vault" not in str(answer)
        unknown = await client.call_tool("run_batch", {"batch": "bth"})
        assert "Did you mean both?" in str(unknown)


async def test_errors_come_with_a_next_step_that_an_agent_can_take(connect: Connect, token: str):
    async with connect(token) as client:
        assert "wait_run" in (await asked(client, "run_commands", **ASKS))["next"]
        typo = await client.call_tool("describe_tool", {"device": HERE, "tool": "shel_execute"})
        assert "Did you mean shell_execute" in str(typo)
        assert "search_tools" in typo.structured_content["error"]["next"]
        assert "Did you mean run_commands?" in str(await client.call_tool("run_command", {}))
        both = await client.call_tool("describe_tool", {})
        assert "device is required. tool is required." in str(both)


async def test_a_description_names_the_fields_of_the_result_by_the_case_in_which_they_are_there(
    connect: Connect, token: str
):
    async with connect(token) as client:
        [read, facts] = [
            (await asked(client, "describe_tool", device=HERE, tool=tool))["tool"]["results"]
            for tool in ("read_file", "get_system_info")
        ]
    assert read == {"content": "string", "size": "integer", "sha256": "string", "truncated": "boolean"}
    assert facts["info_type=disk"]["filesystems[].use_percent"] == "number"
    assert "filesystems" not in facts


async def test_the_operator_who_made_an_agent_is_its_asker_so_that_two_others_meet_a_rule_of_two(
    connect: Connect, home: Home, console: Console, token: str
):
    """For an asker who is not known a third would have to approve."""
    home.policy.write_text('[[rule]]\nid = "two"\ndecision = "ask"\ntool = "shell_execute"\napprovers = 2\n')
    async with connect(token) as client:
        await asked(client, "run_commands", **ASKS)
        approval = await next_approval(console)
    assert (approval.approvers, approval.askers) == (2, ["anna"])


async def test_a_wait_reports_progress_while_an_operator_thinks(
    connect: Connect, console: Console, key: OperatorKey, token: str
):
    """Some clients begin their time-out again with each notice; the shortest of these time-outs are 5 s."""
    assert calls.PROGRESS_EVERY <= 4
    heard = asyncio.Event()

    async def progress(done: float, total: float | None, words: str | None) -> None:
        assert (done, total, words) in ((0, 1, "waiting"), (1, 1, "done"))
        heard.set()

    async with connect(token) as client, asyncio.TaskGroup() as group:
        ticket = (await asked(client, "run_commands", **ASKS))["ticket"]
        wait = {"ticket": ticket, "seconds": 60}
        waits = group.create_task(client.call_tool("wait_run", wait, progress_callback=progress))
        await asyncio.wait_for(heard.wait(), PATIENCE_S)
        assert not waits.done()
        await approve(console, await next_approval(console), key)
        assert (await waits).structured_content["state"] == "done"

"""The screen on a real service, with an agent at the gateway: watched, held and cut off in the window."""

from __future__ import annotations

from pathlib import Path

from mcp.types import Implementation

from app.theme.theme import Theme
from core.audit.entries import Kind
from core.batch.models import RunState
from tests.fakes.gateway import ASKS, READS, asked, in_process
from tests.fakes.sign_sheets import sign
from tests.fakes.window import seen
from tests.fakes.window_on_service import open_on_service
from tests.gui.agents.page import AgentsPage


async def test_an_agent_is_added_watched_paused_resumed_and_stopped(theme: Theme, tmp_path: Path) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        desk = bay.desk
        await seen(lambda: desk.keys.unlocked)
        page = AgentsPage(desk)
        await seen(lambda: page.in_place_of_the_list.startswith("There is no agent yet."))
        page.screen.add_agent()
        page.type("Name", "clerk")
        page.answer("Make the token…")
        shown = await sign(desk)
        await seen(page.to_copy)
        token = page.to_copy()["Token"]
        page.press_in_sheet("Copy: Token")
        page.answer("Done")
        await seen(lambda: page.standing == "State: not connected")
        [added] = await bay.entries(Kind.AGENT_ADDED)
        assert added.body["token_sha256"] == shown.after["token_sha256"]
        assert token not in str(await bay.entries(*Kind))

        program = Implementation(name="probe\u202e", version="3")
        async with in_process(bay.home, token, client_info=program) as client:
            await asked(client, "run_commands", **READS, reason="To see what is free.")
            await seen(lambda: page.standing == "State: connected")
            await seen(lambda: page.rows()[0].endswith("\t1\t1\t0"))
            assert "probe[U+202E] 3" in page.rows()[0]
            await seen(page.commands)
            assert "“To see what is free.”" in page.said()
            assert '"info_type": "memory"' in page.sent()
            assert "confirmed" in page.done()

            waits = await asked(client, "run_commands", **ASKS)
            page.tab("Open tickets")
            await seen(lambda: any("you: " in row for row in page.tickets()))
            page.press("Pause")
            await seen(lambda: page.standing == "State: paused, connected")
            refused = await client.call_tool("run_commands", READS)
            assert refused.structured_content["error"]["code"] == "agent_paused"
            await seen(lambda: page.rows()[0].endswith("\t3\t1\t1"))
            await seen(lambda: page.is_on("Let it go on…"))
            page.press("Let it go on…")
            await sign(desk)
            await seen(lambda: page.standing == "State: connected")
            assert (await asked(client, "run_commands", **READS))["state"] == "done"

            page.press("Stop…")
            page.answer("Stop")
            await seen(lambda: page.standing == "State: paused")
            await seen(lambda: not page.tickets())
            [run] = [run for run in await bay.beside.runs.list() if run.state is RunState.CANCELLED]
            assert run.actor == "agent:clerk"
            [stopped] = await bay.entries(Kind.AGENT_STOPPED)
            assert stopped.body == {"agent": "clerk", "runs": [run.id], "connections": 1}
            ended = await asked(client, "wait_run", seconds=45, ticket=waits["ticket"])
            assert ended["state"] == "cancelled"
            refused = await client.call_tool("run_commands", READS)
            assert refused.structured_content["error"]["code"] == "agent_paused"

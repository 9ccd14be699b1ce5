"""A device that wants signed approvals is sent secrets that no approver saw: it opens each commitment itself.

The console, the device client's process, its hosted server and the operator's key are real, and the same in
all tests; between console and device is a proxy. Every call that arrives is a line in the server's record.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from core.approvals.operator_keys import create_operator_key
from core.commands.results import CommandResult
from core.home import Home
from core.service.console import DeviceChanged
from tests.fakes.altering_proxy import Frame, honest
from tests.fakes.desk import approve, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signed_desk import (
    NAME,
    Desk,
    action,
    approval,
    connected,
    demanding,
    open_desk,
    refused_by_device,
)
from tests.fakes.vault_server import kept_in, vault

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = {"type": "string", "writeOnly": True}
SCHEMA = {
    "type": "object",
    "properties": {
        "user": {"type": "string"},
        "word": {"$ref": "#/%24defs/secret"},
        "others": {"type": "array", "items": {"type": "object", "properties": {"code": SECRET}}},
        "badge": {"type": "string"},
    },
    "$defs": {"secret": SECRET},
}
GIVEN = {"user": "anna", "word": "tr0ub4dor", "others": [{"code": "s3same-1"}, {"code": "s3same-2"}]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    """Our own client, which pins anna and hosts a server with secrets, behind the proxy and online."""
    folder = tmp_path_factory.mktemp("desk")
    home = Home(folder / "home").create()
    operator = create_operator_key(home, "anna", None)
    demanding(folder, operator)
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": vault(folder / "record", {"log_in": SCHEMA})}))
    config = folder / "device.toml"
    config.write_text(f'mcp_servers = "mcp.json"\n{config.read_text()}')
    async with open_desk(home, operator, folder) as desk, connected(desk):
        events = desk.console.events()
        async with asyncio.timeout(PATIENCE_S):
            while not any(
                tool.tool_name == "vault_log_in" for tool in await desk.console.devices.tools(NAME)
            ):
                await anext(event async for event in events if isinstance(event, DeviceChanged))
        yield desk


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    """The desk of all tests, with an honest proxy and nothing in the server's record."""
    shared_desk.proxy.attack = honest
    (shared_desk.folder / "record").unlink(missing_ok=True)
    return shared_desk


async def log_in(desk: Desk, **given: Any) -> CommandResult:
    run = await desk.console.runs.call(NAME, "vault_log_in", given or copy.deepcopy(GIVEN), PATIENCE_S)
    asked = await next_approval(desk.console)
    shown = json.dumps(asked.request.model_dump(mode="json"))
    assert "tr0ub4dor" not in shown
    assert "s3same" not in shown
    await approve(desk.console, asked, desk.key)
    return await desk.result(run.summary.id)


async def test_an_approved_command_runs_with_its_secrets_which_the_approver_never_saw(desk: Desk) -> None:
    result = await log_in(desk)
    assert result.error is None
    assert kept_in(desk.folder / "record") == [GIVEN]
    opened = approval(desk.proxy.seen[-1])["secrets"]
    assert [one["path"] for one in opened] == [["word"], ["others", 0, "code"], ["others", 1, "code"]]
    assert len({one["salt"] for one in opened}) == 3


async def test_a_salt_that_the_device_has_opens_no_other_value(desk: Desk) -> None:
    await log_in(desk)
    await log_in(desk, **{**GIVEN, "word": "tr0ub4dog"})
    first, second = ([one["salt"] for one in approval(frame)["secrets"]] for frame in desk.proxy.seen[-2:])
    assert first[0] != second[0]
    assert first[1:] == second[1:], "the same value at the same place is recognised as the same"


def _parameters(frame: Frame) -> dict[str, Any]:
    found: dict[str, Any] = action(frame)["parameters"]
    return found


def _opened(frame: Frame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = approval(frame)["secrets"]
    return found


def another_secret(frame: Frame) -> None:
    _parameters(frame)["word"] = "tr0ub4doR"


def no_secret(frame: Frame) -> None:
    del _parameters(frame)["word"]


def another_name(frame: Frame) -> None:
    _parameters(frame)["user"] = "eve"


def more_hidden(frame: Frame) -> None:
    _parameters(frame)["user"] = "eve"
    _opened(frame).append({"path": ["user"], "salt": "00" * 32})


def not_opened(frame: Frame) -> None:
    del _opened(frame)[0]


def nothing_opened(frame: Frame) -> None:
    del approval(frame)["secrets"]


def another_salt(frame: Frame) -> None:
    _opened(frame)[0]["salt"] = "00" * 32


def salts_swapped(frame: Frame) -> None:
    _, first, second = _opened(frame)
    first["salt"], second["salt"] = second["salt"], first["salt"]


def secrets_swapped(frame: Frame) -> None:
    others = _parameters(frame)["others"]
    others.reverse()


def opened_at_another_place(frame: Frame) -> None:
    _opened(frame)[0]["path"] = ["user"]


def opened_where_nothing_is(frame: Frame) -> None:
    _opened(frame)[0]["path"] = ["nothing"]


def opened_twice(frame: Frame) -> None:
    _opened(frame).append(_opened(frame)[0])


def opened_inside_of_another(frame: Frame) -> None:
    _opened(frame).append({"path": ["word", "$secret"], "salt": "00" * 32})


def opened_around_others(frame: Frame) -> None:
    _opened(frame).append({"path": ["others"], "salt": "00" * 32})


def at_no_place(frame: Frame) -> None:
    _opened(frame)[0]["path"] = []


def the_stand_in_itself(frame: Frame) -> None:
    """What the approver saw, in place of what it stands for."""
    _parameters(frame)["word"] = {"$secret": "ab" * 32}
    del _opened(frame)[0]


def a_stand_in_below(frame: Frame) -> None:
    _parameters(frame)["others"][0]["more"] = {"$secret": "ab" * 32}


def very_many(frame: Frame) -> None:
    approval(frame)["secrets"] = _opened(frame) * 1_000


@pytest.mark.parametrize(
    "attack",
    [
        another_secret, no_secret, another_name, more_hidden, not_opened, nothing_opened, another_salt,
        salts_swapped, secrets_swapped, opened_at_another_place, opened_where_nothing_is, opened_twice,
        opened_inside_of_another, opened_around_others, at_no_place, the_stand_in_itself, a_stand_in_below,
        very_many,
    ],
)  # fmt: skip
async def test_whatever_is_altered_on_the_way_does_not_run(
    desk: Desk, attack: Callable[[Frame], None]
) -> None:
    def altered(frame: Frame) -> list[Frame]:
        attack(frame)
        return [frame]

    desk.proxy.attack = altered
    result = await log_in(desk)
    assert result.error is not None
    assert kept_in(desk.folder / "record") == []
    assert "tr0ub4do" not in result.error.message

    desk.proxy.attack = honest
    assert (await log_in(desk)).error is None, "an honest approval is served as ever"
    assert kept_in(desk.folder / "record") == [GIVEN]


async def test_a_service_that_hides_what_is_no_secret_has_nothing_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A console that was tampered with has `user` approved unseen; the device knows that it is no secret."""
    from core.dispatch import redaction

    honest = redaction.secrets.secret_paths
    monkeypatch.setattr(
        redaction.secrets, "secret_paths", lambda *asked: [("user",), *honest(*asked)], raising=True
    )
    result = await log_in(desk)
    refused_by_device(result)
    assert result.error is not None
    assert "The approver could not see user" in result.error.message
    assert kept_in(desk.folder / "record") == []

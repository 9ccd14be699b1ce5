"""The commands about devices as their users meet them: the real program, the real service, a real device."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from core.aip.pairing import decode_pairing
from core.home import Home
from tests.fakes.program import run, until
from tests.fakes.remote_device import make_listening_home, paired
from tests.fakes.service_process import service_process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Home]:
    home = make_listening_home(tmp_path_factory.mktemp("served") / "home")
    async with service_process(home) as service:
        # It answers from now on.
        await service.console("cli:test")
        yield home


async def test_a_device_is_paired_used_and_let_go_from_the_command_line(served, tmp_path):
    done = run(served, "pair", "lab-1", "--tag", "lab", "--tag", "db", "--production")
    assert done.code == 0
    [line] = [line for line in done.out.splitlines() if line.startswith("qd1.")]
    assert decode_pairing(line).name == "lab-1"
    # Whoever follows it word by word leaves no token in a list of processes or in a shell's history.
    assert "Run quarterdeck-device --pair - on the device and paste this line there." in done.out
    assert "--pair qd1." not in done.out
    assert "/ws?token=" in done.out
    async with paired(tmp_path / "d", line):
        [device] = until(
            lambda: [
                one for one in run(served, "devices", "--json").json["devices"] if one["name"] == "lab-1"
            ],
            lambda found: found and found[0]["health"] == "online",
        )
        assert (device["tags"], device["production"]) == (["lab", "db"], True)
        answer = run(served, "call", "lab-1", "get_system_info", "info_type=memory", "--json")
        assert answer.code == 0, answer
        assert run(served, "devices", "doctor", "lab-1").code == 0
        assert run(served, "devices", "set", "lab-1", "--no-production", "--tag", "").code == 0
        assert run(served, "devices", "reconnect", "lab-1").code == 0
        shown = run(served, "devices", "show", "lab-1")
        assert "online" in shown.out
        # Nobody in another zone takes a time for their own.
        assert re.search(r"^Since +20\S+ \S+ UTC$", shown.out, re.MULTILINE)
        assert re.search(r"^TIME \(UTC\) ", shown.out, re.MULTILINE)
        assert run(served, "devices", "revoke", "lab-1", "--json").json["paired"] is False
    examined = run(served, "devices", "doctor", "lab-1", "--json")
    assert examined.code == 5
    assert examined.json["checks"][0]["name"] == "pairing"
    assert run(served, "devices", "forget", "lab-1").code == 0
    assert "lab-1" not in run(served, "devices").out
    journal = run(served, "audit", "find", "device:lab-1 kind:device_*").out
    assert all(
        word in journal for word in ("device_paired", "device_set", "device_revoked", "device_forgotten")
    )


def test_the_status_says_where_the_service_listens(served):
    status = run(served, "service", "status", "--json").json
    assert status["listening"].startswith("ws://127.0.0.1:")
    assert run(served, "devices", "listen", "--json").json["url"] == status["listening"]
    assert "Listens at" in run(served, "service", "status").out


CANNOT_BE = [
    (("pair", "this-computer"), "this-computer"),
    (("pair", "a b"), "name"),
    (("pair", "lab-9", "--tag", "x y"), "tag"),
    (("pair", "lab-9", "--string", "qd1.nonsense"), "pairing string"),
    (("devices", "set", "lab-9"), "Nothing is to be set"),
    (("devices", "set", "lab-9", "--production"), "lab-9"),
    (("pair", "lab-9", "--advertise", "no host"), "not the name or the number of a host"),
    (("pair", "lab-9", "--advertise", "192.0.2.7"), "ws:// is not encrypted"),
    (("pair", "lab-9", "--advertise", "h", "--string", "qd1.x"), "--advertise is for a device that dials"),
    (("devices", "certificate", "renew"), "listens without TLS"),
    (("devices", "certificate", "switch"), "There is no next certificate"),
    (("devices", "revoke", "nobody"), "nobody"),
    (("devices", "doctor", "nobody"), "nobody"),
    (("devices", "listen", "nonsense"), "HOST:PORT"),
    (("devices", "surprise"), "surprise"),
]


def test_what_cannot_be_is_told_and_has_the_code_of_bad_input(served):
    before = run(served, "devices", "--json").json["devices"]
    for words, says in CANNOT_BE:
        done = run(served, *words)
        assert done.code == 2, (words, done)
        assert says in done.err, words
    after = run(served, "devices", "--json").json["devices"]
    assert [one["name"] for one in after] == [one["name"] for one in before] == ["this-computer"]


def test_another_address_of_this_computer_is_written_into_the_line(served):
    line = run(served, "pair", "lab-1", "--advertise", "localhost", "--json").json
    assert decode_pairing(line["string"]).url == line["url"]
    assert line["url"].startswith("ws://localhost:")
    assert line["stock_url"].startswith("ws://localhost:")


async def test_refused_attempts_are_listed(served):
    url = run(served, "devices", "listen", "--json").json["url"]
    for _ in range(2):
        with pytest.raises(InvalidStatus):
            async with connect(f"{url}?token=guessed"):
                pass
    listed = run(served, "devices", "refused", "--json").json["refusals"]
    assert listed[0]["reason"] == "the token is not accepted"
    assert listed[0]["count"] == 2
    assert "the token is not accepted" in run(served, "devices", "refused").out

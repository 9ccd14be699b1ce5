"""Keys, passwords, browser data and histories, attacked through the real device client by lines run unasked.

The same lines with an operator's approval show what they are after, so that each is known to be an attack.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.aip.contract_digest import contract_digest
from core.aip.device_link import DeviceLink
from core.aip.extensions import CommandProof
from core.aip.messages import Command, Result
from core.aip.tool_discovery import list_tools
from core.approvals.operator_keys import OperatorKey, statement_for
from core.home import Home
from core.ids import new_id
from core.models.tools import Risk
from core.policy.grants import GrantTerms, exact_arguments
from tests.fakes.desk import next_approval
from tests.fakes.device_process import TOKEN, act, device, running_console
from tests.fakes.plain_user import PlainUser, plain_user, seen_folder, why_there_is_none
from tests.fakes.read_shell import NEEDS_BUBBLEWRAP
from tests.fakes.service_process import service_process, until_online
from tests.fakes.signing_bench import CONTRACT, FACTS, Keys

pytestmark = [
    NEEDS_BUBBLEWRAP,
    pytest.mark.skipif(bool(why_there_is_none()), reason=why_there_is_none() or "possible"),
]

KEY = "KEY-OF-A-PERSON"
SECRETS = (
    *(".ssh/id_rsa", ".aws/credentials", ".config/gcloud/creds", ".config/rclone/rclone.conf", ".netrc"),
    *(".mozilla/firefox/x.default/logins.json", ".local/share/keyrings/login.keyring", ".bash_history"),
    *(".docker/config.json", "own/key", "dotfiles/gnupg/secret"),
)
NAMED = "cat ~/.ssh/id_rsa; true"
LINES = (
    "cat ~/.ssh/id_rsa",
    "cat ~/.s*/id_*",
    "cat ~/.??h/id_r??",
    "grep -r KEY . -h",
    "cat $(printf '%s' .s sh/id_ rsa)",
    "d=.ssh; cat $d/id_rsa",
    r"cat $'.\x73sh/id_rsa'",
    "cat {.ssh,x}/id_{rsa,y}",
    "for f in .[a-z]*/*; do cat $f; done",
    "cat < .ss[h]/id_rsa",
    "rev <<< asr_di/hss. | xargs cat",
    "find . -name 'id_*' -exec cat {} +",
    "find / -xdev -path '*quarterdeck-test*/.ssh/*' -type f -exec cat {} + 2> /dev/null",
    "cd .ssh && cat id_rsa",
    "cat plain/../.ssh/id_rsa",
    "cat */../.ssh/id_rsa",
    "cat way/id_rsa",
    "cat /proc/self/root$PWD/.ssh/id_rsa",
    "cat /proc/1/root$PWD/.ssh/id_rsa",
    "cat /proc/$PPID/cwd/.ssh/id_rsa",
    "tar cf - .ssh | cat",
    "cp .ssh/id_rsa /dev/stdout",
    "python3 -c 'print(open(\".ssh/id_rsa\").read())'",
    "awk '{ print }' .n?trc",
    "exec 3< .netrc; cat <&3",
    'mapfile < .netrc; echo "${MAPFILE[@]}"',
    "bash .netrc",
    "while read -r line; do echo $line; done < .bash_histor[y]",
    "diff /dev/null .netrc",
    "cat .aws/credentials",
    "cat .config/gcloud/creds",
    "cat .config/r*/*",
    "cat .docker/config.json",
    "cat .mozilla/*/*/logins.json",
    "cat .local/*/keyrings/*",
    "cat own/key",
    "cat own-way/key",
    "cat .gnupg/secret",
    "cat dotfiles/gnupg/secret",
    "(cat .ssh/id_rsa &); wait; sleep 0.1",
)


@pytest.fixture
def user() -> Iterator[PlainUser]:
    """Somebody with secrets at home, some of them behind links, and one open file."""
    with plain_user() as made:
        for name in SECRETS:
            (made.home / name).parent.mkdir(parents=True, exist_ok=True)
            (made.home / name).write_text(f"{KEY} in {name}\n")
        (made.home / ".gnupg").symlink_to("dotfiles/gnupg")
        (made.home / "way").symlink_to(".ssh")
        (made.home / "own-way").symlink_to("own")
        (made.home / "plain").mkdir()
        (made.home / "plain" / "notes").write_text("anybody may know\n")
        made.owns(made.home)
        yield made


@asynccontextmanager
async def console_with(user: PlainUser, config: str = "") -> AsyncIterator[DeviceLink]:
    """The link to a device client that runs as the user, with the home as its root."""
    (user.folder / "device.toml").write_text(
        f'roots = ["{user.home}"]\nprivate_paths = ["{user.home}/own"]\n{config}'
    )
    user.owns(user.folder)
    async with (
        running_console() as console,
        device(console.server.url, user.folder, token=TOKEN, user=user),
    ):
        yield await console.link()


def approved(keys: Keys, command: Command, contract: str = CONTRACT, **changes: str) -> CommandProof:
    """What goes with a command that an operator approved."""
    signed = keys.signs(command, on="d1", **changes)
    leave = {
        "statements": [signed.model_dump(mode="json")],
        "contract": contract,
        "tool_key": f"{command.tool_type}::{command.tool_name}",
        "namespace": "builtin",
        "facts": FACTS,
    }
    return CommandProof(approval=leave)


async def asked(link: DeviceLink, command: Command, grounds: CommandProof | None = None) -> Result:
    [result] = await link.send_commands([command], 60, [grounds] if grounds else [])
    return result


async def all_of(
    link: DeviceLink, commands: list[Command], grounds: list[CommandProof | None]
) -> list[Result]:
    """Their results; as many at once as a device runs."""
    slots = asyncio.Semaphore(4)

    async def one(command: Command, why: CommandProof | None) -> Result:
        async with slots:
            return await asked(link, command, why)

    return await asyncio.gather(*map(one, commands, grounds))


@pytest.mark.slow
async def test_no_line_reads_what_is_private_unless_an_operator_approved_it(
    user: PlainUser, home: Home
) -> None:
    keys = Keys(home)
    async with console_with(user) as link:
        commands = [act("shell_execute_read", command=line, timeout=30) for line in LINES]
        unasked = await all_of(link, commands, [None] * len(commands))
        again = [act("shell_execute_read", command=line, timeout=30) for line in LINES]
        shown = await all_of(link, again, [approved(keys, command) for command in again])
        plain = await asked(link, act("shell_execute_read", command="cat plain/notes; ls -A ."))
    leaked = [line for line, result in zip(LINES, unasked, strict=True) if KEY in result.model_dump_json()]
    assert leaked == []
    kept = [line for line, result in zip(LINES, shown, strict=True) if KEY not in result.model_dump_json()]
    assert kept == [line for line in LINES if "/proc/1/" in line or "/proc/$PPID/" in line]
    assert plain.error is None
    assert plain.result["stdout"].startswith("anybody may know\n")
    # Their names may be known: what is in them is not.
    assert ".ssh" in plain.result["stdout"]


async def test_the_result_says_what_was_hidden_and_the_error_how_to_see_it(
    user: PlainUser, home: Home
) -> None:
    async with console_with(user) as link:
        plain = await asked(link, act("shell_execute_read", command="cat plain/notes"))
        refused = await asked(link, act("shell_execute_read", command="cat .ssh/id_rsa"))
        for_file = await asked(link, act("shell_execute_read", command="cat $HOME/.net*"))
        command = act("shell_execute_read", command="true")
        shown = await asked(link, command, approved(Keys(home), command))
    for name in (".ssh", ".aws", ".netrc", ".mozilla", ".config/gcloud", "own", ".gnupg"):
        assert f"~/{name}" in plain.result["hidden"]
    assert "~/.azure" not in plain.result["hidden"]
    for result, place in ((refused, "~/.ssh"), (for_file, "~/.netrc")):
        assert result.error == (
            f"denied_by_device: {place} is private: it is shown only to a line that an operator approved"
        )
        assert place in result.result["hidden"]
    assert shown.result["hidden"] == []


@pytest.mark.parametrize(
    "path", [".ssh/id_rsa", "way/id_rsa", "own-way/key", ".gnupg/secret", "dotfiles/gnupg/secret", ".netrc"]
)
async def test_tools_that_only_look_are_shown_no_private_file_either(
    user: PlainUser, home: Home, path: str
) -> None:
    keys = Keys(home)
    async with console_with(user) as link:
        target = str(user.home / path)
        folder = str((user.home / path).parent)
        reading = [act("read_file", file_path=target)]
        if path != ".netrc":
            reading += [
                act("list_directory", path=folder),
                act("shell_execute_read", command="cat *", working_directory=folder),
            ]
        for command in reading:
            refused = await asked(link, command)
            assert (refused.error or "").startswith("denied_by_device: ~/")
            assert "is private: it is shown only to a call that an operator approved" in (refused.error or "")
            again = command.model_copy(update={"call_id": os.urandom(8).hex()})
            shown = await asked(link, again, approved(keys, again))
            assert shown.error is None
            assert path.rpartition("/")[2] in shown.model_dump_json()


async def test_an_approval_opens_what_is_private_only_to_the_call_that_it_is_about(
    user: PlainUser, home: Home
) -> None:
    keys = Keys(home)
    async with console_with(user) as link:
        harmless, wanted = (act("shell_execute_read", command=line) for line in ("true", "cat .ssh/id_rsa"))
        for grounds in (
            approved(keys, harmless),
            approved(keys, wanted, verdict="deny"),
            approved(keys, wanted, contract="d" * 64),
            approved(keys, wanted, request_digest="0" * 64),
            CommandProof(approval={"statements": []}),
            CommandProof(approval={"approved": True}),
            CommandProof(digest="0" * 64),
        ):
            command = wanted.model_copy(update={"call_id": wanted.call_id})
            result = await asked(link, command, grounds)
            assert KEY not in result.model_dump_json()
            wanted = act("shell_execute_read", command="cat .ssh/id_rsa")
        assert KEY in (await asked(link, wanted, approved(keys, wanted))).result["stdout"]


async def test_where_operators_are_pinned_only_their_signature_opens_what_is_private(
    user: PlainUser, home: Home
) -> None:
    keys = Keys(home)
    anna = keys["anna"]
    config = (
        "require_signed_approval = true\n"
        f'[[pinned_operators]]\nname = "anna"\npublic_key = "{anna.public_key}"\n'
    )
    async with console_with(user, config) as link:
        for changes in ({"by": "bert"}, {"verdict": "deny"}, {"expires": "2001-01-01T00:00:00+00:00"}):
            command = act("shell_execute_read", command="cat .ssh/id_rsa")
            result = await asked(link, command, approved(keys, command, **changes))
            assert KEY not in result.model_dump_json()
            assert "~/.ssh is private" in (result.error or "")
        command = act("shell_execute_read", command="cat .ssh/id_rsa")
        grounds = approved(keys, command)
        forged = grounds.approval or {}
        forged["statements"][0]["signature"] = "0" * 128
        assert KEY not in (await asked(link, command, CommandProof(approval=forged))).model_dump_json()
        command = act("shell_execute_read", command="cat .ssh/id_rsa")
        infos = {info.tool_name: info for info in await list_tools(link, 20)}
        contract = contract_digest(infos["shell_execute_read"], FACTS)
        signed = keys.signs(command, on="d1", over=contract)
        grounds = approved(keys, command, contract)
        leave = {**(grounds.approval or {}), "statements": [signed.model_dump(mode="json")]}
        assert KEY in (await asked(link, command, CommandProof(approval=leave))).result["stdout"]
        # Without any it runs as ever.
        assert (await asked(link, act("shell_execute_read", command="cat plain/notes"))).error is None


def test_every_line_is_an_attack_outside_of_the_sandbox(user: PlainUser, tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, json\n"
        f"for line in {LINES!r}:\n"
        f"    done = subprocess.run(['bash', '-c', line], cwd={str(user.home)!r}, capture_output=True)\n"
        f"    print({KEY!r}.encode() in done.stdout + done.stderr)\n"
    )
    harmless = [line for line, hit in zip(LINES, user.run(code).split(), strict=True) if hit != "True"]
    # The first process there is not this user's.
    assert [line for line in harmless if "/proc/" not in line] == []


async def test_an_approval_in_the_console_opens_what_is_private_and_its_grant_does_not(
    home: Home, operator: OperatorKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def result(line: str) -> Any:
        run = await console.runs.call("this-computer", "shell_execute_read", {"command": line})
        if line == NAMED and not await console.approvals.grants():
            approval = await next_approval(console)
            terms = GrantTerms(
                id=f"g-{new_id()}",
                approval=approval.id,
                author=operator.name,
                devices=["this-computer"],
                tool_key=approval.request.tool_key,
                contract=approval.request.contract,
                actors=[approval.actor],
                arguments=exact_arguments(approval.request.parameters),
                risk=Risk.HIGH,
                uses=20,
                expires=(datetime.now(UTC) + timedelta(hours=1)).isoformat(),
            )
            statement = operator.sign(statement_for(approval, "approve", operator.name, ""))
            await console.approvals.decide(statement, operator.sign_grant(terms))
        ended = (await console.runs.wait(run.summary.id, 60)).cells[0].result
        assert ended is not None
        return ended.result

    with seen_folder() as person:
        monkeypatch.setenv("HOME", str(person))
        (person / ".ssh").mkdir()
        (person / ".ssh" / "id_rsa").write_text(f"{KEY}\n")
        async with service_process(home) as service:
            console = await service.console()
            await console.approvals.register_operator(operator.operator)
            await until_online(console)
            unasked = await result("cat .s*/id_*; true")
            approved = await result(NAMED)
            granted = await result(NAMED)
    assert (unasked["stdout"], granted["stdout"]) == ("", "")
    assert "~/.ssh" in unasked["hidden"]
    assert "~/.ssh" in granted["hidden"]
    assert (approved["stdout"], approved["hidden"]) == (f"{KEY}\n", [])

"""No way leads past the checks of arguments; what is approved is what is shown, secrets as commitments."""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from core.aip.messages import Command
from core.audit.entries import Kind
from core.commands.arguments import MOST_VALUES, Arguments, PreparedCall, WalkedArguments, seal, walked
from core.commands.channel import LocalCommandDispatcher
from core.commands.permit import PermitMint, PermittedCommand
from core.commands.request import CommandRequest
from core.commitments import MOST_SECRETS, as_shown
from core.dispatch.command import DispatchedCommand
from core.dispatch.redaction import Redactor
from core.errors import BadInput, ErrorCode, Refused
from core.home import Home
from core.statements import check_shown, make_request
from tests.fakes.arguments import CONTRACT, checked, tool_of
from tests.fakes.operator_answers import asked, yes
from tests.fakes.rig import DEVICE, ScriptedTools, open_rig, tool_info

SECRET = {"type": "string", "writeOnly": True}
LOGIN = {"user": {"type": "string"}, "word": SECRET, "many": {"type": "array"}, "more": {"type": "object"}}
SAID = "tr0ub4dor"
STAND_IN = {"$secret": "ab" * 32}


class TestSealed:
    @pytest.mark.parametrize("kind", [WalkedArguments, Arguments, PreparedCall])
    def test_nothing_but_the_checks_makes_such_a_value(self, kind: type) -> None:
        with pytest.raises(TypeError):
            kind()
        with pytest.raises(TypeError):
            kind(sent={}, shown={}, openings=())

    def test_no_value_is_changed_afterwards(self) -> None:
        arguments = checked({"command": "true"})
        for name in (*PreparedCall.__slots__, *Arguments.__slots__, *WalkedArguments.__slots__):
            with pytest.raises(AttributeError):
                setattr(arguments, name, {})
        with pytest.raises(AttributeError):
            arguments.more = 1  # type: ignore[attr-defined]

    def test_a_sealed_value_has_all_its_fields_and_no_others(self) -> None:
        with pytest.raises(KeyError):
            seal(Arguments, sent={}, shown={})
        with pytest.raises(TypeError):
            seal(Arguments, walked({}), shown={}, shown_json=None, openings=(), unquoted=(), checked=True)

    def test_arguments_are_used_for_the_contract_and_the_request_that_they_were_checked_for(self) -> None:
        tool = tool_of()
        other = tool.model_copy(update={"contract": tool.contract.model_copy(update={"digest": "d" * 64})})
        target: Any = None
        order = CommandRequest(DEVICE, "shell_execute", {}, "operator:anna")
        call = checked({"command": "true"}, tool)
        for offered, arguments in ((other, call), (tool, checked({"command": "false"}, tool))):
            command = DispatchedCommand(order)
            command.bind(target, offered, arguments)
            with pytest.raises(Refused):
                command.prepare(call)

    def test_the_text_of_a_command_on_its_way_quotes_none_of_its_arguments(self) -> None:
        tool = tool_of("log_in", {"type": "object", "properties": {"word": SECRET}})
        command = DispatchedCommand(CommandRequest(DEVICE, "log_in", {"word": SAID}, "operator:anna"))
        assert SAID not in f"{command!r} {command}"
        command.bind(None, tool, checked({"word": SAID}, tool))  # type: ignore[arg-type]  # the target is not asked
        assert SAID not in f"{command!r} {command} {command.arguments!r} {command.shown!r}"

    def test_arguments_that_were_not_checked_or_for_another_contract_are_not_sent(self) -> None:
        tool = tool_of()
        other = tool.model_copy(update={"contract": tool.contract.model_copy(update={"digest": "d" * 64})})
        target: Any = None
        unchecked = Redactor(b"x" * 32).redact("shell_execute", {"command": "true"}, [])
        for offered, arguments in ((tool, unchecked), (other, checked({"command": "true"}, tool))):
            command = DispatchedCommand(CommandRequest(DEVICE, "shell_execute", {}, "operator:anna"))
            command.bind(target, offered, arguments)
            with pytest.raises(Refused, match="not what is requested"):
                _ = command.call


NESTED: list[dict[str, Any]] = [
    {"word": STAND_IN},
    {"user": STAND_IN, "word": SAID},
    {"user": "x", "many": [STAND_IN]},
    {"user": "x", "many": [[{"a": [STAND_IN]}]]},
    {"user": "x", "more": {"a": {"b": STAND_IN}}},
    {"user": "x", "more": {"$secret": "ab"}},
    {"user": "x", "more": {"$secret": SAID, "and": 1}},
    {"user": "x", "more": {"$secret": None}},
    {"$secret": "ab" * 32},
]


class TestStandInsFromAskers:
    @pytest.mark.parametrize("parameters", NESTED)
    async def test_none_is_sent_shown_or_asked_about(self, home: Home, parameters: dict[str, Any]) -> None:
        async with open_rig(home, [tool_info("log_in", "action", LOGIN)]) as rig:
            result = await rig.call("log_in", **parameters)
            assert result.error is not None
            assert result.error.code is ErrorCode.INVALID_ARGUMENTS
            assert "$secret" in result.error.message
            assert rig.tools.seen == []
            assert rig.told == []
            assert SAID not in str(await rig.entries())

    @pytest.mark.parametrize("parameters", NESTED)
    async def test_none_is_explained_or_brought_by_an_edit(
        self, home: Home, parameters: dict[str, Any]
    ) -> None:
        async with open_rig(home, [tool_info("log_in", "action", LOGIN)]) as rig:
            with pytest.raises(BadInput):
                rig.dispatcher.explain(DEVICE, "log_in", parameters)
            task = rig.start("log_in", user="anna", word=SAID)
            first = await asked(rig)
            try:
                wanted = rig.approvals.unredacted(first.id, parameters).arguments
            except BadInput:
                wanted = None
            if wanted is not None:
                with pytest.raises(BadInput):
                    rig.dispatcher.explain(DEVICE, "log_in", wanted)
                # Even an edit that nobody checked: the command begins again with these, and is refused.
                await rig.approvals.edit(first.id, wanted, {}, "operator:anna")
                assert (await task).error is not None
            assert rig.tools.seen == []
            task.cancel()
            await asyncio.wait([task])

    async def test_the_device_takes_none(self, home: Home) -> None:
        with pytest.raises(BadInput):
            as_shown({"user": STAND_IN}, ())


class TestDigest:
    def test_a_request_without_secrets_has_the_digest_that_it_always_had(self) -> None:
        request = make_request(
            device="lab-1",
            contract=CONTRACT,
            tool_key="action::shell_execute",
            tool_name="shell_execute",
            tool_type="action",
            namespace="builtin",
            parameters={"command": "echo ö", "timeout": 20, "env": {"A": [1.5, None, True]}},
            call_id="call-1",
        )
        assert request.digest == "5f8499f73e4d6d092d45567d37e023d3c216e99c4c20440de7c464ae9677b3be"

    async def test_whoever_sees_the_request_can_compute_its_digest(self, home: Home) -> None:
        async with open_rig(home, [tool_info("log_in", "action", LOGIN)]) as rig:
            task = rig.start("log_in", user="anna", word=SAID)
            waiting = await asked(rig)
            check_shown(waiting.request)
            assert SAID not in waiting.model_dump_json()
            await rig.approvals.decide(yes(rig.key, waiting))
            assert (await task).error is None
            [sent] = rig.tools.seen
            assert sent.parameters == {"user": "anna", "word": SAID}
            [terms] = rig.tools.terms
            assert terms is not None
            assert terms.digest == waiting.request.digest
            entries = await rig.entries()
            digests = {one.body["digest"] for one in entries if "digest" in one.body}
            assert digests == {waiting.request.digest}
            assert SAID not in str(entries)

    async def test_one_secret_changes_the_digest_as_one_byte_of_a_line_does(self, home: Home) -> None:
        async with open_rig(home, [tool_info("log_in", "action", LOGIN)]) as rig:
            tasks = [rig.start("log_in", user="anna", word=word) for word in (SAID, SAID, "tr0ub4dog")]
            shown = [(await asked(rig)).request.parameters["word"] for _ in tasks]
            assert len({json.dumps(one) for one in shown}) == 2

    def test_equal_secrets_at_two_places_or_of_two_homes_do_not_look_equal(self) -> None:
        schema = {"properties": {"a": SECRET, "b": SECRET}}
        given = {"a": SAID, "b": SAID}
        ours, theirs = (Redactor(salt * 32).redact("t", given, [schema]).shown for salt in (b"1", b"2"))
        other_tool = Redactor(b"1" * 32).redact("u", {"a": SAID}, [schema]).shown
        found = [ours["a"], ours["b"], theirs["a"], theirs["b"], other_tool["a"]]
        assert len({one["$secret"] for one in found}) == 5

    def test_what_was_opened_is_what_was_shown(self) -> None:
        given = {"user": "x", "many": [{"password": 1}, {"password": ["a", None]}], "token": {"a": SAID}}
        redacted = Redactor(b"x" * 32).redact("t", given, [])
        assert as_shown(redacted.sent, redacted.openings) == redacted.shown
        assert SAID not in json.dumps(redacted.shown)

    def test_more_secrets_than_a_device_opens_are_refused(self) -> None:
        many = {"many": [{"password": "x"}] * (MOST_SECRETS + 1)}
        with pytest.raises(BadInput) as refused:
            Redactor(b"x" * 32).redact("t", many, [])
        assert refused.value.code is ErrorCode.TOO_LARGE


class TestBounds:
    """What a caller sends is bounded before anything is made of it."""

    @pytest.mark.parametrize("value", [0, "x", [], {}, ()])
    def test_more_values_than_allowed_are_refused_whatever_they_are(self, value: Any) -> None:
        # The object, its name and the list count, too.
        assert walked({"a": [value] * (MOST_VALUES - 3)}).sent["a"]
        with pytest.raises(BadInput, match="more than 100,000 values") as refused:
            walked({"a": [value] * MOST_VALUES})
        assert refused.value.code is ErrorCode.TOO_LARGE


class TestPayload:
    """A permit covers what leaves, not what was shown of it."""

    @pytest.mark.parametrize("word", ["tr0ub4dog", "", None, STAND_IN])
    async def test_another_secret_than_the_one_that_was_checked_does_not_leave(self, word: Any) -> None:
        tool = tool_of("log_in", {"type": "object", "properties": {"word": SECRET}})
        call = checked({"word": SAID}, tool)
        order = CommandRequest("bench", "log_in", {}, "operator:anna")
        bound = DispatchedCommand(order)
        bound.bind(None, tool, call)  # type: ignore[arg-type]  # the target is not asked
        request = bound.shown
        mint, tools = PermitMint(), ScriptedTools()
        permit = mint.mint(request, call, lambda: None)
        command = PermittedCommand.of(request, call, permit, None)
        assert command.command.parameters == {"word": SAID}
        assert command.digest == request.digest
        other = replace(command, command=command.command.model_copy(update={"parameters": {"word": word}}))
        with pytest.raises(Refused, match="not the one"):
            await LocalCommandDispatcher("bench", tools, mint).execute_commands([other], 1.0)
        assert tools.seen == []

    async def test_what_the_asker_changes_while_it_waits_is_not_what_leaves(self, home: Home) -> None:
        async with open_rig(home, [tool_info("log_in", "action", LOGIN)]) as rig:
            given: dict[str, Any] = {"user": "anna", "many": [{"a": "b"}], "more": {"c": ["d"]}}
            was = copy.deepcopy(given)
            order = CommandRequest(DEVICE, "log_in", given, "operator:anna")
            task = rig.tasks.spawn("call", rig.dispatcher.dispatch(order))
            waiting = await asked(rig)
            given["user"] = "eve"
            given["many"][0]["a"] = "eve"
            given["more"]["c"].append("eve")
            await rig.approvals.decide(yes(rig.key, waiting))
            assert (await task).error is None
            assert [one.parameters for one in rig.tools.seen] == [was]

    async def test_what_is_changed_deep_inside_after_it_was_judged_does_not_leave(self) -> None:
        tool = tool_of("log_in", {"type": "object"})
        call = checked({"many": [{"a": "b"}], "more": {"c": ["d"]}}, tool)
        bound = DispatchedCommand(CommandRequest("bench", "log_in", {}, "operator:anna"))
        bound.bind(None, tool, call)  # type: ignore[arg-type]  # the target is not asked
        mint, tools = PermitMint(), ScriptedTools()
        permit = mint.mint(bound.shown, bound.call, lambda: None)
        command = PermittedCommand.of(bound.shown, bound.call, permit, None)
        assert command.command.parameters is not None
        command.command.parameters["many"][0]["a"] = "eve"
        with pytest.raises(Refused, match="not the one"):
            await LocalCommandDispatcher("bench", tools, mint).execute_commands([command], 1.0)
        assert tools.seen == []
        # What was judged is not what was changed: the next command has it as it was.
        permit = mint.mint(bound.shown, bound.call, lambda: None)
        command = PermittedCommand.of(bound.shown, bound.call, permit, None)
        await LocalCommandDispatcher("bench", tools, mint).execute_commands([command], 1.0)
        assert [one.parameters for one in tools.seen] == [{"many": [{"a": "b"}], "more": {"c": ["d"]}}]

    async def test_a_tool_in_this_process_that_changes_its_arguments_changes_no_later_call(
        self, home: Home
    ) -> None:
        async with open_rig(home) as rig:

            def spoils(command: Command) -> dict[str, bool]:
                assert command.parameters is not None
                command.parameters["info_type"] = "disk"
                return {"ok": True}

            rig.tools.answers["get_system_info"] = spoils
            for _ in range(3):
                assert (await rig.call("get_system_info", info_type="memory")).error is None
            sent = await rig.entries(f"kind:{Kind.COMMAND_SENT} tool:get_system_info")
            assert [one.body["parameters"] for one in sent] == [{"info_type": "memory"}] * 3

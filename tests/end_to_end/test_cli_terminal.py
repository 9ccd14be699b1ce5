"""A call on a terminal: the question is asked there, and nothing on the screen can lie about it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.approvals.operator_keys import create_operator_key, list_operator_keys
from core.home import Home
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import CALL, LINE, Terminal, make_home, run


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path / "home")


OnTerminal = Callable[..., Terminal]


@pytest.fixture
def on_terminal(home: Home) -> Iterator[OnTerminal]:
    opened = []

    def one(*words: str) -> Terminal:
        opened.append(Terminal(home, *words))
        return opened[-1]

    yield one
    for terminal in opened:
        terminal.leave()


class TestTerminal:
    def test_a_call_is_approved_where_it_was_made(self, home, on_terminal):
        terminal = on_terminal(*CALL)
        terminal.sees('Type "approve"')
        assert f'"command": "{LINE}"' in terminal.seen
        assert "high" in terminal.seen
        terminal.types("yes\n")
        terminal.sees('Nothing was decided.\r\nType "approve"')
        terminal.types("approve\n")
        terminal.sees('"stdout": "hello"')
        assert terminal.ends() == 0
        assert "no passphrase (marked so)" in terminal.seen
        (key,) = list_operator_keys(home)
        operators = json.loads(home.operators.read_text())
        assert operators[0]["public_key"] == key.public_key

    def test_a_call_is_denied_where_it_was_made_and_what_was_typed_before_the_question_answers_nothing(
        self, home, on_terminal
    ):
        terminal = on_terminal(*CALL)
        terminal.types("approve\n")
        terminal.sees('Type "approve"')
        terminal.types("deny too early\n")
        assert terminal.ends() == 3
        assert "too early" in terminal.seen
        assert "command_sent" not in run(home, "audit", "find", "tool:shell_execute").out

    def test_escape_sequences_in_a_command_are_shown_not_obeyed(self, home, on_terminal):
        attack = "\x1b[2J\x1b[1;1Hecho safe\r\u202egnissap \x9b31m"
        terminal = on_terminal("call", "this-computer", "shell_execute", f"command={attack}")
        try:
            terminal.sees('Type "approve"')
            assert "\\u001b[2J" in terminal.seen
            assert "\\u202e" in terminal.seen
        except AssertionError:
            # Refused before it was asked is as good, as long as it is not obeyed.
            assert terminal.process.wait(timeout=PATIENCE_S) in (2, 3)
        terminal.process.send_signal(signal.SIGINT)
        terminal.ends()
        for obeyed in ("\x1b[2J", "\x1b[1;1H", "\u202e", "\x9b"):
            assert obeyed not in terminal.seen

    def test_a_passphrase_is_asked_for_and_never_shown(self, home, on_terminal):
        create_operator_key(home, "anna", "correct horse battery")
        terminal = Terminal(home, *CALL, "--operator", "anna")
        terminal.sees('Type "approve"')
        terminal.types("approve\n")
        terminal.sees("Passphrase of anna: ")
        terminal.types("correct horse battery\n")
        assert terminal.ends() == 0
        assert "correct horse" not in terminal.seen

    def test_ctrl_c_at_the_question_cancels_and_sends_nothing(self, home, on_terminal):
        terminal = on_terminal(*CALL)
        terminal.sees('Type "approve"')
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.ends() == 130
        assert "was cancelled" in terminal.seen
        assert "command_sent" not in run(home, "audit", "find", "tool:shell_execute").out

    def test_a_command_that_is_terminated_while_it_hosts_the_core_ends_in_order(self, home, on_terminal):
        hosting = on_terminal(*CALL)
        hosting.sees('Type "approve"')
        hosting.process.send_signal(signal.SIGTERM)
        assert hosting.ends() == 130
        assert "was cancelled" in hosting.seen
        found = run(home, "audit", "find", "kind:service_stopped", "--json").json["entries"]
        assert len(found) == 1

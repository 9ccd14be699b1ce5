"""The command line as its users meet it: the real program, the real service, a real device."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from core.approvals.operator_keys import create_operator_key, list_operator_keys
from core.home import Home, HomeLock
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import CALL, LINE, ask, environment, make_home, program, run, until
from tests.fakes.service_process import served as serving
from tests.fakes.warm import COMMANDS, Fork

RESULT_FIELDS = {
    "call_id",
    "run",
    "approval",
    "device",
    "tool_name",
    "status",
    "verdict",
    "basis",
    "stage",
    "note",
    "error",
    "result",
    "namespace",
    "duration_ms",
    "evidence",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path / "home")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = make_home(tmp_path_factory.mktemp("served") / "home")
    assert run(home, "service", "start").code == 0
    yield home
    assert run(home, "service", "stop", "--cancel-work").code == 0


class TestHosting:
    def test_a_read_gives_its_result_and_nothing_but_the_result(self, home):
        done = run(home, "call", "this-computer", "get_system_info", "info_type=memory", "--json")
        assert (done.code, done.err) == (0, "")
        assert set(done.json) == RESULT_FIELDS
        assert done.json["verdict"] == "confirmed"
        assert done.json["result"]["total_bytes"] > 0

    def test_without_anybody_to_approve_it_says_so_at_once_and_sends_nothing(self, home):
        # Waiting would outlast the patience of `run`.
        done = run(home, *CALL, "--wait", "3600")
        assert done.code == 4
        assert "none can be given" in done.err
        assert "service start" in done.err
        assert "command_sent" not in run(home, "audit", "find", "tool:shell_execute").out
        assert list_operator_keys(home) == []

    def test_the_device_in_its_own_process_is_waited_for_and_ended(self, tmp_path):
        home = Home(tmp_path).create()
        done = run(home, "devices", "--json")
        assert done.code == 0
        assert [(one["name"], one["health"]) for one in done.json["devices"]] == [("this-computer", "online")]
        assert run(home, "service", "status", "--json").json["running"] is False
        assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and str(tmp_path) in command_of(pid)]

    def test_a_home_that_somebody_else_holds_is_left_alone(self, home):
        with HomeLock(home):
            done = run(home, "devices", "--json")
            status = run(home, "service", "status")
            stop = run(home, "service", "stop")
        assert (done.code, status.code, stop.code) == (9, 9, 9)
        assert "cannot be reached" in status.out
        assert f"kill {os.getpid()} asks" in stop.err
        assert done.json["error"]["code"] == "home_busy"
        assert str(os.getpid()) in done.json["error"]["message"]
        assert "quarterdeck service start" in done.json["error"]["message"]

    def test_the_first_operator_of_a_new_home_is_the_one_that_was_asked_for_and_no_other(self, home):
        assert run(home, "operators", "add", "anna", "--no-passphrase").code == 0
        listed = run(home, "operators", "list", "--json").json["operators"]
        assert [one["name"] for one in listed] == ["anna"]
        assert [file.name for file in list_operator_keys(home)] == ["anna"]

    def test_a_broken_setting_is_named(self, home):
        (home.path / "settings.toml").write_text('this_computer = "moon"\n')
        done = run(home, "devices")
        assert done.code == 2
        assert "this_computer" in done.err


def begun(home: Home, *words: str) -> Fork:
    """A command that is not waited for."""
    COMMANDS.loaded_in(environment())
    return COMMANDS.start(program(home, *words)[3:], environment(), Path.cwd())


def command_of(pid: str) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


class TestAttached:
    def test_devices_and_tools_are_shown_in_columns_without_colour(self, served):
        done = run(served, "tools", "this-computer")
        assert done.code == 0
        assert done.out.startswith("DEVICE")
        assert "\x1b" not in done.out
        column = done.out.splitlines()[0].index("RISK")
        assert {line[column:].split()[0] for line in done.out.splitlines()[1:]} <= {
            "low",
            "medium",
            "high",
            "critical",
        }

    @pytest.mark.story
    def test_what_asks_waits_in_the_queue_until_it_is_approved_with_a_signature(self, served):
        request, wanted = ask(served)
        listed = run(served, "approvals", "list", "--json").json["approvals"]
        assert request in [one["id"] for one in listed]
        shown = run(served, "approvals", "show", request)
        assert f'"command": "{LINE}"' in shown.out
        approved = run(served, "approvals", "approve", request, "--reason", "fine", "--json")
        assert approved.code == 0, approved
        assert approved.json["state"] == "approved"
        (key,) = list_operator_keys(served)
        assert not key.has_passphrase
        ended = until(lambda: run(served, "runs", "show", wanted, "--json").json, lambda it: it["results"])
        assert set(ended["results"][0]) == RESULT_FIELDS | {"step", "state", "attempts", "recovered", "wave"}
        assert ended["results"][0]["result"]["stdout"] == "hello"
        assert run(served, "approvals", "approve", request).code == 3

    def test_a_denial_sends_nothing_and_the_asker_receives_the_reason(self, served):
        asked = begun(served, *CALL, "--wait", "40", "--json")
        listed = until(lambda: run(served, "approvals", "list", "--json").json["approvals"], bool)
        assert run(served, "approvals", "deny", listed[0]["id"], "--reason", "not today").code == 0
        out, _ = asked.communicate(timeout=PATIENCE_S)
        assert asked.returncode == 3
        assert json.loads(out)["error"]["code"] == "denied_by_operator"
        assert "not today" in json.loads(out)["error"]["message"]
        call_id = json.loads(out)["call_id"]
        sent = run(served, "audit", "find", f"call:{call_id}", "--json").json["entries"]
        assert "command_sent" not in [one["kind"] for one in sent]

    @pytest.mark.parametrize(
        ("words", "code", "error"),
        [
            (["call", "this-computer", "nope"], 2, "unknown_tool"),
            (["call", "nowhere", "read_file"], 2, "unknown_device"),
            (["call", "this-computer", "get_system_info", "info_type"], 2, "invalid_arguments"),
            (["call", "this-computer", "get_system_info", "surplus=1"], 2, "invalid_arguments"),
            (["call", "this-computer", "get_system_info", "info_type:=7"], 2, "invalid_arguments"),
            (["call", "this-computer", "read_file", "file_path=@/no/such/file"], 2, "invalid_arguments"),
            (["call", "this-computer", "read_file", "file_path=/etc/shadow"], 2, "path_not_allowed"),
            (["approvals", "show", "a-nothing"], 2, "not_found"),
            (["runs", "show", "r-9999"], 2, "not_found"),
            (["audit", "show", "999999"], 2, "not_found"),
            (["audit", "show", "one"], 2, "invalid_arguments"),
            (["nonsense"], 2, "invalid_arguments"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
    )
    def test_bad_input_has_a_code_and_a_next_step(self, served, words, code, error):
        done = run(served, *words, "--json")
        assert done.code == code, done
        assert done.json["error"]["code"] == error
        assert done.json["error"]["message"]
        assert done.json["error"]["next"]

    @pytest.mark.parametrize(
        ("words", "code", "journalled"),
        [
            (["this-computer", "nope", "a=1"], "unknown_tool", True),
            (["this-computer", "read_file", "file_path=x", "max_bytes=many"], "invalid_arguments", True),
            (["this-computer", "get_system_info", "info_type=nonsense"], "invalid_arguments", True),
            (["nowhere", "read_file"], "unknown_device", False),
            (["this-computer", "get_system_info", "info_type"], "invalid_arguments", False),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
    )
    def test_what_cannot_be_called_is_a_result_like_any_other(self, served, words, code, journalled):
        done = run(served, "call", *words, "--json")
        assert done.code == 2
        assert set(done.json) == RESULT_FIELDS
        assert (done.json["status"], done.json["verdict"]) == ("failure", "refused")
        assert done.json["error"]["code"] == code
        assert done.json["error"]["retryable"] is False
        assert done.json["stage"] in ("prepare", "validate")
        assert (done.json["call_id"] is not None) is journalled
        if journalled:
            found = run(served, "audit", "find", f"call:{done.json['call_id']}", "--json").json["entries"]
            assert [one["kind"] for one in found] == ["command_refused"]
        if code == "unknown_device":
            # It has no run and no call, and is in the journal like any other request that was refused.
            found = run(served, "audit", "find", "kind:command_refused device:nowhere", "--json")
            assert found.json["entries"][0]["body"]["result"]["error"]["code"] == code

    def test_plain_errors_say_what_happened_then_what_to_do(self, served):
        done = run(served, "call", "this-computer", "nope")
        assert done.out == ""
        assert done.err.splitlines() == [
            "Error: this-computer has no tool 'nope'.",
            "List the device's tools and choose one of them.",
        ]

    def test_a_tool_that_fails_is_six(self, served, tmp_path):
        done = run(served, "call", "this-computer", "read_file", "file_path=no-such-file-here", "--json")
        assert done.code in (2, 6)
        assert set(done.json) == RESULT_FIELDS

    def test_a_large_output_is_saved_as_a_new_file_and_again_from_its_run(self, served, tmp_path):
        large = tmp_path / "large.txt"
        large.write_text("ten bytes\n" * 10_000)
        folder = tmp_path / "saved"
        words = ("call", "this-computer", "read_file", f"file_path={large}", "--save", str(folder))
        done = run(served, *words, "--json")
        assert done.code == 0, done
        [evidence] = done.json["evidence"]
        assert Path(evidence["file"]).parent == folder
        assert sha256(Path(evidence["file"]).read_bytes()).hexdigest() == evidence["blob"]
        latest = run(served, "runs", "list", "--limit", "1", "--json").json["runs"][0]["id"]
        again = run(served, "runs", "show", latest, "--save", str(folder), "--json")
        [copy] = again.json["results"][0]["evidence"]
        assert copy["blob"] == evidence["blob"]
        assert copy["file"] != evidence["file"]
        assert len(list(folder.iterdir())) == 2

    def test_a_folder_that_cannot_be_used_is_said_before_anything_is_sent(self, served, tmp_path):
        (tmp_path / "file").write_text("")
        calls = run(served, "audit", "find", "kind:command_sent", "--json").json["total"]
        words = ("call", "this-computer", "get_system_info", "info_type=memory")
        done = run(served, *words, "--save", str(tmp_path / "file"))
        assert done.code == 2
        assert "--save" in done.err
        assert run(served, "audit", "find", "kind:command_sent", "--json").json["total"] == calls

    def test_starting_twice_is_one_service(self, served):
        again = run(served, "service", "start", "--json")
        assert again.json["started"] is False
        assert again.json["pid"] == run(served, "service", "status", "--json").json["pid"]

    def test_the_journal_is_found_shown_and_verified_while_it_is_open(self, served):
        found = run(served, "audit", "find", "kind:service_started", "--limit", "1", "--json")
        seq = found.json["entries"][0]["seq"]
        shown = run(served, "audit", "show", str(seq), "--json")
        assert (shown.code, shown.json["kind"]) == (0, "service_started")
        assert shown.json["proof"]["holds"] is True
        verified = run(served, "audit", "verify")
        assert verified.code == 0
        assert "entries checked" in verified.out

    def test_interrupting_a_call_cancels_its_run(self, served):
        waiting = begun(served, *CALL, "--wait", "50")
        until(lambda: run(served, "approvals", "list", "--json").json["approvals"], bool)
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=PATIENCE_S)
        assert waiting.returncode == 130
        assert "was cancelled" in err
        assert run(served, "approvals", "list").out == "Nothing waits for approval.\n"


class TestSecretGrants:
    def test_a_grant_of_a_secret_lets_the_same_secret_run_and_is_told_without_it(self, home):
        with (home.path / "settings.toml").open("a") as settings:
            settings.write('secret_names = ["command"]\n')
        create_operator_key(home, "anna", None)
        with serving(home):
            # What is bound to a run is over with it; the other grant lets the same secret run again.
            for number, (wish, code) in enumerate(((["--for-run"], 10), (["--grant", "uses=3"], 0)), 1):
                request, _ = ask(home)
                done = run(home, "approvals", "approve", request, "--operator", "anna", *wish, "--json")
                assert done.code == 0, done
                assert "command is the same secret as now" in done.err
                listed = run(home, "grants", "list", "--all", "--json")
                grants = listed.json["grants"]
                assert len(grants) == number
                for grant in grants:
                    assert grant["terms"]["arguments"]["command"]["equals"].keys() == {"$secret"}
                assert LINE not in done.err + done.out + listed.out
                again = run(home, *CALL, "--json")
                assert again.code == code, again
                other = run(home, *CALL[:-1], CALL[-1] + " ", "--json")
                assert other.code == 10, other


class TestStopping:
    def test_what_the_service_waits_for_is_named_with_how_to_end_it(self, home):
        with serving(home):
            request, waiting = ask(home)
            done = run(home, "service", "stop", "--wait", "1", "--json")
            assert done.code == 6
            assert done.json["error"]["code"] == "timeout"
            assert waiting in done.json["error"]["message"]
            assert request in done.json["error"]["message"]
            assert "--cancel-work" in done.json["error"]["next"]


class TestAuditFiles:
    def test_any_flipped_byte_of_an_entry_is_found_without_opening_the_home(self, home):
        assert run(home, "call", "this-computer", "get_system_info", "info_type=memory").code == 0
        good = run(home, "audit", "verify", "--json")
        assert good.code == 0
        assert good.json["entries"] > 5
        data = bytearray((home.path / "journal.db").read_bytes())
        at = data.index(b"get_system_info")
        data[at] ^= 1
        (home.path / "journal.db").write_bytes(data)
        bad = run(home, "audit", "verify", "--json")
        assert bad.code == 8
        assert bad.json["ok"] is False
        assert bad.json["error"]["code"] == "journal_corrupt"

    def test_a_home_without_a_journal_is_said_so(self, home):
        done = run(home, "audit", "verify")
        assert done.code == 2
        assert "no journal" in done.err

    def test_a_journal_that_is_none_does_not_verify(self, home):
        assert run(home, "devices").code == 0
        (home.path / "journal.db").write_bytes(b"nonsense" * 1000)
        assert run(home, "audit", "verify").code == 8
        assert run(home, "devices").code == 8


class TestPassphraseFile:
    def test_a_key_is_unlocked_from_a_file_and_a_wrong_one_is_said_so(self, served, tmp_path):
        # Every later operator is refused for now, so a key of this home is exchanged for a locked one.
        home = make_home(tmp_path / "own")
        create_operator_key(home, "anna", "correct horse battery")
        with serving(home):
            request, _ = ask(home)
            secret = tmp_path / "secret"
            secret.write_text("wrong horse battery\n")
            words = ["approvals", "approve", request, "--operator", "anna"]
            assert "passphrase" in run(home, *words).err
            wrong = run(home, *words, "--passphrase-file", str(secret))
            assert wrong.code == 2
            assert "passphrase is wrong" in wrong.err
            secret.write_text("correct horse battery\n")
            assert run(home, *words, "--passphrase-file", str(secret)).code == 0
            operators = json.loads(home.operators.read_text())
            assert operators[0]["has_passphrase"] is True


class TestWindow:
    def test_without_a_display_the_window_says_what_to_do(self, home):
        bare = {
            key: value for key, value in environment().items() if "DISPLAY" not in key and "QT_" not in key
        }
        done = subprocess.run(
            program(home), env=bare, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 2
        assert "no display" in done.stderr
        assert "quarterdeck --help" in done.stderr

    def test_without_qt_the_window_says_what_to_install_and_commands_still_work(self, home):
        block = (
            "import sys; sys.modules['PySide6'] = None; "
            "import app.__main__ as m; sys.exit(m.main(sys.argv[1:]))"
        )
        for words, code in ((["--home", str(home.path)], 2), (["version"], 0)):
            done = subprocess.run(
                [sys.executable, "-c", block, *words],
                env=environment(),
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert done.returncode == code, done
        assert done.stdout.startswith("quarterdeck ")


class TestEnds:
    def test_a_reader_that_goes_away_early_is_no_error(self, served):
        listing = subprocess.Popen(
            program(served, "audit", "find", "--limit", "1000", "--json"),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert listing.stdout is not None
        listing.stdout.close()
        _, err = listing.communicate(timeout=PATIENCE_S)
        assert (listing.returncode, err) == (0, "")

    def test_a_terminal_without_the_letters_gets_their_codes(self, served):
        done = subprocess.run(
            program(served, "audit", "find", "zähl"),
            env={**environment(), "PYTHONIOENCODING": "ascii"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert b"Traceback" not in done.stderr

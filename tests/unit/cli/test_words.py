"""What is typed becomes typed arguments; what devices say becomes text that cannot act."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from core.aip.messages import ResultStatus
from core.batch.models import UndoCell, UndoFate, UndoPlan
from core.cli import app, arguments
from core.cli.app import hoist, run
from core.cli.arguments import parse_arguments
from core.cli.asking import card
from core.cli.command_table import COMMANDS, command
from core.cli.output import Block, lines, shown_json, table
from core.cli.policy_text import trial_text
from core.cli.results import result_text
from core.cli.run_text import undo_text
from core.cli.terminal import Terminal, width
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import BadInput
from core.policy.models import Trial
from core.text import escape_hidden, right_to_left_letters
from tests.fakes.approvals_desk import make_approval

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "deep": {"type": "boolean"},
        "many": {"type": "array"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "choice": {"enum": ["1", "two"]},
        "level": {"enum": [1, 2]},
        "linked": {"$ref": "#/$defs/size"},
        "loop": {"$ref": "#/$defs/loop"},
        "far": {"$ref": "https://example.org/schema"},
    },
    "$defs": {"size": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}},
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=7", "7"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text=true", "true"),
        ("count=7", 7),
        ("count=-7", -7),
        ("count=7.0", 7),
        ("share=7", 7),
        ("share=0.5", 0.5),
        ("deep=false", False),
        ("many=[1]", [1]),
        ("maybe=null", None),
        ("maybe=3", 3),
        ("either=3", 3),
        ("either=three", "three"),
        ("choice=1", "1"),
        ("level=1", 1),
        ("linked=3", 3),
        ("loop=3", "3"),
        ("far=3", "3"),
        ("surplus=3", "3"),
        ("text:=7", 7),
        ('many:=["a", {"b": null}]', ["a", {"b": None}]),
        ('text:="@x"', "@x"),
    ],
)
def test_a_word_is_read_as_its_schema_says(word, value):
    (found,) = parse_arguments([word], SCHEMA).values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["text"], "is not an argument"),
        (["=7"], "is not an argument"),
        ([":=7"], "is not an argument"),
        (["count=seven"], "count must be integer"),
        (["count=7.5"], "count must be integer"),
        (["count=true"], "count must be integer"),
        (["count=NaN"], "count must be integer"),
        (["share=Infinity"], "share must be number"),
        (["deep=1"], "deep must be boolean"),
        (["many=a"], "write many:=JSON"),
        (["text:=nonsense"], "not JSON"),
        (["share:=NaN"], "not JSON"),
        (["share=-1e999"], "share must be number"),
        (["share:=1e999"], "larger than a number can be"),
        (['many:=[{"a": 1, "a": 2}]'], "a key is given twice"),
        (["many:=" + "[" * 100_000], "not JSON"),
        (["text=@/no/such/file"], "cannot be read"),
        (["text=@bad\0name"], "cannot be read"),
        (["many:=@/no/such/file"], "cannot be read"),
        (["many:=@"], "cannot be read"),
        (["text=a", "text=b"], "given twice"),
        (["text=a", "text:=1"], "given twice"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_word_that_cannot_be_meant_is_named(words, said):
    with pytest.raises(BadInput, match=said):
        parse_arguments(words, SCHEMA)


def test_a_file_gives_its_text_as_it_is(tmp_path):
    path = tmp_path / "line"
    path.write_bytes("zwei\r\nZeilen ä\n".encode())
    assert parse_arguments([f"count=@{path}"], SCHEMA)["count"].endswith("Zeilen ä\n")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="UTF-8"):
        parse_arguments([f"text=@{path}"], SCHEMA)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_gives_its_json_with_the_types_that_stand_in_it(tmp_path, mark):
    path = tmp_path / "many.json"
    path.write_text(mark + '["7", 7, {"a": null}]\n', encoding="utf-8")
    assert parse_arguments([f"text:=@{path}"], SCHEMA) == {"text": ["7", 7, {"a": None}]}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[1,", "many.json is not JSON"),
        (b"", "many.json is not JSON"),
        (b"[NaN]", "NaN is not a JSON number"),
        (b"1e999", "larger than a number can be"),
        (b'{"a": 1, "a": 2}', "a key is given twice"),
        (b"[" * 100_000, "many.json is not JSON"),
        (b'"\xff"', "not UTF-8"),
        (b"[1]" + b" " * 1000, "more than 1,000 bytes"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_file_that_holds_no_json_or_too_much_is_named(tmp_path, monkeypatch, data, said):
    if said.startswith("more"):
        monkeypatch.setattr(arguments, "LARGEST_FILE", 1000)
    path = tmp_path / "many.json"
    path.write_bytes(data)
    for lenient in (False, True):
        with pytest.raises(BadInput, match=said):
            parse_arguments([f"many:=@{path}"], SCHEMA, lenient)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="only Unix has it")
def test_a_file_without_an_end_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(arguments, "LARGEST_FILE", 1000)
    with pytest.raises(BadInput, match="more than 1,000 bytes"):
        parse_arguments(["text=@/dev/zero"], SCHEMA)


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_shown_json_is_the_same_value_and_hides_nothing(value):
    shown = shown_json(value)
    assert json.loads(shown) == value
    assert all(escape_hidden(line, keep_lines=False) == line for line in shown.split("\n"))
    assert not right_to_left_letters(shown)


RIGHT_TO_LEFT = (
    "rsync --delete \u05de\u05e7\u05d5\u05e8 \u05d9\u05e2\u05d3; rm -rf \u05d0 /1/2/3 \u0628 \u0663 9"
)


def plain(*blocks: Block) -> str:
    """The text of these blocks, as a pipe is given it."""
    return Terminal().shown("\n".join(map(str, blocks)))


def test_a_terminal_is_given_nothing_that_it_would_reorder():
    approval = make_approval(
        1, parameters={"command": RIGHT_TO_LEFT}, summary=f"Runs \u201c{RIGHT_TO_LEFT}\u201d, 2 times"
    )
    for shown in (*card(approval), table(("A",), [(RIGHT_TO_LEFT,)]), lines(RIGHT_TO_LEFT)):
        assert not right_to_left_letters(str(shown))
    assert "rm -rf [U+05D0] /1/2/3 [U+0628] [U+0663] 9" in lines(RIGHT_TO_LEFT)
    assert json.loads(shown_json({"command": RIGHT_TO_LEFT})) == {"command": RIGHT_TO_LEFT}


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1))
def test_a_table_has_a_line_for_each_row_whatever_stands_in_it(rows):
    shown = plain(table(("A", "B"), rows))
    assert len(shown.split("\n")) == len(rows) + 1
    assert escape_hidden(shown) == shown


def test_wide_letters_keep_columns_aligned():
    lines = plain(table(("NAME", "X"), [("端末", "1"), ("abcd", "2")])).split("\n")
    assert {width(line) for line in lines} == {7}


def test_what_a_device_answers_cannot_move_the_cursor():
    attack = "\x1b[31m\x1b]0;title\x07\x1b[2J\r\u202e\x9b1mrm\x08"
    result = CommandResult(
        call_id="c",
        device=attack,
        tool_name=attack,
        status=ResultStatus.SUCCESS,
        verdict=Verdict.CONFIRMED,
        basis=Basis.READ_RESPONSE,
        result=attack,
    )
    for answer in (result, result.model_copy(update={"result": {attack: attack}})):
        shown = plain(*result_text(answer))
        assert "[31m" in shown, "what is not ours is not taken for a style"
        assert not set(shown) & set("\x1b\x07\r\u202e\x9b\x08")


@pytest.mark.parametrize(
    ("argv", "hoisted"),
    [
        (["call", "d", "t", "--json", "--home", "H"], ["--json", "--home", "H", "call", "d", "t"]),
        (["--home=H", "devices"], ["--home", "H", "devices"]),
        (["call", "d", "t", "--", "--json"], ["call", "d", "t", "--", "--json"]),
        (["call", "d", "t", "x=--json"], ["call", "d", "t", "x=--json"]),
    ],
)
def test_home_and_json_may_stand_anywhere(argv, hoisted):
    assert hoist(argv) == hoisted


@pytest.mark.parametrize("words", [["--home"], ["--home", ""], ["--home="], ["--home", "--json"]])
def test_a_home_without_a_name_is_never_another_home(words, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("QUARTERDECK_HOME", str(tmp_path / "other"))
    assert run(["service", "status", *words]) == 2
    assert "--home wants a folder" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["devices", "show", "lab\udcff"], "is not text in UTF-8"),
        (["call", "d", "t", "--timeout", "0"], "--timeout"),
        (["call", "d", "t", "--timeout", "nan"], "--timeout"),
        (["audit", "show", str(1 << 63)], "NUMBER"),
        (["audit", "find", "--before", str(1 << 63)], "--before"),
    ],
)
def test_what_no_command_can_do_anything_with_is_bad_input(words, says, tmp_path, capsys):
    assert run(["--home", str(tmp_path / "none"), *words]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_home_that_cannot_be_found_is_bad_input(monkeypatch, capsys):
    assert run(["--home", "~no-such-user/home", "service", "status"]) == 2
    assert "Name it with --home." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"), [(["--version"], "quarterdeck 0."), (["--version", "--json"], '"version"')]
)
def test_the_version_is_told_as_programs_usually_do(words, says, capsys):
    assert run(words) == 0
    assert says in capsys.readouterr().out


def test_a_word_is_read_as_utf_8_whatever_the_locale_makes_of_it(tmp_path, capsys):
    run(["--home", str(tmp_path), "Ger\udcc3\udca4t"])
    assert "No such command 'Ger\u00e4t'" in capsys.readouterr().err


def test_a_group_without_a_command_shows_its_commands_and_no_error(capsys):
    assert run(["approvals"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Usage: quarterdeck approvals")
    assert run(["approvals", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["message"] == "Missing command."


@pytest.mark.parametrize(
    ("glimpses", "refused", "says"),
    [
        (0, 0, ""),
        (1240, 0, "1,240 live pictures not counted."),
        (1240, 310, "1,240 live pictures not counted; 310 of them would be refused."),
    ],
)
def test_a_trial_says_which_pictures_it_did_not_count(glimpses: int, refused: int, says: str):
    none = dict.fromkeys(
        ("looked_at", "commands", "allowed", "asked", "denied", "changed", "allowed_but_denied_by_human"), 0
    )
    trial = Trial(**none, glimpses=glimpses, glimpses_refused=refused)
    assert plain(*list(trial_text(trial))[1:]) == says


def every_command(one: Any) -> Iterator[Any]:
    yield one
    for below in getattr(one, "commands", {}).values():
        yield from every_command(below)


def test_every_line_that_the_readme_or_a_help_shows_is_understood():
    whole: Any = get_command(app.app)
    whole.commands = {word: command(word) for word in COMMANDS}
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    shown = re.findall(r"^    quarterdeck( .+?)(?:  |$)", readme, re.MULTILINE)
    for one in every_command(whole):
        shown += re.findall(r"^  quarterdeck( .+)$", one.epilog or "", re.MULTILINE)
    lines = [line.strip() for line in shown if line.strip()]
    assert len(lines) > 25
    for line in lines:
        first, *others = re.split(" [<>] ", line)[0].split(" | ")
        for words in ([*shlex.split(first)], *([*shlex.split(first)[:-1], one] for one in others)):
            # The program takes these from wherever they stand, before the command reads its words.
            words = [word for word in words if word != "--json"]
            if "--home" in words:
                at = words.index("--home")
                del words[at : at + 2]
            called = whole
            while hasattr(called, "commands") and words:
                default = getattr(called, "default_command", None)
                word = words.pop(0) if default is None or words[0] in called.commands else default
                called = called.commands[word]
            if not others:
                # Raises what would be bad input.
                called.make_context("quarterdeck", words)


@pytest.mark.parametrize("fate", [one for one in UndoFate if one is not UndoFate.NOTHING])
def test_each_fate_of_an_undo_has_words(fate: UndoFate):
    cell = UndoCell(device="lab-1", step="write", tool="write_file", fate=fate, why="")
    rows = undo_text(UndoPlan(run="r-1", summary="1 file", digest="", cells=[cell]))[0]
    assert plain(rows).splitlines()[1].split()[3:]

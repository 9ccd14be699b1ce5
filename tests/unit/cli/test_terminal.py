"""What a terminal is given: folded to its width, coloured where it may be, in letters that it has."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.approvals.models import Approval
from core.batch.models import CellState, RunState
from core.cli.answer import Answer, print_answer
from core.cli.approvals import granted_terms
from core.cli.asking import card
from core.cli.output import Facts, facts, shown_json, size_words, span, state_cell, table
from core.cli.terminal import (
    STATE_STYLES,
    Terminal,
    fold,
    fold_prose,
    styled,
    terminal_of,
    width,
    write_codes,
)
from core.commands.results import Verdict
from core.models.devices import Health
from tests.fakes.approvals_desk import make_approval

ROOT = Path(__file__).resolve().parents[3]
ESCAPE = "\x1b"
WORDS = st.text(st.characters(categories=["Lu", "Ll", "Nd", "Zs", "Mn"]), max_size=80)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("plain", 5),
        ("e\u0301", 1),
        ("\u0e44\u0e17\u0e22\u0e17\u0e35\u0e48", 4),
        ("\U0001f469\u200d\U0001f680", 2),
        ("\U0001f44d\U0001f3fd", 2),
        ("\u2708\ufe0f", 2),
        ("\u2708", 1),
        ("\u7aef\u672b", 4),
        ("\u1112\u1161\u11ab", 2),
        ("\uff76\uff9e", 2),
    ],
)
def test_cells_are_counted_as_a_terminal_draws_them(text: str, cells: int) -> None:
    assert width(text) == cells


@given(WORDS, st.integers(4, 40))
def test_folding_loses_no_letter_and_keeps_to_the_width(text: str, columns: int) -> None:
    folded = fold(text, columns)
    assert all(width(line) <= columns for line in folded)
    assert "".join(folded).replace(" ", "") == text.replace(" ", "")


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5), st.integers(30, 120))
def test_a_table_is_as_wide_as_the_terminal_and_whole_in_a_pipe(
    rows: list[tuple[str, str, str]], columns: int
) -> None:
    shown = table(("NAME", "WHY", "WHAT IT DOES"), rows)
    folded = Terminal().shown(shown.folded(Terminal(columns)))
    assert all(width(line) <= columns for line in folded.splitlines())
    assert len(Terminal().shown(str(shown)).split("\n")) == len(rows) + 1


def test_a_long_cell_goes_on_in_its_column_and_the_first_column_stays_whole() -> None:
    rows = [("a-0123456789", "reads a file that is in the home"), ("a-9876543210", "short")]
    shown = Terminal().shown(table(("ID", "EFFECT"), rows).folded(Terminal(30)))
    assert shown.splitlines() == [
        "ID            EFFECT",
        "a-0123456789  reads a file",
        "              that is in the",
        "              home",
        "a-9876543210  short",
    ]


def test_a_name_is_broken_at_its_joints_and_no_column_is_narrower_than_its_words() -> None:
    rows = [("38", "2026-01-01 19:14:55", "command_refused", "cli:anna", "this-computer")]
    shown = Terminal().shown(table(("SEQ", "TIME", "KIND", "ACTOR", "DEVICE"), rows).folded(Terminal(49)))
    assert shown.splitlines() == [
        "SEQ  TIME        KIND        ACTOR     DEVICE",
        "38   2026-01-01  command_    cli:anna  this-",
        "     19:14:55    refused               computer",
    ]
    assert fold("a-01M8HS9XZY5SW7W0020V5MRPX0", 20) == ["a-01M8HS9XZY5SW7W002", "0V5MRPX0"]


def test_a_column_without_a_value_is_left_out_on_a_terminal_and_stays_in_a_pipe() -> None:
    told = table(("NAME", "WHY", "TAGS"), [("a", "", "x"), ("b", "", "")])
    assert Terminal().shown(told.folded(Terminal(80))).splitlines() == ["NAME  TAGS", "a     x", "b"]
    assert Terminal().shown(str(told)).splitlines()[0] == "NAME  WHY  TAGS"


@given(st.text(st.sampled_from("ab/ "), max_size=60), st.integers(8, 30))
def test_sentences_are_broken_at_spaces_only(text: str, columns: int) -> None:
    folded = fold_prose(text, columns)
    assert folded.split() == text.split()
    assert all(width(line) <= columns or " " not in line.strip() for line in folded.split("\n"))
    assert fold_prose(text, None) == text


def test_a_sentence_goes_on_below_its_beginning_with_its_first_word_coloured() -> None:
    text = f"{styled('Error', 'red')}: one two three\n  an indented line"
    assert fold_prose(text, 12) == f"{styled('Error', 'red')}: one\ntwo three\n  an\n  indented\n  line"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0004, "0 ms"),
        (0.9996, "1 s"),
        (4.25, "4.2 s"),
        (59.96, "1 min"),
        (599, "9 min 59 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_a_length_of_time_has_the_unit_that_suits_it(seconds: float, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (2e9, "2.0 GB"),
    ],
)
def test_a_number_of_bytes_has_the_unit_that_suits_it(count: int, words: str) -> None:
    assert size_words(int(count)) == words


def test_a_card_is_as_wide_as_the_terminal_and_shows_its_state_in_colour() -> None:
    blocks = card(make_approval(1, summary="Deletes build and everything in it. " * 3))
    texts = [block if isinstance(block, str) else block.folded(Terminal(40)) for block in blocks]
    assert all(width(line) <= 40 for line in Terminal().shown(texts[0]).splitlines())
    assert styled("waiting", "yellow") in texts[0]


def test_a_row_that_no_column_can_hold_becomes_facts() -> None:
    names = [f"COLUMN {number}" for number in range(8)]
    shown = Terminal().shown(table(names, [["a long value"] * 8]).folded(Terminal(40)))
    assert shown.splitlines() == [f"Column {number}  a long value" for number in range(8)]
    headings = Terminal().shown(table(names, []).folded(Terminal(40))).splitlines()
    assert headings == ["COLUMN 0  COLUMN 1  COLUMN 2  COLUMN 3", "COLUMN 4  COLUMN 5  COLUMN 6  COLUMN 7"]


def test_a_long_fact_goes_on_below_its_beginning() -> None:
    told = facts([("Why", "the device does not answer since noon"), ("Empty", "")])
    assert isinstance(told, Facts)
    assert Terminal().shown(told.folded(Terminal(25))).splitlines() == [
        "Why  the device does not",
        "     answer since noon",
    ]


@pytest.fixture
def screen() -> Iterator[TextIO]:
    """A terminal of 44 columns."""
    master, slave = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 44, 0, 0))
    with os.fdopen(slave, "w", encoding="utf-8") as stream:
        yield stream
    os.close(master)


@pytest.mark.parametrize(
    ("term", "no_colour", "coloured"),
    [
        ("xterm-256color", "", True),
        ("xterm", "", True),
        ("screen", "", True),
        ("linux", "", True),
        ("xterm-256color", "1", False),
        ("", "", False),
        (None, "", False),
        ("dumb", "", False),
        ("vt100", "", False),
        ("vt220", "", False),
        ("xterm-mono", "", False),
        ("linux-m", "", False),
    ],
)
def test_a_terminal_has_colours_where_both_variables_say_so(
    screen: TextIO, monkeypatch: pytest.MonkeyPatch, term: str | None, no_colour: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_colour)
    if term is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", term)
    terminal = terminal_of(screen)
    assert (terminal.columns, terminal.colours) == (44, coloured)
    shown = terminal.shown(table(("STATE",), [(state_cell(Health.ONLINE),)]).folded(terminal))
    assert (ESCAPE in shown) is coloured


def test_a_pipe_has_neither_width_nor_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert terminal_of(io.StringIO()) == Terminal(None, False, "utf-8")


@pytest.mark.parametrize("states", [Health, RunState, CellState, Verdict])
def test_every_state_has_its_style(states: Any) -> None:
    assert {state.value for state in states} <= STATE_STYLES.keys()


async def test_an_answer_is_json_or_text_and_reads_only_what_is_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def not_wanted() -> Any:
        raise AssertionError("this was not asked for")

    approval = make_approval(1)
    await print_answer(Answer({"found": approval}, not_wanted), True)
    assert Approval.model_validate(json.loads(capsys.readouterr().out)["found"]) == approval
    await print_answer(Answer(not_wanted, ["one", "two"]), False)
    assert capsys.readouterr().out == "one\ntwo\n"


def test_an_output_without_a_letter_gets_its_code_and_json_its_escape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    latin = io.TextIOWrapper(written, encoding="latin-1", write_through=True)
    monkeypatch.setattr(sys, "stdout", latin)
    monkeypatch.setattr(sys, "stderr", latin)
    write_codes()
    assert json.loads(shown_json({"who": "ü 漢"})) == {"who": "ü 漢"}
    assert shown_json("ü 漢") == '"ü \\u6f22"'
    print("ü 漢")
    assert written.getvalue().decode("latin-1") == "ü [U+6F22]\n"
    terminal = terminal_of(latin)
    rows = terminal.shown(table(("A", "B"), [("漢", "x"), ("abc", "x")]).folded(terminal)).splitlines()
    assert {row.index("x") for row in rows[1:]} == {len("[U+6F22]  ")}


def test_a_home_that_the_locale_reads_as_other_letters_is_opened(tmp_path: Path) -> None:
    folder = tmp_path / "Grüße 漢"
    folder.mkdir()
    code = (
        "import sys, pathlib; from core.audit.store import connect;"
        "connect(pathlib.Path(sys.argv[1]) / 'journal.db', 'rwc').execute('CREATE TABLE t (a)')"
    )
    plain = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, env=plain, check=True)
    assert (folder / "journal.db").stat().st_size > 0


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "UTC", "America/New_York"])
def test_a_time_without_an_offset_is_utc_wherever_it_is_typed(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for typed, ends in (
            ("2099-12-24T18:00", "2099-12-24T18:00:00+00:00"),
            ("2099-12-24T18:00+01:00", "2099-12-24T17:00:00+00:00"),
        ):
            request: Any = make_approval(1)
            terms = granted_terms(request, "anna", [f"until={typed}"], for_run=False)
            assert terms is not None
            assert terms.expires == ends
    finally:
        monkeypatch.undo()
        time.tzset()

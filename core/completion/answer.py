"""Answers a shell that asks which words may stand at the cursor.

Nothing is printed but the words: at a TAB there is no place for an error, and whatever fails offers nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from core.completion import bash_words
from core.completion.offers import Offers
from core.completion.position import Table, position_in
from core.completion.scripts import VARIABLE, Shell
from core.completion.words import Offer

_TABLE = Path(__file__).resolve().parents[2] / "resources" / "commands.json"
_LONGEST_LINE = 1 << 20


def main() -> int:
    """Read what is typed from standard input and print the words; returns the exit code, which is 0."""
    # Outermost handler: a traceback would be printed into the line that is being typed.
    try:
        shell = Shell(os.environ[VARIABLE])
        typed = sys.stdin.buffer.read(_LONGEST_LINE).decode("utf-8").split("\0")
        lines = answer(shell, typed[:-1])
        sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        sys.stdout.buffer.flush()
    except (Exception, KeyboardInterrupt):  # noqa: BLE001
        # Also the interpreter's last flush must not fail where the shell has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def answer(shell: Shell, typed: Sequence[str]) -> list[str]:
    """The lines that the shell's script reads."""
    table: Table = json.loads(_TABLE.read_text("utf-8"))
    if shell is Shell.BASH:
        line = bash_words.read_line(*typed)
        return bash_words.reply(line, offers_at(line.words[1:], table))
    return [_line(shell, offer) for offer in offers_at(typed, table)]


def offers_at(words: Sequence[str], table: Table) -> list[Offer]:
    """The words that may stand at the end of a command line; `words` are those behind the program's name."""
    with Offers(position_in(words, table["commands"]), table) as offers:
        return offers.found()


def _line(shell: Shell, offer: Offer) -> str:
    if shell is Shell.FISH:
        # fish itself adds no blank behind `=`, `:`, `@` and `/`.
        return f"{offer.text}\t{offer.help}"
    return f"{'open' if offer.is_open else 'closed'}\t{offer.text}\t{offer.help}"

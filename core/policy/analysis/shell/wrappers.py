"""Programs that run another program (wrappers): finds the inner call or shell line among their words.

The record of a program, or of its subcommand, says where the command is. If the record does not have all
options of its program, an unknown option is followed under both readings: with and without a value.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from core.policy.analysis.shell.options import options_at, read_options
from core.policy.analysis.shell.parser import Assignment, Call, Word, join_words
from core.programs.record import Kind, Takes, Wraps

MOST_INSIDE = 12
"""The number of wrappers around one command that are followed."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][\w%()]*\+?=")
_VERB_WITHIN = 12
_POSSIBLE_COMMAND_WITHIN = 12


class WrappedCommands(NamedTuple):
    """The commands that a wrapper runs: calls, words that a shell reads as lines, and variables set for them.

    `possible` are calls (with their shell lines) that it runs if an option unknown to the table has a value.
    """

    calls: list[Call]
    lines: list[Word]
    assignments: list[Assignment]
    possible: list[tuple[Call, Word | None]]


class _Entry(NamedTuple):
    """How a call gets the command that it runs: by the options before it, in the words after the verb."""

    takes: Takes
    wraps: Wraps
    args: tuple[Word, ...]


def wrapped_commands(call: Call) -> WrappedCommands:
    """The commands in the words of a call; empty if it is no wrapper."""
    wrapped = WrappedCommands([], [], [], [])
    record = call.program
    if Kind.SEARCHES in record.kinds and record.wraps is not None:
        _collect_search_commands(call, record.wraps.after, wrapped)
    elif (entry := _entry(call)) is not None:
        options = read_options(entry.args, entry.takes, stop=not entry.wraps.anywhere)
        if any(option.name in entry.wraps.looks for option in options.options):
            return wrapped
        _collect_commands(entry, call, wrapped)
        if entry.wraps.anywhere:
            wrapped.lines.extend(options.values(*entry.wraps.lines))
    return wrapped


def innermost(call: Call) -> Call:
    """The call inside all wrappers around it; a call without words if it is unknown."""
    for _ in range(MOST_INSIDE):
        if _entry(call) is None:
            break
        inner = wrapped_commands(call).calls
        if not inner:
            # Without a command these start a shell, as root or on another computer, which runs its input.
            starts_shell = call.program.is_a(Kind.ROOT, Kind.REMOTE_SHELL)
            return call if starts_shell else call.inside(())
        call = inner[0]
    return call


def _entry(call: Call) -> _Entry | None:
    """How a call runs a command, None if it does not, or if it is a search, which runs one for each file."""
    record = call.program
    if record.subcommands:
        for place, word in enumerate(call.args[:_VERB_WITHIN]):
            verb = record.subcommand(word.text)
            if verb is not None and verb.wraps is not None:
                return _Entry(verb.options, verb.wraps, call.args[place + 1 :])
    if record.wraps is None or Kind.SEARCHES in record.kinds:
        return None
    return _Entry(record.options, record.wraps, call.args)


def _collect_commands(entry: _Entry, call: Call, wrapped: WrappedCommands) -> None:
    """Find the start of the command after options, their values, operands and assignments."""
    takes, wrapper, args = entry
    texts = [word.written for word in args]
    places = [place for place, text in enumerate(texts) if text in wrapper.after]
    if wrapper.only and not places:
        return
    at = places[0] + 1 if places else 0
    skip = 0 if places else wrapper.skip
    options_ended, uncertain = bool(places), False
    while at < len(args):
        text = texts[at]
        if options_ended or len(text) < 2 or text[0] != "-":
            if wrapper.sets and (text == "-" or _ASSIGNMENT.match(text)):
                name, sign, _ = text.partition("=")
                if sign:
                    wrapped.assignments.append(Assignment(name, args[at].cut(len(name) + 1)))
            elif skip:
                skip -= 1
            else:
                break
            at += 1
        elif text == "--":
            options_ended, at = True, at + 1
        else:
            options, count = options_at(args, at, takes)
            at += count
            uncertain = uncertain or (wrapper.open and count == 1 and "=" not in text)
            for option in options:
                if option.name in wrapper.program and option.value is not None:
                    wrapped.calls.append(_program_call(option.value, args, call))
                elif option.name in wrapper.lines and option.value is not None and not wrapper.anywhere:
                    tail = args[at:] if wrapper.splits else ()
                    wrapped.lines.append(join_words((option.value, *tail)))
                    if wrapper.splits:
                        return
    _collect_command_words(wrapper, args[at:], call, wrapped)
    if uncertain:
        for place in range(at + 1, min(at + _POSSIBLE_COMMAND_WITHIN, len(args))):
            if not texts[place].startswith("-"):
                line = join_words(args[place:]) if wrapper.shell else None
                wrapped.possible.append((call.inside(args[place:]), line))


def _collect_command_words(
    wrapper: Wraps, words: tuple[Word, ...], call: Call, wrapped: WrappedCommands
) -> None:
    if not words:
        return
    if wrapper.each:
        wrapped.lines.extend(words)
    elif wrapper.shell:
        ends = next((place for place, word in enumerate(words) if word.text.startswith(":::")), len(words))
        if ends:
            wrapped.lines.append(join_words(words[:ends]))
    else:
        wrapped.calls.append(call.inside(words))
        if " " in words[0].text:
            # No program has such a name: the word is a shell line, and some programs run it as one.
            wrapped.lines.append(words[0])


def _program_call(value: Word, args: tuple[Word, ...], call: Call) -> Call:
    texts = [word.text for word in args]
    arguments = args[texts.index("--") + 1 :] if "--" in texts else ()
    return call.inside((value, *arguments))


def _collect_search_commands(call: Call, starting: frozenset[str], wrapped: WrappedCommands) -> None:
    """Collect the commands of a search: each up to `;`, to `+` after `{}`, or to the end."""
    words: list[Word] | None = None
    for before, word in zip(call.words, call.args, strict=False):
        if words is None:
            words = [] if word.text in starting else None
        elif word.text == ";" or (word.text == "+" and before.written == "{}"):
            wrapped.calls.append(call.inside(tuple(words)))
            words = None
        else:
            words.append(word)
    if words:
        wrapped.calls.append(call.inside(tuple(words)))

"""The command line as a whole: the options of all commands, and how a command ends."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated, Any

import typer

from core.cli.answer import print_answer
from core.cli.base import EVERYWHERE, CommonOptions, HomeOption, JsonOption, run_work
from core.cli.command_of_words import CommandOfWords
from core.cli.command_table import LazyGroup
from core.cli.output import AnswerLost, leave, note, print_error
from core.cli.prompt import open_missing_streams
from core.cli.terminal import styled, write_codes
from core.environment import TOKEN_VARIABLE, settle
from core.errors import BadInput, ErrorCode, ErrorInfo, QuarterdeckError
from core.home import Home
from core.log import silence
from core.service import exit_codes
from core.similar import most_like
from core.text import sentences, some_names

# typer does not export the library below it; this class is the base of all its usage errors.
UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]

_EXIT_CODES = (
    "Exit codes: 0 done, 2 bad input, 3 denied, 4 not approved in time, 5 device offline, 6 tool failed, "
    "7 outcome unknown, 8 the journal does not verify, 9 the home is owned by a service that cannot be "
    "reached or does not answer, 10 not approved yet (the request waits in the queue), 11 a plan shows an "
    "invalid step, 12 it does not fit the state of the run, 130 interrupted."
)
_EVERY_COMMAND_S = ("--home", "--json", "--help")
_CONTEXT = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    cls=LazyGroup,
    name="quarterdeck",
    help="Operator console for device agents. Without a command it opens the window.",
    epilog=f"{EVERYWHERE}\n\n{_EXIT_CODES}",
    context_settings=_CONTEXT,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version_asked(context: typer.Context, asked: bool) -> None:
    if asked:
        from core.cli.version import versions

        run_work(print_answer(versions(), bool(context.params.get("json"))))
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "--version", is_eager=True, callback=_version_asked, help="Say which version this is, and end."
    ),
]


@app.callback()
def _everywhere(
    context: typer.Context,
    home: HomeOption = None,
    json: JsonOption = False,
    version: VersionOption = False,
) -> None:
    try:
        chosen = Home.choose(home)
        str(chosen.path).encode()
    except UnicodeEncodeError as error:
        # The path is written to settings, answers and the journal, which are JSON.
        raise BadInput(_unreadable_home(str(error.object))) from None
    context.obj = CommonOptions(chosen, json, settle().get(TOKEN_VARIABLE, ""))


def _unreadable_home(name: str) -> str:
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return f"The home {name!r} has a name that is not text in UTF-8."
    return (
        f"This locale ({encoding}) cannot name the home {name!r}; use one with UTF-8, such as LC_ALL=C.UTF-8."
    )


def hoist(argv: list[str]) -> list[str]:
    """Move --home and --json to the front, so that they may be anywhere before a `--`.

    Raises:
        BadInput: --home names no folder; guessing would use another home than the operator meant.
    """
    front: list[str] = []
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == "--json":
            front.append(word)
        elif word == "--home":
            front += [word, _folder(next(words, ""))]
        elif word.startswith("--home="):
            front += ["--home", _folder(word.removeprefix("--home="))]
        else:
            rest.append(word)
    return front + rest


def _folder(value: str) -> str:
    if not value or value.startswith("-"):
        raise BadInput(f"--home wants a folder{f', not {value!r}' if value else ''}.")
    return value


def _text(word: str) -> str:
    """A word of the command line as it was typed, however the locale decoded its bytes.

    Raises:
        BadInput: it is not UTF-8.
    """
    try:
        word.encode()
    except UnicodeEncodeError:
        try:
            return os.fsencode(word).decode("utf-8")
        except UnicodeError:
            raise BadInput(f"{word!r} is not text in UTF-8.") from None
    return word


def run(argv: list[str]) -> int:
    """Run one command and return its exit code. Errors are printed: what happened, then what to do."""
    open_missing_streams()
    write_codes()
    json_wanted = "--json" in argv[: argv.index("--") if "--" in argv else None]
    try:
        return _run(argv, json_wanted)
    except AnswerLost as lost:
        note(f"{styled('Error', 'red')}: {lost}")
        return exit_codes.FAULT


def _run(argv: list[str], json_wanted: bool) -> int:
    try:
        with silence():
            words = hoist([_text(word) for word in argv])
            code = app(words, prog_name="quarterdeck", standalone_mode=False)
        return code if isinstance(code, int) else exit_codes.DONE
    except typer.Exit as end:
        return end.exit_code
    except SystemExit:
        # Raised below typer where the reader of a help text has closed the pipe.
        leave(sys.stdout)
        return exit_codes.DONE
    except (KeyboardInterrupt, asyncio.CancelledError, typer.Abort):
        note("Interrupted.")
        return exit_codes.INTERRUPTED
    except UsageProblem as problem:
        _print_usage(problem, json_wanted)
        return exit_codes.BAD_INPUT
    except QuarterdeckError as error:
        print_error(error.info, json_wanted)
        return exit_codes.exit_code_of(error.code)


def _print_usage(problem: Exception, json_wanted: bool) -> None:
    """Print a usage error; for a group without a command, the list of its commands."""
    context = getattr(problem, "ctx", None)
    format_message = getattr(problem, "format_message", None)
    message = format_message() if format_message else str(problem)
    if (option := getattr(problem, "option_name", "")) and hasattr(problem, "possibilities") and context:
        message = _no_such_option(option, context.command)
    if type(problem).__name__ == "NoArgsIsHelpError":
        if not json_wanted:
            note(message)
            return
        message = "Missing command."
    hint = f"Try: {context.command_path} --help" if context else "Try: quarterdeck --help"
    print_error(ErrorInfo(code=ErrorCode.INVALID_ARGUMENTS, message=message, next=hint), json_wanted)


def _no_such_option(option: str, command: Any) -> str:
    """The message for an option that a command does not have: what was probably meant, and what it has."""
    own = {name for one in command.params for name in (*one.opts, *one.secondary_opts) if name[:1] == "-"}
    # Compared without dashes, which make all options alike.
    names = {known.lstrip("-"): known for known in sorted({*own, *_EVERY_COMMAND_S})}
    near = [names[name] for name in most_like(option.lstrip("-"), names)]
    meant = f"Did you mean {' or '.join(near)}?" if near else ""
    known = f"Options: {some_names(names.values())}."
    after = "Words that begin with two dashes stand after --." * isinstance(command, CommandOfWords)
    is_input = f"An input of the batch is written --input {option.lstrip('-')}=VALUE." * ("--input" in own)
    return sentences(f"No such option: {option}", meant, is_input, after, known)

"""Definitions of the commands and their options; the modules beside this one do the work."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from core import __version__
from core.cli import agents as agents_commands
from core.cli import approvals, devices, runs, service, show
from core.cli import audit as audit_commands
from core.cli import call as call_command
from core.cli import contracts as contracts_commands
from core.cli import policy as policy_commands
from core.cli import search as search_commands
from core.cli.base import EVERYWHERE, CommonOptions, HomeOption, JsonOption, examples, in_session
from core.cli.completion import completion, prepare_completion
from core.cli.output import AnswerLost, as_json, leave, note, print_error, say, styled
from core.cli.prompt import open_missing_streams
from core.cli.runs import SaveOption, WaitOption
from core.cli.saving import Saving
from core.cli.session import Session
from core.cli.signing import KeySource, signs
from core.environment import TOKEN_VARIABLE, settle
from core.errors import BadInput, ErrorCode, ErrorInfo, QuarterdeckError
from core.home import Home
from core.service import exit_codes
from core.service.console import API_VERSION
from core.service.log_setup import logging_nowhere

# typer does not export the library below it; this class is the base of all its usage errors.
UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]

_EXIT_CODES = (
    "Exit codes: 0 done, 2 bad input, 3 denied, 4 not approved in time, 5 device offline, 6 tool failed, "
    "7 outcome unknown, 8 the journal does not verify, 9 the home is owned by a service that cannot be "
    "reached, 10 not approved yet (the request waits in the queue), 11 a plan shows an invalid step, "
    "130 interrupted."
)
_CONTEXT = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="quarterdeck",
    help="Operator console for device agents. Without a command it opens the window.",
    epilog=f"{EVERYWHERE}\n\n{_EXIT_CODES}",
    context_settings=_CONTEXT,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
audit_app = typer.Typer(help="The journal: find, show, verify.", epilog=EVERYWHERE, no_args_is_help=True)
app.add_typer(approvals.approvals_app, name="approvals")
app.add_typer(approvals.grants_app, name="grants")
app.add_typer(approvals.operators_app, name="operators")
app.add_typer(audit_app, name="audit")
app.add_typer(service.app, name="service")
app.add_typer(runs.app, name="runs")
app.add_typer(devices.app, name="devices")
app.add_typer(policy_commands.app, name="policy")
app.add_typer(agents_commands.app, name="agents")
app.add_typer(contracts_commands.app, name="contracts")
app.command(
    "gateway",
    epilog=examples("gateway --as night-shift", "gateway --http 127.0.0.1:8765"),
    short_help="Serve agents by the Model Context Protocol.",
)(agents_commands.gateway)
app.command(
    "pair",
    epilog=examples("pair lab-1 --tag lab --production", "pair lab-2 --string -"),
    short_help="Make a device known: one that dials in, or one that listens.",
)(devices.pair)
app.command(
    "run",
    epilog=examples(
        "run clean.yaml --input threshold=85",
        "run nightly --device 'lab-*' --json --wait 600",
        "run rollout.yaml --input token=@token.txt",
        "run clean.yaml --plan --json",
    ),
)(runs.run)
app.command("resume", epilog=examples("resume r-0007"))(runs.resume)
app.command("undo", epilog=examples("undo r-0007 --plan", "undo r-0007"))(runs.undo)
app.command(epilog=search_commands.SEARCH_HELP)(search_commands.search)
app.command(epilog=search_commands.DESCRIBE_HELP)(search_commands.describe)
app.command(epilog=search_commands.DO_HELP)(search_commands.do)
app.command(epilog=examples("completion bash", "completion fish"))(completion)


DeviceArgument = Annotated[str, typer.Argument(metavar="DEVICE")]
ToolArgument = Annotated[str, typer.Argument(metavar="TOOL")]
# The largest number that the journal can store.
LAST = (1 << 63) - 1


def _say_version(json: bool) -> None:
    if json:
        say(as_json({"version": __version__, "api_version": API_VERSION}))
    else:
        say(f"quarterdeck {__version__}")


def _version_asked(context: typer.Context, asked: bool) -> None:
    if asked:
        _say_version(bool(context.params.get("json")))
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
    except UnicodeEncodeError:
        # The path is written to settings, answers and the journal, which are JSON.
        raise BadInput(f"The home {str(chosen.path)!r} has a name that is not text in UTF-8.") from None
    context.obj = CommonOptions(chosen, json, settle().get(TOKEN_VARIABLE, ""))


@app.command(epilog=examples("tools", "tools lab-1 --json"))
def tools(
    context: typer.Context, device: Annotated[str | None, typer.Argument(metavar="DEVICE")] = None
) -> None:
    """List the tools of one device, or of all, with risk and effect."""
    in_session(
        context,
        lambda session: show.tools(session, device, context.obj.json),
        wait_for_devices=True,
        device=device,
    )


@app.command(
    epilog=examples(
        "call this-computer get_system_info info_type=memory",
        "call lab-1 shell_execute command='df -h' timeout=20 --wait 60",
        'call lab-1 screenshot region:=\'{"x": 0, "y": 0, "width": 640, "height": 480}\'',
        "call lab-1 write_file file_path=/tmp/a.txt content=@notes.txt",
        "call lab-1 screenshot region:=@region.json --save pictures",
    )
)
@signs
def call(
    context: typer.Context,
    device: DeviceArgument,
    tool: ToolArgument,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...")] = None,
    wait: WaitOption = 0,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=86_400, metavar="SECONDS", help="How long the tool may take, on the device."
        ),
    ] = None,
    save: SaveOption = None,
    *,
    unlocking: KeySource,
) -> None:
    """Call one tool of one device.

    Arguments are key=value (typed as the tool's schema says), key:=JSON, key=@FILE for a file's
    text, or key:=@FILE for the JSON in a file.

    With --json, an error has a code, a message, the next step, and `retryable`: whether the very same call
    may succeed later, and changes nothing twice. `stage` is where it ended: prepare, validate, harden,
    decide, approve, record_intent and send are before it reached the device, observe is after; null is not
    known. `note` is said beside a result that needs a word, as where a device's client loses values.
    """

    # An unusable folder is reported before anything is sent.
    saving = Saving.into(save)

    async def work(session: Session) -> int:
        return await call_command.call(
            session,
            device,
            tool,
            arguments or [],
            timeout=timeout,
            wait=wait,
            json_wanted=context.obj.json,
            unlocking=unlocking,
            saving=saving,
        )

    in_session(context, work, wait_for_devices=True, device=device)


@audit_app.command(
    "verify", epilog=examples("audit verify", "audit verify --checkpoint /media/usb/checkpoint --json")
)
def audit_verify(
    context: typer.Context,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="Compare with a checkpoint that an earlier verification printed, kept elsewhere since.",
        ),
    ] = None,
) -> None:
    """Recompute the whole journal, blobs included. Exit code 8 when it does not verify.

    The last lines are the newest checkpoint, a signed note over all entries. Keep them where this home's
    files cannot reach (quarterdeck audit verify > FILE on another disk): with --checkpoint FILE a later
    verification finds a journal that was rolled back, or begun anew, as a whole.
    """
    raise typer.Exit(asyncio.run(audit_commands.verify(context.obj.home, context.obj.json, checkpoint)))


@audit_app.command("accept-loss", epilog=examples("audit accept-loss", "audit accept-loss --operator anna"))
@signs
def audit_accept_loss(context: typer.Context, *, unlocking: KeySource) -> None:
    """Sign that the entries which the journal lacks are lost, so that the home opens again.

    For a home whose journal is older than its last known head, such as a copy that was taken while the
    service ran, and of which there is no better copy. The journal's next entry names what is lost, for ever.
    Everything that is left must verify.
    """
    asyncio.run(audit_commands.accept_loss(context.obj.home, unlocking, context.obj.json))


@audit_app.command(
    "find",
    epilog=examples(
        "audit find tool:type_text status:failure since:1h",
        "audit find 'device:lab-* dur:>2s'",
        "audit find --limit 200 --before 983 some text",
    ),
)
def audit_find(
    context: typer.Context,
    query: Annotated[list[str] | None, typer.Argument(metavar="QUERY...")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, metavar="NUMBER", help="How many entries at most.")
    ] = 50,
    before: Annotated[
        int | None,
        typer.Option(min=0, max=LAST, metavar="NUMBER", help="Only entries with a smaller number."),
    ] = None,
) -> None:
    """Find entries, newest first, by what they hold; without a query, all."""
    words = " ".join(query or [])
    in_session(context, lambda session: show.find(session, words, limit, before, context.obj.json))


@audit_app.command("show", epilog=examples("audit show 983", "audit show 983 --json"))
def audit_show(
    context: typer.Context, seq: Annotated[int, typer.Argument(metavar="NUMBER", min=0, max=LAST)]
) -> None:
    """Show one entry in full, and check the proof that the journal's signed head covers it.

    The proof (RFC 6962) leads from the entry's hash to the root that this home's key has signed. Exit code 8
    when it does not hold.
    """
    in_session(context, lambda session: show.entry(session, seq, context.obj.json))


@app.command(epilog=examples("version", "version --json"))
def version(context: typer.Context) -> None:
    """Say which version this is."""
    _say_version(context.obj.json)


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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # For a letter that the terminal cannot show, print its code instead of a traceback.
            stream.reconfigure(errors="backslashreplace")
    json_wanted = "--json" in argv[: argv.index("--") if "--" in argv else None]
    try:
        return _run(argv, json_wanted)
    except AnswerLost as lost:
        note(f"{styled('Error', 'red', sys.stderr)}: {lost}")
        return exit_codes.FAULT


def _run(argv: list[str], json_wanted: bool) -> int:
    try:
        with logging_nowhere():
            prepare_completion()
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
    if type(problem).__name__ == "NoArgsIsHelpError":
        if not json_wanted:
            note(message)
            return
        message = "Missing command."
    hint = f"Try: {context.command_path} --help" if context else "Try: quarterdeck --help"
    print_error(ErrorInfo(code=ErrorCode.INVALID_ARGUMENTS, message=message, next=hint), json_wanted)

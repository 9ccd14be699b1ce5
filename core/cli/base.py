"""Shared parts of the commands: options, help texts, and running work on a console."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from core.cli.answer import Answer, print_answer
from core.cli.output import print_error
from core.cli.phases import working
from core.cli.session import Session, open_session
from core.errors import QuarterdeckError
from core.home import Home
from core.service import exit_codes

EVERYWHERE = "Every command also takes --home DIR and --json."


def examples(*lines: str) -> str:
    """The epilog of a command's help: examples that can be typed as shown."""
    return (
        "\b\n" + "\n".join(("Examples:", *(f"  quarterdeck {line}" for line in lines))) + f"\n\n{EVERYWHERE}"
    )


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """The options that hold for every command, and the token that the environment had."""

    home: Home
    json: bool
    token: str = field(default="", repr=False)


Result = TypeVar("Result")
Work = Callable[[Session], Coroutine[Any, Any, Answer]]
JsonOption = Annotated[bool, typer.Option("--json", is_eager=True, help="Print JSON for programs.")]
HomeOption = Annotated[
    str | None,
    typer.Option(
        "--home",
        help="The home to use; else QUARTERDECK_HOME, else the platform's user data folder.",
        metavar="DIR",
    ),
]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="DIR",
        help="Save the pictures and large outputs of results as new files in this folder.",
    ),
]
ReplaceOption = Annotated[bool, typer.Option("--replace", "--force", help="Write over a file that is there.")]
WaitOption = Annotated[
    float,
    typer.Option(
        min=0, metavar="SECONDS", help="How long to wait for an approval where this is not a terminal."
    ),
]
PlanOption = Annotated[bool, typer.Option("--plan", help="Show what would happen; nothing is sent.")]
DeviceArgument = Annotated[str, typer.Argument(metavar="DEVICE")]
ToolArgument = Annotated[str, typer.Argument(metavar="TOOL")]


def command_set() -> typer.Typer:
    """A new set of commands of `quarterdeck`; `core.cli.command_table` names the module that has it."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def in_session(
    context: typer.Context, work: Work, wait_for_devices: bool = False, device: str | None = None
) -> None:
    """Run `work` on a console, print its answer, and exit with its code.

    `wait_for_devices` waits for local devices that are starting, and for `device` wherever it runs.
    """
    given: CommonOptions = context.obj

    async def whole() -> int:
        end_on_signals()
        code: int | None = None
        try:
            async with open_session(given.home, wait_for_devices, device) as session:
                answer = await work(session)
                await print_answer(answer, given.json)
                code = answer.code
        except QuarterdeckError as error:
            if code is None:
                raise
            # The answer is already on standard output; a second JSON text would make both unreadable.
            print_error(error.info, json_wanted=False)
            code = code or exit_codes.exit_code_of(error.code)
        return code

    raise typer.Exit(run_work(whole()))


def finish(context: typer.Context, answer: Answer) -> NoReturn:
    """Print the answer of a command that needs no session, and exit with its code."""
    given: CommonOptions = context.obj
    run_work(print_answer(answer, given.json))
    raise typer.Exit(answer.code)


def run_work(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a command's work on a loop of its own, until it ends or Ctrl+C has cancelled it."""

    async def interruptible() -> Result:
        this = asyncio.current_task()
        assert this is not None
        with working(this):
            return await work

    return asyncio.run(interruptible())


def end_on_signals() -> None:
    """Let SIGTERM and SIGHUP end a command in order, as Ctrl+C does, so that its hosted core is closed."""
    this = asyncio.current_task()
    loop = asyncio.get_running_loop()
    # Windows' event loop supports neither signal.
    if this is not None and sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Under nohup, SIGHUP is ignored and stays so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, this.cancel)

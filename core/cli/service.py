"""Commands about the process that owns a home: start, stop, status, and stopping or resuming all work."""

from __future__ import annotations

from typing import Annotated

import typer

from core.cli.answer import Answer
from core.cli.base import EVERYWHERE, CommonOptions, command_set, examples, finish, in_session, run_work
from core.cli.output import Cell, Prose, error_json, facts, moment
from core.cli.session import Session, actor
from core.cli.signing import KeySource, sign_change, signs
from core.errors import ErrorCode, ErrorInfo, ServiceError
from core.service import exit_codes
from core.service.control import ensure_service, lock_owner, service_status, stop_service
from core.service.wishes import RESUME

commands = command_set()
app = typer.Typer(help="The process that owns a home.", epilog=EVERYWHERE, no_args_is_help=True)
commands.add_typer(app, name="service")


@app.command("start", epilog=examples("service start"))
def service_start(
    context: typer.Context,
    wait: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="How long to wait.")] = 15,
) -> None:
    """Start the service; it stays until it is stopped."""

    async def work() -> Answer:
        before = await service_status(context.obj.home)
        console = await ensure_service(context.obj.home, "cli", actor(), stay=True, timeout=wait)
        await console.close()
        status = await service_status(context.obj.home)
        words = "A service was running already" if before.running else "The service has started"
        return Answer(
            {**status.model_dump(mode="json"), "started": not before.running},
            [f"{words}: process {status.pid}, home {status.home}.", *status.notes],
        )

    finish(context, run_work(work()))


@app.command("stop", epilog=examples("service stop --wait 30"))
def service_stop(
    context: typer.Context,
    cancel_work: Annotated[
        bool, typer.Option("--cancel-work", help="Cancel runs instead of waiting for them.")
    ] = False,
    wait: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="How long to wait for its end.")] = 30,
) -> None:
    """End the service in order. It waits for running work unless --cancel-work is given."""
    given: CommonOptions = context.obj
    try:
        words = run_work(stop_service(given.home, cancel_work, timeout=wait))
    except ServiceError as error:
        if error.code is ErrorCode.TIMEOUT and not cancel_work:
            then = "It ends by itself when that work has ended; service stop --cancel-work cancels the work."
            finish(context, _not_stopped(error, then, exit_codes.exit_code_of(error.code)))
        owner = lock_owner(given.home) if error.code is ErrorCode.HOME_BUSY else None
        if owner is None:
            raise
        # A service of another version may have lost its program file; it still ends in order on a signal.
        then = f"kill {owner} asks that process to end in order."
        finish(context, _not_stopped(error, then, exit_codes.HOME_OWNED))
    finish(context, Answer({"stopped": True, "message": words}, words))


def _not_stopped(error: ServiceError, then: str, code: int) -> Answer:
    info = ErrorInfo(code=error.code, message=error.message, next=then)
    return Answer({"error": error_json(info)}, (), code, info)


@app.command("status", epilog=examples("service status --json"))
def service_status_command(context: typer.Context) -> None:
    """Say whether a service owns the home. Exit code 9 when one does and cannot be reached."""
    status = run_work(service_status(context.obj.home))
    code = exit_codes.HOME_OWNED if status.problem and not status.running else exit_codes.DONE
    pairs = [
        ("Service", _standing(status.running, bool(code))),
        ("Home", status.home),
        ("Process", status.pid or ""),
        ("Version", status.version),
        ("Started", moment(status.started_at)),
        ("Listens at", status.listening or status.listening_problem),
        ("Devices", status.devices if status.running else ""),
        ("Runs", f"{status.running_runs:,} under way" if status.running else ""),
        ("Approvals", f"{status.waiting_approvals:,} waiting" if status.running else ""),
        ("Stop all", Cell("on", "red") if status.stopped else ""),
        ("Problem", status.problem),
    ]
    finish(context, Answer(status, [facts(pairs), *status.notes], code))


def _standing(running: bool, lost: bool) -> Cell:
    if lost:
        return Cell("cannot be reached", "red")
    return Cell("running", "green") if running else Cell("not running", "dim")


@app.command("stop-all", epilog=examples("service stop-all"))
def stop_all(context: typer.Context) -> None:
    """Stop everything: nothing leaves any more, runs end, what is on devices is asked to cancel."""

    async def work(session: Session) -> Answer:
        words = await session.console.service.stop_all()
        return Answer({"stopped": True, "message": words}, Prose(words))

    in_session(context, work)


@app.command("resume", epilog=examples("service resume"))
@signs
def resume(
    context: typer.Context,
    *,
    unlocking: KeySource,
) -> None:
    """Let commands leave again after Stop all. An operator signs this."""

    async def work(session: Session) -> Answer:
        signed = await sign_change(session, unlocking, RESUME)
        await session.console.service.resume(signed)
        return Answer({"stopped": False}, "Commands leave again.")

    in_session(context, work)

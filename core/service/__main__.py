"""Entry point of the service process: `python -m core.service --home DIR [--stay]`.

The service is ready when the control socket answers. It ends in order on SIGTERM or SIGINT, when a client
requests it, and, without `--stay`, when no client has been attached for five seconds and nothing runs.
Exit codes are the command line's: 0 ended in order, 2 bad input, 8 the journal does not open, 9 another
process owns the home, 1 a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from core.environment import settle
from core.errors import ErrorCode, ErrorInfo, QuarterdeckError, ServiceError
from core.event_loop import new_event_loop
from core.home import Home
from core.log import Logger
from core.service.exit_codes import exit_code_of
from core.service.lifetime import until_told_or_not_needed
from core.service.log_setup import logging_to
from core.service.rpc.server import ControlServer
from core.service.rpc.transport import own_folder

log = Logger(__name__)

TRIES = 4
BETWEEN_TRIES = 0.05

Opened = TypeVar("Opened")


async def serve(home: Home, stay: bool) -> str:
    """Own the home and serve it until there is a reason to end; returns the reason.

    Raises:
        QuarterdeckError: another process owns the home, or the home does not open.
    """
    # The heaviest import: a wrong option or home is reported without loading it.
    from core.service.local_console import LocalConsoles
    from core.service.service import Service

    # Checked before anything listens: a retry cannot fix an unsafe folder.
    own_folder(home)
    allow_many()
    signalled = asyncio.Event()
    restore = _listen_to_signals(signalled)
    try:
        service = await _own(lambda: Service.open(home, stay=stay))
        server = ControlServer(LocalConsoles(service), home)
        try:
            await server.open()
            service.verify_in_background()
            service.garbage.start()
            service.tasks.spawn("collect garbage between runs", service.garbage.run())
            log.info("the service is ready", home=str(home.path), stay=stay)
            why = await until_told_or_not_needed(service, server, signalled, stay)
            log.info("the service ends", why=why)
        finally:
            await server.close()
            await service.close()
        return why
    finally:
        restore()


async def _own(open_service: Callable[[], Awaitable[Opened]]) -> Opened:
    """Open the service. Retries while the home is busy: a program that probes the lock holds it briefly."""
    for _ in range(TRIES - 1):
        try:
            return await open_service()
        except ServiceError as error:
            if error.code is not ErrorCode.HOME_BUSY:
                raise
            await asyncio.sleep(BETWEEN_TRIES)
    return await open_service()


def _listen_to_signals(signalled: asyncio.Event) -> Callable[[], None]:
    loop = asyncio.get_running_loop()
    names = (signal.SIGTERM, signal.SIGINT)
    try:
        for name in names:
            loop.add_signal_handler(name, signalled.set)
    except NotImplementedError:
        # Windows: the loop supports no signal handlers; Ctrl+C ends it by KeyboardInterrupt.
        return lambda: None

    def restore() -> None:
        for name in names:
            loop.remove_signal_handler(name)

    return restore


def main(argv: list[str] | None = None) -> int:
    """Run the service; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m core.service", description="Serve one home.")
    parser.add_argument("--home", help="the home to own (else QUARTERDECK_HOME, else the user's data folder)")
    parser.add_argument("--stay", action="store_true", help="stay when no client is attached")
    options = parser.parse_args(argv)
    settle()
    try:
        home = Home.choose(options.home).create()
        with logging_to(home.log):
            return _run(home, options.stay)
    except QuarterdeckError as error:
        return _report(error.info, exit_code_of(error.code))


def _run(home: Home, stay: bool) -> int:
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serve(home, stay))
    except KeyboardInterrupt:
        return 0
    except QuarterdeckError as error:
        return _report(error.info, exit_code_of(error.code))
    # The outermost handler: an unexpected error is logged with its trace before the process ends.
    except Exception as error:
        log.exception("the service failed")
        return _report(ErrorInfo.of(ErrorCode.INTERNAL, f"The service failed: {error}"), 1)
    return 0


def _report(error: ErrorInfo, code: int) -> int:
    """Write the error to stderr as one line of JSON, for the parent process to read."""
    line = json.dumps({"error": error.model_dump(mode="json")})
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
    return code


ENOUGH = 16_384


def allow_many() -> int:
    """Raise this process's limit of open files to `ENOUGH`; returns the resulting limit, 0 for no limit.

    The usual soft limit is 1,024, and programs may raise it up to the hard limit.
    """
    if sys.platform == "win32":
        return 0
    else:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return 0
        wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
        if wanted > soft:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            except (OSError, ValueError):
                return soft  # macOS refuses more than its kernel's own limit.
            return wanted
        return soft


if __name__ == "__main__":
    sys.exit(main())

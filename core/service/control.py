"""Service control: attaches to the service of a home, starts it, stops it and reports its status."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from pydantic import Field

import core
from core.approvals.operator_keys import login_name
from core.environment import of_the_session, without_secrets
from core.errors import BadInput, ErrorCode, ErrorInfo, QuarterdeckError, ServiceError, error_from
from core.home import Home, HomeLock
from core.models.frozen import FrozenModel
from core.own_console import OWN_CONSOLE
from core.service import exit_codes
from core.service.rpc.client import RemoteConsole
from core.service.rpc.protocol import Client
from core.text import escape_hidden, shorten_middle

POLL = 0.02
POLL_AT_MOST = 0.2
STOP_WITHIN = 30.0
# Seconds that a service which has not ended in time gets to name its runs, and the number of runs named.
ANSWER_WITHIN = 3.0
_MOST_RUNS_TOLD = 5
_LONGEST_NAME = 60
_READ_THE_LOG = "Read what the log says of its start, then start it again."
# A start that failed because another program owned the home is repeated once the home is free; bounded.
MOST_STARTS = 5

# Services that this process has started: only the parent process can collect a child's exit status.
_started: list[subprocess.Popen[bytes]] = []


class ServiceStatus(FrozenModel):
    """Whether a service owns a home and answers. `owner` is the process ID in the home's lock.

    `notes` are sentences about what the service read at its start and does not count.
    """

    running: bool
    home: str
    pid: int | None = None
    version: str = ""
    started_at: str = ""
    stopped: bool = False
    devices: int = 0
    running_runs: int = 0
    waiting_approvals: int = 0
    owner: str = ""
    problem: str = ""
    listening: str = ""
    listening_problem: str = ""
    notes: list[str] = Field(default_factory=list)


async def ensure_service(
    home: Home, client: Client, actor: str, stay: bool = False, timeout: float = 15.0, token: str = ""
) -> RemoteConsole:
    """Attach to the service of this home; start it if none runs. Concurrent callers end with one service.

    `token` proves which agent an agent is.

    Raises:
        ServiceError: a process owns the home but does not answer within `timeout` seconds (`home_busy`), or
            the service refuses this client.
        BadInput: the home cannot be written.
        QuarterdeckError: the error with which the started service ended.
    """
    home.create()
    deadline = asyncio.get_running_loop().time() + timeout
    started: subprocess.Popen[bytes] | None = None
    pause = POLL
    starts = 0
    while True:
        try:
            return await RemoteConsole.connect(home, client, actor, token=token)
        except ServiceError as error:
            if error.code is not ErrorCode.SERVICE_UNAVAILABLE:
                raise
            late = asyncio.get_running_loop().time() >= deadline
            if started is None and home.is_read_only:
                raise home.not_writable() from error
            if started is None and not late:
                started, told_from = _spawn(home, stay, client)
                starts += 1
            elif started is not None and (ended := started.poll()) is not None:
                why = _why_it_ended(home, told_from, ended)
                # Another program took the home first: a service that will answer soon, or a short command.
                if ended != exit_codes.HOME_OWNED or why.code is ErrorCode.HOME_UNSAFE:
                    raise why from error
                if lock_owner(home) is None:
                    if starts >= MOST_STARTS:
                        raise why from error
                    started = None
            if late:
                raise _not_reached(home, timeout) from error
        await asyncio.sleep(pause)
        pause = min(pause * 1.3, POLL_AT_MOST)


def _spawn(home: Home, stay: bool, client: Client) -> tuple[subprocess.Popen[bytes], int]:
    """Start a service that outlives this process; also returns the offset of its output in the log.

    From an agent's program it inherits nothing but what describes the user's session.

    Raises:
        BadInput: the log cannot be written.
    """
    _collect()
    try:
        home.log.touch(mode=0o600)
        told_from = home.log.stat().st_size
    except OSError as error:
        raise BadInput(f"The log {home.log} cannot be written: {error.strerror}.") from error
    # -P and an absolute path: Python must not import another `core` from the current folder.
    source = str(Path(core.__file__).resolve().parents[1])
    environment = of_the_session() if client == "agent" else without_secrets()
    known = environment.get("PYTHONPATH", "")
    command = [sys.executable, "-P", "-m", "core.service", "--home", str(home.path)]
    with home.log.open("ab") as log:
        process = subprocess.Popen(
            [*command, "--stay"] if stay else command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home.path,
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, (source, known)))},
            start_new_session=True,
            creationflags=OWN_CONSOLE,
            close_fds=True,
        )
    _started.append(process)
    return process, told_from


def _collect() -> None:
    _started[:] = [process for process in _started if process.poll() is None]


def _why_it_ended(home: Home, told_from: int, code: int) -> QuarterdeckError:
    """The error that the service wrote to the log before it ended."""
    with home.log.open("rb") as log:
        log.seek(told_from)
        lines = log.read().decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        try:
            told = json.loads(line)
            return error_from(ErrorInfo.model_validate(told["error"]))
        except (ValueError, KeyError, TypeError):
            continue
    words = f"The service ended with code {code} as it started; see {home.log}."
    return ServiceError(words, next_step=_READ_THE_LOG)


def _not_reached(home: Home, timeout: float) -> ServiceError:
    owner = lock_owner(home)
    if owner is not None:
        return ServiceError(
            f"Process {owner} owns the home {home.path} but did not answer within {timeout:g} s.",
            ErrorCode.HOME_BUSY,
        )
    words = f"The service of {home.path} did not start within {timeout:g} s; see {home.log}."
    return ServiceError(words, next_step=_READ_THE_LOG)


def _actor() -> str:
    return f"cli:{login_name()}"


def lock_owner(home: Home) -> str | None:
    """The ID of the process that owns the home; None if the home is free."""
    if not home.path.is_dir():
        return None
    try:
        return HomeLock(home).probe()
    except OSError as error:
        raise BadInput(f"The home {home.path} cannot be used: {error.strerror}.") from error


async def stop_service(
    home: Home, cancel_work: bool, *, actor: str | None = None, timeout: float = STOP_WITHIN
) -> str:
    """End the service in order and wait until it has released the home; returns a sentence on the outcome.

    Without `cancel_work` the service ends after its active runs. Waits at most `timeout` seconds.

    Raises:
        ServiceError: a process owns the home and does not answer (`home_busy`), or the service has not ended
            in time (`timeout`).
    """
    try:
        console = await RemoteConsole.connect(home, "cli", actor or _actor())
    except ServiceError as error:
        if error.code is not ErrorCode.SERVICE_UNAVAILABLE or (owner := lock_owner(home)) is None:
            if error.code is ErrorCode.SERVICE_UNAVAILABLE:
                return "No service was running."
            raise
        raise ServiceError(
            f"Process {owner} owns the home {home.path} but does not answer.", ErrorCode.HOME_BUSY
        ) from error
    try:
        await console.service.shut_down(cancel_work)
        async with asyncio.timeout(timeout):
            await console.closed.wait()
            # The socket closes first; the lock is released last, after the journal has closed.
            await _until_gone(home, console.welcome.pid)
    except TimeoutError as error:
        waits = await _what_it_waits_for(console)
        raise ServiceError(
            f"The service has not ended within {timeout:g} s{waits}.", ErrorCode.TIMEOUT
        ) from error
    finally:
        await console.close()
        _collect()
    return "The service has ended."


async def _what_it_waits_for(console: RemoteConsole) -> str:
    """A phrase about the runs that a service waits for before it ends; empty if it does not answer."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            runs = [one for one in (await console.service.state()).runs if not one.state.ended]
            requests = await console.approvals.list()
    except (QuarterdeckError, TimeoutError):
        return ""
    told = []
    for run in runs[:_MOST_RUNS_TOLD]:
        asked = [one.id for one in requests if one.run == run.id]
        needs = f", which waits for the answer to request {asked[0]}" if asked else ""
        name = shorten_middle(escape_hidden(run.name, keep_lines=False), _LONGEST_NAME)
        told.append(f"run {run.id} ({name}){needs}")
    if len(runs) > _MOST_RUNS_TOLD:
        told.append(f"{len(runs) - _MOST_RUNS_TOLD:,} more")
    return f": it waits for {'; '.join(told)}" if told else ""


async def _until_gone(home: Home, pid: int) -> None:
    """Wait until the home is free and, if this process started the service, its exit status is collected."""
    loop = asyncio.get_running_loop()
    free = loop.create_future()

    def look() -> None:
        if free.done():
            return
        _collect()
        if lock_owner(home) is None and pid not in {process.pid for process in _started}:
            free.set_result(None)
        else:
            loop.call_later(POLL, look)

    look()
    await free


async def service_status(home: Home, *, actor: str | None = None) -> ServiceStatus:
    """The status of a home's service, as a client sees it.

    Raises:
        ServiceError: the service has another version of the console API.
    """
    try:
        console = await RemoteConsole.connect(home, "cli", actor or _actor())
    except ServiceError as error:
        if error.code is not ErrorCode.SERVICE_UNAVAILABLE:
            raise
        owner = lock_owner(home)
        problem = f"Process {owner} owns this home but does not answer." if owner else ""
        return ServiceStatus(running=False, home=str(home.path), owner=owner or "", problem=problem)
    try:
        state = await console.service.state()
        listening = await console.devices.listening()
    finally:
        await console.close()
    return ServiceStatus(
        running=True,
        home=state.home,
        pid=state.service_pid,
        version=state.version,
        started_at=state.service_started_at,
        stopped=state.stopped,
        devices=len(state.devices),
        running_runs=sum(not run.state.ended for run in state.runs),
        waiting_approvals=len(state.approvals),
        owner=str(state.service_pid),
        listening=listening.url,
        listening_problem=listening.problem,
        notes=state.policy.notes,
    )

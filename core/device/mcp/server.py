"""A hosted MCP server: starts it, restarts it after its session ends, and reports when it gives up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError

from core.backoff import Backoff
from core.device.mcp.config import ServerConfig
from core.device.mcp.http_transport import ACCESS_DENIED, REJECTED
from core.device.mcp.server_log import ServerLog
from core.device.mcp.server_state import ServerState, State, Timing
from core.device.mcp.session import Session, is_unanswered, open_session
from core.device.mcp.tool_call import NotRun, call
from core.device.mcp.tool_listing import Definition, Listing, fetch, read_listing
from core.device.processes.child_process import Children
from core.device.tool import ToolCall
from core.errors import DeviceError, ErrorCode, first_fault
from core.log import Logger

log = Logger(__name__)

_REST_OF_A_FRAME = 1024 * 1024
_MOST_REASON = 500
_LAST_ANSWERS_S = 5.0
# Some servers repeatedly end their notification stream. After such a gap, listing the tools waits this many
# times longer.
_SELDOM = 10
# So many listings in a row that differ are not a server that loads its tools one after another.
_RESTLESS = 5
# Counting stops there: doubling the shortest pause so often exceeds any longest one.
_MOST_CHANGES = 30
# The errors that end a session. Errors in the transport's tasks arrive as an ExceptionGroup.
_ENDINGS = (
    OSError,
    MCPError,
    DeviceError,
    ValidationError,
    RuntimeError,
    ValueError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    ExceptionGroup,
)
_NO_PROGRAM = "Install the program, or give its whole path as the server's command"
_NO_FOLDER = "Make the folder, or put right what its entry has as cwd"
_ONE_LINE = "Its entry's command is the program alone; each argument is a text of its own in args"
_NO_ENTRY = (
    'Look whether the url is that of its streamable HTTP, not of SSE, and whether "headers" in its entry let '
    'us in, such as {"Authorization": "Bearer ${NAME}"}; logging in with a browser (OAuth) is not done here'
)
# A soon retry does not help when the program or folder is missing.
_HOPELESS = (FileNotFoundError, PermissionError, NotADirectoryError)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a call: bytes of its result, and its duration in seconds."""

    most_bytes: int
    longest_s: float


class HostedServer:
    """A server and its session. `on_change` is called after its state or its tool list has changed."""

    def __init__(
        self,
        config: ServerConfig,
        children: Children,
        bounds: Bounds,
        timing: Timing,
        on_change: Callable[[], None],
    ) -> None:
        """`children`: starts the server's process, if it is a local one."""
        self.config = config
        self._children = children
        self.listing = Listing()
        self.state = State.STARTING
        self.reason = ""
        self.how_to_fix = ""
        self.restarts = 0
        self._bounds = bounds
        self._timing = timing
        self._on_change = on_change
        self._session: Session | None = None
        # How many listings in a row differed from the one before.
        self._changes = 0
        self._changed_at = 0.0
        self._ready = asyncio.Event()
        self._wake = asyncio.Event()
        self._stale = False
        self._announced = False
        self._relisting = asyncio.Lock()
        self._guessed = False
        self._doubtful = False
        self._gone = False
        self._why_abandoned = ""
        self._running: set[object] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stop = asyncio.Event()
        self._was_ready = False
        self._log = ServerLog(self._write_log, config.redact)

    def report(self) -> ServerState:
        """The server's state, for display."""
        return ServerState(
            name=self.config.name,
            kind=self.config.kind,
            where=self.config.location,
            state=self.state,
            tools=len(self.listing.tools),
            restarts=self.restarts,
            reason=self.reason,
            how_to_fix=self.how_to_fix,
        )

    @property
    def restless(self) -> bool:
        """Whether its list of tools changes all the time."""
        return self._changes >= _RESTLESS

    def stop(self) -> None:
        """End the session; `run` returns soon."""
        self._stop.set()
        self._wake.set()

    async def run(self) -> None:
        """Run sessions with the server, one after another, until stopped."""
        backoff = Backoff(*self._timing.back_off, healthy_after=self._timing.steady_s)
        # Consecutive starts that opened no session; `backoff` counts the sessions that ended soon.
        failed_starts = 0
        while not self._stop.is_set():
            backoff.begin()
            problem, how_to_fix, hopeless = await self._one_session()
            if self._stop.is_set():
                return
            if backoff.healthy:
                backoff.reset()
            backoff.fail()
            # A server that was ready exists; it was perhaps restarted, so it is tried again soon.
            failed_starts = 0 if self._was_ready else failed_starts + 1
            if hopeless or failed_starts >= self._timing.give_up_after:
                self._become(State.FAILED, problem, how_to_fix)
            else:
                self._become(State.RESTARTING, problem, how_to_fix)
            # The long wait is for local processes only: a server at an address may return at any time.
            given_up = self.state is State.FAILED and self.config.kind == "stdio"
            seconds = backoff.spread(self._timing.after_giving_up_s if given_up else backoff.delay)
            log.warning(
                "MCP server ended", server=self.config.name, reason=problem, again_in_s=round(seconds, 2)
            )
            # Not `_woken`: late events of the session that ended must not shorten the wait.
            await self._stopped(seconds)
            self.restarts += 1

    async def _one_session(self) -> tuple[str, str, bool]:
        """Serve one session to its end.

        Returns why it ended, advice for an operator, and whether a retry is useless.
        """
        self._log.reset()
        self._was_ready = False
        try:
            async with open_session(
                self._children,
                self.config,
                most=2 * self._bounds.most_bytes + _REST_OF_A_FRAME,
                longest_s=self._bounds.longest_s + 30,
                server_log=self._log,
                on_tools_changed=self._tools_changed,
                on_gap=self._news_were_missed,
                on_lost=self._doubt,
            ) as session:
                await self._serve(session)
        except _ENDINGS as error:
            root = _root_error(error)
            return self._describe(root), self._advice(root), isinstance(root, _HOPELESS)
        ended = DeviceError(self._why_abandoned or "Its session ended")
        return self._describe(ended), self._advice(ended), False

    async def _serve(self, session: Session) -> None:
        # Discard the events of the previous session.
        self._wake.clear()
        self._stale = self._announced = self._doubtful = self._gone = False
        self._why_abandoned = ""
        try:
            async with asyncio.timeout(self._timing.start_s):
                await session.start()
                await self._list(session)
        except TimeoutError:
            raise DeviceError(f"It was not ready within {self._timing.start_s:g} s.") from None
        self._session = session
        self._was_ready = True
        self._ready.set()
        # Output from the start does not explain a later end of the session.
        self._log.reset()
        self._become(State.READY, "")
        log.info("MCP server ready", server=self.config.name, tools=len(self.listing.tools))
        clock = asyncio.get_running_loop().time
        not_before = 0.0
        self._changes = 0
        try:
            while True:
                pause = self._timing.ping_s
                await self._woken(min(pause, max(0.0, not_before - clock())) if self._stale else pause)
                if self._stop.is_set() or not await self._still_there(session):
                    return
                # Rate limit: a server that keeps announcing changes would make the device and the console
                # list its tools without pause.
                if not self._stale and clock() >= self._changed_at + self._timing.steady_s:
                    self._settle()
                if self._stale and clock() >= not_before:
                    guessed = self._guessed
                    await self._relist(session)
                    not_before = clock() + self._rest(guessed)
        finally:
            self._session = None
            self._ready.clear()

    def _rest(self, guessed: bool) -> float:
        """How long the tools are not listed again, in seconds, unless a call needs them."""
        shortest, longest = self._timing.relist_s
        rest = shortest * (_SELDOM if guessed else 1)
        return max(rest, min(longest, shortest * 2.0 ** (self._changes - 1))) if self._changes else rest

    def _settle(self) -> None:
        was_restless, self._changes = self.restless, 0
        if was_restless:
            self._on_change()

    async def _still_there(self, session: Session) -> bool:
        """Whether the session is still usable.

        The end of a pipe is reported. A server at an address, or one whose answer was lost, is pinged.
        """
        if self._gone:
            await self._last_answers()
            return False
        if not self._doubtful and (self.config.kind == "stdio" or self._running):
            return True
        self._doubtful = False
        at_work = bool(self._running)
        try:
            async with asyncio.timeout(self._timing.ping_answer_s):
                alive = await session.is_alive()
        except TimeoutError:
            # Many servers serve one request at a time. The running call has a deadline of its own, which
            # raises doubt again.
            return at_work
        if not alive:
            self._abandon(session, "")
            await self._last_answers()
        return alive

    async def _last_answers(self) -> None:
        """Wait for running calls: their answers may still arrive, even if only to say that nothing ran."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_ANSWERS_S):
                await self._idle.wait()

    async def _relist(self, session: Session) -> bool:
        """List the tools again if they have changed; returns False where the server fails to list them."""
        async with self._relisting:
            if not self._stale:
                return True
            before, announced = self.listing, self._announced
            self._stale = self._announced = False
            try:
                async with asyncio.timeout(self._timing.start_s):
                    await self._list(session)
            except (MCPError, DeviceError, TimeoutError) as error:
                # The tools are still unknown: while a change is announced, no call is sent.
                self._announced = announced or self._announced
                self._stale = self._stale or self._announced
                log.warning(
                    "MCP server does not list its tools",
                    server=self.config.name,
                    reason=self._describe(error),
                )
                return False
            if self.listing != before:
                self._changes = min(self._changes + 1, _MOST_CHANGES)
                self._changed_at = asyncio.get_running_loop().time()
                self._on_change()
            return True

    async def _list(self, session: Session) -> None:
        async def request(params: dict[str, Any]) -> dict[str, Any]:
            return await session.request("tools/list", params)

        try:
            tools, overflow = await fetch(request)
        except MCPError as error:
            # A server without tools may offer prompts and resources only.
            if error.code != types.METHOD_NOT_FOUND:
                raise
            tools, overflow = [], False
        self.listing = await asyncio.to_thread(read_listing, tools, overflow)
        for name, reason in self.listing.refused:
            log.warning(
                "tool of an MCP server not offered", server=self.config.name, tool=name, reason=reason
            )

    async def call(self, definition: Definition, request: ToolCall) -> Any:
        """Serve a call of a tool.

        Raises:
            DeviceError: the call failed, or the server is not available and nothing was sent.
        """
        try:
            return await self._call(definition, request)
        except NotRun as error:
            log.info("MCP server did not take a call", server=self.config.name, reason=error.message)
        # Nothing ran, so the call is repeated in the next session, but only once.
        return await self._call(definition, request)

    async def _call(self, definition: Definition, request: ToolCall) -> Any:
        session = await self._ready_session(definition)
        running = object()
        self._running.add(running)
        self._idle.clear()
        try:
            return await call(session, self.config, definition, request, self._bounds.most_bytes)
        except NotRun as error:
            self._abandon(session, error.message)
            raise
        except DeviceError as error:
            if error.code is ErrorCode.OUTCOME_UNKNOWN or self.config.kind == "http":
                self._doubt()
            raise
        finally:
            self._running.discard(running)
            if not self._running:
                self._idle.set()

    async def _ready_session(self, tool: Definition) -> Session:
        session, is_listed = self._session, True
        if session is not None and not self._announced and not self._relisting.locked():
            return session
        if session is not None:
            # The server announced that its tools changed, so the list is read before the call. Only once,
            # because some servers announce changes all the time.
            is_listed = await self._relist(session)
        session = await self._next_session()
        if session is not None and not is_listed:
            raise DeviceError(
                f"The server of {tool.name} says that its tools changed, and does not list them; nothing was "
                "sent to it.",
                ErrorCode.CONTRACT_CHANGED,
            )
        if session is None:
            why = f": {self.reason}" if self.reason else ""
            raise DeviceError(
                f"The server of {tool.name} is {self.state.value}{why}; nothing was sent to it.",
                ErrorCode.TOOL_FAILED,
            )
        if not any(listed.digest == tool.digest for listed in self.listing.tools):
            # The call was approved for the tool's earlier definition.
            raise DeviceError(
                f"The server of {tool.name} defines it in another way now; nothing was sent to it.",
                ErrorCode.CONTRACT_CHANGED,
            )
        return session

    async def _next_session(self) -> Session | None:
        if self.state is not State.FAILED:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.call_waits_s):
                    await self._ready.wait()
        return self._session

    def _abandon(self, session: Session, why: str) -> None:
        """End an unusable session, and keep calls from using it until it has ended."""
        if self._session is session:
            self._session = None
            self._ready.clear()
            self._gone = True
            self._why_abandoned = why
            self._wake.set()

    def _doubt(self) -> None:
        """Have the session checked now."""
        self._doubtful = True
        self._wake.set()

    def _tools_changed(self, guessed: bool = False) -> None:
        """Have the tools listed again; `guessed` when the server did not announce a change."""
        self._guessed = guessed
        self._announced = self._announced or not guessed
        if not self._stale:
            self._stale = True
            self._wake.set()

    def _news_were_missed(self) -> None:
        self._tools_changed(guessed=True)

    async def _stopped(self, seconds: float) -> None:
        """Sleep, but end at once when the server is stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._stop.wait()

    async def _woken(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _become(self, state: State, reason: str, how_to_fix: str = "") -> None:
        self.state, self.reason, self.how_to_fix = state, reason, how_to_fix
        self._on_change()

    def _advice(self, error: BaseException) -> str:
        if isinstance(error, NotADirectoryError):
            return _NO_FOLDER
        if isinstance(error, _HOPELESS):
            return _ONE_LINE if " " in self.config.command.strip() else _NO_PROGRAM
        if isinstance(error, MCPError) and error.code in {ACCESS_DENIED, REJECTED}:
            return _NO_ENTRY
        if self.config.kind == "http":
            return "Look whether it runs there, and whether the url and headers in its entry are right"
        return "Start the command of its entry by hand and read what it says; the log has it too"

    def _describe(self, error: BaseException) -> str:
        """The message of the first error, with secrets redacted."""
        error = _root_error(error)
        if isinstance(error, ValidationError):
            words = f"It does not speak MCP as it should: {first_fault(error)}"
        elif isinstance(error, MCPError) and error.code == types.PARSE_ERROR:
            words = "It does not speak MCP as it should: its answer is not a message of MCP"
        elif isinstance(error, OSError) and error.strerror:
            words = f"It cannot be started: {error.strerror}: {error.filename or self.config.command}"
        else:
            words = str(error) or type(error).__name__
        if self.config.kind == "stdio":
            if isinstance(error, MCPError) and is_unanswered(error):
                words = "It ended"
            if self._log.first_stray:
                stray = self._log.first_stray[:120]
                words += f"; it writes to its standard output other text than messages of MCP: {stray}"
            if self._log.last_lines:
                words += f" (its last words: {self._log.last_lines})"
        return self.config.redact(words)[:_MOST_REASON]

    def _write_log(self, where: str, text: str) -> None:
        log.info("MCP server says", server=self.config.name, where=where, text=text)


def _root_error(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

"""Questions on a terminal: lines are read without blocking the event loop, so that devices stay served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from core.cli.terminal import width
from core.errors import ErrorCode, Refused


class TerminalClosed(Refused):
    """The terminal was closed, or end of input was typed, instead of an answer."""

    default_code = ErrorCode.CANCELLED


def open_missing_streams() -> None:
    """Open the null device for each of standard input, output and error that is missing (`<&-`).

    It gets the lowest free descriptor, which is the missing stream's; otherwise a file of the home could.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def is_terminal() -> bool:
    """Whether questions can be asked: the answer comes from standard input, the question goes to stderr."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask_line(question: str, secret: bool = False) -> str:
    """Ask on the terminal and return the typed line without its line end; `secret` is not echoed.

    Input typed before the question was shown is discarded: a stray key must not answer it.

    Raises:
        TerminalClosed: the terminal was closed before an answer.
    """
    with _reading(secret) as read_line:
        sys.stderr.write(question)
        sys.stderr.flush()
        line = await read_line()
    if line is None:
        raise TerminalClosed("The terminal was closed before the question was answered.")
    return line


# Each system has its own `_reading`. It discards what was typed ahead, and gives the function that reads the
# line; this returns None at the end of the input.
_ReadLine = Callable[[], Awaitable[str | None]]

if sys.platform == "win32":
    import msvcrt

    _LOOK_EVERY_S = 0.03
    _ENTER, _BACKSPACE, _END, _INTERRUPT = "\r\n", "\b", "\x1a", "\x03"
    # The first of two codes, the second of which names a key without a character. The other one is also à.
    _KEY_FOLLOWS, _KEY_MAY_FOLLOW = "\x00", "\xe0"

    @contextlib.contextmanager
    def _reading(secret: bool) -> Iterator[_ReadLine]:
        while msvcrt.kbhit():
            msvcrt.getwch()
        yield partial(_read_line, secret)

    async def _read_line(secret: bool) -> str | None:
        """Read one line in a thread, which ends with the question: this loop cannot wait for a console."""
        over = threading.Event()
        try:
            return await asyncio.to_thread(_typed_line, secret, over)
        finally:
            over.set()

    def _typed_line(secret: bool, over: threading.Event) -> str | None:
        """The line that is typed key by key; None at Ctrl+Z, and once the question is `over`."""
        typed: list[str] = []
        while not over.is_set():
            # Not a read that waits: it would go on after the question, and take the next answer.
            if not msvcrt.kbhit():
                over.wait(_LOOK_EVERY_S)
                continue
            key = msvcrt.getwch()
            if key == _KEY_FOLLOWS or (key == _KEY_MAY_FOLLOW and msvcrt.kbhit()):
                msvcrt.getwch()
            elif key in _ENTER:
                _echo("\r\n")
                return _whole("".join(typed))
            elif key == _END:
                return None
            elif key == _INTERRUPT:
                signal.raise_signal(signal.SIGINT)
                return None
            elif key == _BACKSPACE:
                if typed:
                    _take_back(typed, secret)
            elif key.isprintable() or _is_half(key):
                typed.append(key)
                if not secret:
                    _echo(key)
        return None

    def _take_back(typed: list[str], secret: bool) -> None:
        """Remove the last character, which may be two codes."""
        last = typed.pop()
        if _is_half(last) and typed and _is_half(typed[-1]):
            last = typed.pop() + last
        if not secret:
            _echo("\b \b" * width(_whole(last)))

    def _is_half(key: str) -> bool:
        return "\ud800" <= key <= "\udfff"

    def _whole(codes: str) -> str:
        """A text of a console's UTF-16 codes, where a character may be two."""
        return codes.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def _echo(text: str) -> None:
        for code in text:
            msvcrt.putwch(code)

else:
    import termios

    @contextlib.contextmanager
    def _reading(secret: bool) -> Iterator[_ReadLine]:
        descriptor = sys.stdin.fileno()
        with _quiet(descriptor) if secret else contextlib.nullcontext():
            with contextlib.suppress(termios.error):
                termios.tcflush(descriptor, termios.TCIFLUSH)
            yield partial(_read_line, descriptor)
        if secret:
            sys.stderr.write("\n")

    async def _read_line(descriptor: int) -> str | None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        got = bytearray()

        def readable() -> None:
            # A terminal in canonical mode delivers whole lines.
            try:
                data = os.read(descriptor, 65536)
            except OSError:
                # The terminal was hung up.
                data = b""
            got.extend(data)
            if (not data or b"\n" in data) and not answer.done():
                answer.set_result(bytes(got))

        loop.add_reader(descriptor, readable)
        try:
            line = await answer
        finally:
            loop.remove_reader(descriptor)
        return line.decode("utf-8", "replace").splitlines()[0] if line else None

    @contextlib.contextmanager
    def _quiet(descriptor: int) -> Iterator[None]:
        before = termios.tcgetattr(descriptor)
        silent = termios.tcgetattr(descriptor)
        silent[3] &= ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, silent)
        try:
            yield
        finally:
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)

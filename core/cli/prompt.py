"""Questions on a terminal: lines are read without blocking the event loop, so that devices stay served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator

from core.errors import BadInput, ErrorCode, Refused


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
    descriptor = sys.stdin.fileno()
    with _quiet(descriptor) if secret else contextlib.nullcontext():
        _drop_typed_ahead(descriptor)
        sys.stderr.write(question)
        sys.stderr.flush()
        line = await _read_line(descriptor)
    if secret:
        sys.stderr.write("\n")
    if line is None:
        raise TerminalClosed("The terminal was closed before the question was answered.")
    return line


async def _read_line(descriptor: int) -> str | None:
    """Read one line; None at the end of the input."""
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


def _drop_typed_ahead(descriptor: int) -> None:
    try:
        import termios
    except ImportError:
        return
    with contextlib.suppress(termios.error):
        termios.tcflush(descriptor, termios.TCIFLUSH)


@contextlib.contextmanager
def _quiet(descriptor: int) -> Iterator[None]:
    try:
        import termios
    except ImportError as error:
        raise BadInput("A passphrase cannot be asked here; use --passphrase-file.") from error
    before = termios.tcgetattr(descriptor)
    silent = termios.tcgetattr(descriptor)
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSAFLUSH, silent)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)

"""`quarterdeck`: without a command the window, with one the command line."""

from __future__ import annotations

import os
import sys

BAD_INPUT = 2
# As in `core.service.exit_codes`, whose import is itself slow.
INTERRUPTED = 130
# As `core.completion.scripts.VARIABLE`, whose import the window's start does without.
COMPLETE = "_QUARTERDECK_COMPLETE"


def main(argv: list[str] | None = None) -> int:
    """Open the window, or run one command; returns the exit code."""
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        # Ctrl+C came at the very beginning of the imports.
        return INTERRUPTED


def _run(words: list[str]) -> int:
    if os.environ.get(COMPLETE):
        # A shell asks what may follow (`quarterdeck completion`).
        from core.completion.answer import main as answer_shell

        return answer_shell()
    wants_window, home = _window_wanted(words)
    if wants_window:
        return _open_window(home)
    from core.cli import main as command_line
    from core.cli.phases import at_its_end

    return at_its_end(command_line(words))


def _window_wanted(words: list[str]) -> tuple[bool, str | None]:
    """Whether nothing but a home was given, and which."""
    match words:
        case []:
            return True, None
        case ["--home", home] if not home.startswith("-"):
            return True, home
        case [word] if word.startswith("--home="):
            return True, word.removeprefix("--home=")
        case _:
            return False, None


def _open_window(home: str | None) -> int:
    # Here, and not above, because a command does without it.
    import importlib.util

    # Looked for, not imported: a fault inside the window must not be taken for a missing library.
    if importlib.util.find_spec("PySide6") is None or importlib.util.find_spec("qasync") is None:
        return _say(
            "The window's libraries are not installed.",
            "Install them with: pip install 'quarterdeck[window]'; or use a command: quarterdeck --help",
        )
    if not _has_display():
        return _say(
            "There is no display to open a window on.",
            "Start it in a desktop session, or use a command: quarterdeck --help",
        )
    from core.environment import settle
    from core.errors import QuarterdeckError
    from core.home import Home

    settle()
    try:
        chosen = Home.choose(home).create()
    except QuarterdeckError as error:
        from core.service.exit_codes import exit_code_of

        _say(error.message, error.info.next)
        return exit_code_of(error.code)
    from app.main import run

    return run(chosen)


def _has_display() -> bool:
    """Whether Qt would find a screen; asked first, for Qt ends the process when it does not."""
    if sys.platform in ("win32", "darwin") or os.environ.get("QT_QPA_PLATFORM"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _say(what: str, then: str) -> int:
    sys.stderr.write(f"Error: {what}\n{then}\n")
    return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())

"""Real shells on terminals of their own, with this program's completion: what comes of what is typed."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from core.completion.scripts import SCRIPTS, Shell
from core.home import Home
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import ROOT

# Completion as it is, but that a busy machine's service may take longer to answer.
_PROGRAM = f"""
import sys
from core.completion import offers
offers.WITHIN = {PATIENCE_S}
from app.__main__ import main
sys.exit(main())
"""
_START = {
    Shell.BASH: ("bash", "--norc", "--noprofile", "-i"),
    Shell.ZSH: ("zsh", "-f", "-i"),
    Shell.FISH: ("fish", "--no-config", "-i"),
}
_SHOW_LINE = "\x18\x0c"  # Ctrl+X Ctrl+L
_PREPARE = {
    Shell.BASH: """
set +o history; PS1='> '; bind 'set enable-bracketed-paste off'; bind 'set bell-style none'
bind 'set show-all-if-ambiguous on'; bind 'set page-completions off'; bind 'set completion-query-items 0'
show_line() {{ printf %s "$READLINE_LINE" > {fifo}; }}
bind -x '"\\C-x\\C-l": show_line'
""",
    Shell.ZSH: """
PS1='> '; unset zle_bracketed_paste; autoload -U compinit; compinit -D -u
show_line() {{ print -rn -- "$BUFFER" > {fifo} }}
zle -N show_line; bindkey '^X^L' show_line; bindkey '^I' complete-word; setopt no_beep
""",
    Shell.FISH: """
function fish_prompt; printf '> '; end
bind \\cx\\cl 'commandline -b | string collect > {fifo}'
""",
}


def has(shell: Shell) -> bool:
    """Whether this computer has the shell."""
    return shutil.which(shell.value) is not None


class TypedShell:
    """One interactive shell in a folder of its own, in which `quarterdeck` is this program."""

    def __init__(self, shell: Shell, home: Home, folder: Path) -> None:
        self._fifo = folder / "line"
        os.mkfifo(self._fifo)
        commands = folder / "bin"
        commands.mkdir()
        command = commands / "quarterdeck"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(_PROGRAM)} "$@"\n')
        command.chmod(0o755)
        script = folder / "prepare"
        script.write_text(_PREPARE[shell].format(fifo=shlex.quote(str(self._fifo))) + SCRIPTS[shell], "utf-8")
        environment = {
            **os.environ,
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "QUARTERDECK_HOME": str(home.path),
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "XDG_DATA_HOME": str(folder),
            "TERM": "dumb" if shell is Shell.BASH else "xterm",
            "LC_ALL": "C.UTF-8",
            "INPUTRC": os.devnull,
        }
        (folder / "work").mkdir(exist_ok=True)
        self._terminal, end = pty.openpty()
        termios.tcsetwinsize(end, (50, 200))
        self._process = subprocess.Popen(
            _START[shell],
            env=environment,
            cwd=folder / "work",
            # fish wants the terminal to be its session's own.
            preexec_fn=lambda: os.login_tty(end),
        )
        os.close(end)
        self.seen = ""
        self._type(f". {shlex.quote(str(script))}\n")
        self.line("")

    def line(self, typed: str, tabs: int = 1) -> str:
        """What stands on the line after this was typed and completed; the line is then empty again."""
        self.seen = ""
        self._type(typed + "\t" * tabs * bool(typed) + _SHOW_LINE)
        answer = self._read_line()
        self._type("\x15" if answer else "")
        return answer

    def close(self) -> None:
        """End the shell."""
        self._process.kill()
        self._process.wait(PATIENCE_S)
        os.close(self._terminal)

    def _type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def _read_line(self) -> str:
        """What the shell writes about its line; what it prints meanwhile is in `seen`."""
        ends = time.monotonic() + PATIENCE_S
        fifo = os.open(self._fifo, os.O_RDONLY | os.O_NONBLOCK)
        data, is_over = b"", False
        poll = select.poll()
        poll.register(fifo, select.POLLIN | select.POLLHUP)
        poll.register(self._terminal, select.POLLIN)
        try:
            while not is_over:
                assert time.monotonic() < ends, f"the line was not shown: {self.seen}"
                for source, event in poll.poll(1_000):
                    if source == self._terminal:
                        self.seen += os.read(self._terminal, 65_536).decode("utf-8", "replace")
                    elif event & select.POLLIN:
                        data += os.read(fifo, 65_536)
                    else:
                        is_over = True
        finally:
            os.close(fifo)
        return data.decode("utf-8")


@contextlib.contextmanager
def typed_shell(shell: Shell, home: Home, folder: Path) -> Iterator[TypedShell]:
    """A shell that is ended with the test."""
    one = TypedShell(shell, home, folder)
    try:
        yield one
    finally:
        one.close()

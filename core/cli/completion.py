"""`quarterdeck completion`: the script with which a shell completes commands and options."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import (  # type: ignore[attr-defined]  # has both, without saying so
    completion_init,
    get_completion_script,
)

from core.cli.answer import Answer
from core.cli.base import command_set, examples, finish

# Set by the script in the environment of the program that it asks.
VARIABLE = "_QUARTERDECK_COMPLETE"


class Shell(StrEnum):
    """The shells for which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


commands = command_set()


@commands.command(epilog=examples("completion bash", "completion fish"))
def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish")]
) -> None:
    """Print the script that lets a shell complete commands and options. Nothing is installed.

    bash: add `eval "$(quarterdeck completion bash)"` to ~/.bashrc. zsh: the same with zsh, in ~/.zshrc after
    compinit. fish: quarterdeck completion fish > ~/.config/fish/completions/quarterdeck.fish
    """
    script = get_completion_script(prog_name="quarterdeck", complete_var=VARIABLE, shell=shell.value)
    finish(context, Answer({"shell": shell.value, "script": script}, script))


def prepare_completion() -> None:
    """Let the command line answer a shell that asks for completions, as `VARIABLE` says."""
    if os.environ.get(VARIABLE):
        completion_init()

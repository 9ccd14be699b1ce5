"""`quarterdeck completion`: the script with which a shell completes commands and what is in the home."""

from __future__ import annotations

from typing import Annotated

import typer

from core.cli.answer import Answer
from core.cli.base import command_set, examples, finish
from core.completion.scripts import SCRIPTS, Shell

commands = command_set()


@commands.command(epilog=examples("completion bash", "completion fish"))
def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish")]
) -> None:
    """Print the script that lets a shell complete commands and what is in the home. Nothing is installed.

    Names of devices, tools, runs and the like come from the service that runs; without one, commands, options
    and files are completed.

    bash: add `eval "$(quarterdeck completion bash)"` to ~/.bashrc. zsh: the same with zsh, in ~/.zshrc after
    compinit. fish: quarterdeck completion fish > ~/.config/fish/completions/quarterdeck.fish
    """
    script = SCRIPTS[shell]
    finish(context, Answer({"shell": shell.value, "script": script}, script.rstrip("\n")))

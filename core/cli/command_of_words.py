"""A command whose arguments are the words of a sentence, as `search` and `do` have them.

What begins with two dashes is an option unless it stands after `--`; what begins with one, and is no option,
is a word, as in "run ls -la".
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

# The parser then takes for a word what is no option; `CommandOfWords` refuses the long ones among these.
WORDS = {"ignore_unknown_options": True}


class CommandOfWords(TyperCommand):
    """A command of which a mistyped long option is an error and never a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line, as the parser does, unless it has a long option that does not exist."""
        if (unknown := self._unknown_option(args)) is not None:
            ctx.ignore_unknown_options = False
            args = [unknown]
        return super().parse_args(ctx, args)

    def _unknown_option(self, args: list[str]) -> str | None:
        takes_value = {
            name: not getattr(param, "is_flag", False) and not getattr(param, "count", False)
            for param in self.params
            for name in (*param.opts, *param.secondary_opts)
            if name.startswith("-")
        }
        takes_value["--help"] = False
        words = iter(args)
        for word in words:
            if word == "--":
                return None
            name, has_value, _ = word.partition("=")
            if name.startswith("--") and name not in takes_value:
                return word
            if takes_value.get(name) and not has_value:
                next(words, None)
        return None

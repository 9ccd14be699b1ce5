"""Check the English of the code: check_words.py FOLDER...

- Words that hide who acts or what is meant are kept out of comments and texts. The words, and what to write
  instead, stand in `pyproject.toml` under `tool.quarterdeck.words`.
- The message of a `QuarterdeckError` ends with a full stop. `sentences(...)` of `core.text` adds it where the
  end of a message comes from elsewhere, `clause(...)` takes it away in the middle of a sentence.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

KEPT = "# digested"  # behind a text that is part of what homes have pinned: it stays as it is
ENDS = (".", "?", "!", "?)")
ROOT = Path(__file__).resolve().parents[1]


def main(folders: list[str]) -> int:
    """Print each place with what to write instead; 1 when there is any."""
    words: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["quarterdeck"][
        "words"
    ]
    # Not where it is a name: `nobody`, operator:nobody.
    pattern = re.compile(rf"(?<![`:])\b({'|'.join(map(re.escape, words))})\b(?![`:])", re.IGNORECASE)
    found = 0
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    for path in paths:
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type not in (tokenize.COMMENT, tokenize.STRING) or KEPT in token.line:
                    continue
                for match in pattern.finditer(token.string):
                    line = token.start[0] + token.string.count("\n", 0, match.start())
                    instead = words[match.group().lower()]
                    print(f"{path.relative_to(ROOT)}:{line}: {match.group()!r}: {instead}")
                    found += 1
    trees = {path: ast.parse(path.read_text()) for path in paths}
    errors = error_classes(trees.values())
    for path, tree in trees.items():
        for line, text in without_full_stop(tree, errors):
            print(f"{path.relative_to(ROOT)}:{line}: an error's message ends with a full stop: {text}")
            found += 1
    return 1 if found else 0


def error_classes(trees: Iterable[ast.Module]) -> set[str]:
    """The names of the classes that derive from `QuarterdeckError`, directly or not."""
    bases = [
        (node.name, {ast.unparse(base).split(".")[-1] for base in node.bases})
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    found = {"QuarterdeckError"}
    while more := {name for name, parents in bases if parents & found} - found:
        found |= more
    return found


def without_full_stop(tree: ast.Module, errors: set[str]) -> Iterator[tuple[int, str]]:
    """The line and the end of each message of an error that is written in `tree` without a full stop.

    A message that comes from elsewhere as a whole (a variable, a call, `error.message`) is not looked at.
    """
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args and ast.unparse(node.func).split(".")[-1] in errors):
            continue
        messages = [node.args[0]]
        while messages:
            message = messages.pop()
            if isinstance(message, ast.IfExp):
                messages += [message.body, message.orelse]
                continue
            end = message.values[-1] if isinstance(message, ast.JoinedStr) else message
            if isinstance(end, ast.FormattedValue):
                if not (isinstance(end.value, ast.Attribute) and end.value.attr == "message"):
                    yield message.lineno, f"{{{ast.unparse(end.value)}}}"
            elif isinstance(end, ast.Constant) and not str(end.value).endswith(ENDS):
                yield message.lineno, repr(str(end.value)[-40:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Keep words out of comments and texts that hide who acts or what is meant: check_words.py FOLDER...

The words, and what to write instead, stand in `pyproject.toml` under `tool.quarterdeck.words`.
"""

from __future__ import annotations

import re
import sys
import tokenize
import tomllib
from pathlib import Path

KEPT = "# digested"  # behind a text that is part of what homes have pinned: it stays as it is
ROOT = Path(__file__).resolve().parents[1]


def main(folders: list[str]) -> int:
    """Print each place with what to write instead; 1 when there is any."""
    words: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["quarterdeck"][
        "words"
    ]
    # Not where it is a name: `nobody`, operator:nobody.
    pattern = re.compile(rf"(?<![`:])\b({'|'.join(map(re.escape, words))})\b(?![`:])", re.IGNORECASE)
    found = 0
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type not in (tokenize.COMMENT, tokenize.STRING) or KEPT in token.line:
                    continue
                for match in pattern.finditer(token.string):
                    line = token.start[0] + token.string.count("\n", 0, match.start())
                    instead = words[match.group().lower()]
                    print(f"{path.relative_to(ROOT)}:{line}: {match.group()!r}: {instead}")
                    found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

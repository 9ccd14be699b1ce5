"""The inputs that a batch file declares, read without its steps: a shell waits for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_LARGEST = 1 << 20
ENDINGS = (".yaml", ".yml", ".json")


def is_file(word: str) -> bool:
    """Whether `quarterdeck run` takes this word for a file rather than for the name of a saved batch."""
    return "/" in word or word.endswith(ENDINGS)


def inputs_in(file: str) -> dict[str, Any]:
    """The declared inputs by name; empty if the file has none or is no batch.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    with Path(file).expanduser().open("rb") as opened:
        text = opened.read(_LARGEST).decode("utf-8").removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        found = json.loads(text)
    else:
        # Imported here: only a batch file needs it.
        import yaml

        try:
            found = yaml.load(_block(text), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError as error:
            raise ValueError("no YAML") from error
    inputs = found.get("inputs") if isinstance(found, dict) else None
    return inputs if isinstance(inputs, dict) else {}


def _block(text: str) -> str:
    """The lines of the key `inputs` alone, so that a long batch takes no longer."""
    lines = iter(text.splitlines())
    block: list[str] = []
    for line in lines:
        if block and line[:1] not in ("", " ", "\t", "#", "}"):
            break
        if block or line.startswith("inputs:"):
            block.append(line)
    return "\n".join(block)

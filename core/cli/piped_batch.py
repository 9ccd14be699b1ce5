"""A batch that is piped into a command: `quarterdeck run -` reads it from standard input."""

from __future__ import annotations

import sys

from core.batch.batch_file import LARGEST
from core.broken_text import fault_words
from core.errors import BadInput, ErrorCode
from core.text import sentences

STANDARD_INPUT = "-"


def read_piped(other_reader: str = "") -> str:
    """The text on standard input to its end, of which `LARGEST` bytes and one more are read at most.

    It is read before a home is opened: what writes it may be a command that needs the same home.
    `other_reader` is an option that reads standard input as well.

    Raises:
        BadInput: nothing is piped into it, another option reads it, or it is not text.
    """
    if other_reader:
        raise BadInput(
            f"Standard input is the batch here, so {other_reader} cannot read it.",
            next_step="Give the input by --input KEY=@FILE, or the batch as a file.",
        )
    if sys.stdin.isatty():
        raise BadInput(
            "The batch is to come from standard input, and nothing is piped into it.",
            next_step="Write: quarterdeck run - < FILE, or: COMMAND | quarterdeck run -",
        )
    try:
        # Bytes, so that a limit in bytes bounds what is read.
        data = sys.stdin.buffer.read(LARGEST + 1)
        if len(data) > LARGEST:
            words = f"Standard input has more bytes than a batch may have; allowed are {LARGEST:,}."
            raise BadInput(words, ErrorCode.TOO_LARGE)
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput("Standard input is not text in UTF-8.") from None
    except (OSError, ValueError) as error:
        raise BadInput(sentences(f"Standard input cannot be read: {fault_words(error)}")) from error

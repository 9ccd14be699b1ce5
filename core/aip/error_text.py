"""Error codes inside AIP's one error string.

AIP's `Result.error` and `error` frames carry a plain sentence. We begin it with a code of `core.errors` and a
colon; a stock peer shows the whole as text, and our console gets the code back.
"""

from __future__ import annotations

from core.errors import ErrorCode, ErrorInfo, QuarterdeckError

_CODES = frozenset(ErrorCode)


def error_text(error: QuarterdeckError) -> str:
    """Write an error the way a device puts it into `Result.error`."""
    return f"{error.code.value}: {error.message}"


def read_error_text(text: str, default: ErrorCode = ErrorCode.TOOL_FAILED) -> ErrorInfo:
    """Read `Result.error` of any peer; a text that begins with no known code is `default`'s."""
    word, colon, rest = text.partition(": ")
    if colon and word in _CODES:
        return ErrorInfo.of(ErrorCode(word), rest)
    return ErrorInfo.of(default, text)

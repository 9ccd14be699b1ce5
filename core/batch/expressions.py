"""CEL expressions of batch files: compiled against what they may read, evaluated in bounded time.

An expression reads `inputs.NAME`, `device.name|tags|platform|os`, `steps.ID.FIELD` of steps that stand before
it, and, in an expectation, `result`. In the file it stands in `${{ … }}` (`core.batch.templates`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.batch.models import Input
from core.errors import BadInput, ErrorCode


class ExpressionError(BadInput):
    """An expression that cannot be compiled or evaluated. `line` and `column` count from 1 in its own text."""

    def __init__(
        self, message: str, line: int = 1, column: int = 1, code: ErrorCode = ErrorCode.INVALID_ARGUMENTS
    ) -> None:
        super().__init__(message, code)
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What expressions read of a step on one device.

    `status` is AIP's, `state` a `CellState`, `verdict` and `error` (an error code) are empty where there is
    none. `result` is None where there is none; reading a field of it then is an `ExpressionError`.
    """

    state: str
    status: str = "none"
    verdict: str = ""
    result: Any = None
    error: str = ""
    duration_ms: float = 0.0
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What expressions read of the device on which their step runs. `os` is the system with its version."""

    name: str = ""
    tags: tuple[str, ...] = ()
    platform: str = ""
    os: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may read.

    `steps` maps the ids of the steps before it to the output schema of their tool; None where it is not
    known. `result` is the output schema of the step itself, for an expectation; `has_result` whether there is
    a `result` at all.
    """

    inputs: Mapping[str, Input] = field(default_factory=dict)
    steps: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    device: bool = True
    has_result: bool = False
    result: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The values for one evaluation. `result` is read only by expectations."""

    inputs: Mapping[str, Any]
    steps: Mapping[str, StepFacts]
    device: DeviceFacts
    result: Any = None


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that an expression reads, as a path: `("steps", "disk", "result", "filesystems")`."""

    path: tuple[str, ...]
    line: int = 1
    column: int = 1


class Expression:
    """A compiled expression. `result_type` is CEL's name: bool, int, double, string, list, map or dyn."""

    text: str
    references: tuple[Reference, ...]
    result_type: str

    def evaluate(self, context: Context) -> Any:
        """The value, as JSON data.

        Raises:
            ExpressionError: a value it needs is missing, a type is wrong, or a bound is exceeded.
        """
        raise NotImplementedError


def compile_expression(text: str, scope: Scope) -> Expression:
    """Compile an expression and check its types against the scope.

    Raises:
        ExpressionError: the text is no expression, too long, too deeply nested, or reads what is not there.
    """
    raise NotImplementedError

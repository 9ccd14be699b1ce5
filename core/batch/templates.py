"""Texts of a batch file with expressions in `${{ … }}`, compiled: conditions, expectations and arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.batch.expressions import Context, Expression, Scope
from core.batch.models import Batch


def compile_condition(text: str, scope: Scope) -> Expression:
    """Compile a `when` or an expectation: a text that is wholly `${{ … }}`, whose value is true or false.

    Its `evaluate` returns a bool, and raises ExpressionError for any other value.

    Raises:
        ExpressionError: as `compile_expression`; also if the value cannot be true or false.
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a step. A text that is wholly `${{ … }}` yields its value with its type."""

    expressions: tuple[Expression, ...]

    def evaluate(self, context: Context) -> dict[str, Any]:
        """The arguments with all expressions replaced by their values.

        Raises:
            ExpressionError: as `Expression.evaluate`.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """The expressions of one step or approval step. `arguments` is None for an approval step."""

    when: Expression | None
    expect: tuple[Expression, ...]
    arguments: Arguments | None


def compile_batch(batch: Batch) -> dict[str, CompiledStep]:
    """Compile all expressions of a batch for a run, by step id, recovery steps and approval steps included.

    Types of results are not known here: they differ by device. The planner checks them.

    Raises:
        ExpressionError: the first mistake; the message names its step.
    """
    raise NotImplementedError

"""How a running call reports its progress to the console."""

from __future__ import annotations

from typing import Literal, Protocol


class Report(Protocol):
    """Reports a call's progress to the console; see `core.aip.extensions.Progress`. It never blocks."""

    def __call__(
        self,
        text: str = "",
        *,
        stream: Literal["stdout", "stderr", "note"] = "note",
        done: float | None = None,
        total: float | None = None,
        unit: str = "",
    ) -> None: ...


def no_progress(
    text: str = "",
    *,
    stream: Literal["stdout", "stderr", "note"] = "note",
    done: float | None = None,
    total: float | None = None,
    unit: str = "",
) -> None:
    """A `Report` that does nothing."""

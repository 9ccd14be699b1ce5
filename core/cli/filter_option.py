"""The option and the arguments of commands that take a filter of devices."""

from __future__ import annotations

from typing import Annotated

import typer

from core.models.device_filter import GRAMMAR

FilterOption = Annotated[
    str, typer.Option("--device", metavar="FILTER", help=f"Only devices that match this filter. {GRAMMAR}")
]
TargetArgument = Annotated[
    str, typer.Argument(metavar="DEVICE|FILTER", help=f"A device's name, a pattern, or a filter. {GRAMMAR}")
]
TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="DEVICE|FILTER...", help=f"A device's name, a pattern, or a filter. {GRAMMAR}"),
]

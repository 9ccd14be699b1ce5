"""The option of commands that takes a filter of devices."""

from __future__ import annotations

from typing import Annotated

import typer

from core.models.device_filter import GRAMMAR

FilterOption = Annotated[
    str, typer.Option("--device", metavar="FILTER", help=f"Only devices that match this filter. {GRAMMAR}")
]

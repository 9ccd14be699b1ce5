"""The base class of models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """Base of frozen models that cross the console API; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

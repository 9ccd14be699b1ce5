"""The half-built batch on the disk, so that a crash or a restart of the window loses nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.screens.batch.document import DEFAULT_TARGETS, NEW_NAME, BatchDocument, DraftStep, tidy

FILE = "window-draft.json"


class _StepOnDisk(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    tool: str
    parameters: dict[str, Any]
    timeout: float | None = None
    enabled: bool = True
    group: int = 0


class DraftOnDisk(BaseModel):
    """What is kept: the batch as it stands, complete or not, and where it was saved."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["quarterdeck.window-draft/1"] = "quarterdeck.window-draft/1"
    name: str = NEW_NAME
    description: str = ""
    targets: str = DEFAULT_TARGETS
    on_failure: Literal["stop", "continue"] = "stop"
    parallel: int = Field(default=5, ge=1, le=1000)
    steps: list[_StepOnDisk] = []
    saved_as: str = ""
    dirty: bool = False

    @classmethod
    def of(cls, content: BatchDocument, saved_as: str, dirty: bool) -> DraftOnDisk:
        """The batch as it is kept."""
        kept = asdict(content)
        for step in kept["steps"]:
            del step["key"]
        return cls.model_validate({**kept, "saved_as": saved_as, "dirty": dirty})

    def content(self) -> BatchDocument:
        """The batch as it was."""
        steps = tidy(DraftStep(**one.model_dump()) for one in self.steps)
        return BatchDocument(self.name, self.description, self.targets, self.on_failure, self.parallel, steps)

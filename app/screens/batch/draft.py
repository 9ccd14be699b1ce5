"""The half-built batch on the disk, so that a crash or a restart of the window loses nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from app.screens.batch.document import DEFAULT_TARGETS, NEW_NAME, BatchDocument, DraftStep, tidy

FILE = "window-draft.json"
_SETTINGS_BEFORE = ("description", "on_failure")


class _StepOnDisk(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    tool: str
    parameters: dict[str, Any]
    timeout: float | None = None
    enabled: bool = True
    group: int = 0
    recovers: bool = False
    flow: dict[str, Any] = {}


class DraftOnDisk(BaseModel):
    """What is kept: the batch as it stands, complete or not, and where it was saved."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["quarterdeck.window-draft/1"] = "quarterdeck.window-draft/1"
    name: str = NEW_NAME
    targets: str = DEFAULT_TARGETS
    settings: dict[str, Any] = {}
    steps: list[_StepOnDisk] = []
    saved_as: str = ""
    dirty: bool = False

    @model_validator(mode="before")
    @classmethod
    def _of_an_earlier_window(cls, kept: Any) -> Any:
        """Windows before this one kept three settings beside the name."""
        if not isinstance(kept, dict) or "parallel" not in kept:
            return kept
        settings = {name: kept[name] for name in _SETTINGS_BEFORE if kept.get(name)}
        rest = {name: value for name, value in kept.items() if name not in (*_SETTINGS_BEFORE, "parallel")}
        return {**rest, "settings": {**settings, "rollout": {"parallel": kept["parallel"]}}}

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
        return BatchDocument(self.name, self.targets, self.settings, steps)

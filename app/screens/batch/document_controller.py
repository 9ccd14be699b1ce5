"""The batch on the screen: its content, which step is open, what can be undone, and whether it is saved."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack
from shiboken6 import isValid

from app.screens.batch.document import (
    BatchDocument,
    DraftStep,
    Steps,
    changed_step,
    doubled,
    fields_of,
    free_id,
    grouped,
    inserted,
    moved,
    moved_by_one,
    recovering,
    removed,
    switched,
    why_not_grouped,
    why_not_recovering,
    why_not_switched,
    with_references,
)
from core.schema_forms.json_values import same_json

MERGE_WITHIN_S = 1.5
UNDO_LIMIT = 500
_TYPING = 1
THE_BATCH = -1
"""The `current` of `Chosen` while the batch itself is open, and no step of it."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The open step and all marked ones; 0 when there is none, `THE_BATCH` for the batch itself."""

    current: int = 0
    marked: frozenset[int] = frozenset()


class _Edit(QUndoCommand):
    """From one content to another. Edits of the same thing in quick succession become one."""

    def __init__(
        self,
        editor: DocumentController,
        words: str,
        after: BatchDocument,
        chosen: Chosen,
        same: tuple[Any, ...],
    ) -> None:
        super().__init__(words)
        self._editor = editor
        self._before, self._after = editor.content, after
        self._chosen_before, self._chosen_after = editor.chosen, chosen
        self._same = same
        self._at = time.monotonic()

    def id(self) -> int:
        return _TYPING if self._same else -1

    def mergeWith(self, other: QUndoCommand) -> bool:
        if not isinstance(other, _Edit) or other._same != self._same:
            return False
        if other._at - self._at > MERGE_WITHIN_S:
            return False
        self._after, self._chosen_after, self._at = other._after, other._chosen_after, other._at
        return True

    def name_changed(self, name: str, to: str) -> None:
        """The batch has another name on the disk; undoing this edit does not bring the old one back."""
        if self._before.name == name:
            self._before = replace(self._before, name=to)
        if self._after.name == name:
            self._after = replace(self._after, name=to)

    def redo(self) -> None:
        self._editor._take(self._after, self._chosen_after)

    def undo(self) -> None:
        self._editor._take(self._before, self._chosen_before)


class DocumentController(QObject):
    """Every change of a batch goes through here, and can be undone.

    Signals:
        changed: `content` is another one.
        chosen_changed: another step is open, or others are marked.
        saved_changed: `dirty`, `saved_as`, or what can be undone, is another one.
        replaced: another batch was loaded; what could be undone is gone.
    """

    changed = Signal()
    chosen_changed = Signal()
    saved_changed = Signal()
    replaced = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.content = BatchDocument()
        self.chosen = Chosen()
        self.saved_as = ""
        self.saved_name = ""
        self._base_is_saved = True
        self.undo_stack = QUndoStack(self)
        self.undo_stack.setUndoLimit(UNDO_LIMIT)
        self.undo_stack.cleanChanged.connect(self._stack_moved)
        self.undo_stack.indexChanged.connect(self._stack_moved)

    def _stack_moved(self, _now: object = None) -> None:
        # The stack says so also while it is deleted, together with this object.
        if isValid(self) and isValid(self.undo_stack):
            self.saved_changed.emit()

    @property
    def dirty(self) -> bool:
        """Whether there is something that would be lost by loading another batch."""
        return not (self.undo_stack.isClean() and self._base_is_saved)

    @property
    def current(self) -> DraftStep | None:
        """The open step."""
        return self.content.step(self.chosen.current)

    def load(self, content: BatchDocument, saved_as: str = "", dirty: bool = False) -> None:
        """Take another batch, with nothing to undo."""
        self.content = content
        self.saved_as, self.saved_name = saved_as, content.name if saved_as else ""
        self._base_is_saved = not dirty
        first = content.steps[0].key if content.steps else 0
        self.chosen = Chosen(first, frozenset({first} if first else ()))
        self.undo_stack.clear()
        self.undo_stack.setClean()
        self.replaced.emit()
        self.changed.emit()
        self.chosen_changed.emit()
        self.saved_changed.emit()

    def mark_saved(self, content: BatchDocument, saved_as: str) -> None:
        """`content` is on the disk now; what was typed since is not."""
        self.saved_as, self.saved_name = saved_as, content.name
        if content == self.content:
            self._base_is_saved = True
            self.undo_stack.setClean()
        self.saved_changed.emit()

    def saved_file_renamed(self, name: str, to: str) -> None:
        """The file of a saved batch has another name; an open batch that had its name has the new one too."""
        if self.saved_as != name:
            return
        self.saved_as = to
        if self.saved_name == name:
            self.saved_name = to
            for index in range(self.undo_stack.count()):
                edit = self.undo_stack.command(index)
                if isinstance(edit, _Edit):
                    edit.name_changed(name, to)
            if self.content.name == name:
                # No edit: there is nothing to undo, and the batch is as saved as before.
                self.content = replace(self.content, name=to)
                self.changed.emit()
        self.saved_changed.emit()

    def saved_file_deleted(self, name: str) -> None:
        """The file of a saved batch is gone; where it is the open one, that is saved nowhere any more."""
        if self.saved_as == name:
            self.saved_as, self.saved_name, self._base_is_saved = "", "", False
            self.saved_changed.emit()

    def choose(self, current: int, marked: Iterable[int] = ()) -> None:
        """Open a step, and mark it with others."""
        chosen = Chosen(current, frozenset(marked) | {current} if current > 0 else frozenset())
        if chosen != self.chosen:
            self.chosen = chosen
            self.chosen_changed.emit()

    def choose_id(self, step_id: str) -> None:
        """Open the step with this id, if there is one."""
        key = next((one.key for one in self.content.steps if one.id == step_id), 0)
        if key:
            self.choose(key)

    def _take(self, content: BatchDocument, chosen: Chosen) -> None:
        self.content = content
        before, self.chosen = self.chosen, chosen
        self.changed.emit()
        if chosen != before:
            self.chosen_changed.emit()

    def _push(
        self, words: str, content: BatchDocument, chosen: Chosen | None = None, same: tuple[Any, ...] = ()
    ) -> None:
        if content is self.content:
            return
        self.undo_stack.push(_Edit(self, words, content, chosen or self.chosen, same))

    def _push_steps(self, words: str, steps: Steps, chosen: Chosen | None = None) -> None:
        if steps != self.content.steps:
            self._push(words, replace(self.content, steps=steps), chosen)

    # The batch

    def rename(self, name: str) -> None:
        """Change the batch's name."""
        if name != self.content.name:
            self._push("rename the batch", replace(self.content, name=name), same=("name",))

    def set_targets(self, targets: str) -> None:
        """Change which devices are meant."""
        if targets != self.content.targets:
            self._push("change the devices", replace(self.content, targets=targets), same=("targets",))

    def set_settings(self, settings: dict[str, Any]) -> None:
        """Change what the batch says beside its name, devices and steps."""
        if typed := _changed_keys(self.content.settings, settings):
            self._push("change the batch", replace(self.content, settings=settings), same=("settings", typed))

    # The steps

    def add(self, tool: str, place: int | None = None, parameters: dict[str, Any] | None = None) -> int:
        """Put a new step before `place`, or behind the open one's block; returns its key and opens it."""
        name = free_id(tool.rpartition(".")[2].removeprefix("get_"), self.content.steps)
        return self._add(DraftStep(name, tool, parameters or {}), f"add {tool}", place)

    def add_approval(self) -> int:
        """Put a question to operators behind the open step's block; returns its key and opens it."""
        new = DraftStep(free_id("go_on", self.content.steps), "", flow={"approval": {}})
        return self._add(new, "add an approval step")

    def add_recovery(self, tool: str, of: int) -> int:
        """Put a new step at the end of the recovery of a step; returns its key and opens it."""
        steps = self.content.steps
        name = free_id(tool.rpartition(".")[2].removeprefix("get_"), steps)
        new = DraftStep(name, tool, recovers=True)
        place = self.content.place(of) + len(self.content.recovery_of(of)) + 1
        return self._add(new, f"add {tool}", place)

    def _add(self, new: DraftStep, words: str, place: int | None = None) -> int:
        steps = self.content.steps
        at = self._behind_current() if place is None else max(0, min(place, len(steps)))
        self._push_steps(words, inserted(steps, [new], at), Chosen(new.key, frozenset({new.key})))
        return new.key

    def _behind_current(self) -> int:
        steps, at = self.content.steps, self.content.place(self.chosen.current)
        if at < 0:
            return len(steps)
        group = steps[at].group
        for follower in steps[at + 1 :]:
            if not (follower.recovers or follower.group == group > 0):
                break
            at += 1
        return at + 1

    def move_to(self, keys: set[int], place: int) -> None:
        """Put steps before what stands at `place` now."""
        self._push_steps("move", moved(self.content.steps, keys, place))

    def move(self, down: bool) -> None:
        """Move the marked steps by one place."""
        self._push_steps("move", moved_by_one(self.content.steps, set(self.chosen.marked), down))

    def double(self) -> None:
        """Copy the marked steps."""
        steps, made = doubled(self.content.steps, set(self.chosen.marked))
        if made:
            self._push_steps("double", steps, Chosen(made[0], frozenset(made)))

    def remove(self) -> None:
        """Take the marked steps out; the next one is open then."""
        gone = self.chosen.marked
        places = [place for place, one in enumerate(self.content.steps) if one.key in gone]
        steps = removed(self.content.steps, set(gone))
        key = steps[min(places[0], len(steps) - 1)].key if places and steps else 0
        self._push_steps("remove", steps, Chosen(key, frozenset({key} if key else ())))

    def switch(self) -> None:
        """Switch the marked steps off, or on."""
        self._push_steps("switch off", switched(self.content.steps, set(self.chosen.marked)))

    def why_not_switch(self) -> str:
        """Why `switch` changes nothing; empty where it does."""
        return why_not_switched(self.content.steps, set(self.chosen.marked))

    def group(self) -> None:
        """Let the marked steps run in parallel, or no longer."""
        self._push_steps("run in parallel", grouped(self.content.steps, set(self.chosen.marked)))

    def why_not_group(self) -> str:
        """Why `group` changes nothing; empty where it does."""
        return why_not_grouped(self.content.steps, set(self.chosen.marked))

    def why_not_recover(self) -> str:
        """Why `recover` changes nothing; empty where it does."""
        return why_not_recovering(self.content.steps, set(self.chosen.marked))

    def recover(self) -> None:
        """Let the marked steps recover the one above them, or no longer."""
        self._push_steps("recover", recovering(self.content.steps, set(self.chosen.marked)))

    # The open step

    def set_parameters(self, key: int, parameters: dict[str, Any]) -> None:
        """Take over what was typed into the form."""
        step = self.content.step(key)
        if step is None or same_json(step.parameters, parameters):
            return
        typed = _changed_keys(step.parameters, parameters)
        self.change(key, ("with", typed), parameters=parameters)

    def set_flow(self, key: int, flow: dict[str, Any]) -> None:
        """Take over how a step goes on: its condition, its retries, what it asks."""
        step = self.content.step(key)
        if step is not None and (typed := _changed_keys(step.flow, flow)):
            self.change(key, ("flow", typed), flow=flow)

    def change(self, key: int, same: tuple[Any, ...], **changes: Any) -> None:
        """Change fields of one step; changes of the `same` thing soon after each other are undone as one."""
        steps = changed_step(self.content.steps, key, **changes)
        self._push("change", replace(self.content, steps=steps), same=(key, *same))

    def change_current(self, what: str, **changes: Any) -> None:
        """Change fields of the open step; nothing happens where there is none."""
        if (step := self.current) is not None:
            self.change(step.key, (what,), **changes)

    def follow_id(self, before: str, now: str) -> None:
        """A step has another id: expressions that read it by the one before read it by this one."""
        ids = [step.id for step in self.content.steps]
        if before and before not in ids and ids.count(now) == 1 and now.isidentifier():
            self._push_steps("follow the new id", with_references(self.content.steps, before, now))

    def take_text(self, value: dict[str, Any]) -> None:
        """Take the open step over from its text, which says all of it."""
        if self.chosen.current == THE_BATCH:
            self.set_settings(value)
        else:
            self.change_current("text", **fields_of(value))


def _changed_keys(before: dict[str, Any], after: dict[str, Any]) -> frozenset[str]:
    """The keys whose values are others."""
    return frozenset(
        name
        for name in before.keys() | after.keys()
        if (name in before) != (name in after) or not same_json(before.get(name), after.get(name))
    )

"""Choosing another batch, and the name that the first save asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from app.query import Mutation, Query
from app.screens.batch.document import DEFAULT_TARGETS, BatchDocument, DraftStep, content_of, free_id
from app.screens.batch.document_controller import DocumentController
from app.screens.batch.document_io import EXAMPLES, DocumentIO
from app.screens.batch.header import BatchHeader
from app.screens.batch.open_dialog import EXAMPLE, NEW, SAVED, TEMPLATE, OpenDialog
from app.screens.targets import OpenBatch, OpenTool
from app.service_client import ConsoleLink
from core.batch.models import SavedBatch
from core.errors import ErrorCode, QuarterdeckError
from core.service.batch_proposal import Proposal, propose
from core.service.console import Console

MOST_RECENT = 5


class OpenController(QObject):
    """What Open… and other screens bring here; what is not saved is asked about first.

    Signals:
        failed(what, what to do): the saved batches cannot be listed, or no batch can be proposed.
        proposed(remarks): a batch made of words is here, and what is to be said of it.
        loaded: a tool's form is what was asked for, and is there.
        tool_wanted: the devices are set, and a tool of theirs is to be chosen.
        left: the name was entered; the keyboard goes back to the steps.
        recent_changed: `recent` has other names of saved batches; the latest is first.
    """

    failed = Signal(str, str)
    loaded = Signal()
    proposed = Signal(str)
    tool_wanted = Signal()
    left = Signal()
    recent_changed = Signal()

    def __init__(
        self, screen: QWidget, editor: DocumentController, files: DocumentIO, head: BatchHeader
    ) -> None:
        super().__init__(screen)
        self._screen, self._editor, self._files, self._head = screen, editor, files, head
        self._link: ConsoleLink | None = None
        self._saved: Query[list[SavedBatch]] | None = None
        self._proposal: Query[Proposal] | None = None
        self._asking_name = False
        self.recent: list[str] = []
        head.name.entered.connect(self._name_entered)
        head.name.editingFinished.connect(self._name_left)
        files.name_wanted.connect(self._ask_name)
        editor.saved_changed.connect(self.show_saved)
        files.opened.connect(self._note_recent)
        files.saved.connect(self._note_recent)

    def bind(self, link: ConsoleLink) -> None:
        """Where to ask."""
        self._link = link
        self._saved = Query(self, link, self._choose, self._cannot_list, "list the batches")
        self._proposal = Query(self, link, self._show_proposal, self._cannot_propose, "propose a batch")

    def _note_recent(self, name: str, gone: str = "") -> None:
        others = [one for one in self.recent if one not in (name, gone)]
        self.recent = [*([name] if name else []), *others][:MOST_RECENT]
        self.recent_changed.emit()

    def ask(self) -> None:
        """Show what can be opened."""
        if self._saved is not None:
            self._saved.load(lambda console: console.runs.saved_batches())

    def propose(self, words: str) -> None:
        """Make a batch of words, for the devices of the open one; what is not saved is asked about first."""
        targets = self._editor.content.targets
        if self._proposal is not None:
            self._proposal.load(lambda console: propose(console, words, targets))

    def _show_proposal(self, proposal: Proposal) -> None:
        def load() -> None:
            self._editor.load(content_of(proposal.batch), dirty=True)
            self.proposed.emit("\n".join(proposal.notes))

        self._files.replace_with(load)

    def _cannot_propose(self, error: QuarterdeckError) -> None:
        self.failed.emit(error.message, "Say it in other words, or choose other devices.")

    def _cannot_list(self, error: QuarterdeckError) -> None:
        self.failed.emit(f"The saved batches cannot be listed. {error.message}", error.info.next)

    def _choose(self, saved: list[SavedBatch]) -> None:
        sheet = OpenDialog(self._screen.window(), saved, self.recent)
        sheet.finished.connect(self._open)
        sheet.question.rename_wanted.connect(lambda name, to: self._rename(sheet, name, to))
        sheet.question.delete_wanted.connect(lambda name: self._delete(sheet, name))
        sheet.open(focus=sheet.search)

    def _rename(self, sheet: OpenDialog, name: str, to: str) -> None:
        async def rename(console: Console) -> list[SavedBatch]:
            await console.runs.rename_batch(name, to)
            return await console.runs.saved_batches()

        def renamed(saved: list[SavedBatch]) -> None:
            self._editor.saved_file_renamed(name, to)
            if name in self.recent:
                self._note_recent(to, gone=name)
            self._show_files(sheet, saved, to)

        self._change(sheet, rename, renamed, "rename the batch")

    def _delete(self, sheet: OpenDialog, name: str) -> None:
        async def delete(console: Console) -> list[SavedBatch]:
            await console.runs.delete_batch(name)
            return await console.runs.saved_batches()

        def deleted(saved: list[SavedBatch]) -> None:
            self._editor.saved_file_deleted(name)
            self._note_recent("", gone=name)
            self._show_files(sheet, saved)

        self._change(sheet, delete, deleted, "delete the batch")

    def _change(
        self,
        sheet: OpenDialog,
        change: Callable[[Console], Awaitable[list[SavedBatch]]],
        done: Callable[[list[SavedBatch]], None],
        what: str,
    ) -> None:
        def refused(error: QuarterdeckError) -> None:
            # The general advice of this code is about arguments of a call.
            advice = "" if error.code is ErrorCode.INVALID_ARGUMENTS else f" {error.info.next}"
            if _is_open(sheet):
                sheet.question.say(f"{error.message}{advice}")
            else:
                self.failed.emit(error.message, advice.strip())

        assert self._link is not None
        Mutation(self, self._link, done, refused, what).run(change)

    @staticmethod
    def _show_files(sheet: OpenDialog, saved: list[SavedBatch], choose: str = "") -> None:
        # The sheet may have been closed while the service was asked.
        if _is_open(sheet):
            sheet.question.close_question()
            sheet.show_saved(saved, choose)

    def _open(self, answer: str) -> None:
        if answer.startswith(SAVED):
            self._files.open_saved(answer.removeprefix(SAVED))
        elif answer.startswith(EXAMPLE):
            self._files.open_example(EXAMPLES / answer.removeprefix(EXAMPLE))
        elif answer.startswith(TEMPLATE):
            self._files.open_saved(answer.removeprefix(TEMPLATE), as_template=True)
        elif answer == NEW:
            targets = self._editor.content.targets
            self._files.replace_with(lambda: self._editor.load(BatchDocument(targets=targets)))

    def open_tool(self, target: OpenTool) -> None:
        """A new batch of one step, or of none where the tool is still to be chosen; nothing is sent."""
        self._files.replace_with(lambda: self._load_tool(target))

    def _load_tool(self, target: OpenTool) -> None:
        targets = f"name:{_quoted(target.device)}"
        if not target.tool_name:
            self._editor.load(BatchDocument(targets=targets))
            self.tool_wanted.emit()
            return
        step = DraftStep(
            free_id(target.tool_name.removeprefix("get_"), ()), target.tool_name, dict(target.parameters)
        )
        name = f"{target.tool_name} on {target.device}"[:200]
        self._editor.load(BatchDocument(name=name, targets=targets, steps=(step,)))
        self.loaded.emit()

    def open_batch(self, target: OpenBatch) -> None:
        """A saved batch, or a new one for some devices."""
        targets = target.targets or DEFAULT_TARGETS
        if target.name:
            self._files.open_saved(target.name)
        elif not self._editor.content.steps and not self._editor.saved_as:
            self._editor.set_targets(targets)
        else:
            self._files.replace_with(lambda: self._editor.load(BatchDocument(targets=targets)))

    # The name

    def show_saved(self) -> None:
        """Say whether something is not saved, or that a name is asked for."""
        editor = self._editor
        new = bool(editor.content.steps) and not editor.saved_as
        self._head.show_saved(editor.dirty or new, self._asking_name)

    def _ask_name(self) -> None:
        self._asking_name = True
        self.show_saved()
        self._head.name.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._head.name.selectAll()

    def _name_entered(self) -> None:
        if self._asking_name and self._editor.content.name.strip():
            self._asking_name = False
            self.show_saved()
            self._files.save()
        self.left.emit()

    def _name_left(self) -> None:
        if self._asking_name:
            self._asking_name = False
            self._files.forget_wish()
            self.show_saved()


def _quoted(name: str) -> str:
    """A device's name as a filter's value; quoted where it would mean something else."""
    plain = not any(sign.isspace() or sign in ":,!\"'*?" for sign in name)
    return name if plain else f'"{name}"' if '"' not in name else f"'{name}'"


def _is_open(sheet: OpenDialog) -> bool:
    return isValid(sheet) and sheet.isVisible()

"""Saving, opening, and the draft that survives the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.autosave import Autosave
from app.qt_loop import ended
from app.query import Declined, Mutation, Query
from app.screens.batch.document import (
    NEW_NAME,
    BatchDocument,
    DraftStep,
    content_of,
    without_secret_defaults,
)
from app.screens.batch.document_controller import DocumentController
from app.screens.batch.draft import FILE, DraftOnDisk
from app.service_client import ConsoleLink
from app.widgets.dialog import Dialog
from core.batch.batch_file import read_batch
from core.batch.models import Batch
from core.errors import BadInput, ErrorCode, QuarterdeckError
from core.log import Logger

log = Logger(__name__)

EXAMPLES = Path(__file__).resolve().parents[3] / "resources" / "batches"
DRAFT_PAUSE_MS = 1000
SAVE_AGAIN = "Correct what it says, then save again."
SAVE, DISCARD, REPLACE = "save", "discard", "replace"


class DocumentIO(QObject):
    """What lies between the batch on the screen and the disk.

    Signals:
        saved(name): the batch was saved.
        opened(name): a saved batch is on the screen now.
        failed(what, what to do): it was not, or something cannot be read.
        name_wanted: the batch is saved for the first time and has no name of its own yet.
    """

    saved = Signal(str)
    opened = Signal(str)
    failed = Signal(str, str)
    name_wanted = Signal()

    def __init__(
        self, screen: QWidget, editor: DocumentController, kept: Callable[[DraftStep], DraftStep]
    ) -> None:
        """`kept` gives a step as the draft may keep it."""
        super().__init__(screen)
        self._kept = kept
        self._screen, self._editor = screen, editor
        self._link: ConsoleLink | None = None
        self._autosave: Autosave[DraftOnDisk] | None = None
        self._after_save: Callable[[], None] | None = None
        self._save: Mutation[tuple[str, BatchDocument]] | None = None
        self._opened: Query[Batch] | None = None
        self._opening, self._as_template = "", False

    def bind(self, link: ConsoleLink, folder: Path) -> None:
        """Where to ask, and where the draft is kept; brings back the draft of the last window."""
        self._link = link
        self._save = Mutation(
            self, link, self._saved, self._not_saved, "save the batch", declined=self.forget_wish
        )
        self._opened = Query(self, link, self._load_opened, self._say_not_opened, "load the batch")
        self._autosave = Autosave(
            self, link, folder / FILE, DraftOnDisk, self._draft, self.failed.emit, "batch", DRAFT_PAUSE_MS
        )
        if (draft := self._autosave.read()) is not None:
            self._editor.load(draft.content(), draft.saved_as, draft.dirty)
        self._editor.changed.connect(self._autosave.keep_soon)
        self._editor.saved_changed.connect(self._autosave.keep_soon)

    # The draft

    def _draft(self) -> DraftOnDisk:
        editor = self._editor
        steps = tuple(self._kept(step) for step in editor.content.steps)
        settings = without_secret_defaults(editor.content.settings)
        kept = replace(editor.content, steps=steps, settings=settings)
        return DraftOnDisk.of(kept, editor.saved_as, editor.dirty)

    def keep_now(self) -> None:
        """Write what is not written yet before the window goes."""
        if self._autosave is not None:
            self._autosave.keep_now()

    # Saving

    def save(self, then: Callable[[], None] | None = None) -> None:
        """Save the batch; the first time its name is asked for. `then` is called when it is saved."""
        editor = self._editor
        name = editor.content.name.strip()
        if not name or (name == NEW_NAME and not editor.saved_as):
            self._after_save = then
            self.name_wanted.emit()
            return
        try:
            batch = editor.content.as_batch()
        except BadInput as error:
            self.failed.emit(f"The batch cannot be saved. {error.message}", "Correct it, then save again.")
            return
        if self._save is None or self._save.running:
            return
        if then is not None:
            self._after_save = then
        own = editor.saved_as if editor.saved_as and name == editor.saved_name else name
        content, is_new = editor.content, own != editor.saved_as
        self._save.carry(lambda: self._save_batch(own, batch, content, is_new))

    @property
    def saving(self) -> bool:
        """Whether the batch is being saved, or another one's replacement asked about."""
        return self._save is not None and self._save.running

    async def _save_batch(
        self, name: str, batch: Batch, content: BatchDocument, is_new: bool
    ) -> tuple[str, BatchDocument]:
        """Save under a name that is `is_new` to this batch, unless another one's is to be kept.

        Raises:
            Declined: the operator keeps the other batch of this name.
            QuarterdeckError: what the service answers.
        """
        assert self._link is not None
        if is_new and name in await self._link.perform(lambda console: console.runs.batch_names()):
            await self._ask_replace(name)
        await self._link.perform(lambda console: console.runs.save_batch(name, batch))
        return name, content

    async def _ask_replace(self, name: str) -> None:
        sheet = Dialog(
            self._screen.window(),
            f"Replace the saved batch “{name}”?",
            "There is one of this name already. Cancel, and give this one another name to keep both.",
        )
        sheet.add_answer("", "Cancel")
        sheet.add_answer(REPLACE, "Replace it", "danger", primary=True)
        sheet.open()
        if await ended(sheet.finished) != REPLACE:
            raise Declined("The saved batch of this name is kept.")

    def _saved(self, saved: tuple[str, BatchDocument]) -> None:
        name, content = saved
        self._editor.mark_saved(content, name)
        self.saved.emit(name)
        then, self._after_save = self._after_save, None
        if then is not None:
            then()

    def _not_saved(self, error: QuarterdeckError) -> None:
        self.forget_wish()
        # The general advice of this code is about arguments of a call.
        bad_input = error.code is ErrorCode.INVALID_ARGUMENTS
        self.failed.emit(error.message, SAVE_AGAIN if bad_input else error.info.next)

    def forget_wish(self) -> None:
        """The operator who was asked for a name does not want to save any more."""
        self._after_save = None

    # Loading another one

    def replace_with(self, load: Callable[[], None]) -> None:
        """Call `load` when what is on the screen is saved or given up."""
        if not self._editor.dirty or not self._editor.content.steps:
            load()
        elif self._link is not None:
            self._link.spawn("ask about unsaved changes", self._ask_unsaved(load))

    async def _ask_unsaved(self, load: Callable[[], None]) -> None:
        name = self._editor.content.name or NEW_NAME
        sheet = Dialog(
            self._screen.window(),
            f"Save “{name}” first?",
            "It has changes that are not saved. Another batch takes its place on this screen.",
        )
        sheet.add_answer("", "Cancel")
        sheet.add_answer(DISCARD, "Discard changes", "danger")
        sheet.add_answer(SAVE, "Save", "primary")
        sheet.open(focus=sheet.answer(SAVE))
        answer = await ended(sheet.finished)
        if answer == DISCARD:
            load()
        elif answer == SAVE:
            self.save(then=load)

    def open_saved(self, name: str, as_template: bool = False) -> None:
        """Load a saved batch; `as_template`, as the beginning of a new one, which leaves it as it is."""
        if self._opened is not None:
            self._opening, self._as_template = name, as_template
            self._opened.load(lambda console: console.runs.load_batch(name))

    def _load_opened(self, batch: Batch) -> None:
        if self._as_template:
            content = replace(content_of(batch), name=NEW_NAME)
            self.replace_with(lambda: self._editor.load(content, dirty=True))
        else:
            self._show(batch, self._opening)

    def _show(self, batch: Batch, name: str = "") -> None:
        def load() -> None:
            self._editor.load(content_of(batch), name)
            if name:
                self.opened.emit(name)

        self.replace_with(load)

    def _say_not_opened(self, error: QuarterdeckError) -> None:
        self.failed.emit(error.message, error.info.next)

    def open_example(self, path: Path) -> None:
        """Load an example; saving it makes a batch of the operator's own."""
        try:
            batch = read_batch(path.read_text(encoding="utf-8"), path.name)
        except (OSError, BadInput) as error:
            self.failed.emit(f"The example cannot be read: {error}", "Choose another one.")
            return
        self._show(batch)


def examples() -> list[tuple[Path, Batch]]:
    """The batches that come with the program; what cannot be read is left out and logged."""
    batches: list[tuple[Path, Batch]] = []
    for path in sorted(EXAMPLES.glob("*.yaml")):
        try:
            batches.append((path, read_batch(path.read_text(encoding="utf-8"), path.name)))
        except (OSError, BadInput) as error:
            log.warning("example batch cannot be read", path=str(path), problem=str(error))
    return batches

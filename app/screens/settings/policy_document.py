"""What lies between the policy on the screen and policy.toml: reading, checking, drafts, saving."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from PySide6.QtCore import QObject, Signal

from app.autosave import Autosave
from app.query import Mutation, Query
from app.service_client import ConsoleLink
from app.signing.change_signing import ChangeSigning
from app.widgets.util import debounce
from core.canonical_json import sha256_hex
from core.errors import ErrorCode, QuarterdeckError, Refused
from core.policy.models import PolicyCheck, PolicyText
from core.service.console import PolicyStatus
from core.service.wishes import policy_change

CHECK_PAUSE_MS = 300
DRAFT_PAUSE_MS = 800
FILE = "window-policy-draft.json"


class PolicyDraft(BaseModel):
    """A text that was not saved, and the digest of the file that it was begun from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["quarterdeck.policy-draft/1"] = "quarterdeck.policy-draft/1"
    text: str
    digest: str


class PolicyDocument(QObject):
    """Keeps one edited text beside the file it came from.

    Signals:
        loaded(text): show this text; it came from the disk, or from the draft of an earlier window.
        checked(PolicyCheck): what was found in the text as it stands.
        stands_changed: `dirty`, `saving` or `conflict` is different.
        failed(what, what to do): something could not be read, kept or saved.
        came_back: the file was read, after a time in which it could not be.
        saved: the text is the policy now.
    """

    loaded = Signal(str)
    checked = Signal(object)
    stands_changed = Signal()
    failed = Signal(str, str)
    came_back = Signal()
    saved = Signal()

    def __init__(
        self,
        parent: QObject,
        link: ConsoleLink,
        signing: ChangeSigning,
        folder: Path,
        text: Callable[[], str],
    ) -> None:
        super().__init__(parent)
        self._link, self._signing, self._text = link, signing, text
        self.base: PolicyText | None = None
        self.conflict: PolicyText | None = None
        self._disk = Query(self, link, self._came, self._not_read, "read the policy")
        self._checks = Query(self, link, self._show_check, self._not_checked, "check the policy")
        self._saving = Mutation(
            self, link, self._saved, self._not_saved, "save the policy", declined=self.stands_changed.emit
        )
        self._sent = ""
        self._lost = False
        self._not_taken: QuarterdeckError | None = None
        self._base_shown = ""
        self._save_when_checked = False
        self._check_soon = debounce(self, CHECK_PAUSE_MS, self.check_now)
        self._autosave = Autosave(
            self, link, folder / FILE, PolicyDraft, self._draft, self.failed.emit, "policy", DRAFT_PAUSE_MS
        )

    @property
    def saving(self) -> bool:
        """Whether the text is on its way to become the policy, perhaps to be signed first."""
        return self._saving.running

    @property
    def dirty(self) -> bool:
        """Whether the text is another one than was read or saved last."""
        return self.base is not None and self._text() != self._base_shown

    @property
    def found(self) -> PolicyCheck | None:
        """What was found in the text as it stands; None while that is not known."""
        return self._checks.value if self._checks.key == self._text() else None

    # Reading

    def read(self) -> None:
        """Read the file; another text there replaces this one, unless this one was edited."""
        self._disk.load(lambda console: console.policy.text())

    def _came(self, disk: PolicyText) -> None:
        if self._lost:
            self._lost = False
            self.came_back.emit()
        if self.base is None:
            self._begin(disk)
        elif disk.digest == self.base.digest:
            self.base = disk
            self.conflict = None
        elif self.conflict is None and not self.dirty:
            self._show(disk, disk.text)
        else:
            self.conflict = disk
        self._say_not_taken()
        self.stands_changed.emit()

    def _begin(self, disk: PolicyText) -> None:
        draft = self._autosave.read()
        self._show(disk, disk.text)
        if draft is None or draft.text == disk.text:
            return
        if draft.digest != disk.digest:
            self.base = disk.model_copy(update={"digest": draft.digest})
            self.conflict = disk
        self.loaded.emit(draft.text)
        self.check_now()

    def _show(self, disk: PolicyText, text: str) -> None:
        self.base, self.conflict = disk, None
        self.loaded.emit(text)
        # As the editor gives it back: line ends, for one, are all alike there.
        self._base_shown = self._text()
        self.check_now()

    def _not_read(self, error: QuarterdeckError) -> None:
        self._lost = True
        self.failed.emit(f"The policy cannot be read. {error.message}", error.info.next)

    # Editing

    def edited(self) -> None:
        """The operator typed; check soon, keep soon."""
        if self.base is not None:
            self._check_soon.start()
            self._autosave.keep_soon()
            self.stands_changed.emit()

    def check_now(self) -> None:
        """Check the text as it stands."""
        self._check_soon.stop()
        if self.base is not None:
            text = self._text()
            self._checks.load(lambda console: console.policy.check(text), text)

    def _show_check(self, check: PolicyCheck) -> None:
        if self.found is None:
            return  # the text was edited meanwhile, and is checked soon
        self.checked.emit(check)
        self.stands_changed.emit()
        if self._save_when_checked:
            self._save_when_checked = False
            self.save()

    def _not_checked(self, error: QuarterdeckError) -> None:
        self._save_when_checked = False
        self.failed.emit(f"The policy was not checked. {error.message}", error.info.next)

    # The draft

    def _draft(self) -> PolicyDraft | None:
        return PolicyDraft(text=self._text(), digest=self.base.digest) if self.base and self.dirty else None

    def keep_now(self) -> None:
        """Write what is not written yet, before the window or the screen goes."""
        if self.base is not None:
            self._autosave.keep_now()

    # Saving

    def save(self) -> None:
        """Make the text the policy, when nothing is wrong with it; unchecked, it is checked first."""
        if self.base is None or self.saving or not self.dirty:
            return
        if self.conflict is not None:
            self.stands_changed.emit()
            return
        found = self.found
        if found is None:
            self._save_when_checked = True
            self.check_now()
        elif found.ok:
            self._send()

    def _send(self) -> None:
        """Have it signed where it lets more run, and make it the policy; until then nothing is changed."""
        assert self.base is not None
        self._sent = text = self._text()
        digest = self.base.digest
        self._saving.carry(
            lambda: self._signing.carry_out(
                policy_change(text), lambda console, signed: console.policy.save(text, digest, signed), text
            )
        )
        self.stands_changed.emit()

    def _saved(self, _status: PolicyStatus) -> None:
        assert self.base is not None
        text = self._sent
        fresh = {"text": text, "digest": sha256_hex(text.encode()), "problem": "", "accepted": text}
        self.base, self._base_shown = self.base.model_copy(update=fresh), text
        self._autosave.keep_soon(0)
        self.saved.emit()
        self.stands_changed.emit()

    def _not_saved(self, error: QuarterdeckError) -> None:
        if isinstance(error, Refused) or error.info.code is ErrorCode.APPROVAL_INVALID:
            # Where another program changed the file, what is there now says what to decide.
            self._not_taken = error
            self.read()
        else:
            self._say_not_saved(error)
        self.stands_changed.emit()

    def _say_not_taken(self) -> None:
        """The file is the one that was edited: it was refused for another reason, which is said."""
        error, self._not_taken = self._not_taken, None
        if error is not None and self.conflict is None:
            self._say_not_saved(error)

    def _say_not_saved(self, error: QuarterdeckError) -> None:
        self.failed.emit(f"The policy was not saved. {error.message}", error.info.next)

    # When the file was changed by another program

    def take_disk(self) -> None:
        """Show the file as it is now; what was typed here is given up."""
        if (disk := self.conflict) is not None:
            self._show(disk, disk.text)
            self._autosave.keep_soon(0)
            self.stands_changed.emit()

    def keep_mine(self) -> None:
        """Go on with this text, knowing the file as it is now; saving replaces it from here on."""
        if (disk := self.conflict) is not None:
            self.base, self.conflict = disk, None
            self._base_shown = disk.text
            self._autosave.keep_soon()
            self.stands_changed.emit()

"""The policy file in force: read when it was edited, kept for its denials while it is broken.

What it says of a call is judged by `core.policy.judging`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from core.errors import BadInput
from core.fleet.models import Device, Plain
from core.home import write_private
from core.policy.examples import run_examples
from core.policy.grants import GrantBook, GrantMiss
from core.policy.judging import Asked, Judge, question_of
from core.policy.models import Decision, Profile
from core.policy.overrides import Overrides
from core.policy.policy_file import PolicyFile, read_policy, write_profile
from core.policy.rule_book import NearMiss


class Explanation(Plain):
    """A decision, and what nearly made it another one."""

    decision: Decision
    near: list[NearMiss]
    near_grants: list[GrantMiss]


class Policy:
    """Judges commands. It reads one file and knows nothing of devices' links, queues or the journal."""

    def __init__(
        self, path: Path, changed: Callable[[], None] = lambda: None, grants: GrantBook | None = None
    ) -> None:
        """`changed` is called when the file was found to be another one than before."""
        self._path = path
        self._changed = changed
        self._seen: tuple[int, ...] = ()
        self._judge = Judge(PolicyFile())
        self.overrides = Overrides()
        self._kept = path.with_name(f"{path.stem}.last-good{path.suffix}")
        self.grants = grants or GrantBook()
        self.problem = ""

    def load(self) -> Policy:
        """Read the file again. A broken one is not an error here: everything asks until it is mended.

        The last good one stays in force for what it denies, also over a restart.
        """
        # Looked at first: a change between the two is seen the next time.
        self._seen = _look(self._path)
        try:
            self._use(checked_policy(self._path))
            self.problem = ""
            self._keep()
        except BadInput as error:
            if not self.problem:
                self._use_kept()
            self.problem = error.message
        return self

    def refresh(self) -> None:
        """Read the file again if it was edited: that counts from the next decision on."""
        if _look(self._path) != self._seen:
            self.load()
            self._changed()

    @property
    def profile(self) -> Profile:
        """The profile for every device that has none of its own."""
        return self.file.profile

    @property
    def path(self) -> Path:
        return self._path

    @property
    def file(self) -> PolicyFile:
        """What holds now; while the file is broken, the last good one, of which only denials count."""
        return self._judge.file

    def set_profile(self, profile: Profile) -> None:
        """Write another profile into the file and use it.

        Raises:
            BadInput: the file is broken or cannot be written; nothing changed.
        """
        write_profile(self._path, profile)
        self.load()

    def profile_of(self, device: Device) -> Profile:
        """The profile that holds for one device."""
        return self.file.profile_for(device)[0]

    def decide(self, asked: Asked, refreshed: bool = False) -> Decision:
        """Judge one call. The answer is the object that is enforced, shown and journalled.

        `refreshed`: the file was looked at for this very call already, as `Fleet.target` does.
        """
        if not refreshed:
            self.refresh()
        return self._judge.decide(asked, self.grants, self.problem)

    def explain(self, asked: Asked) -> Explanation:
        """Judge one call, and say which rules and grants nearly spoke of it."""
        decision = self.decide(asked)
        question = question_of(asked, decision.risk)
        near = self._judge.book.near(question)
        return Explanation(decision=decision, near=near, near_grants=self.grants.near(question, asked.run))

    @property
    def folders(self) -> set[str]:
        """Every folder that a rule or a grant names with `below`."""
        return {*self._judge.book.folders, *self.grants.folders}

    def _use(self, file: PolicyFile) -> None:
        self._judge = Judge(file)
        if file.contracts != self.overrides.entries:
            # The same object as long as the same holds: who has judged by it need not judge again.
            self.overrides = Overrides(file.contracts)

    def _keep(self) -> None:
        """Remember what is good, so that a service that starts on a broken file still denies."""
        try:
            if self._path.exists():
                text = self._path.read_text("utf-8")
                if not self._kept.exists() or self._kept.read_text("utf-8") != text:
                    write_private(self._kept, text)
            else:
                self._kept.unlink(missing_ok=True)
        except (OSError, UnicodeDecodeError):
            # Only what a later, broken file would still deny is lost by this; the policy itself holds.
            return

    def _use_kept(self) -> None:
        try:
            if self._kept.exists():
                self._use(checked_policy(self._kept))
        except BadInput:
            return


def checked_policy(path: Path) -> PolicyFile:
    """Read a policy and run its examples.

    Raises:
        BadInput: it cannot be read or understood, or an example says otherwise than its rule; says where.
    """
    file = read_policy(path)
    for result in run_examples(file):
        if not result.ok:
            kind = "match" if result.wanted else "not_match"
            at = f" line {result.line}" if result.line else ""
            raise BadInput(f"policy.toml{at}: rule {result.rule}, {kind} {result.number}: {result.fault}")
    return file


def _look(path: Path) -> tuple[int, ...]:
    """What changes with the file: nothing where there is none, and which error where it cannot be seen."""
    try:
        seen = os.stat(path)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (error.errno or -1,)
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_mode)

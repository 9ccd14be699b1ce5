"""Whether the journal is whole: the last verification, one that runs, and what to do when it failed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.text import clock, count_words, parse_time, plural
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.banner import Banner, BannerKind, LinkOffer, Notice
from app.widgets.labels import set_surface
from app.widgets.layouts import hbox, vbox
from app.widgets.progress import Progress
from core.errors import QuarterdeckError
from core.service.console import JournalStatus, VerifyReport

OLD_AFTER = timedelta(hours=24)


class VerifyBanner(QWidget):
    """Two lines at most: that the journal cannot be written, and whether it verifies.

    Signals:
        entry_wanted: show the entry with this number.
    """

    entry_wanted = Signal(int)

    def __init__(self, verify: Action) -> None:
        """`verify` checks everything."""
        super().__init__()
        self._verify = verify
        self.unwritable = Banner()
        self.banner = Banner()
        self.progress = Progress("Verification of the journal")
        self._running = QWidget()
        set_surface(self._running, "accent_tint")
        self._running.setFixedHeight(40)
        hbox(self.progress, parent=self._running, margins=(SPACE.pane, 0, SPACE.pane, 0), spacing=None)
        self._running.hide()
        self.advice = Notice("fail", "", "")
        self._advice_row = QWidget()
        set_surface(self._advice_row, "base")
        vbox(
            self.advice,
            parent=self._advice_row,
            margins=(SPACE.pane, SPACE.small, SPACE.pane, SPACE.small),
            spacing=None,
        )
        self._advice_row.hide()
        vbox(self.unwritable, self.banner, self._running, self._advice_row, parent=self)
        self._status: JournalStatus | None = None
        self._report: VerifyReport | None = None
        self._home = ""
        self._problem = ""
        self.banner.acted.connect(self._act)
        self.unwritable.acted.connect(self._act)

    @property
    def running(self) -> bool:
        """Whether a verification is under way."""
        return not self._running.isHidden()

    def show_status(self, status: JournalStatus | None, home: str) -> None:
        """Say what the service knows."""
        self._status, self._home = status, home
        if status is not None:
            self._show_writable(status)
            self._show_verified(status)

    def start(self) -> None:
        """A verification began."""
        entries = count_words(self._status.entries) if self._status else ""
        self.progress.show_progress(None, f"Checking {entries} entries and every stored blob…")
        self._problem = ""
        self._running.show()
        self.banner.hide()
        self._advice_row.hide()

    def show_work(self, done: int, total: int) -> None:
        """It has come so far."""
        if not self.running or total <= 0:
            return
        if done < total:
            words = f"Checked {count_words(done)} of {count_words(total)} entries…"
            self.progress.show_progress(done / total, words)
        else:
            self.progress.show_progress(None, "Checking that every query finds what is there, and the blobs…")

    def end(self, report: VerifyReport) -> None:
        """It ended."""
        self._report = report
        self._running.hide()
        self._show_verified(self._status)

    def fail(self, error: QuarterdeckError) -> None:
        """It could not be carried out, which says nothing about the journal."""
        self._problem = error.info.sentences
        self._running.hide()
        self._show_verified(self._status)

    # words

    def _show_writable(self, status: JournalStatus) -> None:
        if status.writable:
            self.unwritable.hide()
            return
        reason = status.problem.rstrip(".") or "The reason is not known"
        reason = reason[:1].upper() + reason[1:]
        self.unwritable.say(
            "fail",
            "The journal cannot be written, so no action is sent.",
            f"{reason}. Make room on the disk and check the rights of {self._home or 'the home'};"
            " then restart the service.",
        )

    def _show_verified(self, status: JournalStatus | None) -> None:
        if self.running:
            return
        report = self._current_report(status)
        if self._problem:
            self.banner.say("warn", "Not verified.", self._problem, ((self._verify, "Try again"),))
            return
        at = report.checked_at if report else status.verified_at if status else None
        ok = report.ok if report else status.verified_ok if status else None
        if ok is False:
            self._say_failed(report, status)
            return
        self._advice_row.hide()
        if at is None or ok is None:
            self.banner.say(
                "warn",
                "Not verified yet.",
                "The entries were not checked since the service started.",
                ((self._verify, "Verify now"),),
            )
        elif datetime.now(UTC) - parse_time(at) > OLD_AFTER:
            detail = f"The last check was {clock(at)}; there has been none since."
            self.banner.say("warn", "Verified more than a day ago.", detail, ((self._verify, "Verify now"),))
        else:
            self._say_verified(report, status, at)

    def _say_verified(self, report: VerifyReport | None, status: JournalStatus | None, at: str) -> None:
        checked = report.entries if report else status.verified_entries if status else 0
        newer = max(0, (status.entries if status else checked) - checked)
        detail = self._ok_detail(report, status, at)
        if not newer:
            self.banner.say("ok", "Everything verifies.", detail, ((self._verify, "Verify again"),))
            return
        of = f"{count_words(checked)} of {plural(checked + newer, 'entry', 'entries')} verify."
        detail = f"{count_words(newer)} newer not looked at yet. {detail}"
        # A few that were written since are what one expects; most of the journal unseen is not.
        kind: BannerKind = "ok" if newer * 10 <= checked else "warn"
        self.banner.say(kind, of, detail, ((self._verify, "Verify again"),))

    def _current_report(self, status: JournalStatus | None) -> VerifyReport | None:
        """The report of this window, unless the verification of another client is newer."""
        report = self._report
        if report is None or status is None or status.verified_at is None:
            return report
        return report if report.checked_at >= status.verified_at else None

    def _ok_detail(self, report: VerifyReport | None, status: JournalStatus | None, at: str) -> str:
        if report is not None:
            return (
                f"{plural(report.entries, 'entry', 'entries')}, {plural(report.blobs, 'blob')},"
                f" checked at {clock(at)} in {_seconds(report.took_s)}"
            )
        entries = status.verified_entries if status else 0
        return f"{plural(entries, 'entry', 'entries')}, checked at {clock(at)}"

    def _say_failed(self, report: VerifyReport | None, status: JournalStatus | None) -> None:
        bad = report.first_bad if report else status.first_bad if status else None
        problem = report.problem if report else ""
        if bad is not None:
            fact = f"Entry {count_words(bad)} does not match its hash."
            offers: tuple[LinkOffer, ...] = (("show", "Show entry"), ("what", "What now"))
        else:
            fact = "The journal does not verify."
            offers = (("what", "What now"),)
        self._bad = bad
        self.banner.say("fail", fact, problem, (*offers, (self._verify, "Verify again")))

    def _act(self, key: str) -> None:
        if key == "show" and self._bad is not None:
            self.entry_wanted.emit(self._bad)
        elif key == "what":
            self._toggle_advice()

    def _toggle_advice(self) -> None:
        folder = str(Path(self._home)) if self._home else "the home"
        entry = f"entry {count_words(self._bad)}" if self._bad is not None else "the place that is named"
        self.advice.say(
            "fail",
            "What was written has been changed, or the disk lost it.",
            f"1. Keep a copy of {folder} as it is now, before anything else: it is what can be examined.\n"
            f"2. Look at {entry}, and at what stands around it: what comes before it still verifies.\n"
            "3. Compare with a backup of the home: where an entry differs, one of the two was changed.\n"
            "4. Find out who could write to that folder. Until then do not rely on this journal as proof.",
        )
        self._advice_row.setVisible(self._advice_row.isHidden())

    def close_advice(self) -> bool:
        """Fold the explanation away; False when it is not shown."""
        shown = self._advice_row.isVisible()
        self._advice_row.hide()
        return shown


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:,.0f} s"

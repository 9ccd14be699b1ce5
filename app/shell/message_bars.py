"""Banners of the whole window, under the top bar: what was stopped, what went wrong, a broken policy file.

Not modal, and never gone by themselves while they say something true. Of failures, the newest three stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.widgets.banner import Banner, BannerKind
from app.widgets.layouts import vbox

MOST = 3
# The words of a link, and what it does.
Offer = tuple[str, Callable[[], None]]


@dataclass(slots=True)
class Standing:
    """A banner for something that is true, what it says, and what its links do."""

    banner: Banner
    says: object = None
    acts: dict[str, Callable[[], None]] = field(default_factory=dict)
    on_close: Callable[[], None] | None = None


class MessageBars(QWidget):
    """The stack of banners, newest at the top."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._column = vbox(parent=self)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self._standing: dict[str, Standing] = {}
        self._failures: list[Banner] = []
        self.hide()

    def words(self) -> list[str]:
        """What the banners say, from top to bottom."""
        items = (self._column.itemAt(place) for place in range(self._column.count()))
        found = (item.widget() for item in items if item is not None)
        return [one.words() for one in found if isinstance(one, Banner)]

    def standing(
        self,
        key: str,
        kind: BannerKind = "fail",
        fact: str = "",
        detail: str = "",
        *offers: Offer,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """Show a banner for as long as something is true; an empty fact takes it away.

        It can be put away only with `on_close`, which is told when it was.
        """
        standing = self._standing.get(key)
        if not fact:
            if standing is not None:
                del self._standing[key]
                self._remove(standing.banner)
            return
        if standing is None:
            standing = self._standing[key] = Standing(self._add(closable=on_close is not None))
            banner = standing.banner
            banner.acted.connect(lambda words: self._act(key, words))
            banner.closed.connect(lambda: self._close(key), Qt.ConnectionType.QueuedConnection)
        standing.acts, standing.on_close = dict(offers), on_close
        says = (kind, fact, detail, tuple(words for words, _ in offers))
        if says != standing.says:
            # Said again, its links would be made again, and the keyboard would leave the one it is on.
            standing.says = says
            standing.banner.say(kind, fact, detail, tuple((words, words) for words, _ in offers))

    def _act(self, key: str, words: str) -> None:
        if (standing := self._standing.get(key)) is not None:
            standing.acts[words]()

    def _close(self, key: str) -> None:
        if (standing := self._standing.pop(key, None)) is not None:
            self._remove(standing.banner)
            if standing.on_close is not None:
                standing.on_close()

    def fail(self, fact: str, detail: str, details_to_copy: str = "") -> None:
        """Show what went wrong; it stays until it is put away, or three newer ones came."""
        if any(old.words() == f"{fact} {detail}".strip() for old in self._failures):
            return
        banner = self._add(closable=True)
        banner.closed.connect(lambda: self._remove(banner), Qt.ConnectionType.QueuedConnection)
        if details_to_copy:
            banner.acted.connect(lambda _key: QGuiApplication.clipboard().setText(details_to_copy))
        banner.say("fail", fact, detail, (("copy", "Copy details"),) if details_to_copy else ())
        self._failures.insert(0, banner)
        for old in self._failures[MOST:]:
            self._remove(old)

    def dismiss_newest(self) -> bool:
        """Put the newest failure away; False when there is none."""
        if not self._failures:
            return False
        self._remove(self._failures[0])
        return True

    def _add(self, closable: bool) -> Banner:
        banner = Banner(closable)
        self._column.insertWidget(0, banner)
        self.show()
        return banner

    def _remove(self, banner: Banner) -> None:
        if self._column.indexOf(banner) < 0:
            return
        if banner in self._failures:
            self._failures.remove(banner)
        self._column.removeWidget(banner)
        banner.hide()
        banner.deleteLater()
        self.setVisible(self._column.count() > 0)

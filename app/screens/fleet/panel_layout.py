"""The parts of a device laid out in a panel, or over the whole pane with head and overview at the left."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QBoxLayout, QTabBar, QVBoxLayout, QWidget

from app.screens.fleet.overview import OverviewTab
from app.screens.fleet.thumbnail import Thumbnail
from app.widgets.labels import separator

PANEL_WIDTH = 424
SIDE_WIDTH, NARROW_SIDE_WIDTH = 468, 400
SMALL, SMALLEST = QSize(152, 95), QSize(112, 70)
LARGE, LARGE_IN_NARROW = QSize(384, 240), QSize(376, 235)
_OVERVIEW, _TOOLS = 0, 1
_ACROSS, _DOWN = QBoxLayout.Direction.LeftToRight, QBoxLayout.Direction.TopToBottom
_NO_LIMIT = 16_777_215


class PanelLayout:
    """Moves the parts; `layout` is what goes into the panel, `side` what is hidden while no device is."""

    def __init__(
        self,
        panel: QWidget,
        head: QBoxLayout,
        tops: list[QWidget],
        mains: list[QWidget],
        overview_place: QWidget,
    ) -> None:
        """`head` is the layout of the device's head, `tops` stand above `mains` or at their left.

        The overview leaves `overview_place` in the tabs for the side while the page is wide.
        """
        self.wide = self.low = self._narrow = False
        self._panel, self._head = panel, head
        self._narrow_width, self._narrow_tab = PANEL_WIDTH, _OVERVIEW
        self.side = QWidget()
        self._side_column = QVBoxLayout(self.side)
        main = QWidget()
        column = QVBoxLayout(main)
        for one, widgets in ((self._side_column, tops), (column, mains)):
            one.setContentsMargins(0, 0, 0, 0)
            one.setSpacing(0)
            for widget in widgets:
                one.addWidget(widget)
        column.setStretchFactor(mains[-1], 1)
        self._between = separator(Qt.Orientation.Vertical)
        self._between.hide()
        self.layout = QBoxLayout(_DOWN)
        self.layout.setSpacing(0)
        self.layout.addWidget(self.side)
        self.layout.addWidget(self._between)
        self.layout.addWidget(main, 1)
        self._overview_column = QVBoxLayout(overview_place)
        self._overview_column.setContentsMargins(0, 0, 0, 0)
        panel.setFixedWidth(PANEL_WIDTH)

    def hold(self, overview: OverviewTab) -> None:
        """Take the overview into its place in the tabs."""
        self._overview_column.addWidget(overview)

    def set_narrow_width(self, width: int) -> None:
        """How wide the panel is while it is not the page; less than usual: the window is narrow."""
        self._narrow_width, self._narrow = width, width < PANEL_WIDTH
        if self.wide:
            self.side.setFixedWidth(self._side_width())
        else:
            self._panel.setFixedWidth(width)

    def _side_width(self) -> int:
        return NARROW_SIDE_WIDTH if self._narrow else SIDE_WIDTH

    def fit_head(self, picture: Thumbnail) -> None:
        """The page has a large picture, where it is high enough for one."""
        large = self.wide and not self.low
        self._head.setDirection(_DOWN if large else _ACROSS)
        if large:
            picture.set_size(LARGE_IN_NARROW if self._narrow else LARGE)
        else:
            # The name beside it is never cut, so the picture gives way.
            picture.set_size(SMALLEST if self._narrow and not self.wide else SMALL)

    def set_wide(self, wide: bool, picture: Thumbnail, tabs: QTabBar, overview: OverviewTab) -> None:
        """Lay everything out over the pane, or in the panel again."""
        self.wide = wide
        self.layout.setDirection(_ACROSS if wide else _DOWN)
        self.fit_head(picture)
        self._between.setVisible(wide)
        if wide:
            self._panel.setMinimumWidth(0)
            self._panel.setMaximumWidth(_NO_LIMIT)
            self.side.setFixedWidth(self._side_width())
            self._side_column.addWidget(overview, 1)
            self._narrow_tab = tabs.currentIndex()
            tabs.setCurrentIndex(self._narrow_tab or _TOOLS)
        else:
            self.side.setMinimumWidth(0)
            self.side.setMaximumWidth(_NO_LIMIT)
            self._overview_column.addWidget(overview)
            self._panel.setFixedWidth(self._narrow_width)
        overview.set_beside_tabs(wide)
        overview.show()
        tabs.setTabVisible(_OVERVIEW, not wide)
        if not wide and self._narrow_tab == _OVERVIEW:
            tabs.setCurrentIndex(_OVERVIEW)

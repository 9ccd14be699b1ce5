"""Fleet as a person sees it: the panel of a device, one of its tools, the servers that it hosts."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QPlainTextEdit

from app.main import ConsoleApplication
from app.screens.fleet.contract_view import ContractFacts, ScopeFacts
from app.screens.fleet.panel import DevicePanel
from app.screens.fleet.screen import FleetScreen
from app.screens.fleet.servers_tab import ServersTab
from app.screens.fleet.tools_tab import ToolDetails
from app.widgets.badges import HealthBadge
from app.widgets.labels import DeviceName, Label
from app.widgets.property_list import whole
from tests.gui.page import visible


def open_fleet(desk: ConsoleApplication) -> FleetScreen:
    """Bring the Fleet screen to the front."""
    desk.window.open("fleet")
    return fleet_in_front(desk)


def fleet_in_front(desk: ConsoleApplication) -> FleetScreen:
    """The Fleet screen, which is in front."""
    screen = desk.window.current
    assert isinstance(screen, FleetScreen)
    return screen


class PanelPage:
    """The panel at the right, or the page of a device."""

    def __init__(self, fleet: FleetScreen) -> None:
        self.panel: DevicePanel = fleet.panel

    @property
    def title(self) -> DeviceName:
        """The name at the top."""
        found = self.panel.findChild(DeviceName)
        assert isinstance(found, DeviceName)
        return found

    @property
    def device(self) -> str:
        """The device that is shown."""
        return self.title.accessibleName()

    @property
    def health(self) -> str:
        """Its health, as it is read aloud."""
        found = self.panel.findChild(HealthBadge)
        assert isinstance(found, HealthBadge)
        return found.accessibleName()

    @property
    def problem(self) -> str:
        """What went wrong with the last thing that was asked of the device; empty while nothing did."""
        return self._label("fail")

    @property
    def picture_words(self) -> str:
        """What is said below the name of the device's picture."""
        return self._label("text3")

    def _label(self, tone: str) -> str:
        labels = [one for one in self.panel.findChildren(Label) if one.property("tone") == tone]
        head = [one for one in labels if one.isVisible() and not self.panel.stack.isAncestorOf(one)]
        return "\n".join(label.text() for label in head)


class ToolPage:
    """The details of the tool that is chosen in the Tools tab."""

    def __init__(self, fleet: FleetScreen) -> None:
        self.details: ToolDetails = fleet.panel.tools_tab.details

    @property
    def name(self) -> str:
        """The tool's name; empty while none is shown."""
        return self._mono().accessibleName() if self._mono().isVisible() else ""

    @property
    def description(self) -> Label:
        """What the device says of it."""
        inner = self.details.widget()
        # The facts and the scope have labels of their own, further inside.
        return next(label for label in self._labels("text2") if label.parent() is inner)

    @property
    def facts(self) -> list[str]:
        """The facts of its contract, as they are read aloud."""
        found = self.details.findChild(ContractFacts)
        assert isinstance(found, ContractFacts)
        return found.words()

    @property
    def scope(self) -> list[str]:
        """What it needs and reaches, fact by fact as it is read aloud; empty until that is known."""
        found = self.details.findChild(ScopeFacts)
        assert isinstance(found, ScopeFacts)
        return found.words() if found.isVisible() else []

    @property
    def schema(self) -> QPlainTextEdit:
        """The schema of its arguments."""
        found = self.details.findChild(QPlainTextEdit)
        assert isinstance(found, QPlainTextEdit)
        return found

    def _mono(self) -> Label:
        return self._labels("text")[0]

    def _labels(self, tone: str) -> list[Label]:
        return [one for one in self.details.findChildren(Label) if one.property("tone") == tone]


class ServersPage:
    """The tab with the MCP servers of a device: the list, the details of one, the form for another one."""

    def __init__(self, fleet: FleetScreen) -> None:
        self.tab: ServersTab = fleet.panel.servers_tab

    @property
    def rows(self) -> dict[str, tuple[str, ...]]:
        """The servers in the list, each with its other columns as they are read."""
        model = self.tab.table.model()
        lines = [
            [str(model.index(row, column).data()) for column in range(model.columnCount())]
            for row in range(model.rowCount())
        ]
        return {name: tuple(rest) for name, *rest in lines}

    @property
    def outcome(self) -> str:
        """What is said of the last call; empty when nothing is."""
        return whole(self.tab.outcome.text()) if self.tab.outcome.words.isVisible() else ""

    @property
    def problem(self) -> str:
        """What is wrong with the server that is chosen, and what to do."""
        notice = self.tab.details.notice
        return whole(notice.accessibleName()) if notice.isVisible() else ""

    @property
    def nothing(self) -> str:
        """What stands in place of the list."""
        return self.tab.place.empty.words() if self.tab.place.empty.isVisible() else ""

    @property
    def forbidden(self) -> str:
        """Why no server can be added, and what to do about it."""
        return self.tab.forbidden.accessibleName() if self.tab.forbidden.isVisible() else ""

    @property
    def form_problems(self) -> str:
        """What the form says is wrong: the pasted text, the fields, the whole."""
        editor = self.tab.editor
        found = [editor.pasting.error, *editor.form.errors.values(), editor.problem.text()]
        return "\n".join(one for one in found if one)

    @property
    def note(self) -> str:
        """What the form says of pasted text that it did not take over."""
        return self.tab.editor.note.text()

    @property
    def texts(self) -> str:
        """Everything that can be read on the tab, what a masked field shows included."""
        fields = [one.displayText() for one in visible(self.tab, QLineEdit)]
        boxes = [one.toPlainText() for one in visible(self.tab, QPlainTextEdit)]
        labels = [one.text() for one in visible(self.tab, QLabel)]
        return "\n".join([*fields, *boxes, *labels, *map(str, self.rows.values())])

    @property
    def masked(self) -> set[str]:
        """What of the pasted text is drawn as flat blocks."""
        document = self.tab.editor.paste.document()
        found: set[str] = set()
        for number in range(document.blockCount()):
            block = document.findBlockByNumber(number)
            for part in block.layout().formats():
                if part.format.background().style() != Qt.BrushStyle.NoBrush:
                    found.add(block.text()[part.start : part.start + part.length].strip('"'))
        return found

    def choose(self, server: str) -> None:
        """Move to one server."""
        assert self.tab.table.choose(server)

    def press(self, *words: str) -> None:
        """Press a button or link of the tab that can be seen and pressed."""
        found = [
            one
            for one in visible(self.tab, QAbstractButton)
            if one.isEnabled() and (one.text() in words or one.accessibleName() in words)
        ]
        assert found, [one.text() or one.accessibleName() for one in visible(self.tab, QAbstractButton)]
        found[0].click()

    def offers(self, words: str) -> bool:
        """Whether there is such a button or link, and it can be pressed."""
        return any(
            one.isEnabled() and words in (one.text(), one.accessibleName())
            for one in visible(self.tab, QAbstractButton)
        )

    def paste(self, text: str) -> None:
        """Paste into the field for JSON, by the keyboard."""
        QGuiApplication.clipboard().setText(text)
        self.tab.editor.paste.setFocus()
        self.tab.editor.paste.selectAll()
        QTest.keyClick(self.tab.editor.paste, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)

"""Fleet as a person sees it: the panel of a device, and the details of one of its tools."""

from __future__ import annotations

from PySide6.QtWidgets import QPlainTextEdit

from app.main import ConsoleApplication
from app.screens.fleet.contract_view import ContractFacts
from app.screens.fleet.panel import DevicePanel
from app.screens.fleet.screen import FleetScreen
from app.screens.fleet.tools_tab import ToolDetails
from app.widgets.badges import HealthBadge
from app.widgets.labels import DeviceName, Label


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
    def schema(self) -> QPlainTextEdit:
        """The schema of its arguments."""
        found = self.details.findChild(QPlainTextEdit)
        assert isinstance(found, QPlainTextEdit)
        return found

    def _mono(self) -> Label:
        return self._labels("text")[0]

    def _labels(self, tone: str) -> list[Label]:
        return [one for one in self.details.findChildren(Label) if one.property("tone") == tone]

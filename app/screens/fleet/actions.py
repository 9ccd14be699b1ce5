"""What an operator wants done with the devices of the fleet: pictures, calls, batches, pairing."""

from __future__ import annotations

from abc import abstractmethod

from app.screens.fleet.batch_targets import run_targets
from app.screens.fleet.device_filter import DeviceFilterEdit
from app.screens.fleet.devices_view import DevicesView
from app.screens.fleet.header import FleetHeader
from app.screens.fleet.panel import DevicePanel
from app.screens.fleet.screenshot_action import BulkScreenshot
from app.screens.screen import Screen
from app.screens.targets import OpenBatch
from core.errors import BadInput


class FleetActions(Screen):
    """The wishes; what they are about is chosen in the list, or open in the panel."""

    head: FleetHeader
    filter_field: DeviceFilterEdit
    listing: DevicesView
    panel: DevicePanel
    many: BulkScreenshot

    @property
    @abstractmethod
    def shows_devices(self) -> bool:
        """Whether devices are in front, and not the first run."""

    @abstractmethod
    def say_problem(self, problem: str) -> None:
        """Say what is wrong with the filter, or with a wish; empty when it is mended."""

    @abstractmethod
    def _show_counts(self) -> None:
        """Say how many devices are shown, of how many."""

    def take_picture(self) -> None:
        """Take a picture of the device under the cursor, or of all that are marked."""
        self.take_pictures([] if self.panel.is_wide else self.listing.marked())

    def take_pictures(self, names: list[str]) -> None:
        """Take a picture of each of these; without any, of the device under the cursor."""
        if names:
            self.many.start(names)
        else:
            self._show_unseen()
            self.panel.take_picture()

    def _show_progress(self, words: str) -> None:
        if words:
            self.head.set_detail(words)
        else:
            self._show_counts()

    def call_tool(self) -> None:
        """Go to a call of a tool of the device under the cursor."""
        self._show_unseen()
        self.panel.call_tool()

    @abstractmethod
    def show_servers(self) -> None:
        """Go to the MCP servers of the device under the cursor, or of the page."""

    def _show_unseen(self) -> None:
        """The panel may be closed: its wishes are about the device under the cursor all the same."""
        if self.shows_devices and not self.panel.is_wide:
            self.panel.show_device(self.state.devices.get(self.listing.current_key()))

    def run_on_shown(self) -> None:
        """Make a batch for what is shown or marked."""
        self.run_on(self.listing.marked())

    def run_on(self, names: list[str]) -> None:
        """Make a batch for these devices; without any, for those that are shown."""
        try:
            targets = run_targets(self.filter_field.filter.text, self.listing.shown_names(), names)
        except BadInput as error:
            self.say_problem(error.message)
            return
        self.nav.open("batch", OpenBatch(targets=targets))

    def pair(self) -> None:
        """Make a device known to this console."""
        from app.screens.fleet.pairing_dialog import start_pairing  # seldom, so not when the window starts

        if self.shows_devices:
            start_pairing(self.window(), self.state, self.link, self.nav)

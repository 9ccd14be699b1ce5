"""What an operator can do with the devices of the fleet: pictures, calls, batches, pairing."""

from __future__ import annotations

from abc import abstractmethod

from app.screens.fleet.batch_targets import run_targets
from app.screens.fleet.device_filter import DeviceFilterEdit
from app.screens.fleet.devices_view import DevicesView
from app.screens.fleet.header import FleetHeader
from app.screens.fleet.panel import DevicePanel
from app.screens.fleet.screenshot_action import BulkScreenshot
from app.screens.screen import Screen, Shortcut
from app.screens.targets import OpenBatch
from app.widgets.action import Action
from core.errors import BadInput
from core.models.devices import Device

# Measured with a device client on a screen of 1920 × 1080 pixels.
LIVE_TIP = (
    "Keeps the pictures of the tiles in sight fresh (L). Each is a command like any other: a device costs "
    "the journal about 140 entries a minute, and 0.2 MB (a still screen) to 0.8 MB (one that always changes)."
)


class FleetActions(Screen):
    """Every act of the screen, once; what they are about is chosen in the list, or open in the panel."""

    head: FleetHeader
    filter_field: DeviceFilterEdit
    listing: DevicesView
    panel: DevicePanel
    many: BulkScreenshot

    def __init__(self) -> None:
        super().__init__()
        self.panel_act = Action("Panel beside the devices", "fleet", self.turn_panel, "I")
        self.view_act = Action("Table or wall", "wall", self.turn_view, "W")
        self.picture_act = Action(
            "Take a picture of the device, or of all marked", "picture", self.take_picture, "T",
            acts_at_once=True, label="Take picture", off=self.why_no_picture,
        )  # fmt: skip
        self.call_act = Action("Call a tool…", "tool", self.call_tool, "C", off=self.why_no_device)
        self.servers_act = Action(
            "MCP servers of the device", "tool", self.show_servers, "M", also="host add a server",
            off=self.why_no_device,
        )  # fmt: skip
        self.run_act = Action(
            "Run a batch on what is shown or marked…", "batch", self.run_on_shown, "R",
            tip="Make a batch for the devices that are shown or marked; nothing is sent",
        )  # fmt: skip
        self.pair_act = Action("Pair a device…", "pair", self.pair, "P", off=self.why_no_list)
        self.filter_act = Action("Filter", "filter", self.focus_filter, "/", off=self.why_no_list)
        self.live_act = Action(
            "Wall: live pictures on or off", "live", self.turn_live, "L", label="Live", tip=LIVE_TIP,
            off=self.why_no_wall,
        )  # fmt: skip
        self.live_act.setCheckable(True)
        self.group_act = Action(
            "Wall: group by something else", "wall", self.next_group, "G", off=self.why_no_wall
        )
        self.fold_act = Action(
            "Wall: close or open the group", "wall", self.toggle_group, "X", off=self.why_no_wall
        )

    def shortcuts(self) -> list[Shortcut | Action]:
        """The keys of comps 01 and 02."""
        return [
            Shortcut("Up", "Arrows: another device"),
            Shortcut("Return", "Page of the device; Esc goes back"),
            self.panel_act,
            self.view_act,
            self.picture_act,
            self.call_act,
            self.servers_act,
            self.run_act,
            Shortcut("Space", "Mark the device, or take its mark away"),
            Shortcut("Ctrl+A", "Choose all"),
            Shortcut("Ctrl+C", "Copy the chosen rows"),
            Shortcut("Menu", "What can be done with the chosen devices"),
            self.pair_act,
            self.filter_act,
            self.live_act,
            self.group_act,
            self.fold_act,
            Shortcut("+", "Wall: larger tiles; − smaller"),
        ]

    # Why not

    def _meant(self) -> Device | None:
        """The device of the page, or under the cursor."""
        if not self.shows_devices:
            return None
        name = self.panel.device_name if self.panel.is_wide else self.listing.current_key()
        return self.state.devices.get(name)

    def why_no_list(self) -> str:
        """Why nothing can be done with the list of devices; empty when it can."""
        return "" if self.shows_devices else "The first steps are in front; the list comes after them."

    def why_no_device(self) -> str:
        """Why nothing can be done with the device under the cursor; empty when it can."""
        return self.why_no_list() or ("" if self._meant() else "No device is chosen.")

    def why_no_picture(self) -> str:
        """Why no picture can be taken; empty when it can."""
        if not self.panel.is_wide and self.listing.marked():
            return self.why_no_list()
        return self.why_no_device() or self.panel.why_no_picture(self._meant())

    @abstractmethod
    def why_no_wall(self) -> str:
        """Why what is only for the wall cannot be done; empty when it can."""

    # Acts

    @abstractmethod
    def turn_panel(self) -> None:
        """Show the panel, or close it; a page goes back to the list."""

    @abstractmethod
    def turn_view(self) -> None:
        """Bring the wall to the front, or the table."""

    @abstractmethod
    def focus_filter(self) -> None:
        """Write a filter."""

    @abstractmethod
    def turn_live(self) -> None:
        """Turn live pictures on or off, where there are tiles."""

    @abstractmethod
    def next_group(self) -> None:
        """Group the wall by something else."""

    @abstractmethod
    def toggle_group(self) -> None:
        """Close or open the group under the cursor."""

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

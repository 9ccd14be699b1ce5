"""The keys of the Fleet screen, as F1 lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.screens.screen import Shortcut

if TYPE_CHECKING:
    from app.screens.fleet.screen import FleetScreen


def fleet_keys(screen: FleetScreen) -> list[Shortcut]:
    """The keys of comps 01 and 02."""
    return [
        Shortcut("Up", "Arrows: another device"),
        Shortcut("Return", "Page of the device; Esc goes back"),
        Shortcut("I", "Panel beside the devices", screen.turn_panel),
        Shortcut("W", "Table or wall", lambda: screen.show_as(not screen.listing.is_wall)),
        Shortcut("T", "Take a picture of the device, or of all marked", screen.take_picture),
        Shortcut("C", "Call a tool…", screen.call_tool),
        Shortcut("R", "Run a batch on what is shown or marked…", screen.run_on_shown),
        Shortcut("Space", "Mark the device, or take its mark away"),
        Shortcut("Ctrl+A", "Choose all"),
        Shortcut("Ctrl+C", "Copy the chosen rows"),
        Shortcut("Menu", "What can be done with the chosen devices"),
        Shortcut("P", "Pair a device…", screen.pair),
        Shortcut("/", "Filter", screen.focus_filter),
        Shortcut("L", "Wall: live pictures on or off", screen.turn_live),
        Shortcut("G", "Wall: group by something else", screen.next_group),
        Shortcut("X", "Wall: close or open the group", screen.toggle_group),
        Shortcut("+", "Wall: larger tiles; − smaller"),
    ]

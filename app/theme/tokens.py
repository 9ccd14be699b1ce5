"""Every colour, size and type role of the window, as plain data without Qt.

A role has one name everywhere: a field here, a `{name}` in the style sheet, a word in `Label(tone=...)`.
Ratios are promised by the tests: 4.5 for text on every surface and tint it may lie on, 3.0 for edges, shapes
and the focus ring.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

Mode = Literal["dark", "light"]
Density = Literal["comfortable", "compact"]


@dataclass(frozen=True, slots=True)
class Tokens:
    """The colours of one mode, as #RRGGBB."""

    # surfaces
    app: str
    base: str
    raised: str
    sunken: str
    hover: str
    selected: str
    sel_idle: str
    # lines and fills
    border: str
    border2: str
    control: str
    accent_fill: str
    accent_hover: str
    on_accent: str
    accent_tint: str
    # words
    text: str
    text2: str
    text3: str
    accent: str
    ok: str
    warn: str
    medium: str
    fail: str
    unknown: str
    waiting: str
    low: str
    high: str
    critical: str
    prod: str
    # tints behind words
    ok_tint: str
    warn_tint: str
    medium_tint: str
    fail_tint: str
    unknown_tint: str
    waiting_tint: str
    low_tint: str
    high_tint: str
    # fills under white words
    critical_fill: str
    on_critical: str
    prod_fill: str
    prod_stripe: str
    on_prod: str
    # painted on pictures from devices, the same in both modes
    picture_ink: str
    picture_mark: str
    scrim: str

    def as_dict(self) -> dict[str, str]:
        """Role name → colour."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


DARK = Tokens(
    app="#0E1216",
    base="#13181D",
    raised="#192026",
    sunken="#0B0F12",
    hover="#1F272E",
    selected="#15343B",
    sel_idle="#20282F",
    border="#28313A",
    border2="#3A4651",
    control="#64727F",
    accent_fill="#3DB2C3",
    accent_hover="#56C9D8",
    on_accent="#041619",
    accent_tint="#10292E",
    text="#E4EAEE",
    text2="#AEB9C3",
    text3="#8F9CA8",
    accent="#4BC0D0",
    ok="#57C08A",
    warn="#E2B04A",
    medium="#E2B04A",
    fail="#F2766E",
    unknown="#BE9BF5",
    waiting="#79AEFF",
    low="#9AA8B4",
    high="#F5934A",
    critical="#FF8078",
    prod="#F083BE",
    ok_tint="#11261C",
    warn_tint="#2A2210",
    medium_tint="#2A2210",
    fail_tint="#301A1A",
    unknown_tint="#251D35",
    waiting_tint="#162338",
    low_tint="#1E262C",
    high_tint="#301F11",
    critical_fill="#CB3A34",
    on_critical="#FFFFFF",
    prod_fill="#B8417F",
    prod_stripe="#F083BE",
    on_prod="#FFFFFF",
    picture_ink="#0E1216",
    picture_mark="#4BC0D0",
    scrim="#05080A",
)

LIGHT = Tokens(
    app="#ECF0F2",
    base="#FFFFFF",
    raised="#F6F8F9",
    sunken="#F0F3F5",
    hover="#E9EFF1",
    selected="#D6ECF0",
    sel_idle="#E6EBEE",
    border="#D7DEE3",
    border2="#BAC5CD",
    control="#7E8C98",
    accent_fill="#0B7283",
    accent_hover="#085E6C",
    on_accent="#FFFFFF",
    accent_tint="#E3F3F5",
    text="#151B20",
    text2="#44515C",
    text3="#5A6772",
    accent="#096878",
    ok="#17693F",
    warn="#805400",
    medium="#805400",
    fail="#B3261E",
    unknown="#6A3FB5",
    waiting="#1B55B8",
    low="#54626E",
    high="#9F430A",
    critical="#B3261E",
    prod="#A12A6B",
    ok_tint="#E2F3E9",
    warn_tint="#FBF0D6",
    medium_tint="#FBF0D6",
    fail_tint="#FCE8E6",
    unknown_tint="#EFE8FB",
    waiting_tint="#E4EDFC",
    low_tint="#EBEFF2",
    high_tint="#FDEBDD",
    critical_fill="#BF2A22",
    on_critical="#FFFFFF",
    prod_fill="#A62C6E",
    prod_stripe="#F0BFD9",
    on_prod="#FFFFFF",
    picture_ink="#0E1216",
    picture_mark="#4BC0D0",
    scrim="#0E1216",
)

MODES: dict[Mode, Tokens] = {"dark": DARK, "light": LIGHT}
SCRIM_OPACITY = 0.55


@dataclass(frozen=True, slots=True)
class Metrics:
    """Heights of one density, in logical px."""

    table_row: int
    journal_row: int
    queue_card: int
    matrix_row: int
    tree_row: int
    table_head: int
    control: int
    finding_row: int = 26
    decision_control: int = 34
    bar_segment: int = 24
    queue_extra_line: int = 18


COMFORTABLE = Metrics(
    table_row=28, journal_row=26, queue_card=74, matrix_row=34, tree_row=24, table_head=28, control=28
)
COMPACT = Metrics(
    table_row=24, journal_row=22, queue_card=60, matrix_row=28, tree_row=20, table_head=24, control=26
)
DENSITIES: dict[Density, Metrics] = {"comfortable": COMFORTABLE, "compact": COMPACT}


@dataclass(frozen=True, slots=True)
class Space:
    """Distances, in logical px."""

    hair: int = 2
    tight: int = 4
    snug: int = 6
    small: int = 8
    medium: int = 12
    large: int = 16
    wide: int = 24
    huge: int = 32
    pane: int = 16
    side_panel: int = 14
    card: int = 12
    section: int = 14
    label_gap: int = 8


@dataclass(frozen=True, slots=True)
class Radius:
    """Corner radii, in logical px."""

    badge: int = 4
    control: int = 5
    card: int = 6
    dialog: int = 8


@dataclass(frozen=True, slots=True)
class Frame:
    """Fixed measures of the window's frame and of things that never change with density, in logical px."""

    top_bar: int = 44
    status_bar: int = 26
    nav: int = 176
    nav_collapsed: int = 52
    screen_head: int = 48
    brand: int = 176
    search: int = 520
    search_compact: int = 400
    compact_width: int = 1360
    compact_height: int = 800
    least_width: int = 1024
    least_height: int = 640
    hit_area: int = 24
    icon: int = 16
    nav_icon: int = 18
    empty_icon: int = 22
    first_column: int = 16


SPACE = Space()
RADIUS = Radius()
FRAME = Frame()

MOTION_MS = 120
TURN_STEPS = 8
TURN_INTERVAL_MS = 250

UI_FAMILIES = (
    "Inter",
    "Segoe UI Variable Text",
    "Segoe UI",
    ".AppleSystemUIFont",
    "Noto Sans",
    "DejaVu Sans",
)
MONO_FAMILIES = ("JetBrains Mono", "Cascadia Mono", "SF Mono", "Menlo", "Consolas", "DejaVu Sans Mono")


@dataclass(frozen=True, slots=True)
class TypeRole:
    """One way of setting text: size and line height in px, weight 400 to 700."""

    px: int
    line: int
    weight: int = 400
    mono: bool = False
    italic: bool = False
    spacing: int = 0


TYPE: dict[str, TypeRole] = {
    "hero": TypeRole(20, 28, 600),
    "title": TypeRole(16, 22, 600),
    "step": TypeRole(14, 20, 600),
    "large": TypeRole(14, 20),
    "body": TypeRole(13, 18),
    "name": TypeRole(13, 18, 500),
    "head": TypeRole(13, 18, 600),
    "label": TypeRole(11, 16, 600),
    "hint": TypeRole(11, 16, 400),
    "hint_strong": TypeRole(11, 16, 500),
    "meta": TypeRole(12, 16),
    "meta_strong": TypeRole(12, 16, 500),
    "badge": TypeRole(12, 16, 600),
    "quote": TypeRole(13, 18, italic=True),
    "mono": TypeRole(13, 22, mono=True),
    "mono_strong": TypeRole(13, 22, 700, mono=True),
    "mono_small": TypeRole(12, 20, mono=True),
    "mono_hint": TypeRole(11, 16, mono=True),
    "code": TypeRole(14, 20, 600, mono=True, spacing=1),
}
"""Role name → type. `quote` is for an agent's words only, `code` for the short code on the device."""

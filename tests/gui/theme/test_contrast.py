"""The ratios that look.md promises, computed from the tokens, and sampled from pixels of real components."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QTabBar, QWidget
from pytestqt.qtbot import QtBot

from app.theme.state_looks import CELLS, HEALTHS, PLANS, RISKS, SERVERS
from app.theme.theme import Theme
from app.theme.tokens import MODES, Mode
from app.widgets.badges import (
    Chip,
    CountPill,
    HealthBadge,
    PlanBadge,
    ProductionStrip,
    ProductionTag,
    RiskBadge,
    VerdictBadge,
)
from app.widgets.banner import Banner, Notice
from app.widgets.buttons import Button, Segmented
from app.widgets.fields import CheckBox, DropDown, SearchField, TextField
from app.widgets.labels import Label, Link, set_surface
from app.widgets.shortcut_label import ShortcutLabel

SURFACES = ("app", "base", "raised", "sunken", "hover", "selected", "sel_idle")
WORDS = "text text2 text3 accent ok warn medium fail unknown waiting low high critical prod".split()
TINTS = {
    "ok": "ok_tint",
    "warn": "warn_tint",
    "medium": "medium_tint",
    "fail": "fail_tint",
    "unknown": "unknown_tint",
    "waiting": "waiting_tint",
    "low": "low_tint",
    "high": "high_tint",
    "accent": "accent_tint",
}
BOTH = pytest.mark.parametrize("mode", list(MODES))


def luminance(color: QColor) -> float:
    """WCAG's relative luminance."""

    def linear(part: float) -> float:
        return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)

    red, green, blue = linear(color.redF()), linear(color.greenF()), linear(color.blueF())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ratio(one: QColor | str, other: QColor | str) -> float:
    """WCAG's contrast ratio."""
    light, dark = sorted((luminance(QColor(one)), luminance(QColor(other))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@BOTH
@pytest.mark.parametrize("word", WORDS)
def test_every_word_can_be_read_on_every_surface(mode: Mode, word: str) -> None:
    tokens = MODES[mode].as_dict()
    worst = min(ratio(tokens[word], tokens[ground]) for ground in SURFACES)
    assert worst >= 4.5


@BOTH
@pytest.mark.parametrize("word", list(TINTS))
def test_every_word_can_be_read_on_its_own_tint(mode: Mode, word: str) -> None:
    tokens = MODES[mode].as_dict()
    assert ratio(tokens[word], tokens[TINTS[word]]) >= 5.35


@BOTH
@pytest.mark.parametrize("tint", list(TINTS.values()))
def test_details_can_be_read_on_every_tint(mode: Mode, tint: str) -> None:
    tokens = MODES[mode].as_dict()
    assert ratio(tokens["text2"], tokens[tint]) >= 6.5
    assert ratio(tokens["text3"], tokens[tint]) >= 4.85


@BOTH
@pytest.mark.parametrize(
    ("word", "fill"),
    [
        ("on_accent", "accent_fill"),
        ("on_accent", "accent_hover"),
        ("on_critical", "critical_fill"),
        ("on_prod", "prod_fill"),
        ("app", "waiting"),
        ("app", "low"),
        ("app", "medium"),
        ("app", "high"),
        ("app", "critical"),
    ],
)
def test_words_on_fills_can_be_read(mode: Mode, word: str, fill: str) -> None:
    tokens = MODES[mode].as_dict()
    assert ratio(tokens[word], tokens[fill]) >= 4.5


@BOTH
def test_edges_of_inputs_stand_out_from_what_they_lie_on(mode: Mode) -> None:
    tokens = MODES[mode].as_dict()
    assert min(ratio(tokens["control"], tokens[g]) for g in ("app", "base", "raised", "sunken")) >= 3.0


@BOTH
def test_the_focus_ring_and_every_shape_stand_out_on_every_surface(mode: Mode) -> None:
    tokens = MODES[mode].as_dict()
    looks = [*RISKS.values(), *CELLS.values(), *HEALTHS.values(), *PLANS.values(), *SERVERS.values()]
    for role in {"accent", "critical_fill", *(look.color for look in looks)} - {"critical_fill"}:
        assert min(ratio(tokens[role], tokens[g]) for g in SURFACES) >= 3.0, role


@BOTH
def test_every_state_has_word_shape_and_known_colours(mode: Mode) -> None:
    tokens = MODES[mode].as_dict()
    for look in [*RISKS.values(), *CELLS.values(), *HEALTHS.values(), *PLANS.values(), *SERVERS.values()]:
        assert look.word
        assert look.glyph
        assert {look.color, look.word_color} <= tokens.keys()
        assert not look.tint or look.tint in tokens


def test_no_two_risks_and_no_two_verdicts_share_a_shape() -> None:
    from app.theme.state_looks import VERDICTS

    for looks in (RISKS, VERDICTS, HEALTHS, SERVERS):
        assert len({look.glyph for look in looks.values()}) == len(looks)


def strongest(image: QImage) -> tuple[float, QColor]:
    """The contrast of the pixel that stands out most from the most frequent colour, and that colour."""
    pixels = Counter(
        image.pixelColor(x, y).rgb()
        for x in range(1, image.width() - 1)
        for y in range(1, image.height() - 1)
    )
    ground = QColor.fromRgb(pixels.most_common(1)[0][0])
    return max(ratio(QColor.fromRgb(pixel), ground) for pixel in pixels), ground


def off(button: Button) -> Button:
    button.set_off("why")
    return button


def tabs() -> QTabBar:
    bar = QTabBar()
    bar.addTab("Overview")
    bar.addTab("Tools 23")
    return bar


def banner() -> Banner:
    made = Banner()
    made.say("fail", "Entry 9,412 does not match its hash.", "18,204 entries", (("show", "Show entry"),))
    return made


COMPONENTS: dict[str, Callable[[], QWidget]] = {
    "primary": lambda: Button("Approve once", "primary"),
    "normal": lambda: Button("Save"),
    "danger": lambda: Button("Deny…", "danger"),
    "ghost": lambda: Button("Entries", "ghost"),
    "disabled": lambda: off(Button("Approve once", "primary")),
    "segmented": lambda: Segmented([("a", "Unified"), ("b", "Bytes")], "Diff"),
    "text3": lambda: Label("hint", "meta", "text3"),
    "link": lambda: Link("Verify again"),
    "chip": lambda: Chip("All 42", checkable=True),
    "pill": lambda: CountPill(11),
    "strip": lambda: ProductionStrip("build-lnx-03"),
    "tag": lambda: ProductionTag(2),
    "key": lambda: ShortcutLabel("Ctrl+K"),
    "placeholder": lambda: SearchField("Search", "Find devices"),
    "field": lambda: TextField("name", "at least 10 characters"),
    "check": lambda: CheckBox("Follow the end"),
    "choice": lambda: DropDown("Retry"),
    "tabs": tabs,
    "banner": banner,
    "notice": lambda: Notice("cannot_undo", "Cannot be undone.", "rm deletes for good."),
} | {f"risk {risk}": partial(RiskBadge, risk) for risk in RISKS}
STATES: dict[str, Callable[[], QWidget]] = (
    {f"cell {s}": partial(VerdictBadge, s) for s in CELLS}
    | {f"health {s}": partial(HealthBadge, s) for s in HEALTHS}
    | {f"plan {s}": partial(PlanBadge, s) for s in PLANS}
)


@BOTH
@pytest.mark.parametrize("name", [*COMPONENTS, *STATES])
def test_components_can_be_read_as_painted(theme: Theme, qtbot: QtBot, mode: Mode, name: str) -> None:
    theme.set_mode(mode)
    holder = set_surface(QWidget(), "base")
    qtbot.addWidget(holder)
    widget = (COMPONENTS | STATES)[name]()
    widget.setParent(holder)
    widget.resize(widget.sizeHint().expandedTo(widget.minimumSizeHint()))
    holder.resize(widget.size())
    holder.show()
    qtbot.waitExposed(holder)
    found, ground = strongest(holder.grab().toImage())
    # Thin strokes are never drawn in their full colour: antialiasing takes part of it.
    assert found >= (3.0 if name == "choice" else 4.2), f"{name} on {ground.name()}: {found:.2f}"


@BOTH
@pytest.mark.parametrize("ground", ["app", "base", "raised", "sunken"])
def test_surfaces_are_painted_in_their_tokens(theme: Theme, qtbot: QtBot, mode: Mode, ground: str) -> None:
    theme.set_mode(mode)
    holder = set_surface(QWidget(), ground)
    qtbot.addWidget(holder)
    holder.resize(40, 40)
    holder.show()
    assert holder.grab().toImage().pixelColor(20, 20).name().upper() == MODES[mode].as_dict()[ground]

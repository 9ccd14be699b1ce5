"""The theme at run time: switching, fonts, the style sheet, icons and glyphs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QIcon, QImage, QPainter, QTextLayout
from PySide6.QtWidgets import QApplication, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app.items.table_view import Column, Kind, Row, TableView
from app.theme.icons import ICONS, icon_pixmap
from app.theme.shapes import GLYPHS, glyph_path, paint_glyph
from app.theme.theme import STYLE_SHEET, Theme, make_font, theme_of
from app.theme.tokens import DARK, LIGHT, TYPE
from app.widgets.buttons import Button, IconButton
from app.widgets.code_view import CodeView
from app.widgets.labels import Label, set_surface
from tests.fakes.window import apply_to_parts


def colors_of(widget: QWidget) -> set[str]:
    image = widget.grab().toImage()
    return {
        image.pixelColor(x, y).name().upper() for x in range(image.width()) for y in range(image.height())
    }


def glyphs_of(text: str, font: QFont) -> list[int]:
    layout = QTextLayout(text, font)
    layout.beginLayout()
    layout.createLine()
    layout.endLayout()
    return [index for run in layout.glyphRuns() for index in run.glyphIndexes()]


def test_switching_the_mode_restyles_painted_and_styled_widgets_at_once(theme: Theme, qtbot: QtBot) -> None:
    holder = set_surface(QWidget(), "base")
    qtbot.addWidget(holder)
    button, field = Button("Approve once", "primary", parent=holder), QLineEdit(holder)
    button.move(10, 10)
    field.move(10, 60)
    holder.resize(260, 100)
    holder.show()
    assert {DARK.base, DARK.accent_fill, DARK.sunken} <= colors_of(holder)
    theme.set_mode("light")
    assert {LIGHT.base, LIGHT.accent_fill, LIGHT.sunken} <= colors_of(holder)
    assert not {DARK.base, DARK.accent_fill, DARK.sunken} & colors_of(holder)


def test_switching_the_mode_restyles_tables_and_code(theme: Theme, qtbot: QtBot) -> None:
    table = TableView([Column("a", "A", Kind.RISK)], "Rows")
    box = CodeView()
    for widget in (table, box):
        qtbot.addWidget(widget)
        widget.resize(200, 120)
        widget.show()
    table.show_rows([Row("1", ("high",))])
    box.show_bytes("a\u200bb".encode())
    assert DARK.high in colors_of(table)
    assert {DARK.sunken, DARK.warn_tint} <= colors_of(box)
    theme.set_mode("light")
    assert LIGHT.high in colors_of(table)
    assert {LIGHT.sunken, LIGHT.warn_tint} <= colors_of(box)


def test_switching_the_density_changes_heights_of_what_is_on_the_screen(theme: Theme, qtbot: QtBot) -> None:
    holder = QWidget()
    qtbot.addWidget(holder)
    table = TableView([Column("a", "A")], "Rows", parent=holder)
    button = Button("Save", parent=holder)
    holder.show()
    table.show_rows([Row("1", ("x",))])
    assert (table.rowHeight(0), button.sizeHint().height()) == (28, 28)
    theme.set_density("compact")
    qtbot.waitUntil(lambda: table.rowHeight(0) == 24)
    assert button.sizeHint().height() == 26


def test_the_change_is_told_once_and_only_when_something_changed(theme: Theme, qtbot: QtBot) -> None:
    with qtbot.waitSignal(theme.changed):
        theme.set_mode("light")
    with qtbot.assertNotEmitted(theme.changed):
        theme.set_mode("light")


def test_a_theme_survives_a_thousand_switches(theme: Theme, qtbot: QtBot) -> None:
    told: list[str] = []
    theme.changed.connect(lambda: told.append(theme.mode))
    label = Label("still here")
    qtbot.addWidget(label)
    for number in range(1000):
        theme.changed.emit()
        if number % 250 == 0:
            theme.set_mode("light" if theme.mode == "dark" else "dark")
    assert len(told) == 1004
    assert theme_of(label) is theme


@pytest.mark.parametrize("signs", ["->", "!=", "--", "=>", "<=", "===", "www", "|>", "/*"])
@pytest.mark.parametrize("role", [role for role, kind in TYPE.items() if kind.mono])
def test_monospace_never_joins_signs(qapp: QApplication, role: str, signs: str) -> None:
    font = make_font(role)
    assert glyphs_of(signs, font) == [index for sign in signs for index in glyphs_of(sign, font)]


def test_figures_of_ui_text_have_one_width(theme: Theme, qtbot: QtBot) -> None:
    from PySide6.QtGui import QFontMetricsF

    metrics = QFontMetricsF(theme.font("body"))
    assert len({round(metrics.horizontalAdvance(figure * 10), 2) for figure in "0123456789"}) == 1


def test_the_style_sheet_names_only_tokens_that_exist_and_no_colours(theme: Theme) -> None:
    template = STYLE_SHEET.read_text(encoding="utf-8")
    assert not re.findall(r"#[0-9A-Fa-f]{3,8}\b", template)
    assert not re.search(r"\{\w+\}", theme.style_sheet())


@pytest.mark.parametrize("concept", sorted(ICONS))
def test_every_concept_has_an_icon_in_the_font(theme: Theme, concept: str) -> None:
    image = icon_pixmap(concept, QColor("#ffffff"), 16, 2.0).toImage()
    assert image.size() == QSize(32, 32)
    assert any(image.pixelColor(x, y).alpha() > 200 for x in range(32) for y in range(32))


def test_an_icon_follows_the_theme_without_being_made_again(theme: Theme) -> None:
    icon = theme.icon("run", "accent")
    before = icon.pixmap(QSize(32, 32)).toImage()
    theme.set_mode("light")
    after = icon.pixmap(QSize(32, 32)).toImage()
    assert strongest_color(before) == DARK.accent
    assert strongest_color(after) == LIGHT.accent
    assert strongest_color(icon.pixmap(QSize(32, 32), QIcon.Mode.Disabled).toImage()) == LIGHT.text3


def strongest_color(image: QImage) -> str:
    pixels = [image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height())]
    return max(pixels, key=lambda pixel: pixel.alpha()).name().upper()


def test_an_icon_nobody_named_is_refused(theme: Theme) -> None:
    with pytest.raises(KeyError):
        theme.icon("no such concept")
    with pytest.raises(KeyError):
        IconButton("no such concept", "Name")


@pytest.mark.parametrize("name", GLYPHS)
def test_every_glyph_stays_inside_its_box_and_is_drawn_at_device_pixels(
    qapp: QApplication, name: str
) -> None:
    assert QRectF(-0.5, -0.5, 25, 25).contains(glyph_path(name).boundingRect())
    image = QImage(28, 28, QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(2.0)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    paint_glyph(painter, QRectF(0, 0, 14, 14), name, QColor("#ffffff"))
    painter.end()
    alphas = [image.pixelColor(x, y).alpha() for x in range(28) for y in range(28)]
    assert max(alphas) > 200


def test_a_widget_without_a_theme_is_told_what_is_missing(theme: Theme, qapp: QApplication) -> None:
    qapp.setProperty("quarterdeck_theme", None)
    try:
        with pytest.raises(RuntimeError, match="Apply a Theme"):
            theme_of()
    finally:
        apply_to_parts(theme, qapp)


@pytest.mark.parametrize("concept", ICONS)
def test_every_icon_stays_inside_its_box_and_is_drawn_in_the_colour_that_is_asked_for(
    qapp: QApplication, concept: str
) -> None:
    image = icon_pixmap(concept, QColor("#30c0a0"), 16, 4.0).toImage()
    assert (image.width(), image.height()) == (64, 64)
    drawn = [(x, y) for x in range(64) for y in range(64) if image.pixelColor(x, y).alpha() > 200]
    assert len(drawn) > 64
    # Where lines cross they are blended with themselves, which rounds.
    full = [image.pixelColor(x, y) for x, y in drawn if image.pixelColor(x, y).alpha() == 255]
    assert full
    assert all(
        abs(seen - asked) <= 2
        for color in full
        for seen, asked in zip(color.getRgb()[:3], (0x30, 0xC0, 0xA0), strict=True)
    )
    edge = [image.pixelColor(k, side).alpha() for k in range(64) for side in (0, 63)]
    edge += [image.pixelColor(side, k).alpha() for k in range(64) for side in (0, 63)]
    assert not any(edge), "cut by its box"


def test_every_drawing_is_an_icon_of_something_and_every_icon_a_drawing() -> None:
    folder = Path(__file__).resolve().parents[3] / "resources" / "icons" / "actions"
    assert {file.stem for file in folder.glob("*.svg")} == set(ICONS.values())


def test_an_icon_is_there_at_the_first_paint(theme: Theme, qapp: QApplication) -> None:
    button = IconButton("run", "Run")
    button.resize(28, 28)
    blank = QImage(28, 28, QImage.Format.Format_ARGB32_Premultiplied)
    blank.fill(Qt.GlobalColor.transparent)
    painter = QPainter(blank)
    button.render(painter, QPoint())
    painter.end()
    wanted = theme.color("text2")
    assert any(
        abs(blank.pixelColor(x, y).red() - wanted.red()) < 8 and blank.pixelColor(x, y).alpha() > 200
        for x in range(28)
        for y in range(28)
    )

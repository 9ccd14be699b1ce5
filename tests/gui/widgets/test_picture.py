"""A picture that is fitted, zoomed, dragged and clicked."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.theme.theme import Theme
from app.widgets.image_view import ImageView


@pytest.fixture
def picture(theme: Theme, qtbot: QtBot) -> ImageView:
    view = ImageView("Screen")
    qtbot.addWidget(view)
    view.resize(400, 300)
    image = QImage(800, 400, QImage.Format.Format_RGB32)
    image.fill(QColor("#336699"))
    view.set_image(image)
    view.show()
    qtbot.waitExposed(view)
    return view


def test_a_picture_is_fitted_first_and_follows_its_place(picture: ImageView) -> None:
    assert picture.is_fitted()
    assert picture.zoom() == pytest.approx(0.5 * picture.devicePixelRatioF())
    picture.resize(200, 300)
    assert picture.zoom() == pytest.approx(0.25 * picture.devicePixelRatioF())


def test_keys_zoom_fit_and_show_actual_size(picture: ImageView, qtbot: QtBot) -> None:
    QTest.keyClick(picture, Qt.Key.Key_1)
    assert picture.zoom() == 1.0
    QTest.keyClick(picture, Qt.Key.Key_Plus)
    assert picture.zoom() == pytest.approx(1.25)
    QTest.keyClick(picture, Qt.Key.Key_Minus)
    assert picture.zoom() == pytest.approx(1.0)
    QTest.keyClick(picture, Qt.Key.Key_0)
    assert picture.is_fitted()


def test_zooming_keeps_the_place_under_the_pointer(picture: ImageView) -> None:
    at = QPointF(130, 110)
    before = picture.to_image(at)
    picture.zoom_to(2.0, at)
    after = picture.to_image(at)
    assert abs(before.x() - after.x()) <= 1
    assert abs(before.y() - after.y()) <= 1


def test_dragging_moves_the_picture_and_is_no_click(picture: ImageView, qtbot: QtBot) -> None:
    picture.zoom_to(2.0)
    before = picture.to_image(QPointF(200, 150))
    with qtbot.assertNotEmitted(picture.pressed_at):
        QTest.mousePress(picture, Qt.MouseButton.LeftButton, pos=QPoint(200, 150))
        QTest.mouseMove(picture, QPoint(150, 150))
        QTest.mouseMove(picture, QPoint(140, 150))
        QTest.mouseRelease(picture, Qt.MouseButton.LeftButton, pos=QPoint(140, 150))
    assert picture.to_image(QPointF(200, 150)).x() > before.x()


def test_a_click_names_the_pixel_of_the_picture(picture: ImageView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(picture.pressed_at) as pressed:
        QTest.mouseClick(picture, Qt.MouseButton.LeftButton, pos=QPoint(200, 150))
    assert pressed.args == [400, 200]


def test_what_is_no_picture_shows_words_instead(picture: ImageView) -> None:
    picture.set_image(QImage())
    assert picture.accessibleName() == "Screen: No picture"
    picture.grab()

"""Keys on other keyboard layouts, pressed into a real window on a display of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from core.device.desktop.key_chords import parse_chord
from core.device.desktop.linux import x11_input
from tests.fakes.display import virtual_display

# A field at the top left; tells each text that stands in it.
FIELD = """
from PySide6.QtWidgets import QApplication, QLineEdit
app = QApplication([])
field = QLineEdit()
field.setGeometry(0, 0, 300, 60)
field.textChanged.connect(lambda text: print(text, flush=True))
field.show()
app.processEvents()
print("up", flush=True)
app.exec()
"""


@pytest.fixture
def screen() -> Iterator[str]:
    with virtual_display() as name:
        yield name


@pytest.mark.parametrize("layout", ["us", "ru", "gr", "il"])
def test_shift_and_a_letter_is_the_capital_letter_on_every_layout(screen: str, layout: str) -> None:
    from Xlib import display

    subprocess.run(["setxkbmap", "-display", screen, layout], check=True, stderr=subprocess.DEVNULL)
    environment = {**os.environ, "DISPLAY": screen, "QT_QPA_PLATFORM": "xcb"}
    with subprocess.Popen(
        [sys.executable, "-c", FIELD],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as field:
        try:
            assert field.stdout is not None
            assert field.stdout.readline() == "up\n"
            eyes = display.Display(screen)
            x11_input.click(eyes, 20, 20, "left", 1)
            for key in ("shift+a", "b", "shift+z"):
                x11_input.press(eyes, parse_chord(key))
            shown = [field.stdout.readline().strip() for _ in range(3)]
            eyes.close()
        finally:
            field.kill()
    assert shown == ["A", "Ab", "AbZ"]

"""Ctrl+Y where Qt itself has only Ctrl+Shift+Z for Redo: on an X display, unlike off screen."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fakes.accessible_session import accessible_session
from tests.fakes.program import ROOT

PROGRAM = """
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.widgets.json_edit import JsonEdit
from app.widgets.code_edit import CodeEdit
from app.theme.theme import Theme

app = QApplication([])
Theme().apply(app)
print(QKeySequence("Ctrl+Y") in QKeySequence.keyBindings(QKeySequence.StandardKey.Redo))
for editor in (JsonEdit(), CodeEdit("A text")):
    editor.show()
    editor.setFocus()
    QTest.keyClicks(editor, "12")
    QTest.keyClick(editor, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    undone = editor.toPlainText()
    QTest.keyClick(editor, Qt.Key.Key_Y, Qt.KeyboardModifier.ControlModifier)
    print(repr(undone), repr(editor.toPlainText()))
"""


@pytest.mark.slow
def test_ctrl_y_redoes_in_both_editors() -> None:
    with accessible_session("800x600") as session:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=ROOT, env=session, capture_output=True, text=True, check=True
        )
    assert done.stdout.splitlines() == ["False", "'' '12'", "'' '12'"]

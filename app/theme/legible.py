"""Text from outside as a widget shows it: in the order of its characters, each of them drawn or named.

Two things would show another text than the one that is sent. Right-to-left letters change places with what is
near them (`core.text.left_to_right` holds them), and a character that no installed font has is drawn as the
same box as every other one, or not at all.
"""

from __future__ import annotations

import unicodedata

from PySide6.QtGui import QFont, QTextLayout

from core.text import code_of, left_to_right

# Whether a font, or one that stands in for it, draws a character. Asking lays the character out, which takes
# 20 to 300 µs; lists paint the same few hundred characters at every scroll.
_drawn: dict[tuple[str, str], bool] = {}


def legible(text: str, font: QFont) -> str:
    """The text for a widget: its lines in logical order, a character that cannot be drawn as `[U+91CD]`."""
    if text.isascii():
        return text
    names = {ord(sign): f"[{code_of(sign)}]" for sign in set(text) if not is_drawn(sign, font)}
    return left_to_right(text.translate(names) if names else text)


def is_drawn(sign: str, font: QFont) -> bool:
    """Whether this font, or one that Qt takes in its place, draws the character.

    True for characters that are meant to be blank: `core.text.escape_hidden` names those that hide.
    """
    if sign.isascii():
        return True
    key = (font.family(), sign)
    if (drawn := _drawn.get(key)) is None:
        drawn = _drawn[key] = unicodedata.category(sign)[0] in "CZ" or _has_glyphs(sign, font)
    return drawn


def _has_glyphs(sign: str, font: QFont) -> bool:
    # A mark is drawn on a letter: alone it would be drawn on a dotted circle, which is in few fonts.
    is_mark = unicodedata.category(sign)[0] == "M"
    layout = QTextLayout(f"x{sign}" if is_mark else sign, font)
    layout.beginLayout()
    layout.createLine()
    layout.endLayout()
    runs = layout.glyphRuns()
    glyphs = [(run.rawFont(), number) for run in runs for number in run.glyphIndexes()]
    # Glyph 0 is the box for "no such glyph" (OpenType, table cmap).
    if not glyphs or any(number == 0 for _, number in glyphs):
        return False
    return is_mark or any(not face.boundingRect(number).isEmpty() for face, number in glyphs)

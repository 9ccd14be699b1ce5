"""Colours for TOML while it is being typed: keys, tables, comments, and the words that decide."""

from __future__ import annotations

import re

from PySide6.QtGui import QFont, QSyntaxHighlighter, QTextCharFormat, QTextDocument
from PySide6.QtWidgets import QWidget

from app.theme.theme import theme_of

_PLAIN, _IN_BASIC, _IN_LITERAL = -1, 1, 2
_LONG = {'"""': _IN_BASIC, "'''": _IN_LITERAL}
_TOKEN = re.compile(
    r"""(?P<comment>\#.*)
    |(?P<long>\"\"\"|''')
    |(?P<string>"(?:[^"\\]|\\.)*"?|'[^']*'?)
    |(?P<table>^\s*\[\[?[^\[\]\#"']*\]\]?)
    |(?P<key>[A-Za-z0-9_.-]+(?=\s*=))
    |(?P<value>\b(?:true|false)\b|[-+]?\b[0-9][0-9A-Za-z_:.+-]*)
    """,
    re.VERBOSE,
)
_QUOTED_KEY = re.compile(r"\s*=")
# What decides is coloured as everywhere: blue waits for an operator, red says no.
_DECIDING = {'"ask"': "waiting", '"deny"': "fail", "'ask'": "waiting", "'deny'": "fail"}


class TomlHighlighter(QSyntaxHighlighter):
    """Colours one document; `refresh` takes over another theme."""

    def __init__(self, document: QTextDocument, widget: QWidget) -> None:
        super().__init__(document)
        self._widget = widget
        self._looks: dict[str, QTextCharFormat] = {}

    def refresh(self) -> None:
        """Colour everything again, in the colours that hold now."""
        self._looks.clear()
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        """Colour one line; texts over several lines are carried from line to line."""
        at = 0
        state = self.previousBlockState()
        self.setCurrentBlockState(_PLAIN)
        if state in (_IN_BASIC, _IN_LITERAL):
            mark = '"""' if state == _IN_BASIC else "'''"
            at = self._string_until(text, 0, mark, state)
        while (match := _TOKEN.search(text, at)) is not None:
            kind = match.lastgroup or ""
            start, end = match.span(kind)
            if kind == "long":
                at = self._string_until(text, start, match[kind], _LONG[match[kind]], end)
                continue
            self.setFormat(start, end - start, self._look(self._role(kind, text, start, end)))
            at = max(end, at + 1)

    def _string_until(self, text: str, start: int, mark: str, state: int, after: int = 0) -> int:
        close = text.find(mark, after)
        end = len(text) if close < 0 else close + len(mark)
        if close < 0:
            self.setCurrentBlockState(state)
        self.setFormat(start, end - start, self._look("text"))
        return max(end, start + 1)

    def _role(self, kind: str, text: str, start: int, end: int) -> str:
        match kind:
            case "comment":
                return "text3"
            case "table":
                return "table"
            case "key":
                return "accent"
            case "string":
                if _QUOTED_KEY.match(text, end):
                    return "accent"
                return _DECIDING.get(text[start:end], "text")
            case _:
                return "text2"

    def _look(self, role: str) -> QTextCharFormat:
        if (look := self._looks.get(role)) is None:
            look = self._looks[role] = QTextCharFormat()
            look.setForeground(theme_of(self._widget).color("text" if role == "table" else role))
            if role == "table":
                look.setFontWeight(QFont.Weight.Bold)
        return look

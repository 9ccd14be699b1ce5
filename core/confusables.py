"""Confusable characters: letters and signs that look like others, in texts that operators read.

`foreign_letters` finds letters of another script inside Latin words, in any text. The other functions decide
what a call reaches (hosts, paths, programs), where a whole word in foreign letters counts as well. The table
is small on purpose: the letters of Cyrillic, Greek and Armenian that most fonts draw like Latin ones, and the
signs that stand in for `/`, `.`, `:`, `-` and `;`.
"""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W\d_]{2,}")
_FOREIGN_SCRIPTS = frozenset(
    {"cyrillic", "greek", "armenian", "cherokee", "coptic", "lisu", "fullwidth", "mathematical"}
)
_LETTERS = {
    foreign: plain
    for plain, alike in {
        "A": "\u0410\u0391",
        "B": "\u0412\u0392",
        "C": "\u0421",
        "E": "\u0415\u0395",
        "G": "\u050c",
        "H": "\u041d\u0397",
        "I": "\u0406\u0399",
        "J": "\u0408",
        "K": "\u041a\u039a",
        "M": "\u041c\u039c",
        "N": "\u039d",
        "O": "\u041e\u039f",
        "P": "\u0420\u03a1",
        "S": "\u0405",
        "T": "\u0422\u03a4",
        "V": "\u0474",
        "X": "\u0425\u03a7",
        "Y": "\u0423\u03a5",
        "Z": "\u0396",
        "a": "\u0430\u03b1\u0251",
        "b": "\u044c\u0432",
        "c": "\u0441",
        "d": "\u0501",
        "e": "\u0435",
        "g": "\u0581\u0261",
        "h": "\u04bb\u043d\u0570",
        "i": "\u0456\u03b9\u0131",
        "j": "\u0458\u0575",
        "k": "\u043a\u03ba",
        "l": "\u04cf",
        "m": "\u043c",
        "n": "\u0578\u043f",
        "o": "\u043e\u03bf\u0585",
        "p": "\u0440\u03c1",
        "q": "\u051b",
        "r": "\u0433",
        "s": "\u0455",
        "t": "\u0442\u03c4",
        "u": "\u0438\u03c5\u057d",
        "v": "\u03bd",
        "w": "\u051d",
        "x": "\u0445\u03c7",
        "y": "\u0443\u03b3",
    }.items()
    for foreign in alike
}
_SIGNS = {
    **dict.fromkeys("\u2044\u2215\u29f8\uff0f\u2571\u1735", "/"),
    **dict.fromkeys("\u2216\u29f9\uff3c\ufe68", "\\"),
    **dict.fromkeys("\u2024\uff0e\u3002\uff61\u06d4", "."),
    **dict.fromkeys("\uff1a\ua789\u2236\ufe55\u0589", ":"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\uff0d\u2043\ufe63", "-"),
    **dict.fromkeys("\u037e\uff1b", ";"),
    **dict.fromkeys("\uff20\ufe6b", "@"),
    **dict.fromkeys("\uff5e\u223c", "~"),
}
_ALIKE = {**_LETTERS, **_SIGNS}


def foreign_letters(text: str) -> list[int]:
    """The offsets of letters of another script inside Latin words; the time is proportional to the length."""
    if text.isascii():
        return []
    foreign = {sign for sign in set(text) if sign > "\x7f" and _script(sign) in _FOREIGN_SCRIPTS}
    if not foreign:
        return []
    latin = {sign for sign in set(text) if sign.isalpha() and (sign.isascii() or _script(sign) == "latin")}
    return [
        match.start() + offset
        for match in _WORD.finditer(text)
        if not latin.isdisjoint(match.group()) and not foreign.isdisjoint(match.group())
        for offset, sign in enumerate(match.group())
        if sign in foreign
    ]


def plain_look(text: str) -> str:
    """The text with every letter and sign that looks like a plain one replaced by that one."""
    if text.isascii():
        return text
    return "".join(_ALIKE.get(sign) or _folded(sign) for sign in text)


def false_signs(text: str) -> list[int]:
    """The offsets of signs that look like those that separate parts of a path or an address."""
    return [] if text.isascii() else [place for place, sign in enumerate(text) if sign in _SIGNS]


def looks_plain(word: str) -> bool:
    """Whether a word with foreign letters reads as one of plain letters only."""
    return not word.isascii() and plain_look(word).isascii()


def scripts_of(text: str) -> list[str]:
    """The scripts of a text's letters, in small letters, in the order they come: `latin`, `cyrillic`, …"""
    return list(dict.fromkeys(_script(sign) for sign in text if sign.isalpha()))


def _script(sign: str) -> str:
    return unicodedata.name(sign, "unknown").split(" ", 1)[0].lower()


def _folded(sign: str) -> str:
    """The Latin form of a full-width or mathematical letter; any other sign as it is."""
    plain = unicodedata.normalize("NFKC", sign)
    return plain if plain.isascii() else sign

"""The end of a filter or a query: which field its last term names, and what may follow.

Both languages split alike (`core.query_tokens`): blanks part terms, commas part values, `!` negates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from core.completion.words import Offer

Values = Callable[[str], Iterable[Offer]]
_FIELD = re.compile(r"([A-Za-z_]+):")


def term_offers(text: str, fields: Iterable[str], values: Values, quotes: str) -> list[Offer]:
    """What may stand at the end of a text: a field and its colon, or a value of the last term's field.

    `values` gives the values of a field; those of the empty field are plain words. A value that has signs of
    the language is offered in quotes.
    """
    start, opened = _last_term(text, quotes)
    negated = text[start : start + 1] == "!"
    term = start + negated
    named = _FIELD.match(text, term)
    field = named[1].lower() if named else ""
    begin = max(named.end() if named else term, _last_value(text, start, quotes))
    words = [
        Offer(text[:begin] + quoted(offer.text, quotes, opened, bool(named)), offer.help)
        for offer in values(field)
    ]
    if not named and begin == term and not opened:
        words += [Offer(f"{text[:begin]}{name}:", is_open=True) for name in fields]
    return [word for word in words if word.text.startswith(text)]


def quoted(value: str, quotes: str, opened: str, is_of_field: bool) -> str:
    """A value as the language reads it literally; `opened` is the quote that was typed already."""
    special = r"[\s,*?\"']" if is_of_field else r"[\s,*?\"':!]"
    if not opened and not re.search(special, value):
        return value
    quote = opened or next((sign for sign in quotes if sign not in value), quotes[0])
    return f"{quote}{value}{quote}" if quote not in value else value


def _last_term(text: str, quotes: str) -> tuple[int, str]:
    """Where the last term begins, and the quote that is open at the end of the text."""
    start, opened = 0, ""
    for place, sign in enumerate(text):
        if opened:
            opened = "" if sign == opened else opened
        elif sign in quotes:
            opened = sign
        elif sign.isspace():
            start = place + 1
    return start, opened


def _last_value(text: str, start: int, quotes: str) -> int:
    """Where the last alternative of the last term begins, behind its comma; 0 if the term has no comma."""
    begin, opened = 0, ""
    for place in range(start, len(text)):
        sign = text[place]
        if opened:
            opened = "" if sign == opened else opened
        elif sign in quotes:
            opened = sign
        elif sign == ",":
            begin = place + 1
    return begin

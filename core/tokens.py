"""Random bearer tokens of devices and agents, of which only the SHA-256 is stored.

A token is 256 random bits, so a slow or salted hash would protect nothing: finding a matching token takes
2^255 tries, and the hash in a journal that is passed on reveals nothing. Lookups are by hash, so that their
timing reveals nothing about a token.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict

from core.canonical_json import sha256_hex

TOKEN_BYTES = 32
MARK = "qdt_"
"""The beginning of every token, by which `core.token_formats` recognises it in any text."""
# Tokens offered for changes that are not complete yet; beyond this number the oldest is dropped.
MOST_OFFERED = 100


def new_token(prefix: str = "") -> str:
    """Make a random token of characters that are safe in a shell and in a URL, after `prefix`."""
    return prefix + MARK + secrets.token_urlsafe(TOKEN_BYTES)


def token_digest(token: str) -> str:
    """The SHA-256 of a token, hexadecimal; accepts any text that a client presents."""
    return sha256_hex(token.encode("utf-8", "surrogateescape"))


class OfferedTokens:
    """Tokens that were made for a change whose signature is awaited. An operator signs a token's digest."""

    def __init__(self) -> None:
        self._offered: OrderedDict[str, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._offered)

    def offer(self, prefix: str = "") -> str:
        """Make a token; returns its SHA-256."""
        token = new_token(prefix)
        self._offered[token_digest(token)] = token
        if len(self._offered) > MOST_OFFERED:
            self._offered.popitem(last=False)
        return token_digest(token)

    def take(self, sha256: str, prefix: str = "") -> str:
        """Take the token that was offered under this digest, once; a new random token if there is none."""
        return self._offered.pop(sha256, "") or new_token(prefix)

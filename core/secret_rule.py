"""Decides whether an argument's value is secret: a mark in its schema, or its name.

Schemas mark with `writeOnly`, `format: password`, or the keyword `SECRET_IF`. Names such as `db_password` and
`accessToken` are secret whatever a schema says. A name is split into words, and its ending counts: `api_key`
is a secret, `key_name` is not. Names of quantities (`max_tokens`), of handles (`session_id`, `key_id`) and of
places (`token_url`, `password_file`) are not secrets either.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

SECRET_IF = "x-quarterdeck-secret-if"
"""In a property's schema: the name of the sibling property that makes this property secret unless it is
missing, null or false."""
MARKS = ("writeOnly", "password", SECRET_IF)
"""Words of which a schema has at least one if it marks any value as secret."""
LONGEST_NAME = 256
"""Characters of a name that are read, from its end."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[a-z]+|\d+[A-Z]+(?![a-z])|\d+")
# Words for the form of a secret, or for its repetition; they may follow its name.
_CARRIERS = frozenset(
    "value text string str plain plaintext raw clear cleartext hash hashed digest pem der b64 base64 hex "
    "encoded encrypted content contents data body header env var input field confirm confirmation confirmed "
    "repeat repeated again new old current previous next primary secondary".split()
)
# Single words at the end of a name, in the singular.
_SECRETS = frozenset(
    "password passwd passwort pass pwd pw passphrase passcode passkey secret token credential cred "
    "authorization auth bearer cookie otp totp hotp pin puk jwt jws apikey apitoken accesskey secretkey "
    "privatekey signingkey authtoken accesstoken refreshtoken clientsecret psk dsn cvv cvc ssn mnemonic "
    "connectionstring connstr jsessionid phpsessid sessionid webhooksecret".split()
)
# Two words at the end of a name.
_PAIRS = frozenset(
    {
        *((kind, "key") for kind in (
            "api", "access", "private", "secret", "signing", "signature", "encryption", "decryption",
            "master", "shared", "account", "auth", "authentication", "hmac", "wifi", "wpa", "recovery", "app",
            "subscription", "license", "server", "client", "tls", "ssl", "session", "consumer", "deploy",
        )),
        *((kind, "code") for kind in (
            "mfa", "tfa", "2fa", "otp", "totp", "sms", "pin", "verification", "recovery", "backup", "access",
            "auth", "authorization", "unlock", "time", "factor",
        )),
        ("connection", "string"), ("conn", "string"), ("conn", "str"), ("seed", "phrase"), ("pass", "word"),
        ("recovery", "phrase"), ("card", "number"), ("social", "number"), ("security", "number"),
    }
)  # fmt: skip
# Compounds that are written as one word.
_ENDINGS = (
    "password", "passwd", "passphrase", "apikey", "secretkey", "accesskey", "privatekey", "accesstoken",
    "authtoken", "refreshtoken", "clientsecret", "credential", "pwd",
)  # fmt: skip
# After these words a plural is a count: `max_tokens`, `prompt_tokens`.
_QUANTITIES = frozenset(
    "max min maximum minimum num number n total count limit prompt completion input output used new context "
    "budget reserved cached reasoning remaining per top stop".split()
)
# Words whose plural is usually not a list of secrets.
_NO_PLURAL = frozenset({"pass", "pin", "pw"})


def is_secret(schema: Any) -> bool:
    """Whether values under this schema are secret and must never be repeated in a message."""
    return isinstance(schema, dict) and (
        schema.get("writeOnly") is True or schema.get("format") == "password"
    )


def may_be_secret(schema: Any) -> bool:
    """Whether values under this schema are secret, always or beside certain other values."""
    return is_secret(schema) or (isinstance(schema, dict) and SECRET_IF in schema)


class SecretNames:
    """The built-in names, and those that an operator adds (`secret_names` in settings.toml)."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        """Add the names in `more`: a plain name matches every name that ends with its words, and a pattern
        with `*` or `?` matches a whole name; case is ignored."""
        self._patterns = tuple(name.casefold() for name in more if _is_pattern(name))
        self._ends = tuple(_words(name) for name in more if not _is_pattern(name))

    def match(self, name: str) -> bool:
        """Whether an argument of this name is secret."""
        return _is_known(name) or (bool(self._patterns or self._ends) and self._is_added(name))

    def _is_added(self, name: str) -> bool:
        low = name[-LONGEST_NAME:].casefold()
        if any(fnmatchcase(low, pattern) for pattern in self._patterns):
            return True
        words = _words(name)
        return any(end and words[-len(end) :] == end for end in self._ends)


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


@lru_cache(maxsize=4096)
def _is_known(name: str) -> bool:
    words = _words(name)
    while words:
        if _ends_in_secret(words):
            return True
        if words[-1] not in _CARRIERS and not words[-1].isdigit():
            return False
        words = words[:-1]
    return False


def _ends_in_secret(words: list[str]) -> bool:
    last = words[-1]
    single = _singular(last)
    before = words[-2] if len(words) > 1 else ""
    if last != single and (before in _QUANTITIES or single in _NO_PLURAL):
        return False
    return single in _SECRETS or (before, single) in _PAIRS or single.endswith(_ENDINGS)


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _words(name: str) -> list[str]:
    """The words of a name in lower case, and its numbers: aws, secret, key and 2 for `AWSSecretKey_2`."""
    plain = name[-LONGEST_NAME:]
    if not plain.isascii():
        # Letters that differ only in their encoding read as the same name.
        plain = unicodedata.normalize("NFKC", plain)
    return [word.casefold() for word in _WORDS.findall(plain)]


KNOWN_NAMES = SecretNames()

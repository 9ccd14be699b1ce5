"""What must never reach the disk or a screen: secrets in arguments, replaced by a salted commitment.

A commitment (HMAC-SHA256 under a key of the home) lets somebody who has the secret show that it was the one
that was sent, and tells nobody else anything.
"""

from __future__ import annotations

import hmac
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from core.canonical import canonical_bytes
from core.errors import BadInput

SECRET_NAMES = re.compile(
    r"(^|[_\-.])(pass(word|phrase|wd)?|secret|api[_-]?key|token|credential|private[_-]?key)s?$", re.IGNORECASE
)
MASK = "$secret"


class Masker:
    """Replaces secret values; holds the home's salt."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    @classmethod
    def of(cls, path: Path) -> Masker:
        """Read the salt, or make it at first use.

        Raises:
            BadInput: it can be neither read nor made.
        """
        try:
            if not path.exists():
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(os.urandom(32))
            return cls(path.read_bytes())
        except OSError as error:
            raise BadInput(f"{path} cannot be read or made: {error.strerror}.") from error

    def mask(self, parameters: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        """A copy of the arguments in which each secret is `{"$secret": commitment}`."""
        masked = self._walk(parameters, schema, secret=False)
        assert isinstance(masked, dict)
        return masked

    def _walk(self, value: Any, schema: Any, *, secret: bool) -> Any:
        if isinstance(value, dict) and value.keys() == {MASK}:
            return value
        if secret or _is_secret(schema):
            return {MASK: self.commitment(value)}
        if isinstance(value, dict):
            properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
            return {
                key: self._walk(one, properties.get(key), secret=bool(SECRET_NAMES.search(key)))
                for key, one in value.items()
            }
        if isinstance(value, list):
            items = schema.get("items") if isinstance(schema, dict) else None
            return [self._walk(one, items, secret=False) for one in value]
        return value

    def commitment(self, value: Any) -> str:
        """HMAC-SHA256 of the value's canonical bytes, hexadecimal."""
        return hmac.new(self._salt, canonical_bytes(value), sha256).hexdigest()


def _is_secret(schema: Any) -> bool:
    return isinstance(schema, dict) and (
        schema.get("writeOnly") is True or schema.get("format") == "password"
    )

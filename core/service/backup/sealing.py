"""The secrets of a backup: encrypted under a passphrase, and the authentication of the whole backup by it.

scrypt makes one key of the passphrase and a salt that no other backup has; two keys are derived from it. One
authenticates the description of the backup, which has the digest of everything else. The other encrypts with
ChaCha20-Poly1305 in chunks of 64 KiB. The nonce of a chunk is its number and whether it is the last one, so
that no chunk can be moved, left out or cut off (the STREAM construction, https://eprint.iacr.org/2015/189).
A nonce is never used twice, as the key is used for one stream.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from core.service.backup.archive import Damaged, Source
from core.service.backup.models import BackupKey

KDF = "scrypt n=131072 r=8 p=1"
CIPHER = "chacha20-poly1305, chunks of 65536"
_N, _R, _P = 131_072, 8, 1
_KEY_BYTES = _SALT_BYTES = 32
CHUNK = 65_536
TAG = 16
_LABEL = b"quarterdeck.backup/1 "


def new_key(passphrase: str) -> BackupKey:
    """The key of a new backup. Takes 128 MB and about half a second."""
    return key_of(passphrase, secrets.token_hex(_SALT_BYTES))


def key_of(passphrase: str, salt: str) -> BackupKey:
    """The key of the backup that has this salt. Takes 128 MB and about half a second."""
    made = Scrypt(bytes.fromhex(salt), _KEY_BYTES, _N, _R, _P).derive(passphrase.encode())
    return BackupKey(salt=salt, key=made.hex())


def mac(key: BackupKey, description: bytes) -> str:
    """The authentication code of a backup's description: HMAC-SHA256 in hexadecimal."""
    return hmac.digest(_derived(key, b"description"), description, "sha256").hex()


def _derived(key: BackupKey, use: bytes) -> bytes:
    return HKDFExpand(SHA256(), _KEY_BYTES, _LABEL + use).derive(bytes.fromhex(key.key))


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


class SealWriter:
    """Writes the encrypted form of what is written to it; `close` writes the last chunk.

    `digest` and `size` are those of what was written to the file.
    """

    def __init__(self, file: BinaryIO, key: BackupKey) -> None:
        self._file = file
        self._cipher = ChaCha20Poly1305(_derived(key, b"secrets"))
        self._plain = bytearray()
        self._number = 0
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Encrypt some more bytes."""
        self._plain += data
        # The last chunk is not known before `close`: it may be a full one.
        while len(self._plain) > CHUNK:
            self._put(bytes(self._plain[:CHUNK]), False)
            del self._plain[:CHUNK]

    def close(self) -> None:
        """Write what is left, as the last chunk."""
        self._put(bytes(self._plain), True)
        self._plain.clear()

    def _put(self, plain: bytes, last: bool) -> None:
        data = self._cipher.encrypt(_nonce(self._number, last), plain, None)
        self._number += 1
        self._file.write(data)
        self.digest.update(data)
        self.size += len(data)


class SealReader:
    """Reads the plain form of an encrypted stream of `size` bytes, and nothing that is not authentic."""

    def __init__(self, source: Source, size: int, key: BackupKey) -> None:
        self._source = source
        self._left = size
        self._cipher = ChaCha20Poly1305(_derived(key, b"secrets"))
        self._plain = b""
        self._number = 0
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """The next bytes; fewer only at the end.

        Raises:
            Damaged: the stream is not the one that was written under this key.
        """
        parts = []
        while size:
            if not self._plain and not self._next():
                break
            part, self._plain = self._plain[:size], self._plain[size:]
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _next(self) -> bool:
        # Even nothing is sealed in a chunk.
        if not self._left and self._number:
            return False
        data = self._source.read(min(self._left, CHUNK + TAG))
        self._left -= len(data)
        self.digest.update(data)
        try:
            self._plain = self._cipher.decrypt(_nonce(self._number, not self._left), data, None)
        except InvalidTag:
            raise Damaged("The secrets in it are not those that were sealed.") from None
        self._number += 1
        return True

"""TLS for links: self-signed certificates, pinned by their SHA-256 fingerprint.

No authority signs these certificates, so their names and dates are not trusted. The dialling side knows the
listener's fingerprint from pairing, and checks it in the handshake before it sends any application data.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.errors import BadInput
from core.files import create_new, sync_folder
from core.text import sentences

CERTIFICATE = "link-certificate.pem"
KEY = "link-key.pem"
_YEARS = 30
_HEX = frozenset("0123456789abcdef")


class OtherCertificate(ssl.SSLCertVerificationError):
    """The peer shows a certificate that is not pinned; `fingerprint` is that certificate's."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__("the certificate is not the one that was paired")
        self.fingerprint = fingerprint


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key (PEM files); `fingerprint` is the SHA-256 of the certificate's DER form."""

    certificate: Path
    key: Path
    fingerprint: str


def load_or_make_identity(folder: Path, name: str = "quarterdeck") -> Identity:
    """Load the identity in `folder`, or make it there when there is none.

    Raises:
        BadInput: the files cannot be read, other users may read the key, or no identity can be made.
    """
    certificate, key = folder / CERTIFICATE, folder / KEY
    try:
        if not certificate.exists() and not key.exists():
            write_identity(folder, make_identity(name))
        elif not key.exists() and _fresh(key).exists():
            # A crash interrupted `_make` before its last step; finish it.
            _fresh(key).replace(key)
            sync_folder(folder)
    except OSError as error:
        raise BadInput(
            sentences(f"No link certificate can be made in {folder}: {error.strerror or error}")
        ) from error
    try:
        der = ssl.PEM_cert_to_DER_cert(_first_in(certificate.read_text("ascii")))
        mode = key.stat().st_mode
    except (OSError, ValueError) as error:
        raise BadInput(
            f"The link certificate in {folder} cannot be read: {error}. Put {CERTIFICATE} and {KEY} back, or "
            "remove both and pair every device again."
        ) from error
    if os.name == "posix" and mode & 0o077:
        raise BadInput(f"The key {key} may be read by others; make it private (chmod 600) or remove it.")
    return Identity(certificate, key, fingerprint_of(der))


@dataclass(frozen=True, slots=True)
class NewIdentity:
    """A new certificate and its key, in PEM, that are in no file yet."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """As that of `Identity`."""
        return fingerprint_in(self.certificate)


def write_identity(folder: Path, identity: NewIdentity) -> None:
    """Write an identity into a folder, in place of the one that is there.

    After a crash in between, the folder may hold the certificate of one identity and the key of another:
    write it again.

    Raises:
        OSError: a file cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate, key = folder / CERTIFICATE, folder / KEY
    for path in (_fresh(key), _fresh(certificate)):
        # An interrupted attempt may have left it.
        path.unlink(missing_ok=True)
    create_new(_fresh(key), identity.key)
    create_new(_fresh(certificate), identity.certificate, 0o644)
    # Both files are complete now, so a full disk never leaves half an identity, which would be refused at
    # every later start.
    _fresh(certificate).replace(certificate)
    _fresh(key).replace(key)
    sync_folder(folder)


def read_identity(folder: Path) -> NewIdentity:
    """The identity in a folder, to be written into another.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    return NewIdentity((folder / CERTIFICATE).read_bytes(), (folder / KEY).read_bytes())


def fingerprint_of(der: bytes) -> str:
    """The SHA-256 of a certificate's DER form, in lower-case hexadecimal."""
    return hashlib.sha256(der).hexdigest()


def fingerprint_in(pem: bytes) -> str:
    """The fingerprint of the first certificate in a PEM file.

    Raises:
        ValueError: there is none.
    """
    return fingerprint_of(ssl.PEM_cert_to_DER_cert(_first_in(pem.decode("ascii"))))


def valid_until(pem: bytes) -> datetime:
    """The end of the validity of the first certificate in a PEM file, in UTC.

    Raises:
        ValueError: there is none.
    """
    # Imported here, because the import is slow.
    from cryptography import x509

    return x509.load_pem_x509_certificate(_first_in(pem.decode("ascii")).encode()).not_valid_after_utc


def _first_in(pem: str) -> str:
    """The first certificate of a PEM file: the server's own, even if those of its authorities follow."""
    end = "-----END CERTIFICATE-----"
    return pem.partition(end)[0] + end


def server_context(identity: Identity) -> ssl.SSLContext:
    """Make the TLS context of a listener.

    Raises:
        BadInput: certificate and key cannot be used together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    show_identity(context, identity)
    return context


def show_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Let a listener's context show this certificate from the next handshake on.

    Raises:
        BadInput: certificate and key cannot be used together.
    """

    def passphrase() -> str:
        # Without this callback OpenSSL would block the whole process and ask on the terminal.
        raise BadInput(f"The key {identity.key} needs a passphrase; a key without one is wanted (mode 600).")

    try:
        context.load_cert_chain(identity.certificate, identity.key, passphrase)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(
            sentences(f"The link certificate {identity.certificate} cannot be used: {error}")
        ) from error


def pinned_client_context(*fingerprints: str) -> ssl.SSLContext:
    """Make the TLS context of a dialler: it accepts only a certificate with one of these fingerprints.

    The check is part of the handshake, so nothing can be sent to a peer with another certificate: the
    handshake fails with `OtherCertificate`.

    Raises:
        BadInput: a fingerprint is not a SHA-256 in hexadecimal, or there is none.
    """
    pins = [fingerprint.replace(":", "").lower() for fingerprint in fingerprints]
    if not pins or any(len(pin) != 64 or not set(pin) <= _HEX for pin in pins):
        raise BadInput("A fingerprint is a SHA-256 in hexadecimal, 64 digits.")

    def check(der: bytes | None) -> None:
        seen = fingerprint_of(der or b"")
        if not any(hmac.compare_digest(seen, pin) for pin in pins):
            raise OtherCertificate(seen)

    class PinnedObject(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            check(self.getpeercert(True))

    class PinnedSocket(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            check(self.getpeercert(True))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The fingerprint check replaces the checks of names and authorities.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.sslobject_class = PinnedObject
    context.sslsocket_class = PinnedSocket
    return context


def make_identity(name: str = "quarterdeck") -> NewIdentity:
    """Make a key and a certificate for it, signed by that key."""
    # Imported here, because the import is slow and only this function needs it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        # One day of tolerance for clocks that differ; for pinned certificates dates are not checked anyway.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        .sign(private, hashes.SHA256())
    )
    pem: Any = serialization.Encoding.PEM
    secret = private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return NewIdentity(signed.public_bytes(pem), secret)


def _fresh(path: Path) -> Path:
    return path.with_name(path.name + ".new")

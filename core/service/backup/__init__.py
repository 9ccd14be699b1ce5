"""Backups of a home: one file with everything that a home needs, and homes that are made of such files.

A backup is a plain tar archive (`archive.py`). Its first member says what it is and is authenticated by the
passphrase, `SHA256SUMS` has the digest of every file, `home/` has what is no secret, and `secrets.sealed` has
the rest: another archive of the same form, encrypted under the passphrase (`sealing.py`). So `tar` unpacks a
backup, `sha256sum -c` checks it, and `audit verify` verifies its journal, each without the passphrase.

Tar and not zip: a tar archive has each name and size once, and no compression, so that it can be written in
exactly one form, and nothing in it can unpack to more than the file has.
"""

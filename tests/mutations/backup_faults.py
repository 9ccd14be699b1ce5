"""Faults in `core/service/backup` and the copy of a journal: checks skipped, secrets shown, halves left."""

from __future__ import annotations

from tests.mutations.faults import Fault

_AT = "core/service/backup/"
_UNIT = "tests/unit/service/"
_ATTACKS = (f"{_UNIT}test_backup_attacks.py",)
_ARCHIVE = (f"{_UNIT}test_backup_archive.py", *_ATTACKS)
_COPY = ("tests/unit/audit/test_journal_copy.py", *_ATTACKS)

FAULTS = [
    Fault(
        f"{_AT}archive.py",
        "    if read != header(member):\n",
        "    if False:\n",
        "a link or a device is taken for a file",
        _ARCHIVE,
    ),
    Fault(
        f"{_AT}archive.py",
        "    if not safe_name(name):\n",
        "    if False:\n",
        "a file is written outside the home",
        _ARCHIVE,
    ),
    Fault(
        f"{_AT}archive.py",
        "        if not 0 < size <= _LONGEST_NAME:\n",
        "        if size <= 0:\n",
        "a name may take all memory",
        _ARCHIVE,
    ),
    Fault(
        f"{_AT}archive.py",
        "    if source.read(len(padding(size))) != padding(size):\n",
        "    if len(source.read(len(padding(size)))) != len(padding(size)):\n",
        "bytes may stand between files",
        _ARCHIVE,
    ),
    Fault(
        f"{_AT}sealing.py",
        '    return number.to_bytes(11, "big") + bytes([last])\n',
        '    return number.to_bytes(11, "big") + bytes([False])\n',
        "the secrets may be cut off between two chunks",
        _ARCHIVE,
    ),
    Fault(
        f"{_AT}sealing.py",
        '    return number.to_bytes(11, "big") + bytes([last])\n',
        "    return bytes(11) + bytes([last])\n",
        "chunks may change places, under one nonce",
        _ARCHIVE,
    ),
    Fault(
        f"{_AT}contents.py",
        "            is_plain = name in _PLAIN or name.startswith(_PLAIN_FOLDER)\n",
        '            is_plain = not name.startswith("this-computer/")\n',
        "the keys are in the file in clear",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}contents.py",
        "        if not stat.S_ISREG(seen.st_mode) or not _can_be_named(name):\n",
        "        if not _can_be_named(name):\n",
        "what is no file is backed up as one",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}making.py",
        "        give_name(made, self._target)\n",
        "        made.replace(self._target)\n",
        "a file that came meanwhile is overwritten",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}making.py",
        "                shutil.rmtree(self._folder, ignore_errors=True)\n",
        "                pass\n",
        "half a backup is left",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}making.py",
        "                if _is_blob(file) and digest != file.path.name:\n",
        "                if False:\n",
        "a damaged blob goes into a backup",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}making.py",
        "    if not journal.state.writable or journal.has_late:\n",
        "    if False:\n",
        "what waits for the journal is left out in silence",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}progress.py",
        "        if self.stop.is_set():\n",
        "        if False:\n",
        "an interrupted backup goes on",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}reading.py",
        '        if not hmac.compare_digest(sealing.mac(key, self._bytes).encode() + b"\\n", self._mac):\n',
        "        if False:\n",
        "a description that was changed is believed",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}reading.py",
        "            if sha256_hex(sums) != self.description.sums:\n",
        "            if False:\n",
        "a list of files that was changed is believed",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}reading.py",
        "        if got != digest:\n",
        "        if False:\n",
        "a file that was changed is restored",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}reading.py",
        "            if self.size != expected:\n",
        "            if self.size < expected:\n",
        "something may stand behind a backup",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}checking.py",
        "    if not report.ok:\n",
        "    if False:\n",
        "a journal that does not verify is restored",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}checking.py",
        "    if (report.entries, report.checkpoint) != (description.entries, description.checkpoint):\n",
        "    if False:\n",
        "another journal than the described one is restored",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}restoring.py",
        "    if names:\n",
        "    if len(names) > 1:\n",
        "a used home is restored into",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}restoring.py",
        "            shutil.rmtree(folder, ignore_errors=True)\n            raise\n",
        "            raise\n",
        "half a home is left",
        _ATTACKS,
    ),
    Fault(
        f"{_AT}restoring.py",
        "        _make_folders(wanted.parent, below)\n        wanted.mkdir(mode=0o700)\n",
        "        wanted.mkdir(parents=True)\n",
        "others may look into a restored home",
        _ATTACKS,
    ),
    Fault(
        "core/audit/journal_copy.py",
        '            source.execute("BEGIN")\n',
        "",
        "the head of a copy is of another moment than its entries",
        _COPY,
    ),
    Fault(
        "core/audit/journal_copy.py",
        '        file.write(len(SCHEMA).to_bytes(4, "big"))\n',
        '        file.write(b"")\n',
        "a copy does not verify",
        _COPY,
    ),
    Fault(
        "core/audit/journal_copy.py",
        "numbers_for_a_copy(store.head.spool_done)",
        "store.head.spool_done",
        "a record of the original's spool gets into the copy",
        _COPY,
    ),
    Fault(
        "core/audit/spool.py",
        "    return next_numbers(used + (_OPENINGS + secrets.randbelow(_OPENINGS)) * _NUMBERS)\n",
        "    return next_numbers(used)\n",
        "a record of a later opening of the original gets into the copy",
        _COPY,
    ),
]

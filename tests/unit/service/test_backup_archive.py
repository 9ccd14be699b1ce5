"""The archive of a backup is what other programs read, in one form; its secrets are one authentic stream."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.service.backup.archive import END, Damaged, Member, header, padding, read_content, read_member
from core.service.backup.sealing import CHUNK, TAG, SealReader, SealWriter, key_of, new_key
from tests.fakes.backups import KEY, OTHER_KEY
from tests.fakes.run_size import spread

NAMES = ["a", "home/journal.db", "x" * 100, "y" * 101, "ü" * 60, "d/" * 60 + "z" * 200]


def archived(files: dict[str, bytes]) -> bytes:
    parts = [header(Member(name, len(data), 5)) + data + padding(len(data)) for name, data in files.items()]
    return b"".join(parts) + END


def members(data: bytes) -> Iterator[tuple[str, bytes]]:
    source = io.BytesIO(data)
    while (member := read_member(source)) is not None:
        yield member.name, b"".join(read_content(source, member.size))


def test_what_is_written_is_read_back_by_this_program_and_by_others(tmp_path: Path):
    files = {name: name.encode() * 9 for name in NAMES} | {"empty": b""}
    assert dict(members(archived(files))) == files
    with tarfile.open(fileobj=io.BytesIO(archived(files)), mode="r:") as archive:
        assert {one.name: archive.extractfile(one).read() for one in archive} == files
        assert {(one.mode, one.uid, one.mtime) for one in archive} == {(0o600, 0, 5)}
    (tmp_path / "a.tar").write_bytes(archived(files))
    listed = subprocess.run(["tar", "tf", tmp_path / "a.tar"], capture_output=True, text=True, check=True)
    assert listed.stderr == ""
    assert len(listed.stdout.splitlines()) == len(files)


def test_a_size_beyond_eight_gigabytes_is_read_back():
    size = 9 << 30
    assert read_member(io.BytesIO(header(Member("a", size, 5)))) == Member("a", size, 5)
    assert tarfile.TarInfo.frombuf(header(Member("a", size, 5)), "utf-8", "strict").size == size


def read_or_refused(data: bytes) -> dict[str, bytes] | None:
    try:
        return dict(members(data))
    except Damaged:
        return None


@pytest.mark.parametrize("name", ["a", "y" * 101])
def test_each_changed_byte_of_a_header_and_of_padding_is_noticed(name: str):
    whole = archived({name: b"content"})
    start = whole.index(b"content")
    for at in (*range(start), *range(start + 7, len(whole))):
        for by in (1, 0x20, 0x80):
            found = read_or_refused(whole[:at] + bytes([whole[at] ^ by]) + whole[at + 1 :])
            # Behind its first 100 bytes a name has no checksum of its own: it is another name.
            assert found is None or (len(name) > 100 and name not in found)


def test_an_archive_that_ends_early_or_late_is_noticed():
    whole = archived({"a": b"content", "y" * 101: b"more"})
    for length in range(len(whole)):
        with pytest.raises(Damaged):
            list(members(whole[:length]))
    with pytest.raises(Damaged):
        list(members(whole + b"\0"))


@pytest.mark.parametrize(
    "name",
    ["../x", "/x", "a/../../x", "a//b", "./a", "a/.", "", "..", "a\\..\\b", "c:x", "a\nb", "a\0b", "a/"],
)
def test_a_name_that_leads_out_is_refused(name: str):
    with pytest.raises(Damaged):
        list(members(archived({name: b"x"})))


KINDS = {
    "hard link": tarfile.LNKTYPE,
    "symlink": tarfile.SYMTYPE,
    "character device": tarfile.CHRTYPE,
    "block device": tarfile.BLKTYPE,
    "folder": tarfile.DIRTYPE,
    "FIFO": tarfile.FIFOTYPE,
    "old file": tarfile.AREGTYPE,
    "sparse file": tarfile.GNUTYPE_SPARSE,
    "long link": tarfile.GNUTYPE_LONGLINK,
    "extended header": tarfile.XHDTYPE,
    "global header": tarfile.XGLTYPE,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_is_no_regular_file_is_refused(kind: bytes, form: int):
    info = tarfile.TarInfo("home/x")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(Damaged):
        list(members(info.tobuf(form) + END))


def test_a_name_without_end_takes_no_memory():
    class Endless:
        def __init__(self) -> None:
            self.taken = 0
            self._first = header(Member("y" * 101, 1, 5))[:512].replace(b"%011o" % 102, b"7" * 11)

        def read(self, size: int) -> bytes:
            self.taken += size
            assert self.taken < 10_000
            return self._first if self.taken == 512 else bytes(size)

    source = Endless()
    with pytest.raises(Damaged):
        read_member(source)
    assert source.taken >= 512


def sealed(plain: bytes) -> bytes:
    file = io.BytesIO()
    writer = SealWriter(file, KEY)
    for at in range(0, len(plain), 1000):
        writer.write(plain[at : at + 1000])
    writer.close()
    data = file.getvalue()
    assert (writer.size, writer.digest.digest()) == (len(data), hashlib.sha256(data).digest())
    return data


def opened(data: bytes, key=KEY, size: int | None = None) -> bytes:
    reader = SealReader(io.BytesIO(data), len(data) if size is None else size, key)
    plain = b"".join(iter(lambda: reader.read(777), b""))
    assert reader.digest.digest() == hashlib.sha256(data).digest()
    return plain


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5])
def test_what_is_sealed_comes_back(size: int):
    plain = bytes(range(256)) * (size // 256 + 1)
    data = sealed(plain[:size])
    assert opened(data) == plain[:size]
    assert len(data) == size + TAG * max(1, -(-size // CHUNK))


def test_sealed_bytes_are_authentic_or_refused():
    plain = b"secret" * 30_000
    data = sealed(plain)
    chunks = [data[at : at + CHUNK + TAG] for at in range(0, len(data), CHUNK + TAG)]
    assert len(chunks) == 3
    first, second, last = chunks
    others = [
        first + second,
        first,
        b"",
        second + first + last,
        first + last,
        data + last,
        data[:-1],
        data + b"x",
    ]
    others += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in spread(range(len(data)), 40)]
    for other in others:
        with pytest.raises(Damaged):
            opened(other)
    with pytest.raises(Damaged):
        opened(data, OTHER_KEY)
    with pytest.raises(Damaged):
        opened(data[:-1], size=len(data))
    assert b"secret" not in data


def test_a_passphrase_makes_another_key_for_each_backup():
    first, second = new_key("correct horse"), new_key("correct horse")
    assert first.salt != second.salt
    assert first.key != second.key
    assert key_of("correct horse", first.salt) == first
    assert key_of("correct horsf", first.salt).key != first.key
    assert first.key not in repr(first)

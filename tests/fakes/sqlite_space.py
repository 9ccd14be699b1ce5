"""Which bytes of a SQLite database and its write-ahead log mean something, read off the file format.

Written from https://www.sqlite.org/fileformat2.html and from nothing of ours, so that it can be held against
what our verification notices: a byte that is not used may change unseen, every other one may not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

# Marks in a mask. A NULL's type in a record may as well be that of 0 or 1 where the value is not read.
UNUSED, USED, NULL_TYPE = 0, 1, 2
_AS_GOOD_AS_NULL = (0, 8, 9)
_TABLE_INTERIOR, _TABLE_LEAF, _INDEX_INTERIOR, _INDEX_LEAF = 0x05, 0x0D, 0x02, 0x0A


class Space:
    """The used bytes of both files, as masks of `USED`, `UNUSED` and `NULL_TYPE`."""

    def __init__(self, database: bytes, log: bytes = b"") -> None:
        self._database_data, self._log_data = database, log
        self.database = bytearray(len(database))
        self.log = bytearray(len(log))
        self._size = int.from_bytes(database[16:18], "big")
        # Where in the log the newest committed content of a page is; SQLite does not read the file's then.
        self._in_log: dict[int, int] = {}
        self._read_log()
        self._first_page()
        for root in [1, *self._roots(1)]:
            self._tree(root)
        self._free_list()

    def _read_log(self) -> None:
        """4.1 to 4.3: frames count up to the last commit that an unbroken chain of checksums leads to."""
        data, stride = self._log_data, 24 + self._size
        if len(data) < 32:
            return
        order = ">" if data[3] & 1 else "<"
        sums = _checksum(data[:24], (0, 0), order)
        assert sums == struct.unpack_from(">II", data, 24), "the log's header is damaged"
        pages: dict[int, int] = {}
        for at in range(32, len(data) - stride + 1, stride):
            page, size, *salts, first, second = struct.unpack_from(">6I", data, at)
            sums = _checksum(data[at : at + 8] + data[at + 24 : at + stride], sums, order)
            if tuple(salts) != struct.unpack_from(">II", data, 16) or sums != (first, second):
                break
            pages[page] = at + 24
            if size:
                self._in_log.update(pages)
                # A changed byte in any of these frames breaks the chain.
                self.log[: at + stride] = b"\1" * (at + stride)

    def _first_page(self) -> None:
        """1.3: but for the version of the library that wrote it last, which nothing depends on."""
        if 1 in self._in_log:
            # Of the file's own header, what identifies it is read before the log is.
            self._use(0, 24)
            self._use(44, 48)
        else:
            self._use(0, 96)

    def _use(self, at: int, count: int) -> None:
        self.database[at : at + count] = b"\1" * count

    def _page(self, number: int) -> bytes:
        if (at := self._in_log.get(number)) is not None:
            return self._log_data[at : at + self._size]
        start = (number - 1) * self._size
        return self._database_data[start : start + self._size]

    def _use_in(self, page: int, at: int, count: int) -> None:
        if page not in self._in_log:
            self._use((page - 1) * self._size + at, count)

    def _roots(self, page: int) -> Iterator[int]:
        """2.6: the fourth column of each row of the schema table."""
        data = self._page(page)
        for cell in self._cells(page):
            if data[100 if page == 1 else 0] == _TABLE_INTERIOR:
                yield from self._roots(int.from_bytes(data[cell : cell + 4], "big"))
                continue
            _, at = _varint(data, cell)
            _, at = _varint(data, at)
            values = _record(data, at)
            yield int.from_bytes(values[3], "big")
        if data[100 if page == 1 else 0] == _TABLE_INTERIOR:
            yield from self._roots(int.from_bytes(data[108:112] if page == 1 else data[8:12], "big"))

    def _cells(self, page: int) -> list[int]:
        """Where a page's cells begin (1.6)."""
        data = self._page(page)
        start = 100 if page == 1 else 0
        interior = data[start] in (_TABLE_INTERIOR, _INDEX_INTERIOR)
        count = int.from_bytes(data[start + 3 : start + 5], "big")
        at = start + (12 if interior else 8)
        return list(struct.unpack_from(f">{count}H", data, at))

    def _tree(self, page: int) -> None:
        data = self._page(page)
        start = 100 if page == 1 else 0
        kind = data[start]
        interior = kind in (_TABLE_INTERIOR, _INDEX_INTERIOR)
        cells = self._cells(page)
        self._use_in(page, start, (12 if interior else 8) + 2 * len(cells))
        free = int.from_bytes(data[start + 1 : start + 3], "big")
        while free:
            # Of a free block, where the next one is and how long it is; the rest is nothing.
            self._use_in(page, free, 4)
            free = int.from_bytes(data[free : free + 2], "big")
        for cell in cells:
            self._cell(page, kind, cell)
            if interior:
                self._tree(int.from_bytes(data[cell : cell + 4], "big"))
        if interior:
            self._tree(int.from_bytes(data[start + 8 : start + 12], "big"))

    def _cell(self, page: int, kind: int, cell: int) -> None:
        data = self._page(page)
        at = cell + (4 if kind in (_TABLE_INTERIOR, _INDEX_INTERIOR) else 0)
        if kind == _TABLE_INTERIOR:
            self._use_in(page, cell, _varint(data, at)[1] - cell)
            return
        payload, at = _varint(data, at)
        if kind == _TABLE_LEAF:
            _, at = _varint(data, at)
        local = self._local(payload, table=kind == _TABLE_LEAF)
        end = at + local
        self._use_in(page, cell, end - cell + (4 if local < payload else 0))
        if kind == _TABLE_LEAF and page != 1 and page not in self._in_log:
            # 2.3: the column that is the row's number is stored as a NULL, and what is stored is not read.
            self.database[(page - 1) * self._size + at + 1] = NULL_TYPE
        left = payload - local
        overflow = int.from_bytes(data[end : end + 4], "big") if left else 0
        while left:
            count = min(left, self._size - 4)
            self._use_in(overflow, 0, 4 + count)
            left -= count
            overflow = int.from_bytes(self._page(overflow)[:4], "big")

    def _local(self, payload: int, table: bool) -> int:
        """How much of a cell's payload is on its page (1.6)."""
        least = (self._size - 12) * 32 // 255 - 23
        most = self._size - 35 if table else (self._size - 12) * 64 // 255 - 23
        if payload <= most:
            return payload
        some = least + (payload - least) % (self._size - 4)
        return some if some <= most else least

    def _free_list(self) -> None:
        """1.5: the trunk pages, and nothing of the pages that they list."""
        trunk = int.from_bytes(self._page(1)[32:36], "big")
        while trunk:
            data = self._page(trunk)
            self._use_in(trunk, 0, 8 + 4 * int.from_bytes(data[4:8], "big"))
            trunk = int.from_bytes(data[:4], "big")


def matters(mask: int, value: int) -> bool:
    """Whether a byte with this mark means something else when it becomes `value`."""
    return mask == USED or (mask == NULL_TYPE and value not in _AS_GOOD_AS_NULL)


def _checksum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    for left, right in struct.iter_unpack(f"{order}II", data):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    return first, second


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if not data[place] & 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9


def _record(data: bytes, at: int) -> list[bytes]:
    """The values of a record, as bytes (2.1)."""
    end, place = _varint(data, at)
    body = at + end
    values = []
    while place < at + end:
        kind, place = _varint(data, place)
        length = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind] if kind < 10 else (kind - 12) // 2
        values.append(data[body : body + length])
        body += length
    return values

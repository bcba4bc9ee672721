"""Join Parquet files of the same schema without decoding them.

A Parquet file is `PAR1`, pages, a footer, the footer's length and `PAR1` again. Pages do not know
where they lie; the footer does. So files are joined by writing their pages one after the other,
and one footer whose offsets are moved. The footer is a Thrift structure in the compact protocol:
it is read and written here without knowing more of it than where the offsets are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MARK = b"PAR1"
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
INTEGERS = (4, 5, 6)
FILE_ROWS, FILE_GROUPS = 3, 4
GROUP_COLUMNS, GROUP_OFFSET, GROUP_NUMBER = 1, 5, 7
CHUNK_OFFSETS, CHUNK_METADATA = (2, 4, 6), 3
METADATA_OFFSETS = (9, 10, 11, 14)
"""Numbers of the fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData."""

Fields = dict[int, tuple[int, Any]]
"""A structure: type and value by field number, in order."""


@dataclass(frozen=True)
class Piece:
    """A Parquet file in memory, taken apart."""

    pages: memoryview
    footer: bytes


def take_apart(file: Any) -> Piece:
    """Split a file into pages and footer."""
    view = memoryview(file)
    end = len(view) - 8
    length = int.from_bytes(view[end : end + 4], "little")
    return Piece(view[len(MARK) : end - length], bytes(view[end - length : end]))


def joined_footer(footers: Sequence[bytes], begins: Sequence[int]) -> bytes:
    """Return the end of a file whose pages begin at these offsets: footer, length and mark."""
    files = [_Reader(footer).structure() for footer in footers]
    whole = files[0]
    groups: list[Fields] = []
    for file, begin in zip(files, begins, strict=True):
        for group in file[FILE_GROUPS][1][1]:
            _move(group, begin - len(MARK))
            if GROUP_NUMBER in group:
                group[GROUP_NUMBER] = (group[GROUP_NUMBER][0], len(groups))
            groups.append(group)
    n_rows = sum(file[FILE_ROWS][1] for file in files)
    whole[FILE_ROWS] = (whole[FILE_ROWS][0], n_rows)
    whole[FILE_GROUPS] = (LIST, (STRUCT, groups))
    footer = bytearray()
    _write_structure(footer, whole)
    return bytes(footer) + len(footer).to_bytes(4, "little") + MARK


def _move(group: Fields, by: int) -> None:
    """Move the offsets of a row group; an offset of 0 says that there is nothing."""
    _shift(group, (GROUP_OFFSET,), by)
    for chunk in group[GROUP_COLUMNS][1][1]:
        _shift(chunk, CHUNK_OFFSETS, by)
        _shift(chunk[CHUNK_METADATA][1], METADATA_OFFSETS, by)


def _shift(fields: Fields, numbers: Sequence[int], by: int) -> None:
    for number in numbers:
        if number in fields and fields[number][1]:
            kind, offset = fields[number]
            fields[number] = (kind, offset + by)


class _Reader:
    """Reads Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def structure(self) -> Fields:
        fields: Fields = {}
        number = 0
        while head := self._byte():
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = (kind, None if kind in (TRUE, FALSE) else self._value(kind))
        return fields

    def _value(self, kind: int) -> Any:
        if kind in INTEGERS:
            return self._integer()
        if kind == BINARY:
            return self._take(self._unsigned())
        if kind == STRUCT:
            return self.structure()
        if kind in (LIST, SET):
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._unsigned()
            element = head & 15
            return element, [self._value(element) for _ in range(size)]
        sizes = {TRUE: 1, FALSE: 1, BYTE: 1, DOUBLE: 8}
        if kind not in sizes:
            raise ValueError(f"the footer of a Parquet file has a field of type {kind}.")
        return self._take(sizes[kind])

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, n: int) -> bytes:
        self.at += n
        return self.data[self.at - n : self.at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


def _write_structure(out: bytearray, fields: Fields) -> None:
    last = 0
    for number, (kind, value) in fields.items():
        if 0 < number - last < 16:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_integer(out, number)
        last = number
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in INTEGERS:
        _write_integer(out, value)
    elif kind == BINARY:
        _write_unsigned(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_structure(out, value)
    elif kind in (LIST, SET):
        element, values = value
        out.append(min(len(values), 15) << 4 | element)
        if len(values) >= 15:
            _write_unsigned(out, len(values))
        for one in values:
            _write_value(out, element, one)
    else:
        out += value


def _write_unsigned(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _write_integer(out: bytearray, value: int) -> None:
    _write_unsigned(out, value << 1 if value >= 0 else (-value << 1) - 1)

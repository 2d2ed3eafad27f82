"""The input of every reader and its output."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import TextIOWrapper
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from plueckernet.errors import FormatError
from plueckernet.io.files import check_regular

_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_HEAD_BYTES = 1 << 16  # larger than any header or first row in practice
_LINES_PER_REPORT = 1 << 15  # lines between two progress reports
MAX_LINES = 2_000_000  # of blocks, templates and compressed arrays; less than 1 GB of memory
POINT_COLUMNS = (3, 4)  # of points, without and with an intensity; segments have six
POINT_CLOUD = "a point cloud, not lines: `plueckernet extract` finds the lines in it"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Source:
    """A file (or folder) to read, with the options of its reader.

    Attributes:
        path: The file or folder.
        lod: The requested level of detail, for formats that have several.
        types: Types of elements to read, for formats that have elements; all by default.
        storey: Name of the storey to read, for formats that have storeys.
        progress: Called regularly with the fraction of the file that has been read, in [0, 1].
        max_lines: The largest number of lines where a small file can declare many: repeated blocks, compressed arrays.
    """

    path: Path
    lod: str | None = None
    progress: Callable[[float], None] | None = None
    types: tuple[str, ...] = ()
    storey: str | None = None
    max_lines: int = MAX_LINES

    @cached_property
    def head(self) -> bytes:
        """The first bytes, used to recognise the format; empty for a folder."""
        check_regular(self.path)
        if self.path.is_dir():
            return b""
        with self.path.open("rb") as handle:
            return handle.read(_HEAD_BYTES)

    @cached_property
    def head_rows(self) -> list[str]:
        """The complete lines among the first bytes, without blank lines and `#` comments; empty if binary."""
        if self.is_binary:
            return []
        lines = self.head.decode("utf-8-sig", errors="surrogateescape").splitlines(keepends=True)
        if len(self.head) == _HEAD_BYTES and len(lines) > 1:
            lines.pop()  # incomplete
        rows = (line.partition("#")[0].strip() for line in lines)
        return [row for row in rows if row]

    @property
    def is_binary(self) -> bool:
        """Whether the first bytes are not text in UTF-8 or another superset of ASCII."""
        return b"\0" in self.head or self.head.startswith(_UTF16_MARKS)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Number (from 1) and text of every line, for any line ending and without a byte order mark.

        Bytes that are not UTF-8 are passed on as lone surrogates: harmless in comments, where programs write them,
        and rejected where numbers are expected.
        """
        if self.head.startswith(_UTF16_MARKS):
            raise self.error("UTF-16 text; save it as UTF-8")
        if self.is_binary:
            raise self.error("binary data where text was expected")
        size = max(len(self.head), self.path.stat().st_size)
        with self.path.open("rb") as data:
            handle = TextIOWrapper(data, encoding="utf-8-sig", errors="surrogateescape")
            for number, line in enumerate(handle, 1):
                if self.progress is not None and number % _LINES_PER_REPORT == 0:
                    self.progress(min(1.0, data.tell() / size))
                yield number, line

    def check_count(self, count: int, what: str) -> None:
        """Raise if a file that repeats or compresses lines has more than ``max_lines``."""
        if count > self.max_lines:
            raise self.error(f"{count} {what}, but the limit is {self.max_lines}; raise it with max_lines")

    def error(self, reason: str, line: int | None = None) -> FormatError:
        """The error to raise about this file."""
        return FormatError(self.path, reason, line)


@dataclass(frozen=True)
class RawLines:
    """The raw lines of a file: segments by endpoints, or infinite lines by `(moment, direction)`.

    Attributes:
        endpoints: Two points per segment.
        pluecker: Six numbers per infinite line; exactly one of `endpoints` and `pluecker` is set.
        ids: The ids of the lines in the file, if it has any.
        notes: Remarks for the user about how the file was read.
        sigma: The noise of each line, if the file has it; see `LineSet`.
        views: How many images or scans saw each line, if the file has it.
        crs: The coordinate reference system that the file names.
    """

    endpoints: Float64[np.ndarray, "n 2 3"] | None = None
    pluecker: Float64[np.ndarray, "n 6"] | None = None
    ids: Int64[np.ndarray, " n"] | None = None
    notes: tuple[str, ...] = ()
    sigma: Float64[np.ndarray, " n"] | None = None
    views: Int64[np.ndarray, " n"] | None = None
    crs: str | None = None


def shown(token: str, limit: int = 40) -> str:
    """Text of a file as quoted in an error message: ASCII only, with a limited length."""
    text = ascii(token)
    return text if len(text) <= limit else f"{text[:limit]}…'"


def numbers(fields: list[str], source: Source, line: int) -> list[float]:
    """Fields as floats; an error names the first field that is not a number."""
    try:
        return [float(field) for field in fields]
    except ValueError:
        bad = next(field for field in fields if not is_number(field))
        hint = "; numbers have a decimal point, not a comma" if _DECIMAL_COMMA.fullmatch(bad.strip()) else ""
        raise source.error(f"expected a number, found {shown(bad)}{hint}", line) from None


def check_decimal_point(row: str, source: Source, line: int) -> None:
    """Raise if all columns of a row are numbers with a decimal comma, or whole ones between them: `1,5 2,25 3`."""
    fields = row.replace(";", " ").split()
    commas = [_DECIMAL_COMMA.fullmatch(field) is not None for field in fields]
    if len(fields) > 1 and any(commas) and all(c or field.isdigit() for c, field in zip(commas, fields, strict=True)):
        raise source.error(f"decimal commas, as in {shown(fields[commas.index(True)])}; write decimal points", line)


def is_number(field: str) -> bool:
    """Whether a field parses as a float, including `nan` and `inf`."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def is_count(field: str) -> bool:
    """Whether a field is a plain non-negative integer."""
    return field.isascii() and field.isdigit() and len(field) < 16

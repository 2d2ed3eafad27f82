"""E57, LAS and LAZ from strangers: nothing reaches the network, and no header makes a reader allocate or hang."""

from __future__ import annotations

import select
import socket
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from tests.extraction.e57_files import e57_around

from plueckernet.errors import FormatError
from plueckernet.extraction import read_points

ROOT = b'<e57Root type="Structure" xmlns="http://www.astm.org/COMMIT/E57/2010-e57-v1.0"></e57Root>'


@pytest.mark.parametrize("encoding", ["UTF-8", "ibm037"])
def test_an_e57_with_a_doctype_reaches_nothing(tmp_path: Path, encoding: str) -> None:
    pytest.importorskip("pye57", reason="pye57 is not installed")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/leak.dtd"
        text = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE e57Root SYSTEM "{address}">'
        xml = text.encode("cp037" if encoding == "ibm037" else "ascii") + ROOT
        path = tmp_path / "a.e57"
        path.write_bytes(e57_around(xml))
        with pytest.raises(FormatError, match="XML"):
            read_points(path)
        assert not select.select([listener], [], [], 0.2)[0]


def test_an_e57_that_expands_is_refused(tmp_path: Path) -> None:
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "x" * 50}">' for i in range(12))
    path = tmp_path / "a.e57"
    path.write_bytes(e57_around(f"<!DOCTYPE a [{entities}]>".encode() + ROOT))
    with pytest.raises(FormatError, match="DOCTYPE"):
        read_points(path)


def las_bytes(points: int, *, width: int = 20, declared: int | None = None, records: int = 0, form: int = 0) -> bytes:
    """LAS 1.2 with points on the x axis, 1 mm apart."""
    header = bytearray(227)
    header[:4], header[24:26] = b"LASF", b"\x01\x02"
    struct.pack_into("<HIIBHI", header, 94, 227, 227, records, form, width, points if declared is None else declared)
    struct.pack_into("<6d", header, 131, 0.001, 0.001, 0.001, 0, 0, 0)
    rows = np.zeros((points, width), np.uint8)
    rows[:, :4] = np.arange(points, dtype="<i4")[:, None].view(np.uint8)
    return bytes(header) + rows.tobytes()


def test_las_is_read_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.las"
    path.write_bytes(las_bytes(1000, width=34))
    assert np.allclose(read_points(path)[:, 0], np.arange(1000) / 1000)


def test_a_las_that_ends_early_says_how_many_points_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.las"
    path.write_bytes(las_bytes(30, declared=40))
    with pytest.raises(FormatError, match="after 30 of 40 points; 10 are missing"):
        read_points(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (las_bytes(1, records=2**32 - 1), "4294967295 variable length records"),
        (las_bytes(1, width=7), "points of 7 bytes"),
        (las_bytes(1)[:200], "ends within the header"),
        (las_bytes(2, form=0x80), "chunk table is not in the file"),
        (las_bytes(0, form=0x80) + struct.pack("<qII", 235, 0, 2**32 - 1), "4294967295 chunks for 0 points"),
        (las_bytes(1)[:131] + struct.pack("<6d", *[float("nan")] * 6) + bytes(100), "scale and offset"),
    ],
)
def test_headers_that_promise_too_much_are_refused_at_once(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.las"
    path.write_bytes(content)
    start = time.monotonic()
    with pytest.raises(FormatError, match=message):
        read_points(path)
    assert time.monotonic() - start < 1.0


def test_a_laz_whose_reader_crashes_is_an_error(tmp_path: Path) -> None:
    """The header passes; the native reader fails in its own process."""
    pytest.importorskip("lazrs", reason="lazrs is not installed")
    record = struct.pack("<H16sHH32s", 0, b"laszip encoded", 22204, 34, b"")
    items = struct.pack("<HHBBHIIqqHHHH", 2, 0, 3, 4, 3, 0, 2**32 - 2, -1, -1, 1, 6, 20, 2)
    content = bytearray(las_bytes(0, form=0x80, declared=2**31, records=1))
    struct.pack_into("<I", content, 96, 227 + len(record) + len(items))
    place = 227 + len(record) + len(items)
    path = tmp_path / "a.laz"
    path.write_bytes(
        bytes(content) + record + items + struct.pack("<q", place + 8) + struct.pack("<II", 0, 100) + b"\xff" * 200
    )
    with pytest.raises(FormatError, match="not readable as LAS or LAZ"):
        read_points(path)

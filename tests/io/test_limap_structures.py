"""Segments of images and wireframes of LIMAP models in new numbers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from plueckernet.errors import FormatError
from plueckernet.io.limap_structures import NO_LINE, StructureNumbers, write_joined

NUMBERS = StructureNumbers(images={4: 40}, points={9: 90}, lines={1: 10, 2: 20})


def segment(line: int) -> bytes:
    return struct.pack("<5dQ", 1, 2, 3, 4, 0.5, line)


def image(number: int, lines: tuple[int, ...], groups: int) -> bytes:
    group = struct.pack("<iQIdQIdIdQ", 2, 1, 7, 1.0, 2, 0, 1.0, 1, 0.5, 3)
    edges = struct.pack("<QIId", 1, 6, 0, 0.25)
    head = struct.pack("<IIQ", number, 11, len(lines))
    return head + b"".join(map(segment, lines)) + struct.pack("<Q", groups) + groups * group + edges


def structures(folder: Path, groups: int = 1) -> Path:
    folder.mkdir()
    (folder / "structures2d.bin").write_bytes(
        struct.pack("<Q", 2) + image(3, (1,), 0) + image(4, (1, NO_LINE, 2, 5), groups)
    )
    (folder / "wireframe3D.bin").write_bytes(struct.pack("<QQQdQQd", 2, 9, 2, 0.75, 8, 2, 1.0))
    (folder / "groups3D.bin").write_bytes(struct.pack("<Q", groups))
    return folder


def test_numbers_change_and_groups_are_left_out(tmp_path: Path) -> None:
    notes = write_joined(tmp_path / "out", ((structures(tmp_path / "a"), NUMBERS), (None, NUMBERS)), {40: 11, 2: 5})
    assert notes == [f"{tmp_path / 'a'}: planes, vanishing points and other groups were left out"]
    blank = struct.pack("<IIQQQ", 2, 5, 0, 0, 0)
    expected = struct.pack("<Q", 2) + blank + image(40, (10, NO_LINE, 20, NO_LINE), 0)
    assert (tmp_path / "out" / "structures2d.bin").read_bytes() == expected
    assert (tmp_path / "out" / "wireframe3D.bin").read_bytes() == struct.pack("<QQQd", 1, 90, 20, 0.75)


def test_segments_in_text_are_left_out_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "structures2d.txt").write_text("0\n")
    (note,) = write_joined(tmp_path / "out", ((tmp_path, NUMBERS),), {40: 3})
    assert "those of text were left out" in note
    assert (tmp_path / "out" / "structures2d.bin").read_bytes() == struct.pack("<QIIQQQ", 1, 40, 3, 0, 0, 0)


@pytest.mark.parametrize("name", ["structures2d.bin", "wireframe3D.bin", "groups3D.bin"])
def test_damaged_files_are_refused(tmp_path: Path, name: str) -> None:
    file = structures(tmp_path / "a") / name
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(FormatError, match=f"{name}: the file ends too early"):
        write_joined(tmp_path / "out", ((file.parent, NUMBERS),), {})

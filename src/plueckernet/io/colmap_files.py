"""The binary files of a COLMAP model, as pieces with and without coordinates: one description of their layout.

All numbers are little endian. A file begins with the number of its records as uint64. A pose is a quaternion w x y z
and a translation, seven doubles. COLMAP itself reads on at the end of a file that declares more than it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO

from plueckernet.errors import FormatError
from plueckernet.io.files import check_regular
from plueckernet.io.source import Source

_POSE = 7 * 8  # bytes
_SENSOR = 4 + 4  # type and number
_CAMERA = 4 + 4 + 8 + 8  # number, kind, width, height; as many parameters as the kind has follow


class PieceKind(Enum):
    """What a piece of a file has."""

    WORLD_POSE = auto()  # of a camera or rig: camera_T_world
    SENSOR_POSE = auto()  # of a sensor in its rig: sensor_T_rig
    POINT = auto()  # three doubles
    OTHER = auto()  # numbers, names, features, tracks


Piece = tuple[PieceKind, bytes]


def check_model(folder: Path) -> None:
    """Raise :class:`FormatError` if a binary file of a model has less, or more, than it declares."""
    cameras = folder / "cameras.bin"
    if cameras.is_file():
        with _opened(cameras) as reader:
            for _ in range(reader.number(8)[0]):
                reader.take(_CAMERA)
    for name in RECORDS:
        if (folder / name).is_file():
            for _ in pieces(folder / name):
                pass


def pieces(path: Path) -> Iterator[Piece]:
    """All bytes of a file of `RECORDS`, in their order; a file that is damaged raises :class:`FormatError`."""
    with _opened(path) as reader:
        count, data = reader.number(8)
        yield PieceKind.OTHER, data
        for _ in range(count):
            yield from RECORDS[path.name](reader)
        reader.end()


class _Reader:
    """A file that is read piece by piece, and never beyond its end."""

    def __init__(self, path: Path, handle: BinaryIO) -> None:
        self._source, self._handle, self._left = Source(path), handle, path.stat().st_size

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def take(self, size: int) -> bytes:
        self._left -= size
        if self._left < 0:  # before memory is allocated for it
            raise self._source.error("the file ends too early")
        return self._handle.read(size)

    def number(self, size: int) -> tuple[int, bytes]:
        data = self.take(size)
        return int.from_bytes(data, "little"), data

    def counted(self, count_size: int, size: int) -> bytes:
        """A count and as many items of a size."""
        count, data = self.number(count_size)
        return data + self.take(count * size)

    def name(self) -> bytes:
        characters = bytearray()
        while not characters.endswith(b"\0"):
            characters += self.take(1)
        return bytes(characters)

    def end(self) -> None:
        if self._left:
            raise self._source.error(f"expected the end, found {self._left} more bytes")


def _opened(path: Path) -> _Reader:
    check_regular(path)
    try:
        return _Reader(path, path.open("rb"))
    except OSError as error:
        raise FormatError(path, (error.strerror or str(error)).lower()) from error


def _rig(reader: _Reader) -> Iterator[Piece]:
    yield PieceKind.OTHER, reader.take(4)
    sensors, data = reader.number(4)
    yield PieceKind.OTHER, data + reader.take(_SENSOR if sensors else 0)
    for _ in range(sensors - 1):
        yield PieceKind.OTHER, reader.take(_SENSOR)
        has_pose, data = reader.number(1)
        yield PieceKind.OTHER, data
        if has_pose:
            yield PieceKind.SENSOR_POSE, reader.take(_POSE)


def _frame(reader: _Reader) -> Iterator[Piece]:
    yield PieceKind.OTHER, reader.take(4 + 4)  # numbers of the frame and of the rig
    yield PieceKind.WORLD_POSE, reader.take(_POSE)
    yield PieceKind.OTHER, reader.counted(4, _SENSOR + 8)  # with the number of its data


def _image(reader: _Reader) -> Iterator[Piece]:
    yield PieceKind.OTHER, reader.take(4)
    yield PieceKind.WORLD_POSE, reader.take(_POSE)
    yield PieceKind.OTHER, reader.take(4) + reader.name()  # the camera
    yield PieceKind.OTHER, reader.counted(8, 24)  # x, y and number of the point in space


def _point(reader: _Reader) -> Iterator[Piece]:
    yield PieceKind.OTHER, reader.take(8)
    yield PieceKind.POINT, reader.take(3 * 8)
    yield PieceKind.OTHER, reader.take(3 + 8)  # colour and error
    yield PieceKind.OTHER, reader.counted(8, 8)  # image and point of each observation


RECORDS: dict[str, Callable[[_Reader], Iterator[Piece]]] = {
    "rigs.bin": _rig,
    "frames.bin": _frame,
    "images.bin": _image,
    "points3D.bin": _point,
}
"""How the records of each file are read; cameras have no coordinates."""

"""Whether the binary files of a COLMAP model hold as much as they declare: COLMAP itself reads on at their end."""

from __future__ import annotations

from pathlib import Path

from plueckernet.io.files import read_bytes
from plueckernet.io.source import Source

_POSE = 7 * 8  # bytes of a quaternion and a translation
_SENSOR = 4 + 4  # type and number
_CAMERA = 4 + 4 + 8 + 8  # number, kind, width, height; parameters follow


def check_model(folder: Path) -> None:
    """Raise :class:`FormatError` if a binary file of a model ends before what it declares."""
    for name, skip in _RECORDS.items():
        if (folder / name).is_file():
            walk = _Walk(folder / name)
            for _ in range(walk.number(8)):
                skip(walk)


class _Walk:
    """A place in a file, beyond whose end nothing is."""

    def __init__(self, path: Path) -> None:
        self._path, self._data, self._place = path, read_bytes(path), 0

    def skip(self, size: int) -> None:
        self._place += size
        if self._place > len(self._data):
            raise Source(self._path).error("the file ends too early")

    def number(self, size: int) -> int:
        self.skip(size)
        return int.from_bytes(self._data[self._place - size : self._place], "little")

    def skip_name(self) -> None:
        end = self._data.find(b"\0", self._place)
        self.skip((end if end >= 0 else len(self._data)) + 1 - self._place)


def _camera(walk: _Walk) -> None:
    walk.skip(_CAMERA)


def _rig(walk: _Walk) -> None:
    walk.skip(4)
    sensors = walk.number(4)
    walk.skip(_SENSOR if sensors else 0)
    for _ in range(sensors - 1):
        walk.skip(_SENSOR)
        walk.skip(_POSE if walk.number(1) else 0)


def _frame(walk: _Walk) -> None:
    walk.skip(4 + 4 + _POSE)
    walk.skip(walk.number(4) * (_SENSOR + 8))


def _image(walk: _Walk) -> None:
    walk.skip(4 + _POSE + 4)
    walk.skip_name()
    walk.skip(walk.number(8) * 24)  # x, y and number of the point in space


def _point(walk: _Walk) -> None:
    walk.skip(8 + 3 * 8 + 3 + 8)
    walk.skip(walk.number(8) * 8)  # image and point of each observation


_RECORDS = {
    "cameras.bin": _camera,
    "rigs.bin": _rig,
    "frames.bin": _frame,
    "images.bin": _image,
    "points3D.bin": _point,
}

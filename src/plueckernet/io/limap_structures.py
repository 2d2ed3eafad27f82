"""The other files of a LIMAP 2 model, with new numbers: the segments of its images, and its wireframe.

`structures2d.bin`, little endian: the number of images as uint64; for each image its number and the number of its
points as uint32, its segments (uint64 count; end points and score as five doubles, number of the line in space as
uint64), its groups (uint64 count) and its wireframe (uint64 count; point and segment as uint32, weight as a double).
`wireframe3D.bin`: uint64 count; point and line as uint64, weight as a double.

Groups, such as planes and vanishing points, are left out: their parameters would have to move with the model.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plueckernet.io.atomic import atomic_write_bytes
from plueckernet.io.files import read_bytes
from plueckernet.io.source import Source

SEGMENTS = "structures2d.bin"
WIREFRAME = "wireframe3D.bin"
GROUPS = "groups3D.bin"
NO_LINE = 2**64 - 1  # of a segment that supports no line
_COUNT = struct.Struct("<Q")
_IMAGE = struct.Struct("<II")
_SEGMENT = np.dtype([("ends", "<f8", 4), ("score", "<f8"), ("line", "<u8")])
_FEATURE_BYTES = 4 + 8  # of a group: number and weight
_EDGE_BYTES = 4 + 4 + 8
_EDGE = np.dtype([("point", "<u8"), ("line", "<u8"), ("weight", "<f8")])


@dataclass(frozen=True)
class StructureNumbers:
    """New numbers by old ones. What has no new number is left out."""

    images: Mapping[int, int]
    points: Mapping[int, int]
    lines: Mapping[int, int]


Numbered = tuple[Path | None, StructureNumbers]


def write_joined(folder: Path, models: tuple[Numbered, ...], features: Mapping[int, int]) -> list[str]:
    """Write segments and wireframe of models, each with its new numbers; returns notes about what was left out.

    `features` has the number of points of each image. Images without segments get an empty record, which LIMAP needs.
    """
    notes: list[str] = []
    images: dict[int, bytes] = {image: _record(image, count) for image, count in features.items()}
    edges = []
    for structures, numbers in models:
        if structures is None:
            continue
        if (structures / SEGMENTS).is_file():
            images |= dict(_images(Source(structures / SEGMENTS), numbers))
        elif (structures / SEGMENTS).with_suffix(".txt").is_file():
            notes.append(
                f"{structures}: segments of images are merged from {SEGMENTS} only; those of text were left out"
            )
        if (structures / WIREFRAME).is_file():
            edges.append(_edges(Source(structures / WIREFRAME), numbers))
        if (structures / GROUPS).is_file() and _Reader(Source(structures / GROUPS)).count() > 0:
            notes.append(f"{structures}: planes, vanishing points and other groups were left out")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write_bytes(folder / SEGMENTS) as handle:
        handle.write(_COUNT.pack(len(images)) + b"".join(images[image] for image in sorted(images)))
    with atomic_write_bytes(folder / WIREFRAME) as handle:
        handle.write(_COUNT.pack(sum(map(len, edges))) + b"".join(block.tobytes() for block in edges))
    return notes


class _Reader:
    """The bytes of a file, one after the other."""

    def __init__(self, source: Source) -> None:
        self._source, self._data, self._place = source, read_bytes(source.path), 0

    def take(self, size: int) -> bytes:
        if self._place + size > len(self._data):
            raise self._source.error("the file ends too early")
        self._place += size
        return self._data[self._place - size : self._place]

    def count(self) -> int:
        return int(_COUNT.unpack(self.take(_COUNT.size))[0])


def _record(image: int, points: int, segments: bytes = b"", edges: bytes = b"") -> bytes:
    """An image without groups."""
    count = _COUNT.pack(len(segments) // _SEGMENT.itemsize)
    return (
        _IMAGE.pack(image, points) + count + segments + _COUNT.pack(0) + _COUNT.pack(len(edges) // _EDGE_BYTES) + edges
    )


def _images(source: Source, numbers: StructureNumbers) -> Iterator[tuple[int, bytes]]:
    """Number and record of each image, with new numbers and without groups."""
    reader = _Reader(source)
    for _ in range(reader.count()):
        image, points = _IMAGE.unpack(reader.take(_IMAGE.size))
        segments = np.frombuffer(reader.take(_SEGMENT.itemsize * reader.count()), _SEGMENT).copy()
        segments["line"] = [numbers.lines.get(line, NO_LINE) for line in segments["line"].tolist()]
        for _ in range(reader.count()):
            reader.take(4)  # the kind of a group
            reader.take(_FEATURE_BYTES * reader.count())
            reader.take(_FEATURE_BYTES * reader.count())
            reader.take(8)  # its number in space
        edges = reader.take(_EDGE_BYTES * reader.count())
        if image in numbers.images:
            number = numbers.images[image]
            yield number, _record(number, points, segments.tobytes(), edges)


def _edges(source: Source, numbers: StructureNumbers) -> np.ndarray:
    """The edges between points and lines in space that have new numbers."""
    reader = _Reader(source)
    edges = np.frombuffer(reader.take(_EDGE.itemsize * reader.count()), _EDGE).copy()
    kept = [
        point in numbers.points and line in numbers.lines
        for point, line in zip(edges["point"].tolist(), edges["line"].tolist(), strict=True)
    ]
    edges = edges[np.array(kept, dtype=bool)]
    edges["point"] = [numbers.points[point] for point in edges["point"].tolist()]
    edges["line"] = [numbers.lines[line] for line in edges["line"].tolist()]
    return edges

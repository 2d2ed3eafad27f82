"""LIMAP 2: a COLMAP model with a folder `structures`, in which `lines3D.bin` or `lines3D.txt` has the lines.

Binary, little endian: the number of lines as uint64; for each line its id as uint64, the six coordinates of its ends as
doubles, the number of supporting segments as uint64, for each of these image and segment as uint32, and the uncertainty
of the line as a double, -1 if unknown. The text has the same numbers in the same order, separated by white space.

The uncertainty becomes the noise of the line, the number of distinct images its views.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from plueckernet.errors import InputError
from plueckernet.geometry.lines import LineSet
from plueckernet.io.atomic import atomic_write, atomic_write_bytes
from plueckernet.io.files import make_folder
from plueckernet.io.source import RawLines, Source, is_count, is_number, shown

FOLDER = "structures"
_NAMES = ("lines3D.bin", "lines3D.txt")
_EMPTY = ("structures2d", "groups3D", "wireframe3D")  # LIMAP reads a folder only if it has these, too
_HEAD = struct.Struct("<Q6dQ")  # id, end points, number of supporting segments
_COUNT = struct.Struct("<Q")
_SIGMA = struct.Struct("<d")
_UNKNOWN = -1.0
_SMALLEST = _HEAD.size + _SIGMA.size


@dataclass(frozen=True)
class LineTrack:
    """A line of a LIMAP model."""

    number: int
    ends: tuple[float, ...]  # six coordinates
    support: tuple[tuple[int, int], ...]  # image and segment
    uncertainty: float  # in the unit of the model; not positive if unknown


def lines_file(path: Path) -> Path | None:
    """The file of lines of a model, of its folder `structures`, or the file itself; None if there is none."""
    if path.is_file():
        return path
    folders = (path / FOLDER, path)
    return next((folder / name for folder in folders for name in _NAMES if (folder / name).is_file()), None)


def recognises(source: Source) -> bool:
    """Whether it is a model with lines, or a file of lines."""
    if source.path.is_dir():
        return lines_file(source.path) is not None
    return _is_text(source) or _is_binary(source)


def read(source: Source) -> RawLines:
    """Read the lines of a model."""
    path = lines_file(source.path)
    if path is None:
        raise source.error(f"no {FOLDER}/{_NAMES[0]} or {FOLDER}/{_NAMES[1]}")
    tracks = read_tracks(Source(path, progress=source.progress))
    ends = np.array([track.ends for track in tracks]).reshape(-1, 2, 3)
    sigma, notes = _sigma(np.array([track.uncertainty for track in tracks]))
    return RawLines(
        ends,
        ids=np.array([track.number for track in tracks], dtype=np.int64),
        notes=notes,
        sigma=sigma,
        views=np.array([len({image for image, _ in track.support}) for track in tracks], dtype=np.int64),
    )


def read_tracks(source: Source) -> list[LineTrack]:
    """All lines of a file `lines3D.bin` or `lines3D.txt`, with the segments that support them."""
    return list(_binary_tracks(source) if source.is_binary else _text_tracks(source))


def write(path: Path, lines: LineSet) -> None:
    """Write a file, or the folder `structures` of a model with what LIMAP needs to read it.

    Support is not written: it consists of segments of images, which lines do not know.
    """
    if lines.endpoints is None:
        raise InputError(f"{path}: infinite lines have no end points to write; write .npz, or clip them first")
    tracks = tracks_of(lines)
    if path.suffix and not path.is_dir():
        write_tracks(path, tracks)
        return
    write_structures(path if path.name == FOLDER else path / FOLDER, tracks)


def write_structures(folder: Path, tracks: list[LineTrack]) -> None:
    """Write a folder `structures`; of the files that LIMAP needs, those that exist stay, the others are empty."""
    make_folder(folder)
    for name in _EMPTY:
        if not (folder / f"{name}.bin").exists():
            with atomic_write_bytes(folder / f"{name}.bin") as handle:
                handle.write(_COUNT.pack(0))
    write_tracks(folder / _NAMES[0], tracks)


def tracks_of(lines: LineSet) -> list[LineTrack]:
    """Segments as lines of a model that no image supports."""
    count, ends = len(lines), lines.endpoints
    if ends is None:
        raise InputError("infinite lines have no end points, which LIMAP needs")
    numbers = range(count) if lines.ids is None else lines.ids.tolist()
    sigmas = [_UNKNOWN] * count if lines.sigma is None else lines.sigma.double().tolist()
    rows = map(tuple, ends.double().reshape(-1, 6).tolist())
    return [LineTrack(*values) for values in zip(numbers, rows, [()] * count, sigmas, strict=True)]


def write_tracks(path: Path, tracks: list[LineTrack]) -> None:
    """Write `lines3D.txt` or, for any other suffix than `.txt`, the binary format."""
    if path.suffix == ".txt":
        with atomic_write(path) as text:
            text.write(f"{len(tracks)}\n")
            text.writelines(map(_text_record, tracks))
        return
    with atomic_write_bytes(path) as handle:
        handle.write(_COUNT.pack(len(tracks)))
        for track in tracks:
            handle.write(_HEAD.pack(track.number, *track.ends, len(track.support)))
            handle.write(np.array(track.support, dtype="<u4").tobytes())
            handle.write(_SIGMA.pack(track.uncertainty))


def _text_record(track: LineTrack) -> str:
    ends = " ".join(map(repr, track.ends))
    support = "".join(f"{image} {segment}\n" for image, segment in track.support)
    return f"{track.number}\n{ends}\n{len(track.support)}\n{support}{track.uncertainty!r}\n"


def _is_text(source: Source) -> bool:
    rows = [row.split() for row in source.head_rows[:4]]
    return (
        [len(row) for row in rows] == [1, 1, 6, 1]
        and is_count(rows[0][0])
        and is_count(rows[1][0])
        and all(map(is_number, rows[2]))
        and is_count(rows[3][0])
    )


def _is_binary(source: Source) -> bool:
    """Whether the first lines have finite coordinates, and the file has room for as many as it says."""
    if not source.is_binary or len(source.head) < _COUNT.size + _SMALLEST:
        return False
    size, count = source.path.stat().st_size, _COUNT.unpack_from(source.head)[0]
    if not 0 < count * _SMALLEST <= size - _COUNT.size:
        return False
    place = _COUNT.size
    for _ in range(min(count, 4)):
        if place + _HEAD.size > len(source.head):
            return True
        _, *ends, support = _HEAD.unpack_from(source.head, place)
        place += _SMALLEST + 8 * support
        if not all(map(math.isfinite, ends)) or place > size:
            return False
    return count > 4 or place == size


def _binary_tracks(source: Source) -> Iterator[LineTrack]:
    data = source.path.read_bytes()
    (count,), place = _COUNT.unpack(data[: _COUNT.size].ljust(_COUNT.size, b"\0")), _COUNT.size
    for row in range(count):
        if place + _SMALLEST > len(data):
            raise source.error(f"the file ends within line {row + 1} of {count}")
        number, *ends, support = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        if support > (len(data) - place - _SIGMA.size) // 8:
            raise source.error(f"the file ends within line {row + 1} of {count}")
        pairs = np.frombuffer(data, "<u4", 2 * support, place).reshape(-1, 2)
        place += 8 * support
        yield LineTrack(
            _number(number, source), tuple(ends), _pairs(pairs.tolist()), _SIGMA.unpack_from(data, place)[0]
        )
        place += _SIGMA.size
    if place != len(data):
        raise source.error(f"expected the end after {count} lines, found {len(data) - place} more bytes")


def _text_tracks(source: Source) -> Iterator[LineTrack]:
    tokens = _Tokens(source)
    count = tokens.count("the number of lines")
    for row in range(count):
        name = f"line {row + 1} of {count}"
        number = tokens.count(f"the id of {name}")
        ends = tuple(tokens.number(f"a coordinate of {name}") for _ in range(6))
        support = tokens.count(f"the number of segments of {name}")
        pairs = [(tokens.count(f"an image of {name}"), tokens.count(f"a segment of {name}")) for _ in range(support)]
        yield LineTrack(_number(number, source), ends, tuple(pairs), tokens.number(f"the uncertainty of {name}"))
    tokens.end(f"{count} lines")


class _Tokens:
    """The words of a text file, each with its line for error messages."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._words = ((line, word) for line, text in source.lines() for word in text.split())
        self._line = 1

    def count(self, what: str) -> int:
        word = self._next(what)
        if not is_count(word):
            raise self._source.error(f"expected {what}, found {shown(word)}", self._line)
        return int(word)

    def number(self, what: str) -> float:
        word = self._next(what)
        if not is_number(word):
            raise self._source.error(f"expected {what}, found {shown(word)}", self._line)
        return float(word)

    def end(self, what: str) -> None:
        for line, word in self._words:
            raise self._source.error(f"expected the end after {what}, found {shown(word)}", line)

    def _next(self, what: str) -> str:
        self._line, word = next(self._words, (self._line, ""))
        if not word:
            raise self._source.error(f"the file ends before {what}")
        return word


def _number(number: int, source: Source) -> int:
    if number >= 2**63:
        raise source.error(f"the id {number} of a line is too large")
    return number


def _pairs(rows: list[list[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((image, segment) for image, segment in rows)


def _sigma(uncertainty: Float64[np.ndarray, " n"]) -> tuple[Float64[np.ndarray, " n"] | None, tuple[str, ...]]:
    """The noise of all lines, if that of at least one is known, and a note about those of which it is not."""
    known = np.isfinite(uncertainty) & (uncertainty > 0)
    if not known.any():
        return None, ()
    unknown = int((~known).sum())
    sigma = np.where(known, uncertainty, np.median(uncertainty[known]))
    note = f"{unknown} lines without an uncertainty got the median of the others"
    return sigma, (note,) if unknown else ()

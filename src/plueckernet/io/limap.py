"""LIMAP 1: a folder of line tracks, a single track, or all tracks in one `alltracks.txt`.

A track file `track_7.txt` starts with its 3D segment in six numbers, then `n_segments n_images` and `image_id_list …`.
`alltracks.txt` starts with the number of tracks; each has five lines: `id n_segments n_images`, the two end points,
the image ids and the segment ids. The last two lines are empty if there are no ids. LIMAP's `.npy` is plain NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from plueckernet.errors import FormatError
from plueckernet.io.atomic import atomic_write
from plueckernet.io.rows import write_rows
from plueckernet.io.source import RawLines, Source, is_count, is_number, numbers, shown

TRACK_NAME = re.compile(r"track_(\d{1,15})\.txt")
_LINES_PER_TRACK = 5
_MIN_TRACK_BYTES = 18  # three lines of three digits


def recognises(source: Source) -> bool:
    """Whether it is a folder, a track file or an `alltracks.txt`."""
    if source.path.is_dir():
        return True
    rows = [row.split() for row in source.head_rows[:3]]
    return _is_track(rows) or _is_alltracks(rows)


def read(source: Source) -> RawLines:
    """Read a folder, a track file or an `alltracks.txt`."""
    if source.path.is_dir():
        return _read_folder(source)
    if _is_track([row.split() for row in source.head_rows[:3]]):
        return RawLines(np.array([_track_segment(source)]).reshape(1, 2, 3))
    return _read_alltracks(source)


def write(path: Path, endpoints: Float64[np.ndarray, "n 2 3"]) -> None:
    """Write an `alltracks.txt` of tracks without supporting images."""
    numbered = np.column_stack([np.arange(len(endpoints)), endpoints.reshape(-1, 6)])
    with atomic_write(path) as handle:
        handle.write(f"{len(endpoints)}\n")
        write_rows(handle, "%d 0 0\n%r %r %r\n%r %r %r\n\n\n", numbered)


def _is_track(rows: list[list[str]]) -> bool:
    return len(rows) == 3 and len(rows[0]) == 6 and len(rows[1]) == 2 and rows[2][0] == "image_id_list"


def _is_alltracks(rows: list[list[str]]) -> bool:
    return (
        len(rows) == 3
        and [len(row) for row in rows] == [1, 3, 3]
        and all(map(is_count, rows[0] + rows[1]))
        and all(map(is_number, rows[2]))
    )


def _read_folder(source: Source) -> RawLines:
    entries = ((TRACK_NAME.fullmatch(path.name), path) for path in source.path.iterdir())
    tracks = sorted((int(match[1]), path) for match, path in entries if match)
    if not tracks and any((source.path / name).is_file() for name in ("points3D.bin", "points3D.txt")):
        raise FormatError(source.path, "a COLMAP model without lines: no structures/lines3D of LIMAP 2")
    if not tracks:
        raise FormatError(source.path, "the folder has no LIMAP track_*.txt and no structures/lines3D.bin")
    values = []
    for place, (_, path) in enumerate(tracks):
        values.append(_track_segment(Source(path)))
        if source.progress is not None and place % 1000 == 0:
            source.progress(place / len(tracks))
    ids = np.array([number for number, _ in tracks], dtype=np.int64)
    return RawLines(np.array(values).reshape(-1, 2, 3), ids=ids)


def _track_segment(source: Source) -> list[float]:
    number, line = next(source.lines(), (1, ""))
    fields = line.split()
    if len(fields) != 6:
        raise source.error(f"expected a 3D segment in six columns, found {len(fields)}", number)
    return numbers(fields, source, number)


def _read_alltracks(source: Source) -> RawLines:
    lines = source.lines()
    number, line = next(lines, (1, ""))
    if not is_count(line.strip()):
        raise source.error(f"expected the number of tracks, found {shown(line.strip())}", number)
    count = int(line)
    segments = np.empty((min(count, source.path.stat().st_size // _MIN_TRACK_BYTES + 1), 2, 3))
    ids = np.empty(len(segments), dtype=np.int64)
    for place in range(count):
        ids[place], segments[place] = _next_track(lines, source, f"track {place + 1} of {count}")
    for number, line in lines:
        if line.strip():
            raise source.error(f"expected the end after {count} tracks, found {shown(line.strip())}", number)
    return RawLines(segments, ids=ids)


def _next_track(lines: Iterator[tuple[int, str]], source: Source, name: str) -> tuple[int, list[list[float]]]:
    """The id and the two end points of the track that starts here."""
    block = [entry for _, entry in zip(range(_LINES_PER_TRACK), lines, strict=False)]
    # The last lines may be missing if they are blank, because editors strip them.
    if len(block) < _LINES_PER_TRACK - 2:
        raise source.error(f"the file ends within {name}")
    (number, header), *points = [(at, text.split()) for at, text in block[:3]]
    if len(header) != 3 or not all(map(is_count, header)):
        raise source.error(f"{name}: expected `id segments images`", number)
    for at, fields in points:
        if len(fields) != 3:
            raise source.error(f"{name}: an end point has three columns, found {len(fields)}", at)
    if int(header[1]) > 0 and len(block) < _LINES_PER_TRACK:
        raise source.error(f"the file ends within {name}")
    for at, text in block[3:]:
        if len(text.split()) != int(header[1]):
            raise source.error(f"{name}: expected {header[1]} ids, found {len(text.split())}", at)
    return int(header[0]), [numbers(fields, source, at) for at, fields in points]

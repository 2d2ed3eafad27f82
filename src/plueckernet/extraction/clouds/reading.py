"""`read_points` and `point_chunks`: clouds of any known format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from plueckernet.errors import FormatError, InputError
from plueckernet.extraction.clouds import arrays, pcd, ply, surveys, text
from plueckernet.extraction.clouds.chunks import Chunks
from plueckernet.io import limap, limap2
from plueckernet.io import ply as line_ply
from plueckernet.io.files import check_regular
from plueckernet.io.registry import FORMATS
from plueckernet.io.source import POINT_COLUMNS, Source, is_number

CHUNK = 1_000_000  # points read at a time

Reader = Callable[[Source, int], Chunks]


@dataclass(frozen=True)
class CloudFormat:
    """A format of clouds: name, file suffixes, reader, and a test of the content where the format has a signature."""

    name: str
    suffixes: tuple[str, ...]
    read: Reader
    recognises: Callable[[Source], bool] | None = None


CLOUD_FORMATS = (
    CloudFormat("ply", (".ply",), ply.read_ply, line_ply.recognises),
    CloudFormat("pcd", (".pcd",), pcd.read_pcd, pcd.recognises_pcd),
    CloudFormat("las", (".las", ".laz"), surveys.read_las, surveys.recognises_las),
    CloudFormat("e57", (".e57",), surveys.read_e57, surveys.recognises_e57),
    CloudFormat("npy", (".npy",), arrays.read_npy, arrays.recognises_npy),
    CloudFormat("vtk", (".vtk",), text.read_vtk, text.recognises_vtk),
    CloudFormat("bin", (".bin",), arrays.read_bin),
    CloudFormat("text", (".xyz", ".txt", ".csv", ".pts", ".asc"), text.read_table),
)


_CLOUD_NAMES = {known.name for known in CLOUD_FORMATS}
_LINE_NAMES = {known.name for known in FORMATS}
_ONLY_CLOUDS = {".xyz", ".pts", ".asc", ".vtk", ".las", ".laz", ".e57", ".pcd"}


def is_cloud(path: Path, format: str | None = None) -> bool:
    """Whether a file has points and no lines: by its signature, its elements or columns, or its suffix.

    ``format`` is its format as the user names it. Names that only clouds, or only lines, have decide by themselves.
    """
    name = None if format is None else format.lower()
    if name is not None and (name in _LINE_NAMES) != (name in _CLOUD_NAMES):
        return name in _CLOUD_NAMES
    if not path.is_file():
        return False
    source = Source(path)
    if surveys.recognises_las(source) or surveys.recognises_e57(source) or pcd.recognises_pcd(source):
        return True
    if line_ply.recognises(source):
        return {element.name for element in line_ply.read_header(source).elements if element.count} == {"vertex"}
    suffix = path.suffix.lower()
    if arrays.recognises_npy(source):
        return _columns_of_array(path) in POINT_COLUMNS
    if suffix in (".txt", ".csv") and len(source.head_rows) > 1:
        names, fields = (row.replace(";", ",").replace(",", " ").split() for row in source.head_rows[:2])
        if {"x", "y", "z"} <= {name.strip("\"'").lower() for name in names}:
            return True
        return len(fields) in POINT_COLUMNS and all(map(is_number, fields)) and not limap.recognises(source)
    return suffix in _ONLY_CLOUDS or (suffix == ".bin" and not limap2.recognises(source))


def _columns_of_array(path: Path) -> int:
    """Number of columns of a table; 0 for any other array."""
    try:
        shape = np.load(path, mmap_mode="r", allow_pickle=False).shape
    except (ValueError, EOFError, OSError):
        return 0
    return int(shape[1]) if len(shape) == 2 else 0


def point_chunks(path: str | Path, size: int = CHUNK, *, format: str | None = None) -> Chunks:
    """The points of a file, about ``size`` at a time; rows that are not finite are left out.

    Args:
        path: PLY, PCD, LAS, LAZ, E57, NPY, legacy VTK, KITTI's `.bin`, or rows of text.
        size: Number of points per chunk.
        format: One of the names in `CLOUD_FORMATS`; by default content and suffix decide.

    Raises:
        FormatError: The file cannot be read; the message has its name and, for text, the line.
    """
    source = Source(Path(path))
    check_regular(source.path)
    try:
        if source.path.is_dir():
            raise source.error("a folder, not a point cloud")
        if source.path.stat().st_size == 0:
            raise source.error("the file is empty")
        for points in _format(source, format).read(source, size):
            yield points[np.isfinite(points).all(axis=1)]
    except OSError as error:
        raise FormatError(path, (error.strerror or str(error)).lower()) from error


def read_points(path: str | Path, *, format: str | None = None) -> Float64[np.ndarray, "n 3"]:
    """All points of a file; see `point_chunks`."""
    points = np.concatenate([np.empty((0, 3)), *point_chunks(path, format=format)])
    if len(points) == 0:
        raise FormatError(path, "no points with finite coordinates")
    return points


def _format(source: Source, name: str | None) -> CloudFormat:
    names = ", ".join(known.name for known in CLOUD_FORMATS)
    if name is not None:
        named = next((known for known in CLOUD_FORMATS if known.name == name.lower()), None)
        if named is None:
            raise InputError(f"unknown format {name!r}; known: {names}")
        return named
    by_content = (known for known in CLOUD_FORMATS if known.recognises is not None and known.recognises(source))
    by_suffix = (known for known in CLOUD_FORMATS if source.path.suffix.lower() in known.suffixes)
    recognised = next(by_content, None) or next(by_suffix, None)
    if recognised is None:
        raise source.error(f"unrecognised; known formats of point clouds: {names}")
    return recognised

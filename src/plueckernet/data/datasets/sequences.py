"""A folder of sensor data in any known layout as a sequence of frames."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from plueckernet.data.datasets.frames import CloudFrame, LinesFrame, SensorFrame
from plueckernet.data.datasets.kitti import kitti_sequence
from plueckernet.data.datasets.rgbd import seven_scenes_sequence, tum_sequence
from plueckernet.errors import FormatError, InputError
from plueckernet.io.ply import read_header
from plueckernet.io.registry import FORMATS, format_of_suffix
from plueckernet.io.source import Source
from plueckernet.io.trajectories import read_tum_trajectory

_log = logging.getLogger("plueckernet")
_TRUTH = "groundtruth.txt"
_SCAN_SUFFIXES = (".pcd", ".las", ".laz", ".bin", ".e57")
_FORMATS_OF_BOTH = ("ply", "npy")  # that lines and clouds may have


def lines_sequence(folder: Path, format: str | None = None) -> list[LinesFrame]:
    """The line maps of a folder in alphabetical order; the index is used as the time.

    ``groundtruth.txt`` in the same folder has the poses in the format of TUM, with indices as times. If the format is
    given, all other files are maps.
    """
    files = [path for path in _entries(folder) if format is not None or _is_map(path)]
    truth = read_tum_trajectory(folder / _TRUTH) if (folder / _TRUTH).exists() else None
    return [
        LinesFrame(path.stem, float(index), path, None if truth is None else truth.at(float(index)), format)
        for index, path in enumerate(files)
    ]


def scans_sequence(folder: Path, format: str | None = None) -> list[CloudFrame]:
    """The point clouds of a folder in alphabetical order; other files are left out, with a warning.

    As in :func:`lines_sequence`, the index is used as the time, ``groundtruth.txt`` may have the poses, and all other
    files are scans if their format is given.
    """
    entries = _entries(folder)
    files = [path for path in entries if format is not None or _is_scan(path)]
    others = [path.name for path in entries if path not in set(files)]
    if others:
        _log.warning("%s: %d files are no scans and are left out: %s", folder, len(others), ", ".join(others[:5]))
    truth = read_tum_trajectory(folder / _TRUTH) if (folder / _TRUTH).exists() else None
    return [
        CloudFrame(path.stem, float(index), path, None if truth is None else truth.at(float(index)), format=format)
        for index, path in enumerate(files)
    ]


LAYOUTS: dict[str, Callable[[Path], Sequence[SensorFrame]]] = {
    "tum": tum_sequence,
    "7scenes": seven_scenes_sequence,
    "kitti": kitti_sequence,
    "lines": lines_sequence,
    "scans": scans_sequence,
}


_OF_ANY_FORMAT: dict[str, Callable[[Path, str | None], Sequence[SensorFrame]]] = {
    "lines": lines_sequence,
    "scans": scans_sequence,
}


def open_sequence(folder: Path, layout: str | None = None, format: str | None = None) -> list[SensorFrame]:
    """The frames of a sequence; by default the layout, and the format of scans or line maps, are recognised."""
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"unknown layout {layout!r}; available: {', '.join(LAYOUTS)}")
    if not folder.is_dir():
        raise FormatError(folder, "expected a folder")
    chosen = layout or _recognised(folder, format)
    if format is not None and chosen not in _OF_ANY_FORMAT:
        raise InputError(f"{folder}: a format can be chosen for scans and line maps; the layout is {chosen}")
    frames = list(LAYOUTS[chosen](folder) if format is None else _OF_ANY_FORMAT[chosen](folder, format))
    if not frames:
        raise FormatError(folder, "no frames in it: neither TUM, 7-Scenes, KITTI, scans nor files of lines")
    return frames


def _entries(folder: Path) -> list[Path]:
    """The files of a folder but the one with the poses."""
    return [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != _TRUTH]


def _recognised(folder: Path, format: str | None) -> str:
    if (folder / "associations.txt").exists() or ((folder / "rgb.txt").exists() and (folder / "depth.txt").exists()):
        return "tum"
    if next(folder.glob("frame-*.depth.png"), None) is not None:
        return "7scenes"
    if (folder / "velodyne").is_dir():
        return "kitti"
    if format is not None and format.lower() not in _FORMATS_OF_BOTH:
        return "lines" if format.lower() in {known.name for known in FORMATS} else "scans"
    entries = _entries(folder)
    scans = sum(map(_is_scan, entries))
    maps = sum(_is_map(path) and not _is_scan(path) for path in entries)
    return "scans" if scans > maps else "lines"


def _is_scan(path: Path) -> bool:
    """Whether it is a point cloud: by its suffix, and of PLY by its elements."""
    if path.suffix.lower() != ".ply":
        return path.suffix.lower() in _SCAN_SUFFIXES
    try:
        names = {element.name for element in read_header(Source(path)).elements}
    except FormatError:
        return False
    return "vertex" in names and not names & {"edge", "face"}


def _is_map(path: Path) -> bool:
    return format_of_suffix(path) is not None

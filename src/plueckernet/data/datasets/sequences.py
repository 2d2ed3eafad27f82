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
from plueckernet.io.registry import format_of_suffix
from plueckernet.io.source import Source
from plueckernet.io.trajectories import read_tum_trajectory

_log = logging.getLogger("plueckernet")
_TRUTH = "groundtruth.txt"
_SCAN_SUFFIXES = (".pcd", ".las", ".laz", ".bin", ".e57")


def lines_sequence(folder: Path) -> list[LinesFrame]:
    """The line maps of a folder in alphabetical order; the index is used as the time.

    ``groundtruth.txt`` in the same folder has the poses in the format of TUM, with indices as times.
    """
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and _is_map(path)]
    truth = read_tum_trajectory(folder / _TRUTH) if (folder / _TRUTH).exists() else None
    return [
        LinesFrame(path.stem, float(index), path, None if truth is None else truth.at(float(index)))
        for index, path in enumerate(files)
    ]


def scans_sequence(folder: Path) -> list[CloudFrame]:
    """The point clouds of a folder in alphabetical order; other files are left out, with a warning.

    As in :func:`lines_sequence`, the index is used as the time and ``groundtruth.txt`` may have the poses.
    """
    entries = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != _TRUTH]
    files = [path for path in entries if _is_scan(path)]
    others = [path.name for path in entries if path not in set(files)]
    if others:
        _log.warning("%s: %d files are no scans and are left out: %s", folder, len(others), ", ".join(others[:5]))
    truth = read_tum_trajectory(folder / _TRUTH) if (folder / _TRUTH).exists() else None
    return [
        CloudFrame(path.stem, float(index), path, None if truth is None else truth.at(float(index)))
        for index, path in enumerate(files)
    ]


LAYOUTS: dict[str, Callable[[Path], Sequence[SensorFrame]]] = {
    "tum": tum_sequence,
    "7scenes": seven_scenes_sequence,
    "kitti": kitti_sequence,
    "lines": lines_sequence,
    "scans": scans_sequence,
}


def open_sequence(folder: Path, layout: str | None = None) -> list[SensorFrame]:
    """The frames of a sequence; by default the layout is recognised from the files."""
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"unknown layout {layout!r}; available: {', '.join(LAYOUTS)}")
    if not folder.is_dir():
        raise FormatError(folder, "expected a folder")
    frames = list(LAYOUTS[layout or _recognised(folder)](folder))
    if not frames:
        raise FormatError(folder, "no frames in it: neither TUM, 7-Scenes, KITTI, scans nor files of lines")
    return frames


def _recognised(folder: Path) -> str:
    if (folder / "associations.txt").exists() or ((folder / "rgb.txt").exists() and (folder / "depth.txt").exists()):
        return "tum"
    if next(folder.glob("frame-*.depth.png"), None) is not None:
        return "7scenes"
    if (folder / "velodyne").is_dir():
        return "kitti"
    scans = sum(path.is_file() and _is_scan(path) for path in folder.iterdir())
    maps = sum(path.is_file() and _is_map(path) and not _is_scan(path) for path in folder.iterdir())
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
    return path.name != _TRUTH and format_of_suffix(path) is not None

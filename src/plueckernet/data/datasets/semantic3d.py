"""Semantic3D, semantic-8: terrestrial scans as text with rows ``x y z intensity r g b``.

The files are named ``STATION_xyz_intensity_rgb.txt``; the separate label files are not used.
"""

from __future__ import annotations

from pathlib import Path

from plueckernet.errors import FormatError

_SUFFIX = "_xyz_intensity_rgb.txt"
CELL_SIZE = 10.0  # m, as in the paper
MIN_CELL_LINES = 20  # cells with fewer lines are dropped


def semantic3d_clouds(folder: Path) -> dict[str, Path]:
    """The clouds under a folder by station, in alphabetical order."""
    clouds = {path.name.removesuffix(_SUFFIX): path for path in sorted(folder.rglob(f"*{_SUFFIX}"))}
    if not clouds:
        packed = len(list(folder.rglob("*.7z")))
        hint = f"; unpack its {packed} .7z files first" if packed else ""
        raise FormatError(folder, f"the folder has no *{_SUFFIX}{hint}")
    return clouds
